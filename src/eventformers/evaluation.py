"""Evaluate a model on a task: load, embed, score, and set the untrained encoder's score beside it."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, cast

import torch
from datasets import Dataset, DatasetDict
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from eventformers.datasets_scripts.building import build_dataset, build_reports, load_built
from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.encoders import PACKAGED_ENCODER, resolve_encoder
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluate_metrics import load_metric
from eventformers.inference.encode import EventEncoder, Vectors, load_encoder
from eventformers.inference.neighbour_votes import VoteSettings, vote_settings
from eventformers.protocols import Embed, GraphProtocol, JsonValue, Protocol, ProtocolOutput, Row
from eventformers.provenance import git_commit, library_versions
from eventformers.results import (
    BaselineRecord,
    DatasetRecord,
    TaskResult,
    check_same_data,
    defined_scores,
    result_path,
    write_result,
)
from eventformers.tasks import TASKS, Task, get_task, reranked

TRAINING_RECORD = "run.json"
"""The file beside a trained model's weights that tells its start encoder and its recipe with the seed."""


@dataclass(frozen=True)
class Scored:
    """A task's scores for one embedding function.

    Attributes:
        scores: what the metric computed, as JSON can hold it: None for NaN.
        undefined: the reason for each score that is None.
        main_value: the task's main score.
        parts: the metric's scores of the output's parts.
        output: the protocol's output, with one prediction per row.
        seconds: time for embedding and comparing.
    """

    scores: dict[str, JsonValue]
    undefined: dict[str, str]
    main_value: float | None
    parts: dict[str, dict[str, JsonValue]]
    output: ProtocolOutput
    seconds: float


def evaluate(
    model: str | Path | EventEncoder | None,
    task: str,
    *,
    data: str | Path | None = None,
    split: str | None = None,
    output: str | Path | None = None,
    baseline_encoder: str | Path | EventEncoder | Literal[False] | None = None,
    pooling: str | None = None,
    event_order: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    batch_size: int | Literal["auto"] = "auto",
    seed: int | None = None,
    rerank: bool | VoteSettings = False,
    overwrite: bool = False,
) -> TaskResult:
    """Score a model, or a plain encoder, on a task.

    Args:
        model: folder or Hub id of a model of ours or of any plain encoder, None for the packaged
            all-MiniLM-L6-v2, or an encoder that is loaded.
        task: a name in `TASKS`.
        data: folder of raw files, built folder or Hub id of the task's dataset; None takes the bundled
            samples, which are no benchmark.
        split: the split to score; None takes the test split where the data has one.
        output: folder under whose `results/` the result is written; None writes nothing.
        baseline_encoder: the untrained encoder whose score is set beside the model's, with the model's
            pooling and event order; None takes the one that the model's training record names, False leaves
            it out.
        pooling: `cls` or `mean` against the model's own.
        event_order: a key of `EVENT_ORDERS` against the model's own.
        device: a torch device; None chooses.
        dtype: a torch dtype by name; None takes the model's.
        batch_size: events per batch, or `auto`.
        seed: the seed to record; None takes the one of the model's training record. No task draws anything.
        rerank: let training premises vote, in a task that ranks in a graph; their settings, or True for the
            measured ones. The untrained encoder is re-ranked alike.
        overwrite: replace a result on other rows.

    Returns:
        The result, with one prediction per row.

    Raises:
        UnknownNameError: there is no such task.
        DataFormatError: a raw file cannot be read.
        EventformersError: the model, the baseline or the data cannot be loaded, the data lacks the split, a
            vector is not finite, or the place of the result holds one on other rows.
    """
    votes = vote_settings(rerank)
    chosen = get_task(task) if votes is None else reranked(get_task(task), votes)
    scored_data = load_data(chosen, data, split)
    record = describe_data(chosen, scored_data, data)
    started = time.perf_counter()
    encoder = _encoder(chosen, model, pooling, event_order, device, dtype)
    load_seconds = time.perf_counter() - started
    usual = record.split == chosen.choose_split(scored_data.splits)
    other_split, voted = None if usual else record.split, None if votes is None else votes.name
    variant = "-".join(filter(None, (pooling, event_order, other_split, voted)))
    if output is not None and encoder.revision is None:
        raise EventformersError(
            f"the encoder {encoder.name!r} has no revision, so its result has no place; accepted: a model "
            "that load_encoder loaded, or no output folder"
        )
    revision = encoder.revision or "unknown"
    if output is not None and not overwrite:
        # Before the work, not after it.
        check_same_data(result_path(output, encoder.name, revision, chosen.name, variant), record.fingerprint)
    training = _training_record(model, encoder.revision)
    scored = _score(chosen, encoder, scored_data, batch_size)
    baseline, baseline_missing = _baseline(
        chosen,
        scored_data,
        encoder,
        baseline_encoder,
        training,
        device=device,
        dtype=dtype,
        batch_size=batch_size,
    )
    result = make_result(
        chosen,
        record,
        scored,
        model=encoder.name,
        model_revision=revision,
        variant=variant,
        baseline=baseline,
        baseline_missing=baseline_missing,
        settings=_settings(encoder, batch_size),
        truncated=encoder.truncated,
        seed=_training_seed(training) if seed is None else seed,
        load_seconds=load_seconds,
    )
    if output is not None:
        write_result(result, output, overwrite=overwrite)
    return result


