"""Consoles, options and helpers of the commands. Imports nothing slow."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from eventformers.errors import EventformersError, shown
from eventformers.loading.encoders import PACKAGED_ENCODER
from eventformers.terminal import counts_text, visible, visible_json

WIDTH_WITHOUT_TERMINAL = 10_000
"""Number of columns of output to a pipe or a file: a program reads whole rows."""


class _PlainConsole(Console):
    """A console that prints text as it is: no markup, no emoji codes, and control characters made visible."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Convert a text, also that of a table's cell, before it is measured."""
        return super().render_str(visible(text), **settings)


console = _PlainConsole(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
errors = _PlainConsole(stderr=True)

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")]
RawData = Annotated[
    str | None,
    typer.Option("--data", help="Raw files, a built dataset or a Hub id. Default: the bundled samples."),
]
Malformed = Annotated[
    str,
    typer.Option(
        "--malformed",
        metavar="error|skip",
        help="Malformed parts of raw files: stop with an error, or skip, count and list them.",
    ),
]
Pipeline = Annotated[
    str | None, typer.Option(help="Name or folder of a spaCy pipeline. Default: the packaged English one.")
]
Triggers = Annotated[
    str,
    typer.Option(
        help="Words that name events: all (verbs, nouns, adjectives), sure (no doubtful nouns), or verbs."
    ),
]
License = Annotated[str | None, typer.Option("--license", help="Licence of texts without one.")]
Processes = Annotated[int, typer.Option(help="Number of parsing processes.")]
Actors = Annotated[
    Path | None, typer.Option(help="Names of your own, before the rules: a CSV of alias, name, kind.")
]
MinChainLength = Annotated[int, typer.Option(help="Minimum number of distinct events of a chain.")]
FileFormat = Annotated[
    str | None,
    typer.Option("--format", help="Also write a wide table, a row an event: csv, csv-bom, xlsx or parquet."),
]
Factuality = Annotated[
    list[str] | None,
    typer.Option(
        help="Kind of events that chains and counts have: fact, negated, possible, reported or all. "
        "Default: all; of explore: fact. Repeatable."
    ),
]
TextColumn = Annotated[
    str | None,
    typer.Option("--text-column", help="Column of the text in tables and JSON lines. Default: text."),
]
IdColumn = Annotated[
    str | None,
    typer.Option("--id-column", help="Column of the id. Default: id or document_id, if any."),
]
EvaluationData = Annotated[
    str | None,
    typer.Option(
        "--evaluation-data",
        help="Raw files of the evaluation tasks, or samples. Default: the held-out splits of --data.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Folder or Hub id of a model, or of any plain encoder; MODEL does the same. Default: the "
        "packaged all-MiniLM-L6-v2.",
    ),
]
Encoder = Annotated[
    str | None, typer.Option("--encoder", help="Hub id or folder. Default: the packaged all-MiniLM-L6-v2.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting. Repeatable.")
]
ExcludeSource = Annotated[
    list[str] | None, typer.Option("--exclude-source", help="Source to leave out of the data. Repeatable.")
]
Device = Annotated[
    str | None, typer.Option("--device", help="cpu or cuda. Default: an accelerator if there is one.")
]
Dtype = Annotated[str | None, typer.Option("--dtype", help="float32, bfloat16 or float16.")]
BatchSize = Annotated[str, typer.Option("--batch-size", help="Number of texts in a batch, or auto.")]
Seed = Annotated[
    int | None, typer.Option("--seed", help="Random seed. Default: the recipe's, or a random one.")
]
Rerank = Annotated[
    bool,
    typer.Option("--rerank", help="Rerank alternatives of a graph by votes of the nearest known premises."),
]
TextPipeline = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        help="Name or folder of a spaCy pipeline: read raw texts, as extract does, and take their events as "
        "mentions.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing output.")]
Verify = Annotated[
    bool, typer.Option("--verify", help="Check the digests of all files of the index, also above 1 GiB.")
]


def take_model(
    option: str | None, words: Sequence[str], *, first_is_model: bool
) -> tuple[str | None, list[str]]:
    """Take the model from `--model` or from the first argument, and report the packaged encoder without one.

    Returns:
        The model, None for the packaged encoder, and the remaining arguments.
    """
    rest = list(words)
    model = rest.pop(0) if option is None and rest and first_is_model else option
    if model is None:
        errors.print(f"no model named: using the packaged encoder {PACKAGED_ENCODER}", soft_wrap=True)
    return model, rest


def model_and_argument(option: str | None, words: Sequence[str], name: str) -> tuple[str | None, str]:
    """Read the arguments `[MODEL] NAME`.

    Raises:
        EventformersError: there are more arguments, or only the name of a packaged model.
    """
    most = 2 if option is None else 1
    if len(words) > most:
        raise EventformersError(
            f"received {len(words)} arguments: {', '.join(map(shown, words))}; accepted: MODEL {name}, "
            f"{name} alone, or --model MODEL {name}"
        )
    refuse_model_alone(option, words, name)
    model, [argument] = take_model(option, words, first_is_model=len(words) > 1)
    return model, argument


def refuse_model_alone(option: str | None, words: Sequence[str], name: str) -> None:
    """Raise an error if the only argument is the name of a packaged model, without what it reads."""
    from eventformers.loading.pretrained import is_pretrained

    if option is None and len(words) == 1 and is_pretrained(words[0]):
        raise EventformersError(f"received the model {words[0]} alone; accepted: {words[0]} {name}")


def print_json(content: object) -> None:
    """Print a value as JSON on one line."""
    typer.echo(visible_json(json.dumps(content, ensure_ascii=False)))


@contextmanager
def events_of_texts(texts: Path, pipeline: str | None, malformed: str) -> Iterator[Path]:
    """Extract the events of texts to a temporary folder; without a pipeline, return the path itself.

    Raises:
        EventformersError: an error of `extract`, or the texts have no event.
    """
    if pipeline is None:
        yield texts
        return
    from eventformers.extraction.pipeline import extract

    with TemporaryDirectory(prefix="eventformers-") as scratch:
        found = extract(
            texts, Path(scratch) / "events", pipeline=pipeline, triggers="verbs", malformed=malformed
        )
        counts = found.counts.to_dict()
        told = [f"{part}: {text}" for part, of_part in counts.items() if (text := counts_text(of_part))]
        if not found.counts.written["documents"]:
            raise EventformersError(
                f"{texts}: found no event ({'; '.join(told)}); accepted: texts with events, in the language "
                f"of {pipeline}"
            )
        console.print(f"Extracted ({'; '.join(told)}).", soft_wrap=True, highlight=False)
        yield found.folder


def batch_size_of(text: str) -> int | Literal["auto"]:
    """Parse the value of `--batch-size`.

    Raises:
        EventformersError: the value is neither auto nor a positive integer.
    """
    if text == "auto":
        return "auto"
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise EventformersError(
        f"--batch-size: received {shown(text)}; accepted: auto or an integer of at least 1"
    )
