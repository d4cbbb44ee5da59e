"""Arrays in the cache of `datasets`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from datasets import config as datasets_config

from eventformers.trainers.data_reports import cached_arrays


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets_config, "HF_DATASETS_CACHE", tmp_path / "cache")


def test_computed_once() -> None:
    arrays = {
        "numbers": np.arange(6, dtype=np.int32).reshape(2, 3).T,
        "shares": np.array([0.5, 0.25], dtype=np.float32),
        "kept": np.array([True, False]),
        "none": np.empty((0, 4), dtype=np.uint8),
    }
    first = cached_arrays("kind", ["a", 1], lambda: arrays)
    again = cached_arrays("kind", ["a", 1], lambda: pytest.fail("computed again"))
    for name, values in arrays.items():
        for found in (first[name], again[name]):
            assert found.dtype == values.dtype
            np.testing.assert_array_equal(found, values)
    other = cached_arrays("kind", ["a", 2], lambda: {"numbers": np.zeros(1)})
    np.testing.assert_array_equal(other["numbers"], [0])


@pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="the system does not list mapped files")
def test_arrays_are_mapped(tmp_path: Path) -> None:
    """Also in the run that computes them."""
    found = cached_arrays("kind", [1], lambda: {"numbers": np.arange(100_000)})
    (path,) = (tmp_path / "cache").rglob("*.safetensors")
    assert str(path) in Path("/proc/self/maps").read_text(encoding="utf-8")
    found["numbers"][:] = 0
    assert cached_arrays("kind", [1], dict)["numbers"][-1] == 99_999
