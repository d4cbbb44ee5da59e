"""A server of the Model Context Protocol, by which agents read an exploration."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations
from pydantic import ValidationError

from eventformers import __version__
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.exploration.tools import TOOLS, ExplorationTools, wrong_arguments


def exploration_server(tools: ExplorationTools) -> MCPServer:
    """Create the server; `run()` serves standard input and output, `run("streamable-http", port=…)` HTTP."""
    annotations = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    offered: list[Tool] = [
        _Tool.from_function(getattr(tools, name), annotations=annotations) for name in TOOLS
    ]
    for tool in offered:
        tool.parameters["additionalProperties"] = False
    return MCPServer(
        "eventformers",
        version=__version__,
        instructions=f"Events that were extracted from the texts of {tools.folder.name}. Start with about.",
        log_level="WARNING",
        tools=offered,
    )


class _Tool(Tool):
    """A tool that refuses unknown arguments, and passes errors on that the agent can correct; the others are
    faults, which the server logs."""

    async def run(self, arguments: dict[str, Any], context: Any, convert_result: bool = False) -> Any:
        try:
            for name in arguments:
                if name not in (accepted := self.parameters["properties"]):
                    raise UnknownNameError("argument", name, accepted)
            return await super().run(arguments, context, convert_result)
        except (EventformersError, ToolError) as error:
            told = error if isinstance(error, EventformersError) else error.__cause__
            if isinstance(told, ValidationError):
                raise ToolError(wrong_arguments(told)) from error
            if isinstance(told, EventformersError):
                raise ToolError(str(told)) from error
            raise
