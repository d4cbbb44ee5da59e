"""Workers of the local executor and of Ray that are killed in the middle of a shard."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_files import STORIES
from forked import run_python

pytest.importorskip("spacy", reason="spaCy is not installed")
pytest.importorskip("datatrove", reason="datatrove is not installed")

from eventformers.distributed.steps import BLOCK_DOCUMENTS

SCRIPT = Path(__file__).resolve().parents[1] / "support" / "waiting_pipeline.py"
WAIT = 240
"""Seconds until a script must have done what is awaited; a busy machine takes a minute to import."""

Done = subprocess.CompletedProcess[str]
Run = Callable[[str, Path], Done]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for each of three tasks, of more than one block."""
    folder = tmp_path_factory.mktemp("shards")
    (folder / "texts").mkdir()
    for number in range(3):
        rows = [
            {"id": str(place), "text": STORIES[(number + place) % 3]} for place in range(BLOCK_DOCUMENTS + 20)
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / "texts" / f"{number}.parquet")
    return folder


@pytest.fixture(scope="module")
def run(texts: Path, english_pipeline: str, tiny_encoder: Path) -> Run:
    """The function that runs the script with an executor and an output folder."""

    def call(engine: str, out: Path) -> Done:
        # Ray's own processes reach each other by the address of the machine, which tests do not.
        environment = {**os.environ, "RAY_worker_niceness": "0", "RAY_AUTH_MODE": "disabled"}
        arguments = [str(SCRIPT), engine, str(texts), str(out), english_pipeline, str(tiny_encoder)]
        return run_python(arguments, cwd=texts, env=environment, timeout=WAIT, server="package")

    return call


@pytest.fixture(scope="module")
def whole(texts: Path, run: Run) -> dict[str, bytes]:
    """The files of one worker that nobody kills."""
    (texts / "waiting").touch()
    done = run("one", texts / "whole")
    assert done.returncode == 0, done.stderr[-4000:]
    return written(texts / "whole")


@pytest.fixture
def waiting(texts: Path, whole: dict[str, bytes]) -> Iterator[Path]:
    """The file that tells which process waits in the middle of task 1."""
    (texts / "waiting").unlink()
    yield texts / "waiting"
    (texts / "waiting").touch()


def written(out: Path) -> dict[str, bytes]:
    """The contents of the files that have their names."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.glob("*/0*"))}


def wait_for(found: Path, running: Future[Done]) -> None:
    """Wait until a file is there, or fail with what the script says."""
    ends = time.monotonic() + WAIT
    while not found.exists():
        assert not running.done(), running.result().stderr[-4000:]
        assert time.monotonic() < ends, f"{found} did not appear"
        time.sleep(0.02)


def is_half_written(out: Path) -> bool:
    """True if task 1 has written a part of its vectors, and no file has its name."""
    sizes = [path.stat().st_size for path in out.glob("vectors/unfinished/00001.*")]
    return any(sizes) and not list(out.glob("*/00001.*"))


def test_the_local_executor_after_a_killed_worker(
    run: Run, waiting: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    completions = tmp_path / "logs" / "completions"
    with ThreadPoolExecutor() as pool:
        running = pool.submit(run, "local", tmp_path)
        wait_for(waiting, running)
        wait_for(completions / "00000", running)
        worker = int(waiting.read_text(encoding="utf-8"))
        group = os.getpgid(worker)
        os.kill(worker, signal.SIGKILL)
        # The executor waits for the worker; this is Ctrl+C in a terminal.
        os.killpg(group, signal.SIGINT)
        assert running.result().returncode != 0
    assert is_half_written(tmp_path)
    ranks = {path.name for path in completions.iterdir()}
    assert "00001" not in ranks
    finished = {path: path.stat().st_mtime_ns for rank in ranks for path in tmp_path.glob(f"*/{rank}.*")}
    assert finished

    done = run("local", tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert written(tmp_path) == whole
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert not list(tmp_path.glob("*/unfinished/*"))


@pytest.mark.timeout(600)
def test_ray_after_a_killed_worker(run: Run, waiting: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    with ThreadPoolExecutor() as pool:
        running = pool.submit(run, "ray", tmp_path)
        wait_for(waiting, running)
        # datatrove runs a task in a child of Ray's worker, and Ray waits for the end of both.
        task = int(waiting.read_text(encoding="utf-8"))
        worker = os.getpgid(task)
        half_written = is_half_written(tmp_path)
        os.killpg(worker, signal.SIGKILL)
        done = running.result()
    assert half_written
    assert done.returncode == 0, done.stderr[-4000:]
    assert written(tmp_path) == whole
    assert not list(tmp_path.glob("*/unfinished/*"))
