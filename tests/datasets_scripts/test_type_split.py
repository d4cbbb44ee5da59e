"""Which event types are seen and which unseen."""

from __future__ import annotations

from collections import Counter

import pytest

from eventformers.datasets_scripts.event_types import split_types
from eventformers.errors import EventformersError, UnknownNameError

COUNTS = Counter({"d": 4, "c": 2, "b": 2, "a": 2, "e": 1})


@pytest.mark.parametrize(
    ("settings", "seen", "unseen", "left_out"),
    [
        ({}, "dabce", "", ""),
        ({"num_seen": 2, "num_unseen": 2}, "da", "bc", "e"),
        ({"num_seen": 2, "num_unseen": 0}, "da", "bce", ""),
        ({"num_seen": 0, "num_unseen": 1}, "", "d", "abce"),
        ({"seen_types": "ec", "num_unseen": 2}, "ce", "da", "b"),
        ({"seen_types": ()}, "", "dabce", ""),
        ({"unseen_types": "d", "num_seen": 2}, "ab", "d", "ce"),
        ({"seen_types": "b", "unseen_types": "ed"}, "b", "de", "ac"),
        ({"seen_types": "bz", "unseen_types": "d", "known": "z"}, "b", "d", "ace"),
    ],
)
def test_splits(settings: dict, seen: str, unseen: str, left_out: str) -> None:
    assert split_types(COUNTS, **settings) == (list(seen), list(unseen), list(left_out))


def test_a_type_cannot_be_both_and_must_be_there() -> None:
    with pytest.raises(EventformersError, match="found a, c in both; accepted: each type in one"):
        split_types(COUNTS, seen_types="abc", unseen_types="cad")
    with pytest.raises(UnknownNameError, match="unknown event type in unseen_types 'z'"):
        split_types(COUNTS, unseen_types="az")
