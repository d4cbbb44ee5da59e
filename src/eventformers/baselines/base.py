"""The base class of all baselines, which loads a task's data, builds and writes the result; and chance."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, cast

from eventformers.errors import EventformersError, shown
from eventformers.evaluation.core import Scored, make_result, measure
from eventformers.evaluation.data import TaskData, describe_data, load_data
from eventformers.evaluation.results import (
    NO_START,
    DatasetRecord,
    TaskResult,
    check_same_data,
    result_path,
    write_result,
)
from eventformers.evaluation.tasks import TASKS, Task, get_task, names_of_kind
from eventformers.evaluation.tasks.base import JsonValue, ProtocolOutput, Row, TaskKind
from eventformers.evaluation.tasks.chains import Chains, read_chain_question, read_steps
from eventformers.evaluation.tasks.graph import read_question
from eventformers.locks import one_writer


@dataclass(frozen=True)
class BaselineTask:
    """A task with the data that a baseline will be scored on.

    Attributes:
        data: source of its data; None for the samples.
        scored_data: its splits, and the scored split.
        variant: the split's name if it is not the data's usual one, and the task's changed settings.
        output: folder for the result; None writes nothing.
        overwrite: True to replace a result on other rows.
        show_progress: True to draw a progress bar on standard error.
    """

    task: Task
    data: str | Path | None
    scored_data: TaskData
    record: DatasetRecord
    variant: str
    device: str | None
    output: str | Path | None
    overwrite: bool
    show_progress: bool

    def check_place(self, model: str, revision: str) -> None:
        """Reject an output folder that cannot take the result before the work starts."""
        if self.output is None:
            return
        path = result_path(self.output, model, revision, self.task.name, self.variant)
        with one_writer(path):
            if not self.overwrite:
                check_same_data(path, self.record.fingerprint)


@dataclass(frozen=True)
class ReadyBaseline:
    """A baseline that is ready to score a task.

    Attributes:
        model: its name in results.
        revision: distinguishes it from the baseline with other weights or settings.
        run: scores the rows: the metric's inputs and the predictions.
        count_truncated: returns the number of truncated texts after the run.
    """

    model: str
    revision: str
    run: Callable[[], ProtocolOutput]
    settings: dict[str, JsonValue] = field(default_factory=dict)
    load_seconds: float = 0.0
    seed: int | None = None
    count_truncated: Callable[[], int] = int


@dataclass(frozen=True)
class Baseline(ABC):
    """A baseline, which is called like `eventformers.evaluate`."""

    kind: ClassVar[type[TaskKind]]

    name: str

    @property
    def tasks(self) -> list[str]:
        """The tasks that it can be scored on."""
        return names_of_kind(self.kind)

    @abstractmethod
    def prepare(self, opened: BaselineTask, *arguments: Any, **options: Any) -> ReadyBaseline:
        """Load or train the baseline for a task; takes its own options."""

    def score(self, task: Task, output: ProtocolOutput, seconds: float) -> Scored:
        """Apply the task's metric; errors as in `measure`."""
        return measure(task, output, seconds)

    def __call__(
        self,
        task: str | Task,
        data: str | Path | None = None,
        *,
        split: str | None = None,
        device: str | None = None,
        output: str | Path | None = None,
        overwrite: bool = False,
        show_progress: bool = False,
        **options: Any,
    ) -> TaskResult:
        """Score the baseline on a task.

        Args:
            task: one of `tasks`, or a variant of one.
            data: folder of raw files, built folder or Hub id of the task's dataset; None uses the bundled
                samples, which are not a benchmark.
            split: the split to score; None uses the test split if there is one.
            device: a torch device; None uses an accelerator if there is one. Counts, event networks and BM25
                run on the CPU.
            output: folder under whose `results/` the result is written; None writes nothing.
            overwrite: replace a result on other rows.
            show_progress: draw a progress bar of long work on standard error.
            **options: the baseline's own arguments, which `prepare` describes.

        Returns:
            The result, with one prediction per row. Its load time includes the training.

        Raises:
            UnknownNameError: the task is unknown.
            DataFormatError: a raw file cannot be read.
            EventformersError: the baseline does not support the task, the data cannot be loaded or lacks the
                split, the folder cannot take the result, or `prepare` raises an error.
        """
        chosen = get_task(task)
        if chosen.name not in self.tasks:
            raise EventformersError(
                f"{self.name} does not support the task {shown(chosen.name)}; accepted: "
                f"{', '.join(self.tasks)}"
            )
        scored_data = load_data(chosen, data, split)
        usual = chosen.choose_split(scored_data.splits)
        split_name = "" if scored_data.split == usual else scored_data.split
        variant = "-".join(filter(None, (split_name, chosen.kind.settings.name)))
        record = describe_data(scored_data, data)
        opened = BaselineTask(
            chosen, data, scored_data, record, variant, device, output, overwrite, show_progress
        )
        ready = self.prepare(opened, **options)
        opened.check_place(ready.model, ready.revision)
        started = time.perf_counter()
        protocol_output = ready.run()
        result = make_result(
            chosen,
            record,
            self.score(chosen, protocol_output, time.perf_counter() - started),
            model=ready.model,
            model_revision=ready.revision,
            variant=variant,
            baseline_missing=NO_START,
            settings=ready.settings,
            truncated=ready.count_truncated(),
            seed=ready.seed,
            load_seconds=ready.load_seconds,
        )
        if output is not None:
            write_result(result, output, overwrite=overwrite)
        return result


