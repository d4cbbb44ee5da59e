"""The command that embeds a file of events. It only calls the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eventformers.commands import options
from eventformers.commands.options import batch_size_of, console, model_and_argument
from eventformers.errors import EventformersError, counted


def embed(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] FILE",
            help="The model, without --model, and the events: JSON lines, CSV, Parquet or plain text.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Parquet file to write.")],
    model: options.Model = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    devices: Annotated[
        str | None,
        typer.Option(help="Devices with one process each, such as cuda:0,cuda:1, instead of --device."),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Number of processes on the CPU, which share its threads.")
    ] = None,
    batch_size: options.BatchSize = "auto",
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale vectors to length 1.")] = False,
    precision: Annotated[
        str,
        typer.Option(
            metavar="float32|int8|uint8|binary|ubinary", help="Precision of the vectors that are written."
        ),
    ] = "float32",
    ranges: Annotated[
        Path | None,
        typer.Option(
            help="Vectors of embed whose ranges int8 and uint8 use, to compare both files. Default: the "
            "ranges of these vectors.",
        ),
    ] = None,
    prompt_name: Annotated[
        str, typer.Option(help="Kind of the texts, for the model's prompt: event, query or document.")
    ] = "event",
    truncate_dim: Annotated[
        int | None, typer.Option(help="Keep this many entries of each vector, at length 1 (Matryoshka).")
    ] = None,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Use ONNX Runtime; the first use exports the model.")
    ] = False,
    malformed: options.Malformed = "error",
) -> None:
    """Embed a file of events, in order, with their ids."""
    from eventformers.inference.encoding.event_files import embed_file

    chosen, file = model_and_argument(model, words, "FILE")
    if devices is not None and processes is not None:
        raise EventformersError("received --devices and --processes; accepted: one of them")
    named = [one.strip() for one in devices.split(",")] if devices is not None else None
    report = embed_file(
        chosen,
        file,
        output,
        device=device,
        dtype=dtype,
        devices=["cpu"] * processes if processes is not None else named,
        batch_size=batch_size_of(batch_size),
        normalize=normalize,
        prompt_name=prompt_name,
        truncate_dim=truncate_dim,
        show_progress=True,
        onnx=onnx,
        malformed=malformed,
        precision=precision,
        ranges=ranges,
    )
    kind = "vector" if precision == "float32" else f"{precision} vector"
    console.print(f"Wrote {counted(report.rows, kind)} of size {report.dimension} to {output}.")
