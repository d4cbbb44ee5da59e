"""Leaderboards: sources of scores, their ranking, and the page that shows them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventformers.leaderboard.board import (
        KINDS,
        SORTABLE,
        Board,
        Cell,
        Leaderboard,
        Row,
        ScoreColumn,
        build_leaderboard,
        leaderboard,
        sorted_board,
    )

__all__ = [
    "KINDS",
    "SORTABLE",
    "Board",
    "Cell",
    "Leaderboard",
    "Row",
    "ScoreColumn",
    "build_leaderboard",
    "leaderboard",
    "sorted_board",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("eventformers.leaderboard.board"), name)
