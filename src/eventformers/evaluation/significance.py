"""The paired bootstrap: whether one model is better than another on the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import bootstrap

from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.errors import EventformersError, shown
from eventformers.evaluation.data import load_data
from eventformers.evaluation.results import PREDICTIONS_SUFFIX, TaskResult, require_same_data
from eventformers.evaluation.tasks import TASKS, get_task

CONFIDENCE = 0.95
"""The share of resamples inside the confidence interval."""

Answers = Sequence[Sequence[float]]
"""For each row, whether each decision is correct: 0 or 1, or a number between them."""

_BLOCK_NUMBERS = 2**22
"""Random numbers held at a time: 32 MB of float64 for each compared quantity."""


@dataclass(frozen=True)
class PairedComparison:
    """A comparison of two models on the same questions, in `unit`: percentage `points` of accuracy, or
    Spearman's correlation.

    Attributes:
        difference: score of the first minus that of the second, with its confidence interval from `low` to
            `high`.
        p_value: one-sided: share of resamples in which the first is not better, with one added to numerator
            and denominator, so that it is never 0.
        clusters: number of resampled groups; equals `questions` without clusters.
    """

    difference: float
    low: float
    high: float
    p_value: float
    questions: int
    clusters: int
    resamples: int
    unit: Literal["points", "spearman"] = "points"


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
        correct_a: whether the first model is correct on each question, `(questions,)`, one or more: booleans
            or numbers from 0 to 1.
        correct_b: the same for the second model, in the same order.
        num_resamples: number of resamples, drawn with replacement.
        clusters: a group for each question, such as its document, if questions depend on each other; whole
            groups are resampled. None resamples single questions.

    Returns:
        The difference with its percentile interval and one-sided p-value.

    Raises:
        EventformersError: fewer than one resample.
    """
    first, second = (np.asarray(values, dtype=np.float64) for values in (correct_a, correct_b))
    member = _cluster_numbers(clusters, first.size)
    gain = np.bincount(member, weights=100 * (first - second))
    count = np.bincount(member).astype(np.float64)

    def mean_gain(
        gain: NDArray[np.float64], count: NDArray[np.float64], axis: int = -1
    ) -> NDArray[np.float64]:
        # A ratio, since clusters differ in size.
        return gain.sum(axis=axis) / count.sum(axis=axis)

    return _bootstrapped((gain, count), mean_gain, len(gain), first.size, "points", num_resamples, seed)


