"""Load the data of evaluation tasks, choose the scored split, and describe it for results; plan the scores of
a training run, never on rows that it trains on."""

from __future__ import annotations

import logging
import os
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from datasets import Dataset, DatasetDict
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from eventformers.datasets_scripts.fingerprints import joint_fingerprint
from eventformers.datasets_scripts.loading import SAMPLES, check_data, without_samples
from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.errors import DataFormatError, EventformersError, shown
from eventformers.evaluation.results import DatasetRecord
from eventformers.evaluation.session import BuiltData, DataStore
from eventformers.evaluation.tasks import TASKS, Task, get_task
from eventformers.evaluation.tasks.base import TaskRows
from eventformers.methods import load_method
from eventformers.trainers.recipes import Recipe
from eventformers.trainers.stages import stage_recipes


@takes_malformed
def tasks_of_data(
    data: str | Path | None, *, store: DataStore | None = None, malformed: str | None = None
) -> list[str]:
    """List the tasks, at least one, that raw files, a built folder or a Hub id has rows for.

    Args:
        store: caches the loaded data; None caches nothing.
    """
    names = []
    for name, task in TASKS.items():
        try:
            load_task_data(task, data, store)
        except DataFormatError:
            raise
        except EventformersError:
            continue
        names.append(name)
    if not names:
        raise EventformersError(f"{data}: no rows for any task; accepted: data of {', '.join(TASKS)}")
    return names