def tasks_of_data(data: str | Path | None) -> list[str]:
    """The tasks whose rows a folder of raw files, a built folder or a Hub dataset holds.

    Raises:
        DataFormatError: a raw file cannot be read.
        EventformersError: it holds the rows of no task.
    """
    names = []
    for name, task in TASKS.items():
        try:
            load_built(data, task.config, builder=task.dataset)
        except DataFormatError:
            raise
        except EventformersError:
            continue
        names.append(name)
    if not names:
        raise EventformersError(f"{data}: holds the rows of no task; accepted: data of {', '.join(TASKS)}")
    return names


def score(
    task: Task,
    embed: Embed,
    rows: Iterable[Row],
    other_splits: Mapping[str, Iterable[Row]] | None = None,
    device: torch.device | None = None,
) -> Scored:
    """Score an embedding function on a task's rows.

    Args:
        task: the task.
        embed: texts and events to vectors, (N, d); each distinct one is asked for once.
        rows: the rows of the task's dataset that are scored.
        other_splits: the rows of its other splits by name, for a task that ranks in a graph.
        device: where the ranks of such a task are computed; None takes an accelerator where there is one.

    Raises:
        EventformersError: no rows, a column is missing, a vector is not finite, or the metric refuses the
            values.
    """
    started = time.perf_counter()
    if task.ranks_in_graph:
        output = cast(GraphProtocol, task.protocol)(embed, rows, other_splits or {}, device)
    else:
        output = cast(Protocol, task.protocol)(embed, rows)
    return measure(task, output, time.perf_counter() - started)


def measure(task: Task, output: ProtocolOutput, seconds: float) -> Scored:
    """Apply a task's metric to what a protocol gave.

    Args:
        task: the task.
        output: the metric's inputs and the predictions.
        seconds: how long it took to make them.

    Raises:
        EventformersError: the metric refuses the values.
    """
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
) -> TaskResult:
    """Put a task's scores together with where they come from; arguments as the attributes of `TaskResult`."""
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
        },
        versions=library_versions(),
        git_commit=git_commit(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        predictions=scored.output.predictions,
        parts=scored.parts,
        details=scored.output.details,
    )


def scored_fingerprint(task: Task, splits: DatasetDict, split: str) -> str:
    """SHA-256 of all that decides the score: the rows, and for a ranking in a graph those of every split."""
    return dataset_fingerprint(splits if task.ranks_in_graph else splits[split])


@dataclass(frozen=True)
class ScoredData:
    """The splits of a task's dataset, and which of them is scored."""

    splits: DatasetDict
    split: str

    @property
    def rows(self) -> Dataset:
        """The rows of the scored split."""
        return self.splits[self.split]

    @property
    def other_splits(self) -> dict[str, Dataset]:
        """The other splits by name."""
        return {name: rows for name, rows in self.splits.items() if name != self.split}


def load_data(task: Task, data: str | Path | None, split: str | None) -> ScoredData:
    """The splits of a task's dataset, with the one to score chosen.

    Raises:
        DataFormatError: a raw file cannot be read.
        EventformersError: the data cannot be loaded, or the split is not there or has no rows.
    """
    splits = load_built(data, task.config, builder=task.dataset)
    loaded = ScoredData(splits, task.choose_split(splits, split))
    if not len(loaded.rows):
        raise EventformersError(f"{data}: the split {loaded.split!r} of {task.config} has no rows")
    return loaded


def _score(
    task: Task, encoder: EventEncoder, scored_data: ScoredData, batch_size: int | Literal["auto"]
) -> Scored:
    def embed(items: Sequence[str | Event]) -> Vectors:
        return encoder.encode(items, batch_size=batch_size)

    return score(task, embed, scored_data.rows, scored_data.other_splits, encoder.model.device)


def describe_data(task: Task, scored_data: ScoredData, data: str | Path | None) -> DatasetRecord:
    """The record of the rows that are scored, for a result."""
    is_local = data is None or os.pathsep in str(data) or Path(data).expanduser().exists()
    hub_id = None if is_local else str(data)
    report = {} if hub_id else _build_report(task, data)
    rows = scored_data.rows
    licenses = report.get("licenses") or (rows.unique("license") if "license" in rows.column_names else [])
    return DatasetRecord(
        name=task.dataset,
        config=task.config,
        split=scored_data.split,
        rows=len(rows),
        fingerprint=scored_fingerprint(task, scored_data.splits, scored_data.split),
        origin="hub" if hub_id else "samples" if report.get("sample") else "local",
        hub_id=hub_id,
        revision=_hub_commit(hub_id) if hub_id else None,
        licenses=sorted(map(str, licenses)) if isinstance(licenses, list) else [],
    )


