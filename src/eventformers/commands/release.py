"""The command that releases everything. It only calls the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from eventformers.commands import options
from eventformers.commands.hub import AcceptLicenses, Collection, show_push, size_text
from eventformers.commands.options import console, errors

if TYPE_CHECKING:
    from eventformers.release.suite import ReleaseItem


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
