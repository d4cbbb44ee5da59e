"""The benchmark of the papers' sizes: its raw files can be built, and its steps are measured."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from types import ModuleType

import pytest
from benchmark_scripts import load_benchmark

from eventformers.datasets_scripts.building import build_dataset, build_reports


@pytest.fixture
def benchmark() -> ModuleType:
    return load_benchmark("paper_size")


@pytest.mark.parametrize("method", ["swcc", "heterevent", "mico", "event_type_induction", "event_grounding"])
def test_the_raw_files_are_those_of_the_owners(benchmark: ModuleType, tmp_path: Path, method: str) -> None:
    number = benchmark.write_raw(method, tmp_path, 1e-5)
    plan = benchmark.PLANS[method]
    for config in plan.configs:
        build_dataset(plan.dataset, config, tmp_path / "raw", tmp_path / "built")
    reports = build_reports(tmp_path / "built")
    assert sorted(reports) == sorted(plan.configs)
    rows = reports["chains" if method == "heterevent" else plan.configs[0]]["rows"]
    # Documents have several chains; co-occurrence has a row for each distinct event.
    assert number / 3 <= rows <= 3 * number


def test_the_tests_of_similarity_are_those_of_the_papers(benchmark: ModuleType, tmp_path: Path) -> None:
    benchmark.write_raw("swcc", tmp_path, 1e-5)
    for config in ("hard", "hard_extended", "transitive"):
        build_dataset("event_similarity", config, tmp_path / "similarity", tmp_path / "built")
    rows = {config: report["rows"] for config, report in build_reports(tmp_path / "built").items()}
    assert rows == {"hard": 115, "hard_extended": 1_000, "transitive": 108}


@pytest.mark.process
def test_a_step_is_measured(benchmark: ModuleType, tmp_path: Path) -> None:
    run = benchmark.Runner(tmp_path, argparse.Namespace(threads=1))
    (step,) = run("list", "data list")
    assert step.processor > 0.1
    assert 0.01 < step.own < step.peak < 2
    with pytest.raises(RuntimeError, match="No such command"):
        list(run("wrong", "no-command"))
    (killed,) = run("killed", "data list", until="")
    assert killed.processor < step.processor
    assert benchmark.processor_seconds_of(os.getpid()) == pytest.approx(time.process_time(), abs=1)
    assert 0.02 < benchmark.memory_of(os.getpid(), "RssAnon") < benchmark.memory_of(os.getpid(), "VmHWM")


def test_growth_is_reported(benchmark: ModuleType) -> None:
    found = {
        scale: [
            benchmark.Measured("train, to the first step", 30, 3 * scale, 0.7, 0.5),
            benchmark.Measured("train", 10, 100 * scale**2, 1.5, 1.2),
        ]
        for scale in (0.01, 0.1)
    }
    table = benchmark.report("swcc", found, "tiny").splitlines()
    assert table[-2].endswith("| 1.00 |")
    assert table[-1].endswith("| 10.0 | 1.0 | 1.50 (1.20) | 2.00 |")
