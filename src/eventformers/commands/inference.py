"""The commands that extract events, and use models on data of one's own. They only call the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eventformers.commands import options
from eventformers.commands.options import (
    batch_size_of,
    console,
    errors,
    events_of_texts,
    model_and_argument,
    print_json,
    refuse_model_alone,
    take_model,
)
from eventformers.errors import EventformersError, counted
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
    data: Annotated[
        str | None,
        typer.Option(
            help="Raw files, a built dataset or a Hub id. Default: the graph of the index, or without "
            "--index the bundled samples."
        ),
    ] = None,
    malformed: options.Malformed = "error",
    config: Annotated[
        str | None, typer.Option(help="The graph: conceptnet or atomic, or either with _inductive.")
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(help="Folder of the index, built if absent. Default: in the cache."),
    ] = None,
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
        typer.Option(help="exact; ivf (approximate); auto: approximate beyond two million events."),
    ] = "auto",
    language: Annotated[
        str | None,
        typer.Option(
            help="Language of mentions without one, such as en. Default: that of the pipeline, if any."
        ),
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
    from eventformers.inference.grounding.grounded_text import check_free, write_grounding

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
