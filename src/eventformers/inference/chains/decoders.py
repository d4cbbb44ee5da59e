"""Decoders of multistep inference: which choice is taken at each step of a chain, by transition matrices.

A chain has a start and several steps with several choices each. The matrix of a step has the shape (choices
of the step before, choices of the step), and (1, choices) for the first step, which follows the start. The
rules are those of Lee and Goldwasser's evaluation (2018, 2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from eventformers.errors import EventformersError

Matrix = NDArray[np.float64]


def row_normalized(similarities: Matrix, *, compat: bool = False) -> Matrix:
    """Similarities as transition probabilities: every row divided by its sum.

    Args:
        similarities: how well each target follows each source, (sources, targets), 0 or more.
        compat: divide as the reference code of Lee and Goldwasser (2019) does, whose row sums are spread
            along the wrong axis: entry (i, j) is divided by the sum of row j. Only for square matrices and
            those of one row, which come out right.

    Returns:
        The same shape. A row of zeros tells nothing and becomes uniform.

    Raises:
        EventformersError: a value is negative, NaN or infinite, the shape is no matrix with an entry, or
            `compat` meets a shape that the reference code cannot divide.
    """
    values = np.asarray(similarities, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise EventformersError(f"similarities have shape {values.shape}; accepted: (sources, targets)")
    if not (np.isfinite(values) & (values >= 0)).all():
        raise EventformersError("similarities hold a negative, NaN or infinite value; accepted: 0 or more")
    rows, columns = values.shape
    values = np.where(values.sum(axis=1, keepdims=True) > 0, values, 1.0)
    sums = values.sum(axis=1)
    if not compat:
        return values / sums[:, None]
    if rows not in (1, columns):
        raise EventformersError(
            f"compat: similarities have shape {values.shape}; accepted: as many sources as targets, or one"
        )
    return values / sums


def viterbi(transitions: Sequence[Matrix], end: int | None = None) -> list[int]:
    """The path of the largest product of transitions from the start to the last step; MCNS-V and MCNE-V.

    Products are sums of logarithms. A transition of 0 counts as one that goes to 0 at the same rate as every
    other of 0: the paths with the fewest of them go before all others. Of equal paths the one is taken that
    has the first index at the last step, then at the one before, and so on.

    Args:
        transitions: one matrix for each step.
        end: the choice that is known to be right at the last step, to which the path is held (MCNE); None
            leaves it free (MCNS).

    Returns:
        The index of the choice at each step.

    Raises:
        EventformersError: the matrices do not follow each other, or the last step has no choice `end`.
    """
    _check_steps(transitions)
    last = transitions[-1].shape[1]
    if end is not None and not 0 <= end < last:
        raise EventformersError(f"the end is choice {end}; accepted: an index from 0 to {last - 1}")
    # Of the start alone: one path of length 0, in front of every choice.
    zeros, score = np.zeros(1, dtype=np.int64), np.zeros(1)
    previous: list[NDArray[np.intp]] = []
    for matrix in transitions:
        is_zero = matrix == 0
        # Counted apart: sums of -inf would be equal however many there are.
        all_zeros = zeros[:, None] + is_zero
        all_scores = score[:, None] + np.log(np.where(is_zero, 1.0, matrix))
        best = _best(all_zeros, all_scores)
        previous.append(best)
        zeros, score = (
            np.take_along_axis(values, best[None], axis=0)[0] for values in (all_zeros, all_scores)
        )
    path = [int(_best(zeros, score)) if end is None else end]
    for best in reversed(previous[1:]):
        path.append(int(best[path[-1]]))
    return path[::-1]


def _best(zeros: NDArray[np.int64], scores: Matrix) -> NDArray[np.intp]:
    """Index along the first axis of the best score among those with the fewest zeros."""
    return np.argmax(np.where(zeros == zeros.min(axis=0), scores, -np.inf), axis=0)


def greedy(transitions: Sequence[Matrix]) -> list[int]:
    """The best transition at each step from the choice taken before it; Base. The first index wins ties.

    Args:
        transitions: one matrix for each step.

    Returns:
        The index of the choice at each step.

    Raises:
        EventformersError: the matrices do not follow each other.
    """
    _check_steps(transitions)
    path = [0]
    for matrix in transitions:
        path.append(int(np.argmax(matrix[path[-1]])))
    return path[1:]


def informed(transitions: Mapping[tuple[int, int], Matrix], gold: Sequence[int]) -> list[int]:
    """Each step by itself, given the right choices of all other states, before and behind it; Sky.

    The score of choice j of step t is the sum of the transitions to it from the right choices before, and
    from it to the right choices behind. The first index wins ties.

    Args:
        transitions: for each pair of states s < t the matrix (choices of s, choices of t); state 0 is the
            start, state t the t-th step.
        gold: the right choice of each step.

    Returns:
        The index of the choice at each step.

    Raises:
        EventformersError: a pair is missing, or a step has no choice of that index.
    """
    states = [0, *gold]
    missing = [pair for pair in _pairs(len(states)) if pair not in transitions]
    if missing:
        raise EventformersError(f"no transitions from state {missing[0][0]} to state {missing[0][1]}")
    path = []
    for step in range(1, len(states)):
        before = [transitions[state, step][states[state]] for state in range(step)]
        behind = [transitions[step, state][:, states[state]] for state in range(step + 1, len(states))]
        path.append(int(np.argmax(np.sum([*before, *behind], axis=0))))
    return path


def _pairs(states: int) -> list[tuple[int, int]]:
    return [(source, target) for target in range(states) for source in range(target)]


def _check_steps(transitions: Sequence[Matrix]) -> None:
    rows = 1
    for step, matrix in enumerate(transitions):
        if matrix.ndim != 2 or len(matrix) != rows or not matrix.size:
            raise EventformersError(
                f"the transitions to step {step} have shape {matrix.shape}; accepted: ({rows}, choices)"
            )
        rows = matrix.shape[1]
    if not len(transitions):
        raise EventformersError("there is no step; accepted: transitions to at least one")
