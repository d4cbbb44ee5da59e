"""Results of tasks: their content, their files, and the Hub's two formats.

The path identifies a result: `<folder>/results/<model__name>/<revision>/<task>.json`. The predictions are in
`<task>.predictions.jsonl.bz2` beside it, a line of JSON for each row.
"""

from __future__ import annotations

import bz2
import hashlib
import json
import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import yaml
from huggingface_hub import EvalResult, EvalResultEntry, eval_result_entries_to_yaml

from eventformers.datasets_scripts.malformed import parts_text
from eventformers.datasets_scripts.reading.lines import read_regular_text
from eventformers.errors import DataFormatError, EventformersError, counted, first_line
from eventformers.evaluation.tasks.base import JsonValue
from eventformers.files import replaced_file, write_explained, write_text
from eventformers.strict import check_types

logger = logging.getLogger(__name__)

Record = TypeVar("Record")

RESULT_FORMAT = 2
"""Version of the file format; files of format 1 have the predictions themselves."""
PREDICTIONS_SUFFIX = ".predictions.jsonl.bz2"

_HUB_TASKS = {
    "event_similarity": "sentence-similarity",
    "commonsense_graphs": "graph-ml",
    "commonsense_qa": "multiple-choice",
}
"""The Hub's task of each dataset."""

NO_START = "it is a baseline itself, without an encoder that it started from"
"""The reason why a baseline has no score of an untrained encoder."""

UNDEFINED = "the metric is not defined on these predictions and gave no finite number (see its card)"
"""The reason for a score that is null."""


@dataclass(frozen=True)
class DatasetRecord:
    """The data that a result was measured on.

    Attributes:
        name: the dataset builder, in snake_case.
        config: its config.
        split: its split.
        rows: number of rows scored.
        fingerprint: SHA-256 of all rows that decide the score, which include the other splits for a ranking
            in a graph. Raw files, a built folder and the Hub give the same.
        origin: `samples` (bundled, not a benchmark), `local` or `hub`.
        hub_id: the Hub repository; None for `samples` and `local`.
        revision: the commit of the Hub repository, if known.
        licenses: the licences of the rows.
        malformed: number of malformed parts of the raw files that were skipped; also 0 without a build
            report.
    """

    name: str
    config: str
    split: str
    rows: int
    fingerprint: str
    origin: str
    hub_id: str | None
    revision: str | None
    licenses: list[str]
    malformed: int = 0

    @property
    def rows_text(self) -> str:
        """The number of rows, and of malformed parts that were skipped."""
        left_out = f", {parts_text(self.malformed)} left out" if self.malformed else ""
        return f"{counted(self.rows, 'row')}{left_out}"


@dataclass(frozen=True)
class BaselineRecord:
    """The untrained start encoder on the same rows, with the same pooling and event order; its main score is
    None if the metric is undefined."""

    model: str
    model_revision: str
    main_value: float | None
    scores: dict[str, JsonValue]
    settings: dict[str, JsonValue]


@dataclass(frozen=True)
class TaskResult:
    """The result of one model on one task.

    Attributes:
        task: the task's name.
        model: Hub id, or the name of the model's folder.
        model_revision: commit on the Hub, or the digest of a folder's weights and configuration.
        variant: the settings that differ from the model's own, such as `cls`, and the split if it is not the
            data's usual one; may be empty.
        main_score: the key of the task's main score.
        main_value: its value; None if the metric is undefined.
        scores: every score of the metric; None replaces NaN and infinity.
        undefined: the reason for each score that is None.
        baseline: the untrained start encoder on the same rows; None if there is none.
        baseline_missing: the reason for a missing baseline; None if there is a baseline.
        dataset: the data.
        settings: pooling, event order, dtype, device and batch size.
        truncated: number of distinct events whose text was truncated.
        seed: the seed of the run that made the model, or the given one; None if unknown.
        timing: the time of this task alone. `load_seconds` is the time to load the model, near zero if an
            earlier task loaded it. `seconds` and the throughput cover encoding and comparing, without the
            encoding of `shared_texts`: the distinct texts whose vectors an earlier task left (all or none;
            absent in older files).
        versions: library versions.
        git_commit: commit of the code that measured; None outside a checkout.
        created: date and time, UTC, ISO 8601.
        predictions: one record per row, in the order of the rows. Texts stay in the dataset, with their
            licence.
        parts: the metric's scores of parts of the rows, or of another reading of them, by name.
        details: further facts for the reader, such as the number of candidates of a ranking.
        parameters: number of parameters of the loaded model; None without a model, and in older files.
        format: version of the file format.
    """

    task: str
    model: str
    model_revision: str
    variant: str
    main_score: str
    main_value: float | None
    scores: dict[str, JsonValue]
    undefined: dict[str, str]
    baseline: BaselineRecord | None
    baseline_missing: str | None
    dataset: DatasetRecord
    settings: dict[str, JsonValue]
    truncated: int
    seed: int | None
    timing: dict[str, float | int]
    versions: dict[str, str | None]
    git_commit: str | None
    created: str
    predictions: list[dict[str, JsonValue]]
    parts: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    details: dict[str, JsonValue] = field(default_factory=dict)
    parameters: int | None = None
    format: int = RESULT_FORMAT

    def to_json(self) -> str:
        """Format as indented JSON, with the number and the digest of the predictions instead of them.

        Raises:
            ValueError: a number is NaN or infinite.
        """
        digest = hashlib.sha256(self.prediction_lines().encode()).hexdigest()
        content = asdict(replace(self, predictions=[], format=RESULT_FORMAT))
        content["predictions"] = {"rows": len(self.predictions), "sha256": digest}
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def prediction_lines(self) -> str:
        """Format the predictions as a line of JSON for each row.

        Raises:
            ValueError: a number is NaN or infinite.
        """
        rows = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in self.predictions)
        return "".join(f"{row}\n" for row in rows)


