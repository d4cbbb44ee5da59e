"""An exploration of two short texts, or of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from exploration_steps import ROWS, Explore

import eventformers
from eventformers.exploration.explore import Exploration


@pytest.fixture
def explore(
    english_pipeline: str, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Explore:
    monkeypatch.setattr("eventformers.loading.encoders._default_encoder", lambda: tiny_encoder)
    monkeypatch.setattr("eventformers.exploration.stories.tuned_encoder", lambda encoder: encoder)

    def run(texts: Any = None, **options: Any) -> Exploration:
        chosen = {
            "pipeline": english_pipeline,
            "events": tiny_encoder,
            "types": tiny_encoder,
            "device": "cpu",
            "stories": False,
            **options,
        }
        return eventformers.explore(ROWS if texts is None else texts, tmp_path / "out", **chosen)

    return run
