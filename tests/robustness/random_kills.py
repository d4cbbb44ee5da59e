"""Commands in processes of their own that get SIGKILL at random moments."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.robustness.commands import commands, tiny_encoder
from tests.robustness.kills import Trial
from tests.robustness.tally import Tally

NAMES = ("data build", "train swcc", "train heterevent")
_ROOT = Path(__file__).parents[2]
_PROCESS = """
import json, sys
from tests.robustness.commands import run_command
import eventformers.publishing.dataset_building, eventformers.training

print(flush=True)
run_command(json.loads(sys.argv[1]))
"""


def kill(trial: Trial, moment: float) -> str | None:
    """Kill a command after so many seconds; what was wrong then, None where nothing was.

    Args:
        trial: the command.
        moment: counted from when its libraries are loaded.
    """
    trial.reset()
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _PROCESS, json.dumps(trial.again)],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(_ROOT), str(_ROOT / "tests" / "support")))},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(moment)
        process.kill()
    return trial.after_fault()


def run(cases: int, seed: int) -> Iterator[Tally]:
    """Kill each of the commands at `cases` moments."""
    with tempfile.TemporaryDirectory(prefix="eventformers-random-kills-") as name:
        folder = Path(name)
        (folder / "inputs").mkdir()
        found = commands(folder / "inputs", tiny_encoder(folder))
        for number, command in enumerate(one for one in found if one.name in NAMES):
            place = folder / str(number)
            place.mkdir()
            trial = Trial(command, place)
            draw = Random(seed)  # noqa: S311, no secret
            tally = Tally(f"{command.name} (SIGKILL)")
            for _ in range(cases):
                # The first call of a process takes longer than the one that was timed.
                moment = draw.uniform(0, 2 * trial.seconds)
                tally.tries += 1
                if (finding := kill(trial, moment)) is None:
                    tally.refused += 1
                else:
                    tally.findings.append(f"after {moment:.2f} s: {finding}")
            yield tally
            shutil.rmtree(place)