def defined_scores(scores: Mapping[str, object]) -> tuple[dict[str, JsonValue], dict[str, str]]:
    """Convert a metric's scores to JSON values, with None for NaN and infinity, and `UNDEFINED` under the key
    of each such score."""
    plain: dict[str, JsonValue] = {}
    undefined: dict[str, str] = {}
    for key, value in scores.items():
        plain[key], whole = _plain(value)
        if not whole:
            undefined[key] = UNDEFINED
    return plain, undefined


def result_path(directory: str | Path, model: str, revision: str, task: str, variant: str = "") -> Path:
    """Return the path of a model's result on a task, below the folder that holds `results/`.

    A slash in the model becomes two underscores. `variant` is added to the revision if the model ran under
    other settings than its own.
    """
    name = re.sub(r"[^\w.-]+", "_", model.replace("/", "__")).lstrip(".") or "model"
    place = f"{revision}-{variant}" if variant else revision
    return Path(directory) / "results" / name / re.sub(r"[^\w.-]+", "_", place) / f"{task}.json"


def check_same_data(path: Path, fingerprint: str) -> None:
    """Raise an error if a result file, which may be missing, was measured on other rows than those of the
    fingerprint."""
    if path.is_file():
        held = read_result(path, with_predictions=False).dataset
        if held.fingerprint != fingerprint:
            raise EventformersError(
                f"{path} holds a result on other rows ({held.origin}, {held.rows_text}, fingerprint "
                f"{held.fingerprint[:12]}) than these (fingerprint {fingerprint[:12]}); choose another "
                "output folder, or allow overwriting"
            )


def write_result(result: TaskResult, directory: str | Path, *, overwrite: bool = False) -> Path:
    """Write a result and its predictions atomically below a folder, which is created if missing.

    A result on the same rows is replaced; with `overwrite`, also one on other rows, which is an error
    otherwise.
    """
    path = result_path(directory, result.model, result.model_revision, result.task, result.variant)
    if not overwrite:
        check_same_data(path, result.dataset.fingerprint)
    scores = result.to_json()
    with write_explained(path):
        with replaced_file(predictions_path(path)) as temporary:
            temporary.write_bytes(bz2.compress(result.prediction_lines().encode()))
        write_text(path, scores)
    return path


def predictions_path(path: Path) -> Path:
    """Return the file with the predictions of a result file."""
    return path.with_name(path.stem + PREDICTIONS_SUFFIX)


