"""Figures of training, degrees, hops and recall, and how figures are written with reproducible bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.errors import EventformersError, shown
from eventformers.evaluation.data import load_data
from eventformers.evaluation.node_degree import DegreeBin, degrees_of_questions, scores_by_degree
from eventformers.evaluation.results import TaskResult, load_results
from eventformers.evaluation.tasks import TASKS
from eventformers.evaluation.tasks.base import Task
from eventformers.evaluation.tasks.chains import Chains
from eventformers.files import output_file, replaced_file, write_explained, write_text
from eventformers.locks import one_writer
from eventformers.markdown import cell, table
from eventformers.trainers.stages import SILHOUETTE, read_log

SUFFIXES = (".png", ".svg")
COLOURS = matplotlib.color_sequences["petroff10"]
MARKERS = "os^DvP"


def line_style(place: int) -> dict[str, Any]:
    """Return the colour and the marker of a line by its place among the lines of a figure."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKERS[place % len(MARKERS)],
        "markersize": 5,
        "linewidth": 1.5,
    }


@contextmanager
def one_picture(output: Path) -> Iterator[None]:
    """Hold the lock of a figure and of the table beside it, `output` with the suffix `.md`.

    Raises:
        EventformersError: the suffix is unknown, another process writes it, or one of the two is not a
            regular file.
    """
    if output.suffix.lower() not in SUFFIXES:
        raise EventformersError(
            f"{output}: found the suffix {shown(output.suffix)}; accepted: {' or '.join(SUFFIXES)}"
        )
    output_file(output)
    output_file(output.with_suffix(".md"))
    with one_writer(output):
        yield


def write_figure(figure: Figure, output: Path) -> None:
    """Write a figure atomically, equal figures with equal bytes."""
    kind = output.suffix.lower().removeprefix(".")
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with replaced_file(output) as temporary, matplotlib.rc_context({"svg.hashsalt": "eventformers"}):
        figure.savefig(temporary, format=kind, dpi=200, metadata=metadata)


def write_with_table(figure: Figure, text: str, output: Path) -> None:
    """Write a figure, and its numbers to a file beside it with the suffix `.md`.

    Raises:
        EventformersError: a file cannot be written.
    """
    with write_explained(output):
        write_figure(figure, output)
        write_text(output.with_suffix(".md"), text)


Degrees = Mapping[str, Mapping[str, Sequence[DegreeBin]]]
"""The bins of each model, by the title of the task and the model's name."""
Numbers = Mapping[str, Mapping[str, Mapping[int, float]]]
"""The score of each model by its number of layers, by the title of the task and the model's name."""

_PANEL = (3.4, 2.8)
"""Size of a panel in inches."""
_TERM = "_loss"


@takes_malformed
def plot_chain_training(
    run: str | Path, output: str | Path, *, data: str | Path | None = None, malformed: str | None = None
) -> None:
    """Draw the log of a training run with several stages, and the model's accuracy by average node degree.

    The curves are the loss terms of each stage and, for validated stages, the accuracy. Accuracies by degree
    come from the run's own results on questions that chains answer.

    Args:
        output: the figure, `.png` or `.svg`; the numbers go to a file beside it with the suffix `.md`.
        data: the data of the run's results; None uses the bundled samples. Results on other rows are left out
            and listed in the table.

    Raises:
        EventformersError: the suffix is unknown, the folder is not a run with a training log, the data cannot
            be loaded, or a file cannot be written.
    """
    run, output = Path(run), Path(output)
    with one_picture(output):
        histories = {stage.name or "training": stage.history for stage in read_log(run)}
        degrees: dict[str, dict[str, list[DegreeBin]]] = {}
        left_out = []
        for result in load_results(run):
            task = TASKS.get(result.task)
            if task is None or not isinstance(task.kind, Chains):
                continue
            if bins := bins_of_results(task, data, {result.model: result}):
                degrees[task.title] = bins
            else:
                left_out.append(task.title)
        figure = draw_training(histories, degrees, title=run.resolve().name)
        lines = []
        for name, history in histories.items():
            for term, curve in {**_curves(history, _TERM), **_curves(history, "_accuracy")}.items():
                (first, start), (last, end) = curve[0], curve[-1]
                lines.append([cell(name), cell(term), f"{start:.4g} ({first})", f"{end:.4g} ({last})"])
        curves = table(["stage", "curve", "first (step)", "last (step)"], lines)
        sections = [f"# Training of {cell(run.resolve().name)}", curves]
        if degrees:
            sections += ["## Accuracy by average node degree", degree_table(degrees)]
        if left_out:
            sections.append(f"Not drawn, because measured on other rows: {', '.join(left_out)}.")
        write_with_table(figure, "\n\n".join(sections) + "\n", output)


