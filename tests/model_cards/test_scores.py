from __future__ import annotations

import math

import pytest

from eventformers.model_cards.scores import interval, score_text


def test_the_interval_of_a_percentage_is_wilsons():
    # Independently: the roots of (p - share)^2 = z^2 p (1 - p) / n.
    rows, share, square = 115, 0.809, 1.959964**2
    a, b, c = 1 + square / rows, -(2 * share + square / rows), share**2
    root = math.sqrt(b * b - 4 * a * c)
    assert interval(80.9, rows, "accuracy") == pytest.approx(
        (100 * (-b - root) / (2 * a), 100 * (-b + root) / (2 * a))
    )


def test_extreme_percentages_stay_inside():
    low, high = interval(100.0, 20, "accuracy") or (0, 0)
    assert 80 < low < 100
    assert high == 100
    assert (interval(0.0, 20, "accuracy") or (1,))[0] == 0


def test_the_interval_of_a_correlation_is_wide_on_twenty_rows():
    low, high = interval(0.82, 20, "spearman") or (0, 0)
    assert low < 0.6 < 0.82 < high < 1


@pytest.mark.parametrize(
    ("value", "rows", "kind"),
    [
        (None, 10, "accuracy"),
        (1.0, 10, "spearman"),
        (0.5, 3, "spearman"),
        (5.0, 0, "accuracy"),
        (5.0, 9, "x"),
    ],
)
def test_where_there_is_no_interval(value, rows, kind):
    assert interval(value, rows, kind) is None


def test_scores_have_the_digits_of_their_kind():
    assert score_text(43.478, "accuracy") == "43.5"
    assert score_text(0.7289, "spearman") == "0.729"
    assert score_text(0.8, "spearman", published=True) == "0.80"
    assert score_text(None, "accuracy") == "not defined"
