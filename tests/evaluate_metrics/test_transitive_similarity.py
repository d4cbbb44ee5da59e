from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from eventformers.evaluate_metrics import load_metric
from eventformers.evaluate_metrics.transitive_similarity.transitive_similarity_impl import (
    transitive_similarity,
)


@pytest.mark.parametrize(
    ("predictions", "references", "expected"),
    [
        pytest.param([0.1, 0.2, 0.9], [1.0, 4.0, 6.0], 1.0, id="same order"),
        pytest.param([0.9, 0.2, 0.1], [1.0, 4.0, 6.0], -1.0, id="reversed"),
        pytest.param([0.9, 0.4, 0.5, 0.1], [6.2, 4.5, 3.0, 1.1], 0.8, id="1 - 6 * 2 / (4 * 15)"),
        pytest.param([0.5, 0.5, 0.9], [1.0, 2.0, 3.0], math.sqrt(0.75), id="ties take their mean rank"),
    ],
)
def test_scores_by_hand(predictions, references, expected):
    assert transitive_similarity(predictions, references)["spearman"] == pytest.approx(expected)
    scores = load_metric("transitive_similarity").compute(predictions=predictions, references=references)
    assert scores == {"spearman": pytest.approx(expected)}


def test_it_is_the_linear_correlation_of_mean_ranks():
    generator = np.random.default_rng(0)
    predictions, references = generator.integers(0, 9, 50) / 9, generator.integers(1, 8, 50)

    def mean_ranks(values):
        return [(values < value).sum() + ((values == value).sum() + 1) / 2 for value in values]

    expected = np.corrcoef(mean_ranks(predictions), mean_ranks(references))[0, 1]
    assert transitive_similarity(predictions, references)["spearman"] == pytest.approx(expected)


@pytest.mark.parametrize(("predictions", "references"), [([0.5, 0.5], [1, 2]), ([0.1, 0.2], [3, 3])])
def test_a_constant_has_no_rank_correlation(predictions, references):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert math.isnan(transitive_similarity(predictions, references)["spearman"])


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([], [], "at least one number"),
        ([0.1], [1.0], "two or more"),
        ([0.1, float("nan")], [1.0, 2.0], "predictions has 1 .* index 1"),
        ([0.1, 0.2], [1.0, float("inf")], "references has 1 .* index 1"),
        ([0.1, 0.2, 0.3], [1.0, 2.0], "3 values and references 2"),
    ],
)
def test_what_cannot_be_scored_is_refused(predictions, references, message):
    with pytest.raises(ValueError, match=message):
        transitive_similarity(predictions, references)
