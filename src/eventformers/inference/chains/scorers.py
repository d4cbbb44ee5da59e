"""Scores of events that may come next in a chain: what the chain tasks and decoders ask of any model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from eventformers.datasets_scripts.events import Event, event_text
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.inference.encoding.unit_vectors import rounded_cosines, unit_vectors

Scores: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.int64]
EmbedEvents: TypeAlias = Callable[[Sequence[Event]], NDArray[np.floating]]
"""Events to vectors, (N, d), in their order. Vectors need not be normalised."""

Aggregation = Literal["mean", "last"]
AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)
"""What becomes of a candidate's cosines with the events of the context: their mean, or the one with the last
event."""


class ChainScorer(Protocol):
    """Scores candidates for the next event of a chain, and how well one event follows another."""

    @property
    def name(self) -> str:
        """What results call it."""
        ...

    def score_choices(
        self, contexts: Sequence[Sequence[Event]], choices: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """Score the choices of each question.

        Args:
            contexts: the events of each question's chain, in their order.
            choices: the candidates of each question; one alone gets a score like any other.

        Returns:
            One array for each question, (choices,); higher is better. Scores of different questions need not
            compare.
        """
        ...

    def similarities(
        self, sources: Sequence[Sequence[Event]], targets: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """How well each target follows each source, before rows are normalised.

        Args:
            sources: the events of each question that are followed.
            targets: the events of each question that follow.

        Returns:
            One array for each question, (sources, targets), 0 or more.
        """
        ...


class DistinctEvents:
    """Events in the order of their first occurrence, each once, so that each is encoded once."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._rows: dict[tuple[str, str, str], int] = {}

    def rows(self, events: Iterable[Event]) -> Positions:
        """The row of each event; new ones are added."""
        return np.asarray([self._row(event) for event in events], dtype=np.int64)

    def texts(self, rows: Positions) -> list[str]:
        """The texts of the events at some rows."""
        return [event_text(self.events[row]) for row in rows]

    def _row(self, event: Event) -> int:
        key = (event["subject"], event["predicate"], event["object"])
        row = self._rows.setdefault(key, len(self.events))
        if row == len(self.events):
            self.events.append(event)
        return row


class CosineScorer(ABC):
    """A `ChainScorer` by cosines; a subclass makes the vectors.

    The score of a candidate is the mean of its cosines with the events of the context, or the last of them. A
    transition from a to b is (cos(a, b) + 1) / 2.
    """

    aggregation: Aggregation

    def __post_init__(self) -> None:
        """Refuse an unknown aggregation.

        Raises:
            UnknownNameError: it is none of `AGGREGATIONS`.
        """
        if self.aggregation not in AGGREGATIONS:
            raise UnknownNameError("aggregation", self.aggregation, AGGREGATIONS)

    @abstractmethod
    def cosines(
        self, left: Sequence[Sequence[Event]], right: Sequence[Sequence[Event]], *, alone: bool
    ) -> list[Scores]:
        """Compute the cosines of the events on the left and on the right, `(left, right)` for each question.

        Args:
            left: the events of each question that are followed.
            right: the events of each question that may follow.
            alone: whether each event on the left is a chain of its own, or all of a question are one.
        """

    def score_choices(
        self, contexts: Sequence[Sequence[Event]], choices: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """Score the choices of each question; see `ChainScorer`.

        Raises:
            EventformersError: a question without a context event or a choice, an event without a word, or a
                vector without a cosine.
        """
        check_questions(contexts, choices, "choices")
        return [
            rounded_cosines(cosines.mean(axis=0) if self.aggregation == "mean" else cosines[-1])
            for cosines in self.cosines(contexts, choices, alone=False)
        ]

    def similarities(
        self, sources: Sequence[Sequence[Event]], targets: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """Score how well each target follows each source, from 0 to 1; see `ChainScorer`.

        Raises:
            EventformersError: a question without a source or a target, an event without a word, or a vector
                without a cosine.
        """
        check_questions(sources, targets, "targets")
        return [(rounded_cosines(cosines) + 1) / 2 for cosines in self.cosines(sources, targets, alone=True)]


@dataclass(frozen=True)
class EncoderChainScorer(CosineScorer):
    """Chains by vectors of single events: SWCC, MICO, and plain sentence encoders.

    The mean of the cosines ranks candidates like the cosine with the sum of the context's unit vectors.

    Attributes:
        embed: events to vectors; called once, with each distinct event of a call.
        name: name in results.
        aggregation: `mean` over the events of the context, or only the `last` one.
    """

    embed: EmbedEvents
    name: str = ""
    aggregation: Aggregation = "mean"

    def cosines(
        self, left: Sequence[Sequence[Event]], right: Sequence[Sequence[Event]], *, alone: bool
    ) -> list[Scores]:
        """Compute cosines; an event has the same vector in any chain."""
        distinct = DistinctEvents()
        rows = [distinct.rows([*of_left, *of_right]) for of_left, of_right in zip(left, right, strict=True)]
        vectors = np.asarray(self.embed(distinct.events)) if rows else np.empty((0, 0))
        cosines = []
        for of_question, of_left in zip(rows, left, strict=True):
            units = unit_vectors(vectors[of_question], distinct.texts(of_question))
            cosines.append(units[: len(of_left)] @ units[len(of_left) :].T)
        return cosines


def check_questions(left: Sequence[Sequence[Event]], right: Sequence[Sequence[Event]], what: str) -> None:
    """Refuse questions that cannot be scored.

    Args:
        left: the events of each question that are followed.
        right: the events of each question that may follow.
        what: what the latter are, for an error.

    Raises:
        EventformersError: lists of unequal length, or a question without an event on one side.
    """
    if len(left) != len(right):
        raise EventformersError(
            f"found {len(left)} chains and {len(right)} lists of {what}; accepted: one each"
        )
    for question, (of_left, of_right) in enumerate(zip(left, right, strict=True)):
        if not len(of_left) or not len(of_right):
            raise EventformersError(
                f"question {question} has {len(of_left)} events before it and {len(of_right)} {what}; "
                "accepted: at least one of each"
            )
