"""Accuracy by the average node degree of a question's graph (Zheng et al., TNNLS 2022, Fig. 4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.significance import answers_of
from eventformers.evaluation.tasks.base import Row, Task
from eventformers.evaluation.tasks.chains import Chains, read_chain_question, read_steps
from eventformers.inference.chains.virtual_context import words_of
from eventformers.models.event_graph import NO_NODE, SELF_LOOP, build_event_graph

BIN_EDGES = tuple(4 + step / 4 for step in range(9))
"""Bounds of the degree intervals; the first and last interval are open. The paper's are twice as wide."""

_BLOCK_CHAINS = 4_096


@dataclass(frozen=True)
class DegreeBin:
    """The questions whose average node degree is in an interval.

    Attributes:
        low: lower bound, inclusive.
        high: upper bound, exclusive; infinite for the last interval.
        accuracy: percentage of correct decisions.
    """

    low: float
    high: float
    questions: int
    accuracy: float

    @property
    def name(self) -> str:
        """The interval as text for a table."""
        if self.low == 0:
            return f"below {self.high:g}"
        return f"{self.low:g} and more" if np.isinf(self.high) else f"{self.low:g} to {self.high:g}"


def average_degrees(chains: Sequence[Sequence[Event]]) -> npt.NDArray[np.float64]:
    """Compute the average node degree of each chain's graph, without self-loops.

    Event nodes and word nodes count equally. Like the model's tokens, words are split at blanks and compared
    without case.

    Args:
        chains: the events of each chain, at least one per chain.

    Returns:
        `(chains,)`.
    """
    parts = [
        _degrees_of_block(chains[start : start + _BLOCK_CHAINS])
        for start in range(0, len(chains), _BLOCK_CHAINS)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def _degrees_of_block(chains: Sequence[Sequence[Event]]) -> npt.NDArray[np.float64]:
    numbers: dict[str, int] = {}
    words = [
        [numbers.setdefault(word, len(numbers)) for word in words_of(event)]
        for chain in chains
        for event in chain
    ]
    rows = iter(range(len(words)))
    graph = build_event_graph(_padded([[next(rows) for _ in chain] for chain in chains]), _padded(words))
    ends = graph.node_chain[graph.edge_index[0, graph.edge_type != SELF_LOOP]]
    degrees = torch.bincount(ends, minlength=len(chains))
    return (degrees / graph.nodes_of_chain).double().numpy()


def _padded(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    width = max(map(len, rows), default=0)
    return torch.tensor([[*row, *[NO_NODE] * (width - len(row))] for row in rows])


def question_chains(task: Task, rows: Iterable[Row]) -> list[list[Event]]:
    """Read the chain of each question.

    For a cloze this is the context; for several steps, the start and the correct events.

    Raises:
        EventformersError: the task has no chains, or a row is not a valid question.
    """
    if not isinstance(task.kind, Chains):
        raise EventformersError(f"{task.name} reads no chains; accepted: a task on narrative chains")
    if task.metric == "mcnc":
        return [read_chain_question(row, number)[0] for number, row in enumerate(rows)]
    chains = []
    for number, row in enumerate(rows):
        states, labels = read_steps(row, number)
        chains.append([state[label] for state, label in zip(states, [0, *labels], strict=True)])
    return chains


def accuracy_by_degree(result: TaskResult, degrees: npt.NDArray[np.float64]) -> list[DegreeBin]:
    """Compute a result's accuracy in each degree interval that has questions.

    Args:
        result: the result, whose predictions say whether they are correct.
        degrees: the average degree of each question's graph, in the order of the rows.

    Raises:
        EventformersError: the numbers of degrees and questions differ, or predictions do not say whether
            they are correct.
    """
    answers = answers_of(result)
    if len(answers) != len(degrees):
        raise EventformersError(
            f"found {len(degrees):,} graphs for {len(answers):,} questions; accepted: one for each question"
        )
    places = np.searchsorted(BIN_EDGES, degrees, side="right")
    bounds = (0.0, *BIN_EDGES, np.inf)
    bins = []
    for place in range(len(bounds) - 1):
        right = [one for row in np.flatnonzero(places == place) for one in answers[row]]
        if right:
            questions = int((places == place).sum())
            bins.append(DegreeBin(bounds[place], bounds[place + 1], questions, 100 * float(np.mean(right))))
    return bins
