"""Files, and locks of output folders."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eventformers.errors import EventformersError
from eventformers.files import (
    is_unfinished,
    output_file,
    output_folder,
    refuse_unfinished,
    remove_folder,
    staged_folder,
    temporary_beside,
    write_text,
)
from eventformers.locks import one_writer


def _dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def test_a_failed_write_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.json"
    write_text(target, "earlier")

    def fail(*arguments: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(os, "replace", fail)
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
    with ThreadPoolExecutor(1) as pool:
        name = pool.submit(temporary_beside, target).result().name
    assert name not in (temporary_beside(target).name, target.name), "two threads may write one file"
    assert name.endswith(f".{os.getpid()}.tmp")
    assert {path.name for path in tmp_path.iterdir()} == {alive.name, other.name}


@pytest.mark.parametrize("number", ["²", "9" * 30])
def test_files_that_name_no_process_stay(tmp_path: Path, number: str) -> None:
    other = tmp_path / f".a.txt.{number}.tmp"
    other.touch()
    temporary_beside(tmp_path / "a.txt")
    assert other.exists()


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


class Killed(BaseException):
    """Stands for a kill: nothing in the code under test catches it."""


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".staging" not in path.parts
    }


OLD = {name: f"old {name}" for name in ("config.json", "weights", "only_old", "deep/config.json", "user.txt")}
NEW = {name: f"new {name}" for name in ("config.json", "weights", "only_new", "deep/config.json")}
WHOLE_NEW = NEW | {"user.txt": "old user.txt"}


def write_new(folder: Path) -> None:
    with staged_folder(folder, replaced=("only_*",)) as staging:
        for name, text in NEW.items():
            (staging / name).parent.mkdir(exist_ok=True)
            (staging / name).write_text(text)


def folder_of_old_files(folder: Path) -> Path:
    for name, text in OLD.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_kill_at_any_change_of_a_name_leaves_no_mixture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every rename and removal the old files or the new ones are there, and `config.json` with all."""
    states = []
    for number in range(100):
        folder = folder_of_old_files(tmp_path / str(number))
        left = number

        def stop(call: Callable[..., None]) -> Callable[..., None]:
            def counted(*arguments: object, **options: object) -> None:
                nonlocal left
                if left == 0:
                    raise Killed
                left -= 1
                call(*arguments, **options)

            return counted

        with monkeypatch.context() as patch:
            for name in ("replace", "unlink", "rmdir"):
                patch.setattr(os, name, stop(getattr(os, name)))
            try:
                write_new(folder)
                break
            except Killed:
                pass
        found = contents(folder)
        olds = {name for name, text in found.items() if text.startswith("old") and name != "user.txt"}
        assert not olds or len(olds) == len(found) - 1, "old and new files together"
        if "config.json" in found:
            assert found in (OLD, WHOLE_NEW)
        if found != OLD and found != WHOLE_NEW:
            with pytest.raises(EventformersError, match="did not finish"):
                refuse_unfinished(folder)
        was_unfinished = is_unfinished(folder)
        with output_folder(folder):
            assert contents(folder) == (WHOLE_NEW if was_unfinished or found == WHOLE_NEW else OLD)
        states.append(found)
        write_new(folder)
        assert contents(folder) == WHOLE_NEW
        assert not (folder / ".staging").exists()
    assert contents(folder) == WHOLE_NEW
    assert OLD in states
    assert any("config.json" not in found for found in states)


def test_a_folder_that_stands_where_a_file_goes_is_refused_before_anything_moves(tmp_path: Path) -> None:
    folder = folder_of_old_files(tmp_path / "run")
    (folder / "only_new").mkdir()
    with pytest.raises(EventformersError, match="only_new: a folder; accepted: a file"):
        write_new(folder)
    assert contents(folder) == OLD


def test_a_removed_folder_is_never_seen_half_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of_old_files(tmp_path / "checkpoint-1")

    def killed(*arguments: object, **options: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", killed)
        with pytest.raises(Killed):
            remove_folder(folder)
    assert not folder.exists()


def test_what_a_dead_process_of_the_same_number_left_goes_with_the_next_command(tmp_path: Path) -> None:
    (tmp_path / f".checkpoint-1.{os.getpid()}.tmp" / "deep").mkdir(parents=True)
    (tmp_path / f".other.{os.getppid()}.tmp").touch()
    with output_folder(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == [f".other.{os.getppid()}.tmp"]


def test_a_new_folder_that_stays_empty_goes_away(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), output_folder(tmp_path / "deep" / "run"):
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_a_file_where_a_folder_goes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(EventformersError, match="is a file; accepted: a folder"),
        output_folder(tmp_path / "file"),
    ):
        raise AssertionError


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("old")
    for name, target in (("link", "page.html"), ("dangling", "new.html")):
        (tmp_path / name).symlink_to(target)
        write_text(tmp_path / name, "new")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / target).read_text() == "new"


