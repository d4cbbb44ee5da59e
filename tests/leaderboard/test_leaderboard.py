"""Which results a leaderboard takes together, how it ranks them, and what it refuses to compare."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from leaderboard_inputs import make_result, measured, write_seeds

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.results import write_result
from eventformers.leaderboard.board import Leaderboard, Row, build_leaderboard, leaderboard
from eventformers.leaderboard.page import CLOSE, cell_text, close_note, leaderboard_page, markdown, to_json
from eventformers.leaderboard.sources import BaselineScore


def rows_of(found: Leaderboard, kind: str = "model", board: int = 0) -> list[Row]:
    return [row for row in found.boards[board].rows if row.kind == kind]


def names_of(found: Leaderboard, kind: str = "model") -> list[str]:
    return [row.model for row in rows_of(found, kind)]


def test_seeds_make_one_row_with_mean_and_spread(tmp_path):
    write_seeds(tmp_path, "hard_similarity", [80.0, 81.0, 85.0])
    (row,) = rows_of(leaderboard([tmp_path]))
    assert (row.model, row.seeds, row.runs, row.parameters) == ("mine", (1, 2, 3), 3, 22_713_216)
    cell = row.cells[0]
    assert cell is not None
    assert (cell.value, cell.count, cell.rank) == (pytest.approx(82.0), 3, 1)
    # The standard deviation of a sample: the sum of squares, 14, over n - 1.
    assert cell.spread == pytest.approx(7**0.5)
    assert row.texts_per_second == pytest.approx(150.0)


def test_one_run_has_no_spread_and_keeps_its_name(tmp_path):
    write_seeds(tmp_path, "hard_similarity", [80.0])
    (row,) = rows_of(leaderboard([tmp_path]))
    assert (row.model, row.cells[0].spread, row.cells[0].count) == ("mine-seed-1", None, 1)


def test_a_number_that_is_not_the_seed_stays_in_the_name():
    found = build_leaderboard([measured(model="a-seed-1", seed=7), measured(model="a-seed-2", seed=8)])
    assert names_of(found) == ["a-seed-1", "a-seed-2"]


def test_two_runs_of_one_seed_are_never_averaged():
    found = build_leaderboard(
        [measured(revision="aaaaaaa111", value=40.0), measured(revision="bbbbbbb222", value=60.0)]
    )
    assert [(row.model, row.cells[0].value) for row in rows_of(found)] == [
        ("mine (bbbbbbb)", 60.0),
        ("mine (aaaaaaa)", 40.0),
    ]


def test_variants_are_rows_of_their_own():
    found = build_leaderboard([measured(), measured(variant="reranked", value=70.0)])
    assert [(row.model, row.variant) for row in rows_of(found)] == [("mine", "reranked"), ("mine", "")]


def test_a_result_that_is_found_twice_counts_once(caplog):
    newer = measured(value=60.0, created="2026-02-01T00:00:00+00:00")
    (row,) = rows_of(build_leaderboard([newer, measured(), newer]))
    assert (row.cells[0].value, row.cells[0].count) == (60.0, 1)
    assert "mine, hard_similarity: found different scores on the same rows: 50.0 and 60.0" in caplog.text


def test_equal_scores_share_a_rank_and_the_next_one_is_left_free():
    scores = {"a": 50.0, "b": 70.0, "c": 70.0, "d": 60.0}
    found = build_leaderboard([measured(model=name, value=value) for name, value in scores.items()])
    ranks = [(row.model, row.cells[0].rank) for row in rows_of(found)]
    assert ranks == [("b", 1), ("c", 1), ("d", 3), ("a", 4)]


def test_what_is_missing_is_nothing_and_not_zero():
    found = build_leaderboard(
        [measured(model="a"), measured("transitive_similarity", "b", 0.7, baseline=None), measured(model="c")]
    )
    cells = {row.model: row.cells for row in rows_of(found)}
    assert cells["a"][1] is None
    assert cells["b"][0] is None
    assert cells["b"][1].value == 0.7
    # Rows without a score in the column come last.
    assert names_of(found)[-1] == "b"


def test_an_undefined_score_is_told_and_not_part_of_the_mean():
    values = [0.5, None, 0.7]
    found = build_leaderboard(
        [
            measured("transitive_similarity", f"mine-seed-{seed}", value, seed=seed)
            for seed, value in enumerate(values)
        ]
    )
    (row,) = rows_of(found)
    cell = row.cells[0]
    assert (cell.value, cell.count, cell.undefined, row.runs) == (pytest.approx(0.6), 2, 1, 3)
    alone = build_leaderboard([measured("transitive_similarity", value=None)])
    (row,) = rows_of(alone)
    assert (row.cells[0].value, row.cells[0].undefined, row.cells[0].rank) == (None, 1, None)


def test_models_baselines_and_papers_stand_apart():
    bm25 = measured(model="bm25", value=90.0, is_baseline=True, baseline=None, seed=None)
    found = build_leaderboard([measured(), bm25])
    assert names_of(found) == ["mine"]
    assert names_of(found, "baseline") == ["bm25", "start"]
    published = {row.model: row.cells[0].value for row in rows_of(found, "published")}
    assert published["SWCC, BERT-base (Gao et al. 2022)"] == 80.9
    assert all(cell.rank is None for row in found.boards[0].rows if row.kind != "model" for cell in row.cells)
    kinds = [row.kind for row in found.boards[0].rows]
    assert kinds == sorted(kinds, key=["model", "baseline", "published"].index)


def test_an_untrained_encoder_is_one_row_for_each_way_of_reading_it():
    start = BaselineScore("start", "s" * 40, 11.3, "mean")
    found = build_leaderboard(
        [
            measured(model="a", baseline=start),
            measured(model="b", baseline=start),
            measured(model="c", baseline=replace(start, value=9.0, reading="cls")),
        ]
    )
    assert [(row.variant, row.cells[0].value) for row in rows_of(found, "baseline")] == [
        ("mean", 11.3),
        ("cls", 9.0),
    ]


def test_a_variant_that_changes_nothing_about_the_untrained_encoder_is_not_repeated():
    found = build_leaderboard([measured(), measured(variant="context", value=60.0)])
    assert [row.variant for row in rows_of(found, "baseline")] == [""]
    other = BaselineScore("start", "s" * 40, 20.0, "mean")
    found = build_leaderboard([measured(), measured(variant="context", baseline=other)])
    assert [row.variant for row in rows_of(found, "baseline")] == ["context", ""]


@pytest.mark.parametrize(
    ("task", "changed"),
    [
        ("conceptnet_completion", {"split": "validation", "rows": 19_592}),
        ("hard_similarity", {"origin": "samples"}),
        ("hard_similarity", {"rows": 114}),
        ("hard_similarity", {"rows": None}),
        # Chains of others, as many as the paper's.
        ("mcnc", {"rows": 2_000}),
    ],
)
def test_published_scores_stand_beside_no_other_rows(task, changed):
    assert rows_of(build_leaderboard([measured()]), "published")
    assert not rows_of(build_leaderboard([measured(task, **changed)]), "published")


OTHER = {"fingerprint": "0" * 64, "model": "other"}


def test_different_data_is_refused_with_both_and_their_runs():
    both = [measured(), measured(**OTHER, rows=20, origin="samples")]
    with pytest.raises(EventformersError) as refused:
        build_leaderboard(both)
    assert str(refused.value) == (
        "hard_similarity (test): found results on different data, which cannot be compared: fingerprint "
        "ffffffffffff (115 rows, local) by mine; fingerprint 000000000000 (20 rows, samples) by other; "
        "choose one by --fingerprint or --dataset-revision, or pass other folders"
    )
    # Another task or another split is another column.
    assert (
        len(build_leaderboard([measured(), measured("transitive_similarity", **OTHER)]).boards[0].columns)
        == 2
    )
    assert len(build_leaderboard([measured(), measured(**OTHER, split="validation")]).boards[0].columns) == 2


def test_a_fingerprint_chooses_and_tells_what_is_left_out():
    both = [measured(), measured(**OTHER)]
    found = build_leaderboard(both, fingerprints=["000"])
    assert names_of(found) == ["other"]
    assert found.boards[0].columns[0].data == "0" * 12
    assert found.left_out == (
        "hard_similarity (test): left out, on other data: fingerprint ffffffffffff (115 rows, local) by mine",
    )
    # A task without that data stays.
    more = build_leaderboard([*both, measured("transitive_similarity")], fingerprints=["0" * 64])
    assert [column.task for column in more.boards[0].columns] == ["hard_similarity", "transitive_similarity"]
    with pytest.raises(EventformersError, match="found no result on data abc; accepted: one of 000000000000"):
        build_leaderboard(both, fingerprints=["abc"])


def test_a_revision_is_of_the_data_whose_fingerprint_another_result_of_it_tells():
    pinned = measured(dataset_revision="c" * 40)
    bare = measured(model="bare", fingerprint=None, rows=None, dataset_revision="c" * 40)
    newer = measured(model="newer", fingerprint=None, dataset_revision="d" * 40)
    assert names_of(build_leaderboard([bare, pinned])) == ["bare", "mine"]
    with pytest.raises(EventformersError, match=r"revision dddddddddddd \(115 rows, local\) by newer"):
        build_leaderboard([bare, pinned, newer])
    assert names_of(build_leaderboard([bare, pinned, newer], dataset_revisions=["ccc"])) == ["bare", "mine"]


def test_data_that_nothing_is_told_of_is_mixed_with_none():
    bare = measured(model="bare", fingerprint=None, rows=None, origin=None)
    with pytest.raises(EventformersError, match="unknown by bare"):
        build_leaderboard([measured(), bare])
    assert names_of(build_leaderboard([measured(), bare], fingerprints=["unknown"])) == ["bare"]


def test_a_filter_by_task_and_an_order_by_column():
    both = [
        measured(model="a", value=60.0, texts=900, parameters=5),
        measured(model="b", value=70.0, parameters=9),
        measured("transitive_similarity", "a", 0.9),
        measured("transitive_similarity", "b", 0.8),
        measured("copa", "a"),
    ]
    found = build_leaderboard(both, tasks=["transitive_similarity"])
    assert [[column.task for column in board.columns] for board in found.boards] == [
        ["transitive_similarity"]
    ]
    assert names_of(build_leaderboard(both)) == ["b", "a"]
    assert names_of(build_leaderboard(both, sort="transitive_similarity")) == ["a", "b"]
    assert names_of(build_leaderboard(both, sort="model")) == ["a", "b"]
    assert names_of(build_leaderboard(both, sort="parameters")) == ["b", "a"]
    assert names_of(build_leaderboard(both, sort="speed")) == ["a", "b"]
    assert [board.dataset for board in build_leaderboard(both).boards] == [
        "event_similarity",
        "commonsense_qa",
    ]
    with pytest.raises(EventformersError, match="found no result of mcnc"):
        build_leaderboard(both, tasks=["mcnc"])


def test_unknown_tasks_and_columns_are_told(tmp_path):
    with pytest.raises(UnknownNameError, match="Did you mean 'hard_similarity'"):
        leaderboard([tmp_path], tasks=["hard_similarty"])
    with pytest.raises(UnknownNameError, match="Did you mean 'mcnc'"):
        leaderboard([tmp_path], sort="mcn")


QUESTIONS = 115


def answers(correct: int) -> list[list[float]]:
    """The first questions answered correctly, the others not."""
    return [[float(question < correct)] for question in range(QUESTIONS)]


def one_model(name: str, correct: int, **changes):
    return measured(model=name, value=100 * correct / QUESTIONS, answers=answers(correct), **changes)


def cells_of(*measurements):
    """The models' cells in the only column, by model."""
    (board,) = build_leaderboard(measurements).boards
    return {row.model: row.cells[0] for row in board.rows if row.kind == "model"}