@dataclass(frozen=True)
class TaskData:
    """The data that a task reads, with that of its companion configs; `split` is empty if none is chosen
    yet."""

    task: Task
    config: str
    built: BuiltData
    companions: Mapping[str, BuiltData] = field(default_factory=dict)
    split: str = ""

    @property
    def splits(self) -> DatasetDict:
        """All splits of the config."""
        return self.built.splits

    @property
    def rows(self) -> Dataset:
        """The rows of the scored split."""
        return self.splits[self.split]

    @property
    def clusters(self) -> list[Hashable] | None:
        """The cluster of each row of the scored split; None without the task's cluster column."""
        column = self.task.cluster_column
        if column not in self.rows.column_names:
            return None
        return [tuple(value) if isinstance(value, list) else value for value in self.rows[column]]

    @property
    def other_splits(self) -> dict[str, Dataset]:
        """The other splits by name."""
        return {name: rows for name, rows in self.splits.items() if name != self.split}

    @property
    def companion_rows(self) -> dict[str, Dataset]:
        """The rows of the companion configs that the score reads; one without the split is an error."""
        rows = {}
        for name, companion in self.companions.items():
            if name not in self.task.companions_by_split:
                rows[name] = companion.all_rows
            elif self.split in companion.splits:
                rows[name] = companion.splits[self.split]
            else:
                raise EventformersError(
                    f"{name}: found the splits {', '.join(companion.splits)}; accepted: data with the scored "
                    f"split {shown(self.split)}"
                )
        return rows

    @property
    def task_rows(self) -> TaskRows:
        """The rows that the score reads; errors as in `companion_rows`."""
        return TaskRows(self.rows, self.other_splits, self.companion_rows, self.split)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all rows that decide the score.

        These are the scored rows (for a ranking in a graph, the rows of every split), the rows that a
        threshold is chosen on, and the rows of the companion configs.
        """
        built, kind, split = self.built, self.task.kind, self.split
        if kind.reads_all_splits:
            prints = {split: built.fingerprint(self.splits, "")}
        else:
            prints = {split: built.fingerprint(self.rows, split)}
        for name, rows in self.companion_rows.items():
            part = split if name in self.task.companions_by_split else "all rows"
            prints[name] = self.companions[name].fingerprint(rows, part)
        development = kind.development_split
        if development != split and development in self.splits:
            prints[development] = built.fingerprint(self.splits[development], development)
        return prints[split] if len(prints) == 1 else joint_fingerprint(prints)


def load_task_data(task: Task, data: str | Path | None, store: DataStore | None = None) -> TaskData:
    """Load the data of a task, from the first of its configs that the data has.

    Args:
        data: raw files, a built folder or a Hub id; None or `samples` takes the samples.
        store: caches the loaded data; None caches nothing.

    Raises:
        DataFormatError: a raw file cannot be read.
        EventformersError: the data has none of the task's configs, or lacks a companion config.
    """
    data = without_samples(data)
    held = store or DataStore()
    settings = task.sample_settings if data is None else task.build_settings
    missing: EventformersError | None = None
    for config in (task.config, *task.other_configs):
        try:
            built = held.load(data, task.dataset, config, {**settings, **task.kind.data_settings})
        except DataFormatError:
            raise
        except EventformersError as error:
            # The error names the task's main config, not the last alternative.
            missing = missing or error
            continue
        chosen = {**({} if data is None else task.build_settings), **task.kind.data_settings}
        companions = {
            name: held.load(data, task.dataset, name, chosen)
            for name in (*task.companions, *task.companions_by_split)
        }
        stated = built.report.get("settings") if data is not None and task.kind.data_settings else None
        stated = stated if isinstance(stated, Mapping) else {}
        other = {name: value for name, value in task.kind.data_settings.items() if stated.get(name) != value}
        if data is not None and other:
            # Settings that choose rows would be ignored, but named in the result.
            found = ", ".join(f"{name}={shown(stated[name])}" for name in other if name in stated)
            asked = ", ".join(f"{name}={value}" for name, value in other.items())
            raise EventformersError(
                f"{data}: found data built {f'with {found}' if found else 'with unknown settings'}; accepted "
                f"for {asked}: raw files, or data built with it"
            )
        return TaskData(task, config, built, companions)
    raise cast(EventformersError, missing)


def load_data(
    task: Task, data: str | Path | None, split: str | None, store: DataStore | None = None
) -> TaskData:
    """Load the data of a task and choose the split to score, which needs rows; arguments as for
    `load_task_data`."""
    held = load_task_data(task, data, store)
    loaded = replace(held, split=task.choose_split(held.splits, split))
    if not len(loaded.rows):
        raise EventformersError(f"{data}: the split {shown(loaded.split)} of {held.config} has no rows")
    return loaded


def describe_data(held: TaskData, data: str | Path | None) -> DatasetRecord:
    """Describe the scored rows for a result."""
    data = without_samples(data)
    is_local = data is None or os.pathsep in str(data) or Path(data).expanduser().exists()
    hub_id = None if is_local else str(data)
    reports: list[Mapping[str, Any]]
    reports = [{} if hub_id else one.report for one in (held.built, *held.companions.values())]
    report = reports[0]
    rows = held.rows
    licenses = report.get("licenses") or (rows.unique("license") if "license" in rows.column_names else [])
    revision = None
    if hub_id:
        # The commit of the dataset or of its cached copy.
        with suppress(HfHubHTTPError, HFValidationError, OSError):
            revision = Path(hf_hub_download(hub_id, "README.md", repo_type="dataset")).parent.name
    skipped = [one["malformed"] for one in reports if isinstance(one.get("malformed"), Mapping)]
    return DatasetRecord(
        name=held.task.dataset,
        config=held.config,
        split=held.split,
        rows=held.task.kind.count(rows),
        fingerprint=held.fingerprint,
        origin="hub" if hub_id else "samples" if report.get("sample") else "local",
        hub_id=hub_id,
        revision=revision,
        licenses=sorted(map(str, licenses)) if isinstance(licenses, list) else [],
        malformed=sum(int(one["count"]) for one in skipped),
    )


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScoredTasks:
    """The tasks and data that a finished run is scored on: no tasks if the data has rows for none; None for
    the bundled samples."""

    tasks: Sequence[Task]
    data: str | Path | None


def plan_evaluation(
    recipe: Recipe,
    data: str | Path | None,
    evaluation_data: str | Path | None,
    tasks: Sequence[str | Task] | None = None,
    store: DataStore | None = None,
) -> ScoredTasks:
    """Choose the tasks and data of a run, and load them, so that errors show before the training.

    Args:
        data: the training data; None for the bundled samples.
        evaluation_data: the data to score on: raw files, a built folder, a Hub id or `samples`; None takes
            the held-out splits of `data`.
        tasks: the tasks; None takes those of the recipe that have rows, and logs those without.
        store: caches the loaded data for the scores; None caches nothing.

    Raises:
        DataFormatError: a raw file cannot be read.
        EventformersError: the given tasks or evaluation data have no rows.
    """
    scored = data if evaluation_data is None else None if evaluation_data == SAMPLES else evaluation_data
    check_data(scored)
    method = load_method(recipe.method)
    chosen = [get_task(name) for name in (method.tasks_of(recipe) if tasks is None else tasks)]
    trained_on = evaluation_data is None or (data is not None and str(scored) == str(data))
    if tasks is None and trained_on:
        chosen = [_as_trained(recipe, task) for task in chosen]
    missing: dict[str, EventformersError] = {}
    for task in chosen:
        try:
            load_data(task, scored, None, store)
        except DataFormatError:
            raise
        except EventformersError as error:
            if tasks is not None:
                raise
            missing[task.name] = error
    with_rows = [task for task in chosen if task.name not in missing]
    if not with_rows and missing and evaluation_data is not None:
        raise next(iter(missing.values()))
    if not with_rows and missing:
        logger.warning(
            "not scored: %s has no held-out rows of %s; use --evaluation-data with other data, or samples",
            *("the bundled samples" if data is None else data, ", ".join(missing)),
        )
    elif missing:
        logger.warning("not scored, since the evaluation data has no rows: %s", ", ".join(missing))
    return ScoredTasks(with_rows, scored)


def _as_trained(recipe: Recipe, task: Task) -> Task:
    """Give a task the config and data settings of a run: with others, a scored split could contain training
    rows."""
    method = load_method(recipe.method)
    if method.dataset[0] != task.dataset:
        return replace(task, build_settings={})
    found: list[Mapping[str, object]] = []
    for stage in stage_recipes(recipe):
        _, configs, settings = method.training_dataset(stage)
        for config in set(configs) & set(task.other_configs):
            task = replace(task, config=config, other_configs=())
        if settings not in found:
            found.append(settings)
    if len(found) > 1:
        raise EventformersError(
            "the stages of the recipe have different data settings, so no rows are held out of all; "
            "accepted: --evaluation-data with other data, or samples"
        )
    return replace(task, build_settings=found[0], sample_settings=found[0])
