"""The benchmark of grounding runs, prints its ratios and memory, and refuses results that differ."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
import torch
from benchmark_scripts import load_benchmark

from eventformers.inference.search.candidate_index import Candidates

SMALL_RUN = [
    *("--mentions=60", "--events", "150", "300", "--dimension=16", "--sample=20", "--checked=10"),
    *("--hierarchy-events=30", "--children=5", "--rounds=2", f"--threads={torch.get_num_threads()}"),
]


@pytest.fixture
def benchmark() -> ModuleType:
    return load_benchmark("grounding")


@pytest.mark.parametrize("sample", [[], ["--full"]], ids=["sample", "full"])
def test_prints_ratios_and_memory(
    benchmark: ModuleType, sample: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark.main([*SMALL_RUN, *sample])
    printed = capsys.readouterr().out
    for number in ("150", "300"):
        assert f"top 8 of {number} events for 60 mentions, dimension 16" in printed
    assert f"run on {60 if sample else 20} mentions" in printed
    assert printed.count("peak memory of a search ") == 2
    for side in ("full sort", "full sort, stable", "faiss flat", "loop over pairs of sets"):
        for kind in ("time", "processor time"):
            assert f"  {kind} of {side} / ours: median " in printed
    assert "  full sort, double precision: 10 of 10 mentions have the same events" in printed
    assert "scores and ranks of 5 children are those of the loop" in printed


def test_refuses_other_candidates(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    right = benchmark.CandidateIndex.search

    def wrong(self: object, mentions: np.ndarray, number: int) -> Candidates:
        found = right(self, mentions, number)
        return replace(found, events=found.events[:, ::-1])

    monkeypatch.setattr(benchmark.CandidateIndex, "search", wrong)
    with pytest.raises(AssertionError, match="10 mentions differ from the full sort"):
        benchmark.main(SMALL_RUN)


def test_refuses_other_parents(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    right = benchmark.discover_hierarchy

    def wrong(event_ids: list[str], candidates: np.ndarray) -> object:
        return right(event_ids, candidates[1:])

    monkeypatch.setattr(benchmark, "discover_hierarchy", wrong)
    with pytest.raises(AssertionError, match="differ"):
        benchmark.main([*SMALL_RUN, "--children=30"])
