"""Splits by document, repeated documents, and draws that a seed and a name decide on."""

from __future__ import annotations

from collections import Counter

import pytest

from eventformers.datasets_scripts.document_splits import (
    DocumentSplits,
    RepeatedDocuments,
    SeededDraws,
    name_hash,
)
from eventformers.datasets_scripts.events import Event

NAMES = [f"document/{number}" for number in range(20_000)]


def event(predicate: str) -> Event:
    return {"subject": "man", "predicate": predicate, "object": ""}


def test_shares_are_met_and_a_place_depends_on_the_id_and_the_seed_alone() -> None:
    splits = DocumentSplits(0.1, 0.2, seed=13)
    found = [splits.split_of(name) for name in NAMES]
    counts = Counter(found)
    assert abs(counts["test"] / 20_000 - 0.2) < 0.01
    assert abs(counts["validation"] / 20_000 - 0.1) < 0.01
    assert found == [DocumentSplits(0.1, 0.2, seed=13).split_of(name) for name in NAMES]
    assert found != [DocumentSplits(0.1, 0.2, seed=14).split_of(name) for name in NAMES]
    # A known value: what was test in one process is test in every other one.
    assert name_hash(13, "document/0") == 3254597234205771064


def test_a_larger_share_takes_documents_from_train_alone() -> None:
    small, large = DocumentSplits(0.1, 0.1, 13), DocumentSplits(0.2, 0.3, 13)
    for name in NAMES[:2000]:
        if small.split_of(name) != "train":
            assert large.split_of(name) == small.split_of(name)


@pytest.mark.parametrize(
    ("validation", "test", "names"),
    [
        (0.1, 0.1, ("train", "validation", "test")),
        (0, 0, ("train",)),
        (0, 1, ("test",)),
        (0.9, 0.1, ("validation", "test")),
    ],
)
def test_splits_without_a_share_are_none(validation: float, test: float, names: tuple[str, ...]) -> None:
    splits = DocumentSplits(validation, test, 13)
    assert splits.names == names
    assert {splits.split_of(name) for name in NAMES[:500]} == set(names)


def test_of_equal_documents_one_stays_whatever_their_order() -> None:
    documents = {name: [event("ran"), event("fell")] for name in ("a", "b", "c")}
    documents["d"] = [event("ran")]
    stay = set()
    for order in (list(documents), list(documents)[::-1]):
        repeats = RepeatedDocuments()
        for name in order:
            repeats.add(name, documents[name])
        kept = [name for name in sorted(documents) if not repeats.is_repeat(name, documents[name])]
        assert len(kept) == 2
        assert "d" in kept
        assert not repeats.is_repeat("e", [event("never added")])
        stay.add(tuple(kept))
    assert len(stay) == 1


def test_draws_are_uniform_and_seeded() -> None:
    draws = SeededDraws(13, "chain", 0)
    counts = Counter(draws.below(5) for _ in range(10_000))
    assert sorted(counts) == [0, 1, 2, 3, 4]
    assert max(abs(count - 2000) for count in counts.values()) < 200
    same, other = SeededDraws(13, "chain", 0), SeededDraws(14, "chain", 0)
    first = [SeededDraws(13, "chain", 0).below(1000) for _ in range(3)]
    assert first == [first[0]] * 3
    assert [same.below(1000) for _ in range(20)] != [other.below(1000) for _ in range(20)]
