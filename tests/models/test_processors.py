"""Processors build what training and inference build, and load through `AutoProcessor`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fresh_process import run_fresh
from transformers import AutoModel, AutoModelForMultipleChoice, AutoProcessor, AutoTokenizer

from eventformers.datasets_scripts.events import event_text
from eventformers.models.processing_event_grounding import EventText, GroundingTokens, MentionText
from eventformers.models.processing_event_type_induction import TRIGGER_MARKERS

EVENTS = [
    {"subject": "police", "predicate": "arrested", "object": "the suspect"},
    {"subject": "storm", "predicate": "flooded", "object": ""},
    {"subject": "", "predicate": "lost the game", "object": ""},
]
ITEMS = [EVENTS[0], {"event": EVENTS[1]}, "lost the game"]
TUPLES = [("police", "arrested", "the suspect"), ("storm", "flooded", ""), ["", "lost the game", ""]]
QUESTIONS = [
    {"context": EVENTS[:2], "choices": [EVENTS[2], EVENTS[0]], "label": 1},
    {"context": EVENTS[1:2], "choices": [EVENTS[0]], "label": 0},
]
PREMISES = [
    {"premise": "the storm hit", "alternatives": ["the city flooded", "a thief won the game"], "label": 0},
    {"premise": "police arrested a thief", "alternatives": ["the mayor won"], "label": 0},
]
MENTIONS = [
    {"text": "the storm flooded the city", "trigger_start": 10, "trigger_end": 17},
    {"text": "police arrested a thief"},
]
CONTEXT = {"context_left": "in the city ", "mention": "the storm", "context_right": " hit", "title": "storm"}
GROUNDING_EVENTS = [{"title": "storm", "description": "flooded the city"}, "election"]
RAW = {
    "swcc": [(ITEMS,)],
    "mico": [(ITEMS,), (PREMISES,)],
    "heterevent": [(ITEMS,), (QUESTIONS,)],
    "event_type_induction": [(MENTIONS,)],
    "event_grounding": [(CONTEXT,), (None, GROUNDING_EVENTS)],
    "event_grounding_cross": [([CONTEXT, CONTEXT], GROUNDING_EVENTS)],
}
"""Arguments of calls of each method's processor."""


@pytest.fixture(scope="module")
def load(folders: dict[str, Path]) -> Callable[[str], tuple[Any, Any]]:
    """Loads the processor and the tokenizer of a method."""
    return lambda method: (
        AutoProcessor.from_pretrained(folders[method]),
        AutoTokenizer.from_pretrained(folders[method]),
    )


def assert_equal(found: Any, expected: Any) -> None:
    assert set(found) == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0)


@pytest.mark.parametrize("method", ["swcc", "mico"])
def test_texts_and_events(load: Any, method: str) -> None:
    processor, tokenizer = load(method)
    order = "predicate_first" if method == "swcc" else "subject_predicate_object"
    expected = tokenizer([event_text(event, order) for event in EVENTS], padding=True, return_tensors="pt")
    del expected["token_type_ids"]
    for given in (ITEMS, TUPLES, EVENTS):
        assert_equal(processor(given), expected)
    assert processor("the storm").input_ids.shape == processor(("the", "", "storm")).input_ids.shape
    assert processor(ITEMS, max_length=4, padding="max_length").input_ids.shape == (3, 4)


@pytest.mark.parametrize(("method", "given"), [(method, given) for method in RAW for given in RAW[method]])
def test_arrays_and_lists(load: Any, method: str, given: tuple[Any, ...]) -> None:
    processor, _ = load(method)
    expected = {name: value.tolist() for name, value in processor(*given).items()}
    assert dict(processor(*given, return_tensors=None)) == expected
    arrays = processor(*given, return_tensors="np")
    assert {type(value) for value in arrays.values()} == {np.ndarray}
    assert {name: value.tolist() for name, value in arrays.items()} == expected
    if method not in ("swcc",):
        with pytest.raises(ValueError, match=r"return_tensors='tf'; accepted: 'pt', 'np' or None"):
            processor(*given, return_tensors="tf")


def test_events_with_roles(load: Any) -> None:
    processor, _ = load("heterevent")
    expected = processor.events(EVENTS)
    for given in (ITEMS, TUPLES, EVENTS):
        assert_equal(processor(given), expected)
    chains = processor(chains=[EVENTS[:2], ["lost the game"]])
    assert_equal(chains, {**expected, "chain_index": torch.tensor([0, 0, 1])})


def test_chains_with_choices(load: Any, folders: dict[str, Path]) -> None:
    processor, _ = load("heterevent")
    events = processor.events([EVENTS[0], EVENTS[1], EVENTS[2]])
    expected = {
        **events,
        "chains": torch.tensor([[0, 1], [1, -1]]),
        "choices": torch.tensor([[2, 0], [0, -1]]),
        "labels": torch.tensor([1, 0]),
    }
    assert_equal(processor(QUESTIONS), expected)
    texts = {"context": [tuple(EVENTS[0].values()), EVENTS[1]], "choices": ["lost the game", EVENTS[0]]}
    model = AutoModelForMultipleChoice.from_pretrained(folders["heterevent"])
    torch.testing.assert_close(model(**processor(texts)).logits, model(**expected).logits[:1])
    assert "labels" not in processor(texts)


