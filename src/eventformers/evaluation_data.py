"""The data of an evaluation task: its splits, which of them is scored, and what a result records of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset, DatasetDict
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from eventformers.datasets_scripts.building import build_dataset, build_reports, load_built
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.errors import DataFormatError, EventformersError
from eventformers.results import DatasetRecord
from eventformers.tasks import TASKS, Task


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