def settings_revision(settings: dict[str, JsonValue], *others: str) -> str:
    """SHA-256 of settings and other facts: the revision of a model without stored weights."""
    content = json.dumps([settings, *others], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def require_library(name: str, what: str) -> None:
    """Raise an error that says how to install a library of the extra `baselines` if it is missing."""
    if importlib.util.find_spec(name.lower()) is None:
        raise EventformersError(
            f'{what} need {name}, which is not installed; run `pip install "eventformers[baselines]"`'
        )


_METRICS = ("mcnc", "multistep_inference")


@dataclass(frozen=True)
class Chance(Baseline):
    """The expected accuracy of choosing at random in a multiple-choice task, without drawing.

    A prediction is the probability of the correct choice of a row, or of each scored step of a chain.
    """

    @property
    def tasks(self) -> list[str]:
        """See `Baseline`."""
        return [task.name for task in TASKS.values() if task.metric in _METRICS]

    def prepare(self, opened: BaselineTask) -> ReadyBaseline:
        """See `Baseline`; takes no options."""
        task = opened.task

        def choices(row: Row, number: int) -> list[int]:
            """The number of choices of each scored decision of a row."""
            if not isinstance(task.kind, Chains):
                return [len(read_question(row, number)[0]) - 1]
            if task.metric == "mcnc":
                return [len(read_chain_question(row, number)[1])]
            return [len(of_step) for of_step in read_steps(row, number)[0][1:-1]]

        def run() -> ProtocolOutput:
            counts = [choices(row, number) for number, row in enumerate(opened.scored_data.rows)]
            chances = [[1 / count for count in of_row] for of_row in counts]
            return ProtocolOutput(
                inputs={"chances": chances},
                predictions=[{"chance": of_row[0] if len(of_row) == 1 else [*of_row]} for of_row in chances],
                texts=len(counts) + sum(map(sum, counts)),
                distinct_texts=0,
            )

        return ReadyBaseline("choice at random", "chance", run)

    def score(self, task: Task, output: ProtocolOutput, seconds: float) -> Scored:
        """Compute the mean chance of the decisions."""
        chances = list(chain.from_iterable(cast("list[list[float]]", output.inputs["chances"])))
        accuracy = 100 * sum(chances) / len(chances)
        return Scored({task.main_score: accuracy}, {}, accuracy, {}, output, seconds)
