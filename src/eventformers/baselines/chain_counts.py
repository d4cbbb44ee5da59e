"""Narrative cloze by counting: PPMI and bigrams of the events of chains.

The counts are of predicates with dependency, because nearly every whole event is new (Chambers and Jurafsky,
ACL 2008; Jans et al., EACL 2012): someone who was *arrested* (as object) later *pleads* (as subject). The
dependency is the role of the argument that two events share, which in a training chain is the protagonist.
Two events without a shared argument are compared by their predicates.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal, TypeAlias

import numpy as np

from eventformers.baselines.base import Baseline, BaselineTask, ReadyBaseline
from eventformers.datasets_scripts.chain_readers import PRONOUNS
from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError
from eventformers.evaluation.tasks.chains import Chains
from eventformers.inference.chains.scorers import Scores
from eventformers.strict import StrictSettings, count, setting, strict_settings

Role: TypeAlias = Literal["subject", "object", ""]
Key: TypeAlias = tuple[str, ...]
ChainCounts: TypeAlias = "dict[tuple[int, int], PairCounts]"
"""Counts of the pairs of events of chains, by the kinds of key of both events: predicate with dependency (0),
predicate (1), its first word (2)."""

_COUNTED = ((0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (2, 2))
_ARGUMENTS: tuple[Literal["subject", "object"], ...] = ("subject", "object")


@strict_settings
@dataclass(frozen=True)
class CountSettings(StrictSettings):
    """Counting and smoothing of pairs of events.

    Attributes:
        window: maximum distance, in events, of two events of a chain that are counted as a pair. It keeps the
            protagonist of a book from outweighing all short chains.
        back_off: PPMI: factor for each step from predicate with dependency to predicate and to the first word
            of the predicate, if the finer pair was never seen; a constant, after Brants et al., EMNLP 2007.
        unshared: factor for a pair of events without a shared argument. Pairs of training chains always share
            one, so this factor cannot be estimated.
        history_weight: in bigrams, the weight of a coarser history, in observations of the finer one.
    """

    window: int = count(8)
    back_off: float = setting(0.7, lambda value: 0 < value <= 1, "above 0 and at most 1")
    unshared: float = setting(0.1, lambda value: 0 < value <= 1, "above 0 and at most 1")
    history_weight: float = setting(10.0, lambda value: value > 0, "a number above 0")


@dataclass
class PairCounts:
    """How often one key came before another in chains."""

    pairs: Counter[tuple[Key, Key]] = field(default_factory=Counter)
    first: Counter[Key] = field(default_factory=Counter)
    second: Counter[Key] = field(default_factory=Counter)
    total: int = 0

    def add(self, before: Key, after: Key) -> None:
        """Count one pair."""
        self.pairs[before, after] += 1
        self.first[before] += 1
        self.second[after] += 1
        self.total += 1


def event_keys(event: Event, role: Role) -> tuple[Key, Key, Key]:
    """Compute the keys under which an event is counted, from fine to coarse.

    Args:
        role: the role of the shared argument; empty if there is none.

    Returns:
        Predicate with dependency, predicate, first word of the predicate (without its preposition).
    """
    predicate = event["predicate"].lower()
    return (predicate, role), (predicate,), (predicate.split(" ", 1)[0],)


def protagonist_role(event: Event, protagonist: str) -> Role:
    """Find the role of the protagonist in an event; empty if the event uses another name."""
    wanted = protagonist.lower()
    for role in _ARGUMENTS:
        if event[role].lower() == wanted:
            return role
    return ""


def shared_roles(one: Event, other: Event) -> list[tuple[Role, Role]]:
    """Find the roles in which two events have the same argument; pronouns do not count."""
    return [
        roles
        for roles in product(_ARGUMENTS, _ARGUMENTS)
        if (argument := one[roles[0]].lower())
        and argument == other[roles[1]].lower()
        and argument not in PRONOUNS
    ]


def count_chains(
    chains: Iterable[Sequence[Event]],
    protagonists: Iterable[str],
    settings: CountSettings | None = None,
) -> ChainCounts:
    """Count the pairs of events of chains.

    Args:
        chains: the events of each chain, in order.

    Raises:
        EventformersError: no chain has two events.
    """
    settings = settings or CountSettings()
    counts = {kinds: PairCounts() for kinds in _COUNTED}
    for events, protagonist in zip(chains, protagonists, strict=True):
        keys = [event_keys(event, protagonist_role(event, protagonist)) for event in events]
        for position, after in enumerate(keys):
            for before in keys[max(0, position - settings.window) : position]:
                for (one, other), of_kinds in counts.items():
                    of_kinds.add(before[one], after[other])
    if not counts[0, 0].total:
        raise EventformersError("found no chain of two events; accepted: at least one to count in")
    return counts


@dataclass
class _PairScorer(ABC):
    """A scorer of chains by pairs of events."""

    counts: ChainCounts
    settings: CountSettings = field(default_factory=CountSettings)

    @abstractmethod
    def _value(self, before: Sequence[Key], after: Sequence[Key], finest: int) -> float:
        """The value of an event after another by their keys, of which `finest` is the finest kind to use."""

    def pair(self, before: Event, after: Event) -> float:
        """Value of an event after another; the maximum if they share several arguments."""
        shared = shared_roles(before, after)
        if not shared:
            return self.settings.unshared * self._value(event_keys(before, ""), event_keys(after, ""), 1)
        return max(
            self._value(event_keys(before, role), event_keys(after, other_role), 0)
            for role, other_role in shared
        )

    def similarities(
        self, sources: Sequence[Sequence[Event]], targets: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """Value of each target after each source, `(sources, targets)` for each question."""
        return [
            np.array([[self.pair(one, other) for other in others] for one in ones], dtype=np.float64)
            for ones, others in zip(sources, targets, strict=True)
        ]


@dataclass
class PpmiScorer(_PairScorer):
    """Positive pointwise mutual information of pairs of events (Chambers and Jurafsky, ACL 2008).

    PMI(a, b) = log(P(a, b) / (P(a) P(b))), ignoring the order, times the discount for rare pairs c / (c + 1)
    · m / (m + 1), where c is the pair's count and m the smaller count of its two keys (Pantel and
    Ravichandran, NAACL 2004); negative values become 0. For an unseen pair, the next coarser keys are used.
    The score of a choice is the sum over the context.
    """

    name: str = "ppmi"

    def score_choices(
        self, contexts: Sequence[Sequence[Event]], choices: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """Sum over the context of the PPMI with each choice, `(choices,)` for each question."""
        return [matrix.sum(axis=0) for matrix in super().similarities(contexts, choices)]

    def similarities(
        self, sources: Sequence[Sequence[Event]], targets: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """1 + PPMI of every pair, `(sources, targets)` for each question.

        Most pairs were never seen; without the 1, only the few seen pairs would determine a path of several
        steps.
        """
        return [1 + matrix for matrix in super().similarities(sources, targets)]

    def _value(self, before: Sequence[Key], after: Sequence[Key], finest: int) -> float:
        for level in range(finest, len(before)):
            counts, one, other = self.counts[level, level], before[level], after[level]
            seen = counts.pairs[one, other] + counts.pairs[other, one]
            if seen:
                of_one = counts.first[one] + counts.second[one]
                of_other = counts.first[other] + counts.second[other]
                smaller = min(of_one, of_other)
                pmi = math.log(seen * 2 * counts.total / (of_one * of_other))
                return self.settings.back_off ** (level - finest) * (
                    max(0.0, pmi) * seen / (seen + 1) * smaller / (smaller + 1)
                )
        return 0.0


@dataclass
class BigramScorer(_PairScorer):
    """Probability that one event follows another within the window (Jans et al., EACL 2012).

    P(b | a) = (c(a, b) + w P(b | a')) / (c(a) + w), where a' is the coarser key of a and w the history
    weight. The last step is P(b), with one count added for every event and for unseen ones. For two events
    without a shared argument, b is only the predicate, and the probability is multiplied by the factor
    `unshared`. The score of a choice is the sum of log P(choice | event) over the context.
    """

    name: str = "bigram"

    def score_choices(
        self, contexts: Sequence[Sequence[Event]], choices: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """Sum of the log-probabilities of each choice after each context event, `(choices,)` for each
        question."""
        return [np.log(matrix).sum(axis=0) for matrix in self.similarities(contexts, choices)]

    def _value(self, before: Sequence[Key], after: Sequence[Key], finest: int) -> float:
        outcome, weight = after[finest], self.settings.history_weight
        outcomes, total = self.counts[finest, finest].second, self.counts[finest, finest].total
        probability = (outcomes[outcome] + 1) / (total + len(outcomes) + 1)
        for kind in reversed(range(finest, len(before))):
            counts, history = self.counts[kind, finest], before[kind]
            probability = (counts.pairs[history, outcome] + weight * probability) / (
                counts.first[history] + weight
            )
        return probability


def _arguments(event: Event) -> list[tuple[Literal["subject", "object"], str]]:
    """The arguments of an event with their roles, in lower case."""
    roles: tuple[Literal["subject", "object"], ...] = ("subject", "object")
    return [(role, event[role].lower()) for role in roles if event[role]]


@dataclass
class ProtagonistScorer:
    """Scores a choice by its argument that the context has most often in the same role."""

    name: str = "protagonist"

    def score_choices(
        self, contexts: Sequence[Sequence[Event]], choices: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """Number of context events with the same argument in the same role, the maximum of both roles,
        `(choices,)` for each question."""
        scores = []
        for context, of_question in zip(contexts, choices, strict=True):
            counts = Counter(argument for event in context for argument in _arguments(event))
            found = [max((counts[one] for one in _arguments(event)), default=0) for event in of_question]
            scores.append(np.array(found, dtype=np.float64))
        return scores

    def similarities(
        self, sources: Sequence[Sequence[Event]], targets: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """1 + number of roles in which both events have the same argument, `(sources, targets)` for each
        question."""
        return [
            np.array(
                [[1 + len({*_arguments(one)} & {*_arguments(other)}) for other in others] for one in ones],
                dtype=np.float64,
            )
            for ones, others in zip(sources, targets, strict=True)
        ]


@dataclass(frozen=True)
class Protagonist(Baseline):
    """The commonest argument of the context on chain tasks."""

    kind = Chains

    def prepare(self, opened: BaselineTask) -> ReadyBaseline:
        """See `Baseline`; takes no options."""
        kind, rows = opened.task.kind, opened.scored_data.task_rows
        return ReadyBaseline(self.name, "rule", lambda: kind.run(ProtagonistScorer(), rows))
