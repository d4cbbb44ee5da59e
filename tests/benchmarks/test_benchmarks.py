"""The benchmarks of one GPU, of the papers' sizes and of the scorer of pairs, small on a processor."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from benchmark_scripts import load_benchmark
from defusedxml.ElementTree import fromstring

from eventformers.datasets_scripts.building import build_dataset, build_reports
from eventformers.methods import built_in_methods, load_method
from eventformers.models.heterevent_layers import ChainEncoder
from eventformers.models.modeling_swcc import SwccModel
from eventformers.trainers.run import resolve_recipe
from eventformers.trainers.stages import stage_recipes

ALONE = {method.name for method in built_in_methods()} - {method.recipes_of for method in built_in_methods()}
"""Methods that no other one needs first: that one trains it."""


@pytest.fixture
def gpu_benchmark() -> ModuleType:
    return load_benchmark("gpu")


@pytest.mark.process
def test_measures_small(
    gpu_benchmark: ModuleType, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[dict[str, Any]] = []
    # tests/models/test_compile.py compiles the models.
    monkeypatch.setattr(torch.nn.Module, "compile", lambda model, **options: compiled.append(options))
    chosen = ["--parts", "encoding", "steps", "search", "--rounds=1", f"--encoder={tiny_encoder}"]
    assert gpu_benchmark.main([f"--output={tmp_path}", "--device=cpu", "--small", *chosen]) == 0
    record = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    parts = {part["title"]: part for part in record["parts"]}
    assert list(parts) == ["Encoding", "Training steps", "Ranking and search"]
    assert all(part["rows"] and not part["failures"] and not part["left_out"] for part in parts.values())
    assert compiled == [{"dynamic": True}] * 5, "a model and kind of text each, in half precision"
    for row in parts["Encoding"]["rows"]:
        assert not row["least cosine"] or float(row["least cosine"]) > 0.99
    table = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert "| SWCC | 8 events | float32 | five passes |" in table


@pytest.mark.parametrize(
    ("measurement", "model", "name"),
    [("SWCC", SwccModel, "encode_together"), ("SeqCL", ChainEncoder, "chain_states")],
)
def test_refuses_sides_that_differ(
    gpu_benchmark: ModuleType,
    tiny_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    measurement: str,
    model: type,
    name: str,
) -> None:
    right = getattr(model, name)

    def wrong(self: object, *inputs: Any) -> Any:
        found = right(self, *inputs)
        if name == "encode_together":
            return [(hidden + 1e-3 * hidden.sin(), mask) for hidden, mask in found]
        # Depends on how many rows the text encoder had.
        return torch.cat([found[:1] + 1e-3 * len(inputs[0]), found[1:]])

    monkeypatch.setattr(model, name, wrong)
    bench = bench_of(gpu_benchmark, tiny_encoder, tmp_path)
    with pytest.raises(AssertionError, match="gradients of the two sides differ"):
        gpu_benchmark.steps.PART.measurements[measurement](bench, gpu_benchmark.Clock(60))


@pytest.mark.process
@pytest.mark.parametrize("method", sorted(ALONE))
def test_trains_small(gpu_benchmark: ModuleType, tmp_path: Path, method: str) -> None:
    encoder = load_benchmark("paper_data").write_encoder(tmp_path / "encoder", hidden_size=32, layers=2)
    bench = bench_of(gpu_benchmark, encoder, tmp_path)
    # A reranker needs the model of its method.
    earlier = load_method(method).recipes_of
    for name in [*([] if earlier is None else [earlier]), method]:
        (row,) = gpu_benchmark.train_method(bench, gpu_benchmark.Clock(60), name=name)
        trained = load_method(name)
        assert row["recipe"] == ("demo" if trained.recipes_of is None else trained.default_recipe)
        assert row["steps"] == 2 * len(stage_recipes(resolve_recipe(trained, row["recipe"], seed=1)))


def test_records_failures_and_what_is_left_out(
    gpu_benchmark: ModuleType, tiny_encoder: Path, tmp_path: Path
) -> None:
    def fails(bench: object, clock: object) -> list[dict[str, str]]:
        raise ValueError("no such thing\nand more")

    def is_slow(bench: object, clock: Any) -> list[dict[str, str]]:
        clock.seconds = 0
        return [{"a": "1|2"}]

    part = gpu_benchmark.Part("A part", 1, {"fails": fails, "slow": is_slow, "late": is_slow})
    found = gpu_benchmark.run_part(part, bench_of(gpu_benchmark, tiny_encoder, tmp_path), 60)
    assert found["failures"] == ["fails: ValueError: no such thing"]
    assert found["left_out"] == ["late"]
    assert found["rows"] == [{"a": "1|2"}]


def test_counts_tests_and_stops_them(
    gpu_benchmark: ModuleType, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = fromstring('<testsuite tests="9" failures="1" errors="1" skipped="2" time="3.25"/>')
    counted = gpu_benchmark.counts(suite)
    assert counted == {"passed": 5, "failed": 2, "skipped": 2, "seconds": 3.2}

    def times_out(*_: object, timeout: float, **__: object) -> None:
        raise subprocess.TimeoutExpired("pytest", timeout)

    monkeypatch.setattr(subprocess, "run", times_out)
    clock = gpu_benchmark.Clock(1)
    assert gpu_benchmark.run_tests(bench_of(gpu_benchmark, tiny_encoder, tmp_path), clock) == []
    assert len(clock.left_out) == 1


def test_brings_an_encoder_to_single_precision(
    gpu_benchmark: ModuleType, tiny_encoder: Path, tmp_path: Path
) -> None:
    from transformers import AutoModel

    assert gpu_benchmark.float32_encoder(str(tiny_encoder), tmp_path / "same") == (
        str(tiny_encoder),
        "as published",
    )
    AutoModel.from_pretrained(tiny_encoder).half().save_pretrained(tmp_path / "half")
    folder, weights = gpu_benchmark.float32_encoder(str(tmp_path / "half"), tmp_path / "whole")
    assert weights == "rounded to half precision"
    assert AutoModel.from_pretrained(folder).dtype == torch.float32
    (tmp_path / "half" / "model.safetensors").unlink()
    assert gpu_benchmark.float32_encoder(str(tmp_path / "half"), tmp_path / "drawn")[1] == "random"


def bench_of(gpu_benchmark: ModuleType, encoder: Path, folder: Path) -> object:
    """What measurements are given, on the processor."""
    return gpu_benchmark.Bench(torch.device("cpu"), True, str(encoder), folder, 0, 1, 1e12)


@pytest.fixture
def size_benchmark() -> ModuleType:
    return load_benchmark("paper_size")


@pytest.mark.parametrize("method", ["swcc", "heterevent", "mico", "event_type_induction", "event_grounding"])
def test_the_raw_files_are_those_of_the_owners(
    size_benchmark: ModuleType, tmp_path: Path, method: str
) -> None:
    number = size_benchmark.write_raw(method, tmp_path, 1e-5)
    plan = size_benchmark.PLANS[method]
    for config in plan.configs:
        build_dataset(plan.dataset, config, tmp_path / "raw", tmp_path / "built")
    reports = build_reports(tmp_path / "built")
    assert sorted(reports) == sorted(plan.configs)
    rows = reports["chains" if method == "heterevent" else plan.configs[0]]["rows"]
    # Documents have several chains; co-occurrence has a row for each distinct event.
    assert number / 3 <= rows <= 3 * number


def test_the_tests_of_similarity_are_those_of_the_papers(size_benchmark: ModuleType, tmp_path: Path) -> None:
    size_benchmark.write_raw("swcc", tmp_path, 1e-5)
    for config in ("hard", "hard_extended", "transitive"):
        build_dataset("event_similarity", config, tmp_path / "similarity", tmp_path / "built")
    rows = {config: report["rows"] for config, report in build_reports(tmp_path / "built").items()}
    assert rows == {"hard": 115, "hard_extended": 1_000, "transitive": 108}


@pytest.mark.process
def test_a_step_is_measured(size_benchmark: ModuleType, tmp_path: Path) -> None:
    run = size_benchmark.Runner(tmp_path, argparse.Namespace(threads=1))
    (step,) = run("list", "data list")
    assert step.processor > 0.1
    assert 0.01 < step.own < step.peak < 2
    with pytest.raises(RuntimeError, match="No such command"):
        list(run("wrong", "no-command"))
    (killed,) = run("killed", "data list", until="")
    assert killed.processor < step.processor
    assert size_benchmark.processor_seconds_of(os.getpid()) == pytest.approx(time.process_time(), abs=1)
    assert (
        0.02
        < size_benchmark.memory_of(os.getpid(), "RssAnon")
        < size_benchmark.memory_of(os.getpid(), "VmHWM")
    )


def test_growth_is_reported(size_benchmark: ModuleType) -> None:
    found = {
        scale: [
            size_benchmark.Measured("train, to the first step", 30, 3 * scale, 0.7, 0.5),
            size_benchmark.Measured("train", 10, 100 * scale**2, 1.5, 1.2),
        ]
        for scale in (0.01, 0.1)
    }
    table = size_benchmark.report("swcc", found, "tiny").splitlines()
    assert table[-2].endswith("| 1.00 |")
    assert table[-1].endswith("| 10.0 | 1.0 | 1.50 (1.20) | 2.00 |")


scorer_benchmark = load_benchmark("pair_scorer")


def test_held_out_pairs_are_scored_on_the_features_of_the_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    training = object.__new__(scorer_benchmark.Training)
    training.folds = np.arange(20) % scorer_benchmark.FOLDS
    training.labels = np.zeros(20, dtype=bool)
    training.features, training.task_features = np.random.default_rng(0).random((2, 20, 3), np.float32)
    trained: list[np.ndarray] = []

    def scorer(chosen: np.ndarray) -> SimpleNamespace:
        trained.append(chosen)
        return SimpleNamespace(logits=lambda features, nearer: features.sum(1).expand(2, -1))

    monkeypatch.setattr(training, "scorer", scorer)
    logits = training.held_out_logits()
    np.testing.assert_allclose(logits[0], training.features.sum(1), rtol=1e-6)
    np.testing.assert_allclose(logits[1], training.task_features.sum(1), rtol=1e-6)
    np.testing.assert_array_equal(trained, [training.folds != fold for fold in range(scorer_benchmark.FOLDS)])
    scored: list[np.ndarray] = []
    monkeypatch.setattr(scorer_benchmark, "Training", lambda path: training)
    monkeypatch.setattr(scorer_benchmark, "scores", lambda of, given, chosen: scored.append(given) or [])
    scorer_benchmark.main([str(tmp_path)])
    np.testing.assert_array_equal(scored, logits[1:])
