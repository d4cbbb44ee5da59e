"""What tests with PyKEEN share."""

from __future__ import annotations

import gc
import importlib.util

import pytest


@pytest.fixture
def pykeen(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyKEEN, kept from the user's home; skips where it is not installed."""
    if importlib.util.find_spec("pykeen") is None:
        pytest.skip("PyKEEN is not installed: it is the extra `baselines`")
    # Importing it makes folders there.
    monkeypatch.setenv("PYSTOW_HOME", str(tmp_path_factory.getbasetemp() / "pystow"))
    # It collects garbage after every epoch, which takes longer than an epoch of these graphs.
    gc.freeze()
