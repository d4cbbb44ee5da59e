"""The benchmark of one GPU: every part runs small on a processor, and its record tells what is missing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
import torch
from benchmark_scripts import load_benchmark

from eventformers.methods import built_in_methods, load_method
from eventformers.models.chain_encoder import ChainEncoder
from eventformers.models.modeling_swcc import SwccModel
from eventformers.trainers.run import resolve_recipe
from eventformers.trainers.stages import stage_recipes


@pytest.fixture
def benchmark() -> ModuleType:
    return load_benchmark("gpu")


@pytest.mark.process
def test_measures_small(
    benchmark: ModuleType, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[dict[str, Any]] = []
    # tests/models/test_compile.py compiles the models.
    monkeypatch.setattr(torch.nn.Module, "compile", lambda model, **options: compiled.append(options))
    chosen = ["--parts", "encoding", "steps", "search", "--rounds=1", f"--encoder={tiny_encoder}"]
    assert benchmark.main([f"--output={tmp_path}", "--device=cpu", "--small", *chosen]) == 0
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
    benchmark: ModuleType,
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
    bench = bench_of(benchmark, tiny_encoder, tmp_path)
    with pytest.raises(AssertionError, match="gradients of the two sides differ"):
        benchmark.steps.PART.measurements[measurement](bench, benchmark.Clock(60))


@pytest.mark.process
@pytest.mark.parametrize("method", [method.name for method in built_in_methods()])
def test_trains_small(benchmark: ModuleType, tmp_path: Path, method: str) -> None:
    encoder = load_benchmark("paper_data").write_encoder(tmp_path / "encoder", hidden_size=32, layers=2)
    bench = bench_of(benchmark, encoder, tmp_path)
    # A reranker needs the model of its method.
    earlier = load_method(method).recipes_of
    for name in [*([] if earlier is None else [earlier]), method]:
        (row,) = benchmark.train_method(bench, benchmark.Clock(60), name=name)
    assert row["recipe"] == ("demo" if earlier is None else load_method(method).default_recipe)
    stages = len(stage_recipes(resolve_recipe(load_method(method), row["recipe"], seed=1)))
    assert row["steps"] == 2 * stages


def test_records_failures_and_what_is_left_out(
    benchmark: ModuleType, tiny_encoder: Path, tmp_path: Path
) -> None:
    def fails(bench: object, clock: object) -> list[dict[str, str]]:
        raise ValueError("no such thing\nand more")

    def is_slow(bench: object, clock: Any) -> list[dict[str, str]]:
        clock.seconds = 0
        return [{"a": "1|2"}]

    part = benchmark.Part("A part", 1, {"fails": fails, "slow": is_slow, "late": is_slow})
    found = benchmark.run_part(part, bench_of(benchmark, tiny_encoder, tmp_path), 60)
    assert found["failures"] == ["fails: ValueError: no such thing"]
    assert found["left_out"] == ["late"]
    assert found["rows"] == [{"a": "1|2"}]


def test_counts_tests_and_stops_them(
    benchmark: ModuleType, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = fromstring('<testsuite tests="9" failures="1" errors="1" skipped="2" time="3.25"/>')  # noqa: S314
    counted = benchmark.counts(suite)
    assert counted == {"passed": 5, "failed": 2, "skipped": 2, "seconds": 3.2}

    def times_out(*_: object, timeout: float, **__: object) -> None:
        raise subprocess.TimeoutExpired("pytest", timeout)

    monkeypatch.setattr(subprocess, "run", times_out)
    clock = benchmark.Clock(1)
    assert benchmark.run_tests(bench_of(benchmark, tiny_encoder, tmp_path), clock) == []
    assert len(clock.left_out) == 1


def test_brings_an_encoder_to_single_precision(
    benchmark: ModuleType, tiny_encoder: Path, tmp_path: Path
) -> None:
    from transformers import AutoModel

    assert benchmark.float32_encoder(str(tiny_encoder), tmp_path / "same") == (
        str(tiny_encoder),
        "as published",
    )
    AutoModel.from_pretrained(tiny_encoder).half().save_pretrained(tmp_path / "half")
    folder, weights = benchmark.float32_encoder(str(tmp_path / "half"), tmp_path / "whole")
    assert weights == "rounded to half precision"
    assert AutoModel.from_pretrained(folder).dtype == torch.float32
    (tmp_path / "half" / "model.safetensors").unlink()
    assert benchmark.float32_encoder(str(tmp_path / "half"), tmp_path / "drawn")[1] == "random"


def bench_of(benchmark: ModuleType, encoder: Path, folder: Path) -> object:
    """What measurements are given, on the processor."""
    return benchmark.Bench(torch.device("cpu"), True, str(encoder), folder, 0, 1, 1e12)
