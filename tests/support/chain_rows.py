"""Rows of the chain tasks, and a scorer that knows a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eventformers.datasets_scripts.events import Event


def event(words: str) -> Event:
    """An event from "subject predicate object", "-" for an absent role."""
    subject, predicate, object_ = (word.replace("-", "") for word in [*words.split(), "-", "-"][:3])
    return {"subject": subject, "predicate": predicate, "object": object_}


def events(*words: str) -> list[Event]:
    """Events from texts as `event` takes them."""
    return [event(text) for text in words]


class TableScorer:
    """Events whose predicates are names, by a table of how well one follows another; 0.5 where it is silent.

    The score of a choice is the mean over the context.
    """

    name = "table"

    def __init__(self, table: Mapping[str, float]) -> None:
        self.table = table
        self.calls: list[str] = []
        self.contexts: list[str] = []

    def score_choices(
        self, contexts: Sequence[Sequence[Event]], choices: Sequence[Sequence[Event]]
    ) -> list[np.ndarray]:
        self.calls.append("score_choices")
        self.contexts = [" ".join(one["predicate"] for one in context) for context in contexts]
        return [
            self._follows(left, right).mean(axis=0) for left, right in zip(contexts, choices, strict=True)
        ]

    def similarities(
        self, sources: Sequence[Sequence[Event]], targets: Sequence[Sequence[Event]]
    ) -> list[np.ndarray]:
        self.calls.append("similarities")
        return [self._follows(left, right) for left, right in zip(sources, targets, strict=True)]

    def _follows(self, left: Sequence[Event], right: Sequence[Event]) -> np.ndarray:
        return np.asarray(
            [[self.table.get(f"{one['predicate']} {two['predicate']}", 0.5) for two in right] for one in left]
        )
