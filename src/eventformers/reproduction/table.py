"""A table of a paper with our scores, as Markdown to read and as JSON with everything behind it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from eventformers.errors import EventformersError
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import TASKS
from eventformers.evaluation.tasks.grounding_protocols import GroundingSettings
from eventformers.evaluation.tasks.protocols import JsonValue
from eventformers.files import write_text
from eventformers.loading.encoders import PACKAGED_ENCODER
from eventformers.methods import Method
from eventformers.model_cards.markdown import cell, code
from eventformers.model_cards.markdown import table as markdown_table
from eventformers.model_cards.scores import score_text
from eventformers.provenance import git_commit, library_versions
from eventformers.reproduction.layout import UNTRAINED, Column, PaperRow, PaperTable

TABLE_FORMAT = 1
"""The version of the JSON file's shape."""

_FAILED = "failed: "
_FOLDERS = re.compile(r"(?<![\w.:/])(?:/[^\s/'\",;:]+)+/(?=[^\s/])")
"""The folders before the last name of an absolute path, within a text."""


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


@dataclass(frozen=True)
class Measurement:
    """The rows that a model is measured on.

    Attributes:
        task: the task.
        split: the split.
        fingerprint: digest of all that decides a score on them.
        is_usual: whether it is the split that the task takes where none is named.
        grounding: which mentions and events are read, for a row that is scored on its own.
    """

    task: str
    split: str
    fingerprint: str
    is_usual: bool
    grounding: GroundingSettings | None = None

    @property
    def key(self) -> str:
        """Its name in files: the task, and the split and the settings where they are not the usual ones."""
        return " ".join(filter(None, (self.task, "" if self.is_usual else self.split, self.settings)))

    @property
    def settings(self) -> str:
        """The settings of the data that are not the usual ones, in words."""
        chosen = {} if self.grounding is None else self.grounding.of_data
        return " ".join(name if value is True else str(value) for name, value in chosen.items())

    def is_of(self, result: TaskResult) -> bool:
        """Whether a result was measured on these rows."""
        found = (result.task, result.dataset.split, result.dataset.fingerprint)
        return found == (self.task, self.split, self.fingerprint)


@dataclass(frozen=True)
class RowTraining:
    """What a row trains.

    Attributes:
        method: the method.
        recipe: name or YAML file of the recipe that it starts from.
        settings: overrides of it.
        seed: its seed.
        stages: for every stage but the last a digest of what decides the model that it leaves.
    """

    method: Method
    recipe: str
    settings: tuple[str, ...]
    seed: int
    stages: tuple[str, ...] = ()


@dataclass(frozen=True)
class RowRun:
    """A training run that several rows may share.

    Attributes:
        name: what its folder is called.
        training: what it trains.
        digest: digest of what decides its outcome.
    """

    name: str
    training: RowTraining
    digest: str


@dataclass
class ReproducedRow:
    """A row on its way into the table.

    Attributes:
        paper: the row as the paper has it.
        measurements: what it is measured on; nothing for a row that is only published.
        training: what it trains; None for a row that trains nothing.
        digest: digest of what decides its outcome; empty for a row that is only published, or that has no
            training data.
        columns: what each column is measured on, for a row whose mentions are its own; None takes what all
            rows are measured on.
        development: the mentions that a threshold is chosen on; None where there is none to choose.
        runs: the runs that a row with a reading of its own is scored on; none for a baseline.
        clustering: the runs of its ensemble.
        rerankers: a cross-encoder for each of `runs`; none where no column needs them.
        state: what was done for it.
        folder: its model's folder, once that is known.
        results: its results.
    """

    paper: PaperRow
    measurements: tuple[Measurement, ...] = ()
    training: RowTraining | None = None
    digest: str = ""
    columns: Mapping[Column, tuple[Measurement, ...]] | None = None
    development: Measurement | None = None
    runs: tuple[RowRun, ...] = ()
    clustering: tuple[RowRun, ...] = ()
    rerankers: tuple[RowRun, ...] = ()
    state: str = "published"
    folder: Path | None = None
    results: dict[Measurement, TaskResult] = field(default_factory=dict)


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
        measurements: what each column is measured on; nothing where the evaluation data lack it.
        device: torch device; None chooses.
        dtype: precision; None for float32.
        runs: runs of an averaged row or an ensemble.
        session: the data, and of some rows the vectors of mentions, which rows share.
        results: results by the place where they lie and their task, which rows share.
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
    measurements: Mapping[Column, tuple[Measurement, ...]]
    device: str | None
    dtype: str | None
    runs: int = 1
    session: Session = field(default_factory=Session, compare=False)
    results: dict[tuple[Path, str], TaskResult] = field(default_factory=dict, compare=False)

    def columns_of(self, row: ReproducedRow) -> Mapping[Column, tuple[Measurement, ...]]:
        """What each column of a row is measured on."""
        return self.measurements if row.columns is None else row.columns


