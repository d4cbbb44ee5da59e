"""The tests marked `cuda`, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree.ElementTree import Element

from defusedxml.ElementTree import parse
from gpu_parts.measuring import Bench, Clock, Part, Row

REPOSITORY = Path(__file__).resolve().parents[2]


def run_tests(bench: Bench, clock: Clock) -> list[Row]:
    """Run them until the part's time is over.

    Raises:
        RuntimeError: a test failed, or there is no report.
    """
    report = bench.scratch / "tests.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "cuda", "--tb=short", "-p", "no:cacheprovider"]
    environment = {**os.environ, "EVENTFORMERS_TEST_DEVICE": bench.device.type}
    try:
        done = subprocess.run(
            [*command, f"--junitxml={report}", "tests/cuda"],
            cwd=REPOSITORY,
            env=environment,
            timeout=max(clock.left, 1),
            check=False,
        )
    except subprocess.TimeoutExpired:
        clock.left_out.append("tests that were not run when the time was over; their results are not known")
        return []
    if not report.is_file():
        raise RuntimeError(f"pytest ended with exit code {done.returncode} and wrote no report")
    suite = next(parse(report).getroot().iter("testsuite"))
    row = counts(suite)
    if done.returncode:
        failed = [case.get("name", "") for case in suite.iter("testcase") if case.find("failure") is not None]
        raise RuntimeError(f"exit code {done.returncode}, {row}: {', '.join(failed)[:400]}")
    return [row]


def counts(suite: Element) -> Row:
    """Numbers of tests and seconds of a JUnit report."""
    total, failed, errors, skipped = (
        int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")
    )
    return {
        "passed": total - failed - errors - skipped,
        "failed": failed + errors,
        "skipped": skipped,
        "seconds": round(float(suite.get("time", 0)), 1),
    }


PART = Part(title="Tests marked `cuda`", share=2.5, measurements={"tests": run_tests})
