"""The command about tables of papers. It only calls the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eventformers.commands import options
from eventformers.commands.options import console


def reproduce(
    paper: Annotated[str, typer.Argument(help="Name of the paper; an unknown one lists all.")],
    table: Annotated[str, typer.Argument(help="The table, such as table2.")],
    output: options.Output = Path("reproductions"),
    recipe: Annotated[
        str | None, typer.Option(help="Recipe that the rows start from. Default: the paper's.")
    ] = None,
    data: options.RawData = None,
    malformed: options.Malformed = "error",
    evaluation_data: Annotated[
        str | None,
        typer.Option(help="Raw files of the evaluation tasks. Default: the bundled samples."),
    ] = None,
    encoder: options.Encoder = None,
    settings: options.Settings = None,
    seed: options.Seed = None,
    runs: Annotated[
        int | None,
        typer.Option(help="Number of runs of each row, with consecutive seeds. Default: the table's."),
    ] = None,
    rows: Annotated[
        list[str] | None, typer.Option("--row", help="Row to run, by its name. Default: all. Repeatable.")
    ] = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
) -> None:
    """Reproduce a table of a paper, reusing finished rows."""
    from eventformers.reproduction.planner import reproduce_table

    finished = reproduce_table(
        paper,
        table,
        output,
        recipe=recipe,
        data=data,
        evaluation_data=evaluation_data,
        encoder=encoder,
        settings=settings or [],
        seed=seed,
        runs=runs,
        device=device,
        dtype=dtype,
        malformed=malformed,
        rows=rows or (),
    )
    shown = Table(*finished.header, title=finished.title)
    for row in finished.rows:
        shown.add_row(*row)
    console.print(shown)
    console.print(f"Wrote {finished.path}.")
