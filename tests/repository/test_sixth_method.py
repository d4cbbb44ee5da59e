"""The example package: installed beside this one it passes its own tests, the common cases among them."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from forked import run_python

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "sixth_method"


@pytest.mark.timeout(1500)
def test_the_example_passes_its_tests(tmp_path: Path) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # What pip leaves of an editable install; pip itself would ask the network for a build backend.
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    [(group, entries)] = project["entry-points"].items()
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    done = run_python(
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE / "tests")],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(EXAMPLE)])},
        timeout=1400,
        server="libraries",
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert "passed" in done.stdout
    assert "skipped" in done.stdout
