"""Get the results of one row of a reproduced table: read them, score a model again, train it, or measure a
baseline."""

from __future__ import annotations

import json
import logging
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import cast

from eventformers.baselines import Baseline, get_baseline
from eventformers.baselines.chain_baselines import CHAIN_BASELINES, train_chain_baseline
from eventformers.baselines.knowledge_graph_embeddings import METHODS as EMBEDDINGS
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation.core import evaluate
from eventformers.evaluation.results import TaskResult, read_result, result_path
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import TASKS, with_settings
from eventformers.evaluation.tasks.pairs import Pairs
from eventformers.evaluation.tasks.protocols import JsonValue
from eventformers.evaluation.training_runs import SAMPLES
from eventformers.files import staged_folder, write_text
from eventformers.inference.chains.virtual_context import VirtualContext
from eventformers.loading.encoders import PACKAGED_ENCODER, resolve_encoder
from eventformers.locks import one_writer
from eventformers.reproduction.layout import UNTRAINED
from eventformers.reproduction.table import Measurement, ReproducedRow, Reproduction, RowTraining
from eventformers.trainers.checkpoints import (
    RUN_FILE,
    STAGE_FILE,
    STAGES_FOLDER,
    can_resume,
    remove_checkpoints,
)
from eventformers.trainers.run import resolve_recipe
from eventformers.training import train

ROW_FILE = "reproduction.json"
"""Written into a row's folder when its model is trained, scored and whole; a folder without it is redone."""

_SCORED = {"model": "model", "revision": "model_revision"}
"""What the record of a row that was scored tells of its results: the names there and here."""

logger = logging.getLogger(__name__)


def fill_row(call: Reproduction, row: ReproducedRow) -> None:
    """Get a row's results, one after another, into the row; those before a failure stay.

    Raises:
        EventformersError: the evaluation data has nothing for the row, or its run failed.
    """
    if not row.measurements:
        raise EventformersError("the evaluation data has no rows for any of its columns")
    with one_row(call.folder, row.digest):
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
    row.folder = call.folder / f"{slug(row.paper.slug)}-{row.digest}"
    started = time.monotonic()
    measure: Baseline | None = None
    with Session(call.session) as session:
        for wanted in row.measurements:
            place = other_evaluation(row.folder, wanted)
            result = next(filter(wanted.is_of, readable_results(place)), None)
            if result is None:
                measure = measure or _prepared_baseline(call, name, session)
                result = measure(
                    wanted.task,
                    data=call.evaluation_data,
                    split=wanted.split,
                    device=call.device,
                    output=place,
                    overwrite=True,
                )
            row.results[wanted] = result
    row.state = f"measured, {time.monotonic() - started:.0f} s" if measure else "cached"


def _prepared_baseline(call: Reproduction, name: str, session: Session) -> Baseline:
    """A baseline with all that it takes besides a task and its data; one on chains is trained."""
    if name == UNTRAINED:
        return partial(evaluate, resolve_encoder(call.encoder), baseline=False, session=session)
    measure = get_baseline(name)
    if name in EMBEDDINGS:
        return partial(measure, seed=call.seed)
    if name in CHAIN_BASELINES:
        return partial(measure, trained=train_chain_baseline(name, call.data, seed=call.seed))
    if name == "masked_lm":
        return partial(measure, model=resolve_encoder(call.encoder))
    return measure


def readable_results(folder: Path) -> list[TaskResult]:
    """The results of a folder; one that cannot be read is told and left out."""
    results = []
    for path in sorted((folder / "results").rglob("*.json")):
        try:
            results.append(read_result(path))
        except DataFormatError as error:
            logger.warning("%s; it is measured again", error)
    return results


def _train_or_read(call: Reproduction, row: ReproducedRow) -> None:
    finished = finished_folder(call.folder, row.digest)
    row.folder = finished or call.folder / f"{slug(row.paper.slug)}-{row.digest}"
    tasks = list(dict.fromkeys(wanted.task for wanted in row.measurements))
    training = cast(RowTraining, row.training)
    state = "cached" if finished else train_run(call, training, row.digest, tasks, row.folder)
    record = read_record(row.folder / ROW_FILE)
    held = {wanted: _held_result(call, row, row.folder, record, wanted) for wanted in row.measurements}
    with Session(call.session) as session:
        for wanted, result in held.items():
            row.results[wanted] = result or _score_again(call, row, row.folder, wanted, session)
    if finished and None in held.values():
        state += ", scored again"
    row.state = state


