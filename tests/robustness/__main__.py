"""Run parts of the robustness suite and print their table.

`python -m tests.robustness readers --cases 20000`
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

# Before any library reads them: no network, and a cache of its own.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="robustness-home-")
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

_SHOWN_FINDINGS = 20


def main() -> int:
    """Run the parts; 1 where anything was found."""
    parts = sorted(
        path.stem
        for path in Path(__file__).parent.glob("*.py")
        if "def run(" in path.read_text(encoding="utf-8")
    )
    parser = argparse.ArgumentParser(prog="python -m tests.robustness", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(parts)}; all by default")
    parser.add_argument("--cases", type=int, default=1_000, help="tries of each part")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(parts):
        parser.error(f"unknown part {', '.join(sorted(unknown))}; accepted: {', '.join(parts)}")
    found = 0
    print("| part | tries | worked | clean errors | findings |\n|---|---|---|---|---|")
    for name in asked.parts or parts:
        started, tries, worked, refused, findings = time.monotonic(), 0, 0, 0, 0
        module = import_module(f"tests.robustness.{name}")
        for tally in module.run(asked.cases, asked.seed):
            print(
                f"| {tally.part} | {tally.tries:,} | {tally.worked:,} | {tally.refused:,} "
                f"| {len(tally.findings):,} |",
                flush=True,
            )
            for finding in tally.findings[:_SHOWN_FINDINGS]:
                print(f"  {tally.part}: {finding}", file=sys.stderr, flush=True)
            tries, worked = tries + tally.tries, worked + tally.worked
            refused, findings = refused + tally.refused, findings + len(tally.findings)
        seconds = time.monotonic() - started
        print(
            f"| **{name}** ({seconds:.0f} s) | {tries:,} | {worked:,} | {refused:,} | {findings:,} |",
            flush=True,
        )
        found += findings
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
