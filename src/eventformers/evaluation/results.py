"""The result of one task: what it holds, its file, and the Hub's two formats written from it.

The path is the identity: `<folder>/results/<model__name>/<revision>/<task>.json`.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast, get_type_hints

import yaml
from huggingface_hub import EvalResult, EvalResultEntry, eval_result_entries_to_yaml
from huggingface_hub.repocard_data import eval_results_to_model_index

from eventformers.datasets_scripts.malformed import parts_text
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation.tasks.protocols import JsonValue
from eventformers.files import write_text

logger = logging.getLogger(__name__)

RESULT_FORMAT = 1
"""The version of the file's shape."""

_HUB_TASKS = {
    "event_similarity": "sentence-similarity",
    "commonsense_graphs": "graph-ml",
    "commonsense_qa": "multiple-choice",
}
"""What the Hub calls the tasks on a dataset."""

NO_START = "it is a baseline itself, without an encoder that it started from"
"""Why a baseline has no untrained encoder's score beside it."""

UNDEFINED = "the metric is not defined on these predictions and gave no finite number (see its card)"
"""The reason beside a score that is null."""


@dataclass(frozen=True)
class DatasetRecord:
    """The data that a result was measured on.

    Attributes:
        name: the dataset builder, in snake_case.
        config: its config.
        split: its split.
        rows: number of rows scored.
        fingerprint: SHA-256 of the content of all that decides the score, the same for raw files, a built
            folder and the Hub: the rows, and for a ranking in a graph those of the other splits.
        origin: `samples` (bundled, no benchmark), `local` or `hub`.
        hub_id: the Hub repository; None for `samples` and `local`.
        revision: the commit of the Hub repository, where known.
        licenses: the licences that the rows carry.
        malformed: how many malformed parts of the raw files were left out; 0 as well where no report of the
            build is at hand.
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
        """The number of rows, and of malformed parts that were left out."""
        left_out = f", {parts_text(self.malformed)} left out" if self.malformed else ""
        return f"{self.rows} rows{left_out}"


@dataclass(frozen=True)
class BaselineRecord:
    """The untrained start encoder on the same rows, with the same pooling and event order.

    Attributes:
        model: its name.
        model_revision: its revision.
        main_value: its main score; None where the metric is not defined.
        scores: all its scores.
        settings: what it ran under.
    """

    model: str
    model_revision: str
    main_value: float | None
    scores: dict[str, JsonValue]
    settings: dict[str, JsonValue]


@dataclass(frozen=True)
class TaskResult:
    """One model on one task.

    Attributes:
        task: the task's name.
        model: Hub id, or the name of the model's folder.
        model_revision: commit on the Hub, or the digest of a folder's weights and configuration.
        variant: what was chosen against the model's own settings, such as `cls`, or another split than the
            data's usual one; empty where nothing was.
        main_score: the key in `scores` that stands for the task.
        main_value: its value; None where the metric is not defined.
        scores: every score of the metric; None replaces NaN and infinity.
        undefined: the reason for each score that is None.
        baseline: the untrained start encoder on the same rows; None where there is none.
        baseline_missing: why there is none; None where there is one.
        dataset: the data.
        settings: pooling, event order, dtype, device and batch size.
        truncated: distinct events whose text was cut at the model's longest input.
        seed: the seed of the run that made the model, or the one given; None where neither is known.
        timing: what this task took on top of those before it. `load_seconds` is for the model, next to
            nothing where an earlier task of the command loaded it. `seconds`, and the throughput, are for
            encoding and comparing, but without the encoding of `shared_texts`: those of the distinct texts
            whose vectors such a task left (all or none; older files have no such number).
        versions: library versions.
        git_commit: commit of the code that measured; None outside of a checkout.
        created: date and time, UTC, ISO 8601.
        predictions: one record per row, in the order of the rows. Texts stay in the dataset, with their
            licence.
        parts: the metric's scores of parts of the rows, or of another reading of them, by name.
        details: what else a reader must know, such as the number of candidates of a ranking.
        parameters: number of parameters of the model that was loaded; None where there is none, and in older
            files.
        format: version of the file's shape.
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
        """The file's text: indented, but for one line per prediction, so that two files can be compared.

        Raises:
            ValueError: a number is NaN or infinite.
        """
        content = asdict(self)
        rows = content.pop("predictions")
        head = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        lines = ",\n".join("    " + json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
        body = f"[\n{lines}\n  ]" if rows else "[]"
        return f'{head.removesuffix("}").rstrip()},\n  "predictions": {body}\n}}\n'


def defined_scores(scores: Mapping[str, object]) -> tuple[dict[str, JsonValue], dict[str, str]]:
    """Scores as JSON can hold them, and the reason for each that became null.

    Args:
        scores: what a metric computed; numbers, or lists of numbers. numpy numbers are taken.

    Returns:
        The scores with None for NaN and infinity, and `UNDEFINED` under the key of each such score.
    """
    plain: dict[str, JsonValue] = {}
    undefined: dict[str, str] = {}
    for key, value in scores.items():
        plain[key], whole = _plain(value)
        if not whole:
            undefined[key] = UNDEFINED
    return plain, undefined


def result_path(directory: str | Path, model: str, revision: str, task: str, variant: str = "") -> Path:
    """Where the result of a model on a task lies.

    Args:
        directory: the folder that holds `results/`.
        model: Hub id or folder name; a slash becomes two underscores.
        revision: the model's revision.
        task: the task's name.
        variant: stands behind the revision where the model ran under other settings than its own.
    """
    name = re.sub(r"[^\w.-]+", "_", model.replace("/", "__")).lstrip(".") or "model"
    place = f"{revision}-{variant}" if variant else revision
    return Path(directory) / "results" / name / re.sub(r"[^\w.-]+", "_", place) / f"{task}.json"


def check_same_data(path: Path, fingerprint: str) -> None:
    """Refuse a place whose result was measured on other rows.

    Args:
        path: a result file, which need not exist.
        fingerprint: fingerprint of the rows that are to be scored.

    Raises:
        EventformersError: the file holds a result of other rows.
        DataFormatError: the file is no result.
    """
    if path.is_file():
        held = read_result(path).dataset
        if held.fingerprint != fingerprint:
            raise EventformersError(
                f"{path} holds a result on other rows ({held.origin}, {held.rows_text}, fingerprint "
                f"{held.fingerprint[:12]}) than these (fingerprint {fingerprint[:12]}); choose another "
                "output folder, or allow overwriting"
            )


def write_result(result: TaskResult, directory: str | Path, *, overwrite: bool = False) -> Path:
    """Write a result to its place, whole or not at all.

    A result on the same rows is replaced.

    Args:
        result: the result.
        directory: the folder that holds `results/`; made where absent.
        overwrite: replace a result on other rows, too.

    Returns:
        The file.

    Raises:
        EventformersError: the place holds a result on other rows, or cannot be written.
    """
    path = result_path(directory, result.model, result.model_revision, result.task, result.variant)
    if not overwrite:
        check_same_data(path, result.dataset.fingerprint)
    _write(path, result.to_json())
    return path


def read_result(path: str | Path) -> TaskResult:
    """Read a result file.

    Raises:
        DataFormatError: the file is not UTF-8 JSON, or not of this shape.
        EventformersError: the file cannot be opened.
    """
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise DataFormatError(path, None, f"bytes that are not UTF-8 at {error.start}", "UTF-8") from error
    except json.JSONDecodeError as error:
        raise DataFormatError(path, error.lineno, f"no JSON: {error.msg}", "a result file") from error
    except OSError as error:
        raise EventformersError(f"cannot read {path}: {error.strerror}") from error
    if not isinstance(content, dict) or content.get("format") != RESULT_FORMAT:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise DataFormatError(path, None, f"format {found}", _accepted_format(found))
    baseline = content.get("baseline")
    try:
        content["dataset"] = DatasetRecord(**content["dataset"])
        content["baseline"] = None if baseline is None else BaselineRecord(**baseline)
        return TaskResult(**content)
    except (KeyError, TypeError) as error:
        accepted = ", ".join(entry.name for entry in fields(TaskResult))
        raise DataFormatError(path, None, str(error), f"the fields {accepted}") from error


def _accepted_format(found: object) -> str:
    """Say which format is accepted, and what to do with a file of another."""
    accepted = f"a result file of format {RESULT_FORMAT}"
    if isinstance(found, int) and found > RESULT_FORMAT:
        return f"{accepted}; this one is of a newer eventformers: update this package, or leave the file out"
    return f"{accepted}; evaluate the model again, or leave the file out"


def load_results(directory: str | Path) -> list[TaskResult]:
    """Every result under a folder's `results/`, in the order of their paths.

    Raises:
        EventformersError: a file is no result, or results of one task were measured on different rows.
    """
    results = [read_result(path) for path in sorted((Path(directory) / "results").rglob("*.json"))]
    require_same_data(results)
    return results


def require_same_data(results: Iterable[TaskResult]) -> None:
    """Refuse to set results of one task and split beside each other that were measured on different rows.

    Raises:
        EventformersError: two fingerprints under one task and split.
    """
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
    """Write `.eval_results/<task>.yaml`, which the Hub shows on a model's page.

    Data that is not on the Hub stands under its builder's name and says so in the notes. A result without a
    defined main score is left out and logged.

    Args:
        results: results of one model, one per task.
        directory: the model's folder.

    Returns:
        The files.

    Raises:
        EventformersError: two results of one task, or a file cannot be written.
    """
    paths = []
    for result in _defined(results):
        entry = EvalResultEntry(
            dataset_id=result.dataset.hub_id or result.dataset.name,
            # As `eval.yaml` of the dataset names it: several tasks read one config.
            task_id=result.task,
            value=result.main_value,
            dataset_revision=result.dataset.revision,
            date=result.created,
            notes=str(ResultNotes.of(result)),
        )
        path = Path(directory) / ".eval_results" / f"{result.task}.yaml"
        _write(path, yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False))
        paths.append(path)
    return paths


