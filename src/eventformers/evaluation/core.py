"""Evaluate a model and its untrained encoder on a task."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from eventformers.datasets_scripts.dataset_card import read_front_matter
from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.errors import EventformersError, shown
from eventformers.evaluate_metrics import load_metric
from eventformers.evaluation.data import TaskData, describe_data, load_data
from eventformers.evaluation.results import (
    BaselineRecord,
    DatasetRecord,
    TaskResult,
    check_same_data,
    defined_scores,
    result_path,
    write_result,
)
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import Task, get_task, with_settings
from eventformers.evaluation.tasks.base import (
    BatchSize,
    Computing,
    JsonValue,
    ProtocolOutput,
    TaskRows,
    TaskSettings,
)
from eventformers.inference.encode import EventEncoder
from eventformers.loading.encoders import resolve_encoder
from eventformers.loading.model_files import find_file, read_object
from eventformers.locks import one_writer
from eventformers.provenance import git_commit, library_versions


@dataclass(frozen=True)
class Scored:
    """A task's scores for one embedding function.

    Attributes:
        scores: the metric's scores as JSON values, with None for NaN.
        undefined: the reason for each score that is None.
        seconds: time to embed and compare.
    """

    scores: dict[str, JsonValue]
    undefined: dict[str, str]
    main_value: float | None
    parts: dict[str, dict[str, JsonValue]]
    output: ProtocolOutput
    seconds: float


@takes_malformed
def evaluate(
    model: str | Path | EventEncoder | None,
    task: str | Task,
    *,
    data: str | Path | None = None,
    split: str | None = None,
    settings: Mapping[str, object] | TaskSettings | None = None,
    output: str | Path | None = None,
    baseline: str | Path | EventEncoder | Literal[False] | None = None,
    session: Session | None = None,
    device: str | None = None,
    dtype: str | None = None,
    batch_size: BatchSize = "auto",
    seed: int | None = None,
    overwrite: bool = False,
    malformed: str | None = None,
) -> TaskResult:
    """Score a model, or a plain encoder, on a task; for arguments that are not listed see `encode`, `induce`.

    Args:
        task: a name in `TASKS`, or a variant of a task.
        data: folder of raw files, built folder or Hub id of the task's dataset; None takes the bundled
            samples, which are not a benchmark.
        split: the split to score; None takes the test split if the data has one.
        settings: settings of the task: values by name, as for `eventformers evaluate --set`, or an instance
            of `task.kind.Settings`. Every task also takes the `pooling` and `event_order`
            of the encoder. None takes the defaults.
        output: folder for the result, which is written under its `results/`; None writes nothing.
        baseline: the untrained encoder to score with the model's pooling and event order; None takes the one
            in the model's training record, False scores none.
        session: shares models, vectors and data with other evaluations. It saves time and changes no score.
        seed: the seed to record; None takes the one in the model's training record. Tasks draw no random
            numbers.
        overwrite: replace a result on other rows.

    Returns:
        The result, with one prediction per row.

    Raises:
        UnknownNameError: the task or a setting is unknown.
        DataFormatError: a raw file cannot be read.
        EventformersError: the model, the baseline or the data cannot be loaded, the data lacks the split, the
            task does not use a setting, a vector is not finite, or the result file holds a result on other
            rows.
    """
    chosen = get_task(task) if settings is None else with_settings(get_task(task), settings)
    computing = Computing(device, dtype, batch_size)
    with nullcontext(session) if session else Session(keeps_vectors=False) as held:
        scored_data = load_data(chosen, data, split, held.data)
        record = describe_data(scored_data, data)
        pooling, event_order = chosen.kind.settings.pooling, chosen.kind.settings.event_order
        started = time.perf_counter()
        encoder = held.encoder(
            model,
            pooling=pooling,
            event_order=event_order,
            device=device,
            dtype=dtype,
            max_length=chosen.max_length,
        )
        prepared = chosen.kind.prepare(encoder, held, computing)
        load_seconds = time.perf_counter() - started
        usual = record.split == chosen.choose_split(scored_data.splits)
        names = (pooling, event_order, None if usual else record.split, chosen.kind.settings.name)
        variant = "-".join(filter(None, (*names, prepared.name)))
        if output is not None and encoder.revision is None:
            raise EventformersError(
                f"the encoder {shown(encoder.name)} has no revision, which names the result's folder; "
                "accepted: a model loaded by load_encoder, or no output folder"
            )
        revision = encoder.revision or "unknown"
        path = output and result_path(output, encoder.name, revision, chosen.name, variant)
        with one_writer(path) if path else nullcontext():
            if path and not overwrite:
                # Fails before the work instead of after it.
                check_same_data(path, record.fingerprint)
            has_record, start, recorded_seed = _read_training_start(model, encoder.revision)
            scored = _run(chosen, prepared.scorer, scored_data.task_rows)
            recorded: BaselineRecord | None = None
            if baseline is False:
                missing: str | None = "left out on request"
            elif baseline is None and not has_record:
                missing = "the model has no training record: it is a plain encoder, or its start is unknown"
            elif baseline is None and start is None:
                missing = "neither the model's run.json nor base_model of its card names a start encoder"
            else:
                recorded, missing = _baseline(
                    chosen, scored_data, record, encoder, baseline, start, held, computing
                )
            result = make_result(
                chosen,
                record,
                scored,
                model=encoder.name,
                model_revision=revision,
                variant=variant,
                baseline=recorded,
                baseline_missing=missing,
                settings=_encoder_settings(encoder, batch_size) | chosen.kind.record(prepared),
                truncated=encoder.truncated,
                seed=recorded_seed if seed is None else seed,
                load_seconds=load_seconds,
                shared_texts=encoder.remembered,
                parameters=sum(weights.numel() for weights in encoder.model.parameters()),
            )
            if output is not None:
                write_result(result, output, overwrite=overwrite)
            return result


def _run(task: Task, scorer: object, rows: TaskRows) -> Scored:
    started = time.perf_counter()
    output = task.kind.run(scorer, rows)
    return measure(task, output, time.perf_counter() - started)


def measure(task: Task, output: ProtocolOutput, seconds: float) -> Scored:
    """Apply a task's metric to a protocol's output; values that it rejects are an error."""
    metric = load_metric(task.metric, keep_in_memory=True)
    try:
        computed = metric.compute(**output.inputs)
        parts = {name: defined_scores(metric.compute(**inputs))[0] for name, inputs in output.parts.items()}
    except ValueError as error:
        raise EventformersError(f"{task.metric}: {error}") from error
    scores, undefined = defined_scores(computed)
    value = scores[task.main_score]
    return Scored(
        scores=scores,
        undefined=undefined,
        main_value=float(value) if isinstance(value, (int, float)) else None,
        parts=parts,
        output=output,
        seconds=seconds,
    )


def make_result(
    task: Task,
    record: DatasetRecord,
    scored: Scored,
    *,
    model: str,
    model_revision: str,
    settings: dict[str, JsonValue],
    variant: str = "",
    baseline: BaselineRecord | None = None,
    baseline_missing: str | None = None,
    truncated: int = 0,
    seed: int | None = None,
    load_seconds: float = 0.0,
    shared_texts: int = 0,
    parameters: int | None = None,
) -> TaskResult:
    """Combine scores with their provenance; for the arguments see `TaskResult` and its `timing`."""
    return TaskResult(
        task=task.name,
        model=model,
        model_revision=model_revision,
        variant=variant,
        main_score=task.main_score,
        main_value=scored.main_value,
        scores=scored.scores,
        undefined=scored.undefined,
        baseline=baseline,
        baseline_missing=baseline_missing,
        dataset=record,
        settings=settings,
        truncated=truncated,
        seed=seed,
        timing={
            "load_seconds": round(load_seconds, 4),
            "seconds": round(scored.seconds, 4),
            "items": record.rows,
            "items_per_second": round(record.rows / scored.seconds, 2),
            "texts": scored.output.texts,
            "distinct_texts": scored.output.distinct_texts,
            "shared_texts": shared_texts,
        },
        versions=library_versions(),
        git_commit=git_commit(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        predictions=scored.output.predictions,
        parts=scored.parts,
        details=scored.output.details,
        parameters=parameters,
    )


def _baseline(
    task: Task,
    scored_data: TaskData,
    record: DatasetRecord,
    encoder: EventEncoder,
    baseline: str | Path | EventEncoder | None,
    start: str | None,
    session: Session,
    computing: Computing,
) -> tuple[BaselineRecord | None, str | None]:
    """Score the named or recorded untrained encoder; return its record, or None and why it has none."""
    named = baseline is not None
    baseline = start if baseline is None else baseline
    reading: dict[str, str | None] = {}
    if not isinstance(baseline, EventEncoder):
        reading = {
            "pooling": encoder.model.config.pooling,
            "event_order": encoder.event_order,
            "device": computing.device,
            "dtype": computing.dtype,
        }
    try:
        untrained = session.encoder(baseline, max_length=task.max_length, **reading)
        if reading:
            untrained = replace(untrained, prompts=encoder.prompts)
    except (EventformersError, OSError) as error:
        if named:
            raise
        # The trained model keeps its score when its start encoder is unavailable.
        # The result omits the error, which may hold a path of this machine.
        warnings.warn(f"no baseline: the start encoder cannot be loaded: {error}", stacklevel=3)
        return None, f"the start encoder {Path(str(baseline)).name} cannot be loaded"
    kind = task.kind.untrained(encoder)
    prepared = kind.prepare(untrained, session, computing)
    own_task, reads = replace(task, kind=kind), _encoder_settings(untrained, computing.batch_size)

    def scored() -> BaselineRecord:
        found = _run(own_task, prepared.scorer, scored_data.task_rows)
        return BaselineRecord(
            model=untrained.name,
            model_revision=untrained.revision or "unknown",
            main_value=found.main_value,
            scores=found.scores,
            settings=reads | kind.record(prepared),
        )

    try:
        if untrained.revision is None:
            return scored(), None
        # Several models of one encoder share its scores.
        asked = (own_task, record, untrained.name, untrained.revision, untrained.prompts, reads)
        return session.once(asked, scored), None
    except EventformersError as error:
        if not kind.untrained_may_fail:
            raise
        return None, str(error)


def _encoder_settings(encoder: EventEncoder, batch_size: BatchSize) -> dict[str, JsonValue]:
    """Collect the settings of an encoder for a result."""
    return {
        "pooling": encoder.model.config.pooling if hasattr(encoder.model, "pool") else None,
        "event_order": encoder.event_order,
        "dtype": str(encoder.model.dtype).removeprefix("torch."),
        "device": encoder.model.device.type,
        "batch_size": batch_size,
        "max_length": encoder.max_length,
    }


def _read_training_start(
    model: str | Path | EventEncoder | None, revision: str | None
) -> tuple[bool, str | None, int | None]:
    """Read the start of a trained model from its files: whether it has a record, its encoder and its seed.

    A run's folder has `run.json`, which is not pushed, since it names local folders. A repository has the
    start encoder as `base_model` of its card, and the seed in its training arguments. A plain or a loaded
    encoder has no record.
    """
    if model is None or isinstance(model, EventEncoder):
        return False, None, None
    source = resolve_encoder(model)
    if record := read_object(source, "run.json", revision):
        recipe, encoder = record.get("recipe"), record.get("encoder")
        seed = recipe.get("seed") if isinstance(recipe, Mapping) else None
    # Only our training writes this file. Cards of plain encoders may name a base model, too.
    elif arguments := read_object(source, "training_args.json", revision):
        card, seed = find_file(source, "README.md", revision), arguments.get("seed")
        encoder = read_front_matter(card).get("base_model") if card else None
    else:
        return False, None, None
    return True, encoder if isinstance(encoder, str) else None, seed if isinstance(seed, int) else None
