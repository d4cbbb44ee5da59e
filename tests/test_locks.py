"""One writer for each output, whatever becomes of it."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from eventformers.errors import EventformersError
from eventformers.locks import one_writer

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
