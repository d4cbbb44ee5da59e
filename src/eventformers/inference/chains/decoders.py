"""Decoders of multistep inference: they select a choice at each step of a chain from transition matrices.

A chain has a start and several steps with several choices each. The matrix of a step has the shape (choices
of the previous step, choices of this step), or (1, choices) for the first step. The rules follow the
evaluation of Lee and Goldwasser (2018, 2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from eventformers.errors import EventformersError

Matrix = NDArray[np.float64]


def row_normalized(similarities: Matrix, *, compat: bool = False) -> Matrix:
    """Normalise similarities to transition probabilities: divide every row by its sum.

    Args:
        similarities: how well each target follows each source, (sources, targets), 0 or more.
        compat: reproduce the reference code of Lee and Goldwasser (2019), which broadcasts row sums along the
            wrong axis: entry (i, j) is divided by the sum of row j. Only for square matrices and matrices of
            one row, for which the result is correct.

    Returns:
        The same shape. A row of zeros becomes uniform.

    Raises:
        EventformersError: a value is negative, NaN or infinite, the input is not a matrix or is empty, or the
            reference code cannot divide its shape and `compat` is on.
    """
    values = np.asarray(similarities, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise EventformersError(f"similarities have shape {values.shape}; accepted: (sources, targets)")
    if not (np.isfinite(values) & (values >= 0)).all():
        raise EventformersError("similarities contain a negative, NaN or infinite value; accepted: 0 or more")
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
    """Find the path with the largest product of transitions from the start to the last step; MCNS-V and
    MCNE-V.

    Products are sums of logarithms. All transitions of 0 count as the same infinitesimal: paths with the
    fewest zeros win. Among equal paths, the one with the lowest index at the last step wins, then at the step
    before, and so on.

    Args:
        transitions: one matrix for each step.
        end: the known correct choice at the last step, where the path must end (MCNE); None leaves the end
            free (MCNS).

    Returns:
        The index of the choice at each step.

    Raises:
        EventformersError: the shapes of consecutive matrices do not match, or the last step has no choice
            `end`.
    """
    _check_steps(transitions)
    last = transitions[-1].shape[1]
    if end is not None and not 0 <= end < last:
        raise EventformersError(f"the end is choice {end}; accepted: an index from 0 to {last - 1}")
    # At the start there is one path, of length 0.
    zeros, score = np.zeros(1, dtype=np.int64), np.zeros(1)
    previous: list[NDArray[np.intp]] = []
    for matrix in transitions:
        is_zero = matrix == 0
        # Zeros have their own count, since sums of -inf are equal for any number of zeros.
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
    """Return the index, along the first axis, of the best score among those with the fewest zeros."""
    return np.argmax(np.where(zeros == zeros.min(axis=0), scores, -np.inf), axis=0)


def greedy(transitions: Sequence[Matrix]) -> list[int]:
    """Take the best transition at each step from the previous choice; Base. The first index wins ties.

    Args:
        transitions: one matrix for each step.

    Returns:
        The index of the choice at each step.

    Raises:
        EventformersError: the shapes of consecutive matrices do not match.
    """
    _check_steps(transitions)
    path = [0]
    for matrix in transitions:
        path.append(int(np.argmax(matrix[path[-1]])))
    return path[1:]


def informed(transitions: Mapping[tuple[int, int], Matrix], gold: Sequence[int]) -> list[int]:
    """Choose each step separately, given the correct choices of all earlier and later states; Sky.

    The score of choice j of step t is the sum of the transitions to it from the correct earlier choices, and
    from it to the correct later choices. The first index wins ties.

    Args:
        transitions: for each pair of states s < t the matrix (choices of s, choices of t); state 0 is the
            start, state t the t-th step.
        gold: the correct choice of each step.

    Returns:
        The index of the choice at each step.

    Raises:
        EventformersError: a pair is missing, or a step has no choice of that index.
    """
    states = [0, *gold]
    path = []
    for target in range(1, len(states)):
        for source in range(target):
            if (source, target) not in transitions:
                raise EventformersError(f"no transitions from state {source} to state {target}")
    for step in range(1, len(states)):
        before = [transitions[state, step][states[state]] for state in range(step)]
        behind = [transitions[step, state][:, states[state]] for state in range(step + 1, len(states))]
        path.append(int(np.argmax(np.sum([*before, *behind], axis=0))))
    return path


def _check_steps(transitions: Sequence[Matrix]) -> None:
    rows = 1
    for step, matrix in enumerate(transitions):
        if matrix.ndim != 2 or len(matrix) != rows or not matrix.size:
            raise EventformersError(
                f"the transitions to step {step} have shape {matrix.shape}; accepted: ({rows}, choices)"
            )
        rows = matrix.shape[1]
    if not len(transitions):
        raise EventformersError("the transitions are empty; accepted: transitions to at least one step")
