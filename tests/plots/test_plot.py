"""Figures of runs, events, mentions, chains and groundings."""

from __future__ import annotations

import ast
import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import matplotlib.image
import numpy as np
import pytest
import torch
from datasets import Dataset
from matplotlib.figure import Figure
from sklearn.decomposition import PCA
from transformers import AutoTokenizer

from eventformers import (
    EventTypeInductionForPreTraining,
    HeterEventForPreTraining,
    MicoForPreTraining,
    SwccForPreTraining,
    SwccModel,
)
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation import evaluate
from eventformers.evaluation.node_degree import DegreeBin
from eventformers.inference.encode import load_encoder
from eventformers.inference.induction.mention_distances import distances
from eventformers.plots import events as mentions
from eventformers.plots import events as plot
from eventformers.plots.events import describe_groups, plot_events, plot_mentions, sample_events
from eventformers.plots.figures import (
    draw_degrees,
    draw_numbers,
    draw_recall,
    draw_training,
    plot_chain_training,
)
from eventformers.trainers.stages import FinishedStage, write_log


def _event(subject: str, predicate: str, object_: str = "") -> dict[str, str]:
    return {"subject": subject, "predicate": predicate, "object": object_}


EVENTS = [
    _event("police", "arrested", "thief"),
    _event("storm", "hit", "city"),
    _event("bank", "sold", "house"),
    _event("doctor", "treated", "patient"),
    _event("team", "won"),
    _event("mayor", "announced", "election"),
]


@pytest.fixture
def raw_folder(tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    documents = [
        {
            "document_id": f"d{number}",
            "source": "test",
            "license": "Apache-2.0",
            "events": [list(event.values()) for event in EVENTS[number : number + 4]],
        }
        for number in range(3)
    ]
    (folder / "events.jsonl").write_text("\n".join(map(json.dumps, documents)) + "\n", encoding="utf-8")
    return folder


def _save(folder: Path, encoder: Path, num_prototypes: int = 3, **fields: object) -> Path:
    torch.manual_seed(1)
    head = SwccForPreTraining.from_encoder(encoder, num_prototypes=num_prototypes, **fields)
    head.save_pretrained(folder)
    AutoTokenizer.from_pretrained(encoder).save_pretrained(folder)
    return folder


@pytest.fixture
def run_folder(tmp_path, tiny_encoder):
    return _save(tmp_path / "run", tiny_encoder)


def test_events_belong_to_the_prototype_of_the_highest_cosine(run_folder, raw_folder, tmp_path):
    # Prototype 1 is the direction of the second event, far longer than the others.
    head = SwccForPreTraining.from_pretrained(run_folder)
    vectors = load_encoder(run_folder).encode(EVENTS)
    with torch.no_grad():
        head.prototypes.weight[1] = 7 * torch.from_numpy(vectors[1])
    head.save_pretrained(run_folder)
    groups = plot_events(run_folder, tmp_path / "p.png", data=raw_folder)
    weights = head.prototypes.weight.detach().numpy()
    cosines = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)) @ (
        weights / np.linalg.norm(weights, axis=1, keepdims=True)
    ).T
    assert [group.index for group in groups] == [0, 1, 2]
    expected = np.bincount(cosines.argmax(axis=1), minlength=3).tolist()
    assert [group.size for group in groups] == expected
    assert sum(expected) == len(EVENTS)
    assert groups[1].nearest[0] == "storm hit city"


def test_the_picture_and_the_table_are_written(run_folder, raw_folder, tmp_path):
    picture = tmp_path / "new" / "events.png"
    groups = plot_events(run_folder, picture, data=raw_folder)
    pixels = matplotlib.image.imread(picture)
    assert min(pixels.shape[:2]) > 800
    assert len(np.unique(pixels[::5, ::5, 0])) > 10
    written = picture.with_suffix(".md").read_text(encoding="utf-8")
    for group in groups:
        for text in (group.name, *group.nearest):
            assert text in written
    assert str(tmp_path) not in written
    assert sorted(path.name for path in picture.parent.iterdir()) == ["events.md", "events.png"]


