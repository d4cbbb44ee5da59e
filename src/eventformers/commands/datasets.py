"""The commands that list and build datasets. They only call the Python API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.table import Table

from eventformers.commands.options import (
    ExcludeSource,
    Json,
    Malformed,
    Output,
    Settings,
    console,
    print_json,
)
from eventformers.terminal import counts_text


def data_list(as_json: Json = False) -> None:
    """List the datasets that can be built, their configs, columns and raw files."""
    from eventformers.datasets_scripts import list_datasets

    if as_json:
        print_json(list_datasets())
        return
    table = Table("name", "config", "columns", "raw files")
    for entry in list_datasets():
        table.add_row(entry["name"], entry["config"], ", ".join(entry["columns"]), entry["raw_files"])
    console.print(table)


def data_build(
    name: Annotated[str, typer.Argument(help="A name that `eventformers data list` shows.")],
    output: Output,
    config: Annotated[
        list[str] | None, typer.Option(help="Config to build. Repeatable. Default: all.")
    ] = None,
    data_dir: Annotated[str | None, typer.Option(help="Folder of raw files. Default: the samples.")] = None,
    malformed: Malformed = "error",
    settings: Settings = None,
    exclude_source: ExcludeSource = None,
) -> None:
    """Build a dataset as Parquet files with a README, readable by `load_dataset`."""
    from eventformers.datasets_scripts import build_reports
    from eventformers.publishing.dataset_building import build_dataset
    from eventformers.trainers.recipes import read_settings

    chosen = {"malformed": malformed, **read_settings(settings or [])}
    if exclude_source:
        chosen["exclude_source"] = tuple(exclude_source)
    folder = build_dataset(name, config, data_dir, output, **chosen)
    table = Table("config", "rows", "read", "skipped", "licences")
    reports: Mapping[str, Mapping[str, Any]] = build_reports(folder)
    for config_name, report in reports.items():
        table.add_row(
            config_name,
            str(report["rows"]),
            counts_text(report["read"]),
            counts_text(report["skipped"]),
            ", ".join(report["licenses"]),
        )
    console.print(table)
    console.print(f"Wrote {folder}. Load it with load_dataset({str(folder)!r}, CONFIG).")
