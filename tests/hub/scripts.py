"""Users of the loopback Hub, and scripts that run against it in fresh processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest
from forked import run_python
from routes import User
from server import LoopbackHub

RunScript = Callable[..., subprocess.CompletedProcess[str]]

USERS = {
    "hf_alice_writes": User("alice", "write", ("storms",)),
    "hf_alice_reads": User("alice", "read", ("storms",)),
    "hf_bob_writes": User("bob"),
}
"""The users by their tokens."""


def put_client_online(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client of this process reach a server, the plain way, with only the tokens that it is given."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def script_runner(hub: LoopbackHub, tmp_path_factory: pytest.TempPathFactory) -> RunScript:
    """The function that the fixture `run_script` describes."""

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
        process = run_python(
            [str(script), *arguments], cwd=folder, env=environment, timeout=timeout, server="libraries"
        )
        assert not check or process.returncode == 0, f"exit {process.returncode}:\n{process.stderr[-4000:]}"
        return process

    return run
