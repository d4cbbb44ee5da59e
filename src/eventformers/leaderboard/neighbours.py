"""Comparison of each model with the next one in a column, by their answers to the same questions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from eventformers.evaluation.significance import Answers, PairedComparison, compare_answers

NUM_RESAMPLES = 2_000
"""Number of resamples: enough for an interval, with thousands of rows in seconds."""


def mean_answers(runs: Sequence[Answers | None]) -> Answers | None:
    """Average the answers of several runs to the same rows; None unless all have answers of one shape.

    Args:
        runs: the answers of each run.
    """
    known = [run for run in runs if isinstance(run, list)]
    shapes = {tuple(map(len, run)) for run in known}
    if len(known) < max(1, len(runs)) or len(shapes) != 1:
        return None
    return [np.mean(row, axis=0).tolist() for row in zip(*known, strict=True)]


def compare_neighbours(
    scores: Sequence[float | None], answers: Sequence[Answers | None]
) -> list[tuple[int, PairedComparison] | None]:
    """Compare each model with the one whose score is next below.

    Args:
        scores: the score of each model; None if it has none.
        answers: its answers; None if they are unknown.

    Returns:
        For each model the place of the next one and the comparison; None if there is no next one, or if one
        of the two has no answers.
    """
    found: list[tuple[int, PairedComparison] | None] = [None] * len(scores)
    known = {place: score for place, score in enumerate(scores) if score is not None}
    for place, following in pairwise(sorted(known, key=lambda place: -known[place])):
        one, other = answers[place], answers[following]
        if one is not None and other is not None:
            found[place] = following, compare_answers(one, other, num_resamples=NUM_RESAMPLES)
    return found
