"""The command about events in a text. It only calls the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eventformers.commands import options
from eventformers.commands.options import batch_size_of, console, errors, events_of_texts
from eventformers.terminal import counts_text

_SHOWN_EVENTS = 10


def ground(
    file: Annotated[
        Path,
        typer.Argument(
            help="Mentions: JSON lines (context_left, mention, context_right, or text, start_char, end_char; "
            "language), plain text with [[mentions]] in each line, a folder that extract or explore wrote, "
            "whose events are the mentions, or a built dataset; with --pipeline, raw texts."
        ),
    ],
    knowledge_base: Annotated[
        str,
        typer.Option(
            help="Events and hierarchy: label_dict.jsonl, hierarchy.jsonl or edges.csv, a folder of them, a "
            "built dataset or a Hub id."
        ),
    ],
    output: options.Output,
    pipeline: options.TextPipeline = None,
    malformed: options.Malformed = "error",
    model: Annotated[
        str, typer.Option(help="Name, folder or Hub id of a bi-encoder of event grounding, or any encoder.")
    ] = "grounding",
    reranker: Annotated[
        str | None, typer.Option(help="Folder or Hub id of a cross-encoder that reranks the candidates.")
    ] = None,
    retriever_weight: Annotated[
        float | None,
        typer.Option(
            help="Weight of the model's score, added to the reranker's; 0 uses only the reranker's. Default: "
            "that of the reranker's configuration."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Minimum probability of the reranker, or minimum score of the model without a reranker, to "
            "link an event. Default: the threshold learned with the model."
        ),
    ] = None,
    candidates: Annotated[int, typer.Option(help="Number of candidate events for each mention.")] = 8,
    search: Annotated[
        str,
        typer.Option(help="exact; hnsw or ivf (approximate); auto: approximate beyond two million events."),
    ] = "auto",
    language: Annotated[
        str | None, typer.Option(help="Language of mentions without one, such as en.")
    ] = None,
    candidate_language: Annotated[
        str | None, typer.Option(help="Language of all candidates. Default: that of each mention.")
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="Folder for the events' vectors; built if absent.")
    ] = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_size: options.BatchSize = "auto",
    overwrite: options.Overwrite = False,
    verify: options.Verify = False,
) -> None:
    """Link mentions to events of a knowledge base and their ancestors; write tables and a page."""
    from eventformers.files import output_folder
    from eventformers.inference.grounding.ground import ground as run_grounding
    from eventformers.inference.grounding.report import check_free, write_grounding

    with output_folder(output):
        check_free(output, overwrite=overwrite)
        with events_of_texts(file, pipeline, malformed) as texts:
            found = run_grounding(
                model,
                texts,
                knowledge_base,
                reranker=reranker,
                retriever_weight=retriever_weight,
                threshold=threshold,
                candidates=candidates,
                search=search,  # type: ignore[arg-type]
                language=language,
                candidate_language=candidate_language,
                index=index,
                batch_size=batch_size_of(batch_size),
                device=device,
                dtype=dtype,
                overwrite=overwrite,
                verify=verify,
                show_progress=True,
                malformed=malformed,
            )
        with errors.status("writing"):
            files = write_grounding(found, output, overwrite=overwrite)
    table = Table("event", "mentions", "with its parts")
    by_event = sorted(found.mentions_by_event().items(), key=lambda one: -len(one[1]))
    for event_id, places in by_event[:_SHOWN_EVENTS]:
        title = found.knowledge_base.title(event_id, found.title_language)
        table.add_row(title, f"{sum(linked for _, linked in places):,}", f"{len(places):,}")
    if table.row_count:
        console.print(table)
    console.print(counts_text(found.counts))
    threshold, source = found.settings["threshold"], found.settings["threshold_source"]
    if threshold is not None:
        console.print(f"linking threshold: {threshold:.4g}, {source}")
    if found.note:
        console.print(found.note, soft_wrap=True)
    for name, recall in found.recall.items():
        console.print(f"recall of the approximate search{f', {name}' if name else ''}: {100 * recall:.1f} %")
    if found.without_pool:
        told = ", ".join(f"{count:,} {language}" for language, count in found.without_pool.items())
        console.print(f"mentions in languages without events: {told}")
    console.print(f"Wrote {', '.join(map(str, files))}.", soft_wrap=True)
