"""The Space of an exploration: its page, and its tools for agents by Gradio's MCP.

It reads the exploration in `exploration/` beside this file, or that of the Space in the variable EXPLORATION.
The variable EVENTS names the encoder that `explore` had, if it was not the packaged one.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import quote

import gradio
from huggingface_hub import snapshot_download
from pydantic import ValidationError, validate_call

from eventformers.errors import EventformersError
from eventformers.exploration import PAGE_FILE
from eventformers.exploration.tools import TOOLS, ExplorationTools, wrong_arguments


def space_app() -> gradio.Blocks:
    """Make the app of this Space."""
    folder = Path(__file__).resolve().with_name("exploration")
    if space := os.environ.get("EXPLORATION"):
        folder = Path(snapshot_download(space, repo_type="space"))
    tools = ExplorationTools(folder, events=os.environ.get("EVENTS"))
    page = folder / PAGE_FILE
    gradio.set_static_paths([page])
    with gradio.Blocks(title="Explored texts", fill_width=True) as app:
        gradio.HTML(
            '<iframe title="Explored texts" sandbox="allow-scripts allow-popups allow-downloads" '
            f'src="/gradio_api/file={quote(str(page))}" style="width: 100%; height: 88vh; border: 0">'
            "</iframe>"
        )
        for name in TOOLS:
            if name != "ground_text":  # A Space has no knowledge base.
                gradio.api(_endpoint(getattr(tools, name)), api_name=name)
    return app


def _endpoint(tool: Callable[..., dict[str, Any]]) -> Callable[..., str]:
    """Check the arguments of a tool, which Gradio does not, and describe them as Gradio reads it."""
    checked = validate_call(tool)

    @functools.wraps(tool)
    def call(*arguments: Any, **named: Any) -> str:
        try:
            return json.dumps(checked(*arguments, **named), default=str, ensure_ascii=False)
        except (EventformersError, ValidationError) as error:
            told = wrong_arguments(error) if isinstance(error, ValidationError) else str(error)
            raise gradio.Error(told) from error

    described = [
        f"{name}: {field.description}"
        for name, hint in get_type_hints(tool, include_extras=True).items()
        for field in getattr(hint, "__metadata__", ())
    ]
    call.__doc__ = "\n".join([inspect.getdoc(tool) or "", "Args:", *described])
    call.__annotations__ = {**call.__annotations__, "return": str}
    return call


if __name__ == "__main__":
    space_app().launch(mcp_server=True)
