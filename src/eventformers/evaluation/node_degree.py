"""Scores by the average node degree of a question's graph (Zheng et al., TNNLS 2022, Fig. 4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import spearmanr

from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.significance import answers_of, graded_pairs
from eventformers.evaluation.tasks.base import Row, Task
from eventformers.evaluation.tasks.chains import Chains, read_chain_question, read_steps
from eventformers.evaluation.tasks.pairs import Pairs, events_of_pairs
from eventformers.inference.chains.scorers import chain_index, context_weights, words_of
from eventformers.models.event_graph import NO_NODE, SELF_LOOP, build_event_graph

BIN_EDGES = (4.0, 4.5, 5.0, 5.5, 6.0)
"""Bounds of the paper's degree intervals; the first and last interval are open."""

MIN_CORRELATED = 3
"""Minimum number of graded pairs in an interval; two have a correlation of 1 or -1, whatever the model."""

_BLOCK_CHAINS = 4_096


@dataclass(frozen=True)
class DegreeBin:
    """The questions whose average node degree is at least `low` and below `high`, which is infinite for the
    last interval; the score is the percentage of correct decisions, or Spearman's rho for graded pairs."""

    low: float
    high: float
    questions: int
    score: float

    @property
    def name(self) -> str:
        """The interval as text for a table."""
        if self.low == 0:
            return f"below {self.high:g}"
        return f"{self.low:g} and more" if np.isinf(self.high) else f"{self.low:g} to {self.high:g}"


def average_degrees(chains: Sequence[Sequence[Event]]) -> npt.NDArray[np.float64]:
    """Compute the average node degree of the graph of each chain of one or more events, without self-loops,
    `(chains,)`.

    Event nodes and word nodes count equally. Like the model's tokens, words are split at blanks and compared
    without case.
    """
    parts = [np.empty(0)]
    for start in range(0, len(chains), _BLOCK_CHAINS):
        block = chains[start : start + _BLOCK_CHAINS]
        numbers: dict[str, int] = {}
        words = [
            [numbers.setdefault(word, len(numbers)) for word in words_of(event)]
            for chain in block
            for event in chain
        ]
        rows = iter(range(len(words)))
        graph = build_event_graph(_padded([[next(rows) for _ in chain] for chain in block]), _padded(words))
        ends = graph.node_chain[graph.edge_index[0, graph.edge_type != SELF_LOOP]]
        degrees = torch.bincount(ends, minlength=len(block))
        parts.append((degrees / graph.nodes_of_chain).double().numpy())
    return np.concatenate(parts)


def _padded(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    width = max(map(len, rows), default=0)
    return torch.tensor([[*row, *[NO_NODE] * (width - len(row))] for row in rows])


def degrees_of_questions(task: Task, rows: Iterable[Row]) -> npt.NDArray[np.float64]:
    """Compute the average node degree of the graph of each question.

    For a cloze this is the graph of the context; for several steps, that of the start and the correct events.
    For pairs it is the mean over their events, each of the graphs of its virtual contexts, weighted as the
    model weights them.

    Raises:
        EventformersError: the task has no chains and no virtual contexts, or a row is not a valid question.
    """
    if isinstance(task.kind, Pairs) and task.kind.settings.virtual_context is not None:
        of_rows = list(map(events_of_pairs, rows))
        events = [event for row in of_rows for event in row]
        index = chain_index(task.kind.settings.virtual_context)
        nearest = index.nearest(events, task.kind.settings.retrieved)
        of_events = [
            [[*index.contexts[position], event] for position in positions] or [[event]]
            for event, (positions, _) in zip(events, nearest, strict=True)
        ]
        degrees = iter(average_degrees([chain for of_event in of_events for chain in of_event]))
        means = iter(
            [
                context_weights(matches) @ [next(degrees) for _ in of_event]
                for of_event, (_, matches) in zip(of_events, nearest, strict=True)
            ]
        )
        return np.array([np.mean([next(means) for _ in row]) for row in of_rows])
    if not isinstance(task.kind, Chains):
        raise EventformersError(
            f"{task.name} reads no chains; accepted: a task on narrative chains, or on pairs with "
            "virtual_context"
        )
    if task.metric == "mcnc":
        return average_degrees([read_chain_question(row, number)[0] for number, row in enumerate(rows)])
    chains = []
    for number, row in enumerate(rows):
        states, labels = read_steps(row, number)
        chains.append([state[label] for state, label in zip(states, [0, *labels], strict=True)])
    return average_degrees(chains)


def scores_by_degree(result: TaskResult, degrees: npt.NDArray[np.float64]) -> list[DegreeBin]:
    """Compute a result's accuracy, or correlation with ratings, in each degree interval that has questions.

    An interval with fewer than `MIN_CORRELATED` graded pairs, or with equal ones, has no correlation and is
    left out. `degrees` has the average degree of each question's graph, in the order of the rows.
    """
    graded = graded_pairs(result)
    answers = answers_of(result) if graded is None else list(zip(*graded, strict=True))
    places = np.searchsorted(BIN_EDGES, degrees, side="right")
    bounds = (0.0, *BIN_EDGES, np.inf)
    bins = []
    for place in range(len(bounds) - 1):
        held = [answers[row] for row in np.flatnonzero(places == place)]
        if graded is None:
            right = [one for answer in held for one in answer]
            score = 100 * float(np.mean(right)) if right else np.nan
        else:
            score = float(spearmanr(held).statistic) if len(held) >= MIN_CORRELATED else np.nan
        if not np.isnan(score):
            bins.append(DegreeBin(bounds[place], bounds[place + 1], len(held), score))
    return bins
