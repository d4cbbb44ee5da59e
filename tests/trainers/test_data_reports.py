"""Reports of several inputs, joined; cached arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import config as datasets_config

from eventformers.datasets_scripts import loading
from eventformers.datasets_scripts.loading import built_report
from eventformers.model_cards import TrainedOn
from eventformers.trainers.data_reports import cached_arrays, joint_report


@pytest.mark.parametrize(
    ("builder", "configs"),
    [
        ("event_chains", ["chains", "documents"]),
        ("event_hierarchies", ["mentions", "events"]),
        ("commonsense_graphs", ["conceptnet_inductive", "atomic_inductive"]),
    ],
)
def test_counts_of_every_kind_of_source_are_summed(builder: str, configs: list[str]) -> None:
    reports = [built_report(None, config, builder=builder) for config in configs]
    joined = joint_report(reports)
    assert joined["rows"] == sum(report["rows"] for report in reports)
    assert counted(joined["sources"]) == sum(counted(report["sources"]) for report in reports) > 0
    assert joined["licenses"] == sorted({name for report in reports for name in report["licenses"]})


def test_malformed_parts_of_every_config_are_kept(tmp_path: Path) -> None:
    row = '{"events": [{"predicate": "storm", "subject": "the mob"}]}'
    reports = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.jsonl"
        path.write_text(f"{row}\nno JSON\n{row}\n", encoding="utf-8")
        built = built_report(path, "documents", builder="event_chains", malformed="skip")
        reports.append({**built, "config": name})
    joined = joint_report(reports)
    assert joined["malformed"]["count"] == 2
    assert [part["line"] for part in joined["malformed"]["parts"]] == [2, 2]


def test_a_report_from_the_hub_names_its_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "snapshots" / ("d" * 40) / "hard" / "build_report.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(built_report(None, "hard")), encoding="utf-8")
    monkeypatch.setattr(loading, "hf_hub_download", lambda *_, **__: str(path))
    trained_on = TrainedOn.from_report(joint_report([built_report("org/events", "hard")]))
    assert (trained_on.origin, trained_on.hub_id, trained_on.revision) == ("hub", "org/events", "d" * 40)


def counted(sources: dict[str, dict[str, Any]]) -> int:
    """Return the sum of all counts."""
    return sum(count for kept in sources.values() for kind, count in kept.items() if kind != "license")


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
