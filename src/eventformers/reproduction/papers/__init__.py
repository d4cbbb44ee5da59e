"""The tables of papers that we can fill, by paper and name."""

from __future__ import annotations

from collections.abc import Mapping

from eventformers.errors import UnknownNameError
from eventformers.methods import load_object, main_methods
from eventformers.reproduction.layout import PaperTable


def paper_tables() -> dict[str, Mapping[str, PaperTable]]:
    """The tables by paper and name."""
    methods = main_methods().values()
    return {one.paper: load_object(one.tables) for one in methods if one.paper and one.tables}


def get_table(paper: str, table: str) -> PaperTable:
    """A table by the names of its paper and its number.

    Raises:
        UnknownNameError: there is no such paper, or it has no such table to fill.
    """
    papers = paper_tables()
    if paper not in papers:
        raise UnknownNameError("paper", paper, papers)
    if table not in papers[paper]:
        raise UnknownNameError(f"table of {paper}", table, papers[paper])
    return papers[paper][table]
