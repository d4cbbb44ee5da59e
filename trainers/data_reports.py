"""Build reports of several inputs of a run, joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from eventformers.datasets_scripts.base import BuildReport
from eventformers.datasets_scripts.fingerprints import joint_fingerprint
from eventformers.datasets_scripts.malformed import LISTED_PARTS
from eventformers.files import file_digest

_COUNTS = ("read", "skipped")
"""Counts of a build report that are summed over configs."""


def joint_report(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the build reports of configs that are all training rows: sums of counts, and all sources.

    Returns:
        The only report if there is one; empty if a dataset has no report.
    """
    if len(reports) == 1 or not all(reports):
        return dict(reports[0]) if all(reports) else {}
    splits: dict[str, Counter[str]] = {}
    joined = BuildReport()
    for report in reports:
        for name, counts in report["splits"].items():
            splits.setdefault(name, Counter())["rows"] += counts["rows"]
        joined.add_sources(report["sources"])
    malformed = [report["malformed"] for report in reports]
    parts = [part for each in malformed for part in each["parts"]]
    return {
        **reports[0],
        **_inputs(reports),
        "config": ", ".join(report["config"] for report in reports),
        "sample": any(report["sample"] for report in reports),
        "rows": sum(report["rows"] for report in reports),
        "splits": {name: dict(counts) for name, counts in splits.items()},
        **{name: dict(sum((Counter(report[name]) for report in reports), Counter())) for name in _COUNTS},
        "malformed": {"count": sum(each["count"] for each in malformed), "parts": parts[:LISTED_PARTS]},
        "sources": joined.sources,
        "licenses": joined.licenses,
        "statistics": {},
    }


def report_with(report: Mapping[str, Any], *companions: Mapping[str, Any]) -> dict[str, Any]:
    """Add what is read beside the training rows, such as a knowledge base: sources, raw files, fingerprints.

    Counts and statistics stay those of the rows.

    Args:
        companions: build reports, or reports of `file_report`; empty ones are left out.

    Returns:
        The report; empty if the one of the rows is.
    """
    reports = [report, *filter(None, companions)]
    if not report or len(reports) == 1:
        return dict(report)
    sources: dict[str, dict[str, Any]] = {}
    for each in reports:
        for name, source in each.get("sources", {}).items():
            sources.setdefault(name, {}).update(source)
    return {**report, **_inputs(reports), "sources": sources}


def with_counts(
    report: Mapping[str, Any],
    skipped: Mapping[str, int] = MappingProxyType({}),
    statistics: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Add counts of the training rows to a build report.

    Args:
        skipped: number of further skipped items, by reason; zeros are left out.

    Returns:
        The report; empty if the given one is.
    """
    if not report:
        return {}
    left_out = {name: count for name, count in skipped.items() if count}
    return {
        **report,
        "skipped": {**report.get("skipped", {}), **left_out},
        "statistics": {**report.get("statistics", {}), **statistics},
    }


def file_report(path: Path, config: str, sources: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Describe a file that is read beside the training rows, for `report_with`.

    Args:
        config: the name of what it holds.
    """
    digest = file_digest(path)
    return {
        "config": config,
        "fingerprint": digest,
        "rows_fingerprint": digest,
        "raw_files": [{"name": path.name, "bytes": path.stat().st_size, "sha256": digest}],
        "sources": sources,
    }


def _inputs(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the fingerprints and the raw files, each file once."""
    files = {file["sha256"]: file for report in reports for file in report.get("raw_files", ())}
    joint = {
        kind: joint_fingerprint({report["config"]: report[kind] for report in reports})
        for kind in ("fingerprint", "rows_fingerprint")
    }
    return {**joint, "raw_files": list(files.values())}
