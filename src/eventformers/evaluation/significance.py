"""Whether one model is better than another on the same rows: the paired bootstrap."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import bootstrap

from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.errors import EventformersError, shown
from eventformers.evaluation.data import load_data
from eventformers.evaluation.results import TaskResult, require_same_data
from eventformers.evaluation.tasks import get_task

CONFIDENCE = 0.95
"""The share of resamples that the confidence interval covers."""

_BLOCK_NUMBERS = 2**22
"""Drawn numbers that are held at a time: 32 MB of float64 for each of the compared quantities."""


@dataclass(frozen=True)
class PairedComparison:
    """One model beside another on the same questions.

    Attributes:
        difference: the first's accuracy less the second's, in percentage points.
        low: lower end of the confidence interval of the difference.
        high: its upper end.
        p_value: one-sided: share of resamples in which the first is not ahead, with one added to both sides
            of the fraction, so that it is never 0.
        questions: number of questions.
        clusters: number of groups that were resampled; of questions where each stands by itself.
        resamples: number of resamples.
    """

    difference: float
    low: float
    high: float
    p_value: float
    questions: int
    clusters: int
    resamples: int


def paired_bootstrap(
    correct_a: ArrayLike,
    correct_b: ArrayLike,
    *,
    num_resamples: int = 10_000,
    seed: int = 0,
    clusters: Sequence[Hashable] | NDArray[np.generic] | None = None,
) -> PairedComparison:
    """Compare two models by resampling questions (Efron and Tibshirani 1993; Koehn, EMNLP 2004).

    Args:
        correct_a: whether the first model is right in each question, `(questions,)`: true and false, or
            numbers from 0 to 1.
        correct_b: the same of the second model, in the same order.
        num_resamples: resamples with replacement.
        seed: decides them.
        clusters: the document, or whatever else questions depend on each other through, of each question;
            whole clusters are then resampled. None takes each question by itself.

    Returns:
        The difference with its percentile interval and a one-sided p.

    Raises:
        EventformersError: no questions, lists of unequal length, a number outside of 0 to 1, or fewer than
            one resample.
    """
    first, second = (np.asarray(values, dtype=np.float64) for values in (correct_a, correct_b))
    if first.ndim != 1 or first.shape != second.shape or not first.size:
        raise EventformersError(
            f"found answers of shapes {first.shape} and {second.shape}; accepted: one number for each of the "
            "same questions, at least one"
        )
    both = np.concatenate([first, second])
    if not ((both >= 0) & (both <= 1)).all():
        raise EventformersError("found answers outside of 0 to 1; accepted: true, false or a share")
    if not isinstance(num_resamples, int) or num_resamples < 1:
        raise EventformersError(
            f"num_resamples is {shown(num_resamples)}; accepted: an integer of at least 1"
        )
    gain, count = _by_cluster(100 * (first - second), clusters)
    difference = float(gain.sum() / count.sum())
    if len(gain) == 1:
        # Every resample of one cluster is that cluster.
        resampled = np.full(num_resamples, difference)
    else:
        resampled = bootstrap(
            (gain, count),
            _ratio_of_sums,
            paired=True,
            vectorized=True,
            n_resamples=num_resamples,
            batch=max(1, _BLOCK_NUMBERS // len(gain)),
            method="percentile",
            rng=np.random.default_rng(seed),
        ).bootstrap_distribution
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return PairedComparison(
        difference=difference,
        low=float(low),
        high=float(high),
        p_value=(1 + int((resampled <= 0).sum())) / (1 + num_resamples),
        questions=first.size,
        clusters=len(gain),
        resamples=num_resamples,
    )


def compare_results(
    result_a: TaskResult,
    result_b: TaskResult,
    *,
    num_resamples: int = 10_000,
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> PairedComparison:
    """Compare two results on the same rows by their predictions.

    A row with several decisions, such as the steps of a chain, is a cluster of them. Chance counts as the
    share of it that is right.

    Args:
        result_a: the result that is to be ahead.
        result_b: the other one.
        num_resamples: resamples with replacement.
        seed: decides them.
        clusters: the cluster of each row, such as the rows' `document_id`; None takes each row by itself.

    Raises:
        EventformersError: results of different tasks, splits or rows, predictions that are not right or
            wrong, or not a cluster for each row.
    """
    if (result_a.task, result_a.dataset.split) != (result_b.task, result_b.dataset.split):
        raise EventformersError(
            f"found results on {result_a.task} ({result_a.dataset.split}) and {result_b.task} "
            f"({result_b.dataset.split}); accepted: two on one task and split"
        )
    require_same_data([result_a, result_b])
    answers_a, answers_b = (answers_of(result) for result in (result_a, result_b))
    lengths = [max(len(one), len(other)) for one, other in zip(answers_a, answers_b, strict=True)]
    rows = range(len(lengths)) if clusters is None else clusters
    if len(rows) != len(lengths):
        raise EventformersError(
            f"found {len(rows):,} clusters for {len(lengths):,} rows; accepted: one for each row"
        )
    return paired_bootstrap(
        _spread(answers_a, lengths),
        _spread(answers_b, lengths),
        num_resamples=num_resamples,
        seed=seed,
        clusters=[cluster for cluster, length in zip(rows, lengths, strict=True) for _ in range(length)],
    )


@takes_malformed
def document_clusters(
    result: TaskResult, data: str | Path | None, *, malformed: str | None = None
) -> list[str]:
    """The document of each row of a result, as clusters for `compare_results`.

    Args:
        result: the result.
        data: folder of raw files, built folder or Hub id that it was measured on; None takes the samples.
        malformed: `skip` leaves out malformed parts of raw files, counts and lists them; `error` raises for
            the first one; None takes the policy in force, `error` where nothing else was set.

    Raises:
        EventformersError: the data cannot be loaded, has other rows than the result, or tells no documents.
    """
    task = get_task(result.task)
    loaded = load_data(task, data, result.dataset.split)
    if loaded.held.fingerprint(task, loaded.split) != result.dataset.fingerprint:
        raise EventformersError(
            f"{data}: has other rows of {task.config} than the result of {result.model}; accepted: the data "
            "that it was measured on"
        )
    if "document_id" not in loaded.rows.column_names:
        raise EventformersError(
            f"{task.config} tells no documents; accepted: a comparison without data, row by row"
        )
    return list(loaded.rows["document_id"])


def _ratio_of_sums(
    gain: NDArray[np.float64], count: NDArray[np.float64], axis: int = -1
) -> NDArray[np.float64]:
    """Clusters differ in size, so the mean over questions is a ratio."""
    return gain.sum(axis=axis) / count.sum(axis=axis)


def _by_cluster(
    gain: NDArray[np.float64], clusters: Sequence[Hashable] | NDArray[np.generic] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The summed gain and the number of questions of each cluster."""
    if clusters is None:
        return gain, np.ones_like(gain)
    if len(clusters) != len(gain):
        raise EventformersError(
            f"found {len(clusters):,} clusters for {len(gain):,} questions; accepted: one for each question"
        )
    numbers: dict[Hashable, int] = {}
    member = np.asarray([numbers.setdefault(cluster, len(numbers)) for cluster in clusters])
    summed = np.bincount(member, weights=gain).astype(np.float64)
    return summed, np.bincount(member).astype(np.float64)


def answers_of(result: TaskResult) -> list[list[float]]:
    """Whether each decision of each row is right, or the chance that it is."""
    answers = []
    for row, prediction in enumerate(result.predictions):
        value = prediction.get("correct", prediction.get("chance"))
        values = value if isinstance(value, list) else [value]
        if not values or not all(isinstance(one, (bool, int, float)) for one in values):
            raise EventformersError(
                f"{result.model} on {result.task}, row {row}: found {', '.join(prediction) or 'nothing'}; "
                "accepted: predictions that say whether they are correct"
            )
        answers.append([float(one) for one in values if isinstance(one, (bool, int, float))])
    return answers


def _spread(answers: Sequence[list[float]], lengths: Sequence[int]) -> list[float]:
    """All decisions behind each other; one value for a row of several stands for each of them."""
    spread = []
    for row, (values, length) in enumerate(zip(answers, lengths, strict=True)):
        if len(values) not in (1, length):
            raise EventformersError(
                f"row {row}: found {len(values)} and {length} decisions; accepted: as many of both results"
            )
        spread += values * (length // len(values))
    return spread
