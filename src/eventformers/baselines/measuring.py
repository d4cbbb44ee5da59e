"""What all baselines do around their scores: load a task's data, and make and write the result."""

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
    """A task that a baseline is about to be scored on.

    Attributes:
        task: the task.
        data: where its data is; None for the samples.
        scored_data: its splits, and the one that is scored.
        record: the record of the scored rows.
        variant: the split's name where it is not the data's usual one, and the task's chosen settings.
    """

    task: Task
    data: str | Path | None
    scored_data: ScoredData
    record: DatasetRecord
    variant: str

    def check_place(self, output: str | Path | None, model: str, revision: str, *, overwrite: bool) -> None:
        """Refuse an output folder that holds a result on other rows; before the work, not after it.

        Raises:
            EventformersError: it holds one.
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
        """Apply the metric, make the result, and write it where a folder is given.

        Args:
            protocol_output: the metric's inputs and the predictions.
            model: the baseline's name in results.
            revision: what tells it from one with other weights or settings.
            settings: what it ran under.
            seconds: time to score the rows.
            load_seconds: time to load or train the model.
            truncated: texts that were cut.
            seed: the seed of its training.
            output: folder under whose `results/` the result is written; None writes nothing.
            overwrite: replace a result on other rows.

        Raises:
            EventformersError: the metric refuses the values, or the place holds a result on other rows.
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
        data: folder of raw files, built folder or Hub id of the task's dataset; None takes the samples.
        split: the split to score; None takes the data's usual one.

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
    """SHA-256 of settings and more: the revision of a model that has no weights to keep."""
    content = json.dumps([settings, *others], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
