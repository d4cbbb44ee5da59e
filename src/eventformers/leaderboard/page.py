"""A leaderboard as one self-contained page, with sorting and filters."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from eventformers.files import is_standard_output, write_explained, write_text
from eventformers.inference.report_pages import render_page
from eventformers.leaderboard.board import KINDS, Board, Cell, Leaderboard, Row, ScoreColumn
from eventformers.leaderboard.views import (
    HEADINGS,
    cell_text,
    close_note,
    column_facts,
    comparison_text,
    count_text,
    rank_text,
    speed_text,
)
from eventformers.model_cards.scores import CORRELATIONS

_SCRIPT = Path(__file__).with_name("page.js")


def leaderboard_page(leaderboard: Leaderboard, folder: str | Path = ".") -> str:
    """Render the page.

    Args:
        leaderboard: the leaderboard.
        folder: folder of the page; links to cards of local models are relative to it.
    """
    script = _SCRIPT.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    boards = [_board(board, Path(folder)) for board in leaderboard.boards]
    return render_page(
        Path(__file__).with_name("page.html.jinja"),
        boards=boards,
        column_facts=column_facts,
        models=sum(row.kind == "model" for board in leaderboard.boards for row in board.rows),
        left_out=leaderboard.left_out,
        close_note=close_note(leaderboard),
        script=Markup(script),  # noqa: S704 - our own file
        # The content security policy allows only this script.
        script_source=f"'sha256-{digest}'",
    )


def write_page(text: str, path: str | Path) -> Path:
    """Write a page atomically, replacing an existing one.

    Args:
        text: the page.
        path: the file; `-` and `/dev/stdout` mean standard output.

    Raises:
        EventformersError: the file cannot be written, or is not a regular file.
    """
    path = Path(path)
    if is_standard_output(path):
        sys.stdout.write(text)
        return path
    with write_explained(path):
        write_text(path, text)
    return path


def _board(board: Board, folder: Path) -> dict[str, Any]:
    return {
        "dataset": board.dataset,
        "title": board.title,
        "columns": board.columns,
        "sorted_by": board.sorted_by,
        "kinds": [
            {"name": kind, "heading": HEADINGS[kind], "rows": rows}
            for kind in KINDS
            if (rows := [_row(row, board, folder) for row in board.rows if row.kind == kind])
        ],
        "has_parameters": any(row.parameters for row in board.rows),
        "has_speed": any(row.texts_per_second for row in board.rows),
    }


def _row(row: Row, board: Board, folder: Path) -> dict[str, Any]:
    seeds = f"seed{'s' if len(row.seeds) > 1 else ''} {', '.join(map(str, row.seeds))}" if row.seeds else ""
    return {
        **vars(row),
        "facts": " · ".join(filter(None, (seeds, row.device))),
        "card": _address(row.card, folder),
        "rank": rank_text(board, row),
        "runs": row.runs or None,
        "parameters_text": count_text(row.parameters),
        "speed_text": speed_text(row),
        "cells": [_cell(cell, row, column) for cell, column in zip(row.cells, board.columns, strict=True)],
    }


def _cell(cell: Cell | None, row: Row, column: ScoreColumn) -> dict[str, Any]:
    if cell is None:
        return {"text": "", "value": None, "rank": None, "share": 0, "remark": "", "comparison": ""}
    score, _, remark = cell_text(cell, row, column).partition(" ")
    if cell.value is None:
        score, remark = cell_text(cell, row, column), ""
    share = 0.0 if cell.value is None else cell.value * (100 if column.metric in CORRELATIONS else 1)
    return {
        "text": score,
        "remark": remark,
        "value": cell.value,
        "rank": cell.rank,
        "comparison": comparison_text(cell),
        "share": round(min(100.0, max(0.0, share)), 1),
    }


def _address(card: str | None, folder: Path) -> str | None:
    """Return the target of a card's link: its address, or its path relative to the page."""
    if card is None or card.startswith(("https://", "http://")):
        return card
    try:
        return quote(Path(os.path.relpath(card, folder)).as_posix())
    except ValueError:
        # A path on another Windows drive has no relative form.
        return Path(card).absolute().as_uri()
