"""The benchmark of the encoder's dropout runs, prints its ratios, and its sides differ in dropout alone."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch
from benchmark_scripts import load_benchmark
from torch import nn


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return load_benchmark("encoder_dropout")


@pytest.fixture
def small_run(tiny_encoder: Path) -> list[str]:
    sizes = {"longest": 20, "batch-size": 3, "batches": 2, "rounds": 2, "threads": torch.get_num_threads()}
    return [f"--encoder={tiny_encoder}", *(f"--{name}={value}" for name, value in sizes.items())]


def test_prints_ratios(
    benchmark: ModuleType, small_run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark.main(small_run)
    printed = capsys.readouterr().out
    for kind in ("time", "processor time"):
        assert f"  {kind} of its own dropout / encoder_dropout 0: median " in printed


def test_the_sides_differ_in_dropout_alone(benchmark: ModuleType, small_run: list[str]) -> None:
    heads, batches = benchmark.prepare(benchmark.parse_arguments(small_run))
    own, none = heads[benchmark.OWN], heads[benchmark.NONE]
    for name, value in own.state_dict().items():
        assert torch.equal(none.state_dict()[name], value), name
    rates = [
        {
            part.p
            for encoder in head.text_encoders()
            for part in encoder.modules()
            if isinstance(part, nn.Dropout)
        }
        for head in (own, none)
    ]
    assert rates[1] == {0.0} != rates[0]
    first, second = (none(**batches[0]).loss for _ in range(2))
    assert torch.equal(first, second)
