"""Narrative cloze by the protagonist alone: the choice with the commonest argument of the context.

It measures what the arguments of built questions give away: it reads no predicate, and learns nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from eventformers.baselines.base import Baseline, BaselineTask, ReadyBaseline
from eventformers.datasets_scripts.events import Event
from eventformers.evaluation.tasks.chains import Chains
from eventformers.inference.chains.scorers import Scores, check_questions


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
        check_questions(contexts, choices, "choices")
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
        check_questions(sources, targets, "targets")
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
