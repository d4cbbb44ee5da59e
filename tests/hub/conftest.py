"""What tests against the loopback Hub share.

The client reads its endpoint, its token and its cache when it is imported, so in the process of the tests
they are given to each call (`HfApi(endpoint=hub.endpoint, token=...)`). A script that takes them from its
environment, as a user's does, runs in a fresh process by `run_script`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.append(str(Path(__file__).parent))

from calls import User
from server import LoopbackHub

RunScript = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def _client_online(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of this process reaches the server, the plain way, and has only tokens that it is given."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    """A started server: alice writes to her own name and to the organization `storms`, bob to his."""
    tokens = {
        "hf_alice_writes": User("alice", "write", ("storms",)),
        "hf_alice_reads": User("alice", "read", ("storms",)),
        "hf_bob_writes": User("bob"),
    }
    with LoopbackHub(tokens) as started:
        yield started
    assert not started.errors, "\n".join(started.errors)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The client tries again at once; the seconds that it would have waited."""
    from huggingface_hub import file_download
    from huggingface_hub.utils import _http

    waited: list[float] = []
    for module in (_http, file_download):
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=waited.append))
    return waited


@pytest.fixture
def run_script(hub: LoopbackHub, tmp_path_factory: pytest.TempPathFactory) -> RunScript:
    """A function that runs a Python script, given by its text, in a fresh process with an empty cache.

    `run_script(text, *arguments, token=..., check=True, timeout=250)`: alice's token unless another is given,
    and nobody is logged in with an empty one. With `check` a script that fails fails the test, with what it
    said. No other host is in reach.
    """

    def run(
        text: str, *arguments: str, token: str | None = None, check: bool = True, timeout: float = 250
    ) -> subprocess.CompletedProcess[str]:
        folder = tmp_path_factory.mktemp("fresh-process")
        script = folder / "script.py"
        script.write_text(text, encoding="utf-8")
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.upper().startswith(("HF_", "HUGGING", "TRANSFORMERS_"))
            and not name.upper().endswith("_PROXY")
        }
        environment = {
            **kept,
            **hub.environment(hub.token_of("alice") if token is None else token),
            "HF_HOME": str(folder / "home"),
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1,localhost",
            # Nothing listens at the discard port.
            **{f"{protocol}_PROXY": "http://127.0.0.1:9" for protocol in ("HTTP", "HTTPS", "ALL")},
        }
        process = subprocess.run(
            [sys.executable, str(script), *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert not check or process.returncode == 0, f"exit {process.returncode}:\n{process.stderr[-4000:]}"
        return process

    return run
