"""A table of a paper with our scores, as Markdown to read and as JSON with everything behind it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from eventformers.encoders import PACKAGED_ENCODER
from eventformers.errors import EventformersError
from eventformers.files import write_text
from eventformers.model_cards.markdown import cell, code
from eventformers.model_cards.markdown import table as markdown_table
from eventformers.model_cards.method import load_method_card
from eventformers.model_cards.scores import score_text
from eventformers.paper_tables import PaperRow, PaperTable
from eventformers.provenance import git_commit, library_versions
from eventformers.results import TaskResult
from eventformers.tasks import TASKS
from eventformers.trainers.method import Method
from eventformers.trainers.recipes import Recipe

TABLE_FORMAT = 1
"""The version of the JSON file's shape."""


@dataclass(frozen=True)
class ReproducedTable:
    """A table of a paper with our scores.

    Attributes:
        title: its title.
        header: names of the columns.
        rows: cells as text, one list a row.
        path: the Markdown file; a `.json` with everything behind it lies beside.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    path: Path


@dataclass
class ReproducedRow:
    """A row on its way into the table.

    Attributes:
        paper: the row as the paper has it.
        recipe: its recipe; None for a row that is only published.
        digest: digest of what decides its outcome; empty for a row that is only published.
        state: what was done for it.
        folder: its model's folder, once that is known.
        results: its results by task.
    """

    paper: PaperRow
    recipe: Recipe | None = None
    digest: str = ""
    state: str = "published"
    folder: Path | None = None
    results: dict[str, TaskResult] = field(default_factory=dict)


@dataclass(frozen=True)
class Reproduction:
    """What is the same for every row of a table.

    Attributes:
        table: the table as the paper has it.
        method: the method that its rows train.
        folder: where runs and tables lie.
        recipe: name or YAML file of the recipe that the rows start from.
        settings: overrides of it that every row shares.
        seed: seed of every row.
        encoder: Hub id or folder of the pretrained encoder; None for the packaged one.
        data: training data; None for the samples.
        evaluation_data: raw files of the tasks; None for the samples.
        fingerprints: digest of the rows of each task.
        device: torch device; None chooses.
        dtype: precision; None for float32.
    """

    table: PaperTable
    method: Method
    folder: Path
    recipe: str
    settings: tuple[str, ...]
    seed: int
    encoder: str | None
    data: str | None
    evaluation_data: str | None
    fingerprints: Mapping[str, str]
    device: str | None
    dtype: str | None


def write_table(call: Reproduction, rows: Sequence[ReproducedRow], path: Path) -> ReproducedTable:
    """Write a table as far as it is filled.

    Args:
        call: what its rows share.
        rows: its rows, in the paper's order.
        path: the Markdown file; the JSON goes beside it.

    Raises:
        EventformersError: a file cannot be written.
    """
    header = ["model"]
    for task in call.table.tasks:
        header += [TASKS[task].title, "paper"]
    header.append("run")
    cells = [_cells(call.table, row, _twin(rows, row)) for row in rows]
    untrained = _untrained(rows)
    if untrained:
        scores = [untrained.get(task) for task in call.table.tasks]
        name = f"untrained encoder ({_encoder_name(call.encoder)})"
        cells.append(_line(call.table, name, scores, None, "no training"))
    finished = ReproducedTable(call.table.title, header, cells, path)
    try:
        write_text(path, _markdown(call, finished, rows))
        write_text(path.with_suffix(".json"), _json(call, rows, untrained))
    except OSError as error:
        raise EventformersError(f"cannot write {path}: {error.strerror}") from error
    return finished


def _cells(table: PaperTable, row: ReproducedRow, twin: ReproducedRow | None) -> list[str]:
    scores = [row.results[task].main_value if task in row.results else None for task in table.tasks]
    state = row.state if twin is None else f"the run of {twin.paper.label}"
    return _line(table, row.paper.label, scores, row.paper.published, state)


def _line(
    table: PaperTable,
    label: str,
    scores: Sequence[float | None],
    published: Sequence[float] | None,
    state: str,
) -> list[str]:
    line = [label]
    for position, task in enumerate(table.tasks):
        kind = TASKS[task].main_score
        score = scores[position]
        line.append("–" if score is None else score_text(score, kind))
        line.append("–" if published is None else score_text(published[position], kind, published=True))
    return [*line, state]


def _twin(rows: Sequence[ReproducedRow], row: ReproducedRow) -> ReproducedRow | None:
    """An earlier row with the same settings, as where the recipe has switched off what the row leaves out."""
    same = next((other for other in rows if other.digest == row.digest), row)
    return None if same is row or not row.digest else same


def _untrained(rows: Sequence[ReproducedRow]) -> dict[str, float | None]:
    """Scores of the encoder that the rows start from, by task."""
    scores: dict[str, float | None] = {}
    for row in rows:
        for task, result in row.results.items():
            if result.baseline is not None:
                scores.setdefault(task, result.baseline.main_value)
    return scores


def _markdown(call: Reproduction, finished: ReproducedTable, rows: Sequence[ReproducedRow]) -> str:
    recipe, encoder = code(Path(call.recipe).name), code(_encoder_name(call.encoder))
    about = f"Recipe {recipe}, encoder {encoder}, seed {call.seed}"
    if call.settings:
        about += f", {' '.join(code(setting) for setting in call.settings)}"
    parts = [
        f"# {cell(finished.title)}",
        f"{about}. Our scores stand before the paper's.",
        markdown_table(finished.header, [[cell(text) for text in line] for line in finished.rows]),
    ]
    if measured := _measured(call, rows):
        parts += ["## Measured on", measured]
    return "\n\n".join(parts) + "\n"


def _measured(call: Reproduction, rows: Sequence[ReproducedRow]) -> str:
    """The rows that our scores were measured on, beside the number of the paper's."""
    whole = load_method_card(call.table.method).published_rows
    results = next((row.results for row in rows if row.results), {})
    lines = [
        [
            cell(TASKS[task].title),
            f"{result.dataset.rows:,}",
            f"{whole[task]:,}" if task in whole else "–",
            "bundled samples, no benchmark" if result.dataset.origin == "samples" else result.dataset.origin,
            code(result.dataset.fingerprint[:12]),
        ]
        for task, result in results.items()
    ]
    return markdown_table(["task", "rows", "rows in the paper", "data", "SHA-256 of the rows"], lines)


