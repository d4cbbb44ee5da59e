"""Damaged model folders, a few for every kind; `python -m tests.robustness folders` loads more."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.robustness.folder_damages import DAMAGES, DAMAGES_OF_LOADING, Damage
from tests.robustness.folders import (
    KINDS,
    LOADED_BY_TRANSFORMERS,
    damaged,
    expected_numbers,
    try_way,
    undamaged,
)

from eventformers.errors import EventformersError

CASES = [(kind, way) for kind, ways in KINDS.items() for way in ways]


@pytest.mark.parametrize(("kind", "way"), CASES, ids=["-".join(case) for case in CASES])
def test_theundamaged_folder_loads_the_same_twice(kind: str, way: str) -> None:
    assert try_way(kind, way, undamaged(kind), True).kind == "worked"
    assert expected_numbers(kind, way).size


@pytest.mark.parametrize(
    ("found", "finding"),
    [
        (TypeError("unhashable type"), "TypeError: unhashable type"),
        (EventformersError("two\nlines"), "a message of 9 characters"),
        (float("nan"), "numbers that are not finite"),
        (1e9, "other numbers"),
    ],
)
def test_a_fault_is_found(found: Exception | float, finding: str) -> None:
    def load(folder: Path) -> np.ndarray:
        if isinstance(found, Exception):
            raise found
        return np.full_like(expected_numbers("encoder", "encode"), found)

    assert finding in try_way("encoder", "encode", Path(), True, load).finding


def test_numbers_that_no_one_can_know_are_counted_apart() -> None:
    outcome = try_way("encoder", "encode", Path(), False, lambda folder: np.ones((4, 32)))
    assert (outcome.kind, outcome.finding) == ("other", "")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "damage", sorted(set(DAMAGES), key=lambda one: one.__name__), ids=lambda one: one.__name__
)
def test_a_damaged_folder_works_or_is_refused(damage: Damage, seed: int, tmp_path: Path) -> None:
    random = Random(f"{damage.__name__} {seed}")  # noqa: S311, no secret
    loads_itself = damage in DAMAGES_OF_LOADING
    kind, way = random.choice(
        [case for case in CASES if not (loads_itself and case[1] in LOADED_BY_TRANSFORMERS)]
    )
    _, knowable = damaged(kind, tmp_path / "model", random, damage)
    assert not try_way(kind, way, tmp_path / "model", knowable).finding
