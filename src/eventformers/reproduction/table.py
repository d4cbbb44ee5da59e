"""Reproduced tables as files: Markdown to read, and JSON with all details."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.tasks import TASKS
from eventformers.files import write_explained, write_text
from eventformers.loading.encoders import PACKAGED_ENCODER
from eventformers.markdown import cell, code
from eventformers.markdown import table as markdown_table
from eventformers.model_cards.scores import score_text
from eventformers.provenance import git_commit, library_versions
from eventformers.reproduction.findings import Finding
from eventformers.reproduction.rows import UNTRAINED, Column, ReproducedRow, Reproduction
from eventformers.reproduction.scores import Scores, mean_scores, scores_of

TABLE_FORMAT = 1
"""The version of the JSON format."""

_FAILED = "failed: "
_FOLDERS = re.compile(r"(?<![\w.:/])(?:/[^\s/'\",;:]+)+/(?=[^\s/])")
"""The folders of an absolute path within a text."""


@dataclass(frozen=True)
class ReproducedTable:
    """A table of a paper with our scores.

    Attributes:
        title: its title.
        header: names of the columns.
        rows: cells as text, one list per row.
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
        call: the state that its rows share.
        rows: its rows, in the paper's order.
        path: the Markdown file; the JSON is written beside it.
        findings: its findings beyond the scores.

    Raises:
        EventformersError: a file cannot be written.
    """
    header = ["model"]
    for column in call.table.columns:
        header += [column.title, "published"]
    header.append("run")
    others = _on_other_rows(call, rows)
    cells = [_cells(call, row, _twin(rows, row), others) for row in rows]
    untrained = _untrained(rows)
    has_own_row = any(row.paper.record(row)["baseline"] == UNTRAINED for row in rows)
    if not has_own_row and any(score is not None for score in untrained.values()):
        name = f"untrained encoder ({_encoder_name(call.encoder)})"
        cells.append(_line(name, untrained, [None] * len(untrained), "no training"))
    finished = ReproducedTable(call.table.title, header, cells, path)
    with write_explained(path):
        write_text(path, _markdown(call, finished, rows, findings))
        write_text(path.with_suffix(".json"), _json(call, rows, untrained, findings))
    return finished


def _cells(
    call: Reproduction, row: ReproducedRow, twin: ReproducedRow | None, others: Collection[Column]
) -> list[str]:
    state = row.state if twin is None else f"the run of {twin.paper.label}"
    pairs = call.table.published(row.paper).items()
    published = [None if column in others else score for column, score in pairs]
    return _line(row.paper.label, scores_of(row), published, state)


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


def _twin(rows: Sequence[ReproducedRow], row: ReproducedRow) -> ReproducedRow | None:
    """Find an earlier row with the same run; the recipe may have disabled what this row removes."""
    same = next((other for other in rows if other.digest == row.digest), row)
    return None if same is row or not row.results or row.state.startswith(_FAILED) else same


def _untrained(rows: Sequence[ReproducedRow]) -> Scores:
    """Compute the scores of the encoder that the rows start from."""
    results = {
        wanted: result
        for row in reversed(rows)
        for wanted, result in row.results.items()
        if result.baseline is not None and not row.paper.record(row)["rerank"]
    }
    return mean_scores(
        next((row for row in rows if row.splits), rows[0]).columns,
        results,
        lambda column, result: result.baseline.scores if result.baseline else {},
    )


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
        "rows": [_row_json(call, row) for row in rows],
        **{finding.key: finding.content for finding in findings},
        "versions": library_versions(),
        "git_commit": git_commit(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _row_json(call: Reproduction, row: ReproducedRow) -> dict[str, object]:
    return {
        "label": row.paper.label,
        "state": row.state,
        **row.paper.record(row),
        "folder": None if row.folder is None else row.folder.name,
        "scores": _by_key(scores_of(row)),
        "paper": _by_key(call.table.published(row.paper)),
    }


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
