"""The command about commonsense graphs. It only calls the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eventformers.commands import options
from eventformers.commands.options import batch_size_of, console, model_and_argument, print_json


def complete(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] QUERY",
            help="The model, if not given by --model, and the query: 'head, relation', 'tail, ~relation' for "
            "the other direction, or free text.",
        ),
    ],
    model: options.Model = None,
    data: options.RawData = None,
    malformed: options.Malformed = "error",
    config: Annotated[
        str | None, typer.Option(help="The graph: conceptnet or atomic, or either with _inductive.")
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(help="Folder of the index, built if absent. Default: in the cache."),
    ] = None,
    relation: Annotated[str | None, typer.Option(help="The relation, if QUERY is only the head.")] = None,
    templates: Annotated[
        Path | None, typer.Option(help="YAML file with templates of more relations.")
    ] = None,
    split: Annotated[
        list[str] | None, typer.Option("--split", help="Split to search. Default: all. Repeatable.")
    ] = None,
    top: Annotated[int, typer.Option(help="Number of alternatives to show.")] = 10,
    explain: Annotated[int, typer.Option(help="Number of nearest known premises to show.")] = 3,
    rerank: Annotated[
        bool | None,
        typer.Option(
            "--rerank/--no-rerank",
            help="Let the nearest known premises vote. Default: only for ConceptNet.",
        ),
    ] = None,
    reranker: Annotated[
        str | None,
        typer.Option(help="Folder or Hub id of a cross-encoder that reranks the best 50 alternatives."),
    ] = None,
    search: Annotated[
        str,
        typer.Option(help="exact; ivf (approximate); auto: approximate beyond two million texts."),
    ] = "auto",
    as_json: options.Json = False,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_size: options.BatchSize = "auto",
    overwrite: options.Overwrite = False,
    verify: options.Verify = False,
) -> None:
    """Complete a head and a relation, or answer a question, with the nearest alternatives of a graph."""
    from eventformers.inference.commonsense.complete import complete as run_completion

    chosen, query = model_and_argument(model, words, "QUERY")
    found = run_completion(
        chosen,
        query,
        data=data,
        config=config,
        index=index,
        relation=relation,
        templates=templates,
        splits=split,
        top=top,
        explain=explain,
        rerank=rerank,
        reranker=reranker,
        batch_size=batch_size_of(batch_size),
        device=device,
        dtype=dtype,
        overwrite=overwrite,
        verify=verify,
        search=search,  # type: ignore[arg-type]
        show_progress=True,
        malformed=malformed,
    )
    if as_json:
        print_json(found.to_dict())
        return
    table = Table("alternative", "score", "known", title=found.query.text)
    for alternative in found.alternatives:
        table.add_row(alternative.text, f"{alternative.score:.3f}", "yes" if alternative.known else "")
    console.print(table)
    if data is None and index is None:
        console.print("The graph is that of the bundled samples; --data names another.")
    if found.recall is not None:
        console.print(f"recall of the approximate search: {100 * found.recall:.1f} %")
    if found.explanation:
        nearest = Table("nearest known premise", "cosine", "its alternatives")
        for premise in found.explanation:
            more = premise.number - len(premise.alternatives)
            told = "; ".join(premise.alternatives) + (f"; {more} more" if more else "")
            nearest.add_row(premise.text, f"{premise.cosine:.3f}", told)
        console.print(nearest)
