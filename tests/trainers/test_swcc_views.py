"""Views beyond the paper: paraphrases, swaps, co-events without shared words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from short_runs import short_run
from transformers import AutoTokenizer

from eventformers.models.modeling_swcc import SwccModel
from eventformers.trainers import swcc
from eventformers.trainers.role_substitution import RoleSubstitution, SubstitutionSettings
from eventformers.trainers.swcc import SwccCollator

EVENTS = [
    {"subject": subject, "predicate": predicate, "object": obj}
    for subject in ("police", "man", "company")
    for predicate in ("arrested", "bought")
    for obj in ("thief", "house", "car")
]
DISJOINT = {"subject": "judge", "predicate": "sentenced", "object": "suspect"}
SHARING = {"subject": "policeman", "predicate": "visited", "object": "suspect"}


@pytest.fixture
def collator(tiny_encoder: Path) -> SwccCollator:
    return SwccCollator(
        tokenizer=AutoTokenizer.from_pretrained(tiny_encoder),
        event_order="subject_predicate_object",
        frequency_normalization="constant",
        frequency_minimum=1,
        frequency_maximum=1,
        seed=3,
        co_events_without_shared_words=True,
    )


def row(number: int, co_events: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "row": number,
        "event": EVENTS[number],
        "co_events": co_events,
        "frequencies": [1] * len(co_events),
    }


def test_co_events_that_share_words_are_not_drawn(collator: SwccCollator) -> None:
    expected = collator.encode([DISJOINT])["input_ids"]
    for number in range(5):
        batch = collator([row(number, [SHARING, DISJOINT, EVENTS[number]])])
        # "policeman" shares its first letters with "police", and with "police" alone.
        if EVENTS[number]["subject"] == "police":
            assert batch["co_event_input_ids"].equal(expected)
        assert batch["co_event_weight"].tolist() == [1.0]
    assert not collator.notes


def test_row_without_a_co_event_that_counts_weighs_nothing(collator: SwccCollator) -> None:
    batch = collator([row(0, [SHARING]), row(1, [DISJOINT])])
    assert batch["co_event_weight"].tolist() == [0.0, 1.0]
    assert list(collator.notes.values()) == [1]


def test_training_tells_of_rows_without_a_co_event(
    tiny_encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swcc, "word_stem", lambda words: "same")
    settings = ["max_steps=2", "per_device_train_batch_size=4", "co_events_without_shared_words=true"]
    short_run("swcc", tiny_encoder, tmp_path, *settings, seed=1)
    # A batch more may have been read than trained.
    assert re.search(r"(8|12) rows without a co-event that shares no word, whose weight is 0,", caplog.text)


def test_shapes_and_texts_of_paraphrases_and_swaps(collator: SwccCollator, tiny_encoder: Path) -> None:
    settings = SubstitutionSettings(object_swaps=2, subject_swaps=1, min_role_frequency=1)
    collator.substitution = RoleSubstitution(
        Dataset.from_dict({"event": EVENTS}),
        SwccModel.from_encoder(str(tiny_encoder)),
        collator.tokenizer,
        settings,
    )
    batch = collator([row(number, [DISJOINT]) for number in (0, 7)])
    assert batch["paraphrase_input_ids"].shape == batch["paraphrase_attention_mask"].shape
    assert batch["negative_input_ids"].shape[:2] == (2, 3)
    decoded = collator.tokenizer.batch_decode(
        batch["negative_input_ids"].flatten(0, 1), skip_special_tokens=True
    )
    for place, number in enumerate((0, 7)):
        first, second, third = decoded[3 * place : 3 * place + 3]
        own = EVENTS[number]
        assert first.startswith(f"{own['subject']} {own['predicate']} ")
        assert second.startswith(f"{own['subject']} {own['predicate']} ")
        assert third.endswith(f" {own['predicate']} {own['object']}")
    again = collator([row(number, [DISJOINT]) for number in (0, 7)])
    assert again["negative_input_ids"].equal(batch["negative_input_ids"])


def test_each_event_has_the_vector_of_its_own_row(collator: SwccCollator) -> None:
    collator.sentence_vectors = np.arange(12, dtype=np.float32).reshape(6, 2)
    batch = collator([row(number, [DISJOINT]) for number in (4, 1)])
    assert batch.keys() == {"input_ids", "attention_mask", "sentence_vectors"}
    assert batch["sentence_vectors"].tolist() == [[8.0, 9.0], [2.0, 3.0]]
    assert batch["input_ids"].equal(collator.encode([EVENTS[4], EVENTS[1]])["input_ids"])
