"""The commands that make the tables and figures of papers. They only call the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eventformers.commands import options
from eventformers.commands.options import console
from eventformers.errors import EventformersError


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


def plot(
    run: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG or SVG file to write.")],
    data: options.RawData = None,
    malformed: options.Malformed = "error",
    events: Annotated[int, typer.Option(help="Number of events to draw.")] = 3000,
    training: Annotated[
        bool,
        typer.Option("--training", help="Draw the losses and accuracies of a training run with stages."),
    ] = False,
    pca: Annotated[
        bool, typer.Option("--pca", help="Place events by principal components instead of t-SNE.")
    ] = False,
    beside: Annotated[
        Path | None, typer.Option(help="Another model, which places the same events in a second panel.")
    ] = None,
    mentions: Annotated[
        bool,
        typer.Option(
            "--mentions", help="Draw mentions of unseen types in --data by a model of event type induction."
        ),
    ] = False,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Type of mentions to draw. Default: all. Repeatable.")
    ] = None,
    device: options.Device = None,
) -> None:
    """Draw a model's events or mentions in two dimensions with names of their groups, or a training run."""
    if run.is_file():
        raise EventformersError(f"{run}: a file; accepted: the folder of a model as RUN, and data as --data")
    if mentions:
        from eventformers.plots.events import plot_mentions

        plot_mentions(run, output, data=data, types=types or (), device=device, malformed=malformed)
    elif training:
        from eventformers.plots.figures import plot_chain_training

        plot_chain_training(run, output, data=data, malformed=malformed)
    else:
        from eventformers.plots.events import plot_events

        groups = plot_events(
            run,
            output,
            data=data,
            num_events=events,
            by="pca" if pca else "tsne",
            beside=beside,
            device=device,
            malformed=malformed,
        )
        table = Table("group", "events", "nearest events")
        for group in groups:
            table.add_row(group.name, str(group.size), "; ".join(group.nearest))
        console.print(table)
    console.print(f"Wrote {output} and {output.with_suffix('.md')}.", soft_wrap=True)