@dataclass(frozen=True)
class Finding:
    """What a table tells beyond its scores.

    Attributes:
        key: its key in the JSON.
        section: a section of the Markdown.
        content: what stands behind it, for the JSON.
    """

    key: str
    section: str
    content: Mapping[str, object]


def identity_digest(identity: Mapping[str, object]) -> str:
    """A digest of what decides an outcome."""
    text = json.dumps(identity, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def shown_scores(row: ReproducedRow, column: Column, result: TaskResult) -> Mapping[str, JsonValue]:
    """The scores of a result that a column of a row shows one of: its own, or those of a part of it."""
    part = ", ".join(filter(None, (column.part, row.paper.part)))
    if not part:
        return {**result.details, **result.scores}
    rows = sum(one.get("language") == row.paper.part for one in result.predictions)
    return {"mentions": rows, **result.parts[part]} if part in result.parts else {}


def failed_state(failure: Exception) -> str:
    """The state of a row that failed, without the folders of this machine."""
    text = " ".join(str(failure).split()) or type(failure).__name__
    return _FAILED + _FOLDERS.sub("", text)


def write_table(
    call: Reproduction, rows: Sequence[ReproducedRow], path: Path, findings: Sequence[Finding] = ()
) -> ReproducedTable:
    """Write a table as far as it is filled.

    Args:
        call: what its rows share.
        rows: its rows, in the paper's order.
        path: the Markdown file; the JSON goes beside it.
        findings: what it tells beyond the scores.

    Raises:
        EventformersError: a file cannot be written.
    """
    header = ["model"]
    for column in call.table.columns:
        header += [column.title, "published"]
    header.append("run")
    others = _on_other_rows(call, rows)
    cells = [_cells(call, row, _twin(rows, row), others) for row in rows]
    untrained = _untrained(call, rows)
    has_own_row = any(row.paper.baseline == UNTRAINED for row in rows)
    if not has_own_row and any(score is not None for score in untrained.values()):
        name = f"untrained encoder ({_encoder_name(call.encoder)})"
        cells.append(_line(name, untrained, [None] * len(untrained), "no training"))
    finished = ReproducedTable(call.table.title, header, cells, path)
    try:
        write_text(path, _markdown(call, finished, rows, findings))
        write_text(path.with_suffix(".json"), _json(call, rows, untrained, findings))
    except OSError as error:
        raise EventformersError(f"cannot write {path}: {error.strerror}") from error
    return finished


Scores = Mapping[Column, float | None]


def _cells(
    call: Reproduction, row: ReproducedRow, twin: ReproducedRow | None, others: Collection[Column]
) -> list[str]:
    state = row.state if twin is None else f"the run of {twin.paper.label}"
    pairs = zip(call.table.columns, row.paper.published, strict=True)
    published = [None if column in others else score for column, score in pairs]
    return _line(row.paper.label, _scores(call, row), published, state)


def _on_other_rows(call: Reproduction, rows: Sequence[ReproducedRow]) -> list[Column]:
    """The columns that are measured on other rows than the paper's, which its scores never stand beside."""
    return [
        column
        for column in call.table.columns
        if any(
            not _is_published_data(column, measurement, row.results[measurement])
            for row in rows
            for measurement in call.columns_of(row).get(column, ())
            if measurement in row.results
        )
    ]


def _is_published_data(column: Column, measurement: Measurement, result: TaskResult) -> bool:
    task, dataset = TASKS[measurement.task], result.dataset
    has_own_split = dataset.split in column.splits and dataset.split != task.published_split
    if measurement.settings or has_own_split:
        # The number of published rows is known of one split, without settings.
        return task.published_data and dataset.origin != "samples"
    return task.is_published_data(dataset.split, dataset.rows, dataset.origin)


def _line(label: str, scores: Scores, published: Sequence[float | None], state: str) -> list[str]:
    line = [label]
    for (column, score), theirs in zip(scores.items(), published, strict=True):
        line.append("–" if score is None else score_text(score, column.score))
        line.append("–" if theirs is None else score_text(theirs, column.score, published=True))
    return [*line, state]


def _scores(call: Reproduction, row: ReproducedRow) -> Scores:
    """The score of each column of a row, as of `_mean_scores`."""
    return _mean_scores(
        call.columns_of(row), row.results, lambda column, result: shown_scores(row, column, result)
    )


def _mean_scores(
    columns: Mapping[Column, tuple[Measurement, ...]],
    results: Mapping[Measurement, TaskResult],
    scores_of: Callable[[Column, TaskResult], Mapping[str, JsonValue]],
) -> Scores:
    """The score of each column: over several splits their mean by rows; None where one has no result."""
    scores: dict[Column, float | None] = {}
    for column, measurements in columns.items():
        found = [results[measurement] for measurement in measurements if measurement in results]
        values = [scores_of(column, result).get(column.score) for result in found]
        known = [float(value) for value in values if isinstance(value, (int, float))]
        counts = [result.dataset.rows for result in found]
        scores[column] = (
            sum(value * count for value, count in zip(known, counts, strict=True)) / sum(counts)
            if known and len(known) == len(measurements)
            else None
        )
    return scores


def _twin(rows: Sequence[ReproducedRow], row: ReproducedRow) -> ReproducedRow | None:
    """An earlier row with the same run, as where the recipe has switched off what the row leaves out."""
    same = next((other for other in rows if other.digest == row.digest), row)
    return None if same is row or not row.results or row.state.startswith(_FAILED) else same


def _untrained(call: Reproduction, rows: Sequence[ReproducedRow]) -> Scores:
    """Scores of the encoder that the rows start from."""
    results = {
        measurement: result
        for row in reversed(rows)
        for measurement, result in row.results.items()
        if result.baseline is not None and not row.paper.rerank
    }
    return _mean_scores(
        call.measurements,
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
    if measured := _measured(call, rows):
        parts += ["## Measured on", measured]
    return "\n\n".join(parts) + "\n"


def _measured(call: Reproduction, rows: Sequence[ReproducedRow]) -> str:
    """The rows that our scores were measured on, beside the number of the paper's."""
    results = {measurement: result for row in rows for measurement, result in row.results.items()}
    lines = []
    for name, task in TASKS.items():
        for measurement in sorted(
            (one for one in results if one.task == name), key=lambda one: one.split != task.published_split
        ):
            dataset = results[measurement].dataset
            known = task.published_rows is not None and not measurement.settings
            paper = f"{task.published_rows:,}" if known else "–"
            if known and dataset.split != task.published_split:
                paper += f" ({task.published_split})"
            lines.append(
                [
                    cell(", ".join(filter(None, (task.title, measurement.settings)))),
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
        "encoder": _encoder_name(call.encoder),
        "data": _place_name(call.data),
        "evaluation_data": _place_name(call.evaluation_data),
        "evaluation_fingerprints": {
            measurement.key: measurement.fingerprint
            for columns in (call.measurements, *(row.columns or {} for row in rows))
            for measurements in columns.values()
            for measurement in measurements
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
    paper = row.paper
    return {
        "label": paper.label,
        "state": row.state,
        "overrides": None if paper.overrides is None else list(paper.overrides),
        "baseline": paper.baseline or None,
        "rerank": paper.rerank,
        "context_layers": paper.context_layers,
        "induction": None if paper.induction is None else paper.induction.chosen,
        "grounding": None if paper.grounding is None else paper.grounding.chosen,
        "seeds": [run.training.seed for run in row.runs],
        "ensemble": [run.training.seed for run in row.clustering],
        "folder": None if row.folder is None else row.folder.name,
        "scores": _by_key(_scores(call, row)),
        "paper": _by_key(dict(zip(call.table.columns, paper.published, strict=True))),
    }


def _by_key(scores: Scores) -> dict[str, float]:
    return {column.key: score for column, score in scores.items() if score is not None}


def _place_name(place: str | None) -> str:
    """A Hub id as it is, of folders the names alone."""
    if place is None:
        return "samples"
    parts = [Path(part).expanduser() for part in place.split(os.pathsep)]
    return " ".join(part.resolve().name for part in parts) if all(map(Path.exists, parts)) else place


def _encoder_name(encoder: str | None) -> str:
    return PACKAGED_ENCODER if encoder is None else _place_name(encoder)
