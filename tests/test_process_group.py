"""A command leaves the group of processes that it was started in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from torch import distributed

from eventformers.cli import main
from eventformers.process_group import leave_process_group


def test_a_command_leaves_its_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert not distributed.is_initialized()
    assert "eventformers" in capsys.readouterr().out


def test_without_a_group_nothing_happens_and_nothing_is_loaded() -> None:
    leave_process_group()
    code = (
        "import sys; from eventformers.process_group import leave_process_group; "
        "leave_process_group(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