def test_each_model_is_compared_with_the_next_one_below():
    second, first = one_model("second", 46), one_model("first", 69)
    undefined = measured(model="undefined", value=None, answers=answers(1))
    cells = cells_of(second, first, undefined)
    assert cells["second"].comparison is cells["undefined"].comparison is None
    assert cells["first"].next_model == "second"
    assert cells["first"].comparison.difference == pytest.approx(20.0)
    assert cells["first"].comparison.low > 0
    # A model without answers cannot be compared.
    silent = measured(model="second", value=40.0)
    assert all(cell.comparison is None for cell in cells_of(silent, first).values())


def test_the_answers_of_runs_are_averaged():
    def mean(*runs):
        measurements = [measured(model="mine", seed=seed, answers=run) for seed, run in enumerate(runs)]
        (cell,) = cells_of(*measurements).values()
        return cell.answers

    assert mean([[1.0], [0.0, 1.0]], [[0.0], [0.0, 1.0]]) == [[0.5], [0.0, 1.0]]
    assert mean([[1.0]], None) is None
    assert mean([[1.0]], [[1.0, 0.0]]) is None
    assert mean(None) is None


def test_questions_that_depend_on_each_other_are_resampled_together():
    clusters = [number % 4 for number in range(QUESTIONS)]

    def of(name, value, *right):
        answers = [[float(one in right)] for one in clusters]
        return measured(model=name, value=value, answers=answers, clusters=clusters)

    models = [of("first", 75.0, 0, 1, 2), of("second", 50.0, 2, 3)]
    found = cells_of(*models)["first"].comparison
    assert (found.clusters, found.questions) == (4, QUESTIONS)
    assert found.low < 0
    alone = cells_of(*(replace(one, clusters=None) for one in models))["first"].comparison
    assert alone.low > 0


