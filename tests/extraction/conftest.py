"""A small pipeline that is trained once, and the installed ones where there are any."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_parser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a spaCy pipeline that knows a few patterns of sentences."""
    pytest.importorskip("spacy", reason="spaCy is not installed")
    from tiny_parser import save_tiny_parser

    return save_tiny_parser(tmp_path_factory.mktemp("pipeline") / "tiny")


@pytest.fixture(scope="session")
def english_pipeline() -> str:
    """Name of an installed English pipeline of spaCy."""
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    names = [name for name in spacy.util.get_installed_models() if name.startswith("en_core_web_")]
    if not names:
        pytest.skip("no en_core_web_* pipeline is installed: python -m spacy download en_core_web_sm")
    return names[0]
