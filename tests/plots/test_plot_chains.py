"""Pictures of HeterEvent and MulCL."""

from __future__ import annotations

import shutil
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from eventformers.datasets_scripts.base import SAMPLES
from eventformers.errors import EventformersError
from eventformers.evaluation import evaluate
from eventformers.evaluation.node_degree import DegreeBin
from eventformers.plots.figures import (
    draw_degrees,
    draw_numbers,
    draw_training,
    plot_chain_training,
)
from eventformers.trainers.stages import FinishedStage, write_log

SEQUENCE = [
    {"step": 1, "epoch": 0.5, "loss": 2.0, "order_loss": 3.0, "composition_loss": 1.0},
    {"step": 2, "epoch": 1.0, "loss": 1.5, "order_loss": 2.0, "composition_loss": 0.5},
]
SUPERVISED = [{"step": 1, "loss": 2.0, "event_loss": 2.0}, {"step": 1, "eval_choice_accuracy": 0.25}]
HISTORIES = {"sequence": SEQUENCE, "supervised": SUPERVISED}
BINS = [DegreeBin(0, 4, 3, 50.0), DegreeBin(4, 4.25, 9, 60.0)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, tiny_heterevent: Path) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    shutil.copytree(tiny_heterevent, folder)
    write_log([FinishedStage(name, 2, 1.0, 0, history) for name, history in HISTORIES.items()], folder)
    evaluate(str(folder), "mcnc", output=folder)
    return folder


def test_a_run_is_drawn_with_its_numbers_beside(run: Path, tmp_path: Path) -> None:
    plot_chain_training(run, tmp_path / "p.png")
    assert matplotlib.image.imread(tmp_path / "p.png").std() > 0
    text = (tmp_path / "p.md").read_text()
    assert "| sequence | order | 3 (1) | 2 (2) |" in text
    assert "| supervised | validation choice accuracy | 0.25 (1) | 0.25 (1) |" in text
    assert "Multiple-choice narrative cloze | run |" in text
    plot_chain_training(run, tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "p.png").read_bytes()


def test_results_on_other_rows_are_told(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(SAMPLES / "chains" / "stories.jsonl", other)
    plot_chain_training(run, tmp_path / "p.svg", data=other)
    text = (tmp_path / "p.md").read_text()
    assert "Not drawn, because measured on other rows: Multiple-choice narrative cloze." in text


def test_what_is_no_finished_run_is_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"found no readable training_log\.json"):
        plot_chain_training(tiny_encoder, tmp_path / "p.png")
    with pytest.raises(EventformersError, match=r"accepted: \.png or \.svg"):
        plot_chain_training(tiny_encoder, tmp_path / "p.gif")


def test_every_stage_has_its_curves() -> None:
    figure = draw_training(HISTORIES, {"MCNC": {"model": BINS}})
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == [
        "sequence",
        "supervised",
        "supervised, validation",
        "MCNC",
    ]
    curves = {line.get_label(): line.get_xydata().tolist() for line in panels[0].lines}
    assert curves["order"] == [[1, 3], [2, 2]]
    assert set(curves) == {"loss", "order", "composition"}
    assert [line.get_label() for line in panels[2].lines] == ["validation choice accuracy"]


def test_hops_are_on_the_axis() -> None:
    figure = draw_numbers({"MCNC": {"MulCL": {1: 60.0, 3: 64.0}, "HeterEvent": {1: 58.0}}}, "hops")
    (axes,) = figure.axes
    assert list(axes.get_xticks()) == [1, 3]
    assert axes.lines[0].get_xydata().tolist() == [[1, 60], [3, 64]]
    assert axes.lines[1].get_xydata().tolist() == [[1, 58]]


def test_bars_count_the_questions_of_each_interval() -> None:
    figure = draw_degrees({"MCNC": {"MulCL": BINS, "HeterEvent": BINS[1:]}})
    lines, bars = figure.axes
    assert [bar.get_height() for bar in bars.patches] == [3, 9]
    assert [line.get_xydata().tolist() for line in lines.lines] == [[[0, 50], [1, 60]], [[1, 60]]]
    assert [label.get_text() for label in lines.get_xticklabels()] == ["below 4", "4 to 4.25"]


def test_the_choice_by_silhouettes_and_the_change_of_vectors_are_drawn():
    """Figures 7 and 3 of Edwards and Ji: values, means of windows, the best window, the chosen epoch."""
    values = [0.1, 0.3, 0.2, 0.4, 0.1]
    lines = [
        {
            "silhouette": value,
            "silhouette_50": value / 4,
            "vectors_moved": value / 2,
            "vectors_moved_std": 0.01,
            "step": 10 * n,
            "epoch": n,
        }
        for n, value in enumerate(values, start=1)
    ]
    history = [{"loss": 1.0, "step": 10}, *lines, {"chosen_step": 40, "silhouette_window": 3, "step": 50}]
    figure = draw_training({"training": history}, {})
    panels = {axes.get_title(): axes for axes in figure.axes}
    assert list(panels) == ["training", "silhouette", "change of the vectors"]
    raw, smooth, chosen, other, _ = panels["silhouette"].lines
    np.testing.assert_allclose(other.get_ydata(), np.array(values) / 4)
    texts = [text.get_text() for text in panels["silhouette"].get_legend().get_texts()]
    assert texts == ["the chosen number", "50 clusters"]
    np.testing.assert_allclose(raw.get_ydata(), values)
    np.testing.assert_allclose(smooth.get_xydata(), [[2, 0.2], [3, 0.3], [4, 0.7 / 3]])
    assert chosen.get_xydata().tolist() == [[4.0, 0.4]]
    (window,) = panels["silhouette"].patches
    assert (window.get_x(), window.get_width()) == (2, 2)
    np.testing.assert_allclose(panels["change of the vectors"].lines[0].get_ydata(), np.array(values) / 2)