def test_a_name_with_sums_of_money_is_no_formula(tmp_path):
    group = plot.EventGroup(0, "$a^b^c, $3", 1, [])
    plot.draw_groups({"": np.zeros((1, 2))}, np.zeros(1, int), [group]).savefig(tmp_path / "money.png")


def test_a_vector_picture_names_the_axes_and_repeats_itself(run_folder, raw_folder, tmp_path):
    contents = []
    for name in ("a.svg", "b.svg"):
        plot_events(run_folder, tmp_path / name, data=raw_folder)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]
    assert b"<svg" in contents[0]


def test_the_samples_are_drawn_without_data_and_only_so_many(run_folder, tmp_path):
    groups = plot_events(run_folder, tmp_path / "p.png", num_events=40)
    assert sum(group.size for group in groups) == 40
    assert all(len(group.nearest) <= 5 for group in groups)


def test_more_prototypes_than_colours(tiny_encoder, raw_folder, tmp_path):
    folder = _save(tmp_path / "many", tiny_encoder, num_prototypes=23)
    groups = plot_events(folder, tmp_path / "p.png", data=raw_folder)
    assert len(groups) == 23
    assert any((group.size, group.name, group.nearest) == (0, "", []) for group in groups)


def test_untrained_prototypes_are_said(tiny_encoder, raw_folder, tmp_path):
    folder = _save(tmp_path / "no-clustering", tiny_encoder, cluster_weight=0.0)
    with pytest.warns(UserWarning, match="cluster_weight=0"):
        plot_events(folder, tmp_path / "p.png", data=raw_folder)


def test_the_sample_is_of_distinct_events_whatever_their_order():
    rows = [{"events": EVENTS * 3}, {"events": EVENTS[::-1]}]
    chosen, distinct = sample_events(Dataset.from_list(rows), 4, seed=5)
    again, _ = sample_events(Dataset.from_list(rows[::-1]), 4, seed=5)
    other, _ = sample_events(Dataset.from_list(rows), 4, seed=6)
    assert len({tuple(event.values()) for event in chosen}) == 4
    assert chosen == again
    assert chosen != other
    assert distinct >= 4
    assert sample_events(Dataset.from_list(rows), 100, seed=5)[1] == len(EVENTS)


def test_the_sample_is_uniform_and_the_number_of_distinct_events_near():
    events = [_event("s", f"p{number}") for number in range(2000)]
    documents = Dataset.from_list([{"events": events}])
    chosen, distinct = sample_events(documents, 500, seed=0)
    assert distinct == pytest.approx(2000, rel=0.15)
    positions = [int(event["predicate"][1:]) for event in chosen]
    assert np.mean(positions) == pytest.approx(1000, abs=100)


def test_the_nearest_events_come_in_the_order_of_their_cosine():
    cosines = np.array([[0.1, 0.9], [0.2, 0.5], [0.8, 0.1], [0.0, 0.7]], dtype=np.float32)
    groups = describe_groups(EVENTS[:4], cosines, cosines.argmax(axis=1))
    assert [(one.size, one.nearest) for one in groups] == [
        (1, ["bank sold house"]),
        (3, ["police arrested thief", "doctor treated patient", "storm hit city"]),
    ]
    assert groups[0].name == "house, sold"


@pytest.mark.parametrize("head", ["plain encoder", "without its head", "without prototypes", "chains"])
def test_events_of_any_other_model_are_grouped_by_region(head, tiny_encoder, raw_folder, tmp_path):
    folder = tmp_path / "model"
    if head == "plain encoder":
        folder = tiny_encoder
    else:
        classes = {
            "without its head": SwccModel,
            "without prototypes": MicoForPreTraining,
            "chains": HeterEventForPreTraining,
        }
        classes[head].from_encoder(tiny_encoder).save_pretrained(folder)
        AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(folder)
    groups = plot_events(folder, tmp_path / "p.png", data=raw_folder)
    assert [group.index for group in groups] == list(range(len(groups)))
    assert sum(group.size for group in groups) == len(EVENTS)
    assert all(group.name and group.nearest for group in groups)
    assert "by region" in (tmp_path / "p.md").read_text(encoding="utf-8")


