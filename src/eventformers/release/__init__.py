"""A release of the whole suite: datasets, models, metrics and a leaderboard, built, checked and published."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventformers.release.suite import Release, ReleaseItem, release

__all__ = ["Release", "ReleaseItem", "release"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("eventformers.release.suite"), name)
