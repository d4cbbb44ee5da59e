"""Leaderboards: sources of scores, their ranking, and the page that shows them."""

from __future__ import annotations

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
