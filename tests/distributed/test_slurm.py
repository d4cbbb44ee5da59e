"""The script of the page on a Slurm that answers, with a task that is cancelled."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_files import EVENTS, STORIES, write_edges, write_events

pytest.importorskip("spacy", reason="spaCy is not installed")
pytest.importorskip("datatrove", reason="datatrove is not installed")

import eventformers
from eventformers.inference.induction.report import write_induction

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scale.md"
WAIT = 600
"""Seconds until a job must have done what is awaited."""


def slurm_answers() -> bool:
    """Whether jobs can be submitted and run here."""
    if shutil.which("sbatch") is None:
        return False
    answer = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True, check=False)
    return answer.returncode == 0 and any(state in answer.stdout for state in ("idle", "mixed", "allocated"))


pytestmark = pytest.mark.skipif(not slurm_answers(), reason="there is no Slurm whose controller answers")


def script_of_page(replaced: dict[str, str], *, slurm: bool) -> str:
    """The script, with this test's files and number of tasks."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    code = blocks[0]
    if slurm:
        code = code[: code.index('if __name__ == "__main__":')] + blocks[1]
    for told, meant in replaced.items():
        code = code.replace(told, meant)
    return code


def wait_for(found: Path) -> None:
    """Wait until a file is there, or fail with what the tasks say."""
    ends = time.monotonic() + WAIT
    while not found.exists():
        assert time.monotonic() < ends, f"{found} did not appear"
        time.sleep(0.5)


@pytest.mark.timeout(1800)
def test_a_cancelled_task_is_run_again_and_files_equal_those_of_the_local_executor(
    english_pipeline: str, tiny_encoder: Path, tmp_path: Path
) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for number in range(3):
        rows = [{"id": str(place), "text": STORIES[(number + place) % 3]} for place in range(2)]
        pq.write_table(pa.Table.from_pylist(rows), texts / f"{number}.parquet")
    sample = tmp_path / "sample.txt"
    sample.write_text("\n".join(STORIES), encoding="utf-8")
    extracted = eventformers.extract(sample, tmp_path / "sample-events", pipeline=english_pipeline).folder
    write_induction(eventformers.induce(tiny_encoder, extracted, num_clusters=3), tmp_path / "my-types")
    write_edges(write_events(tmp_path / "my-events", EVENTS), [("Q2", "Q1")])
    # The scripts of datatrove, for this interpreter.
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("launch_pickled_pipeline", "merge_stats"):
        command = commands / name
        command.write_text(f"#!{sys.executable}\nfrom datatrove.tools.{name} import main\nmain()\n")
        command.chmod(0o755)
    replaced = {
        '"en_core_web_sm"': repr(english_pipeline),
        '-vectors"': f'-vectors", model={str(tiny_encoder)!r}',
        'induction="my-types"': f'induction="my-types", model={str(tiny_encoder)!r}',
        'index="my-index"': f'index="my-index", model={str(tiny_encoder)!r}',
        "tasks=4, workers=2": "tasks=3, workers=1",
        "tasks=200": "tasks=3, qos=None",
        "tasks=1, ": "tasks=1, qos=None, ",
        '"mem_per_cpu_gb": 4': '"mem_per_cpu_gb": 2',
        "source /shared/venv/bin/activate": f"export PATH={commands}:$PATH",
    }
    partition = subprocess.run(["sinfo", "-h", "-o", "%R"], capture_output=True, text=True, check=True)
    replaced['"partition": "cpu"'] = f'"partition": {partition.stdout.split()[0]!r}'

    def run(name: str, *, slurm: bool) -> None:
        script = tmp_path / f"{name}.py"
        script.write_text(script_of_page(replaced, slurm=slurm), encoding="utf-8")
        command = [sys.executable, str(script), str(texts), str(tmp_path / name)]
        environment = {**os.environ, "SBATCH_CHDIR": str(tmp_path)}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=WAIT, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]

    run("local", slurm=False)
    merged = tmp_path / "co-occurrence.parquet"
    wanted = merged.read_bytes()
    merged.unlink()

    out, own = tmp_path / "slurm", ["squeue", "-h", "-r", "-o", "%i %t %Z", "--me"]
    run("slurm", slurm=True)
    try:
        wait_for(out / "text-vectors" / "unfinished")
        listed = subprocess.run(own, capture_output=True, text=True, check=True).stdout
        states = {line.split()[0]: line.split()[1] for line in listed.splitlines() if str(tmp_path) in line}
        # A shard in the middle of its work, and the jobs that wait for all shards.
        job, _, rank = max(name for name, state in states.items() if state == "R").partition("_")
        subprocess.run(["scancel", f"{job}_{rank}"], check=True)
        others = {0, 1, 2} - {int(rank)}
        for other in others:
            wait_for(out / "logs" / "completions" / f"{other:05d}")
        assert not (out / "logs" / "completions" / f"{int(rank):05d}").exists()
        assert not merged.exists()
        finished = {
            path: path.stat().st_mtime_ns for other in others for path in out.glob(f"*/{other:05d}.*")
        }
        assert finished
        waiting = [name for name in states if not name.startswith(f"{job}_")]
        subprocess.run(["scancel", *waiting], check=True)
        run("slurm", slurm=True)
        wait_for(out / "merge-logs" / "completions" / "00000")
    finally:
        listed = subprocess.run(own, capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            if str(tmp_path) in line:
                subprocess.run(["scancel", line.split()[0]], check=False)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    folders = ("text-vectors", "events", "event-vectors", "types", "links", "co-occurrence")
    for folder in folders:
        files = {path.name: path.read_bytes() for path in (tmp_path / "local" / folder).glob("0*")}
        assert files
        assert {path.name: path.read_bytes() for path in (out / folder).glob("0*")} == files
    assert merged.read_bytes() == wanted
