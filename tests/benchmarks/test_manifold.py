"""The benchmark of manifold weights runs, prints its ratios and memory, and refuses weights that differ."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from benchmark_scripts import load_benchmark

# Importing UMAP compiles for seconds, so collection only looks whether it is there.
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        find_spec("umap") is None, reason="umap-learn is not installed; it is in the extra 'benchmarks'"
    ),
]

SMALL_RUN = ["--mentions=120", "--sample=5", "--rounds=2", "--threads=1"]


@pytest.fixture
def benchmark() -> ModuleType:
    return load_benchmark("manifold")


def test_prints_ratios_and_memory(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main(SMALL_RUN)
    printed = capsys.readouterr().out
    assert "120 mentions, all of them neighbours" in printed
    for side in ("umap-learn", "plain loop", "NumPy, row by row"):
        for kind in ("time", "processor time"):
            assert f"  {kind} of {side} / ours: median " in printed
        assert f"  largest difference from {side}: " in printed
    assert "peak memory, symmetrised by mean, distances included: " in printed


def test_reads_real_mentions(
    benchmark: ModuleType, tiny_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mentions.txt"
    words = ["police", "company", "storm", "bank", "doctor", "patient", "judge", "court", "jury", "team"]
    file.write_text("\n".join(f"the {one} said the {two} won" for one in words for two in words), "utf-8")
    benchmark.main([*SMALL_RUN, f"--data={file}", f"--encoder={tiny_encoder}"])
    assert "100 mentions, all of them neighbours" in capsys.readouterr().out


def test_refuses_other_weights(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    right = benchmark.manifold_weights

    def wrong(distances: np.ndarray, **settings: bool) -> np.ndarray:
        return right(distances * 1.01, **settings) ** 1.01

    monkeypatch.setattr(benchmark, "manifold_weights", wrong)
    with pytest.raises(AssertionError, match="differ from those of umap-learn"):
        benchmark.main(SMALL_RUN)
