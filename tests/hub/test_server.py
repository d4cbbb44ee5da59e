"""The loopback Hub by hand, as docs/publish.md has it; the tests of pushes and loads show the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import server
from huggingface_hub import HfApi


def test_server_runs_by_hand() -> None:
    command = [sys.executable, str(Path(server.__file__)), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--token", "carol=hf_carol", "--organization", "storms"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = dict(process.stdout.readline().strip().removeprefix("export ").split("=") for _ in range(3))
        assert (said["HF_TOKEN"], said["HF_HUB_DISABLE_XET"]) == ("hf_carol", "1")
        api = HfApi(endpoint=said["HF_ENDPOINT"], token=said["HF_TOKEN"])
        assert api.create_repo("storms/shared").repo_id == "storms/shared"
    finally:
        process.terminate()
        errors = process.communicate(timeout=100)[1]
    assert "POST /api/repos/create" in errors
    assert "Traceback" not in errors
