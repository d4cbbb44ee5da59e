"""The commands that build datasets and publish. They only call the Python API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from eventformers.commands.options import (
    ExcludeSource,
    Json,
    Malformed,
    Output,
    Settings,
    console,
    errors,
    print_json,
)
from eventformers.errors import counted
from eventformers.terminal import counts_text

if TYPE_CHECKING:
    from eventformers.hub import Push
    from eventformers.publishing.plan import PushPlan


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


Collection = Annotated[
    str | None, typer.Option(metavar="TITLE", help="Collection to add to, created if absent.")
]
AcceptLicenses = Annotated[
    bool, typer.Option("--accept-licenses", help="Publish even if licences of the rows are not open.")
]

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def push(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="Folder of a run, a built dataset, an exploration or a metric, or the name of a metric of "
            "this package.",
        ),
    ],
    repo_id: Annotated[
        str, typer.Option("--repo-id", metavar="ORG/NAME", help="Repository; with --everything only ORG.")
    ],
    private: Annotated[bool, typer.Option("--private", help="Make new repositories private.")] = False,
    revision: Annotated[
        str | None, typer.Option(metavar="BRANCH", help="Branch to change, created if absent. Default: main.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Tag for the commit, such as v1.")] = None,
    message: Annotated[str | None, typer.Option(help="Title of the commit.")] = None,
    collection: Collection = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--everything", help="RUN is a folder of runs and built datasets; also push all metrics."
        ),
    ] = False,
    accept_licenses: AcceptLicenses = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that others wrote, or another model.")
    ] = False,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Further files of the folder to send. Repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the files that would be sent; send nothing.")
    ] = False,
) -> None:
    """Publish a model, a dataset, an exploration or a metric on the Hub; verify that it loads from there."""
    from eventformers.hub import push as run_push

    with errors.status("reading") as status:
        done = run_push(
            target,
            repo_id,
            everything=everything,
            private=private,
            revision=revision,
            tag=tag,
            message=message,
            collection=collection,
            accept_licenses=accept_licenses,
            overwrite=overwrite,
            include=include or (),
            dry_run=dry_run,
            tell=status.update,
        )
    show_push(done, collection)


def show_push(done: Push, collection: str | None) -> None:
    """Print the result of a push."""
    for pushed in done.repositories:
        plan = pushed.plan
        if done.is_dry_run:
            _show_files(plan)
        elif plan.is_done:
            console.print(f"{pushed.url} is up to date; nothing was sent.", soft_wrap=True)
        else:
            console.print(
                f"Pushed {_amount(plan)} to {pushed.url}, commit {pushed.commit}, and loaded it again.",
                soft_wrap=True,
            )
    if done.is_dry_run:
        console.print("Dry run: nothing was sent." + (f" Collection: {collection}." if collection else ""))
    elif done.collection is not None:
        console.print(f"Collection: {done.collection}", soft_wrap=True)


def _show_files(plan: PushPlan) -> None:
    """Print one line for each file, with the path last, so that no path is truncated."""
    state = "new" if plan.head is None else "exists"
    shown_to = "private" if plan.private else "public"
    lines = [f"{plan.address}, branch {plan.branch} ({state}, {shown_to})"]
    for each in plan.files:
        kept_as = "LFS" if each.large else "plain"
        lines.append(f"  {each.state:8}{each.size:>15,} bytes  {kept_as:7}{each.path}")
    lines += [f"  {'goes':8}{path}" for path in plan.deleted]
    lines += [f"  {'stays':8}{path}" for path in plan.kept]
    # A folder can hold thousands of local files, so they share one line.
    kept_back: Counter[tuple[str, str]] = Counter()
    for path, reason in plan.local.left_out.items():
        top, slash, _ = path.partition("/")
        kept_back[f"{top}{slash}", reason] += 1
    for (place, reason), number in kept_back.items():
        told = f"{place} ({counted(number, 'file')})" if place.endswith("/") else place
        lines.append(f"  {'unsent':8}{told}: {reason}")
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)
    console.print(f"Would send {_amount(plan)}." if not plan.is_done else "Nothing to send.")


def _amount(plan: PushPlan) -> str:
    number = len(plan.to_send)
    there = len(plan.files) - number
    told = f"{counted(number, 'file')} ({size_text(plan.bytes_to_send)})"
    return told + (f", {there} unchanged" if there else "")


def size_text(count: float) -> str:
    """Format a number of bytes with a unit."""
    for unit in _UNITS[:-1]:
        # Not `count < 1000`: 999,900 bytes with three digits would be 1e+03 kB.
        if round(count) < 1000:
            return f"{count:.3g} {unit}" if unit != "bytes" else f"{count} bytes"
        count /= 1000
    return f"{count:.3g} {_UNITS[-1]}"
