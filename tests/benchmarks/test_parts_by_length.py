"""The benchmark of parts of similar length runs, prints its ratios, and counts padding."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from benchmark_scripts import load_benchmark


@pytest.mark.parametrize("method", ["heterevent", "mico", "swcc"])
def test_prints_ratios_and_padding(
    method: str, tiny_encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = load_benchmark("parts_by_length")
    threads = torch.get_num_threads()
    benchmark.main(
        [method, "--recipe=demo", "--rounds=1", f"--encoder={tiny_encoder}", f"--threads={threads}"]
    )
    printed = capsys.readouterr().out
    for other in (name for name in benchmark.SPLITS if name != benchmark.LEAST_COST):
        assert f"  processor time of {other} / parts of least cost: median " in printed
    padded = {
        name: float(line.split(": ")[1].split()[0])
        for name in benchmark.SPLITS
        for line in printed.splitlines()
        if line.startswith(f"  {name}: ")
    }
    assert padded["a part for each length"] == 1
    assert padded["one pass"] > padded[benchmark.LEAST_COST] >= 1
