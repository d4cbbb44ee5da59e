"""What a reproduced table says."""

from __future__ import annotations

import json
from typing import Any

from eventformers.reproduction.planner import ReproducedTable


def rows_of(table: ReproducedTable) -> dict[str, list[str]]:
    """The cells of each row after its label; the last one is its state."""
    return {row[0]: row[1:] for row in table.rows}


def content_of(table: ReproducedTable) -> dict[str, Any]:
    """The table's JSON."""
    return json.loads(table.path.with_suffix(".json").read_text(encoding="utf-8"))
