"""A command leaves the group of processes that it was started in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from group_threads import group_threads
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from eventformers import cli
from eventformers.cli import main
from eventformers.errors import EventformersError
from eventformers.trainers.process_group import leaving_process_group


def _join(folder: Path) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)


def _train(folder: Path) -> None:
    """One backward pass in a group, with a wrapped model that stands in a reference cycle."""
    _join(folder)
    wrapped = DistributedDataParallel(nn.Linear(3, 3))
    wrapped.itself = [wrapped]
    wrapped(torch.ones(2, 3)).sum().backward()
    if sys.platform == "linux":
        assert group_threads()


def test_a_command_leaves_its_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _join(tmp_path)
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert not distributed.is_initialized()
    assert "eventformers" in capsys.readouterr().out


@pytest.mark.parametrize("error", [None, RuntimeError("failed"), KeyboardInterrupt()], ids=repr)
def test_no_thread_of_the_group_is_left(error: BaseException | None, tmp_path: Path) -> None:
    """A thread that outlives the interpreter aborts the process."""

    @leaving_process_group()
    def work() -> None:
        _train(tmp_path)
        if error is not None:
            raise error

    if error is None:
        work()
    else:
        with pytest.raises(type(error)):
            work()
    assert not distributed.is_initialized()
    assert group_threads() == []


@pytest.mark.parametrize("error", [RuntimeError, EventformersError, KeyboardInterrupt])
def test_a_command_that_fails_leaves_no_thread(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables of the functions that failed hold the group too."""

    def fail(*_: object, **__: object) -> None:
        wrapped = DistributedDataParallel(nn.Linear(3, 3))
        wrapped(torch.ones(2, 3)).sum().backward()
        raise error("failed")

    _join(tmp_path)
    monkeypatch.setattr(cli, "_parser", lambda: fail)
    # Held, as the interpreter holds it while it ends.
    with pytest.raises((RuntimeError, SystemExit)) as raised:
        main([])
    assert raised.tb is not None
    assert not distributed.is_initialized()
    assert group_threads() == []


def test_without_a_group_nothing_happens_and_nothing_is_loaded() -> None:
    code = (
        "import sys; from eventformers.trainers.process_group import leaving_process_group; "
        "leaving_process_group()(int)(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
