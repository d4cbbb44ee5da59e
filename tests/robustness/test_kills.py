"""Commands that die, or meet a full disk, at each change of a name in their output.

Whatever the moment, the output is that of before, that of the command, or is refused; and the same command
run again succeeds.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.robustness.commands import TRIED, Command, commands, watched
from tests.robustness.limits import cases
from tests.robustness.trial import WAYS, Trial


def look_at_every_change(trial: Trial) -> list[str | None]:
    """Check the output before each change of a name: what a kill at that moment would leave."""
    found: list[str | None] = []
    trial.reset()
    with watched(trial.place, lambda: found.append(trial.found())):
        trial.execute(trial.again)
    return found


@pytest.fixture(scope="module")
def quick(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Command]:
    found = commands(tmp_path_factory.mktemp("inputs"), tiny_encoder)
    return {command.name: command for command in found}


@pytest.mark.process
@pytest.mark.parametrize("name", TRIED)
def test_an_output_is_whole_or_refused(quick: dict[str, Command], name: str, tmp_path: Path) -> None:
    trial = Trial(quick[name], tmp_path)
    assert look_at_every_change(trial) == [None] * trial.changes
    faults = [(at, way) for at in range(trial.changes) for way in WAYS]
    assert len(faults) >= 4
    for at, way in Random(1).sample(faults, min(cases(6), len(faults))):  # noqa: S311, no secret
        assert trial.run(at, way) is None, f"{way} at change {at}"


def test_a_mixed_folder_is_found(quick: dict[str, Command], tmp_path: Path) -> None:
    trial = Trial(quick["induce"], tmp_path)
    (trial.place / "report.html").write_bytes((tmp_path / "old" / "report.html").read_bytes())
    assert trial.found() == "types.jsonl beside a part of the files: ['report.html']"
    (trial.place / "types.jsonl").unlink()
    assert trial.found() is None
