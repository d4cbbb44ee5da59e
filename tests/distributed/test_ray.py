"""The steps on a local Ray with two workers."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forked import run_python

pytest.importorskip("ray", reason="Ray is not installed")
pytest.importorskip("datatrove", reason="datatrove is not installed")

# Ray's own processes reach each other by the address of the machine, which tests do not.
SCRIPT = """
import sys

import ray
from datatrove.executor import LocalPipelineExecutor, RayPipelineExecutor
from datatrove.pipeline.readers import ParquetReader

from eventformers.distributed.steps import DistinctIds
from eventformers.distributed.steps import Embed

folder, encoder = sys.argv[1:]


def steps(name):
    return [ParquetReader(f"{folder}/texts"), DistinctIds(), Embed(f"{folder}/{name}", encoder)]


LocalPipelineExecutor(steps("local"), tasks=3, workers=1, logging_dir=f"{folder}/local-logs").run()
ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100_000_000)
executor = RayPipelineExecutor(
    steps("ray"), tasks=3, workers=2, mem_per_cpu_gb=0.5, logging_dir=f"{folder}/ray-logs"
)
executor.run()
ray.shutdown()
"""


@pytest.mark.timeout(900)
def test_two_workers_of_ray_write_what_one_process_writes(tmp_path: Path, tiny_encoder: Path) -> None:
    (tmp_path / "texts").mkdir()
    for number in range(3):
        rows = [{"id": str(place), "text": f"storm {number} hit city {place}"} for place in range(4)]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "texts" / f"{number}.parquet")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "RAY_worker_niceness": "0", "RAY_AUTH_MODE": "disabled"}
    done = run_python(
        [str(script), str(tmp_path), str(tiny_encoder)], cwd=tmp_path, env=environment, timeout=800
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for name in ("00000.parquet", "00001.parquet", "00002.parquet"):
        written, wanted = (pq.read_table(tmp_path / kind / name) for kind in ("ray", "local"))
        assert written.equals(wanted)
