"""The benchmark of filtered ranking runs, prints its ratios and memory, and refuses ranks that differ."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch
from benchmark_scripts import load_benchmark

from eventformers.inference.search.ranking import FilteredRanks


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load_benchmark("ckg_ranking")

    def encode_here(encoder: str, queries: object, threads: int) -> object:
        texts = [*queries.premises, *queries.alternatives]  # type: ignore[attr-defined]
        vectors = module.encode(encoder, texts, threads)
        return vectors[: len(queries.premises)], vectors[len(queries.premises) :]  # type: ignore[attr-defined]

    # A module of no package cannot be found by another process.
    monkeypatch.setattr(module, "encode_elsewhere", encode_here)
    return module


@pytest.fixture
def small_run(tiny_encoder: Path) -> list[str]:
    return [f"--encoder={tiny_encoder}", "--rounds=2", f"--threads={torch.get_num_threads()}"]


@pytest.mark.filterwarnings("ignore:.*were truncated")
@pytest.mark.parametrize(("chosen", "number"), [("--sample=7", "7"), ("--full", "")])
def test_prints_ratios_and_memory(
    benchmark: ModuleType,
    small_run: list[str],
    chosen: str,
    number: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    benchmark.main([*small_run, chosen])
    printed = capsys.readouterr().out
    assert "peak memory without the encoder " in printed
    assert " candidates, of which " in printed
    assert f"the loop runs on {number}" in printed
    assert ("its time is scaled" in printed) == (chosen != "--full")
    for kind in ("time", "processor time"):
        assert f"  {kind} of loop, single precision / ours: median " in printed
    (agreed,) = (line for line in printed.splitlines() if line.startswith("  loop, double precision: "))
    assert agreed.split()[3] == agreed.split()[5]


@pytest.mark.filterwarnings("ignore:.*were truncated")
def test_refuses_other_ranks(
    benchmark: ModuleType, small_run: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = benchmark.rank_by_cosine

    def wrong(*arguments: object, **settings: object) -> FilteredRanks:
        ranks = right(*arguments, **settings)
        return FilteredRanks(ranks.optimistic + 1, ranks.pessimistic + 1)

    monkeypatch.setattr(benchmark, "rank_by_cosine", wrong)
    with pytest.raises(AssertionError, match="7 ranks differ"):
        benchmark.main([*small_run, "--sample=7"])
