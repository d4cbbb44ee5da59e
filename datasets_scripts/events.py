"""The event: the unit of text that all datasets, models and metrics of eventformers share.

An event is a predicate with at most two arguments. An absent role is the empty string, so that the columns of
a dataset stay flat and free of nulls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

import pyarrow as pa
import pyarrow.compute as pc
from datasets import Value

from eventformers.errors import UnknownNameError
from eventformers.files import packaged_yaml


class Event(TypedDict):
    """Who did what to whom; an absent role is the empty string."""

    subject: str
    predicate: str
    object: str


EventOrder = Literal["subject_predicate_object", "predicate_first"]

EVENT_ORDERS: dict[str, tuple[Literal["subject", "predicate", "object"], ...]] = {
    "subject_predicate_object": ("subject", "predicate", "object"),
    "predicate_first": ("predicate", "subject", "object"),
}
"""The order of the roles in the text, by name. `predicate_first` is the order of SWCC (Gao et al., ACL 2022,
Eq. 1)."""

EVENT_FEATURE: dict[str, Value] = {
    "subject": Value("string"),
    "predicate": Value("string"),
    "object": Value("string"),
}
"""The column type of one event; `List(EVENT_FEATURE)` is the type of a list of events."""


def event_text(event: Event, order: EventOrder = "subject_predicate_object") -> str:
    """The text of an event: its roles in the given order, joined by one blank, without absent ones.

    Args:
        order: a key of `EVENT_ORDERS`.

    Raises:
        ValueError: the order is not one of `EVENT_ORDERS`.
    """
    roles = EVENT_ORDERS.get(order)
    if roles is None:
        raise ValueError(f"unknown event order {order!r}; accepted: {', '.join(EVENT_ORDERS)}")
    return " ".join(event[role] for role in roles if event[role])


DOCUMENTS_TABLE = "documents.parquet"
EVENTS_TABLE = "events.parquet"
VECTORS_TABLE = "vectors.parquet"
CHAINS_TABLE = "chains.parquet"
ACTORS_TABLE = "actors.parquet"
EXTRACTED_DOCUMENTS = "events.jsonl.gz"
"""Documents of events as JSON lines, which `extract` writes beside `EVENTS_TABLE`."""

_SCHEMAS = packaged_yaml(__file__, "schemas.yaml")


def schema_of(table: str) -> pa.Schema:
    """The columns of a table of events, by a key of `schemas.yaml`."""

    def arrow(kind: Any) -> pa.DataType:
        if isinstance(kind, dict):
            return pa.struct([(name, arrow(part)) for name, part in kind.items()])
        return pa.list_(arrow(kind[0])) if isinstance(kind, list) else pa.type_for_alias(kind)

    return pa.schema(list(arrow(_SCHEMAS[table])))


DOCUMENT_SCHEMA = schema_of("documents")
"""Columns of documents. `title`, `date` (ISO) and `url` are "" if unknown."""

EVENT_SCHEMA = schema_of("events")
"""Columns of events. Places are characters (code points) of the document's text, ends exclusive; `text` is
the text of the event, with "not" if it is negated. From `trigger_kind` (`verb`, `noun`, `adjective`) on, an
unknown text is "", an unknown place or number is null."""


def empty_details() -> dict[str, Any]:
    """The columns of `EVENT_SCHEMA` from `trigger_kind` on, all unknown."""
    fields = list(EVENT_SCHEMA)[EVENT_SCHEMA.get_field_index("trigger_kind") :]
    empty = {pa.string(): "", EVENT_SCHEMA.field("participants").type: []}
    return {field.name: empty.get(field.type) for field in fields}


FACTUALITIES = ("fact", "negated", "possible", "reported")
"""Kinds of factuality; "" is unknown."""


def check_factuality(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return kinds of factuality to count, in the order of `FACTUALITIES`; `all`, or none, are all of them.

    Raises:
        UnknownNameError: a kind is unknown.
    """
    for kind in kinds:
        if kind not in (*FACTUALITIES, "all"):
            raise UnknownNameError("factuality", kind, (*FACTUALITIES, "all"))
    return tuple(one for one in FACTUALITIES if not kinds or one in kinds or "all" in kinds)


def is_counted(factuality: pa.ChunkedArray, kinds: Sequence[str]) -> pa.ChunkedArray:
    """True for events of some kinds of factuality, and for those of unknown factuality, `(n,)`."""
    return pc.is_in(pc.fill_null(factuality, ""), pa.array(["", *kinds]))


CHAIN_SCHEMA = schema_of("chains")
"""Columns of chains: the distinct events of a protagonist in a document, in the order of the text."""

ACTOR_SCHEMA = schema_of("actors")
"""Columns of actors. `kind` is person, organisation, place, group or other; `mentions` counts those that are
resolved within their documents, pronouns included."""

LINK_SCHEMA = schema_of("links")
"""Columns of links to a knowledge base, best first; an event without a linked row is NULL."""


def event_id(document_id: str, number: int) -> str:
    """Return the id of an event: its document and its number there, from 0."""
    return f"{document_id}#{number}"
