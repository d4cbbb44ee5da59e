"""The tasks on mentions of events, from their data to a result."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from tiny import save_tiny_bi_encoder, save_tiny_cross_encoder

from eventformers.baselines import get_baseline
from eventformers.datasets_scripts import build_dataset
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.errors import EventformersError
from eventformers.evaluation import evaluate
from eventformers.evaluation.data import load_data
from eventformers.evaluation.results import load_results
from eventformers.evaluation.session import Session
from eventformers.evaluation.significance import answers_of
from eventformers.evaluation.tasks import get_task
from eventformers.evaluation.tasks.grounding import GroundingSettings
from eventformers.inference.encode import load_encoder
from eventformers.inference.grounding import retrieve_rerank
from eventformers.inference.grounding.encoding import load_cross_encoder
from eventformers.inference.grounding.retrieve_rerank import grounding_model

TASKS = ("event_retrieval", "event_linking", "parent_discovery")

pytestmark = pytest.mark.filterwarnings("ignore:.*were truncated", "ignore:.*themselves longer than")


@pytest.fixture(scope="module")
def bi_encoder(tmp_path_factory, tiny_encoder):
    folder = save_tiny_bi_encoder(tiny_encoder, tmp_path_factory.mktemp("models") / "bi", pooling="mean")
    (folder / "run.json").write_text(json.dumps({"encoder": str(tiny_encoder), "recipe": {"seed": 3}}))
    return folder


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory, tiny_encoder):
    folder = tmp_path_factory.mktemp("models") / "cross"
    return save_tiny_cross_encoder(tiny_encoder, folder, mention_tokens=40, event_tokens=24)


@pytest.mark.parametrize("name", TASKS)
def test_a_trained_model_stands_beside_its_untrained_encoder(
    name, bi_encoder, tiny_encoder, tmp_path, memory
):
    result = evaluate(bi_encoder, name, output=tmp_path, session=memory)
    untrained = evaluate(tiny_encoder, name, session=memory)
    assert result.baseline.scores == untrained.scores != result.scores
    assert 100 * np.mean(answers_of(result)) == pytest.approx(result.main_value)
    assert (result.seed, result.dataset.split, result.dataset.rows) == (3, "test", 43)
    assert result.details["pools"] == dict.fromkeys(("de", "en", "es", "fr"), 75)
    assert {"de", "en", "es", "fr"} <= set(result.parts)
    assert sum(part for name, part in result.details["cut"].items()) >= result.truncated > 0
    assert len(load_results(tmp_path)) == 1


def test_each_text_is_encoded_once_for_all_tasks(bi_encoder, monkeypatch):
    calls = []
    encode = retrieve_rerank.encode_texts

    def counted(encoder, side, texts, **settings):
        calls.append((encoder.name, side, len(texts)))
        return encode(encoder, side, texts, **settings)

    monkeypatch.setattr(retrieve_rerank, "encode_texts", counted)
    memory = Session()
    truncated = {
        evaluate(bi_encoder, name, session=memory, baseline=False).truncated
        for name in ("event_retrieval", "parent_discovery")
    }
    assert calls == [("bi", "event", 300), ("bi", "mention", 43)]
    assert len(truncated) == 1
    evaluate(bi_encoder, "event_linking", session=memory, baseline=False)
    # The threshold is chosen on other mentions.
    assert calls[2:] == [("bi", "mention", 35)]


def test_a_cross_encoder_orders_candidates_anew(bi_encoder, cross_encoder, tmp_path, memory):
    settings = GroundingSettings(reranker=str(cross_encoder), candidates=4)
    result = evaluate(bi_encoder, "event_linking", output=tmp_path, settings=settings, session=memory)
    own = evaluate(bi_encoder, "event_linking", settings=GroundingSettings(candidates=4), session=memory)
    assert {len(row["candidates"]) for row in result.predictions} == {4}
    for mine, other in zip(result.predictions, own.predictions, strict=True):
        assert sorted(mine["candidates"]) == sorted(other["candidates"])
    assert result.predictions != own.predictions
    revision = result.settings["reranker"]["revision"]
    assert result.settings["reranker"] == {"model": "cross", "revision": revision}
    assert result.variant == f"candidates-4-reranker-cross-{revision[:8]}"
    assert result.details["threshold_chosen_on"] == "validation"
    assert set(result.details["cut"]) > set(own.details["cut"])
    # The untrained encoder has no cross-encoder.
    assert result.baseline.scores == own.baseline.scores
    assert result.baseline.settings["reranker"] is None
    weighted = replace(settings, retriever_weight=1e9)
    same_order = evaluate(bi_encoder, "event_linking", settings=weighted, session=memory)
    plain_order = [row["candidates"] for row in own.predictions]
    assert [row["candidates"] for row in same_order.predictions] == plain_order
    assert same_order.settings["retriever_weight"] == 1e9
    assert same_order.baseline.settings["retriever_weight"] == 0
    assert same_order.variant == f"retriever_weight-1000000000.0-candidates-4-reranker-cross-{revision[:8]}"
    assert GroundingSettings(retriever_weight=30).name == GroundingSettings(retriever_weight=30.0).name
    alone = GroundingSettings(retriever_weight=2)
    with pytest.raises(EventformersError, match=r"retriever_weight: found 2\.0 without a reranker"):
        evaluate(bi_encoder, "event_linking", settings=alone)
    with pytest.raises(EventformersError, match="retriever_weight: found -1; accepted: a number from 0"):
        GroundingSettings(retriever_weight=-1)
    with pytest.raises(EventformersError, match="the type event_grounding, which does not score pairs"):
        evaluate(bi_encoder, "event_linking", settings=GroundingSettings(reranker=str(bi_encoder)))
    with pytest.raises(EventformersError, match="cross is a cross-encoder, which scores pairs and returns"):
        evaluate(cross_encoder, "event_retrieval", baseline=False)


def test_settings_decide_on_places_and_fingerprints(bi_encoder, tmp_path, memory):
    results = [
        evaluate(
            bi_encoder,
            name,
            split=split,
            output=tmp_path,
            settings=settings,
            session=memory,
            baseline=False,
        )
        for name, split, settings in (
            ("event_linking", None, GroundingSettings()),
            ("event_linking", None, GroundingSettings(threshold=0.3)),
            ("event_linking", "validation", None),
            ("parent_discovery", None, GroundingSettings(depth=2)),
        )
    ]
    assert [result.variant for result in results] == ["", "threshold-0.3", "validation", "depth-2"]
    assert results[2].details["threshold_chosen_on"] == "validation, the scored split itself"
    # With a threshold that is given the validation rows decide nothing.
    assert len({result.dataset.fingerprint for result in results}) == 4
    assert results[0].dataset.rows == results[1].dataset.rows


def test_the_crosslingual_task_has_one_english_pool(bi_encoder, memory):
    settings = GroundingSettings(task="crosslingual")
    result = evaluate(bi_encoder, "event_retrieval", settings=settings, session=memory, baseline=False)
    assert result.details["pools"] == {"en": 75}
    assert set(result.parts) == {"de", "en", "es", "fr", "with_parents"}
    assert result.variant == "task-crosslingual"


def test_wikinews_is_another_domain(bi_encoder, memory):
    news = GroundingSettings(domain="wikinews")
    result = evaluate(bi_encoder, "event_retrieval", settings=news, session=memory, baseline=False)
    assert result.dataset.rows == 10
    with pytest.raises(EventformersError, match="found no split 'validation' to choose a threshold on"):
        evaluate(bi_encoder, "event_linking", settings=news, session=memory)
    given = GroundingSettings(domain="wikinews", threshold=0.5)
    assert evaluate(bi_encoder, "event_linking", settings=given, session=memory).dataset.rows == 10


def test_scores_of_a_trained_model_become_logits_by_its_own_scale(tiny_encoder, tmp_path):
    folder = save_tiny_bi_encoder(tiny_encoder, tmp_path / "bi", score_scale=2, score_bias=-1.0)
    model = grounding_model(load_encoder(folder))
    assert model.logits(np.array([1.5, 0], dtype=np.float32)).tolist() == [2, -1]
    assert grounding_model(load_encoder(tiny_encoder)).logits is None


def test_scores_that_were_learned_by_a_softmax_become_shares_of_a_mention(tiny_encoder, tmp_path):
    bi_encoder = save_tiny_bi_encoder(
        tiny_encoder, tmp_path / "bi", score_scale=2, linking_objective="softmax", normalise=True
    )
    cross_encoder = load_cross_encoder(
        save_tiny_cross_encoder(tiny_encoder, tmp_path / "cross", linking_objective="softmax")
    )
    model = grounding_model(load_encoder(bi_encoder), cross_encoder)
    logits = model.logits(np.array([[1.5, 0.5], [0.25, -np.inf]], dtype=np.float32))
    assert logits[0].tolist() == pytest.approx([2, -2])
    assert logits[1, 0] > 30
    assert logits[1, 1] == -np.inf
    assert model.pairs_by_softmax
    binary = load_cross_encoder(save_tiny_cross_encoder(tiny_encoder, tmp_path / "binary"))
    assert not grounding_model(load_encoder(bi_encoder), binary).pairs_by_softmax


def test_data_without_events_or_edges_are_refused(tmp_path):
    samples = SAMPLES / "event_hierarchies"
    for name in ("wikipedia.train.jsonl", "wikipedia-zero-shot.dev.jsonl"):
        shutil.copy(samples / name, tmp_path)
    with pytest.raises(EventformersError, match="events"):
        load_data(get_task("event_retrieval"), tmp_path, None)
    shutil.copy(samples / "label_dict.jsonl", tmp_path)
    retrieval = load_data(get_task("event_retrieval"), tmp_path, None)
    assert retrieval.split == "validation"
    assert list(retrieval.companion_rows) == ["events"]
    with pytest.raises(EventformersError, match="hierarchy"):
        load_data(get_task("parent_discovery"), tmp_path, None)


def test_edges_are_those_of_the_scored_split():
    task = get_task("parent_discovery")
    rows = {split: load_data(task, None, split).companion_rows for split in ("test", "validation")}
    assert len(rows["test"]["events"]) == len(rows["validation"]["events"]) == 300
    edges = {split: set(of_split["hierarchy"]["child_id"]) for split, of_split in rows.items()}
    assert all(edges.values())
    assert not edges["test"] & edges["validation"]
    held = replace(load_data(task, None, "test"), split="dev")
    with pytest.raises(
        EventformersError, match=r"hierarchy: found the splits .*; accepted: data with the scored split 'dev'"
    ):
        assert held.companion_rows


def test_bm25_stands_in_the_same_tables(tmp_path):
    results = [get_baseline("bm25")(name, output=tmp_path) for name in TASKS]
    assert {result.model for result in results} == {"bm25"}
    # Mentions of the samples share words with their events.
    assert results[0].scores["atomic_at_16"] > 60
    assert results[0].settings["saturation"] == 1.2
    assert len(load_results(tmp_path)) == 3
    other = get_baseline("bm25")("event_linking", grounding=GroundingSettings(threshold=0.5))
    assert other.variant == "threshold-0.5"
    with pytest.raises(
        EventformersError, match="bm25 does not support the task 'copa'; accepted: event_retrieval"
    ):
        get_baseline("bm25")("copa")
    with pytest.raises(EventformersError, match="bm25 with a re-ranker; accepted: no reranker"):
        get_baseline("bm25")("event_linking", grounding=GroundingSettings(reranker="x"))


def test_settings_that_built_data_do_not_have_are_refused(bi_encoder, tmp_path):
    built = build_dataset("event_hierarchies", output=tmp_path / "built")
    chosen = {"domain": "wikinews"}
    with pytest.raises(
        EventformersError, match="built with domain='wikipedia'; accepted for domain=wikinews:"
    ):
        evaluate(bi_encoder, "event_retrieval", data=built, settings=chosen)
    for report in built.glob("*/build_report.json"):
        report.unlink()
    with pytest.raises(EventformersError, match="built with unknown settings"):
        evaluate(bi_encoder, "event_retrieval", data=built, settings=chosen)
    of_news = build_dataset("event_hierarchies", output=tmp_path / "news", **chosen)
    found = evaluate(bi_encoder, "event_retrieval", data=of_news, settings=chosen, baseline=False)
    assert found.dataset.rows == 10
