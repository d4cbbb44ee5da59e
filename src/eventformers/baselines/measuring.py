"""Shared steps of all baselines: loading a task's data, and building and writing the result."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from eventformers.evaluation.core import make_result, measure
from eventformers.evaluation.data import ScoredData, describe_data, load_data
from eventformers.evaluation.results import (
    NO_START,
    DatasetRecord,
    TaskResult,
    check_same_data,
    result_path,
    write_result,
)
from eventformers.evaluation.tasks import Task
from eventformers.evaluation.tasks.protocols import JsonValue, ProtocolOutput


@dataclass(frozen=True)
class BaselineTask:
    """A task with the data that a baseline will be scored on.

    Attributes:
        task: the task.
        data: source of its data; None for the samples.
        scored_data: its splits, and the scored split.
        record: the record of the scored rows.
        variant: the split's name if it is not the data's usual one, and the task's changed settings.
    """

    task: Task
    data: str | Path | None
    scored_data: ScoredData
    record: DatasetRecord
    variant: str

    def check_place(self, output: str | Path | None, model: str, revision: str, *, overwrite: bool) -> None:
        """Reject an output folder with a result on other rows before the work starts.

        Raises:
            EventformersError: the folder has such a result.
        """
        if output is not None and not overwrite:
            path = result_path(output, model, revision, self.task.name, self.variant)
            check_same_data(path, self.record.fingerprint)

    def finish(
        self,
        protocol_output: ProtocolOutput,
        *,
        model: str,
        revision: str,
        settings: dict[str, JsonValue],
        seconds: float,
        load_seconds: float,
        truncated: int = 0,
        seed: int | None = None,
        output: str | Path | None = None,
        overwrite: bool = False,
    ) -> TaskResult:
        """Apply the metric, build the result, and write it if a folder is given.

        Args:
            protocol_output: the metric's inputs and the predictions.
            model: the baseline's name in results.
            revision: distinguishes it from the baseline with other weights or settings.
            settings: its settings.
            seconds: time to score the rows.
            load_seconds: time to load or train the model.
            truncated: number of truncated texts.
            seed: the seed of its training.
            output: folder under whose `results/` the result is written; None writes nothing.
            overwrite: replace a result on other rows.

        Raises:
            EventformersError: the metric rejects the values, or the folder has a result on other rows.
        """
        result = make_result(
            self.task,
            self.record,
            measure(self.task, protocol_output, seconds),
            model=model,
            model_revision=revision,
            variant=self.variant,
            baseline_missing=NO_START,
            settings=settings,
            truncated=truncated,
            seed=seed,
            load_seconds=load_seconds,
        )
        if output is not None:
            write_result(result, output, overwrite=overwrite)
        return result


def open_task(task: Task, data: str | Path | None, split: str | None) -> BaselineTask:
    """Load the data of a task.

    Args:
        task: the task.
        data: folder of raw files, built folder or Hub id of the task's dataset; None uses the samples.
        split: the split to score; None uses the data's usual one.

    Raises:
        DataFormatError: a raw file cannot be read.
        EventformersError: the data cannot be loaded or lacks the split.
    """
    scored_data = load_data(task, data, split)
    usual = task.choose_split(scored_data.splits)
    split_name = "" if scored_data.split == usual else scored_data.split
    return BaselineTask(
        task=task,
        data=data,
        scored_data=scored_data,
        record=describe_data(task, scored_data, data),
        variant="-".join(filter(None, (split_name, task.kind.settings.name))),
    )


def settings_revision(settings: dict[str, JsonValue], *others: str) -> str:
    """SHA-256 of settings and other facts: the revision of a model without stored weights."""
    content = json.dumps([settings, *others], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
