"""What the commands share: consoles, options and small texts. It imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from eventformers.errors import EventformersError, shown

# Paths, ids and titles may hold brackets, which are no markup.
console = Console(markup=False)
errors = Console(stderr=True, markup=False)

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")]
RawData = Annotated[
    str | None,
    typer.Option("--data", help="Raw files, a built dataset or a Hub id; without it the bundled samples."),
]
Malformed = Annotated[
    str,
    typer.Option(
        "--malformed",
        metavar="error|skip",
        help="Malformed parts of raw files: stop at the first, or leave them out, count and list them.",
    ),
]
EvaluationData = Annotated[
    str | None,
    typer.Option(
        "--evaluation-data",
        help="Raw files of the evaluation tasks, or samples; without it the held-out splits of --data.",
    ),
]
Encoder = Annotated[
    str | None, typer.Option("--encoder", help="Hub id or folder; without it the packaged all-MiniLM-L6-v2.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; repeatable.")
]
ExcludeSource = Annotated[
    list[str] | None, typer.Option("--exclude-source", help="Leave a source of the data out; repeatable.")
]
Device = Annotated[str | None, typer.Option("--device", help="cpu or cuda; without it an accelerator.")]
Dtype = Annotated[str | None, typer.Option("--dtype", help="float32, bfloat16 or float16.")]
BatchSize = Annotated[str, typer.Option("--batch-size", help="Texts in a batch, or auto.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Without it the recipe's, or one that is drawn.")]
Rerank = Annotated[
    bool, typer.Option("--rerank", help="Let the nearest known premises vote; for ranking in a graph.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]


def counts_text(counts: Mapping[str, int]) -> str:
    """Counts by name, as a cell of a table."""
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()) or "none"


def batch_size_of(text: str) -> int | Literal["auto"]:
    """The value of `--batch-size`.

    Raises:
        EventformersError: it is neither auto nor a number above 0.
    """
    if text == "auto":
        return "auto"
    if text.isdigit() and int(text) > 0:
        return int(text)
    raise EventformersError(
        f"--batch-size: received {shown(text)}; accepted: auto or an integer of at least 1"
    )
