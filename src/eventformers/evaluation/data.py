"""The data of an evaluation task: its splits, which of them is scored, and what a result records of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from datasets import Dataset, DatasetDict, concatenate_datasets
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from eventformers.datasets_scripts.building import build_dataset, build_reports, load_built
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint, joint_fingerprint
from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.errors import DataFormatError, EventformersError, shown
from eventformers.evaluation.results import DatasetRecord
from eventformers.evaluation.tasks import TASKS, Task
from eventformers.evaluation.tasks.induction_protocols import unseen_rows


@takes_malformed
def tasks_of_data(data: str | Path | None, *, malformed: str | None = None) -> list[str]:
    """The tasks whose rows a folder of raw files, a built folder or a Hub dataset holds.

    Args:
        data: the data.
        malformed: `skip` leaves out malformed parts of raw files, counts and lists them; `error` raises for
            the first one; None takes the policy in force, `error` where nothing else was set.

    Raises:
        DataFormatError: a raw file cannot be read.
        EventformersError: it holds the rows of no task.
    """
    names = []
    for name, task in TASKS.items():
        try:
            load_task_data(task, data)
        except DataFormatError:
            raise
        except EventformersError:
            continue
        names.append(name)
    if not names:
        raise EventformersError(f"{data}: holds the rows of no task; accepted: data of {', '.join(TASKS)}")
    return names


@dataclass(frozen=True)
class TaskData:
    """What a task's data hold for it.

    Attributes:
        config: the config of the dataset builder that they have.
        splits: its splits.
        companions: the splits of the task's companion configs by name.
    """

    config: str
    splits: DatasetDict
    companions: Mapping[str, DatasetDict] = field(default_factory=dict)

    def companion_rows(self, task: Task, split: str) -> dict[str, Dataset]:
        """The rows of the companion configs that a score on a split reads.

        Raises:
            EventformersError: one of them lacks the split.
        """
        rows = {}
        for name, splits in self.companions.items():
            if name not in task.companions_by_split:
                rows[name] = concatenate_datasets(list(splits.values()))
            elif split in splits:
                rows[name] = splits[split]
            else:
                raise EventformersError(
                    f"{name}: found the splits {', '.join(splits)}; accepted: data with {shown(split)}, "
                    "which is scored"
                )
        return rows

    def fingerprint(self, task: Task, split: str) -> str:
        """SHA-256 of all that decides the score: the rows, for a ranking in a graph those of every split,
        those that a threshold is chosen on, and those of the companions."""
        prints = {split: dataset_fingerprint(self.splits if task.ranks_in_graph else self.splits[split])}
        for name, rows in self.companion_rows(task, split).items():
            prints[name] = dataset_fingerprint(rows)
        development = task.development_split
        if development != split and development in self.splits:
            prints[development] = dataset_fingerprint(self.splits[development])
        return prints[split] if len(prints) == 1 else joint_fingerprint(prints)


def load_task_data(task: Task, data: str | Path | None) -> TaskData:
    """Load what a task reads, from the first of its configs that the data have.

    Args:
        task: the task.
        data: raw files, a built folder or a Hub id; None takes the samples.

    Raises:
        DataFormatError: a raw file cannot be read.
        EventformersError: the data have none of its configs, or lack the companion's.
    """
    missing: EventformersError | None = None
    for config in (task.config, *task.other_configs):
        try:
            splits = load_built(data, config, builder=task.dataset, **_settings(task, data))
        except DataFormatError:
            raise
        except EventformersError as error:
            # The usual config is what a user expects to be asked for.
            missing = missing or error
            continue
        names = (*task.companions, *task.companions_by_split)
        chosen = {**({} if data is None else task.build_settings), **_chosen_settings(task)}
        companions = {name: load_built(data, name, builder=task.dataset, **chosen) for name in names}
        return TaskData(config, splits, companions)
    raise cast(EventformersError, missing)


@dataclass(frozen=True)
class ScoredData:
    """What a task reads, and which of its splits is scored."""

    held: TaskData
    split: str

    @property
    def rows(self) -> Dataset:
        """The rows of the scored split."""
        return self.splits[self.split]

    @property
    def splits(self) -> DatasetDict:
        """All splits."""
        return self.held.splits

    def companion_rows(self, task: Task) -> dict[str, Dataset]:
        """The rows of the companion configs that the task reads; errors as of `TaskData.companion_rows`."""
        return self.held.companion_rows(task, self.split)

    @property
    def other_splits(self) -> dict[str, Dataset]:
        """The other splits by name."""
        return {name: rows for name, rows in self.splits.items() if name != self.split}


def load_data(task: Task, data: str | Path | None, split: str | None) -> ScoredData:
    """What a task reads, with the split to score chosen.

    Raises:
        DataFormatError: a raw file cannot be read.
        EventformersError: the data cannot be loaded, or the split is not there or has no rows.
    """
    held = load_task_data(task, data)
    loaded = ScoredData(held, task.choose_split(held.splits, split))
    if not len(loaded.rows):
        raise EventformersError(f"{data}: the split {shown(loaded.split)} of {held.config} has no rows")
    return loaded


def describe_data(task: Task, scored_data: ScoredData, data: str | Path | None) -> DatasetRecord:
    """The record of the rows that are scored, for a result."""
    is_local = data is None or os.pathsep in str(data) or Path(data).expanduser().exists()
    hub_id = None if is_local else str(data)
    config = scored_data.held.config
    report = {} if hub_id else _build_report(task, config, data)
    companions = [] if hub_id else [_build_report(task, name, data) for name in scored_data.held.companions]
    rows = scored_data.rows
    licenses = report.get("licenses") or (rows.unique("license") if "license" in rows.column_names else [])
    return DatasetRecord(
        name=task.dataset,
        config=config,
        split=scored_data.split,
        rows=len(rows) if task.induction_settings is None else len(unseen_rows(rows)),
        fingerprint=scored_data.held.fingerprint(task, scored_data.split),
        origin="hub" if hub_id else "samples" if report.get("sample") else "local",
        hub_id=hub_id,
        revision=_hub_commit(hub_id) if hub_id else None,
        licenses=sorted(map(str, licenses)) if isinstance(licenses, list) else [],
        malformed=sum(_num_malformed(one) for one in (report, *companions)),
    )


def _num_malformed(report: Mapping[str, object]) -> int:
    """How many malformed parts a build left out; 0 where its report tells of none."""
    listed = report.get("malformed")
    return int(listed["count"]) if isinstance(listed, Mapping) else 0


def _settings(task: Task, data: str | Path | None) -> Mapping[str, Any]:
    """The builder's settings: its defaults, but for those of the task and what is chosen."""
    return {**(task.sample_settings if data is None else task.build_settings), **_chosen_settings(task)}


def _chosen_settings(task: Task) -> Mapping[str, Any]:
    """The builder's settings that are chosen for the evaluation."""
    return {} if task.grounding_settings is None else task.grounding_settings.of_data


def _build_report(task: Task, config: str, data: str | Path | None) -> Mapping[str, object]:
    """What the build said of the rows; empty for a built folder whose report was left behind."""
    if data is not None and (report := build_reports(data).get(config)):
        return report
    try:
        # The rows are loaded, so this finds them in the cache.
        folder = build_dataset(task.dataset, config, data, **_settings(task, data))
    except EventformersError:
        return {}
    return build_reports(folder)[config]


def _hub_commit(hub_id: str) -> str | None:
    """The commit of a dataset on the Hub, or of its copy in the cache; None where neither can be had."""
    try:
        return Path(hf_hub_download(hub_id, "README.md", repo_type="dataset")).parent.name
    except (HfHubHTTPError, HFValidationError, OSError):
        return None
