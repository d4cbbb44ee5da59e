"""The commands that explore texts and serve an exploration. They only call the Python API."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from socket import AF_INET, AF_INET6, create_server
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from eventformers.commands import options
from eventformers.commands.options import batch_size_of, console, errors
from eventformers.errors import EventformersError
from eventformers.terminal import counts_text

if TYPE_CHECKING:
    from eventformers.exploration.explore import Exploration


def explore(
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT",
            help="Files or folders: text, JSON lines, CSV, Parquet, SGML; or a dataset id of the Hub.",
        ),
    ],
    output: options.Output,
    text_column: options.TextColumn = None,
    date_column: Annotated[
        str | None, typer.Option(help="Column of the date, in ISO 8601. Default: date, if it exists.")
    ] = None,
    id_column: options.IdColumn = None,
    title_column: Annotated[
        str | None, typer.Option(help="Column of the title. Default: title, if it exists.")
    ] = None,
    license_name: options.License = None,
    pipeline: options.Pipeline = None,
    triggers: options.Triggers = "sure",
    events: Annotated[
        str | None,
        typer.Option(help="Encoder of events: folder or Hub id. Default: the packaged all-MiniLM-L6-v2."),
    ] = None,
    chains: Annotated[
        str | None,
        typer.Option(
            help="Model of --next-events, likewise, which turns them on. Default: that of --events."
        ),
    ] = None,
    types: Annotated[str | None, typer.Option(help="Model of event types, likewise.")] = None,
    grounding: Annotated[
        str, typer.Option(help="Bi-encoder of links to the knowledge base, likewise.")
    ] = "grounding",
    commonsense: Annotated[str | None, typer.Option(help="Model of completions, likewise.")] = None,
    stories: Annotated[bool, typer.Option(help="Find the events that several documents report.")] = True,
    next_events: Annotated[
        bool,
        typer.Option(
            "--next-events",
            help="List the events of the corpus that are related to each chain. Few of them come next.",
        ),
    ] = False,
    num_types: Annotated[
        int | None, typer.Option(help="Number of event types. Default: as many as are distinct.")
    ] = None,
    type_list: Annotated[
        str | None,
        typer.Option(
            help="Event types of your own: CSV with name, definition and examples; or political. "
            "Default: types are found."
        ),
    ] = None,
    curation: Annotated[
        str | None, typer.Option(help="Your edits of types, actors and stories: a file in YAML.")
    ] = None,
    frames: Annotated[
        str | None, typer.Option(help="Frames to link types to: files, a folder or Hub id.")
    ] = None,
    knowledge_base: Annotated[
        str | None, typer.Option(help="Entries to link events to: files, a folder or Hub id.")
    ] = None,
    graph: Annotated[
        str | None, typer.Option(help="Graph to complete events with: files, a folder, an index or Hub id.")
    ] = None,
    graph_config: Annotated[
        str | None, typer.Option(help="Config of the graph, as for complete. Default: that of the folder.")
    ] = None,
    min_chain_length: options.MinChainLength = 3,
    factuality: options.Factuality = None,
    actors: options.Actors = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            help="Step to leave out, with those that need it: vectors, chains, types, stories, "
            "next_events, links, completions, map, network or page. Repeatable."
        ),
    ] = None,
    processes: options.Processes = 1,
    malformed: options.Malformed = "error",
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_size: options.BatchSize = "auto",
    overwrite: options.Overwrite = False,
    file_format: options.FileFormat = None,
    space: Annotated[
        str | None,
        typer.Option(metavar="OWNER/NAME", help="Push page and tables to the Hub, as a static Space."),
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Make the Space public. Default: private.")
    ] = False,
) -> None:
    """Turn raw texts into tables of events, types, chains and more, and a page to explore them."""
    from eventformers.exploration.sources import check_paths

    if public and space is None:
        raise EventformersError("--public without --space; accepted: both, or neither")
    if space is not None:
        from eventformers.publishing.plan import check_repo_id

        check_repo_id(space, option="--space")
    given = texts[0] if len(texts) == 1 else [Path(text) for text in texts]
    # Before the libraries of the models load, which takes seconds.
    check_paths(given)
    from eventformers.exploration.explore import explore as run_exploration

    found = run_exploration(
        given,
        output,
        text_column=text_column,
        date_column=date_column,
        id_column=id_column,
        title_column=title_column,
        license_name=license_name,
        pipeline=pipeline,
        triggers=triggers,
        events=events,
        chains=chains,
        types=types,
        grounding=grounding,
        commonsense=commonsense,
        stories=stories,
        next_events=next_events,
        num_types=num_types,
        type_list=type_list,
        curation=curation,
        frames=frames,
        knowledge_base=knowledge_base,
        graph=graph,
        graph_config=graph_config,
        min_chain_length=min_chain_length,
        factuality=factuality or ["fact"],
        actors=actors,
        skip=skip or [],
        processes=processes,
        batch_size=batch_size_of(batch_size),
        device=device,
        dtype=dtype,
        overwrite=overwrite,
        malformed=malformed,
        file_format=file_format,
        show_progress=True,
    )
    show_exploration(found)
    if space is not None:
        from eventformers.hub import push

        # Only its owner sees a private Space, so licences need no acceptance there.
        pushed = push(found.folder, space, private=not public, accept_licenses=not public)
        console.print(f"Pushed to {pushed.repositories[0].url}.", soft_wrap=True)


def show_exploration(found: Exploration) -> None:
    """Print the counts, the times and the notes of an exploration."""
    table = Table("step", "counts", "seconds")
    for step in found.steps:
        seconds = "reused" if step.reused else f"{step.seconds:.1f}"
        table.add_row(step.name, counts_text(step.counts) if step.counts else "", seconds)
    console.print(table)
    if new := found.report["new"]:
        console.print(f"New: {counts_text(new)}.")
    for note in found.notes:
        console.print(note, soft_wrap=True, highlight=False)
    console.print(f"Wrote {found.folder}.", soft_wrap=True)
    if found.page is not None:
        console.print(f"Open {found.page} in a browser.", soft_wrap=True)


def mcp(
    exploration: Annotated[Path, typer.Argument(help="Folder that explore or extract wrote.")],
    events: Annotated[
        str | None,
        typer.Option(help="Encoder that explore had: folder or Hub id. Default: the packaged one."),
    ] = None,
    chains: Annotated[
        str | None, typer.Option(help="Model of next events, likewise. Default: that of --events.")
    ] = None,
    grounding: Annotated[
        str, typer.Option(help="Bi-encoder of links to the knowledge base, likewise.")
    ] = "grounding",
    knowledge_base: Annotated[
        str | None, typer.Option(help="Entries to link texts to, as for ground. Default: no such tool.")
    ] = None,
    pipeline: options.Pipeline = None,
    index: Annotated[
        Path | None,
        typer.Option(help="Folder for the vectors of next events and entries, built if absent."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Serve HTTP on this port. Default: standard input and output.", min=1, max=65_535),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to serve HTTP on. Anyone who reaches it can read the exploration.")
    ] = "127.0.0.1",
    device: options.Device = None,
) -> None:
    """Serve an exploration to agents, read only, by the Model Context Protocol."""
    if find_spec("mcp") is None:
        raise EventformersError('this needs the MCP SDK; install it with `pip install "eventformers[mcp]"`')
    if port is not None:
        try:
            create_server((host, port), family=AF_INET6 if ":" in host else AF_INET).close()
        except OSError as error:
            raise EventformersError(
                f"cannot serve at {host}, port {port}: {error.strerror}; accepted: a free --port, and a "
                "--host of this machine"
            ) from error
    from eventformers.exploration.server import exploration_server
    from eventformers.exploration.tools import ExplorationTools

    tools = ExplorationTools(
        exploration,
        events=events,
        chains=chains,
        grounding=grounding,
        knowledge_base=knowledge_base,
        pipeline=pipeline,
        index=index,
        device=device,
    )
    server = exploration_server(tools)
    if port is None:
        server.run()
    else:
        errors.print(f"serving {exploration} at http://{host}:{port}/mcp", soft_wrap=True)
        server.run("streamable-http", host=host, port=port)