def test_close_neighbours_are_marked_everywhere():
    close = [one_model("best", 70), one_model("close", 69), one_model("far", 30)]
    unknown = measured(model="unknown", value=10.0)
    board = build_leaderboard([*close, unknown])
    cells = {row.model: (row, row.cells[0]) for row in board.boards[0].rows if row.kind == "model"}
    column = board.boards[0].columns[0]
    marked = [name for name, (row, cell) in cells.items() if CLOSE in cell_text(cell, row, column)]
    assert marked == ["best"]
    assert "not significantly better than the next model" in close_note(board)
    assert close_note(board) in markdown(board)
    page = leaderboard_page(board)
    assert close_note(board) in page
    assert 'title="not significantly better than close: +0.87 points, 95 % interval' in page
    assert 'title="significantly better than far: ' in page
    rows = {row["model"]: row for row in json.loads(to_json(board))["boards"][0]["rows"]}
    notes = {name: rows[name]["scores"]["hard_similarity/test"].get("next") for name in cells}
    assert (notes["best"]["model"], notes["best"]["significant"]) == ("close", False)
    assert (notes["close"]["model"], notes["close"]["significant"]) == ("far", True)
    # The next model of this one has no predictions.
    assert notes["far"] is notes["unknown"] is None
    assert close_note(build_leaderboard(close[1:])) == ""


