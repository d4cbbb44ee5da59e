"""The pipelines of transformers give what the functions of the package give for the same input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from tiny import save_tiny_cross_encoder
from transformers import AutoModel, AutoTokenizer, pipeline

import eventformers
from eventformers.datasets_scripts.events import EVENT_ORDERS, event_text
from eventformers.datasets_scripts.relation_templates import relation_templates
from eventformers.inference.commonsense.complete import answer
from eventformers.inference.encode import load_encoder
from eventformers.inference.grounding.encoding import PairScores, encode_texts, load_cross_encoder
from eventformers.methods import all_methods
from eventformers.models.event_items import ORDERS, text_of
from eventformers.models.pipeline_event_embedding import in_order
from eventformers.models.pipeline_event_type_induction import clusters_of
from eventformers.models.processing_event_grounding import EventText, MentionText
from eventformers.models.relation_words import premise

EVENTS = [
    {"subject": "police", "predicate": "arrested", "object": "the suspect"},
    {"subject": "storm", "predicate": "flooded", "object": ""},
    {"subject": "", "predicate": "lost", "object": "the game"},
]
QUESTION = {"context": [EVENTS[0], EVENTS[1], EVENTS[0]], "choices": [EVENTS[2], EVENTS[1], "the mayor won"]}
MENTION = {
    "context_left": "in the city ",
    "mention": "the storm",
    "context_right": " flooded a bridge",
    "title": "storm",
    "date": "2014",
}
GROUNDING_EVENTS = [
    {"title": "storm", "description": "flooded the city"},
    {"title": "election", "description": "the mayor won"},
    {"title": "strike"},
]
MENTIONS = [
    {"text": "the storm flooded the city", "trigger_start": 10, "trigger_end": 17},
    {"text": "police arrested a thief", "trigger_start": 7, "trigger_end": 15},
    {"text": "the river flooded the road and the bridge", "trigger_start": 10, "trigger_end": 17},
    {"text": "the team lost the game", "trigger_start": 9, "trigger_end": 13},
    {"text": "police arrested a man", "trigger_start": 7, "trigger_end": 15},
]


def test_texts_of_events_are_those_of_the_datasets() -> None:
    assert ORDERS == EVENT_ORDERS
    for order in ORDERS:
        assert [text_of(event, order) for event in EVENTS] == [event_text(event, order) for event in EVENTS]


@pytest.mark.parametrize("method", ["swcc", "mico", "heterevent", "event_type_induction", "event_grounding"])
def test_event_embedding(folders: dict[str, Path], method: str) -> None:
    pipe = pipeline("event-embedding", model=str(folders[method]))
    items = [*EVENTS, "the thief sold a car and the investor bought the market"]
    expected = eventformers.encode(folders[method], items)
    np.testing.assert_allclose(np.array([pipe(item) for item in items]), expected, rtol=1e-4, atol=1e-5)
    batched = pipe(items, batch_size=3)
    assert isinstance(batched[0][0], float)
    np.testing.assert_allclose(np.array(batched), expected, rtol=1e-4, atol=1e-5)
    tensors = pipe(items, batch_size=2, return_tensors=True)
    np.testing.assert_allclose(torch.stack(tensors).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_columns_are_lists(folders: dict[str, Path]) -> None:
    pipe = pipeline("event-embedding", model=str(folders["swcc"]))
    texts = ["the storm flooded the city", "police arrested a thief"]
    columns = [datasets.Dataset.from_dict({"text": texts})["text"], np.array(texts), pd.Series(texts)]
    choose = pipeline("next-event", model=str(folders["heterevent"]))
    for column in columns:
        assert pipe(column, batch_size=2) == pipe(texts, batch_size=2)
        torch.testing.assert_close(dict(pipe.processor(column)), dict(pipe.processor(texts)))
        # A list in a table that pandas reads from Parquet is an array.
        question = {"context": texts, "choices": texts}
        assert choose(dict.fromkeys(question, column)) == choose(question)


@pytest.mark.parametrize("method", ["swcc", "heterevent"])
def test_next_event(folders: dict[str, Path], method: str) -> None:
    pipe = pipeline("next-event", model=str(folders[method]))
    texts = [
        {"subject": "", "predicate": item, "object": ""} if isinstance(item, str) else item
        for item in QUESTION["choices"]
    ]
    found = eventformers.next_event(folders[method], QUESTION["context"], candidates=texts)
    expected = [(texts.index(one.event), one.score) for one in found.candidates]
    assert expected[0][1] - expected[-1][1] > 1e-3
    other = {"context": [EVENTS[2]], "choices": [EVENTS[0], "the storm hit"]}
    for answers in (
        pipe(QUESTION),
        pipe([other, QUESTION], batch_size=4)[1],
        pipe({"context": QUESTION["context"]}, choices=QUESTION["choices"]),
    ):
        assert [one["index"] for one in answers] == [place for place, _ in expected]
        np.testing.assert_allclose(
            [one["score"] for one in answers], [score for _, score in expected], atol=1e-5
        )
        assert [one["choice"] for one in answers] == [QUESTION["choices"][place] for place, _ in expected]
    assert len(pipe(QUESTION, top_k=1)) == 1


def test_commonsense_completion(folders: dict[str, Path]) -> None:
    pipe = pipeline("commonsense-completion", model=str(folders["mico"]))
    candidates = ["the city flooded", "the thief won", "a road"]
    query = {"head": "storm", "relation": "Causes", "candidates": candidates}
    expected = answer(folders["mico"], premise("storm", "Causes"), candidates)
    assert np.ptp(expected.scores) > 1e-3
    asked = pipe([{"premise": "the storm", "candidates": candidates[:2]}, query], batch_size=2)[1]
    for answers in (pipe(query), asked, pipe({"head": "storm", "relation": "causes"}, candidates=candidates)):
        assert answers[0]["candidate"] == expected.text
        scores = {one["index"]: one["score"] for one in answers}
        np.testing.assert_allclose([scores[place] for place in range(3)], expected.scores, atol=1e-5)
        assert sorted(scores.values(), reverse=True) == [one["score"] for one in answers]
    named = pipe(
        {"head": "PersonX hit PersonY", "relation": "xWant", "candidates": ["PersonX won", "a road"]}
    )
    expected = answer(folders["mico"], "John hit Tom. as a result, John wants", ["John won", "a road"])
    named_scores = [one["score"] for one in sorted(named, key=lambda one: one["index"])]
    np.testing.assert_allclose(named_scores, expected.scores, atol=1e-5)
    assert {one["candidate"] for one in named} == {"PersonX won", "a road"}


@pytest.mark.parametrize("graph", ["conceptnet", "atomic"])
def test_premises_are_those_of_the_datasets(graph: str) -> None:
    templates = relation_templates(graph)
    for relation in templates.relations:
        for prefix, direction in (("", "forward"), ("~", "reverse")):
            expected = templates.premise(
                relation, "PersonX eats ___ of person y" if graph == "atomic" else "rain", direction
            )
            head = "PersonX eats ___ of person y" if graph == "atomic" else "rain"
            assert premise(head, f"{prefix}{relation}") == expected


def test_event_grounding_by_vectors(folders: dict[str, Path]) -> None:
    pipe = pipeline("event-grounding", model=str(folders["event_grounding"]))
    encoder = load_encoder(folders["event_grounding"])
    mention = encode_texts(encoder, "mention", [MentionText.from_row(MENTION)]).vectors[0]
    expected = (
        encode_texts(encoder, "event", [EventText.from_row(event) for event in GROUNDING_EVENTS]).vectors
        @ mention
    )
    plain = pipe("[[the thief]] won", events=["a game"])
    asked = pipe(
        [{**MENTION, "events": GROUNDING_EVENTS}, "[[the thief]] won"], events=["a game"], batch_size=3
    )
    assert asked[1][0]["score"] == pytest.approx(plain[0]["score"], abs=1e-4)
    for answers in (pipe(MENTION, events=GROUNDING_EVENTS), asked[0]):
        assert [one["index"] for one in answers] == np.argsort(-expected, kind="stable").tolist()
        np.testing.assert_allclose(
            [one["score"] for one in answers], np.sort(expected)[::-1], rtol=1e-4, atol=1e-4
        )
    spans = {
        "text": "in the city the storm flooded a bridge",
        "start_char": 12,
        "end_char": 21,
        "title": "storm",
        "date": "2014",
    }
    same = pipe(spans, events=GROUNDING_EVENTS)
    np.testing.assert_allclose([one["score"] for one in same], np.sort(expected)[::-1], rtol=1e-4, atol=1e-4)


def test_event_grounding_by_a_softmax(tiny_encoder: Path, tmp_path: Path) -> None:
    """The shares of a mention's events together make the whole, and keep the order of the scores."""
    folder = save_tiny_cross_encoder(tiny_encoder, tmp_path / "cross", linking_objective="softmax")
    answers = pipeline("event-grounding", model=str(folder))(MENTION, events=GROUNDING_EVENTS)
    logits = PairScores(
        load_cross_encoder(folder),
        [MentionText.from_row(MENTION)],
        [EventText.from_row(event) for event in GROUNDING_EVENTS],
    )(np.zeros(3, dtype=np.int64), np.arange(3))
    powers = np.sort(np.exp(logits.astype(np.float64)))[::-1]
    np.testing.assert_allclose([one["score"] for one in answers], powers / powers.sum(), atol=1e-5)