def eval_results(results: Sequence[TaskResult]) -> list[EvalResult]:
    """The results as `ModelCardData(eval_results=…)` takes them; those without a defined score are logged.

    Raises:
        EventformersError: two results of one task.
    """
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


def model_index(results: Sequence[TaskResult], model_name: str | None = None) -> list[dict[str, object]]:
    """The legacy `model-index` of a model card.

    Args:
        results: results of one model, one per task.
        model_name: the name shown; None takes the results' own.

    Raises:
        EventformersError: two results of one task.
    """
    entries = eval_results(results)
    if not entries:
        return []
    return eval_results_to_model_index(model_name or results[0].model, entries)


def _defined(results: Sequence[TaskResult]) -> list[TaskResult]:
    """The results that have a main score, at most one per task."""
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
    """The notes of an entry of `.eval_results`: a JSON object, without the fields that are None.

    Attributes:
        task: the task's name.
        main_score: the key of the metric's scores.
        rows: number of rows scored.
        split: their split.
        malformed: number of malformed parts of the raw files that were left out.
        origin: `samples`, `local`, or None for the Hub.
        benchmark: False for the bundled samples, which are none; None for other data.
        candidates: number of candidates of a ranking.
        fingerprint: the first digits of the rows' SHA-256.
        baseline: name of the untrained encoder.
        baseline_value: its main score, with four digits.
        seed: the seed of the run.
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
        untrained: dict[str, Any] = {}
        if baseline is not None and baseline.main_value is not None:
            value = float(f"{baseline.main_value:.4g}")
            untrained = {"baseline": baseline.model, "baseline_value": value}
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
            **untrained,
        )

    @classmethod
    def read(cls, notes: str | None) -> ResultNotes | None:
        """Read the notes of an entry; None where somebody else wrote them."""
        try:
            found = cls(**json.loads(notes or ""))
        except (TypeError, ValueError, RecursionError):
            return None
        hints = get_type_hints(cls)
        return found if all(isinstance(getattr(found, name), kind) for name, kind in hints.items()) else None

    def __str__(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if value is not None})


def _plain(value: object) -> tuple[JsonValue, bool]:
    """A score as JSON can hold it, and whether nothing in it had to become null."""
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "ndim", 0) == 0:
        value = item()
    if isinstance(value, (list, tuple)):
        parts = [_plain(part) for part in value]
        return [part for part, _ in parts], all(whole for _, whole in parts)
    if isinstance(value, float) and not math.isfinite(value):
        return None, False
    return cast(JsonValue, value), True


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all; what cannot be written is the user's to mend."""
    try:
        write_text(path, text)
    except OSError as error:
        raise EventformersError(
            f"cannot write {path}: {error.strerror}; nothing was changed there"
        ) from error