def bins_of_results(
    task: Task, data: str | Path | None, results: Mapping[str, TaskResult]
) -> dict[str, list[DegreeBin]]:
    """Compute the scores of named results on a split by the average node degree of their questions.

    Results on other rows than those of the data are left out.

    Raises:
        EventformersError: the data cannot be loaded, or the task has no chains and no virtual contexts.
    """
    (split,) = {one.dataset.split for one in results.values()}
    loaded = load_data(task, data, split)
    known = {name: one for name, one in results.items() if one.dataset.fingerprint == loaded.fingerprint}
    if not known:
        return {}
    degrees = degrees_of_questions(task, loaded.rows)
    return {name: scores_by_degree(one, degrees) for name, one in known.items()}


def draw_numbers(scores: Numbers, by: str) -> Figure:
    """Draw scores by a number, such as that of hops, with one panel for each task."""
    figure, panels = _panels(list(scores))
    for axes, by_model in zip(panels, scores.values(), strict=True):
        for place, (name, by_hops) in enumerate(by_model.items()):
            axes.plot(list(by_hops), list(by_hops.values()), label=name, **line_style(place))
        axes.set_xlabel(by)
        axes.set_xticks(sorted({hops for by_hops in by_model.values() for hops in by_hops}))
    _draw_legend(figure, panels)
    return figure


def draw_degrees(degrees: Degrees) -> Figure:
    """Draw scores by average node degree, with one panel for each task; bars count the questions."""
    figure, panels = _panels(list(degrees))
    for axes, by_model in zip(panels, degrees.values(), strict=True):
        _draw_degrees(axes, by_model)
    _draw_legend(figure, panels)
    return figure


def draw_training(
    histories: Mapping[str, Sequence[Mapping[str, float]]], degrees: Degrees, title: str = ""
) -> Figure:
    """Draw the loss terms of each stage, the accuracies of validated stages, and accuracies by degree."""
    validated = {name: _curves(history, "_accuracy") for name, history in histories.items()}
    validated = {name: curves for name, curves in validated.items() if curves}
    chosen = {
        title: (draw, lines)
        for key, draw, title in (
            (SILHOUETTE, _draw_silhouettes, "silhouette"),
            ("vectors_moved", _draw_moved, "change of the vectors"),
        )
        for history in histories.values()
        if (lines := [line for line in history if key in line or "chosen_step" in line]) and key in lines[0]
    }
    names = [*histories, *(f"{name}, validation" for name in validated), *chosen, *degrees]
    figure, panels = _panels(names)
    remaining = iter(panels)
    for history in histories.values():
        _draw_curves(next(remaining), _curves(history, _TERM), "loss")
    for curves in validated.values():
        _draw_curves(next(remaining), curves, "accuracy")
    for draw, lines in chosen.values():
        draw(next(remaining), lines)
    for by_model in degrees.values():
        _draw_degrees(next(remaining), by_model)
    figure.suptitle(title)
    return figure


def degree_table(degrees: Degrees) -> str:
    """Format the bins as Markdown."""
    lines = [
        [cell(title), cell(name), one.name, f"{one.questions:,}", f"{one.score:.3g}"]
        for title, by_model in degrees.items()
        for name, bins in by_model.items()
        for one in bins
    ]
    return table(["task", "model", "average node degree", "questions", "score"], lines)


def _curves(history: Sequence[Mapping[str, float]], ending: str) -> dict[str, list[tuple[int, float]]]:
    """Steps and values of the entries of a log with that ending, and of the loss itself."""
    curves: dict[str, list[tuple[int, float]]] = {}
    has_steps = any("loss" in line for line in history)
    for line in history:
        for name, value in line.items():
            # The mean of the whole stage adds no information to its steps.
            if name == "train_loss" and has_steps:
                continue
            if name.endswith(ending) or (name == "loss" and ending == _TERM):
                shown_name = "mean of all steps" if name == "train_loss" else name.removesuffix(_TERM)
                if name.startswith("eval_"):
                    shown_name = f"validation {name.removeprefix('eval_')}"
                curve = curves.setdefault(shown_name.replace("_", " "), [])
                curve.append((int(line["step"]), value))
    return curves