def test_premises_with_alternatives(load: Any, folders: dict[str, Path]) -> None:
    processor, tokenizer = load("mico")
    found = processor(PREMISES)
    premises, texts = (
        tokenizer(column, padding=True, return_tensors="pt")
        for column in (
            [row["premise"] for row in PREMISES],
            [text for row in PREMISES for text in row["alternatives"]],
        )
    )
    for name in ("input_ids", "attention_mask"):
        assert torch.equal(found[name], premises[name])
        rows = found[f"alternative_{name}"]
        assert torch.equal(torch.cat([rows[0], rows[1, :1]]), texts[name])
        assert not rows[1, 1].any()
    assert found.labels.tolist() == [0, 0]
    model = AutoModelForMultipleChoice.from_pretrained(folders["mico"])
    assert model(**found).logits[1, 1] == float("-inf")
    words = {"head": "storm", "relation": "Causes", "candidates": ["the city flooded"]}
    assert processor(words).alternative_input_ids.shape[:2] == (1, 1)


def test_mentions_with_triggers(load: Any, folders: dict[str, Path]) -> None:
    processor, tokenizer = load("event_type_induction")
    found = processor(MENTIONS)
    start, end = TRIGGER_MARKERS
    texts = [f"the storm {start} flooded {end} the city", "police arrested a thief"]
    expected = tokenizer(texts, padding=True, return_tensors="pt")
    assert torch.equal(found.input_ids, expected["input_ids"])
    assert torch.equal(found.attention_mask, expected["attention_mask"])
    assert set(found) == {"input_ids", "attention_mask", "trigger_mask"}
    assert tokenizer.decode(found.input_ids[0][found.trigger_mask[0]]) == "flooded"
    assert not found.trigger_mask[1].any()
    model = AutoModel.from_pretrained(folders["event_type_induction"])
    assert model(**processor(EVENTS)).embeddings.shape[0] == 3


def test_mentions_and_events(load: Any) -> None:
    mention = MentionText("in the city ", "the storm", " hit", "storm")
    events = [EventText("storm", "flooded the city"), EventText("election")]
    for method in ("event_grounding", "event_grounding_cross"):
        processor, tokenizer = load(method)
        tokens = GroundingTokens(tokenizer, processor.mention_tokens, processor.event_tokens)
        [of_mention] = tokens.mentions([mention]).rows
        of_events = tokens.events(events).rows
        assert_equal(processor(CONTEXT), tokens.pad([of_mention]))
        assert_equal(processor(events=GROUNDING_EVENTS), tokens.pad(of_events))
        pairs = tokens.pad([tokens.pair(of_mention, row) for row in of_events])
        assert_equal(processor([CONTEXT, CONTEXT], GROUNDING_EVENTS), pairs)
    marked = processor("in the city [[the storm]] hit")
    assert torch.equal(marked.input_ids, processor({**CONTEXT, "title": ""}).input_ids)
    with pytest.raises(ValueError, match="found 1 mentions and 2 events"):
        processor(CONTEXT, GROUNDING_EVENTS)


@pytest.mark.parametrize(
    "scenario", ["processor_alone", "processor_before_package", "processor_as_remote_code"]
)
def test_fresh_process(folders: dict[str, Path], load: Any, tmp_path: Path, scenario: str) -> None:
    requests = [
        {
            "name": method,
            "folder": str(folder),
            "raw": RAW[method],
        }
        for method, folder in folders.items()
    ]
    remote = scenario == "processor_as_remote_code"
    answers = run_fresh(scenario, requests, tmp_path, server="libraries" if remote else "fresh")
    for method, answer in answers.items():
        assert answer["class"].startswith("transformers_modules" if remote else "eventformers.models")
        processor, _ = load(method)
        expected = [
            {name: value.tolist() for name, value in processor(*given).items()} for given in RAW[method]
        ]
        assert answer["tensors"] == expected
        assert answer.get("again", expected) == expected


def test_a_processor_saves_its_code_and_settings(load: Any, tmp_path: Path) -> None:
    processor, _ = load("swcc")
    processor.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "processor_config.json").read_text(encoding="utf-8"))
    assert saved["auto_map"] == {"AutoProcessor": "processing_events.EventProcessor"}
    assert saved["event_order"] == "predicate_first"
    assert (tmp_path / "processing_events.py").is_file()
    assert_equal(AutoProcessor.from_pretrained(tmp_path)(ITEMS), processor(ITEMS))


@pytest.mark.parametrize(
    ("method", "given", "told"),
    [
        ("swcc", 3, "found 3 as input"),
        ("swcc", [], "found .. as input"),
        ("swcc", [{"predicate": "a", "objekt": "b"}], "the keys .'predicate', 'objekt'."),
        ("swcc", [("a", "b")], "a tuple of 2"),
        ("heterevent", {"context": [], "choices": ["a"]}, "as context"),
        ("mico", {"premise": "a"}, "found None as candidates"),
        ("event_type_induction", {"text": "a", "trigger_start": 0, "trigger_end": 9}, "from 0 to 9"),
        ("event_grounding", "a storm", "0 mentions"),
        ("event_grounding", None, "neither mentions nor events"),
    ],
)
def test_bad_input(load: Any, method: str, given: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        load(method)[0](given)
