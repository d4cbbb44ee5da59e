"""The commands about chains of events. They only call the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eventformers.commands import options
from eventformers.commands.options import batch_size_of, console, print_json, refuse_model_alone, take_model
from eventformers.errors import counted
from eventformers.terminal import counts_text


def extract(
    texts: Annotated[
        list[Path],
        typer.Argument(metavar="TEXT", help="Files or folders: text, JSON lines, CSV, Parquet, SGML."),
    ],
    output: options.Output,
    pipeline: options.Pipeline = None,
    processes: options.Processes = 1,
    coreference: Annotated[
        str, typer.Option(help="Resolver: auto, heads, spacy, fastcoref, coreferee or module:function.")
    ] = "auto",
    arguments: Annotated[str, typer.Option(help="heads: head words; spans: whole mentions.")] = "heads",
    triggers: options.Triggers = "all",
    exclude_predicate: Annotated[
        list[str] | None,
        typer.Option(help="Predicate of events to leave out; reporting: all reporting verbs. Repeatable."),
    ] = None,
    drop_pronoun_only: Annotated[
        bool, typer.Option("--drop-pronoun-only", help="Leave out events whose arguments are all pronouns.")
    ] = False,
    min_chain_length: options.MinChainLength = 5,
    factuality: options.Factuality = None,
    actors: options.Actors = None,
    document_type: Annotated[
        list[str] | None,
        typer.Option(help="Type of SGML documents to read, or all. Default: story. Repeatable."),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Source of texts without one. Default: the name of the file or folder.")
    ] = None,
    license_name: options.License = None,
    text_column: options.TextColumn = None,
    id_column: options.IdColumn = None,
    malformed: options.Malformed = "error",
    resume: Annotated[bool, typer.Option("--resume", help="Continue an unfinished extraction.")] = False,
    overwrite: options.Overwrite = False,
    file_format: options.FileFormat = None,
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
        triggers=triggers,
        exclude_predicates=exclude_predicate or [],
        drop_pronoun_only=drop_pronoun_only,
        min_chain_length=min_chain_length,
        factuality=factuality or [],
        actors=actors,
        document_types=[] if "all" in types else types,
        source=source,
        license_name=license_name,
        text_column=text_column,
        id_column=id_column,
        processes=processes,
        resume=resume,
        overwrite=overwrite,
        malformed=malformed,
        file_format=file_format,
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


def next_event(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] CHAIN...",
            help="The model, if not given by --model, and the chain: a file with one event a line, or the "
            "events, 'subject | predicate | object' or JSON.",
        ),
    ],
    model: options.Model = None,
    candidates: Annotated[Path | None, typer.Option(help="File of candidate events.")] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            help="Folder of extract or explore, raw or built chains, or a file, whose events are candidates. "
            "Default: --candidates, or the samples."
        ),
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(help="Folder of an index of the corpus, built if absent; later calls need no --corpus."),
    ] = None,
    search: Annotated[
        str,
        typer.Option(help="With --index: exact; ivf (approximate); auto: approximate beyond two million."),
    ] = "auto",
    malformed: options.Malformed = "error",
    top: Annotated[int, typer.Option(help="Number of candidates to show.")] = 10,
    max_events: Annotated[int, typer.Option(help="Maximum number of events to read, the latest ones.")] = 8,
    as_json: options.Json = False,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_size: options.BatchSize = "auto",
    overwrite: options.Overwrite = False,
    verify: options.Verify = False,
) -> None:
    """Rank candidate events by how well they continue a chain."""
    from eventformers.inference.chains.next_event import next_event as run_prediction

    # A name of a model holds neither the separator of an event nor JSON.
    is_model = len(words) > 1 and "|" not in words[0] and "{" not in words[0]
    refuse_model_alone(model, words, "CHAIN")
    chosen, chain = take_model(model, words, first_is_model=is_model)
    found = run_prediction(
        chosen,
        chain[0] if len(chain) == 1 else chain,
        candidates=candidates,
        corpus=corpus,
        index=index,
        top=top,
        max_events=max_events,
        search=search,  # type: ignore[arg-type]
        overwrite=overwrite,
        verify=verify,
        batch_size=batch_size_of(batch_size),
        device=device,
        dtype=dtype,
        show_progress=True,
        malformed=malformed,
    )
    if as_json:
        print_json(found.to_dict())
        return
    table = Table("next event", "score", title=f"of {counted(found.considered, 'candidate')}")
    for candidate in found.candidates:
        table.add_row(candidate.text, f"{candidate.score:.3f}")
    console.print(table)
    if found.recall is not None:
        console.print(f"recall of the approximate search: {100 * found.recall:.1f} %")
    if candidates is None and corpus is None and index is None:
        console.print("The candidates are the events of the bundled samples; --corpus names others.")
