"""Dataset building with the file that marks a benchmark on the Hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from eventformers.datasets_scripts import building
from eventformers.datasets_scripts.reading.lines import DataDir
from eventformers.evaluation.tasks import TASKS

BENCHMARK_FILE = "eval.yaml"
FRAMEWORK = "eventformers"
"""The Hub's name for the program that scores the tasks."""


def build_dataset(
    name: str,
    config: str | Sequence[str] | None = None,
    data_dir: DataDir | None = None,
    output: str | Path | None = None,
    **settings: object,
) -> Path:
    """Build a dataset in a folder that `load_dataset` reads, with `eval.yaml` if tasks score its rows.

    Args:
        name: a name of `eventformers data list`.
        config: one config, or several; None builds every config that has raw files and skips one with an
            empty split, with a warning.
        data_dir: folder or file with the raw data, or several, as a list or as one text joined with the path
            separator of the system; None uses the bundled samples.
        output: the folder to write; None uses one in the cache of `datasets`, which gets no `eval.yaml`.
        **settings: settings of the builder, such as `window=20`; for all builders, `malformed="skip"`, which
            skips malformed parts of the raw files, counts them and lists them in the report.

    Returns:
        The folder.

    Raises:
        UnknownNameError: an unknown builder, config or setting.
        DataFormatError: a raw file cannot be read; names file and line.
        EventformersError: there is no raw file, or the folder cannot be written.
    """
    more = None if output is None else benchmark_file
    return building.build_dataset(name, config, data_dir, output, more_files=more, **settings)


def benchmark_file(reports: building.Reports) -> dict[str, str]:
    """Build `eval.yaml`, the Hub's file that names the tasks that score the rows of a built dataset.

    The bundled samples are not a benchmark and get none.

    Returns:
        The text by the name of the file; empty if no task scores the rows.
    """
    measured = {config: report for config, report in reports.items() if not report["sample"]}
    entries = []
    for task in TASKS.values():
        configs = [
            config
            for config in (task.config, *task.other_configs)
            if config in measured and measured[config]["builder"] == task.dataset
        ]
        if configs and {*task.companions, *task.companions_by_split} <= measured.keys():
            held = measured[configs[0]]["splits"]
            if splits := [split for split in task.splits if isinstance(held, Mapping) and split in held]:
                entries.append({"id": task.name, "config": configs[0], "split": splits[0]})
    if not entries:
        return {}
    builder = building.BUILDERS[str(next(iter(measured.values()))["builder"])]
    content = {
        "name": builder.TITLE,
        "description": builder.SUMMARY,
        "evaluation_framework": FRAMEWORK,
        "tasks": entries,
    }
    return {BENCHMARK_FILE: yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)}
