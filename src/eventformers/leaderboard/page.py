"""A leaderboard as Markdown, JSON, one self-contained page, and a Gradio app that shows the page."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from markupsafe import Markup

from eventformers.errors import EventformersError, counted
from eventformers.evaluation.tasks.base import JsonValue
from eventformers.files import is_standard_output, write_explained, write_text
from eventformers.inference.report_pages import render_page
from eventformers.leaderboard.board import KINDS, Board, Cell, Kind, Leaderboard, Row, ScoreColumn
from eventformers.markdown import cell as escaped
from eventformers.markdown import link, table
from eventformers.model_cards.scores import CORRELATIONS, score_text

if TYPE_CHECKING:
    import gradio

HEADINGS: dict[Kind, str] = {
    "model": "Models",
    "baseline": "Baselines and untrained encoders",
    "published": "Published scores, on the data of their papers",
}
CLOSE = "≈"
"""The mark of a score that is not significantly better than the next one."""

FORMAT = 1
"""The version of the JSON format."""


def cell_text(cell: Cell | None, row: Row, column: ScoreColumn) -> str:
    """Format a score with its spread, the mark of a close one, and a number of runs unlike the row's.

    Args:
        cell: the score; None returns an empty text.
    """
    if cell is None:
        return ""
    is_published = row.kind == "published"
    told = score_text(cell.value, column.metric, published=is_published)
    if cell.spread is not None:
        told += f" ± {cell.spread:.{3 if column.metric in CORRELATIONS else 1}f}"
    if cell.is_close:
        told += f" {CLOSE}"
    remarks = []
    if cell.undefined and cell.value is not None:
        remarks.append(f"{cell.undefined} not defined")
    if not is_published and cell.count + cell.undefined != row.runs:
        remarks.append(f"n = {cell.count + cell.undefined}")
    return f"{told} ({', '.join(remarks)})" if remarks else told


def comparison_text(cell: Cell) -> str:
    """Describe the comparison with the next model; empty if there is none."""
    found = cell.comparison
    if found is None:
        return ""
    return (
        f"{'not ' if cell.is_close else ''}significantly better than {cell.next_model}: "
        f"{found.difference:+.2f} points, 95 % interval {found.low:+.2f} to {found.high:+.2f}"
    )


def close_note(leaderboard: Leaderboard) -> str:
    """Explain the mark of close scores; empty if no score has it."""
    cells = (cell for board in leaderboard.boards for row in board.rows for cell in row.cells)
    if not any(cell and cell.is_close for cell in cells):
        return ""
    return (
        f"{CLOSE}: not significantly better than the next model below (95 % interval of a paired bootstrap "
        "over the questions). Compared where both have predictions of right and wrong answers."
    )


def column_facts(column: ScoreColumn) -> str:
    """Describe the data of a column in a few words."""
    rows = f"{counted(column.rows, 'row')} of {column.split}" if column.rows else column.split
    return f"{rows}, samples" if column.origin == "samples" else rows


def count_text(count: int | None) -> str:
    """Format a number of parameters with a unit; empty if unknown."""
    if count is None:
        return ""
    for size, name in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.3g} {name}"
    return str(count)


def speed_text(row: Row) -> str:
    """Format the texts per second; empty if not recorded."""
    return "" if row.texts_per_second is None else f"{row.texts_per_second:,.0f}"


def rank_text(board: Board, row: Row) -> str:
    """Return the rank of a row in the column that its board is sorted by, or else in the first."""
    cell = row.cells[board.sorted_by if isinstance(board.sorted_by, int) else 0]
    return str(cell.rank) if cell and cell.rank else ""


def markdown(leaderboard: Leaderboard) -> str:
    """Format the leaderboard as Markdown: a section for each dataset, a table for each kind of rows."""
    parts = ["# Leaderboard"]
    for board in leaderboard.boards:
        parts.append(f"## {escaped(board.title)}")
        titles = [f"{escaped(column.title)}<br>{escaped(column_facts(column))}" for column in board.columns]
        for kind in KINDS:
            rows = [row for row in board.rows if row.kind == kind]
            if not rows:
                continue
            parts.append(f"### {HEADINGS[kind]}")
            if kind == "published":
                body = [[_linked(row), escaped(row.variant), *_cells(board, row)] for row in rows]
                parts.append(table(["system", "source", *titles], body))
                continue
            body = [
                [
                    *([rank_text(board, row)] if kind == "model" else []),
                    _linked(row),
                    escaped(row.variant),
                    str(row.runs),
                    *_cells(board, row),
                    count_text(row.parameters),
                    speed_text(row),
                ]
                for row in rows
            ]
            ranks = ["rank"] if kind == "model" else []
            parts.append(table([*ranks, "model", "variant", "runs", *titles, "parameters", "texts/s"], body))
    if note := close_note(leaderboard):
        parts.append(note)
    columns = [column for board in leaderboard.boards for column in board.columns]
    data = "; ".join(f"{column.task} ({column.split}) {column.data}" for column in columns)
    parts.append(f"Data: {data}.")
    parts += [f"- {escaped(sentence)}" for sentence in leaderboard.left_out]
    return "\n\n".join(parts) + "\n"


def to_json(leaderboard: Leaderboard) -> str:
    """Format the leaderboard as JSON; unknown values have no key."""
    content = {
        "format": FORMAT,
        "boards": [
            {
                "dataset": board.dataset,
                "title": board.title,
                "columns": [
                    _known({"key": column.key, **vars(column), "description": None})
                    for column in board.columns
                ],
                "rows": [_row_json(row, board) for row in board.rows],
            }
            for board in leaderboard.boards
        ],
        "left_out": list(leaderboard.left_out),
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _cells(board: Board, row: Row) -> list[str]:
    return [
        escaped(cell_text(cell, row, column)) for cell, column in zip(row.cells, board.columns, strict=True)
    ]


def _linked(row: Row) -> str:
    """Return the model's name, linked to a card on the Hub; a local path would break elsewhere."""
    if row.card is not None and row.card.startswith(("https://", "http://")):
        return link(row.model, row.card)
    return escaped(row.model)


