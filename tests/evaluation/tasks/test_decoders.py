from __future__ import annotations

import itertools

import numpy as np
import pytest

from eventformers.errors import EventformersError
from eventformers.evaluation.tasks.chains import greedy, informed, row_normalized, viterbi


def chain(generator: np.random.Generator, steps: int = 4, choices: int = 5) -> list[np.ndarray]:
    sizes = [1] + [choices] * steps
    return [row_normalized(generator.random((rows, columns))) for rows, columns in itertools.pairwise(sizes)]


def brute_force(transitions: list[np.ndarray], end: int | None = None) -> list[int]:
    """The best of all paths: the fewest zeros, then the largest product, then the first index from behind."""

    def rank(path: tuple[int, ...]) -> tuple[object, ...]:
        factors = [
            matrix[source, target]
            for matrix, (source, target) in zip(transitions, itertools.pairwise((0, *path)), strict=True)
        ]
        product = float(np.prod([factor for factor in factors if factor]))
        return factors.count(0), -round(product, 12), path[::-1]

    choices = [range(matrix.shape[1]) for matrix in transitions]
    if end is not None:
        choices[-1] = range(end, end + 1)
    return list(min(itertools.product(*choices), key=rank))


@pytest.mark.parametrize("seed", range(20))
def test_viterbi_finds_the_best_of_all_paths(seed):
    transitions = chain(np.random.default_rng(seed))
    assert viterbi(transitions) == brute_force(transitions)


@pytest.mark.parametrize("seed", range(20))
def test_a_known_end_holds_the_path(seed):
    transitions = chain(np.random.default_rng(seed))
    for end in range(5):
        assert viterbi(transitions, end) == brute_force(transitions, end)
        clamped = [*transitions[:-1], transitions[-1] * (np.arange(5) == end)]
        assert viterbi(clamped) == viterbi(transitions, end)


@pytest.mark.parametrize("seed", range(20))
def test_paths_with_zeros_and_ties_are_those_of_all_paths(seed):
    generator = np.random.default_rng(seed)
    sizes = [(1, 3), (3, 4), (4, 3), (3, 5)]
    transitions = [generator.choice([0.0, 0.5, 1.0], size=size) for size in sizes]
    for end in (None, 0, 4):
        assert viterbi(transitions, end) == brute_force(transitions, end)


@pytest.mark.parametrize("value", [0.2, 0.0])
def test_equal_transitions_take_the_first_index(value):
    transitions = [np.full((1, 5), value), np.full((5, 5), value), np.full((5, 5), value)]
    assert viterbi(transitions) == greedy(transitions) == [0, 0, 0]
    assert viterbi(transitions, end=3) == [0, 0, 3]


def test_many_small_transitions_do_not_vanish():
    transitions = [np.full((1, 2), 1e-200)] + [np.asarray([[1e-200, 2e-200]] * 2)] * 5
    assert viterbi(transitions) == [0, 1, 1, 1, 1, 1]


def test_greedy_goes_on_from_what_it_took():
    transitions = [
        np.asarray([[0.6, 0.4]]),
        np.asarray([[0.5, 0.5], [0.0, 1.0]]),
        np.asarray([[0.1, 0.9], [0.8, 0.2]]),
    ]
    assert greedy(transitions) == [0, 0, 1]
    assert viterbi(transitions) == [1, 1, 0]


def test_informed_steps_see_the_right_choices_before_and_behind():
    # States: the start with one choice, then two steps with two; the first step's right choice is 1.
    transitions = {
        (0, 1): np.asarray([[0.7, 0.3]]),
        (0, 2): np.asarray([[0.5, 0.5]]),
        (1, 2): np.asarray([[0.1, 0.9], [0.8, 0.2]]),
    }
    # Step 1: 0.7 + 0.1 against 0.3 + 0.8; step 2: 0.5 + 0.8 against 0.5 + 0.2, from the right choice 1.
    assert informed(transitions, [1, 0]) == [1, 0]
    # Step 1: 0.7 + 0.9 against 0.3 + 0.2; step 2 from the right choice 0.
    assert informed(transitions, [0, 1]) == [0, 1]


def test_informed_steps_take_the_first_of_a_tie():
    equal = {(0, 1): np.full((1, 3), 1 / 3), (0, 2): np.full((1, 3), 1 / 3), (1, 2): np.full((3, 3), 1 / 3)}
    assert informed(equal, [2, 1]) == [0, 0]


def test_rows_sum_to_one_and_a_row_of_zeros_is_uniform():
    normalized = row_normalized(np.asarray([[1.0, 3.0], [0.0, 0.0], [2.0, 2.0]]))
    assert normalized.tolist() == [[0.25, 0.75], [0.5, 0.5], [0.5, 0.5]]


def test_the_reference_code_divides_along_the_wrong_axis():
    similarities = np.asarray([[1.0, 3.0], [2.0, 8.0]])
    assert row_normalized(similarities, compat=True).tolist() == [[0.25, 0.3], [0.5, 0.8]]
    start = np.asarray([[1.0, 3.0]])
    assert row_normalized(start, compat=True).tolist() == row_normalized(start).tolist()
    with pytest.raises(EventformersError, match=r"compat: similarities have shape \(2, 3\)"):
        row_normalized(np.ones((2, 3)), compat=True)
