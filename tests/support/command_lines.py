"""Runs several command lines of the suite in one fresh process, and tells what each did."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

HEAVY = ("torch", "transformers", "datasets", "numpy", "pyarrow", "peft")


class Outcome(TypedDict):
    """Exit code, what was printed, and which heavy libraries were loaded by then."""

    code: int
    output: str
    errors: str
    heavy: list[str]


def run_command_lines(lines: Sequence[Sequence[str]], folder: Path) -> list[Outcome]:
    """Run command lines one after the other in a fresh process whose working directory is `folder`."""
    request, answer = folder / "lines.json", folder / "outcomes.json"
    request.write_text(json.dumps([list(line) for line in lines]), encoding="utf-8")
    process = subprocess.run(
        [sys.executable, __file__, str(request), str(answer)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    return json.loads(answer.read_text(encoding="utf-8"))


def run_command_line(line: Sequence[str]) -> Outcome:
    from eventformers.cli import main
    from eventformers.commands import options

    # A wide terminal, so that no message is broken into lines; consoles write where the streams point to now.
    output, errors = io.StringIO(), io.StringIO()
    options.console.file, options.errors.file = output, errors
    arguments, sys.argv = sys.argv, ["eventformers", *line]
    code = 0
    try:
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
            warnings.catch_warnings(),
        ):
            main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        # Consoles without a file write to the standard streams.
        options.console.file = options.errors.file = None
        sys.argv = arguments
    heavy = [name for name in HEAVY if name in sys.modules]
    return {"code": code, "output": output.getvalue(), "errors": errors.getvalue(), "heavy": heavy}


if __name__ == "__main__":
    request, answer = (Path(argument) for argument in sys.argv[1:])
    outcomes = [run_command_line(line) for line in json.loads(request.read_text(encoding="utf-8"))]
    answer.write_text(json.dumps(outcomes), encoding="utf-8")
