"""The Gradio Space of an exploration: its files, and its tools under Gradio or a stand-in for it."""

from __future__ import annotations

import asyncio
import inspect
import json
import runpy
import shutil
import sys
from contextlib import nullcontext
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

import eventformers
from eventformers import exploration
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.exploration.tools import TOOLS, ExplorationTools

SPACE = Path(exploration.__file__).with_name("space")
OFFERED = [name for name in TOOLS if name != "ground_text"]


@pytest.fixture
def space(tmp_path: Path) -> Path:
    """The folder of a Space with extracted texts as its exploration."""
    shutil.copytree(SPACE, tmp_path / "space", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(SAMPLES / "texts" / "extracted", tmp_path / "space" / "exploration")
    (tmp_path / "space" / "exploration" / "index.html").write_text("<h1>Page</h1>", encoding="utf-8")
    return tmp_path / "space"


def test_the_space_is_one_that_the_hub_runs() -> None:
    front = yaml.safe_load((SPACE / "README.md").read_text(encoding="utf-8").split("---")[1])
    assert (front["sdk"], front["app_file"]) == ("gradio", "app.py")
    wheel, gradio = (SPACE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert wheel.endswith(f"OWNER/NAME/resolve/main/eventformers-{eventformers.__version__}-py3-none-any.whl")
    # The server of Gradio is in this extra.
    assert gradio.startswith("gradio[mcp]")


def test_endpoints_are_the_tools_of_the_server(space: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered with a stand-in for Gradio, which the tests do not install."""

    class Error(Exception):
        pass

    found: dict[str, Any] = {}
    stand_in = SimpleNamespace(
        Blocks=lambda **settings: nullcontext("app"),
        HTML=lambda text: None,
        Error=Error,
        set_static_paths=lambda paths: None,
        api=lambda call, api_name: found.update({api_name: call}),
    )
    monkeypatch.setitem(sys.modules, "gradio", stand_in)
    assert runpy.run_path(str(space / "app.py"))["space_app"]() == "app"
    assert list(found) == OFFERED
    expected = ExplorationTools(space / "exploration").search_events(predicate="arrest", limit=2)
    assert expected["total"] > 0
    answer = json.loads(found["search_events"](predicate="arrest", limit=2))
    assert answer == json.loads(json.dumps(expected, default=str))
    # Gradio checks no limits, and reads descriptions from the docstring.
    with pytest.raises(Error, match="limit: found 101; accepted: less than or equal to 100"):
        found["search_events"](limit=101)
    with pytest.raises(Error, match="they need explore without --no-stories"):
        found["read_story"]("s1")
    assert "\nwords: Words that the event or" in inspect.getdoc(found["search_events"])


@pytest.mark.skipif(
    find_spec("gradio") is None or int(version("mcp").split(".")[0]) > 1,
    reason="needs gradio[mcp], which has another version of the MCP SDK than this package",
)
def test_an_agent_calls_the_tools_of_gradio(space: Path) -> None:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    app = runpy.run_path(str(space / "app.py"))["space_app"]()
    _, address, _ = app.launch(mcp_server=True, prevent_thread_lock=True, quiet=True)

    async def call(tool: str, **arguments: Any) -> Any:
        async with (
            streamablehttp_client(f"{address}gradio_api/mcp/") as (reads, writes, _),
            ClientSession(reads, writes) as session,
        ):
            await session.initialize()
            tools = {one.name: one for one in (await session.list_tools()).tools}
            assert sorted(tools) == sorted(OFFERED)
            described = tools["search_events"].inputSchema["properties"]["like"]["description"]
            assert described.startswith("Rank by similarity")
            return await session.call_tool(tool, arguments)

    try:
        found = asyncio.run(call("search_events", predicate="arrest", limit=1))
        assert json.loads(found.content[0].text)["total"] > 0
        failed = asyncio.run(call("search_events", factuality="maybe"))
        assert failed.isError
        assert "accepted" in failed.content[0].text.lower()
        [frame] = [one for one in app.get_config_file()["components"] if one["type"] == "html"]
        page = frame["props"]["value"].split('src="')[1].split('"')[0]
        with urlopen(f"{address.rstrip('/')}{page}") as answer:  # noqa: S310 - our own server
            assert answer.headers["content-disposition"].startswith("inline")
            assert answer.read() == b"<h1>Page</h1>"
    finally:
        app.close()
