"""Completing a query and answering a question; the index of alternatives and the votes of premises."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict
from graphs import pairs_of
from tiny import save_tiny_cross_encoder
from transformers import AutoConfig, AutoProcessor, AutoTokenizer, BertForSequenceClassification, pipeline

import eventformers
from eventformers import cli
from eventformers.commands.options import console
from eventformers.datasets_scripts.relation_templates import relation_templates
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.inference.commonsense import alternative_index as module
from eventformers.inference.commonsense import complete as many
from eventformers.inference.commonsense.alternative_index import (
    AlternativeIndex,
    AlternativeRecord,
    Votes,
    build_alternative_index,
    expanded,
    graph_fingerprint,
    neighbour_votes,
    voted_ranking,
)
from eventformers.inference.commonsense.complete import Query, answer, complete, read_query
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.grounding.encoding import load_cross_encoder
from eventformers.inference.search import candidate_index
from eventformers.inference.search.index_folder import read_record
from eventformers.training import train

CONCEPTNET = relation_templates("conceptnet")
ATOMIC = relation_templates("atomic")


@pytest.fixture(scope="module")
def pairs() -> DatasetDict:
    return pairs_of()


@pytest.fixture(scope="module")
def index(
    encoder: EventEncoder, pairs: DatasetDict, tmp_path_factory: pytest.TempPathFactory
) -> AlternativeIndex:
    folder = tmp_path_factory.mktemp("indexes") / "index"
    return build_alternative_index(encoder, pairs, folder, graph="conceptnet")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("storm, Causes", Query("storm causes", "storm", "Causes", "forward")),
        (" big  storm ,causes ", Query("big storm causes", "big storm", "Causes", "forward")),
        (("storm", "Causes"), Query("storm causes", "storm", "Causes", "forward")),
        ("flood, ~Causes", Query("flood because", "flood", "Causes", "reverse")),
        (("flood", "~ causes"), Query("flood because", "flood", "Causes", "reverse")),
        ("salt, pepper, IsA", Query("salt, pepper is a", "salt, pepper", "IsA", "forward")),
        ("what do people  do at a river?", Query("what do people do at a river?")),
        ("Jordan left, tired", Query("Jordan left, tired")),
        ("Jordan left, and went home", Query("Jordan left, and went home")),
    ],
)
def test_query(query: str | tuple[str, str], expected: Query) -> None:
    assert read_query(query, CONCEPTNET) == expected


def test_approximate_search(encoder: EventEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"storm {'hail ' * (place % 7)}{place}" for place in range(1_100)]
    pairs = {
        "train": Dataset.from_dict({"premise": [f"{text} causes" for text in texts], "alternative": texts})
    }
    monkeypatch.setattr(candidate_index, "EXACT_UP_TO", 1_050)
    asked: dict[str, Any] = {"data": pairs, "config": "conceptnet", "index": tmp_path / "index", "top": 3}
    found = complete(encoder, "storm 7, Causes", **asked)
    assert found.recall is not None
    assert 0.5 < found.recall <= 1
    exact = complete(encoder, "storm 7, Causes", search="exact", **asked)
    assert exact.recall is None
    assert found.alternatives[0].text == exact.alternatives[0].text
    with pytest.raises(UnknownNameError, match="kind of search 'hnsw'"):
        complete(encoder, "storm 7, Causes", search="hnsw", **asked)


def test_the_relation_is_behind_the_last_comma() -> None:
    assert read_query("storm, hail, ~Causes", CONCEPTNET).text == "storm, hail because"


def test_names_are_put_in() -> None:
    asked = read_query("PersonX gives PersonY a gift, xWant", ATOMIC)
    assert asked.text == "John gives Tom a gift. as a result, John wants"
    assert read_query("why does PersonX leave?", ATOMIC).text == "why does John leave?"


@pytest.mark.parametrize("query", ["storm, CausesOf", "storm, ~cause", ("storm", "causing")])
def test_unknown_relation(query: str | tuple[str, str]) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown relation.*AtLocation.*UsedFor.*templates"):
        read_query(query, CONCEPTNET)


@pytest.mark.parametrize("query", ["", "  ", ("storm", ""), (" ", "Causes"), ", Causes"])
def test_empty_query(query: str | tuple[str, str]) -> None:
    with pytest.raises(EventformersError, match="accepted"):
        read_query(query, CONCEPTNET)


def test_relation_of_the_users_own(encoder: EventEncoder, index: AlternativeIndex, tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text('LeadsTo: {forward: "{head} leads to", reverse: "{tail} follows from"}\n')
    found = complete(encoder, "storm, LeadsTo", index=index, templates=file)
    assert found.query.text == "storm leads to"


def test_nearest_alternatives_and_what_is_known(encoder: EventEncoder, index: AlternativeIndex) -> None:
    found = complete(encoder, "storm, Causes", index=index, top=4, explain=2, rerank=False)
    texts = index.alternatives.texts.to_pylist()
    cosines = encoder.encode(texts, normalize=True) @ encoder.encode("storm causes", normalize=True)
    best = [position for position in np.argsort(-cosines) if texts[position] != "storm"][:4]
    assert [one.text for one in found.alternatives] == [texts[position] for position in best]
    assert [one.score for one in found.alternatives] == pytest.approx(cosines[best].tolist(), abs=1e-5)
    everything = complete(encoder, "storm, Causes", index=index, top=1000)
    assert {one.text for one in everything.alternatives if one.known} == {"flood", "fire"}
    nearest = found.explanation[0]
    assert (nearest.text, nearest.number, set(nearest.alternatives)) == ("storm causes", 2, {"flood", "fire"})
    assert nearest.cosine == pytest.approx(1.0, abs=1e-5)
    assert len(found.explanation) == 2
    assert complete(encoder, "a free question?", index=index, explain=0).explanation == ()


def test_votes_where_they_measured_better(encoder: EventEncoder, tmp_path: Path) -> None:
    for graph, votes in (("conceptnet_inductive", True), ("atomic", False)):
        index = build_alternative_index(encoder, pairs_of(), tmp_path / graph, graph=graph)
        query = "a free question?"
        assert complete(encoder, query, index=index).reranked is votes
        assert complete(encoder, query, index=index, rerank=not votes).reranked is not votes


@pytest.fixture(scope="module")
def reranker(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a random cross-encoder as sentence-transformers has them."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("reranker") / "cross-encoder"
    config = AutoConfig.from_pretrained(tiny_encoder, num_labels=1, initializer_range=0.3)
    BertForSequenceClassification(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(folder)
    return folder


def test_a_reranker_orders_the_best_alternatives(
    encoder: EventEncoder, index: AlternativeIndex, reranker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    monkeypatch.setattr(many, "RERANKED", 5)
    monkeypatch.setattr(many, "RERANKER_WEIGHT", 2)
    best = complete(encoder, "storm, Causes", index=index, top=5)
    found = complete(encoder, "storm, Causes", index=index, top=3, reranker=reranker)
    texts = [one.text for one in best.alternatives]
    pairs = [("storm causes", text) for text in texts]
    logits = others.CrossEncoder(str(reranker), device="cpu").predict(
        pairs, activation_fn=torch.nn.Identity()
    )
    ranking = np.array([one.score for one in best.alternatives])
    sums = (ranking - ranking.mean()) / ranking.std() + 2 * (logits - logits.mean()) / logits.std()
    order = np.argsort(-sums)[:3]
    assert [0, 1, 2] != order.tolist() != np.argsort(-logits)[:3].tolist()
    assert [one.text for one in found.alternatives] == [texts[place] for place in order]
    assert [one.score for one in found.alternatives] == pytest.approx(sums[order].tolist(), abs=1e-3)
    by_text = {one.text: one for one in best.alternatives}
    for one in found.alternatives:
        assert (one.cosine, one.known) == (by_text[one.text].cosine, by_text[one.text].known)
    assert (best.reranker, found.reranker) == ("", reranker.name)
    more = complete(encoder, "storm, Causes", index=index, top=7, reranker=reranker)
    assert len(more.alternatives) == 7
    [one] = complete(encoder, "storm, Causes", index=index, top=1).alternatives
    monkeypatch.setattr(many, "RERANKED", 1)
    assert complete(encoder, "storm, Causes", index=index, top=1, reranker=reranker).alternatives == (
        replace(one, score=0.0),
    )


def test_a_cross_encoder_of_event_grounding_reranks(
    encoder: EventEncoder, index: AlternativeIndex, tiny_encoder: Path, tmp_path: Path
) -> None:
    ours = load_cross_encoder(save_tiny_cross_encoder(tiny_encoder, tmp_path / "ours"), device="cpu")
    found = complete(encoder, "storm, Causes", index=index, top=4, reranker=ours)
    scores = [one.score for one in found.alternatives]
    assert scores == sorted(scores, reverse=True)
    assert found.reranker == "ours"


@pytest.mark.filterwarnings("error")
def test_a_reranker_of_no_alternatives_is_silent(
    encoder: EventEncoder, reranker: Path, tmp_path: Path
) -> None:
    graph = {"train": Dataset.from_dict({"premise": ["storm"], "alternative": ["storm"]})}
    scorer = load_cross_encoder(reranker, device="cpu")
    found = complete(encoder, ("storm", "Causes"), data=graph, index=tmp_path / "index", reranker=scorer)
    assert (found.alternatives, found.reranker) == ((), reranker.name)


def test_a_model_that_scores_no_pairs_is_no_reranker(
    encoder: EventEncoder, index: AlternativeIndex, tiny_encoder: Path
) -> None:
    with pytest.raises(EventformersError, match="does not score pairs"):
        complete(encoder, "storm, Causes", index=index, reranker=tiny_encoder)


def test_own_head_is_no_answer(encoder: EventEncoder, index: AlternativeIndex) -> None:
    everything = complete(encoder, "fire, Causes", index=index, top=1000, rerank=True)
    assert "fire" in index.alternatives.texts.to_pylist()
    assert len(everything.alternatives) == len(index.alternatives.rows) - 1
    assert "fire" not in {one.text for one in everything.alternatives}
    free = complete(encoder, "fire causes", index=index, top=1000)
    assert len(free.alternatives) == len(index.alternatives.rows)


def test_votes_of_the_nearest_premises(
    encoder: EventEncoder, index: AlternativeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one voter, the query's own premise, its alternatives come first, with the weight added."""
    monkeypatch.setattr(many, "VOTES", Votes(neighbours=1, temperature=0.1, expansion=0.0, weight=5.0))
    found = complete(encoder, "storm, Causes", index=index, top=3, rerank=True)
    assert found.reranked
    assert {one.text for one in found.alternatives[:2]} == {"flood", "fire"}
    for one in found.alternatives[:2]:
        assert one.score == pytest.approx(one.cosine + 5, abs=1e-3)
    assert found.alternatives[2].score == pytest.approx(found.alternatives[2].cosine, abs=1e-6)
    monkeypatch.setattr(many, "VOTES", Votes(expansion=0.0, weight=0.0))
    silent = complete(encoder, "storm, Causes", index=index, rerank=True)
    plain = complete(encoder, "storm, Causes", index=index, rerank=False)
    assert [one.text for one in silent.alternatives] == [one.text for one in plain.alternatives]


