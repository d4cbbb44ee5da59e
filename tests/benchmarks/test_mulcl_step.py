"""The benchmark of MulCL's training steps runs, prints its ratios, and refuses sides that differ."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch
from benchmark_scripts import load_benchmark

from eventformers.models.chain_encoder import ChainEncoder


@pytest.fixture
def benchmark() -> ModuleType:
    return load_benchmark("mulcl_step")


@pytest.fixture
def small_run(tiny_encoder: Path) -> list[str]:
    sizes = {"chains": 3, "corrupted": 3, "segments": 2, "views": 2, "rounds": 2, "warm-up": 0}
    sizes["threads"] = torch.get_num_threads()
    return [
        "--device=cpu",
        f"--encoder={tiny_encoder}",
        *(f"--{name}={value}" for name, value in sizes.items()),
    ]


@pytest.mark.process
def test_prints_ratios(
    benchmark: ModuleType, small_run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark.main(small_run)
    printed = capsys.readouterr().out
    assert printed.count("difference of the losses in torch.float64") == 2
    for step in ("SeqCL step", "GraCL step", "GraCL step from the event vectors on"):
        for kind in ("time", "processor time"):
            assert f"  {step}, {kind}: " in printed
    assert "kept for the backward pass, every corrupted chain encoded" in printed


def test_refuses_other_losses(
    benchmark: ModuleType, small_run: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ChainEncoder.chain_states

    def wrong(self: ChainEncoder, events: torch.Tensor, chains: torch.Tensor) -> torch.Tensor:
        states = right(self, events, chains)
        # Depends on how many rows the text encoder had.
        return torch.cat([states[:1] + 1e-3 * len(events), states[1:]])

    monkeypatch.setattr(ChainEncoder, "chain_states", wrong)
    with pytest.raises(AssertionError, match="losses of the two sides differ"):
        benchmark.main(small_run)


def test_refuses_too_few_chains(benchmark: ModuleType, small_run: list[str]) -> None:
    with pytest.raises(SystemExit, match="accepted: at least 100000"):
        benchmark.main([*small_run, "--chains=100000"])
