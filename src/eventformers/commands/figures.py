"""The command that draws figures. It only calls the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eventformers.commands.options import Device, Malformed, RawData, console


def plot(
    run: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG or SVG file to write.")],
    data: RawData = None,
    malformed: Malformed = "error",
    events: Annotated[int, typer.Option(help="Number of events to draw.")] = 3000,
    device: Device = None,
) -> None:
    """Draw a model's events by prototype, or the losses and accuracies of a training run with stages."""
    from eventformers.plots.chains import plot_chain_training, reads_chains
    from eventformers.plots.prototypes import plot_prototypes

    if reads_chains(run):
        plot_chain_training(run, output, data=data, malformed=malformed)
        console.print(f"Wrote {output} and {output.with_suffix('.md')}.")
        return
    prototypes = plot_prototypes(
        run, output, data=data, num_events=events, device=device, malformed=malformed
    )
    table = Table("prototype", "events", "nearest events")
    for prototype in prototypes:
        table.add_row(str(prototype.index), str(prototype.size), "; ".join(prototype.nearest))
    console.print(table)
    console.print(f"Wrote {output} and {output.with_suffix('.md')}.")
