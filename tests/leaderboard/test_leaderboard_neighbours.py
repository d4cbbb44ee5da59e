"""Neighbours on a leaderboard: which differences are significant on the same questions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from leaderboard_inputs import make_result, measured

from eventformers.evaluation.results import write_result
from eventformers.leaderboard.board import build_leaderboard, leaderboard
from eventformers.leaderboard.page import CLOSE, cell_text, close_note, leaderboard_page, markdown, to_json

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
