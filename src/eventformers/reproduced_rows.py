"""Get the results of one row of a reproduced table: read them, score a model again, train it, or measure a
baseline."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock

from eventformers.baselines import get_baseline
from eventformers.baselines.knowledge_graph_embeddings import METHODS as EMBEDDINGS
from eventformers.encoders import resolve_encoder
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation import evaluate
from eventformers.files import write_text
from eventformers.inference.neighbour_votes import vote_settings
from eventformers.protocols import JsonValue
from eventformers.reproduced_table import Measurement, ReproducedRow, Reproduction
from eventformers.results import TaskResult, read_result, result_path
from eventformers.trainers.checkpoints import can_resume, remove_checkpoints
from eventformers.training import train

ROW_FILE = "reproduction.json"
"""Written into a row's folder when its model is trained, scored and whole; a folder without it is redone."""

logger = logging.getLogger(__name__)


def fill_row(call: Reproduction, row: ReproducedRow) -> None:
    """Get a row's results, one after another, into the row; those before a failure stay.

    Raises:
        EventformersError: the evaluation data has nothing for the row, or its run failed.
    """
    if not row.measurements:
        raise EventformersError("the evaluation data has no rows for any of its columns")
    with FileLock(_lock_path(call.folder, row.digest)):
        if row.paper.baseline:
            _measure(call, row)
        else:
            _train_or_read(call, row)


def read_record(path: Path) -> dict[str, JsonValue]:
    """A JSON object; empty where there is none or it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        return {}
    return content if isinstance(content, dict) else {}


def _measure(call: Reproduction, row: ReproducedRow) -> None:
    """Measure a baseline, where that was not done before."""
    name = row.paper.baseline
    row.folder = call.folder / f"{_slug(row.paper.slug)}-{row.digest}"
    arguments: dict[str, object] = {}
    if name in EMBEDDINGS:
        arguments["seed"] = call.seed
    elif name == "masked_lm":
        arguments["model"] = resolve_encoder(call.encoder)
    started, measured = time.monotonic(), False
    for wanted in row.measurements:
        place = _other_evaluation(row.folder, wanted)
        result = next(filter(wanted.is_of, _readable_results(place)), None)
        if result is None:
            result = get_baseline(name)(
                wanted.task,
                call.evaluation_data,
                split=wanted.split,
                device=call.device,
                output=place,
                overwrite=True,
                **arguments,
            )
            measured = True
        row.results[wanted] = result
    row.state = f"measured, {time.monotonic() - started:.0f} s" if measured else "cached"


def _readable_results(folder: Path) -> list[TaskResult]:
    results = []
    for path in sorted((folder / "results").rglob("*.json")):
        try:
            results.append(read_result(path))
        except DataFormatError as error:
            logger.warning("%s; it is measured again", error)
    return results


def _train_or_read(call: Reproduction, row: ReproducedRow) -> None:
    finished = _finished_folder(call.folder, row.digest)
    row.folder = finished or call.folder / f"{_slug(row.paper.slug)}-{row.digest}"
    state = "cached" if finished else _train(call, row, row.folder)
    record = read_record(row.folder / ROW_FILE)
    held = {wanted: _held_result(row, row.folder, record, wanted) for wanted in row.measurements}
    for wanted, result in held.items():
        row.results[wanted] = result or _score_again(call, row, row.folder, wanted)
    if finished and None in held.values():
        state += ", scored again"
    row.state = state


def _train(call: Reproduction, row: ReproducedRow, folder: Path) -> str:
    """Train a row, or go on where it was killed; says what was done."""
    resume = can_resume(folder)
    finished = train(
        call.method.name,
        folder,
        recipe=call.recipe,
        data=call.data,
        encoder=call.encoder,
        settings=[*call.settings, *(row.paper.overrides or ())],
        resume=resume,
        overwrite=not resume,
        seed=call.seed,
        device=call.device,
        dtype=call.dtype,
        evaluation_data=call.evaluation_data,
        tasks=list(dict.fromkeys(wanted.task for wanted in row.measurements)),
    )
    record = {
        "digest": row.digest,
        "model": finished.results[0].model,
        "revision": finished.results[0].model_revision,
        "steps": finished.run.steps,
        "seconds": round(finished.run.seconds, 2),
    }
    write_text(folder / ROW_FILE, json.dumps(record, indent=2) + "\n")
    # Nothing is left to resume, and a table of large encoders would fill the disk with them.
    remove_checkpoints(folder)
    return f"{'resumed' if resume else 'trained'}, {finished.run.seconds:.0f} s"


def _finished_folder(folder: Path, digest: str) -> Path | None:
    """The folder of a finished run with this digest, whichever table it was trained for."""
    for candidate in sorted(folder.glob(f"*-{digest}")):
        if read_record(candidate / ROW_FILE).get("digest") == digest:
            return candidate
    return None


def _held_result(
    row: ReproducedRow, folder: Path, record: Mapping[str, JsonValue], wanted: Measurement
) -> TaskResult | None:
    """A row's result on the rows of this call; None where there is none."""
    votes = vote_settings(row.paper.rerank)
    parts = ("" if wanted.is_usual else wanted.split, votes.name if votes else "")
    variant = "-".join(filter(None, parts))
    for directory in (folder, _other_evaluation(folder, wanted)):
        path = result_path(directory, str(record["model"]), str(record["revision"]), wanted.task, variant)
        try:
            result = read_result(path) if path.is_file() else None
        except DataFormatError as error:
            logger.warning("%s; it is measured again", error)
            continue
        if result is not None and wanted.is_of(result):
            return result
    return None


def _other_evaluation(folder: Path, wanted: Measurement) -> Path:
    """Where results on other rows than those of the training run go, so that neither replaces the other."""
    return folder / "evaluations" / wanted.fingerprint[:12]


def _score_again(call: Reproduction, row: ReproducedRow, folder: Path, wanted: Measurement) -> TaskResult:
    return evaluate(
        str(folder),
        wanted.task,
        data=call.evaluation_data,
        split=wanted.split,
        output=_other_evaluation(folder, wanted),
        device=call.device,
        rerank=row.paper.rerank,
        overwrite=True,
    )


def _slug(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text).strip("-")


def _lock_path(folder: Path, digest: str) -> Path:
    """Two calls may share rows; the second one waits, and then finds the row done."""
    path = folder / ".locks" / digest
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