def test_what_is_no_regular_file_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "loop").symlink_to("loop")
    for path, found in (
        (Path(os.devnull), "a device"),
        (tmp_path / "pipe", "a pipe"),
        (tmp_path / "link", "a pipe"),
        (tmp_path, "a folder"),
        (tmp_path / "loop", "cannot write"),
    ):
        for write in (output_file, lambda path: write_text(path, "new")):
            with pytest.raises(EventformersError, match=found):
                write(path)
    assert (tmp_path / "pipe").is_fifo()
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        ('{"going": ["../kept.txt"], "coming": []}', "outside of its folder"),
        ('{"going": ["/etc/hostname"], "coming": []}', "outside of its folder"),
        ('{"going": ["link/kept.txt"], "coming": []}', "outside of its folder"),
        ('{"going": []}', "not a plan"),
        ("[", "not a plan"),
        ('{"going": [1], "coming": []}', "not a plan"),
    ],
)
def test_a_plan_of_somebody_else_does_nothing_outside(plan: str, found: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept.txt"
    kept.write_text("kept")
    staging = tmp_path / "folder" / ".staging"
    staging.mkdir(parents=True)
    (staging / "plan.json").write_text(plan)
    (tmp_path / "folder" / "link").symlink_to(tmp_path)
    with pytest.raises(EventformersError, match=found), output_folder(tmp_path / "folder"):
        pass
    assert kept.read_text() == "kept"


HOLDER = """
import os, sys, time
from pathlib import Path
from eventformers.locks import one_writer

with one_writer(Path(sys.argv[1])):
    if not os.fork():
        # By now the child has let go of its copy of the lock.
        print(os.getpid(), flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("name", ["run", "link"])
def test_the_second_writer_is_refused_at_once_by_the_first_ones_name(tmp_path: Path, name: str) -> None:
    """Also another thread of this process is a second writer, and a link leads to the same lock."""
    (tmp_path / "link").symlink_to("run")
    refused: list[EventformersError] = []

    def write_too() -> None:
        with pytest.raises(EventformersError) as raised, one_writer(tmp_path / name):
            raise AssertionError
        refused.append(raised.value)

    with one_writer(tmp_path / "run"):
        thread = threading.Thread(target=write_too)
        thread.start()
        thread.join()
    (error,) = refused
    assert re.search(
        rf"run is being written to by process {os.getpid()}, which started at \d{{4}}-", str(error)
    )


def test_what_one_writer_calls_writes_with_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with one_writer(run), one_writer(run), one_writer(run / "stages" / "1"):
        assert [path.name for path in tmp_path.iterdir()] == [".run.lock"]


def test_no_lock_stays_behind(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), one_writer(tmp_path / "deep" / "run"):
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    with one_writer(tmp_path / "deep" / "run"):
        (tmp_path / "deep" / "run").mkdir()
        (tmp_path / "deep" / "run" / "model").touch()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["run"]


def test_who_waits_comes_next(tmp_path: Path) -> None:
    order = []

    def write_too() -> None:
        with one_writer(tmp_path / "cache", wait=True):
            order.append("second")

    with one_writer(tmp_path / "cache"):
        thread = threading.Thread(target=write_too)
        thread.start()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_killed_writer_blocks_nobody_even_while_its_children_live(tmp_path: Path) -> None:
    """A worker that was forked has a copy of every open file, which must not keep the lock."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path / "run"], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        with (
            pytest.raises(EventformersError, match=f"process {holder.pid}, which"),
            one_writer(tmp_path / "run"),
        ):
            raise AssertionError
        holder.kill()
        holder.wait()
        assert (tmp_path / ".run.lock").exists()
        with one_writer(tmp_path / "run"):
            pass
        assert not (tmp_path / ".run.lock").exists()
    finally:
        os.kill(child, signal.SIGKILL)
        holder.stdout.close()


def test_where_the_parent_is_read_only_the_folder_holds_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a volume that a container mounts. Root writes anywhere, so that the system is played."""
    (tmp_path / "run").mkdir()
    real_open = os.open

    def refusing(path: str, *arguments: int) -> int:
        if os.path.dirname(path) == str(tmp_path):
            raise PermissionError(13, os.strerror(13), path)
        return real_open(path, *arguments)

    monkeypatch.setattr(os, "open", refusing)
    with one_writer(tmp_path / "run"):
        assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
    assert not list((tmp_path / "run").iterdir())
    with (
        pytest.raises(EventformersError, match="new cannot be written to: Permission denied"),
        one_writer(tmp_path / "new"),
    ):
        raise AssertionError


@pytest.mark.skipif(sys.platform != "linux", reason="/proc takes no new file, and other systems have none")
@pytest.mark.parametrize("wait", [False, True])
def test_a_place_that_takes_no_file_is_no_other_writer(wait: bool) -> None:
    place = Path("/proc/vectors")
    message = "/proc/vectors cannot be written to: No such file"
    with pytest.raises(EventformersError, match=message), one_writer(place, wait=wait):
        pass


def test_a_full_disk_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text = Path.write_text

    def full(path: Path, text: str, **settings: str) -> int:
        write_text(path, text[:3], **settings)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    for place in (tmp_path / "a.png", tmp_path / "new" / "a.png"):
        with pytest.raises(EventformersError, match="No space left on device"), one_writer(place):
            raise AssertionError
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    with one_writer(tmp_path / "a.png"):
        pass