def test_regions_are_those_of_the_figure(tiny_encoder, raw_folder, tmp_path, monkeypatch):
    places = np.repeat([[0.0, 0.0], [0.1, 0.0], [9.0, 9.0]], 2, axis=0)
    drawn = []
    monkeypatch.setattr(plot, "place_mentions", lambda vectors, **_: places)
    monkeypatch.setattr(plot, "describe_groups", lambda events, cosines, members: drawn.append(members) or [])
    plot_events(tiny_encoder, tmp_path / "p.png", data=raw_folder)
    (members,) = drawn
    assert members.tolist() == np.repeat(members[::2], 2).tolist()
    assert {*members.tolist()} == {0, 1, 2}


def test_principal_components_beside_another_model(
    run_folder, raw_folder, tmp_path, tiny_encoder, monkeypatch
):
    """Figure 4 of SWCC: the same events and groups in both panels, each by its own model's vectors."""
    drawn = {}
    draw = plot.draw_groups

    def recorded(panels, members, groups):
        drawn.update(panels)
        return draw(panels, members, groups)

    monkeypatch.setattr(plot, "draw_groups", recorded)
    plot_events(run_folder, tmp_path / "p.png", data=raw_folder, by="pca", beside=tiny_encoder)
    (left, right) = drawn.values()
    vectors = load_encoder(run_folder).encode(EVENTS, normalize=True)
    # The places fill the picture, so only the ratios of distances along an axis are those of the components.
    for column, expected in zip(right.T, PCA(2).fit_transform(vectors).T, strict=True):
        found, wanted = (np.sort(np.abs(part - part.mean()) / np.ptp(part)) for part in (column, expected))
        np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert left.shape == right.shape
    assert not np.allclose(left, right)
    assert "principal components" in (tmp_path / "p.md").read_text(encoding="utf-8")


@pytest.fixture
def induction_run(tmp_path, tiny_encoder):
    folder = tmp_path / "types"
    torch.manual_seed(0)
    EventTypeInductionForPreTraining.from_encoder(tiny_encoder).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(folder)
    return folder


@pytest.fixture
def umap(monkeypatch):
    """Stands in for UMAP, which compiles for half a minute of processor time; collects what it is given."""
    calls = []

    class UMAP:
        def __init__(self, **settings):
            self.settings = settings

        def fit_transform(self, found):
            calls.append((self.settings, found))
            return np.linalg.eigh(found + found.T)[1][:, -2:]

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=UMAP))
    return calls


SETTINGS_OF_UMAP = {"n_neighbors": 15, "metric": "precomputed", "random_state": 0, "n_jobs": 1}


def test_umap_has_the_settings():
    """Read from its source: importing it compiles."""
    found = find_spec("umap")
    if found is None:
        pytest.skip("UMAP is in the extra figures")
    parts = ast.parse(Path(found.origin).with_name("umap_.py").read_text(encoding="utf-8")).body
    [umap] = [part for part in parts if isinstance(part, ast.ClassDef) and part.name == "UMAP"]
    methods = {part.name: part for part in umap.body if isinstance(part, ast.FunctionDef)}
    assert set(SETTINGS_OF_UMAP) <= {argument.arg for argument in methods["__init__"].args.args}
    assert "fit_transform" in methods


def test_mentions_are_drawn_by_queries_and_keys(induction_run, tiny_encoder, tmp_path, monkeypatch, umap):
    """Figures 5 and 6 of Edwards and Ji: all unseen types, or some of them."""
    asked = []
    monkeypatch.setattr(
        mentions, "distances", lambda vectors, kind: asked.append(kind) or distances(vectors, kind)
    )
    counts = plot_mentions(induction_run, tmp_path / "all.svg")
    plot_mentions(induction_run, tmp_path / "again.svg")
    assert asked == ["cosine"] * 2
    assert (tmp_path / "all.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    assert len(counts) > 2
    for settings, found in umap:
        assert settings == SETTINGS_OF_UMAP
        assert found.shape == (sum(counts.values()),) * 2
        assert not found.diagonal().any()
    some = list(counts)[:2]
    assert plot_mentions(induction_run, tmp_path / "some.png", types=some) == {
        name: counts[name] for name in some
    }
    for name in counts:
        assert name in (tmp_path / "all.md").read_text(encoding="utf-8")
    with pytest.raises(UnknownNameError, match="unseen type"):
        plot_mentions(induction_run, tmp_path / "p.png", types=["Nothing"])
    with pytest.raises(EventformersError, match="no queries and keys"):
        plot_mentions(tiny_encoder, tmp_path / "p.png")
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"sentence": "Soldiers attacked.", "trigger": "attacked", "event_type": "Attack"}\n' * 5)
    with pytest.raises(EventformersError, match=r"found 0 mentions of .*, by num_seen"):
        plot_mentions(induction_run, tmp_path / "p.png", data=mine)