def paired_correlations(
    predictions_a: ArrayLike,
    predictions_b: ArrayLike,
    references: ArrayLike,
    *,
    num_resamples: int = 10_000,
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> PairedComparison:
    """Compare the Spearman correlations of two models with the same ratings by resampling pairs.

    A constant column has no order; its correlation counts as 0. Over several runs of a model, its correlation
    is the mean of theirs. Other arguments and errors are those of `paired_bootstrap`.

    Args:
        predictions_a: predicted similarity of each pair by the first model, `(pairs,)` or `(runs, pairs)`.
        predictions_b: the same by the second model, in the same order.
        references: rating of each pair, `(pairs,)`.
    """
    first, second, ratings = map(np.atleast_2d, (predictions_a, predictions_b, references))
    columns = np.concatenate([first, second, ratings]).T
    member = _cluster_numbers(clusters, len(columns))
    groups = int(member.max()) + 1

    def gains(drawn: NDArray[np.int64], axis: int = -1) -> NDArray[np.float64]:
        drawn = np.atleast_2d(drawn)
        places = (groups * np.arange(len(drawn))[:, None] + drawn).ravel()
        # How often each resample has each group, and so each of its pairs.
        counts = np.bincount(places, minlength=len(drawn) * groups).reshape(-1, groups)
        return _correlation_gains(columns, counts[:, member], len(first))

    numbers = (np.arange(groups),)
    return _bootstrapped(numbers, gains, columns.size, len(columns), "spearman", num_resamples, seed)


def compare_results(
    result_a: TaskResult,
    result_b: TaskResult,
    *,
    num_resamples: int = 10_000,
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> PairedComparison:
    """Compare two results on the same rows by their predictions, like `paired_bootstrap`; the first is
    expected to be better.

    The decisions of one row, such as the steps of a chain, form a cluster. A chance score counts as its
    expected share of correct decisions. Results with graded similarities are compared by their correlation
    with the ratings, those with the score mrr by the reciprocals of their ranks.

    Args:
        clusters: the cluster of each row, such as the rows' `document_id`; None takes those that the
            predictions name, such as the gold events of mentions, else makes each row a cluster.

    Raises:
        EventformersError: the results are on different tasks, splits or rows, or predictions do not say
            whether they are correct.
    """
    if (result_a.task, result_a.dataset.split) != (result_b.task, result_b.dataset.split):
        raise EventformersError(
            f"found results on {result_a.task} ({result_a.dataset.split}) and {result_b.task} "
            f"({result_b.dataset.split}); accepted: two on the same task and split"
        )
    require_same_data([result_a, result_b])
    if clusters is None:
        clusters = clusters_of(result_a)
    first, second = graded_pairs(result_a), graded_pairs(result_b)
    if first is not None and second is not None:
        (predicted_a, references), (predicted_b, _) = first, second
        return paired_correlations(
            predicted_a, predicted_b, references, num_resamples=num_resamples, seed=seed, clusters=clusters
        )
    return compare_answers(
        answers_of(result_a),
        answers_of(result_b),
        num_resamples=num_resamples,
        seed=seed,
        clusters=clusters,
    )


def compare_answers(
    answers_a: Answers,
    answers_b: Answers,
    *,
    num_resamples: int = 10_000,
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> PairedComparison:
    """Compare the answers of two models to the same rows, like `compare_results`.

    Args:
        answers_a: from `answers_of`, of the model that is expected to be better, or the mean of several runs.
        clusters: the cluster of each row; None makes each row a cluster.
    """
    lengths = [max(len(one), len(other)) for one, other in zip(answers_a, answers_b, strict=True)]
    rows = range(len(lengths)) if clusters is None else clusters
    return paired_bootstrap(
        _spread(answers_a, lengths),
        _spread(answers_b, lengths),
        num_resamples=num_resamples,
        seed=seed,
        clusters=[cluster for cluster, length in zip(rows, lengths, strict=True) for _ in range(length)],
    )


def clusters_of(result: TaskResult) -> list[Hashable] | None:
    """Read the cluster of each row from the predictions; None if these do not have the task's
    `cluster_column`."""
    if result.task not in TASKS:
        return None
    values = [prediction.get(TASKS[result.task].cluster_column) for prediction in result.predictions]
    if None in values:
        return None
    return [tuple(value) if isinstance(value, list) else str(value) for value in values]


@takes_malformed
def row_clusters(
    result: TaskResult, data: str | Path | None, *, malformed: str | None = None
) -> list[Hashable]:
    """Read the document or the gold events of each row of a result, as clusters for `compare_results`.

    Args:
        data: folder of raw files, built folder or Hub id of the scored data; None takes the samples.

    Raises:
        EventformersError: the data cannot be loaded, has other rows than the result, or names neither
            documents nor gold events.
    """
    task = get_task(result.task)
    loaded = load_data(task, data, result.dataset.split)
    if loaded.fingerprint != result.dataset.fingerprint:
        raise EventformersError(
            f"{data}: has other rows of {task.config} than the result of {result.model}; accepted: the data "
            "of the result"
        )
    if loaded.clusters is None:
        raise EventformersError(
            f"{task.config} has no column {shown(task.cluster_column)} whose equal values could be resampled "
            "together; accepted: a comparison row by row, without data"
        )
    return loaded.clusters


def _bootstrapped(
    data: tuple[NDArray[np.generic], ...],
    statistic: Callable[..., NDArray[np.float64]],
    numbers: int,
    questions: int,
    unit: Literal["points", "spearman"],
    num_resamples: int,
    seed: int,
) -> PairedComparison:
    """Resample the groups of questions, one for each element of the arrays in `data`.

    `numbers` counts what one resample holds in memory.
    """
    if not isinstance(num_resamples, int) or num_resamples < 1:
        raise EventformersError(
            f"num_resamples is {shown(num_resamples)}; accepted: an integer of at least 1"
        )
    difference, groups = statistic(*data).item(), len(data[0])
    compared = partial(
        PairedComparison, questions=questions, clusters=groups, resamples=num_resamples, unit=unit
    )
    if groups == 1:
        # One group says nothing about others: the interval is all that a difference can be.
        largest = 100.0 if unit == "points" else 2.0
        return compared(difference=difference, low=-largest, high=largest, p_value=1.0)
    resampled = bootstrap(
        data,
        statistic,
        paired=True,
        vectorized=True,
        n_resamples=num_resamples,
        batch=max(1, _BLOCK_NUMBERS // numbers),
        method="percentile",
        rng=np.random.default_rng(seed),
    ).bootstrap_distribution
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return compared(
        difference=difference,
        low=float(low),
        high=float(high),
        p_value=(1 + int((resampled <= 0).sum())) / (1 + len(resampled)),
    )


def _correlation_gains(
    columns: NDArray[np.float64], counts: NDArray[np.int64], runs: int
) -> NDArray[np.float64]:
    """Compute how much better the first `runs` columns correlate with the last one than the other columns do.

    From similarities and ratings, `(pairs, columns)`, and the count of each pair in each resample,
    `(resamples, pairs)`; returns `(resamples,)`.
    """
    of_columns = []
    for values in columns.T:
        # The values are sorted once, since a resample only repeats them: its ranks follow from the counts.
        _, position, sizes = np.unique(values, return_inverse=True, return_counts=True)
        by_value = counts[:, np.argsort(position, kind="stable")]
        of_distinct = np.add.reduceat(by_value, sizes.cumsum() - sizes, axis=1)
        # Equal values have their mean rank.
        of_columns.append((of_distinct.cumsum(axis=1) - (of_distinct - 1) / 2)[:, position])
    ranks = np.stack(of_columns)
    total = counts.sum(axis=1, keepdims=True)
    centred = ranks - (counts * ranks).sum(axis=-1, keepdims=True) / total
    variances = (counts * centred**2).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        correlations = np.nan_to_num(
            (counts * centred[:-1] * centred[-1]).sum(axis=-1) / np.sqrt(variances[:-1] * variances[-1])
        )
    gains: NDArray[np.float64] = correlations[:runs].mean(axis=0) - correlations[runs:].mean(axis=0)
    return gains


def graded_pairs(result: TaskResult) -> tuple[list[float], list[float]] | None:
    """Read similarities and ratings; None if the predictions are of another kind."""
    read = [(row.get("prediction"), row.get("reference")) for row in result.predictions]
    numbers = [(one, other) for one, other in read if isinstance(one, float) and isinstance(other, float)]
    if not numbers or len(numbers) < len(read):
        return None
    predicted, references = zip(*numbers, strict=True)
    return list(predicted), list(references)


def _cluster_numbers(
    clusters: Sequence[Hashable] | NDArray[np.generic] | None, questions: int
) -> NDArray[np.int64]:
    """Number the cluster of each question by the cluster's first question; None makes each its own."""
    if clusters is None:
        return np.arange(questions)
    numbers: dict[Hashable, int] = {}
    return np.asarray([numbers.setdefault(cluster, len(numbers)) for cluster in clusters])


def answers_of(result: TaskResult, part: str = "", score: str = "") -> list[list[float]]:
    """Read whether each decision of each row is correct, its chance to be, or its reciprocal rank.

    Ranks are read if the score is `mrr` or `hits_at_K` and each scored row has one: the clusters of one
    result are not those of another. A row without a rank is a miss.

    Args:
        part: the part of the result that the decisions belong to, such as `top_min`, whose predictions have
            `top_min_correct`, an empty list outside the part; empty for all rows.
        score: the score that the answers average to; empty for the main score.

    Raises:
        EventformersError: predictions without such values.
    """
    key = f"{part}_correct" if part else "correct"
    answers = []
    score = score or result.main_score
    if not result.predictions:
        raise EventformersError(
            f"{result.model} on {result.task}: found no predictions; accepted: a result file with "
            f"{result.task}{PREDICTIONS_SUFFIX} beside it"
        )
    has_ranks = not part and len(result.predictions) == result.dataset.rows
    for row, prediction in enumerate(result.predictions):
        value = prediction.get(key, None if part else prediction.get("chance"))
        if has_ranks and "rank" in prediction:
            rank = math.inf if prediction["rank"] is None else prediction["rank"]
            if isinstance(rank, (int, float)) and rank > 0:
                if score.startswith("hits_at_"):
                    value = rank <= int(score.removeprefix("hits_at_"))
                elif score == "mrr":
                    value = 1 / rank
        values = value if isinstance(value, list) else [value]
        if (not values and not part) or not all(isinstance(one, (bool, int, float)) for one in values):
            raise EventformersError(
                f"{result.model} on {result.task}, row {row}: found {', '.join(prediction) or 'nothing'}; "
                "accepted: predictions that say whether they are correct, or the rank of each row for mrr"
            )
        answers.append([float(one) for one in values if isinstance(one, (bool, int, float))])
    return answers


def mean_answers(of_runs: Sequence[Answers]) -> Answers:
    """Average the answers of several runs to the same rows."""
    return [
        [sum(decisions) / len(decisions) for decisions in zip(*answers, strict=True)]
        for answers in zip(*of_runs, strict=True)
    ]


def _spread(answers: Answers, lengths: Sequence[int]) -> list[float]:
    """Concatenate all decisions; repeat the value of a row with one value for several decisions."""
    return [
        value
        for values, length in zip(answers, lengths, strict=True)
        for value in (values if len(values) == length else [*values] * length)
    ]
