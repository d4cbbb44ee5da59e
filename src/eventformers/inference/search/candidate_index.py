"""An index of candidate events, which finds the best events of a pool for each mention.

The score of a mention and an event is the dot product of their vectors (Ou et al., 2023, section 5.1). A pool
holds the events described in one language. In the multilingual task, the candidates of a mention are the
events in its own language; in the crosslingual task there is one pool of English descriptions. The search is
exact, or approximate with FAISS in large pools; every approximate search has a measured recall.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import fmean
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np

from eventformers.errors import EventformersError, UnknownNameError, counted, shown
from eventformers.inference.encoding.vectors import Positions, Vectors, rows_at
from eventformers.inference.search.vector_search import (
    SMALLEST,
    ApproximateSearch,
    ExactSearch,
    Found,
    shared,
)

Rows: TypeAlias = slice | Positions
SearchKind: TypeAlias = Literal["auto", "exact", "ivf"]

EXACT_UP_TO = 2_000_000
"""Largest pool that `auto` searches exactly; beyond it, a single mention takes seconds."""

RECALL_MENTIONS = 256
"""Maximum number of mentions per search that are also searched exactly to measure the recall of an index in
memory; an index on disk knows its recall."""


@dataclass(frozen=True)
class Candidates:
    """The candidate events of mentions, best first.

    Attributes:
        events: positions in the index's `event_ids`, -1 after the last candidate, `(mentions, k)`.
        scores: their scores, minus infinity after the last candidate, `(mentions, k)`.
        without_pool: number of mentions, by language, whose language has no events.
        recall: share of the exact candidates that an approximate search found, by the language of its pool;
            measured on at most `RECALL_MENTIONS` mentions, for an index on disk on events when it was built.
            Empty if all searches were exact.
    """

    events: Positions
    scores: Vectors
    without_pool: dict[str, int] = field(default_factory=dict)
    recall: dict[str, float] = field(default_factory=dict)

    @classmethod
    def joined(cls, parts: Sequence[Candidates]) -> Candidates:
        """Join the candidates of successive mentions; the recall of a language is the mean over its parts."""
        recalls: dict[str, list[float]] = {}
        for part in parts:
            for language, recall in part.recall.items():
                recalls.setdefault(language, []).append(recall)
        return cls(
            np.concatenate([part.events for part in parts]),
            np.concatenate([part.scores for part in parts]),
            dict(sum((Counter(part.without_pool) for part in parts), Counter())),
            {language: fmean(values) for language, values in recalls.items()},
        )

    def take(self, mentions: range) -> Candidates:
        """Return the candidates of some mentions, by position."""
        return replace(self, events=self.events[mentions], scores=self.scores[mentions])

    def ids(self, event_ids: Sequence[str]) -> list[list[str]]:
        """Return the ids of each mention's candidates, best first."""
        return [[event_ids[event] for event in row if event >= 0] for row in self.events.tolist()]


class Pool(Protocol):
    """The events described in one language."""

    def search(self, mentions: Any, number: int) -> tuple[Found, float | None]:
        """Return the best events of some mentions by position in the pool, and the recall if approximate."""


class PooledIndex:
    """Pools of events by language; each pool has its own kind of search.

    Args:
        event_ids: the event of each description, `(n,)`; an event has at most one in each pool.
        languages: the language of each description, `(n,)`; None puts all into one pool, which serves
            mentions in any language.
        make_pool: makes a pool of the descriptions in some rows.

    Raises:
        EventformersError: there are no events, or one occurs twice in a pool.
    """

    def __init__(
        self,
        event_ids: Sequence[str],
        languages: Sequence[str] | None,
        make_pool: Callable[[Rows], Pool],
    ) -> None:
        if not len(event_ids):
            raise EventformersError("the knowledge base is empty; accepted: at least one event")
        places: dict[str, int] = {}
        event = np.array([places.setdefault(event_id, len(places)) for event_id in event_ids])
        self.event_ids = list(places)
        self._one_pool = languages is None
        self._pools: dict[str, Pool] = {}
        self._events: dict[str, Positions] = {}
        for language, rows in _rows_by_language(languages, len(event_ids)).items():
            distinct, counts = np.unique(event[rows], return_counts=True)
            repeated = distinct[counts > 1]
            if len(repeated):
                where = f" in {language!r}" if language else ""
                raise EventformersError(
                    f"{counted(len(repeated), 'event')} given several times among the candidates{where}, "
                    f"the first {shown(self.event_ids[repeated[0]])}; accepted: each event once"
                )
            self._events[language] = event[rows]
            self._pools[language] = make_pool(rows)

    @property
    def pools(self) -> dict[str, int]:
        """Number of events in each pool, by language; a single pool for all has the empty language."""
        return {language: len(events) for language, events in self._events.items()}

    def search(self, mentions: Any, number: int = 8, *, languages: Sequence[str] | None = None) -> Candidates:
        """Find the events with the largest scores for each mention; the one indexed first wins ties.

        Args:
            mentions: the queries of the pools, an array or a list with an entry for each mention.
            number: number of candidates of a mention, if its pool has as many.
            languages: the language of each mention, `(m,)`; required with several pools, ignored with one.
        """
        mentions = np.array(mentions, dtype=object) if isinstance(mentions, list) else mentions
        events = np.full((len(mentions), number), -1, dtype=np.int64)
        scores = np.full((len(mentions), number), -np.inf, dtype=np.float32)
        recall: dict[str, float] = {}
        without_pool: Counter[str] = Counter()
        asked = _rows_by_language(None if self._one_pool else languages, len(mentions))
        for language, rows in asked.items():
            if language not in self._pools:
                without_pool[language] = len(mentions[rows])
                continue
            found, measured = self._pools[language].search(mentions[rows], number)
            width = found.positions.shape[1]
            # -1 fills up rows with fewer candidates than requested.
            of_pool = np.append(self._events[language], -1)
            events[rows, :width], scores[rows, :width] = of_pool[found.positions], found.scores
            if measured is not None:
                recall[language] = measured
        return Candidates(events, scores, dict(without_pool), recall)


