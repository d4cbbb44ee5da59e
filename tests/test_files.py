"""Files are whole or absent, whatever happens to the process that writes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventformers.files import staged_folder, temporary_beside, whole_folder, write_text


def _dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def test_a_failed_write_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.json"
    write_text(target, "earlier")

    def fail(*arguments: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="full"):
        write_text(target, "later")
    assert target.read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_what_a_killed_process_left_goes_with_the_next_write(tmp_path: Path) -> None:
    target = tmp_path / "a[1].txt"
    dead = tmp_path / f".{target.name}.{_dead_process()}.tmp"
    alive = tmp_path / f".{target.name}.{os.getppid()}.tmp"
    other = tmp_path / f".b.txt.{_dead_process()}.tmp"
    for path in (dead, alive, other):
        path.write_text("half")
    assert temporary_beside(target).name == f".{target.name}.{os.getpid()}.tmp"
    assert {path.name for path in tmp_path.iterdir()} == {alive.name, other.name}


def test_a_staged_folder_moves_all_files_or_none(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("earlier")

    def write_and_fail() -> None:
        with staged_folder(tmp_path) as staging:
            (staging / "model").write_text("later")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_and_fail()
    assert (tmp_path / "model").read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    with staged_folder(tmp_path) as staging:
        (staging / "results").mkdir()
        (staging / "results" / "score").write_text("1")
        (staging / "model").write_text("later")
    assert (tmp_path / "model").read_text() == "later"
    assert (tmp_path / "results" / "score").read_text() == "1"


def _interrupted_after_half(target: Path) -> None:
    with whole_folder(target) as folder:
        (folder / "second.txt").write_text("half")
        raise KeyboardInterrupt


def test_a_folder_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "index"
    with whole_folder(target) as folder:
        (folder / "first.txt").write_text("first")
        assert not target.exists()
    with pytest.raises(KeyboardInterrupt):
        _interrupted_after_half(target)
    assert [path.name for path in target.iterdir()] == ["first.txt"]
    killed = target.with_name(f".{target.name}.{_dead_process()}.tmp")
    (killed / "ready").mkdir(parents=True)
    with whole_folder(target) as folder:
        (folder / "second.txt").write_text("second")
    assert [path.name for path in target.iterdir()] == ["second.txt"]
    assert [path.name for path in target.parent.iterdir()] == ["index"]
