"""The tables of papers that `reproduce` fills, by paper and name."""

from __future__ import annotations

from collections.abc import Mapping

from eventformers.errors import UnknownNameError
from eventformers.methods import load_object, main_methods
from eventformers.reproduction.rows import PaperTable


def paper_tables() -> dict[str, Mapping[str, PaperTable]]:
    """Load the tables by paper and name."""
    return {paper: load_object(path) for paper, path in _papers().items()}


def get_table(paper: str, table: str) -> PaperTable:
    """Load a table by its paper and name.

    Raises:
        UnknownNameError: the paper or the table is unknown.
    """
    papers = _papers()
    if paper not in papers:
        raise UnknownNameError("paper", paper, papers)
    tables: Mapping[str, PaperTable] = load_object(papers[paper])
    if table not in tables:
        raise UnknownNameError(f"table of {paper}", table, tables)
    return tables[table]


def _papers() -> dict[str, str]:
    """Return the dotted path of each paper's tables."""
    methods = main_methods().values()
    return {method.paper: method.tables for method in methods if method.paper and method.tables}