def _json(call: Reproduction, rows: Sequence[ReproducedRow], untrained: Mapping[str, float | None]) -> str:
    content = {
        "format": TABLE_FORMAT,
        "title": call.table.title,
        "recipe": Path(call.recipe).name,
        "settings": list(call.settings),
        "seed": call.seed,
        "encoder": _encoder_name(call.encoder),
        "data": _place_name(call.data),
        "evaluation_data": _place_name(call.evaluation_data),
        "evaluation_fingerprints": dict(call.fingerprints),
        "dtype": call.dtype,
        "untrained": untrained,
        "rows": [_row_json(row, call.table) for row in rows],
        "versions": library_versions(),
        "git_commit": git_commit(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _row_json(row: ReproducedRow, table: PaperTable) -> dict[str, object]:
    return {
        "label": row.paper.label,
        "state": row.state,
        "overrides": None if row.paper.overrides is None else list(row.paper.overrides),
        "folder": None if row.folder is None else row.folder.name,
        "scores": {task: result.main_value for task, result in row.results.items()},
        "paper": dict(zip(table.tasks, row.paper.published, strict=True)),
    }


def _place_name(place: str | None) -> str:
    """A Hub id as it is, of a folder the name alone."""
    if place is None:
        return "samples"
    return Path(place).expanduser().resolve().name if Path(place).expanduser().exists() else place


def _encoder_name(encoder: str | None) -> str:
    return PACKAGED_ENCODER if encoder is None else _place_name(encoder)
