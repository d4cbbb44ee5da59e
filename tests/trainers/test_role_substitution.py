"""Paraphrases and swaps of single words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from datasets import config as datasets_config
from transformers import AutoTokenizer

from eventformers.errors import EventformersError
from eventformers.models.modeling_swcc import SwccModel
from eventformers.trainers import role_substitution
from eventformers.trainers.role_substitution import ROLES, RoleSubstitution, SubstitutionSettings, word_stem

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
