"""Reproduced tables as files: Markdown to read, JSON with all details, and the figures of papers."""

from __future__ import annotations

import json
import math
import os
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import stdev

from matplotlib.figure import Figure as Drawing

from eventformers.datasets_scripts.loading import SAMPLES
from eventformers.evaluation.node_degree import MIN_CORRELATED
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.tasks import TASKS, with_settings
from eventformers.files import write_explained, write_text
from eventformers.inference.induction.type_naming import majority_type
from eventformers.loading.encoders import PACKAGED_ENCODER
from eventformers.markdown import cell, code
from eventformers.markdown import table as markdown_table
from eventformers.model_cards.scores import score_text
from eventformers.plots.figures import (
    bins_of_results,
    degree_table,
    draw_degrees,
    draw_numbers,
    draw_recall,
    write_figure,
)
from eventformers.provenance import git_commit, library_versions
from eventformers.reproduction.comparisons import (
    Finding,
    Scores,
    mean_scores,
    run_values,
    scores_of,
    scores_of_runs,
)
from eventformers.reproduction.rows import record_of
from eventformers.reproduction.runs import ReproducedRow, Reproduction, seconds_of_trainings
from eventformers.reproduction.tables import UNTRAINED, Column, Figure

TABLE_FORMAT = 1
"""The version of the JSON format."""

PURITY_CLASSES = {
    "very strong (over 80 %)": 80.0,
    "strong (60 to 80 %)": 60.0,
    "ok (40 to 60 %)": 40.0,
    "mixed (up to 40 %)": 0.0,
}
"""The classes of Table 2 of Edwards and Ji, with the purity that their clusters exceed."""

SMALL = "small (one mention)"
"""The class of clusters with a single mention, whatever their purity."""

_FAILED = "failed: "
_FOLDERS = re.compile(r"(?<![\w.:/])(?:/[^\s/'\",;:]+)+/(?=[^\s/])")
"""The folders of an absolute path within a text."""


@dataclass(frozen=True)
class ReproducedTable:
    """A table of a paper with our scores.

    Attributes:
        path: the Markdown file; the `.json` file is beside it.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    path: Path


def failed_state(failure: Exception) -> str:
    """Describe the state of a failed row, without the folders of this machine."""
    text = " ".join(str(failure).split()) or type(failure).__name__
    return _FAILED + _FOLDERS.sub("", text)


def write_table(
    call: Reproduction, rows: Sequence[ReproducedRow], path: Path, findings: Sequence[Finding] = ()
) -> ReproducedTable:
    """Write the rows of a table that are filled so far.

    Args:
        path: the Markdown file; the JSON is written beside it.

    Raises:
        EventformersError: a file cannot be written.
    """
    header = ["model"]
    for column in call.table.columns:
        header += [column.title, "published"]
    header.append("run")
    others = _on_other_rows(call, rows)
    cells = []
    for row in rows:
        # The recipe may have disabled what this row removes: then an earlier row has the same run.
        twin = next((other for other in rows if other.digest == row.digest), row)
        is_twin = twin is not row and row.results and not row.state.startswith(_FAILED)
        pairs = call.table.published(row.paper).items()
        published = [None if column in others else score for column, score in pairs]
        state = f"the run of {twin.paper.label}" if is_twin else row.state
        cells.append(_line(row.paper.label, scores_of(row), published, state))
    untrained = mean_scores(
        next((row for row in rows if row.splits), rows[0]).columns,
        {
            wanted: result
            for row in reversed(rows)
            for wanted, result in row.results.items()
            if result.baseline is not None and not record_of(row)["rerank"]
        },
        lambda column, result: result.baseline.scores if result.baseline else {},
    )
    has_own_row = any(record_of(row)["baseline"] == UNTRAINED for row in rows)
    if not has_own_row and any(score is not None for score in untrained.values()):
        name = f"untrained encoder ({_encoder_name(call.encoder)})"
        cells.append(_line(name, untrained, [None] * len(untrained), "no training"))
    finished = ReproducedTable(call.table.title, header, cells, path)
    with write_explained(path):
        write_text(path, _markdown(call, finished, rows, findings))
        write_text(path.with_suffix(".json"), _json(call, rows, untrained, findings))
    return finished


def _on_other_rows(call: Reproduction, rows: Sequence[ReproducedRow]) -> list[Column]:
    """Find the columns that are scored on other rows than the paper's, so the paper's scores are hidden."""
    return [
        column
        for column in call.table.columns
        if any(
            not _is_published_data(column, [row.results[wanted] for wanted in own if wanted in row.results])
            for row in rows
            if not row.results.keys().isdisjoint(own := row.columns.get(column, ()))
        )
    ]


def _is_published_data(column: Column, results: Sequence[TaskResult]) -> bool:
    """True if the results are on all splits of a column, with as many rows as in the paper."""
    task = TASKS[column.task]
    if column.splits and {result.dataset.split for result in results} != {*column.splits}:
        return False
    known = {task.published_split: task.published_rows, **column.rows}
    found = [result.dataset for result in results]
    return task.published_data and all(
        one.origin != "samples" and one.rows == known.get(one.split, -1) for one in found
    )


def _line(label: str, scores: Scores, published: Sequence[float | None], state: str) -> list[str]:
    line = [label]
    for (column, score), theirs in zip(scores.items(), published, strict=True):
        line.append("–" if score is None else score_text(score, column.score))
        line.append("–" if theirs is None else score_text(theirs, column.score, published=True))
    return [*line, state]


def _markdown(
    call: Reproduction,
    finished: ReproducedTable,
    rows: Sequence[ReproducedRow],
    findings: Sequence[Finding],
) -> str:
    recipe, encoder = code(Path(call.recipe).name), code(_encoder_name(call.encoder))
    about = f"Recipe {recipe}, encoder {encoder}, seed {call.seed}"
    if call.settings:
        about += f", {' '.join(code(setting) for setting in call.settings)}"
    parts = [
        f"# {cell(finished.title)}",
        f"{about}. Our scores stand before the published ones.",
        markdown_table(finished.header, [[cell(text) for text in line] for line in finished.rows]),
    ]
    if others := _on_other_rows(call, rows):
        names = ", ".join(column.title for column in others)
        parts.append(
            "Without published scores, since ours are measured on other rows than the paper's: "
            f"{cell(names)}."
        )
    parts += [finding.section for finding in findings]
    if measured := _measured(rows):
        parts += ["## Measured on", measured]
    return "\n\n".join(parts) + "\n"


def _measured(rows: Sequence[ReproducedRow]) -> str:
    """Describe the rows that our scores were measured on, beside the number of the paper's."""
    results = {wanted: result for row in rows for wanted, result in row.results.items()}
    lines = []
    for name, task in TASKS.items():
        for wanted in sorted(
            (one for one in results if one.task == name), key=lambda one: one.split != task.published_split
        ):
            dataset = results[wanted].dataset
            known = task.published_rows is not None and not wanted.data_settings
            paper = f"{task.published_rows:,}" if known else "–"
            if known and dataset.split != task.published_split:
                paper += f" ({task.published_split})"
            lines.append(
                [
                    cell(", ".join(filter(None, (task.title, wanted.data_settings)))),
                    dataset.split,
                    f"{dataset.rows:,}",
                    paper,
                    "bundled samples, no benchmark" if dataset.origin == "samples" else dataset.origin,
                    code(dataset.fingerprint[:12]),
                ]
            )
    header = ["task", "split", "rows", "rows in the paper", "data", "SHA-256 of the rows"]
    return markdown_table(header, lines)