class CandidateIndex(PooledIndex):
    """Vectors of events, `(n, d)`, in pools by language; `search` takes vectors of mentions, `(m, d)`.

    The vectors are not copied if they are float32 and sorted by pool.

    Args:
        event_ids: see `PooledIndex`, like `languages`.
        kind: kind of search: `exact`; `ivf`, approximate; `auto` is exact in pools of up to `EXACT_UP_TO`
            events and `ivf` in larger ones. Pools of fewer than `SMALLEST` events are searched exactly.
        stored: opens the `ivf` search among all vectors on disk; None builds one for each pool in memory.

    Raises:
        EventformersError: an error of `PooledIndex`, or a vector is not finite.
    """

    def __init__(
        self,
        event_ids: Sequence[str],
        vectors: Vectors,
        languages: Sequence[str] | None = None,
        *,
        kind: SearchKind = "auto",
        stored: Callable[[], ApproximateSearch] | None = None,
    ) -> None:
        open_stored = None if stored is None else cache(stored)
        self._vectors: list[_VectorPool | _StoredPool] = []

        def make_pool(rows: Rows) -> Pool:
            own = vectors[rows]
            chosen = chosen_kind(kind, len(own))
            if chosen == "ivf" and open_stored is not None and isinstance(rows, slice):
                self._vectors.append(_StoredPool(open_stored(), rows))
            else:
                self._vectors.append(_VectorPool(own, chosen))
            return self._vectors[-1]

        super().__init__(event_ids, languages, make_pool)

    def nearest_others(self, sampled: int) -> Vectors:
        """Return the score of events with the nearest other event of their pool, `(n,)`; of a pool at most
        `sampled` events, evenly spaced."""
        return np.concatenate([pool.nearest_others(sampled) for pool in self._vectors])


def check_search(kind: str) -> None:
    """Raise an error for an unknown kind of search."""
    if kind not in get_args(SearchKind):
        raise UnknownNameError("kind of search", kind, get_args(SearchKind))


def chosen_kind(kind: SearchKind, number: int) -> SearchKind:
    """Return the kind of search among a number of vectors: `exact` or `ivf`."""
    if number < SMALLEST:
        return "exact"
    if kind == "auto":
        return "exact" if number <= EXACT_UP_TO else "ivf"
    return kind


class _VectorPool:
    """The vectors of the events described in one language."""

    def __init__(self, vectors: Vectors, kind: SearchKind) -> None:
        self._exact = ExactSearch(vectors)
        self._approximate = ApproximateSearch.build(self._exact.vectors) if kind == "ivf" else None

    def search(self, mentions: Vectors, number: int) -> tuple[Found, float | None]:
        """Return the events found, and the recall of an approximate search."""
        if self._approximate is None:
            return self._exact.search(mentions, number), None
        number = min(number, len(self._exact.vectors))
        found = self._approximate.search(mentions, number)
        sample = np.unique(np.linspace(0, len(mentions) - 1, RECALL_MENTIONS).round().astype(np.int64))
        exact = self._exact.search(mentions[sample], number).positions
        return found, shared(found.positions[sample], exact)

    def nearest_others(self, sampled: int) -> Vectors:
        """Return the score of sampled events with the nearest other event, `(n,)`; empty for one event."""
        return _nearest_others(self._exact.vectors, sampled, lambda queries: self._exact.search(queries, 2))


class _StoredPool:
    """Some consecutive vectors of a search on disk."""

    def __init__(self, search: ApproximateSearch, rows: slice) -> None:
        self._search, self._rows = search, rows

    def search(self, mentions: Vectors, number: int) -> tuple[Found, float | None]:
        """Return the events found, and the recall that the build of the search measured."""
        scores, positions = self._search.search(mentions, number, self._rows)
        first = self._rows.start or 0
        return Found(scores, np.where(positions < 0, -1, positions - first)), self._search.recall

    def nearest_others(self, sampled: int) -> Vectors:
        """Return the score of sampled events with the nearest other event, `(n,)`; empty for one event."""
        own = self._search.vectors[self._rows]
        return _nearest_others(own, sampled, lambda queries: self.search(queries, 2)[0])


def _nearest_others(vectors: Vectors, sampled: int, nearest_two: Callable[[Vectors], Found]) -> Vectors:
    if len(vectors) < 2:
        return np.empty(0, dtype=np.float32)
    sample = np.unique(np.linspace(0, len(vectors) - 1, min(len(vectors), sampled)).round().astype(np.int64))
    found = nearest_two(rows_at(vectors, sample))
    others = np.where(found.positions == sample[:, None], -np.inf, found.scores)
    return np.asarray(others.max(axis=1))


def _rows_by_language(languages: Sequence[str] | None, number: int) -> dict[str, Rows]:
    """Return the rows of each language, in order of the languages; None puts all under the empty text."""
    if languages is None:
        return {"": slice(number)}
    names, inverse = np.unique(np.array(languages, dtype=object), return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(inverse))[:-1])
    # Consecutive rows as a slice, which avoids a copy.
    return {
        str(name): slice(int(rows[0]), int(rows[-1]) + 1) if rows[-1] - rows[0] + 1 == len(rows) else rows
        for name, rows in zip(names, parts, strict=True)
    }
