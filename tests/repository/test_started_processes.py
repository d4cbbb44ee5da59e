"""Forked processes are as fresh as interpreters, and the marker `process` finds its tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import forked
import pytest
from started_processes import starts
from training_case import MethodTrainingCase
from transformers import Trainer

from eventformers.training import train

SAID = """
import json, os, sys
early = sorted({name.split(".")[0] for name in sys.modules})
print(json.dumps([__name__, sys.argv, os.getcwd(), os.environ.get("WORD"), os.environ.get("HOME"), early]))
"""


def test_a_process_begins_with_its_own_surroundings(tmp_path: Path) -> None:
    done = forked.run_python(["-c", SAID, "a", "b"], cwd=tmp_path, env={"WORD": "ä"})
    name, arguments, folder, word, home, loaded = json.loads(done.stdout)
    assert (name, arguments, word, home) == ("__main__", ["-c", "a", "b"], "ä", None)
    assert Path(folder) == tmp_path
    assert "torch" in loaded
    assert not set(forked.NEVER_LOADED) & set(loaded)


def test_the_end_of_a_process_is_told(tmp_path: Path) -> None:
    """As an interpreter tells it."""
    for code in ("raise SystemExit('no')", "import sys; sys.exit(3)", "1 / 0", "import os; os.abort()"):
        fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        done = forked.run_python(["-c", code], cwd=tmp_path)
        assert done.returncode == fresh.returncode
        assert done.stderr.splitlines()[-1:] == fresh.stderr.splitlines()[-1:]


def test_servers_know_nothing_of_the_test_that_asks_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They outlive its folder and its variables."""
    started: list[dict[str, Any]] = []

    def start(command: list[str], **options: Any) -> None:
        started.append(options)
        raise InterruptedError

    with tempfile.TemporaryDirectory() as shared:  # A socket's path is short.
        monkeypatch.setattr(forked, "SHARED", shared)
        monkeypatch.setattr(forked, "_connections", {})
        monkeypatch.setattr(subprocess, "Popen", start)
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InterruptedError):
            forked.run_python(["-c", ""], cwd=tmp_path)
    assert "HF_ENDPOINT" not in started[0]["env"]
    assert started[0]["env"]["HF_HOME"] == os.environ["HF_HOME"]
    assert not started[0]["cwd"].is_relative_to(tmp_path)


def test_a_process_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    forked.run_python(["-c", ""], cwd=tmp_path)  # The server is there.
    code = "import os, time; print(os.getpid(), file=open('number', 'w'), flush=True); time.sleep(600)"
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run_python(["-c", code], cwd=tmp_path, timeout=5)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "number").read_text()), 0)


def test_a_group_ends_with_the_first_that_fails(tmp_path: Path) -> None:
    code = "import os, time\nif os.environ['RANK'] == '1': raise SystemExit(4)\ntime.sleep(600)"
    done = forked.run_group(["-c", code], cwd=tmp_path)
    assert done.returncode == 4


def test_what_starts_a_process_or_trains_is_found() -> None:
    def helped() -> None:
        test_a_group_ends_with_the_first_that_fails(Path())

    assert starts(helped, None)
    assert starts(MethodTrainingCase.test_frozen_modules_stay, MethodTrainingCase)
    assert starts(lambda cls: cls._train(), MethodTrainingCase)
    assert starts(lambda: Trainer(), None)
    assert starts(MethodTrainingCase.test_one_batch_is_fitted, MethodTrainingCase)
    assert not starts(MethodTrainingCase.test_every_recipe_holds_known_settings, MethodTrainingCase)


def test_a_fixture_that_trains_marks_its_tests(request: pytest.FixtureRequest, trained: None) -> None:
    assert request.node.get_closest_marker("process")
    assert request.config.option.markexpr != "not process", "the marker comes too late to be selected by"


@pytest.fixture
def trained() -> None:
    assert train is not None