def train_run(
    call: Reproduction, training: RowTraining, digest: str, tasks: Sequence[str], folder: Path
) -> str:
    """Train what a row takes, or go on where that was killed.

    Args:
        call: what the rows share.
        training: what is trained.
        digest: digest of what decides its outcome.
        tasks: the tasks that it is scored on, where it is; none for a row that is scored in other ways.
        folder: its folder.

    Returns:
        What was done.
    """
    resume = can_resume(folder) or _take_stages(call, training, folder)
    finished = train(
        training.method.name,
        folder,
        recipe=training.recipe,
        data=call.data,
        encoder=call.encoder,
        settings=training.settings,
        resume=resume,
        overwrite=not resume,
        seed=training.seed,
        device=call.device,
        dtype=call.dtype,
        evaluation_data=call.evaluation_data or SAMPLES,
        tasks=tasks,
        session=call.session,
    )
    record = {
        "digest": digest,
        "stages": training.stages,
        **{name: getattr(result, key) for result in finished.results[:1] for name, key in _SCORED.items()},
        "steps": finished.run.steps,
        "seconds": round(finished.run.seconds, 2),
    }
    write_text(folder / ROW_FILE, json.dumps(record, indent=2) + "\n")
    # Nothing is left to resume, and a table of large encoders would fill the disk with them.
    remove_checkpoints(folder)
    return f"{'resumed' if resume else 'trained'}, {finished.run.seconds:.0f} s"


def _take_stages(call: Reproduction, training: RowTraining, folder: Path) -> bool:
    """Copy the first stages of a finished run that are this one's, too, as many as any run shares.

    Args:
        call: what the rows share.
        training: what this run trains.
        folder: this run's folder, which holds nothing to go on from.

    Returns:
        Whether there was one, so that the run goes on from there.
    """
    if not training.stages:
        return False
    shared: dict[Path, int] = {}
    for path in sorted(call.folder.glob(f"*/{ROW_FILE}")):
        digests = read_record(path).get("stages")
        known = digests if isinstance(digests, list) else []
        if read_record(path.parent / RUN_FILE).get("encoder") == (call.encoder or PACKAGED_ENCODER):
            pairs = zip(known, training.stages, strict=False)
            shared[path.parent] = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    source = max(shared, key=lambda place: shared[place], default=None)
    if source is None or not shared[source]:
        return False
    # A stage's folder begins with its number.
    for stage in sorted((source / STAGES_FOLDER).glob("[0-9]*"))[: shared[source]]:
        with staged_folder(folder / STAGES_FOLDER / stage.name, last=(STAGE_FILE,)) as place:
            shutil.copytree(stage, place, dirs_exist_ok=True)
    recipe = resolve_recipe(training.method, training.recipe, training.settings, training.seed)
    record = {**read_record(source / RUN_FILE), "recipe": asdict(recipe)}
    # Last, since without it there is nothing to go on from.
    write_text(folder / RUN_FILE, json.dumps(record, indent=2, sort_keys=True) + "\n")
    logger.info("%s goes on from %d stages of %s", folder.name, shared[source], source.name)
    return True


def finished_folder(folder: Path, digest: str) -> Path | None:
    """The folder of a finished run with this digest, whichever table it was trained for."""
    for candidate in sorted(folder.glob(f"*-{digest}")):
        if read_record(candidate / ROW_FILE).get("digest") == digest:
            return candidate
    return None


def _held_result(
    call: Reproduction, row: ReproducedRow, folder: Path, record: Mapping[str, JsonValue], wanted: Measurement
) -> TaskResult | None:
    """A row's result on the rows of this call; None where there is none."""
    task = with_settings(TASKS[wanted.task], _settings(call, row, wanted))
    parts = ("" if wanted.is_usual else wanted.split, task.kind.settings.name)
    variant = "-".join(filter(None, parts))
    for directory in (folder, other_evaluation(folder, wanted)):
        path = result_path(directory, str(record["model"]), str(record["revision"]), wanted.task, variant)
        try:
            result = read_result(path) if path.is_file() else None
        except DataFormatError as error:
            logger.warning("%s; it is measured again", error)
            continue
        if result is not None and wanted.is_of(result):
            return result
    return None


def _settings(call: Reproduction, row: ReproducedRow, wanted: Measurement) -> dict[str, object]:
    """How a row ranks alternatives, and reads single events at the end of chains."""
    if row.paper.rerank:
        return {"rerank": True}
    if row.paper.context_layers and isinstance(TASKS[wanted.task].kind, Pairs):
        return {"virtual_context": VirtualContext(call.data, num_layers=row.paper.context_layers)}
    return {}


def other_evaluation(folder: Path, wanted: Measurement) -> Path:
    """Where results on other rows than those of the training run go, so that neither replaces the other."""
    return folder / "evaluations" / wanted.fingerprint[:12]


def _score_again(
    call: Reproduction, row: ReproducedRow, folder: Path, wanted: Measurement, session: Session
) -> TaskResult:
    return evaluate(
        str(folder),
        wanted.task,
        data=call.evaluation_data,
        split=wanted.split,
        output=other_evaluation(folder, wanted),
        device=call.device,
        settings=_settings(call, row, wanted),
        overwrite=True,
        session=session,
    )


def slug(text: str) -> str:
    """A text as the name of a folder."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-")


@contextmanager
def one_row(folder: Path, digest: str) -> Iterator[None]:
    """Be the one that fills a row. Two tables may share it; the second waits, and then finds it done."""
    with one_writer(folder / f"row-{digest}", wait=True):
        yield
