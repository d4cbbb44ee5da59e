"""What SWCC trains on: co-events, views, paraphrases and swaps."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from datasets import config as datasets_config
from short_runs import short_run
from transformers import AutoTokenizer

from eventformers.errors import EventformersError
from eventformers.models.modeling_swcc import SwccModel
from eventformers.trainers import role_substitution, swcc
from eventformers.trainers.role_substitution import ROLES, RoleSubstitution, SubstitutionSettings, word_stem
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


SUBJECTS = ("police", "man", "company", "storm")
PREDICATES = ("arrested", "bought", "destroyed")
OBJECTS = ("thief", "house", "car", "bridge", "house of cards")


@pytest.fixture(scope="module")
def rows() -> Dataset:
    events = [
        {"subject": subject, "predicate": predicate, "object": obj}
        for subject in SUBJECTS
        for predicate in PREDICATES
        for obj in OBJECTS
    ]
    events += [
        {"subject": "man", "predicate": "bought", "object": ""},
        {"subject": "man", "predicate": "bought", "object": "it"},
        {"subject": "man", "predicate": "bought", "object": "1,850"},
        {"subject": "man", "predicate": "bought", "object": "lottery"},
    ]
    return Dataset.from_dict({"event": events})


def substitution(rows: Dataset, encoder: Path, **settings: float) -> RoleSubstitution:
    model = SwccModel.from_encoder(str(encoder))
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    return RoleSubstitution(rows, model, tokenizer, SubstitutionSettings(**settings))


@pytest.fixture(scope="module")
def exchange(rows: Dataset, tiny_encoder: Path) -> RoleSubstitution:
    return substitution(rows, tiny_encoder, object_swaps=2, subject_swaps=1)


def test_rows_that_cannot_be_exchanged_are_counted(exchange: RoleSubstitution, rows: Dataset) -> None:
    assert exchange.kept.tolist() == list(range(len(rows) - 4))
    assert exchange.skipped == {"event_without_words_in_every_role": 3, "event_with_a_rare_word": 1}


def test_paraphrase_keeps_no_word(exchange: RoleSubstitution, rows: Dataset) -> None:
    for position in range(len(exchange.kept)):
        event = rows[int(exchange.kept[position])]["event"]
        paraphrase = exchange.paraphrase(position, np.random.default_rng(position))
        for role in ROLES:
            assert word_stem(paraphrase[role]) != word_stem(event[role])


def test_paraphrase_takes_near_words_more_often(
    rows: Dataset, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(role_substitution, "NEIGHBOUR_TEMPERATURE", 1e-6)
    monkeypatch.setattr(role_substitution, "MIN_NEIGHBOUR_COSINE", -1.0)
    sharp = substitution(rows, tiny_encoder)
    model = SwccModel.from_encoder(str(tiny_encoder), pooling="mean").eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    batch = tokenizer(list(OBJECTS), padding=True, return_tensors="pt")
    with torch.no_grad():
        vectors = model(batch["input_ids"], batch["attention_mask"]).embeddings
    cosines = torch.nn.functional.normalize(vectors, dim=-1)
    cosines = cosines @ cosines.T
    for position in range(len(sharp.kept)):
        own = rows[int(sharp.kept[position])]["event"]["object"]
        others = [word for word in OBJECTS if word_stem(word) != word_stem(own)]
        nearest = max(others, key=lambda word: cosines[OBJECTS.index(own), OBJECTS.index(word)].item())
        assert sharp.paraphrase(position, np.random.default_rng(position))["object"] == nearest


def test_far_neighbours_are_left_out(
    rows: Dataset, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(role_substitution, "MIN_NEIGHBOUR_COSINE", 1.1)
    strict = substitution(rows, tiny_encoder)
    drawn = {strict.paraphrase(0, np.random.default_rng(seed))["object"] for seed in range(50)}
    assert len(drawn) == 1


def test_swap_changes_one_role(exchange: RoleSubstitution, rows: Dataset) -> None:
    expected = ["object", "object", "subject"]
    for position in range(len(exchange.kept)):
        event = rows[int(exchange.kept[position])]["event"]
        swaps = exchange.swaps(position, np.random.default_rng(position))
        changed = [[role for role in ROLES if swap[role] != event[role]] for swap in swaps]
        assert changed == [[role] for role in expected]
        assert all(
            word_stem(swap[role]) != word_stem(event[role])
            for swap, role in zip(swaps, expected, strict=True)
        )


def test_a_form_of_the_word_is_no_swap_however_far(
    rows: Dataset, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(role_substitution, "MAX_SWAP_COSINE", 1.1)
    everything_is_far = substitution(rows, tiny_encoder, object_swaps=8)
    position = next(
        place
        for place, row in enumerate(everything_is_far.kept)
        if rows[int(row)]["event"]["object"] == "house"
    )
    swaps = everything_is_far.swaps(position, np.random.default_rng(0))
    assert {swap["object"] for swap in swaps if swap["subject"] == "police"}.isdisjoint(
        {"house", "house of cards"}
    )


def test_draws_depend_on_the_generator_alone(exchange: RoleSubstitution) -> None:
    first, second = (
        (exchange.paraphrase(3, generator), exchange.swaps(3, generator))
        for generator in (np.random.default_rng(1), np.random.default_rng(1))
    )
    assert first == second
    others = [exchange.swaps(3, np.random.default_rng(seed)) for seed in range(2, 12)]
    assert any(other != first[1] for other in others)


def test_too_few_events_say_what_to_do(tiny_encoder: Path) -> None:
    rows = Dataset.from_dict({"event": [{"subject": "man", "predicate": "bought", "object": "car"}]})
    with pytest.raises(EventformersError, match="found 0 of 1; accepted: more events"):
        substitution(rows, tiny_encoder)


def test_second_start_reads_neighbours(
    rows: Dataset, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words and the encoder decide: other words are encoded, and draws stay the same."""
    monkeypatch.setattr(datasets_config, "HF_DATASETS_CACHE", tmp_path)
    first = substitution(rows, tiny_encoder)
    encoded: list[list[str]] = []
    monkeypatch.setattr(role_substitution, "_word_vectors", lambda words, *_: encoded.append(words))
    second = substitution(rows, tiny_encoder)
    for position in range(len(first.kept)):
        drawn = (found.paraphrase(position, np.random.default_rng(position)) for found in (first, second))
        assert next(drawn) == next(drawn)
    assert encoded == []
    with pytest.raises(TypeError):
        substitution(rows.select(range(30)), tiny_encoder)
    assert encoded == [list(SUBJECTS[:2])]