def test_bad_input_is_said(run_folder, raw_folder, tmp_path):
    target = tmp_path / "p.png"
    with pytest.raises(EventformersError, match=r"'\.jpg'; accepted: \.png or \.svg"):
        plot_events(run_folder, tmp_path / "p.jpg")
    with pytest.raises(EventformersError, match=r"config\.json"):
        plot_events(raw_folder, target)
    with pytest.raises(EventformersError, match="accepted: 4 to 3,000"):
        plot_events(run_folder, target, num_events=2)
    assert not list(tmp_path.glob("p.*"))


def test_vectors_that_are_not_finite_are_said(run_folder, raw_folder, tmp_path):
    head = SwccForPreTraining.from_pretrained(run_folder)
    head.prototypes.weight.data[0, 0] = float("nan")
    head.save_pretrained(run_folder)
    with pytest.raises(EventformersError, match=r"prototypes\.weight are NaN or infinite"):
        plot_events(run_folder, tmp_path / "p.png", data=raw_folder)


def test_a_failed_write_leaves_the_earlier_picture(run_folder, raw_folder, tmp_path, monkeypatch):
    picture = tmp_path / "p.png"
    picture.write_bytes(b"earlier")

    def full(self: object, path: Path, **settings: object) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(plot.Figure, "savefig", full)
    with pytest.raises(EventformersError, match="No space left"):
        plot_events(run_folder, picture, data=raw_folder)
    assert picture.read_bytes() == b"earlier"
    assert not list(tmp_path.glob(".p.png*"))


CURVES = {
    "first": {"whole": {4: 10.0, 8: 20.0, 16: 25.0}, "atomic": {4: 30.0, 8: 40.0, 16: 45.0}},
    "second": {"whole": {4: 50.0, 8: 60.0}, "atomic": {4: 70.0, 8: 80.0, 32: 90.0}},
}


def _drawn() -> Figure:
    return draw_recall(CURVES)


def test_each_model_has_a_line_of_all_gold_events_and_a_dotted_one_of_the_atomic_event() -> None:
    (axes,) = _drawn().axes
    lines = axes.get_lines()
    assert len(lines) == 2 * len(CURVES)
    for (name, curves), whole, atomic in zip(CURVES.items(), lines[::2], lines[1::2], strict=True):
        for line, expected in ((whole, curves["whole"]), (atomic, curves["atomic"])):
            assert dict(zip(line.get_xdata(), line.get_ydata(), strict=True)) == expected
        assert whole.get_label() == name
        assert (whole.get_linestyle(), atomic.get_linestyle()) == ("-", ":")
        assert whole.get_color() == atomic.get_color()
        assert whole.get_marker() == atomic.get_marker()


def test_models_are_told_apart() -> None:
    figure = _drawn()
    (axes,) = figure.axes
    first, _, second, _ = axes.get_lines()
    assert first.get_color() != second.get_color()
    assert first.get_marker() != second.get_marker()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(CURVES)


def test_axes_say_what_they_show() -> None:
    (axes,) = _drawn().axes
    assert axes.get_xscale() == "log"
    assert axes.get_xticks().tolist() == [4, 8, 16, 32]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "8", "16", "32"]
    assert "dotted: only the atomic event" in axes.get_xlabel()
    assert axes.get_ylabel() == "recall (%)"


def test_more_models_than_markers_or_colours_are_drawn() -> None:
    (axes,) = draw_recall({str(number): CURVES["first"] for number in range(12)}).axes
    assert len(axes.get_lines()) == 24


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
