"""A server of the Model Context Protocol, by which agents read an exploration."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from eventformers import __version__
from eventformers.errors import EventformersError
from eventformers.exploration.tools import TOOLS, Answer, ExplorationTools


def exploration_server(tools: ExplorationTools) -> MCPServer:
    """Create the server; `run()` serves standard input and output, `run("streamable-http", port=…)` HTTP."""
    server: MCPServer = MCPServer(
        "eventformers",
        version=__version__,
        instructions=f"Events that were extracted from the texts of {tools.folder.name}. Start with about.",
        log_level="WARNING",
    )
    for name in TOOLS:
        server.add_tool(
            _with_errors(getattr(tools, name)),
            annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        )
    return server


def _with_errors(tool: Callable[..., Answer]) -> Callable[..., Answer]:
    """Pass an error that the agent can correct on to it; the others are faults, which the server logs."""

    @functools.wraps(tool)
    def call(*arguments: Any, **named: Any) -> Answer:
        try:
            return tool(*arguments, **named)
        except EventformersError as error:
            raise ToolError(str(error)) from error

    return call
