"""The tables of papers that we can fill, by paper and name."""

from __future__ import annotations

from eventformers.errors import UnknownNameError
from eventformers.reproduction.layout import PaperTable
from eventformers.reproduction.papers.grounding import GROUNDING_TABLES
from eventformers.reproduction.papers.mico import MICO_TABLES
from eventformers.reproduction.papers.mulcl import MULCL_TABLES
from eventformers.reproduction.papers.swcc import SWCC_TABLES
from eventformers.reproduction.papers.type_induction import TYPE_INDUCTION_TABLES

PAPERS: dict[str, dict[str, PaperTable]] = {
    "swcc": SWCC_TABLES,
    "mico": MICO_TABLES,
    "mulcl": MULCL_TABLES,
    "type-induction": TYPE_INDUCTION_TABLES,
    "grounding": GROUNDING_TABLES,
}
"""The tables by paper and name."""


def get_table(paper: str, table: str) -> PaperTable:
    """A table by the names of its paper and its number.

    Raises:
        UnknownNameError: there is no such paper, or it has no such table to fill.
    """
    if paper not in PAPERS:
        raise UnknownNameError("paper", paper, PAPERS)
    if table not in PAPERS[paper]:
        raise UnknownNameError(f"table of {paper}", table, PAPERS[paper])
    return PAPERS[paper][table]
