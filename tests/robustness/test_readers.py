"""Mutated raw files, a few for every reader; `python -m tests.robustness readers` runs more."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from tests.robustness import readers
from tests.robustness.readers import Target, targets, try_target
from tests.robustness.tally import time_limit

from eventformers.datasets_scripts.malformed import MALFORMED_POLICIES
from eventformers.errors import EventformersError

CASES = 6


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_the_unchanged_files_are_read(target: Target, tmp_path: Path) -> None:
    for name, content in target.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for policy in MALFORMED_POLICIES:
        rows, lost = target.read(tmp_path, policy)
        assert rows > 0
        assert lost == 0


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_mutated_files_are_read_or_refused(target: Target) -> None:
    tally = try_target(target, CASES, seed=16)
    assert tally.tries == CASES
    assert tally.findings == []


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        (TypeError("unhashable type"), "TypeError: unhashable type"),
        (EventformersError("x" * 5_000), "a message of 5000 characters"),
        (EventformersError("half of \ud800"), "a message that cannot be printed"),
        (None, "2 of the lines are neither among 3 rows nor counted"),
    ],
)
def test_a_fault_is_found(fault: Exception | None, finding: str) -> None:
    def read(folder: Path, policy: str) -> tuple[int, int]:
        if fault is not None:
            raise fault
        return 3, 2

    tally = try_target(Target("broken", {"a.txt": b"a\nb\n"}, read), 3, seed=1)
    assert len(tally.findings) == 3
    assert finding in tally.findings[0]


def test_a_hang_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(folder: Path, policy: str) -> tuple[int, int]:
        while True:
            shutil.disk_usage(folder)

    monkeypatch.setattr(readers, "time_limit", partial(time_limit, 0.2))
    (found,) = try_target(Target("slow", {"a.txt": b"a"}, read), 1, seed=1).findings
    assert "hang: more than 0.2 s" in found