def _panels(titles: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """Create a figure with a panel for each title, in a grid of at most four columns."""
    columns = min(4, len(titles)) if len(titles) != 5 else 3
    rows = math.ceil(len(titles) / columns)
    figure = Figure(figsize=(_PANEL[0] * columns, _PANEL[1] * rows + 0.4), layout="constrained")
    panels = []
    for place, title in enumerate(titles):
        axes = figure.add_subplot(rows, columns, place + 1)
        axes.set_title(title, fontsize="medium")
        axes.spines[["top", "right"]].set_visible(False)
        panels.append(axes)
    return figure, panels


def _draw_degrees(axes: Axes, by_model: Mapping[str, Sequence[DegreeBin]]) -> None:
    names = {one.name: one for bins in by_model.values() for one in bins}
    ordered = sorted(names.values(), key=lambda one: one.low)
    places = {one.name: place for place, one in enumerate(ordered)}
    counts = axes.twinx()
    counts.bar(list(places.values()), [one.questions for one in ordered], color="0.9", zorder=0)
    counts.set_ylabel("questions", color="0.5")
    counts.yaxis.set_major_locator(MaxNLocator(integer=True))
    counts.tick_params(colors="0.5")
    counts.spines[["top", "right"]].set_visible(False)
    # The bars are drawn behind the lines, whose axes they would cover.
    axes.set_zorder(counts.get_zorder() + 1)
    axes.patch.set_visible(False)
    for place, (name, bins) in enumerate(by_model.items()):
        axes.plot(
            [places[one.name] for one in bins],
            [one.score for one in bins],
            label=name,
            **line_style(place),
        )
    axes.set_xticks(list(places.values()), list(places), rotation=40, ha="right", fontsize="x-small")
    axes.set_xlabel("average node degree")
    axes.set_ylabel("score")


def _draw_silhouettes(axes: Axes, lines: Sequence[Mapping[str, float]]) -> None:
    """Figure 7 of Edwards and Ji: values dotted, means of windows bold, the best window and the choice.

    The first curve chooses; those of other numbers of clusters follow.
    """
    known, last = [line for line in lines if SILHOUETTE in line], lines[-1]
    x = np.array([line["epoch"] for line in known])
    # Logs of earlier versions lack the window.
    width = min(int(last.get("silhouette_window", 1)), len(known))
    for place, name in enumerate(key for key in known[0] if key.startswith(SILHOUETTE)):
        values = np.array([line[name] for line in known])
        means = np.convolve(values, np.full(width, 1 / width), mode="valid")
        number = name.removeprefix(f"{SILHOUETTE}_")
        label = "the chosen number" if name == SILHOUETTE else f"{number} clusters"
        axes.plot(x, values, ":", color=COLOURS[place])
        axes.plot(
            x[(width - 1) // 2 :][: len(means)], means, color=COLOURS[place], linewidth=2.5, label=label
        )
        if name == SILHOUETTE and "chosen_step" in last:
            best = int(np.argmax(means >= means.max() - 1e-12))
            axes.axvspan(x[best], x[best + width - 1], color=COLOURS[place], alpha=0.15, linewidth=0)
            chosen = [line["step"] for line in known].index(last["chosen_step"])
            axes.plot(x[chosen], values[chosen], "o", color="black")
    if len(axes.lines) > 3:
        axes.legend(frameon=False, fontsize="x-small")
    axes.set_xlabel("epoch")


def _draw_moved(axes: Axes, lines: Sequence[Mapping[str, float]]) -> None:
    """Figure 3 of Edwards and Ji: 1 - cosine with the vectors before training, with a standard deviation."""
    known = [line for line in lines if "vectors_moved" in line]
    x, mean, deviation = (
        np.array([line[key] for line in known]) for key in ("epoch", "vectors_moved", "vectors_moved_std")
    )
    axes.plot(x, mean, color=COLOURS[0])
    axes.fill_between(x, mean - deviation, mean + deviation, color=COLOURS[0], alpha=0.2, linewidth=0)
    axes.set_xlabel("epoch")
    axes.set_ylabel("1 - cosine")


def _draw_curves(axes: Axes, curves: Mapping[str, Sequence[tuple[int, float]]], what: str) -> None:
    for place, (name, curve) in enumerate(curves.items()):
        steps, values = zip(*curve, strict=True)
        # A single point draws no line.
        marker = "o" if len(curve) == 1 else None
        axes.plot(steps, values, label=name, color=COLOURS[place % len(COLOURS)], marker=marker)
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel(what)
    if curves:
        axes.legend(frameon=False, fontsize="x-small")


def _draw_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    handles = {
        label: handle
        for axes in panels
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", frameon=False, ncols=len(handles)
    )


_SIZE = (6.4, 4.2)
"""Size of the figure in inches."""


def draw_recall(curves: Mapping[str, Mapping[str, Mapping[int, float]]]) -> Figure:
    """Draw recall by the number of candidates, one line for each model; dotted for only the atomic event.

    Args:
        curves: for each model the recall in percent by the number of candidates. `whole`: mentions with all
            of their gold events among the candidates, or the share of their gold events. `atomic`: mentions
            with their atomic event among the candidates; or empty.
    """
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    for place, (name, of_model) in enumerate(curves.items()):
        style = line_style(place)
        whole, atomic = of_model["whole"], of_model["atomic"]
        axes.plot(list(whole), list(whole.values()), label=name, **style)
        axes.plot(list(atomic), list(atomic.values()), linestyle=":", **style)
    axes.set_xscale("log", base=2)
    depths = sorted({depth for one in curves.values() for curve in one.values() for depth in curve})
    axes.set_xticks(depths, [str(depth) for depth in depths])
    dotted = " (dotted: only the atomic event)" if any(one["atomic"] for one in curves.values()) else ""
    axes.set_xlabel(f"candidates{dotted}")
    axes.set_ylabel("recall (%)")
    figure.legend(loc="outside right center", frameon=False, fontsize="small")
    return figure
