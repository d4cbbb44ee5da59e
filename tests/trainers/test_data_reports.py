"""Joining the build reports of several configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventformers.datasets_scripts import loading
from eventformers.datasets_scripts.loading import built_report
from eventformers.model_cards import TrainedOn
from eventformers.trainers.data_reports import joint_report


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