def _build_report(task: Task, data: str | Path | None) -> Mapping[str, object]:
    """What the build said of the rows; empty for a built folder whose report was left behind."""
    if data is not None and (report := build_reports(data).get(task.config)):
        return report
    try:
        # The rows are loaded, so this finds them in the cache.
        folder = build_dataset(task.dataset, task.config, data)
    except EventformersError:
        return {}
    return build_reports(folder)[task.config]


def _hub_commit(hub_id: str) -> str | None:
    """The commit of a dataset on the Hub, or of its copy in the cache; None where neither can be had."""
    try:
        return Path(hf_hub_download(hub_id, "README.md", repo_type="dataset")).parent.name
    except (HfHubHTTPError, HFValidationError, OSError):
        return None


def _encoder(
    task: Task,
    model: str | Path | EventEncoder | None,
    pooling: str | None,
    event_order: str | None,
    device: str | None,
    dtype: str | None,
) -> EventEncoder:
    if isinstance(model, EventEncoder):
        if pooling or event_order or device or dtype:
            raise EventformersError(
                "the encoder is loaded already; accepted: pooling, event order, device and dtype only with "
                "the name of a model"
            )
        encoder = model
    else:
        encoder = load_encoder(model, pooling=pooling, event_order=event_order, device=device, dtype=dtype)
    # A copy, so that the encoder of the caller keeps its own length.
    return replace(encoder, max_length=min(encoder.max_length, task.max_length or encoder.max_length))


def _settings(encoder: EventEncoder, batch_size: int | Literal["auto"]) -> dict[str, JsonValue]:
    return {
        "pooling": encoder.model.config.pooling,
        "event_order": encoder.event_order,
        "dtype": str(encoder.model.dtype).removeprefix("torch."),
        "device": encoder.model.device.type,
        "batch_size": batch_size,
        "max_length": encoder.max_length,
    }


def _baseline(
    task: Task,
    scored_data: ScoredData,
    encoder: EventEncoder,
    baseline_encoder: str | Path | EventEncoder | Literal[False] | None,
    training: Mapping[str, object] | None,
    *,
    device: str | None,
    dtype: str | None,
    batch_size: int | Literal["auto"],
) -> tuple[BaselineRecord | None, str | None]:
    """The untrained encoder's record, or the reason why there is none."""
    if baseline_encoder is False:
        return None, "left out on request"
    named = baseline_encoder is not None
    if baseline_encoder is None:
        if training is None:
            return None, "the model has no training record: it is a plain encoder, or its start is unknown"
        if "encoder" not in training:
            return None, f"the model's {TRAINING_RECORD} names no start encoder"
        baseline_encoder = _start_encoder(str(training["encoder"]))
    try:
        if isinstance(baseline_encoder, EventEncoder):
            untrained = _encoder(task, baseline_encoder, None, None, None, None)
        else:
            pooling, event_order = encoder.model.config.pooling, encoder.event_order
            untrained = _encoder(task, baseline_encoder, pooling, event_order, device, dtype)
    except (EventformersError, OSError) as error:
        if named:
            raise
        # A start encoder that is not at hand must not cost the trained model its score.
        # The message may hold a path of this machine, which a result must not carry elsewhere.
        warnings.warn(f"no baseline: the start encoder cannot be loaded: {error}", stacklevel=3)
        return None, f"the start encoder {Path(str(baseline_encoder)).name} cannot be loaded"
    scored = _score(task, untrained, scored_data, batch_size)
    return (
        BaselineRecord(
            model=untrained.name,
            model_revision=untrained.revision or "unknown",
            main_value=scored.main_value,
            scores=scored.scores,
            settings=_settings(untrained, batch_size),
        ),
        None,
    )


def _start_encoder(recorded: str) -> str | None:
    """What `load_encoder` takes for a recorded start encoder: the package goes before the Hub."""
    if recorded != PACKAGED_ENCODER:
        return recorded
    try:
        resolve_encoder(None)
    except EventformersError:
        return recorded
    return None


def _training_record(
    model: str | Path | EventEncoder | None, revision: str | None
) -> Mapping[str, object] | None:
    """What the training wrote beside the weights of a folder or of a Hub repository; None without it."""
    if model is None or isinstance(model, EventEncoder):
        return None
    folder = Path(model).expanduser()
    if folder.is_dir():
        path = folder / TRAINING_RECORD
    else:
        try:
            path = Path(hf_hub_download(str(model), TRAINING_RECORD, revision=revision))
        except (HfHubHTTPError, HFValidationError, OSError):
            return None
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise EventformersError(f"{path}: no JSON: {error}; accepted: a training record") from error
    return content if isinstance(content, dict) else None


def _training_seed(training: Mapping[str, object] | None) -> int | None:
    recipe = training.get("recipe") if training else None
    seed = recipe.get("seed") if isinstance(recipe, Mapping) else None
    return seed if isinstance(seed, int) else None
