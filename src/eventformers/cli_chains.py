"""The commands about chains of events. They only call the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eventformers.command_options import Output, Overwrite, console, counts_text


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module to the program."""
    app.command()(extract)


def extract(
    texts: Annotated[
        list[Path], typer.Argument(metavar="TEXT...", help="Files or folders: SGML, JSON lines, plain text.")
    ],
    output: Output,
    pipeline: Annotated[
        str | None, typer.Option(help="Name or folder of a spaCy pipeline, such as en_core_web_sm.")
    ] = None,
    processes: Annotated[int, typer.Option(help="Processes that parse.")] = 1,
    coreference: Annotated[
        str, typer.Option(help="auto, heads, spacy, fastcoref, coreferee or module:function.")
    ] = "auto",
    arguments: Annotated[str, typer.Option(help="heads: head words; spans: whole mentions.")] = "heads",
    exclude_predicate: Annotated[
        list[str] | None,
        typer.Option(help="Leave events out by predicate; repeatable; reporting: verbs of reporting."),
    ] = None,
    drop_pronoun_only: Annotated[
        bool, typer.Option("--drop-pronoun-only", help="Leave out events whose arguments are all pronouns.")
    ] = False,
    min_chain_length: Annotated[int, typer.Option(help="Fewest distinct events of a chain.")] = 5,
    document_type: Annotated[
        list[str] | None,
        typer.Option(help="Type of SGML documents to read; repeatable; all; without it story."),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Source of texts that state none; without it the file's or folder's.")
    ] = None,
    license_name: Annotated[
        str | None, typer.Option("--license", help="Licence of texts that state none.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was not finished there.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Extract events, and chains of one protagonist, from raw text."""
    from eventformers.extraction.pipeline import extract as run_extraction

    types = document_type or ["story"]
    finished = run_extraction(
        texts,
        output,
        pipeline=pipeline,
        coreference=coreference,
        arguments=arguments,
        exclude_predicates=exclude_predicate or [],
        drop_pronoun_only=drop_pronoun_only,
        min_chain_length=min_chain_length,
        document_types=[] if "all" in types else types,
        source=source,
        license_name=license_name,
        processes=processes,
        resume=resume,
        overwrite=overwrite,
    )
    table = Table("read", "skipped", "written")
    counts = finished.counts.to_dict()
    table.add_row(*(counts_text(counts[part]) for part in ("read", "skipped", "written")))
    console.print(table)
    console.print(f"Wrote {', '.join(map(str, finished.files))}.", soft_wrap=True)
    console.print(
        f"Build datasets with: eventformers data build event_chains --data-dir {finished.folder} -o DIR",
        soft_wrap=True,
    )
