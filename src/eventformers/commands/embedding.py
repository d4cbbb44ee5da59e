"""The command that embeds a file of events. It only calls the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eventformers.commands.options import BatchSize, Device, Dtype, Malformed, batch_size_of, console


def embed(
    model: Annotated[str, typer.Argument(help="Folder or Hub id of a model.")],
    file: Annotated[Path, typer.Argument(help="Events: JSON lines, CSV, Parquet or plain text.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Parquet file to write.")],
    device: Device = None,
    dtype: Dtype = None,
    batch_size: BatchSize = "auto",
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale vectors to length 1.")] = False,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Use ONNX Runtime; the first use exports the model.")
    ] = False,
    malformed: Malformed = "error",
) -> None:
    """Embed a file of events, in order, with their ids."""
    from eventformers.inference.encoding.event_files import embed_file

    report = embed_file(
        model,
        file,
        output,
        device=device,
        dtype=dtype,
        batch_size=batch_size_of(batch_size),
        normalize=normalize,
        show_progress=True,
        onnx=onnx,
        malformed=malformed,
    )
    console.print(f"Wrote {report.rows} vectors of size {report.dimension} to {output}.")