def read_result(path: str | Path, *, with_predictions: bool = True) -> TaskResult:
    """Read a result file.

    Args:
        with_predictions: read the predictions, too; without the file that has them, there are none.

    Raises:
        DataFormatError: the file is not UTF-8 JSON, or not of this shape, or its predictions are others than
            it was written with.
        EventformersError: the file cannot be opened.
    """
    path = Path(path)
    try:
        content = json.loads(read_regular_text(path, "a result file", is_limited=False))
    except json.JSONDecodeError as error:
        raise DataFormatError(path, error.lineno, f"invalid JSON: {error.msg}", "a result file") from error
    except (RecursionError, ValueError) as error:
        raise DataFormatError(path, None, first_line(error), "a result file") from error
    if not isinstance(content, dict) or content.get("format") not in (1, RESULT_FORMAT):
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        is_newer = isinstance(found, int) and found > RESULT_FORMAT
        hint = (
            "this one is of a newer eventformers: update this package"
            if is_newer
            else "evaluate the model again"
        )
        accepted = f"a result file of format 1 or {RESULT_FORMAT}; {hint}, or leave the file out"
        raise DataFormatError(path, None, f"format {found}", accepted)
    baseline = content.get("baseline")
    try:
        content["dataset"] = _record(DatasetRecord, content["dataset"])
        content["baseline"] = None if baseline is None else _record(BaselineRecord, baseline)
        written = None
        if content["format"] == RESULT_FORMAT:
            written, content["predictions"] = content["predictions"]["sha256"], []
        result = _record(TaskResult, content)
    except (KeyError, TypeError, AttributeError) as error:
        accepted = ", ".join(entry.name for entry in fields(TaskResult))
        fault = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise DataFormatError(path, None, fault, f"the fields {accepted}") from error
    except EventformersError as error:
        found, _, accepted = str(error).removeprefix("setting ").partition("; accepted: ")
        raise DataFormatError(path, None, found.replace(": found ", " ", 1), accepted) from error
    if written is not None and with_predictions and predictions_path(path).is_file():
        return replace(result, predictions=_read_predictions(predictions_path(path), written))
    return result


def result_pairs(first: Path, second: Path) -> list[tuple[TaskResult, TaskResult]]:
    """Read two result files, or those of two folders with `results/` that are on the same tasks and splits.

    Raises:
        DataFormatError: a file is not a result.
        EventformersError: a file cannot be opened, a folder has no result or several of a task, or the
            folders have no task in common.
    """
    if not first.is_dir() and not second.is_dir():
        return [(read_result(first), read_result(second))]
    found: list[dict[tuple[str, str], TaskResult]] = []
    for place in (first, second):
        files: dict[tuple[str, str], Path] = {}
        found.append({})
        for path in sorted((place / "results").glob("*/*/*.json")) if place.is_dir() else [place]:
            result = read_result(path)
            key = result.task, result.dataset.split
            if key in files:
                raise EventformersError(
                    f"{place} has several results of {result.task}: {files[key]} and {path}; accepted: one "
                    "of these files"
                )
            files[key], found[-1][key] = path, result
        if not files:
            raise EventformersError(
                f"{place}: found no results/MODEL/REVISION/TASK.json; accepted: a result file, or a folder "
                "that train or evaluate -o wrote"
            )
    ours, others = found
    if not (common := [key for key in ours if key in others]):
        told = [", ".join(f"{task} ({split})" for task, split in results) for results in (ours, others)]
        raise EventformersError(
            f"{first} has results of {told[0]} and {second} of {told[1]}; accepted: a task of both"
        )
    return [(ours[key], others[key]) for key in common]


def _read_predictions(path: Path, written: str) -> list[dict[str, JsonValue]]:
    accepted = "the predictions that the result was written with; evaluate the model again"
    rows: list[dict[str, JsonValue]] = []
    digest = hashlib.sha256()
    try:
        with bz2.open(path) as lines:
            for line in lines:
                digest.update(line)
                rows.append(json.loads(line))
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise DataFormatError(path, len(rows) + 1, first_line(error), accepted) from error
    if digest.hexdigest() != written:
        raise DataFormatError(path, None, f"other predictions (SHA-256 {digest.hexdigest()[:12]})", accepted)
    return rows


def _record(kind: type[Record], content: Mapping[str, Any]) -> Record:
    # Predictions are most of a file, and only their readers know what each has.
    rows = content.get("predictions", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise EventformersError("predictions: found no list of mappings; accepted: one mapping per row")
    others = {name: value for name, value in content.items() if name != "predictions"}
    check_types(others, get_type_hints(kind))
    return kind(**content)


def load_results(directory: str | Path) -> list[TaskResult]:
    """Load every result under a folder's `results/`, ordered by path; those of one task must be on the same
    rows."""
    results = [read_result(path) for path in sorted((Path(directory) / "results").glob("*/*/*.json"))]
    require_same_data(results)
    return results


def require_same_data(results: Iterable[TaskResult]) -> None:
    """Raise an error if results of one task and split were measured on different rows."""
    first: dict[tuple[str, str], TaskResult] = {}
    for result in results:
        known = first.setdefault((result.task, result.dataset.split), result)
        if known.dataset.fingerprint != result.dataset.fingerprint:
            raise EventformersError(
                f"{result.task}: {known.model} was measured on {known.dataset.rows_text} (fingerprint "
                f"{known.dataset.fingerprint[:12]}) and {result.model} on {result.dataset.rows_text} "
                f"(fingerprint {result.dataset.fingerprint[:12]}); these cannot be compared"
            )


def write_eval_results(results: Sequence[TaskResult], directory: str | Path) -> list[Path]:
    """Write `.eval_results/<task>.yaml` of one model's results to its folder, which the Hub shows on a
    model's page.

    Data outside the Hub is listed under its builder's name, and the notes say so. A result without a defined
    main score is skipped and logged.
    """
    paths = []
    for result in _defined(results):
        entry = EvalResultEntry(
            dataset_id=result.dataset.hub_id or result.dataset.name,
            # Several tasks share one config, so `eval.yaml` of the dataset names the task instead.
            task_id=result.task,
            value=result.main_value,
            dataset_revision=result.dataset.revision,
            date=result.created,
            notes=str(ResultNotes.of(result)),
        )
        path = Path(directory) / ".eval_results" / f"{result.task}.yaml"
        with write_explained(path):
            write_text(path, yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False))
        paths.append(path)
    return paths


