"""The paired bootstrap: known values, documents as clusters, results on other rows refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from leaderboard_inputs import make_result
from scipy.stats import norm, spearmanr

from eventformers.baselines import get_baseline
from eventformers.cli import main
from eventformers.errors import EventformersError
from eventformers.evaluation import significance
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.significance import (
    answers_of,
    clusters_of,
    compare_answers,
    compare_results,
    paired_bootstrap,
    paired_correlations,
    row_clusters,
)


def result(predictions: list[dict[str, object]], model: str = "a", fingerprint: str = "f") -> TaskResult:
    made = make_result("mcnc", model=model, predictions=predictions)
    return replace(made, dataset=replace(made.dataset, rows=len(predictions), fingerprint=fingerprint))


def test_interval_and_p_are_those_of_the_normal_limit() -> None:
    generator = np.random.default_rng(0)
    first, second = generator.random(2000) < 0.52, generator.random(2000) < 0.50
    compared = paired_bootstrap(first, second, seed=1)
    gain = 100 * (first.astype(float) - second)
    error = gain.std() / np.sqrt(len(gain))
    assert compared.difference == pytest.approx(gain.mean())
    assert compared.low == pytest.approx(gain.mean() - 1.96 * error, abs=0.1)
    assert compared.high == pytest.approx(gain.mean() + 1.96 * error, abs=0.1)
    assert compared.p_value == pytest.approx(norm.sf(gain.mean() / error), abs=0.02)
    assert (compared.questions, compared.clusters, compared.resamples) == (2000, 2000, 10_000)


def test_the_order_of_the_models_turns_the_sign() -> None:
    first, second = [True] * 60 + [False] * 40, [True] * 40 + [False] * 60
    ahead, behind = paired_bootstrap(first, second), paired_bootstrap(second, first)
    assert ahead.difference == -behind.difference == pytest.approx(20)
    assert ahead.p_value < 0.01
    assert behind.p_value > 0.99


def test_equal_models_are_never_ahead_and_an_always_better_one_has_the_smallest_p_that_can_be() -> None:
    compared = paired_bootstrap([1, 0, 1], [1, 0, 1])
    assert (compared.difference, compared.low, compared.high, compared.p_value) == (0, 0, 0, 1)
    assert paired_bootstrap([1] * 5, [0] * 5, num_resamples=99).p_value == 1 / 100


def test_questions_of_one_document_move_together() -> None:
    """Ten copies of every question are no more evidence than the question."""
    generator = np.random.default_rng(3)
    first, second = generator.random(200) < 0.6, generator.random(200) < 0.5
    single = paired_bootstrap(first, second, seed=5)
    documents = np.repeat(np.arange(200), 10)
    copied = paired_bootstrap(np.repeat(first, 10), np.repeat(second, 10), seed=5, clusters=documents)
    naive = paired_bootstrap(np.repeat(first, 10), np.repeat(second, 10), seed=5)
    assert (copied.low, copied.high, copied.p_value) == pytest.approx(
        (single.low, single.high, single.p_value)
    )
    assert copied.clusters == 200
    assert naive.high - naive.low < 0.5 * (copied.high - copied.low)


def test_clusters_of_different_sizes_weigh_by_their_questions() -> None:
    compared = paired_bootstrap([1, 1, 1, 0], [0, 0, 0, 1], clusters=["a", "a", "a", "b"])
    assert compared.difference == 50
    assert (compared.low, compared.high) == (-100, 100)


def test_blocks_do_not_change_the_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    answers = generator.random((2, 100)) < 0.5
    whole = paired_bootstrap(*answers, num_resamples=500, seed=2)
    monkeypatch.setattr("eventformers.evaluation.significance._BLOCK_NUMBERS", 1000)
    assert paired_bootstrap(*answers, num_resamples=500, seed=2) == whole
    assert paired_bootstrap(*answers, num_resamples=500, seed=3) != whole


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(EventformersError, match="num_resamples"):
        paired_bootstrap([1], [0], num_resamples=0)


def test_correlations_are_compared_by_pair_and_by_cluster() -> None:
    generator = np.random.default_rng(1)
    ratings = generator.normal(size=60)
    near, far = (ratings + scale * generator.normal(size=60) for scale in (0.5, 3))
    compared = paired_correlations(near, far, ratings, num_resamples=300)
    gain = spearmanr(near, ratings).statistic - spearmanr(far, ratings).statistic
    assert (compared.difference, compared.unit) == (pytest.approx(gain), "spearman")
    assert 0 < compared.low < gain < compared.high
    assert paired_correlations(near, near, ratings, num_resamples=9).p_value == 1
    copies = [np.repeat(values, 10) for values in (near, far, ratings)]
    clustered = paired_correlations(
        *copies, num_resamples=300, clusters=np.repeat(np.arange(60), 10).tolist()
    )
    assert (clustered.low, clustered.high) == pytest.approx((compared.low, compared.high))


def test_resampled_correlations_are_those_of_the_drawn_pairs() -> None:
    generator = np.random.default_rng(2)
    # Rounded, so that there are ties.
    columns = np.round(generator.normal(size=(12, 3)), 0)
    drawn = np.concatenate([generator.integers(0, 12, size=(20, 12)), np.zeros((1, 12), dtype=np.int64)])
    expected = [
        spearmanr(pairs[:, 0], pairs[:, 2]).statistic - spearmanr(pairs[:, 1], pairs[:, 2]).statistic
        for pairs in columns[drawn[:-1]]
    ]
    counts = np.stack([np.bincount(pairs, minlength=12) for pairs in drawn])
    found = significance._correlation_gains(columns, counts, 1)
    # The last resample is one pair, which has no order.
    assert found == pytest.approx([*expected, 0.0])


def test_the_correlation_of_several_runs_is_their_mean() -> None:
    generator = np.random.default_rng(1)
    ratings = generator.normal(size=60)
    near, far = (ratings + scale * generator.normal(size=(2, 60)) for scale in (0.5, 3))
    compared = paired_correlations(near, far, ratings, num_resamples=300)
    means = [np.mean([spearmanr(run, ratings).statistic for run in runs]) for runs in (near, far)]
    assert compared.difference == pytest.approx(means[0] - means[1])
    assert 0 < compared.low < compared.difference < compared.high


def test_graded_results_are_compared_by_their_correlation() -> None:
    def graded(similarities: tuple[float, ...], model: str) -> TaskResult:
        pairs = zip(similarities, (1.0, 2.0, 3.0), strict=True)
        return result([{"prediction": one, "reference": other} for one, other in pairs], model)

    compared = compare_results(graded((0.1, 0.2, 0.3), "a"), graded((0.3, 0.2, 0.1), "b"), num_resamples=9)
    assert (compared.difference, compared.unit, compared.questions) == (pytest.approx(2), "spearman", 3)


def test_steps_of_a_chain_are_one_cluster() -> None:
    first = result([{"correct": [True, True, False]}, {"correct": [True, False, False]}])
    second = result([{"correct": [False, True, False]}, {"correct": [False, False, False]}], "b")
    compared = compare_results(first, second)
    assert compared.difference == pytest.approx(100 / 3)
    assert (compared.questions, compared.clusters) == (6, 2)


def test_chance_stands_for_every_step() -> None:
    first = result([{"correct": [True, True, False]}])
    compared = compare_results(first, result([{"chance": 0.2}], "chance"))
    assert compared.difference == pytest.approx(100 * (2 / 3 - 0.2))


def test_ranks_are_compared_by_their_reciprocals() -> None:
    ranks = [{"rank": rank} for rank in (1, 4, 2)]
    first, second = (
        replace(result(rows, model), main_score="mrr") for rows, model in ((ranks, "a"), (ranks[::-1], "b"))
    )
    assert answers_of(first) == [[1.0], [0.25], [0.5]]
    compared = compare_results(first, second)
    assert (compared.difference, compared.questions) == (0.0, 3)
    assert compared.low < 0 < compared.high
    assert answers_of(first, score="hits_at_3") == [[1.0], [0.0], [1.0]]
    missed = replace(first, predictions=[{"rank": 1}, {"rank": None}, {"rank": 2}])
    assert answers_of(missed) == [[1.0], [0.0], [0.5]]
    assert answers_of(missed, score="hits_at_10") == [[1.0], [0.0], [1.0]]
    both = replace(first, predictions=[{"correct": rank == 1, "rank": rank} for rank in (1, 4, 2)])
    assert answers_of(both) == [[1.0], [0.25], [0.5]]
    assert answers_of(replace(both, main_score="accuracy")) == [[1.0], [0.0], [0.0]]
    # A cluster of one model is not that of another, and no rank is below 1.
    of_clusters = replace(first, dataset=replace(first.dataset, rows=20))
    for refused in (of_clusters, replace(first, predictions=[{"rank": 0}] * 3)):
        with pytest.raises(EventformersError, match="found rank; accepted"):
            answers_of(refused)


def test_the_answers_of_a_part_are_its_own() -> None:
    rows = [{"correct": False, "top_min_correct": True}, {"correct": True, "top_min_correct": False}]
    assert answers_of(result(rows)) == [[0.0], [1.0]]
    assert answers_of(result(rows), "top_min") == [[1.0], [0.0]]
    outside = [{**rows[0], "top_min_correct": []}, rows[1]]
    assert answers_of(result(outside), "top_min") == [[], [0.0]]
    compared = compare_answers(answers_of(result(outside), "top_min"), [[], [1.0]])
    assert (compared.questions, compared.difference) == (1, -100.0)
    with pytest.raises(EventformersError, match="found correct, chance; accepted"):
        answers_of(result([{"correct": True, "chance": 0.5}]), "top_min")


def test_documents_of_rows_are_taken() -> None:
    rows: list[dict[str, object]] = [{"correct": True}, {"correct": False}, {"correct": True}]
    compared = compare_results(result(rows), result(rows, "b"), clusters=["x", "x", "y"])
    assert compared.clusters == 2


def test_other_rows_tasks_and_predictions_are_refused() -> None:
    rows: list[dict[str, object]] = [{"correct": True}]
    with pytest.raises(EventformersError, match="cannot be compared"):
        compare_results(result(rows), result(rows, "b", fingerprint="g"))
    with pytest.raises(EventformersError, match="the same task and split"):
        compare_results(result(rows), replace(result(rows, "b"), task="copa"))
    with pytest.raises(EventformersError, match="say whether they are correct"):
        compare_results(result([{"rank": 3}]), result(rows, "b"))


def test_the_command_takes_documents_from_the_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (get_baseline(name)("mcnc", output=tmp_path) for name in ("ppmi", "random"))
    paths = sorted(map(str, tmp_path.rglob("mcnc.json")), key=lambda path: "PPMI" not in path)
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["compare", *paths])
    shown = capsys.readouterr().out
    assert f"mcnc: {(first.main_value or 0) - (second.main_value or 0):+.2f} points" in shown
    assert f"({first.dataset.rows} questions" in shown
    clusters = row_clusters(first, None)
    assert len(clusters) == first.dataset.rows
    with pytest.raises(EventformersError, match="has other rows"):
        row_clusters(replace(first, dataset=replace(first.dataset, fingerprint="g")), None)
    with pytest.raises(EventformersError, match="no column 'document_id'"):
        row_clusters(get_baseline("random")("variable_mcnc"), None)


def test_mentions_of_one_event_are_resampled_together() -> None:
    found = get_baseline("bm25")("event_retrieval")
    clusters = row_clusters(found, None)
    assert clusters == [tuple(row["event_ids"]) for row in found.predictions]
    assert compare_results(found, found, clusters=clusters).clusters == len(set(clusters)) < len(clusters)
    assert clusters_of(found) == clusters
    assert compare_results(found, found).clusters == len(set(clusters))


def test_one_group_says_nothing_about_others() -> None:
    for compared in (
        paired_bootstrap([1, 1, 1, 0], [0, 0, 0, 1], clusters=["a"] * 4),
        paired_bootstrap([1], [0]),
    ):
        assert compared.difference > 0
        assert (compared.low, compared.high, compared.p_value) == (-100, 100, 1)
    pairs = paired_correlations([1.0, 2.0], [2.0, 1.0], [1.0, 2.0], clusters=["a"] * 2)
    assert (pairs.difference, pairs.low, pairs.high, pairs.p_value) == (2, -2, 2, 1)