def _json(
    call: Reproduction, rows: Sequence[ReproducedRow], untrained: Scores, findings: Sequence[Finding]
) -> str:
    content = {
        "format": TABLE_FORMAT,
        "title": call.table.title,
        "recipe": Path(call.recipe).name,
        "settings": list(call.settings),
        "seed": call.seed,
        "runs": call.runs,
        "encoder": _encoder_name(call.encoder),
        "data": _place_name(call.data),
        "evaluation_data": _place_name(call.evaluation_data),
        "evaluation_fingerprints": {
            wanted.key: wanted.fingerprint
            for row in rows
            for splits in row.columns.values()
            for wanted in splits
        },
        "dtype": call.dtype,
        "untrained": _by_key(untrained),
        "rows": [
            {
                "label": row.paper.label,
                "state": row.state,
                **record_of(row),
                "folder": None if row.folder is None else row.folder.name,
                "trainings": seconds_of_trainings(call, row),
                "scores": _by_key(scores_of(row)),
                "paper": _by_key(call.table.published(row.paper)),
            }
            for row in rows
        ],
        **{finding.key: finding.content for finding in findings},
        "versions": library_versions(),
        "git_commit": git_commit(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _by_key(scores: Scores) -> dict[str, float]:
    return {column.key: score for column, score in scores.items() if score is not None}


def _place_name(place: str | None) -> str:
    """Return a Hub id unchanged, and only the names of folders."""
    if place is None:
        return "samples"
    parts = [Path(part).expanduser() for part in place.split(os.pathsep)]
    return " ".join(part.resolve().name for part in parts) if all(map(Path.exists, parts)) else place


def _encoder_name(encoder: str | None) -> str:
    return PACKAGED_ENCODER if encoder is None else _place_name(encoder)


def spread_of_runs(call: Reproduction, rows: Sequence[ReproducedRow]) -> Finding | None:
    """List the standard deviations over the runs of each row; None if no row has two runs."""
    spreads: dict[str, dict[str, float]] = {}
    lines = []
    for row in rows:
        of_runs = scores_of_runs(row)
        found = {column: run_values(of_runs, column) for column in row.columns}
        spread = {column: stdev(values) for column, values in found.items() if len(values) > 1}
        if spread:
            spreads[row.paper.label] = {column.key: value for column, value in spread.items()}
            texts = [
                score_text(spread[column], column.score) if column in spread else "–"
                for column in row.columns
            ]
            lines.append([cell(row.paper.label), *texts])
    if not lines:
        return None
    header = ["model", *(cell(column.title) for column in call.table.columns)]
    seeds = f"{call.seed} to {call.seed + call.runs - 1}"
    section = (
        f"## Spread over {call.runs} runs\n\nStandard deviation of each score; seeds {seeds}.\n\n"
        f"{markdown_table(header, lines)}"
    )
    return Finding("spread", section, spreads)


def clusters_by_purity(row: ReproducedRow) -> Finding | None:
    """Group the clusters of a row by purity, each with its most frequent type (Table 2).

    Args:
        row: the row, whose results hold the cluster and the type of each mention.

    Returns:
        The classes; None without a result.
    """
    result = next(iter(row.results.values()), None)
    if result is None:
        return None
    members: dict[int, list[str]] = {}
    for mention in result.predictions:
        members.setdefault(int(str(mention["cluster"])), []).append(str(mention["event_type"]))
    classes: dict[str, list[dict[str, object]]] = {name: [] for name in (*PURITY_CLASSES, SMALL)}
    for cluster in sorted(members):
        types = members[cluster]
        name, count = majority_type(types)
        purity = 100 * count / len(types)
        strength = next((one for one, least in PURITY_CLASSES.items() if purity > least))
        found = {"event_type": name, "mentions": len(types), "purity": round(purity, 1)}
        classes[SMALL if len(types) < 2 else strength].append(found)
    lines = [
        [
            cell(name),
            str(len(found)),
            cell(
                ", ".join(f"{one['event_type']} ({one['mentions']}, {one['purity']} %)" for one in found)
                or "–"
            ),
        ]
        for name, found in classes.items()
    ]
    header = ["purity", "clusters", "most frequent type (mentions, purity)"]
    section = f"## Clusters of {cell(row.paper.label)}\n\n{markdown_table(header, lines)}"
    return Finding("clusters", section, classes)


def _number_figure(
    by: Figure, call: Reproduction, rows: Sequence[ReproducedRow], picture: Path
) -> Finding | None:
    """Draw every score by the number that labels end with, as in "MulCL [W+E], 3 hops"."""
    scores: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows:
        model, _, number = row.paper.label.rpartition(", ")
        for column, value in scores_of(row).items():
            if value is not None:
                scores.setdefault(column.title, {}).setdefault(model, {})[int(number.split()[0])] = value
    if not scores:
        return None
    return _drawn(by, f"number of {by}", draw_numbers(scores, by), call, picture, scores)


def _degree_figure(call: Reproduction, rows: Sequence[ReproducedRow], picture: Path) -> Finding | None:
    """Draw the score of every model by the average node degree of the question's graph."""
    degrees = {}
    for column, splits in call.columns.items():
        task = TASKS[column.task]
        if "virtual_context" in task.kind.uses:
            task = with_settings(task, {"virtual_context": call.data or SAMPLES})
        for wanted in splits:
            results = {row.paper.label: row.results[wanted] for row in rows if wanted in row.results}
            if results and (known := bins_of_results(task, call.evaluation_data, results)):
                degrees[column.title] = known
    if not degrees:
        return None
    note = (
        "Degrees are those of the context's graph for MCNC, of the graph of the right chain for several "
        "steps, and of the virtual contexts of its events for a pair, without self-loops. An interval of "
        f"fewer than {MIN_CORRELATED} graded pairs has no correlation.\n\n{degree_table(degrees)}"
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
    """Draw every model's recall by the number of candidates: of all gold events and of the atomic one, or the
    share of the gold events."""
    curves = {}
    for row in rows:
        found: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for column, value in scores_of(row).items():
            kind, _, depth = column.score.partition("_at_")
            if value is not None and depth.isdecimal():
                found[kind][int(depth)] = value
        if found:
            # The rest of the label names the task, which the title names as well.
            name = row.paper.label.partition(",")[0]
            curves[name] = {"whole": found["recall"] or found["fraction"], "atomic": found["atomic"]}
    if not curves:
        return None
    return _drawn("recall", "number of candidates", draw_recall(curves), call, picture, curves)


def _drawn(
    key: str,
    by: str,
    figure: Drawing,
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


FIGURES: dict[Figure, Callable[[Reproduction, Sequence[ReproducedRow], Path], Finding | None]] = {
    "hops": partial(_number_figure, "hops"),
    "prototypes": partial(_number_figure, "prototypes"),
    "degree": _degree_figure,
    "recall": _recall_figure,
}
"""The functions that draw the figures, by name."""
