"""The benchmark of a training step runs, prints its ratios, and refuses sides that differ."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch
from benchmark_scripts import load_benchmark

from eventformers.models.modeling_swcc import SwccModel


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return load_benchmark("swcc_step")


@pytest.fixture
def small_run(tiny_encoder: Path) -> list[str]:
    sizes = {"batch-size": 6, "batches": 2, "steps": 1, "rounds": 2, "warm-up": 1}
    sizes["threads"] = torch.get_num_threads()
    options = [f"--{name}={value}" for name, value in sizes.items()]
    return ["--device=cpu", f"--encoder={tiny_encoder}", *options]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_prints_ratios(
    benchmark: ModuleType, small_run: list[str], dtype: str, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark.main([*small_run, f"--dtype={dtype}"])
    printed = capsys.readouterr().out
    assert dtype in printed
    assert "largest relative difference of the gradients without dropout" in printed
    for kind in ("time", "processor time"):
        assert f"  {kind} of five passes / views together: median " in printed


def test_refuses_other_gradients(
    benchmark: ModuleType, small_run: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = SwccModel.encode_together

    def wrong(self: SwccModel, groups: list[tuple[torch.Tensor, torch.Tensor]]) -> object:
        return [(hidden + 1e-3 * hidden.sin(), mask) for hidden, mask in right(self, groups)]

    monkeypatch.setattr(SwccModel, "encode_together", wrong)
    with pytest.raises(AssertionError, match="gradients of the two sides differ"):
        benchmark.main(small_run)


def test_refuses_too_few_events(benchmark: ModuleType, small_run: list[str], tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"events": [["man", "bought", "car"], ["man", "sold", "car"]]}\n', encoding="utf-8")
    with pytest.raises(SystemExit, match="accepted: at least 12"):
        benchmark.main([*small_run, f"--events={events}"])
