"""The commands that build datasets, publish, and release everything. They only call the Python API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from eventformers.commands import options
from eventformers.commands.options import console, errors, print_json
from eventformers.errors import counted
from eventformers.terminal import counts_text

if TYPE_CHECKING:
    from eventformers.hub import Push
    from eventformers.publishing.plan import PushPlan
    from eventformers.release.suite import ReleaseItem


def data_list(as_json: options.Json = False) -> None:
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
    output: options.Output,
    config: Annotated[
        list[str] | None, typer.Option(help="Config to build. Repeatable. Default: all.")
    ] = None,
    data_dir: Annotated[str | None, typer.Option(help="Folder of raw files. Default: the samples.")] = None,
    malformed: options.Malformed = "error",
    settings: options.Settings = None,
    exclude_source: options.ExcludeSource = None,
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
            f"{report['rows']:,}",
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


def release(
    owner: Annotated[str, typer.Argument(help="User or organization on the Hub.")],
    output: options.Output,
    data: Annotated[
        str | None,
        typer.Option(
            help="Folder with a subfolder of raw files for each dataset of `data list`. Default: the samples."
        ),
    ] = None,
    malformed: options.Malformed = "error",
    recipe: Annotated[
        str | None,
        typer.Option(help="A recipe of every method. Default: each method's own; demo for the samples."),
    ] = None,
    encoder: options.Encoder = None,
    settings: options.Settings = None,
    seed: options.Seed = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    public: Annotated[bool, typer.Option("--public", help="Make new repositories public.")] = False,
    collection: Collection = None,
    accept_licenses: AcceptLicenses = False,
    pretrained: Annotated[
        Path | None,
        typer.Option(help="Folder to write the models to in the form of the package; publishes these, too."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Build the datasets, show what would be trained and sent, and stop."),
    ] = False,
) -> None:
    """Build all datasets, train a model of each method, and publish everything; run again to continue."""
    from eventformers.release.suite import release as run_release

    done = run_release(
        owner,
        output,
        data=data,
        malformed=malformed,
        recipe=recipe,
        encoder=encoder,
        settings=settings or [],
        seed=seed,
        device=device,
        dtype=dtype,
        public=public,
        collection=collection,
        accept_licenses=accept_licenses,
        pretrained=pretrained,
        dry_run=dry_run,
        tell=lambda step: errors.print(f"push: {step}", soft_wrap=True, highlight=False),
    )
    numbers = [Column(name, justify="right") for name in ("size", "hours")]
    table = Table("repository", "kind", "licences", *numbers, "state")
    for item in done.items:
        state = "ready" if item.is_done else "to train" if item.kind == "model" else "to write"
        state = state if item.left_out is None else "left out"
        licenses = ", ".join(item.licenses)
        table.add_row(item.repo_id, item.kind, licenses, _size(item), _hours(item), state)
    console.print(table)
    kept = [item for item in done.items if item.left_out is None]
    unknown = [item.repo_id for item in kept if "?" in (_size(item), _hours(item))]
    total = size_text(sum(item.num_bytes or 0 for item in kept))
    number = "1 repository" if len(kept) == 1 else f"{len(kept)} repositories"
    console.print(
        f"{number}: {total}, {sum(item.hours or 0 for item in kept):.2f} hours of training"
        + (f", without {', '.join(unknown)}, whose size or time is unknown." if unknown else "."),
        soft_wrap=True,
    )
    for item in done.items:
        if item.left_out is not None:
            console.print(f"Left out: {item.repo_id}: {item.left_out}", soft_wrap=True)
    if done.push is None:
        console.print("Dry run: only the datasets were built; nothing was trained or sent.")
    else:
        show_push(done.push, collection)


def _size(item: ReleaseItem) -> str:
    if item.num_bytes is not None:
        return size_text(item.num_bytes)
    # The page of the leaderboard has a few kilobytes.
    return "?" if item.kind == "model" and item.left_out is None else ""


def _hours(item: ReleaseItem) -> str:
    if item.kind != "model" or item.left_out is not None:
        return ""
    return "?" if item.hours is None else f"{item.hours:.2f}"
