"""Our tasks under MTEB give the scores of `eventformers evaluate`."""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from eventformers import load_metric
from eventformers.datasets_scripts import build_dataset
from eventformers.errors import EventformersError
from eventformers.evaluation import evaluate
from eventformers.inference.encode import load_encoder
from eventformers.models.sentence_transformers_files import write_sentence_transformers_files


def test_without_mteb_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mteb.abstasks", None)
    monkeypatch.delitem(sys.modules, "eventformers.evaluation.mteb_tasks", raising=False)
    with pytest.raises(EventformersError, match=r'pip install "eventformers\[mteb\]"'):
        __import__("eventformers.evaluation.mteb_tasks")


@pytest.fixture(scope="module")
def model(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny SWCC in its own order of roles, which sentence-transformers loads."""
    from eventformers import SwccModel

    folder = tmp_path_factory.mktemp("mteb") / "model"
    SwccModel.from_encoder(str(tiny_encoder), event_order="predicate_first").save_pretrained(folder)
    encoder = load_encoder(tiny_encoder, device="cpu")
    encoder.tokenizer.save_pretrained(folder)
    loaded = load_encoder(folder, device="cpu")
    write_sentence_transformers_files(loaded.model, folder, loaded.tokenizer)
    return folder


def test_scores_equal_those_of_evaluate(model: Path, tmp_path: Path) -> None:
    mteb = pytest.importorskip("mteb", reason="mteb is not installed: it brings 270 MB")
    from sentence_transformers import SentenceTransformer

    from eventformers.evaluation import mteb_tasks

    cloze = build_dataset("event_chains", "mcnc", None, tmp_path / "chains")
    tasks = [
        mteb_tasks.HardSimilarity(event_order="predicate_first"),
        mteb_tasks.HardSimilarityExtended(event_order="predicate_first"),
        mteb_tasks.TransitiveSimilarity(event_order="predicate_first"),
        mteb_tasks.NarrativeCloze(cloze, split="validation", event_order="predicate_first"),
    ]
    names = {task.metadata.name: type(task).task for task in tasks}
    encoder = SentenceTransformer(str(model), device="cpu")
    results = mteb.evaluate(
        encoder, tasks, cache=None, show_progress_bar=False, prediction_folder=tmp_path / "predictions"
    )
    assert len(list(results)) == len(tasks)
    for result in results:
        name = names[result.task_name]
        data, split = (cloze, "validation") if name == "mcnc" else (None, "test")
        expected = evaluate(model, name, data=data, split=split, baseline=False, device="cpu")
        assert list(result.scores) == [split]
        [scores] = result.scores[split]
        assert scores["main_score"] == pytest.approx(expected.main_value, abs=1e-6)
        assert {key: scores[key] for key in expected.scores} == pytest.approx(expected.scores, abs=1e-6)
        assert result.dataset_revision == expected.dataset.fingerprint
    assert len(list((tmp_path / "predictions").iterdir())) == len(tasks)


def test_unloaded_tasks_load_again() -> None:
    pytest.importorskip("mteb", reason="mteb is not installed: it brings 270 MB")
    from eventformers.evaluation.mteb_tasks import HardSimilarity

    task = HardSimilarity()
    revision, rows = task.metadata.dataset["revision"], len(task.dataset["default"]["test"])
    assert revision != HardSimilarity.metadata.dataset["revision"]
    task.unload_data()
    task.load_data()
    assert (task.metadata.dataset["revision"], len(task.dataset["default"]["test"])) == (revision, rows)


def test_types_are_clustered_by_the_vectors_of_sentences(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors that tell the types of sentences apart; clusters of a random encoder would depend on the order
    of sums."""
    mteb = pytest.importorskip("mteb", reason="mteb is not installed: it brings 270 MB")
    from sentence_transformers import SentenceTransformer

    from eventformers.evaluation import mteb_tasks

    task = mteb_tasks.TypeInduction()
    rows = [row for row in task.dataset["default"]["train"] if not row["seen"] and row["event_type"]]
    # Some sentences have mentions of two types, which their text cannot tell apart.
    type_of = {row["text"]: row["event_type"] for row in rows}
    names = sorted({row["event_type"] for row in rows})
    assert {*type_of.values()} == {*names}
    asked: list[str] = []

    def encode(self: SentenceTransformer, texts: list[str], **settings: object) -> np.ndarray:
        asked.extend(texts)
        noise = np.random.default_rng(0).normal(0, 0.01, (len(texts), len(names)))
        return (np.eye(len(names))[[names.index(type_of[text]) for text in texts]] + noise).astype(np.float32)

    monkeypatch.setattr(SentenceTransformer, "encode", encode)
    [result] = mteb.evaluate(
        SentenceTransformer(str(model), device="cpu"), [task], cache=None, show_progress_bar=False
    )
    [scores] = result.scores["train"]
    assert asked == [row["text"] for row in rows]
    expected = load_metric("clustering_nmi").compute(
        predictions=[names.index(type_of[row["text"]]) for row in rows],
        references=[row["event_type"] for row in rows],
    )
    assert 50 < expected["nmi"] < 100
    assert scores["main_score"] == pytest.approx(expected["nmi"])


def test_retrieval_and_coreference_have_the_scores_of_mteb(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They equal what the vectors give by hand, which are drawn from the texts."""
    mteb = pytest.importorskip("mteb", reason="mteb is not installed: it brings 270 MB")
    from sentence_transformers import SentenceTransformer

    from eventformers.evaluation import mteb_tasks

    def encode(self: SentenceTransformer, inputs: list[str], **settings: object) -> np.ndarray:
        drawn = [np.random.default_rng(zlib.crc32(text.encode())).normal(size=8) for text in inputs]
        return (np.array(drawn) / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)

    monkeypatch.setattr(SentenceTransformer, "encode", encode)
    tasks = [mteb_tasks.EventRetrieval(), mteb_tasks.EventCoreferencePairs()]
    encoder = SentenceTransformer(str(model), device="cpu")
    retrieval, pairs = mteb.evaluate(encoder, tasks, cache=None, show_progress_bar=False)

    data = tasks[0].dataset["default"]["test"]
    assert {len(data["queries"]), len(data["relevant_docs"])} == {len(data["queries"])} != {0}
    assert max(map(len, data["relevant_docs"].values())) > 1
    entries = encoder.encode([f"{row['title']} {row['text']}" for row in data["corpus"]])
    cosines = encoder.encode(data["queries"]["text"][:]) @ entries.T
    ids = data["corpus"]["id"][:]
    recalls = []
    for query, scores in zip(data["queries"]["id"], cosines, strict=True):
        found = {ids[place] for place in np.argsort(-scores, kind="stable")[:10]}
        gold = set(data["relevant_docs"][query])
        recalls.append(len(found & gold) / len(gold))
    [scores] = retrieval.scores["test"]
    assert scores["recall_at_10"] == pytest.approx(np.mean(recalls), abs=1e-4)
    assert scores["main_score"] == scores["ndcg_at_10"] > 0

    rows = tasks[1].dataset["default"]["test"]
    assert set(rows["labels"]) == {0, 1}
    both = [encoder.encode(rows[name][:]) for name in ("sentence1", "sentence2")]
    [scores] = pairs.scores["test"]
    expected = average_precision_score(rows["labels"][:], (both[0] * both[1]).sum(1))
    assert scores["cosine_ap"] == pytest.approx(expected, abs=0.01)
    assert scores["main_score"] == scores["max_ap"]


def test_pairs_of_many_mentions_without_topics_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("mteb", reason="mteb is not installed: it brings 270 MB")
    from eventformers.evaluation import mteb_tasks

    mentions = [("fire", "a"), ("Fire", "b"), ("blaze", "a"), ("storm", "c"), ("storm", "c"), ("vote", "d")]
    rows = [
        {"document_id": str(number), "cluster_id": event, "trigger": trigger, "text": f"The {trigger}."}
        for number, (trigger, event) in enumerate(mentions)
    ]
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    def pairs() -> list[tuple[str, str, int]]:
        [scored] = mteb_tasks.EventCoreferencePairs(tmp_path).dataset["default"].values()
        return list(zip(scored["sentence1"], scored["sentence2"], scored["labels"], strict=True))

    assert len(pairs()) == 15
    assert not caplog.records
    monkeypatch.setattr(mteb_tasks, "MOST_PAIRS", 14)
    assert pairs() == [
        ("fire: The fire.", "Fire: The Fire.", 0),
        ("fire: The fire.", "blaze: The blaze.", 1),
        ("storm: The storm.", "storm: The storm.", 1),
    ]
    assert "EventCoreferencePairs scores 3 of 15 pairs" in caplog.text
    monkeypatch.setattr(mteb_tasks, "MOST_PAIRS", 2)
    assert [label for _, _, label in pairs()] == [0, 1]