def _row_json(row: Row, board: Board) -> dict[str, JsonValue]:
    scores: dict[str, JsonValue] = {}
    for cell, column in zip(row.cells, board.columns, strict=True):
        if cell is None:
            continue
        found = cell.comparison
        following: dict[str, JsonValue] | None = (
            None
            if found is None
            else {
                "model": cell.next_model,
                "significant": not cell.is_close,
                **{
                    name: getattr(found, name)
                    for name in ("difference", "low", "high", "p_value", "questions")
                },
                "resamples": found.resamples,
            }
        )
        scores[column.key] = _known(
            {
                "value": cell.value,
                "spread": cell.spread,
                "runs": cell.count or None,
                "not_defined": cell.undefined or None,
                "rank": cell.rank,
                "next": following,
            }
        )
    return _known(
        {
            "kind": row.kind,
            "model": row.model,
            "variant": row.variant or None,
            "seeds": list(row.seeds) or None,
            "revisions": list(row.revisions) or None,
            "scores": scores,
            "parameters": row.parameters,
            "texts_per_second": None if row.texts_per_second is None else round(row.texts_per_second, 2),
            "device": row.device,
            "card": row.card,
        }
    )


def _known(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in values.items() if value is not None}


_SCRIPT = Path(__file__).with_name("page.js")


def leaderboard_page(leaderboard: Leaderboard, folder: str | Path = ".") -> str:
    """Render the page.

    Args:
        folder: folder of the page; links to cards of local models are relative to it.
    """

    def address(card: str | None) -> str | None:
        if card is None or card.startswith(("https://", "http://")):
            return card
        try:
            return quote(Path(os.path.relpath(card, folder)).as_posix())
        except ValueError:
            # A path on another Windows drive has no relative form.
            return Path(card).absolute().as_uri()

    script = _SCRIPT.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return render_page(
        Path(__file__).with_name("page.html.jinja"),
        leaderboard=leaderboard,
        headings=HEADINGS,
        correlations=CORRELATIONS,
        models=sum(row.kind == "model" for board in leaderboard.boards for row in board.rows),
        close_note=close_note(leaderboard),
        address=address,
        **{
            one.__name__: one
            for one in (cell_text, column_facts, comparison_text, count_text, rank_text, speed_text)
        },
        script=Markup(script),  # noqa: S704 - our own file
        # The content security policy allows only this script.
        script_source=f"'sha256-{digest}'",
    )


def write_page(text: str, path: str | Path) -> Path:
    """Write a page atomically, replacing an existing one.

    Args:
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


_FRAME = "width: 100%; height: 88vh; border: 0; color-scheme: light dark"


def leaderboard_app(leaderboard: Leaderboard) -> gradio.Blocks:
    """Make the app, which shows the page of the leaderboard in a sandboxed frame.

    Raises:
        EventformersError: gradio is not installed.
    """
    try:
        import gradio
    except ImportError as error:
        raise EventformersError(
            'gradio is not installed; install it with pip install "eventformers[leaderboard]"'
        ) from error
    page = html.escape(leaderboard_page(leaderboard))
    with gradio.Blocks(title="Leaderboard of event representations", fill_width=True) as app:
        gradio.HTML(
            f'<iframe title="Leaderboard" sandbox="allow-scripts allow-popups" srcdoc="{page}" '
            f'style="{_FRAME}"></iframe>'
        )
    return app
