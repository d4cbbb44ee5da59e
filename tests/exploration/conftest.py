"""An exploration of two short texts, or of others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from exploration_steps import ROWS, Explore

import eventformers
from eventformers.exploration.explore import Exploration


@pytest.fixture(scope="session")
def explore_to(english_pipeline: str, tiny_encoder: Path) -> Callable[..., Exploration]:
    """Explores to a folder, with tiny encoders."""

    def run(folder: Path, texts: Any = None, **options: Any) -> Exploration:
        models = {"pipeline": english_pipeline, "events": tiny_encoder, "types": tiny_encoder}
        chosen = {**models, "device": "cpu", "stories": False, **options}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("eventformers.loading.encoders._default_encoder", lambda: tiny_encoder)
            patch.setattr("eventformers.exploration.stories.tuned_encoder", lambda encoder: encoder)
            return eventformers.explore(ROWS if texts is None else texts, folder, **chosen)

    return run


@pytest.fixture
def explore(explore_to: Callable[..., Exploration], tmp_path: Path) -> Explore:
    return lambda texts=None, **options: explore_to(tmp_path / "out", texts, **options)


@pytest.fixture(scope="session")
def finished(explore_to: Callable[..., Exploration], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a finished exploration, of which `explored` has copies."""
    return explore_to(tmp_path_factory.mktemp("finished") / "out").folder


@pytest.fixture
def explored(finished: Path, explore: Explore, tmp_path: Path) -> Exploration:
    """The exploration of an earlier run, at the folder of `explore`."""
    shutil.copytree(finished, tmp_path / "out")
    return explore()
