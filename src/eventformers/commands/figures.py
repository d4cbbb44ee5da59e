"""The command that draws figures. It only calls the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eventformers.commands import options
from eventformers.commands.options import console


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
        typer.Option("--mentions", help="Draw mentions of unseen types by a model of event type induction."),
    ] = False,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Type of mentions to draw. Default: all. Repeatable.")
    ] = None,
    device: options.Device = None,
) -> None:
    """Draw a model's events or mentions in two dimensions with names of their groups, or a training run."""
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
