"""bm25s is imported when it is needed, and leaves a GPU's memory to others."""

from __future__ import annotations

import os
from pathlib import Path

import forked
import pytest

from eventformers.inference.search import import_bm25s

IMPORTS = """
import sys
import eventformers.baselines.bm25, eventformers.inference.induction.type_naming
raise SystemExit("bm25s is imported" if "bm25s" in sys.modules else 0)
"""


def test_nothing_imports_it_early(tmp_path: Path) -> None:
    done = forked.run_python(["-c", IMPORTS], cwd=tmp_path, server="libraries")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("given", "expected"), [(None, "false"), ("true", "true")])
def test_jax_takes_no_memory_unless_asked(
    given: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    monkeypatch.setenv(name, given or "")
    if given is None:
        monkeypatch.delenv(name)
    assert "was" in import_bm25s("stopwords").STOPWORDS_EN_PLUS
    assert os.environ[name] == expected
