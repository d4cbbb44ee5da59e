"""The command that serves an exploration to agents. It only calls the Python API."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from socket import AF_INET, AF_INET6, create_server
from typing import Annotated

import typer

from eventformers.commands import options
from eventformers.commands.options import errors
from eventformers.errors import EventformersError


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