def test_event_grounding_by_pairs(folders: dict[str, Path]) -> None:
    pipe = pipeline("event-grounding", model=str(folders["event_grounding_cross"]))
    assert type(pipe.model).__name__ == "EventGroundingForSequenceClassification"
    scores = PairScores(
        load_cross_encoder(folders["event_grounding_cross"]),
        [MentionText.from_row(MENTION)],
        [EventText.from_row(event) for event in GROUNDING_EVENTS],
    )
    logits = scores(np.zeros(3, dtype=np.int64), np.arange(3))
    expected = 1 / (1 + np.exp(-logits.astype(np.float64)))
    for answers in (
        pipe(MENTION, events=GROUNDING_EVENTS),
        pipe([MENTION, MENTION], events=GROUNDING_EVENTS, batch_size=4)[1],
    ):
        assert [one["event"] for one in answers] == [
            GROUNDING_EVENTS[place] for place in np.argsort(-expected)
        ]
        np.testing.assert_allclose([one["score"] for one in answers], np.sort(expected)[::-1], atol=1e-5)


@pytest.mark.parametrize("trigger_input", ["marked_span", "found"])
def test_event_type_induction(
    folders: dict[str, Path], tiny_encoder: Path, tmp_path: Path, trigger_input: str
) -> None:
    folder, mentions = folders["event_type_induction"], MENTIONS
    if trigger_input == "found":
        torch.manual_seed(0)
        folder, mentions = tmp_path, [mention["text"] for mention in MENTIONS]
        eventformers.EventTypeInductionModel.from_encoder(
            str(tiny_encoder), trigger_input="found", trained_types=["Attack", "Move"]
        ).save_pretrained(folder)
        AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(folder)
    expected = eventformers.induce(folder, mentions, num_clusters=3, manifold=False)
    found = pipeline("event-type-induction", model=str(folder))(mentions, num_clusters=3, batch_size=2)
    assert [one["cluster"] for one in found] == expected.cluster.tolist()
    np.testing.assert_allclose([one["embedding"] for one in found], expected.vectors, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", [0, -1])
def test_a_number_of_results_below_one(number: int) -> None:
    with pytest.raises(ValueError, match="top_k: found"):
        in_order(["a", "b"], [1.0, 2.0], "choice", number)


def test_the_largest_cluster_is_the_first() -> None:
    assert clusters_of(np.array([[1.0, 0.0], [0.0, 1.0], [0.1, 1.0]]), 2) == [1, 0, 0]
    assert clusters_of(np.array([[1.0, 0.0]]), 1) == [0]


def test_a_folder_knows_its_own_pipeline(folders: dict[str, Path], tmp_path: Path) -> None:
    own = {
        "swcc": "event-embedding",
        "mico": "commonsense-completion",
        "heterevent": "next-event",
        "event_type_induction": "event-type-induction",
        "event_grounding": "event-grounding",
        "event_grounding_cross": "event-grounding",
    }
    for method, task in own.items():
        config = json.loads((folders[method] / "config.json").read_text(encoding="utf-8"))
        assert task in config["custom_pipelines"]
        for entry in config["custom_pipelines"].values():
            assert (folders[method] / f"{entry['impl'].split('.')[0]}.py").is_file()
    pipe = pipeline(model=str(folders["heterevent"]))
    assert pipe.task == "next-event"
    assert type(pipe).__module__ == "eventformers.models.pipeline_next_event"
    pipe.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert set(saved["custom_pipelines"]) == {"event-embedding", "next-event"}
    assert (tmp_path / "pipeline_event_embedding.py").is_file()


def test_a_configuration_that_asks_for_tuples_and_layers(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["mico"], tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    asked = {"return_dict": False, "output_hidden_states": True, "output_attentions": True}
    path.write_text(json.dumps(json.loads(path.read_text()) | asked))
    vectors = [
        pipeline("event-embedding", model=str(folder))(EVENTS)
        for folder in (folders["mico"], tmp_path / "model")
    ]
    np.testing.assert_allclose(*vectors, rtol=1e-4, atol=1e-5)
    encoded = eventformers.encode(str(tmp_path / "model"), EVENTS, normalize=False)
    np.testing.assert_allclose(encoded, vectors[0], rtol=1e-4, atol=1e-5)


def test_a_folder_without_pipelines_still_loads(folders: dict[str, Path], tmp_path: Path) -> None:
    AutoModel.from_pretrained(folders["swcc"]).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folders["swcc"]).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    del config["custom_pipelines"]
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for file in tmp_path.glob("pipeline_*.py"):
        file.unlink()
    found = pipeline("event-embedding", model=str(tmp_path))(EVENTS)
    np.testing.assert_allclose(np.array(found), eventformers.encode(tmp_path, EVENTS), atol=1e-5)


def test_every_pipeline_is_registered() -> None:
    from transformers.pipelines import PIPELINE_REGISTRY

    tasks = {task for method in all_methods().values() for task in method.pipelines}
    assert tasks <= set(PIPELINE_REGISTRY.get_supported_tasks())


@pytest.fixture(scope="module")
def loaded(folders: dict[str, Path]) -> Callable[[str, str], Any]:
    """A function from a task and a method to their pipeline, which is loaded once."""
    return cache(lambda task, method: pipeline(task, model=str(folders[method])))


@pytest.mark.parametrize(
    ("task", "method", "given", "settings", "told"),
    [
        ("event-embedding", "swcc", {"subject": "police"}, {}, "subject, predicate and object"),
        ("event-embedding", "swcc", " ", {}, "without any word"),
        ("event-embedding", "swcc", 3, {}, "found int"),
        ("event-embedding", "swcc", {"police arrested"}, {}, "found set; accepted: a text; an event"),
        ("event-embedding", "swcc", "\ud800", {}, "half of a surrogate pair"),
        ("event-embedding", "swcc", {"event": "x" * 9_999}, {}, r"'x{180,200}… \(10,001 characters\)"),
        ("next-event", "swcc", "it rained", {}, 'a str; accepted: an object such as {"context"'),
        ("next-event", "swcc", {"Context": ["it rained"]}, {}, "the keys .'Context'.; accepted: an object"),
        ("next-event", "swcc", {"context": "it rained", "choices": ["a"]}, {}, "as context"),
        ("next-event", "swcc", {"context": ["a"], "choices": "it rained"}, {}, "as choices"),
        ("next-event", "swcc", {"context": [3], "choices": ["a"]}, {}, "found int"),
        ("commonsense-completion", "mico", "rain", {}, 'a str; accepted: an object such as {"head": "rain"'),
        ("commonsense-completion", "mico", 3, {"candidates": ["c"]}, "a int; accepted: an object"),
        ("commonsense-completion", "mico", {"head": "a"}, {"candidates": ["c"]}, "the keys .'head'."),
        ("commonsense-completion", "mico", {"premise": 3}, {"candidates": ["c"]}, "found 3 as premise"),
        ("commonsense-completion", "mico", {"premise": "a"}, {"candidates": "c"}, "found 'c' as candidates"),
        ("commonsense-completion", "mico", {"premise": "a"}, {"candidates": [3]}, "found 3 as a candidate"),
        ("event-grounding", "event_grounding", 3, {"events": ["a"]}, "a int; accepted: a text with its"),
        ("event-grounding", "event_grounding", {"mention": "a"}, {"events": ["a"]}, "the keys .'mention'."),
        ("event-grounding", "event_grounding", {"text": "a"}, {"events": ["a"]}, "from None to None"),
        ("event-grounding", "event_grounding", "[[a]]", {"events": "a"}, "found 'a' as events"),
        ("event-grounding", "event_grounding", "[[a]]", {"events": [3]}, "found 3, a int"),
        ("event-grounding", "event_grounding", "[[a]]", {"events": [{"title": 3}]}, "found 3 as title"),
        ("event-grounding", "event_grounding", "[[a]]", {"events": [{"title": ""}]}, "the title and desc"),
        ("event-type-induction", "event_type_induction", "it rained", {"num_clusters": 1}, "as mentions"),
        ("event-type-induction", "event_type_induction", [3], {"num_clusters": 1}, "found 3 as a sentence"),
        ("event-type-induction", "event_type_induction", ["a"], {"num_clusters": "1"}, "'1' clusters"),
        ("event-type-induction", "event_type_induction",
            [{"text": "a", "trigger_start": "0", "trigger_end": 1}], {"num_clusters": 1}, "from '0' to 1"),
        ("next-event", "swcc", {"context": [], "choices": ["it rained"]}, {}, r"found \[\] as context"),
        ("next-event", "swcc", {"context": ["it rained"]}, {}, "found None as choices"),
        ("commonsense-completion", "mico", {"head": "rain", "relation": "Causes"}, {}, "None as candidates"),
        ("commonsense-completion", "mico", {"head": "a", "relation": "B"}, {"candidates": ["c"]}, "'B'"),
        ("event-grounding", "event_grounding", "no mention", {"events": ["a game"]}, "0 mentions"),
        ("event-grounding", "event_grounding", "[[the storm]]", {}, "found None as events"),
        ("event-type-induction", "event_type_induction", ["it rained"], {"num_clusters": 2}, "of 1 mentions"),
        ("event-type-induction", "event_type_induction", [" "], {"num_clusters": 1}, "at least one word"),
    ],
)  # fmt: skip
def test_bad_input(
    loaded: Callable[[str, str], Any],
    task: str,
    method: str,
    given: Any,
    settings: dict[str, Any],
    told: str,
) -> None:
    with pytest.raises(ValueError, match=told):
        loaded(task, method)(given, **settings)


@pytest.mark.parametrize("task", ["event-grounding", "event-type-induction"])
def test_a_model_of_another_kind(folders: dict[str, Path], task: str) -> None:
    with pytest.raises(ValueError, match="found a model of the type swcc; accepted: event_"):
        pipeline(task, model=str(folders["swcc"]))
