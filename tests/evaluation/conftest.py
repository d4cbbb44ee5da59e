from __future__ import annotations

from pathlib import Path

import pytest
from tiny import save_tiny_swcc

from eventformers.evaluation.session import Session


@pytest.fixture
def trained_folder(tmp_path: Path, tiny_encoder: Path) -> Path:
    """A model of single events whose weights are no longer those of its start encoder."""
    return save_tiny_swcc(tiny_encoder, tmp_path / "swcc")


@pytest.fixture(scope="module")
def memory() -> Session:
    return Session()