def eval_results(results: Sequence[TaskResult]) -> list[EvalResult]:
    """Convert results for `ModelCardData(eval_results=…)`; skip and log those without a defined score."""
    return [
        EvalResult(
            task_type=_HUB_TASKS.get(result.dataset.name, "other"),
            task_name=result.task,
            dataset_type=result.dataset.hub_id or result.dataset.name,
            dataset_name=f"{result.dataset.name} ({result.dataset.config}, {result.dataset.origin})",
            dataset_config=result.dataset.config,
            dataset_split=result.dataset.split,
            dataset_revision=result.dataset.revision,
            metric_type=result.main_score,
            metric_value=result.main_value,
            metric_name=f"{result.task}: {result.main_score}",
        )
        for result in _defined(results)
    ]


def _defined(results: Sequence[TaskResult]) -> list[TaskResult]:
    """Select the results with a main score; raise an error for two of one task."""
    seen: set[str] = set()
    defined = []
    for result in results:
        if result.task in seen:
            raise EventformersError(f"found two results of the task {result.task}; accepted: one per task")
        seen.add(result.task)
        if result.main_value is None:
            logger.warning("%s: %s is left out: %s", result.task, result.main_score, UNDEFINED)
        else:
            defined.append(result)
    return defined


@dataclass(frozen=True)
class ResultNotes:
    """The notes of an `.eval_results` entry: what a reader of the bare score must know, as a JSON object
    without None.

    Attributes:
        origin: `samples`, `local`, or None for the Hub.
        benchmark: False for the bundled samples, which are not a benchmark; None for other data.
        candidates: number of candidates of a ranking.
        fingerprint: the first digits of the rows' SHA-256.
        baseline: name of the untrained encoder.
        baseline_value: its main score, with four digits.
    """

    task: str
    main_score: str
    rows: int | None = None
    split: str | None = None
    malformed: int | None = None
    origin: str | None = None
    benchmark: bool | None = None
    candidates: int | None = None
    fingerprint: str | None = None
    baseline: str | None = None
    baseline_value: float | None = None
    seed: int | None = None

    @classmethod
    def of(cls, result: TaskResult) -> ResultNotes:
        """Take what a reader of the bare score must know."""
        dataset, baseline = result.dataset, result.baseline
        value = None if baseline is None else baseline.main_value
        return cls(
            task=result.task,
            main_score=result.main_score,
            rows=dataset.rows,
            split=dataset.split,
            malformed=dataset.malformed or None,
            origin=None if dataset.origin == "hub" else dataset.origin,
            benchmark=False if dataset.origin == "samples" else None,
            candidates=cast("int | None", result.details.get("candidates")),
            fingerprint=dataset.fingerprint[:12],
            seed=result.seed,
            baseline=None if baseline is None or value is None else baseline.model,
            baseline_value=None if value is None else float(f"{value:.4g}"),
        )

    @classmethod
    def read(cls, notes: str | None) -> ResultNotes | None:
        """Read the notes of an entry; None for notes of another format."""
        try:
            found = cls(**json.loads(notes or ""))
        except (TypeError, ValueError, RecursionError):
            return None
        hints = get_type_hints(cls)
        return found if all(isinstance(getattr(found, name), kind) for name, kind in hints.items()) else None

    def __str__(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if value is not None})


def _plain(value: object) -> tuple[JsonValue, bool]:
    """Convert a score to a JSON value; also return whether no part of it became null."""
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "ndim", 0) == 0:
        value = item()
    if isinstance(value, (list, tuple)):
        parts = [_plain(part) for part in value]
        return [part for part, _ in parts], all(whole for _, whole in parts)
    if isinstance(value, float) and not math.isfinite(value):
        return None, False
    return cast(JsonValue, value), True
