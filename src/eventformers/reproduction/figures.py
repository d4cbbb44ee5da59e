"""The figures of papers from reproduced tables: a picture, and its numbers as a finding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from matplotlib.figure import Figure

from eventformers.evaluation.tasks import TASKS
from eventformers.files import write_explained
from eventformers.markdown import cell
from eventformers.plots.chains import degree_table, degrees_of_questions, draw_degrees, draw_hops
from eventformers.plots.figures import write_figure
from eventformers.plots.grounding import RecallCurves, draw_recall
from eventformers.reproduction.findings import Finding
from eventformers.reproduction.kinds import TrainedRow
from eventformers.reproduction.rows import Drawing, ReproducedRow, Reproduction
from eventformers.reproduction.scores import scores_of


def _hops_figure(call: Reproduction, rows: Sequence[ReproducedRow], picture: Path) -> Finding | None:
    """Draw every score by the number of graph layers."""
    scores: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows:
        layers = row.paper.context_layers if isinstance(row.paper, TrainedRow) else 0
        # The rest of the label names the hops.
        model = row.paper.label.partition(",")[0]
        for column, value in scores_of(row).items():
            if value is not None:
                scores.setdefault(column.title, {}).setdefault(model, {})[layers] = value
    if not scores:
        return None
    return _drawn("hops", "number of hops", draw_hops(scores), call, picture, scores)


def _degree_figure(call: Reproduction, rows: Sequence[ReproducedRow], picture: Path) -> Finding | None:
    """Draw the accuracy of every model by the average node degree of the question's graph."""
    degrees = {}
    for column, splits in call.columns.items():
        for wanted in splits:
            bins = {
                row.paper.label: degrees_of_questions(
                    TASKS[wanted.task], call.evaluation_data, row.results[wanted]
                )
                for row in rows
                if wanted in row.results
            }
            if known := {label: of_row for label, of_row in bins.items() if of_row is not None}:
                degrees[column.title] = known
    if not degrees:
        return None
    note = (
        "Degrees are those of the context's graph for MCNC, and of the graph of the right chain for several "
        f"steps, without self-loops.\n\n{degree_table(degrees)}"
    )
    content = {
        title: {
            label: [{**asdict(one), "high": None if math.isinf(one.high) else one.high} for one in bins]
            for label, bins in by_model.items()
        }
        for title, by_model in degrees.items()
    }
    return _drawn("degrees", "average node degree", draw_degrees(degrees), call, picture, content, note)


def _recall_figure(call: Reproduction, rows: Sequence[ReproducedRow], picture: Path) -> Finding | None:
    """Draw every model's recall by the number of candidates, of all gold events and of the atomic one."""
    curves = {}
    for row in rows:
        found: dict[str, dict[int, float]] = {"recall": {}, "atomic": {}}
        for column, value in scores_of(row).items():
            kind, _, depth = column.score.partition("_at_")
            if value is not None and depth.isdecimal():
                found[kind][int(depth)] = value
        if any(found.values()):
            # The rest of the label names the task, which the title names as well.
            name = row.paper.label.partition(",")[0]
            curves[name] = RecallCurves(found["recall"], found["atomic"])
    if not curves:
        return None
    content = {name: asdict(of_model) for name, of_model in curves.items()}
    return _drawn("recall", "number of candidates", draw_recall(curves), call, picture, content)


def _drawn(
    key: str,
    by: str,
    figure: Figure,
    call: Reproduction,
    picture: Path,
    content: Mapping[str, object],
    *notes: str,
) -> Finding:
    """Write a figure beside the table, and make its finding."""
    with write_explained(picture):
        write_figure(figure, picture)
    parts = [f"## By {by}", f"![{cell(call.table.title)}]({picture.name})", *notes]
    return Finding(key, "\n\n".join(parts), content)


FIGURES: dict[Drawing, Callable[[Reproduction, Sequence[ReproducedRow], Path], Finding | None]] = {
    "hops": _hops_figure,
    "degree": _degree_figure,
    "recall": _recall_figure,
}
"""The functions that draw the figures, by name."""
