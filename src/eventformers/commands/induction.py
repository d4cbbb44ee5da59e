"""The command about event types. It only calls the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eventformers.commands import options
from eventformers.commands.options import batch_size_of, console, errors, events_of_texts
from eventformers.terminal import counts_text


def induce(
    file: Annotated[
        Path,
        typer.Argument(
            help="Mentions: JSON lines, plain text with one sentence a line, a folder that extract or "
            "explore wrote, or a built dataset; with --pipeline, raw texts."
        ),
    ],
    output: options.Output,
    pipeline: options.TextPipeline = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Folder or Hub id; repeat it for an ensemble. Default: the packaged all-MiniLM-L6-v2."
        ),
    ] = None,
    num_clusters: Annotated[
        int | None, typer.Option(help="Number of types. Default: the number with the best silhouette.")
    ] = None,
    names: Annotated[
        Path | None,
        typer.Option(help="File with one candidate name a line. Default: triggers name the types."),
    ] = None,
    frames: Annotated[
        str | None,
        typer.Option(help="Frames to link to: JSON lines, FrameNet's folder, a built dataset or a Hub id."),
    ] = None,
    malformed: options.Malformed = "error",
    method: Annotated[
        str, typer.Option(help="agglomerative, or affinity, which finds the number of types.")
    ] = "agglomerative",
    distance: Annotated[
        str, typer.Option(help="encoder; or cosine or dot of a trained model's queries and keys.")
    ] = "encoder",
    manifold: Annotated[
        bool | None,
        typer.Option("--manifold/--no-manifold", help="Cluster by manifold weights or by distances."),
    ] = None,
    trigger_input: Annotated[
        str | None,
        typer.Option(help="What a plain encoder reads: span (the trigger's tokens) or none (the sentence)."),
    ] = None,
    weighting_rounds: Annotated[
        int | None,
        typer.Option(
            help="How often to cluster again, with words weighted by the last clusters. Default: the "
            "model's own number."
        ),
    ] = None,
    top: Annotated[int, typer.Option(help="Number of names and frames for each type.")] = 5,
    examples: Annotated[int, typer.Option(help="Number of examples for each type.")] = 5,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_size: options.BatchSize = "auto",
    overwrite: options.Overwrite = False,
) -> None:
    """Find event types among mentions, name them, link them to frames; write tables and an HTML report."""
    from eventformers.files import output_folder
    from eventformers.inference.induction.induce import induce as run_induction
    from eventformers.inference.induction.report import check_free, write_induction

    with output_folder(output):
        check_free(output, overwrite=overwrite)
        with events_of_texts(file, pipeline, malformed) as mentions:
            found = run_induction(
                list(model) if model else None,
                mentions,
                num_clusters=num_clusters,
                method=method,  # type: ignore[arg-type]
                distance=distance,  # type: ignore[arg-type]
                manifold=manifold,
                names=names,
                frames=frames,
                trigger_input=trigger_input,  # type: ignore[arg-type]
                weighting_rounds=weighting_rounds,
                top=top,
                examples=examples,
                batch_size=batch_size_of(batch_size),
                device=device,
                dtype=dtype,
                show_progress=True,
                malformed=malformed,
            )
        with errors.status("drawing the map and writing"):
            files = write_induction(found, output, overwrite=overwrite)
    columns = {
        "type": [induced.name for induced in found.types],
        "mentions": [f"{induced.size:,}" for induced in found.types],
        "nearest frame": [induced.frames[0].label if induced.frames else "" for induced in found.types],
        "majority type": [induced.majority_type for induced in found.types],
        "purity": ["" if induced.purity is None else f"{induced.purity:.1f}" for induced in found.types],
        "weak": [induced.weak for induced in found.types],
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    table = Table(*columns)
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*(cell or "-" for cell in cells))
    console.print(table)
    console.print(counts_text(found.counts))
    if neighbours := found.settings["num_neighbours"]:
        console.print(f"Of so many mentions, only the {neighbours} largest weights of each count.")
    console.print(f"Wrote {', '.join(map(str, files))}.", soft_wrap=True)