def test_runs_of_several_seeds_are_compared_by_their_mean():
    runs = [one_model(f"mine-seed-{seed}", correct, seed=seed) for seed, correct in ((1, 70), (2, 72))]
    board = build_leaderboard([*runs, one_model("other", 68)])
    (cell,) = board.boards[0].rows[0].cells
    assert cell is not None
    assert cell.comparison is not None
    assert cell.comparison.difference == pytest.approx(100 * 3 / QUESTIONS)


def test_predictions_of_result_files_are_compared(tmp_path: Path):
    for name, correct in (("first", 90), ("second", 60)):
        predictions = [{"correct": bool(one)} for (one,) in answers(correct)]
        value = 100 * correct / QUESTIONS
        result = make_result(model=name, seed=1, main_value=value, predictions=predictions)
        write_result(result, tmp_path / name)
    ranks = make_result("conceptnet_completion", predictions=[{"rank": 3}])
    write_result(ranks, tmp_path / "first")
    boards = {board.dataset: board for board in leaderboard([tmp_path]).boards}
    (cell,) = boards["event_similarity"].rows[0].cells
    assert cell is not None
    assert cell.next_model == "second"
    # Ranks are neither right nor wrong.
    assert all(cell.comparison is None for cell in boards["commonsense_graphs"].rows[0].cells if cell)