def test_votes_are_those_of_the_whole_ranking(
    encoder: EventEncoder, index: AlternativeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found for one query is the top of the scores of all alternatives."""
    settings = Votes(neighbours=4, temperature=0.5, expansion=0.7, weight=0.1)
    monkeypatch.setattr(many, "VOTES", settings)
    texts, premises = index.alternatives.texts.to_pylist(), index.premises.texts.to_pylist()
    alternatives = encoder.encode(texts, normalize=True)
    query = encoder.encode(["the storm flooded"], normalize=True)
    moved, add_votes = voted_ranking(
        query,
        encoder.encode(premises, normalize=True),
        index.offsets,
        index.known,
        alternatives,
        settings,
    )
    cosines = torch.from_numpy(moved @ alternatives.T)
    scores = add_votes(torch.tensor([0]), cosines)[0].numpy()
    found = complete(encoder, "the storm flooded", index=index, top=3, rerank=True)
    best = np.argsort(-scores)[:3]
    assert [one.text for one in found.alternatives] == [texts[position] for position in best]
    assert [one.score for one in found.alternatives] == pytest.approx(scores[best].tolist(), abs=1e-5)


def test_index_is_built_once(
    encoder: EventEncoder, pairs: DatasetDict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "index"
    first = complete(encoder, "storm, Causes", data=pairs, index=folder, config="conceptnet")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert complete(encoder, "storm, Causes", index=folder) == first
    assert complete(encoder, "storm, Causes", index=folder, data=pairs) == first
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    complete(encoder, "storm, Causes", index=folder, data=pairs, overwrite=True)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} != before


def test_index_in_the_cache_goes_by_model_and_graph(encoder: EventEncoder, pairs: DatasetDict) -> None:
    whole = complete(encoder, "storm, Causes", data=pairs)
    assert complete(encoder, "storm, Causes", data=pairs).index == whole.index
    assert complete(encoder, "storm, Causes", data=pairs, splits=["train"]).index != whole.index


def test_index_that_does_not_fit(
    encoder: EventEncoder, index: AlternativeIndex, pairs: DatasetDict, tiny_encoder: Path, tmp_path: Path
) -> None:
    other = load_encoder(tiny_encoder, pooling="cls", device="cpu")
    for given in (index, index.folder):
        with pytest.raises(EventformersError, match="build it again"):
            complete(other, "storm, Causes", index=given)
        with pytest.raises(EventformersError, match="built from alternatives, premises"):
            complete(encoder, "storm, Causes", index=given, data=pairs, splits=["train"])
        with pytest.raises(EventformersError, match="is of the graph conceptnet, received config atomic"):
            complete(encoder, "storm, Causes", index=given, config="atomic")
    with pytest.raises(EventformersError, match=r"splits \(train\) choose rows of a graph, and an index has"):
        complete(encoder, "storm, Causes", index=index.folder, splits=["train"])
    with pytest.raises(EventformersError, match="holds no index, and to build it there, a graph is needed"):
        complete(encoder, "storm, Causes", index=tmp_path / "absent")
    with pytest.raises(EventformersError, match="to build it again a graph is needed"):
        complete(encoder, "storm, Causes", index=index.folder, overwrite=True)


@pytest.mark.parametrize(("top", "explain"), [(0, 3), (3, -1)])
def test_numbers(encoder: EventEncoder, index: AlternativeIndex, top: int, explain: int) -> None:
    with pytest.raises(EventformersError, match="accepted: at least 1 and at least 0"):
        complete(encoder, "storm, Causes", index=index, top=top, explain=explain)


def test_public_name() -> None:
    assert eventformers.complete is complete


def test_answer(encoder: EventEncoder) -> None:
    choices = ["the judge", "the river flooded", "the judge"]
    vectors = encoder.encode(["storm causes", *choices], normalize=True)
    chosen = answer(encoder, "storm causes", choices)
    assert chosen.scores == pytest.approx((vectors[1:] @ vectors[0]).tolist(), abs=1e-6)
    assert chosen.text == choices[int(np.argmax(vectors[1:] @ vectors[0]))]
    assert chosen.index < 2


@pytest.mark.parametrize("alternatives", [[], ["one"], "several letters"])
def test_question_without_a_choice(encoder: EventEncoder, alternatives: list[str] | str) -> None:
    with pytest.raises(EventformersError, match=r"has [01] alternative.*accepted: a list of at least 2"):
        answer(encoder, "storm causes", alternatives)


def test_question_with_an_empty_text(encoder: EventEncoder) -> None:
    for wrong in (" ", 3, None):
        with pytest.raises(EventformersError, match="accepted: a text with a word for each"):
            answer(encoder, "storm causes", ["flood", wrong])


def test_alternatives_come_in_any_list_and_other_types_are_refused(encoder: EventEncoder) -> None:
    choices = ["the judge", "the river flooded", "the storm"]
    expected = answer(encoder, "storm causes", choices)
    for same in (tuple(choices), iter(choices), np.array(choices)):
        assert answer(encoder, "storm causes", same) == expected
    with pytest.raises(EventformersError, match="found set; accepted: alternatives"):
        answer(encoder, "storm causes", set(choices))
    for query in (3, None, b"dog", ("dog",), ("dog", 3), {"dog": "IsA"}):
        with pytest.raises(EventformersError, match="received the query"):
            complete(encoder, query)


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["complete", *arguments])
    captured = capsys.readouterr()
    return int(stopped.value.code or 0), captured.out, captured.err


def test_command(
    tiny_encoder: Path,
    index: AlternativeIndex,
    reranker: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(console, "width", 120)
    options = ("--index", str(index.folder), "--top", "2", "--device", "cpu")
    code, shown, _ = _run(capsys, str(tiny_encoder), "storm, Causes", *options)
    assert code == 0
    assert "storm causes" in shown
    assert "nearest known premise" in shown
    code, shown, _ = _run(capsys, str(tiny_encoder), "storm, Causes", "--json", *options)
    found = json.loads(shown)
    assert found["query"] == {
        "text": "storm causes",
        "head": "storm",
        "relation": "Causes",
        "direction": "forward",
    }
    assert [set(one) for one in found["alternatives"]] == [{"text", "score", "cosine", "known"}] * 2
    assert len(found["explanation"]) == 3
    assert found["reranked"]
    code, shown, _ = _run(capsys, str(tiny_encoder), "storm, Causes", "--json", "--no-rerank", *options)
    assert not json.loads(shown)["reranked"]
    options = (*options, "--json", "--reranker", str(reranker))
    code, shown, _ = _run(capsys, str(tiny_encoder), "storm, Causes", *options)
    assert json.loads(shown)["reranker"] == "cross-encoder"


@pytest.mark.parametrize(
    ("query", "told"), [("storm, CausesOf", "unknown relation"), (" ", "at least one word")]
)
def test_command_refuses(
    tiny_encoder: Path, index: AlternativeIndex, query: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, errors = _run(capsys, str(tiny_encoder), query, "--index", str(index.folder))
    assert code == 2
    assert told in errors


@pytest.mark.parametrize("votes", [False, True])
@pytest.mark.parametrize("block", [1, 2**24])
def test_many_completions_are_those_of_single_calls(
    encoder: EventEncoder,
    index: AlternativeIndex,
    votes: bool,
    block: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(many, "BLOCK_SCORES", block)
    heads, relations = ["storm", "an unknown event", "fire"], ["Causes", "HasSubevent"]
    found = list(many.complete_many(encoder, heads, relations, index, CONCEPTNET, top=4, votes=votes))
    assert [(one.head, one.relation) for one in found] == [
        (head, relation) for head in heads for relation in relations
    ]
    for one in found:
        expected = complete(encoder, (one.head, one.relation), index=index, top=4, rerank=votes)
        assert [text for text, _ in one.alternatives] == [each.text for each in expected.alternatives]
        scores = [score for _, score in one.alternatives]
        assert scores == pytest.approx([each.score for each in expected.alternatives], abs=1e-5)


def test_a_trained_model_keeps_its_templates(tiny_encoder: Path, tmp_path: Path) -> None:
    graph = tmp_path / "my-graph"
    graph.mkdir()
    heads = ("storm", "fire", "flood", "strike")
    rows = [f"Precedes\t{head}\t{tail}" for head in heads for tail in heads if head != tail]
    (graph / "train.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    file = tmp_path / "words.yaml"
    file.write_text('Precedes: {forward: "{head} comes before", reverse: "{tail} comes after"}\n')
    model = tmp_path / "my-model"
    settings = [f"templates={file}", "config=conceptnet_pairs", "max_steps=1"]
    train("mico", model, recipe="demo", data=graph, encoder=str(tiny_encoder), settings=settings, seed=1)
    file.unlink()
    stated = {"Precedes": {"forward": "{head} comes before", "reverse": "{tail} comes after"}}
    assert AutoConfig.from_pretrained(model).relation_templates == stated
    found = complete(model, "storm, ~precedes", data=graph, config="conceptnet", index=tmp_path / "index")
    assert found.query.text == "storm comes after"
    assert found.explanation[0].text == "storm comes after"
    question = {"head": "storm", "relation": "Precedes", "candidates": ["fire", "flood"]}
    by_words = {"premise": "storm comes before", "candidates": ["fire", "flood"]}
    pipe = pipeline("commonsense-completion", model=str(model))
    assert pipe(question) == pipe(by_words)
    processor = AutoProcessor.from_pretrained(model)
    assert processor(question)["input_ids"].tolist() == processor(by_words)["input_ids"].tolist()
    assert "{head} comes before" in (model / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def fresh_index(encoder: EventEncoder, pairs: DatasetDict, tmp_path: Path) -> AlternativeIndex:
    return build_alternative_index(encoder, pairs, tmp_path / "index", graph="conceptnet")


def test_distinct_texts_with_their_normalised_vectors(
    fresh_index: AlternativeIndex, encoder: EventEncoder, pairs: DatasetDict
) -> None:
    for indexed, column in ((fresh_index.alternatives, "alternative"), (fresh_index.premises, "premise")):
        texts = indexed.texts.to_pylist()
        assert texts == list(dict.fromkeys(text for split in pairs.values() for text in split[column]))
        vectors = indexed.vectors
        np.testing.assert_allclose(vectors, encoder.encode(texts, normalize=True), atol=1e-6)


def test_known_alternatives_of_each_premise(fresh_index: AlternativeIndex, pairs: DatasetDict) -> None:
    expected: dict[str, set[str]] = {}
    for split in pairs.values():
        for row in split:
            expected.setdefault(row["premise"], set()).add(row["alternative"])
    found = {
        text: {fresh_index.alternatives.text(position) for position in fresh_index.alternatives_of(premise)}
        for premise, text in enumerate(fresh_index.premises.texts.to_pylist())
    }
    assert found == expected
    assert found["storm causes"] == {"flood", "fire"}
    assert fresh_index.record.pairs == sum(map(len, expected.values()))


def test_nearest_are_those_of_all_cosines(fresh_index: AlternativeIndex, encoder: EventEncoder) -> None:
    query = encoder.encode("the river flooded the city", normalize=True)
    vectors = encoder.encode(fresh_index.alternatives.texts.to_pylist(), normalize=True)
    cosines, positions = fresh_index.alternatives.nearest(query, 4)
    np.testing.assert_allclose(cosines, np.sort(vectors @ query)[::-1][:4], atol=1e-5)
    np.testing.assert_allclose(vectors[positions] @ query, cosines, atol=1e-5)
    np.testing.assert_allclose(fresh_index.alternatives.products(query, positions), cosines, atol=1e-5)
    assert len(fresh_index.alternatives.nearest(query, 1000)[0]) == fresh_index.record.rows["alternatives"]


def test_record(fresh_index: AlternativeIndex, encoder: EventEncoder, pairs: DatasetDict) -> None:
    record = read_record(fresh_index.folder, AlternativeRecord)
    assert record == fresh_index.record
    assert (record.model, record.model_revision) == (encoder.name, encoder.revision)
    assert (record.dimension, record.graph, record.splits) == (32, "conceptnet", ["train", "validation"])
    assert record.fingerprint == graph_fingerprint(pairs)
    assert record.versions["faiss"] == faiss.__version__
    assert {path.suffix for path in fresh_index.folder.iterdir()} == {".npy", ".arrow", ".json"}
    with pytest.raises(EventformersError, match="holds an index; accepted: overwrite=True"):
        build_alternative_index(encoder, pairs, fresh_index.folder, graph="conceptnet")


def test_chosen_splits(encoder: EventEncoder, pairs: DatasetDict, tmp_path: Path) -> None:
    index = build_alternative_index(encoder, pairs, tmp_path / "a", graph="conceptnet", splits=["train"])
    assert index.record.splits == ["train"]
    assert "hit player" not in index.alternatives.texts.to_pylist()
    assert index.record.fingerprint != graph_fingerprint(pairs)
    with pytest.raises(EventformersError, match="no split 'dev'; accepted: train, validation"):
        build_alternative_index(encoder, pairs, tmp_path / "b", graph="conceptnet", splits=["dev"])


def test_a_graph_without_pairs(encoder: EventEncoder, pairs: DatasetDict, tmp_path: Path) -> None:
    empty = DatasetDict({"train": pairs["train"].select([])})
    with pytest.raises(EventformersError, match="have no pairs"):
        build_alternative_index(encoder, empty, tmp_path / "index", graph="conceptnet")
    triples = DatasetDict({"train": pairs["train"].remove_columns("alternative")})
    with pytest.raises(EventformersError, match="the columns premise, direction; accepted"):
        build_alternative_index(encoder, triples, tmp_path / "index", graph="conceptnet")
    assert not (tmp_path / "index").exists()


LISTS = [[0, 3], [1], [], [2, 3, 4], [0]]
OFFSETS = np.cumsum([0, *map(len, LISTS)])
KNOWN = np.array([alternative for one in LISTS for alternative in one])


def unit(*shape: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_votes_equal_a_plain_loop() -> None:
    draw = np.random.default_rng(0)
    neighbours = np.array([[0, 1, 2], [3, 0, 4], [2, 2, 2]])
    cosines = draw.uniform(-1, 1, neighbours.shape).astype(np.float32)
    expected = np.zeros((3, 6))
    for query in range(3):
        for cosine, premise in zip(cosines[query], neighbours[query], strict=True):
            for alternative in LISTS[premise]:
                expected[query, alternative] += math.exp((cosine - 1) / 0.3)
    votes = neighbour_votes(cosines, neighbours, OFFSETS, KNOWN, 6, 0.3)
    np.testing.assert_allclose(votes.toarray(), expected, rtol=1e-5)
    assert len(np.unique(votes.tocoo().coords, axis=1).T) == votes.nnz


def test_expanded_queries() -> None:
    queries, alternatives = unit(3, 8), unit(6, 8, seed=1)
    cosines = np.array([[0.5, 0.2]] * 3, dtype=np.float32)
    neighbours = np.array([[1, 2], [0, 3], [2, 2]])
    votes = neighbour_votes(cosines, neighbours, OFFSETS, KNOWN, 6, 0.3)
    found = expanded(queries, votes, alternatives, 0.5)
    near, far = math.exp(-0.5 / 0.3), math.exp(-0.8 / 0.3)
    middle = near * (alternatives[0] + alternatives[3]) + far * alternatives[[2, 3, 4]].sum(axis=0)
    by_hand = [
        queries[0] + 0.5 * alternatives[1],
        queries[1] + 0.5 * middle / np.linalg.norm(middle),
        queries[2],
    ]
    for one, other in zip(found, by_hand, strict=True):
        np.testing.assert_allclose(one, other / np.linalg.norm(other), atol=1e-6)


@pytest.mark.parametrize("block", [1, 2, 1024])
def test_a_whole_ranking_equals_plain_loops(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_QUERIES", block)
    queries, premises, alternatives = unit(4, 8), unit(5, 8, seed=1), unit(6, 8, seed=2)
    settings = Votes(neighbours=3, temperature=0.5, expansion=0.7, weight=2.0)
    found, add_votes = voted_ranking(queries, premises, OFFSETS, KNOWN, alternatives, settings)
    for query, vector in enumerate(queries):
        votes = np.zeros(6)
        for premise in np.argsort(-(premises @ vector))[:3]:
            votes[LISTS[premise]] += math.exp((premises[premise] @ vector - 1) / 0.5)
        middle = votes @ alternatives
        moved = vector + 0.7 * middle / np.linalg.norm(middle)
        cosines = alternatives @ moved / np.linalg.norm(moved)
        np.testing.assert_allclose(found[query] @ alternatives.T, cosines, atol=1e-5)
        rows = torch.tensor([query, 0])
        scores = add_votes(rows, torch.from_numpy(found[rows] @ alternatives.T).double())
        np.testing.assert_allclose(scores[0].numpy(), cosines + 2 * votes, atol=1e-5)


def test_fewer_premises_than_voters() -> None:
    settings = Votes(neighbours=99)
    _, add_votes = voted_ranking(unit(2, 8), unit(5, 8), OFFSETS, KNOWN, unit(6, 8), settings)
    assert add_votes(torch.tensor([1]), torch.zeros(1, 6)).shape == (1, 6)
