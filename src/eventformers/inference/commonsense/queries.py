"""Queries of a commonsense graph: a head with a relation, or free text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from eventformers.datasets_scripts.reading.fields import is_blank
from eventformers.datasets_scripts.relation_templates import Direction, RelationTemplates
from eventformers.errors import EventformersError, shown

REVERSE = "~"
"""Prefix of a relation that reverses it: the query is the tail, and the search finds heads."""

_RELATION_LIKE = re.compile(r"[A-Za-z]\w*")


@dataclass(frozen=True)
class Query:
    """A parsed query.

    Attributes:
        text: the premise to encode.
        head: the entity or event of the query; None for free text.
        relation: the relation; None for free text.
        direction: `forward` finds tails, `reverse` finds heads; None for free text.
    """

    text: str
    head: str | None = None
    relation: str | None = None
    direction: Direction | None = None


def read_query(
    query: str | tuple[str, str], templates: RelationTemplates, relation: str | None = None
) -> Query:
    """Parse a query: a head with a relation, or free text.

    In `"head, relation"` the relation is the single word after the last comma. If that word is not a relation
    and does not look like one (an inner capital, or a `~` before it), the query is free text.

    Raises:
        UnknownNameError: the relation is unknown.
        EventformersError: the query or its head contains no word, or a relation is given twice.
    """
    check_query(query)
    if not isinstance(query, str):
        if relation is not None:
            raise EventformersError(
                f"the query {shown(query)} and relation={shown(relation)}; accepted: one relation"
            )
        text, relation = query
    elif relation is not None:
        text = query
    else:
        text, comma, last = query.rpartition(",")
        name = last.strip()
        if not comma or not _is_relation(name, templates):
            return Query(templates.text(" ".join(query.split())))
        relation = name
    head = " ".join(text.split())
    if not head:
        raise EventformersError(f"the query {shown(query)} has no head; accepted: 'head, relation'")
    direction: Direction = "reverse" if relation.strip().startswith(REVERSE) else "forward"
    name = relation.strip().removeprefix(REVERSE).strip()
    by_lower = {known.lower(): known for known in templates.relations}
    name = by_lower.get(name.lower(), name)
    return Query(templates.premise(name, head, direction), head, name, direction)


def check_query(query: str | tuple[str, str]) -> None:
    """Raise an `EventformersError` if a query is not a text, or a pair of texts, with a word."""
    is_pair = isinstance(query, (tuple, list)) and len(query) == 2
    parts: Sequence[object] = query if is_pair else [query]
    if any(not isinstance(part, str) or is_blank(part) for part in parts):
        raise EventformersError(
            f"received the query {shown(query)}; accepted: a text with at least one word, 'head, relation' "
            "or the pair of both"
        )


def _is_relation(name: str, templates: RelationTemplates) -> bool:
    if name.startswith(REVERSE):
        return True
    if not _RELATION_LIKE.fullmatch(name):
        return False
    return name.lower() in {known.lower() for known in templates.relations} or name[1:] != name[1:].lower()


def own_texts(query: Query, templates: RelationTemplates) -> set[str]:
    """Return the texts of the query's head as an alternative, which is near the query but never an answer."""
    if query.head is None:
        return set()
    return {templates.text(query.head), templates.alternative(query.head, "reverse")}
