"""Explorations of short texts, and steps on tables of a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from eventformers.exploration.explore import Exploration
from eventformers.exploration.steps import Context, ExploreSettings, Step, StepRun

STORIES = {
    "first": "Anna opened the door. Anna closed the window.\n\n"
    "Anna went to the shop. The thief was seen by Anna.",
    "second": "Peter sold the car. The man did not close the door. Peter watched the man. He closed it.",
}
ROWS = [
    {"id": "first", "text": STORIES["first"], "date": "2024-05-31", "title": "One", "source": "s"},
    {"id": "second", "text": STORIES["second"], "date": "", "title": "", "source": "s"},
]

Explore = Callable[..., Exploration]


def rows_of(exploration: Exploration, name: str) -> list[dict[str, Any]]:
    return pq.read_table(exploration.tables[name]).to_pylist()


class RunStep(StepRun):
    """A step that ran in a folder.

    Args:
        step: the step.
        folder: the folder; partial results of an interrupted run are in its subfolder `work`.
        tables: the tables that it reads, by file.
        encoder: the encoder of all roles.
        earlier: the folder of what an earlier run of the step wrote; None if there is none.
        **settings: settings of the exploration.
    """

    def __init__(
        self,
        step: Step,
        folder: Path,
        tables: Mapping[str, pa.Table],
        encoder: object,
        earlier: Path | None = None,
        **settings: Any,
    ) -> None:
        for name, table in tables.items():
            pq.write_table(table, folder / name)
        context = SimpleNamespace(settings=ExploreSettings(**settings), encoder=lambda role: encoder)
        super().__init__(cast("Context", context), folder, folder / "staging", folder / "work", earlier)
        step.run(self)

    def written(self, name: str) -> pa.Table:
        """Read a table that the step wrote."""
        return pq.read_table(self.staging / f"{name}.parquet")
