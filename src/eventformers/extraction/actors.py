"""Actors of a corpus: names merged across documents, by the words of the name, kind, and co-occurring actors.

- A name of several words, and a name of an organisation or a place, is one actor in all documents.
- A person of one word ("Obama") is the actor whose name begins or ends with it and that occurs with most of
  the same other actors; without one, documents in which it occurs with a same other actor have one actor.
- What has no name ("the police") stays an actor of its document.
- A table of aliases of one's own decides before all this.

An actor's id follows from its name, so that documents that are added change an id only where they tell whom a
single word names.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from eventformers.datasets_scripts.events import ACTOR_SCHEMA, schema_of
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.tables import csv_file_rows, needed
from eventformers.errors import DataFormatError, shown
from eventformers.extraction.actor_kinds import KINDS
from eventformers.extraction.coreference import words_of_name
from eventformers.extraction.details.actors import ACTORS

if TYPE_CHECKING:
    from spacy.tokens import Doc

DOCUMENT_ACTOR_SCHEMA = schema_of("document_actors")
"""Columns of the actors of one document: those of `ACTOR_SCHEMA`, whether it has a name, and its `events` by
their numbers in the document with its `roles` in them."""

_ROLES = {"subject_id": -3, "object_id": -2, "source_id": -1}
"""Roles by the columns of ids; those from 0 are the places in `participants`."""
_NEIGHBOURS = 50
"""Most actors of a document that tell persons of one name apart."""
_MOST_NAMESAKES = 100
_MOST_LISTED = 10
"""Most absent actors that a warning names."""

_logger = logging.getLogger("eventformers")


class GivenActor(NamedTuple):
    """The actor that the user has for an alias."""

    name: str
    kind: str


def read_actors(path: Path) -> dict[str, GivenActor]:
    """Read a table of aliases: `alias`, `name`, `kind`.

    Returns:
        The actors by their aliases and names in lower case, also without "the", which names in texts lack.

    Raises:
        DataFormatError: the file is malformed, a kind is unknown, or an alias has two names.
    """
    found: dict[str, GivenActor] = {}
    for line, row in csv_file_rows(path, SkippedRows(), needed("alias", "name", "kind"), row="alias"):
        alias, name, kind = (" ".join(str(row[column]).split()) for column in ("alias", "name", "kind"))
        if not (alias and name):
            raise DataFormatError(path, line, f"alias {shown(alias)} of {shown(name)}", "an alias and a name")
        if kind not in KINDS:
            raise DataFormatError(path, line, f"the kind {shown(kind)}", ", ".join(KINDS))
        actor = GivenActor(name, kind)
        given = (alias.lower(), name.lower())
        for key in (*given, *(one.removeprefix("the ") for one in given)):
            if found.setdefault(key, actor) != actor:
                known = f"{shown(found[key].name)} ({found[key].kind})"
                raise DataFormatError(
                    path, line, f"{shown(key)} again, which is {known}", "one name an alias"
                )
    return found


def document_actors(doc: Doc, document_id: str, details: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the actors of the events of a document, with the columns of `DOCUMENT_ACTOR_SCHEMA`.

    Args:
        doc: the parsed text, for which `actor_details` ran.
        details: the columns of its events.
    """
    places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, columns in enumerate(details):
        for column, role in _ROLES.items():
            places[columns[column]].append((number, role))
        for role, participant in enumerate(columns["participants"]):
            places[participant["actor_id"]].append((number, role))
    return [
        {
            "document_id": document_id,
            "actor_id": actor_id,
            **actor,
            "events": [number for number, _ in places[actor_id]],
            "roles": [role for _, role in places[actor_id]],
        }
        for actor_id, actor in doc.user_data.get(ACTORS, {}).items()
        if actor_id in places
    ]


def with_actor_ids(events: pa.Table, actors: pa.Table, ids: Iterable[str]) -> pa.Table:
    """Set the ids of actors in a table of events.

    Args:
        events: columns of `EVENT_SCHEMA`; the events of a document follow each other, in order.
        actors: the actors of these documents, with the columns of `DOCUMENT_ACTOR_SCHEMA`.
        ids: the id of each of them.
    """
    first: dict[str, int] = {}
    for row, document_id in enumerate(events["document_id"].to_pylist()):
        first.setdefault(document_id, row)
    participants = events["participants"].combine_chunks()
    offsets = participants.offsets.to_pylist()
    of_participants = [""] * len(participants.values)
    columns = {role: [""] * len(events) for role in _ROLES.values()}
    placed = zip(*(actors[name].to_pylist() for name in ("document_id", "events", "roles")), ids, strict=True)
    for document_id, numbers, roles, actor_id in placed:
        for number, role in zip(numbers, roles, strict=True):
            row = first[document_id] + number
            if role < 0:
                columns[role][row] = actor_id
            else:
                of_participants[offsets[row] + role] = actor_id
    for name, role in _ROLES.items():
        events = events.set_column(
            events.column_names.index(name), name, pa.array(columns[role], pa.string())
        )
    kind = participants.values.type
    fields = [
        pa.array(of_participants, pa.string())
        if kind.field(place).name == "actor_id"
        else participants.values.field(place)
        for place in range(kind.num_fields)
    ]
    values = pa.StructArray.from_arrays(fields, fields=list(kind))
    lists = pa.ListArray.from_arrays(participants.offsets, values, type=participants.type)
    return events.set_column(events.column_names.index("participants"), "participants", lists)


def merge_actors(
    tables: Callable[[], Iterable[pa.Table]], given: Mapping[str, GivenActor]
) -> tuple[pa.Table, list[str]]:
    """Merge the actors of documents by their names.

    Args:
        tables: returns their tables (`DOCUMENT_ACTOR_SCHEMA`), in order; the actors of a document follow each
            other. They are read more than once.
        given: the actors of one's own, by their aliases in lower case.

    Returns:
        The actors with the columns of `ACTOR_SCHEMA`, most mentions first, and the id of each row of the
        tables.
    """
    merger = _Merger(given)
    for row in _rows(tables()):
        merger.count(row)
    for _, actors in _by_document(_rows(tables())):
        merger.compare(actors)
    ids = merger.finish(_by_document(_rows(tables())))
    merged: dict[str, dict[str, Any]] = {}
    names: defaultdict[str, Counter[str]] = defaultdict(Counter)
    kinds: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row, actor_id in zip(_rows(tables()), ids, strict=True):
        own = merger.given_of(row)
        entry = merged.setdefault(actor_id, {"actor_id": actor_id, "mentions": 0, "own": own})
        entry["mentions"] += row["mentions"]
        names[actor_id].update({name: 1 for name in (row["name"], *row["aliases"])})
        names[actor_id][row["name"]] += row["mentions"]
        kinds[actor_id][row["kind"]] += row["mentions"]
    used = {entry["own"] for entry in merged.values()}
    absent = [one.name for one in dict.fromkeys(given.values()) if one not in used]
    if absent:
        _logger.warning(
            "%d of %d actors of the table are not in these texts under any of their aliases: %s",
            *(len(absent), len(set(given.values())), ", ".join(map(shown, absent[:_MOST_LISTED]))),
        )
    rows = []
    for actor_id, entry in merged.items():
        known = sorted(names[actor_id].items(), key=lambda item: (-len(item[0].split()), -item[1], item[0]))
        own = entry.pop("own")
        name = own.name if own else known[0][0]
        counts = sorted(kinds[actor_id].items(), key=lambda item: (item[0] == "other", -item[1], item[0]))
        entry |= {"name": name, "kind": own.kind if own else counts[0][0]}
        rows.append({**entry, "aliases": sorted(one for one, _ in known if one != name)})
    rows.sort(key=lambda row: (-row["mentions"], row["actor_id"]))
    return pa.Table.from_pylist(rows, schema=ACTOR_SCHEMA), ids


def _rows(tables: Iterable[pa.Table]) -> Iterator[dict[str, Any]]:
    names = ["document_id", "actor_id", "name", "kind", "aliases", "mentions", "is_named"]
    for table in tables:
        yield from table.select(names).to_pylist()


def _by_document(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    return ((name, list(actors)) for name, actors in groupby(rows, itemgetter("document_id")))


class _Merger:
    """Ids of the actors of documents."""

    def __init__(self, given: Mapping[str, GivenActor]) -> None:
        self.given = given
        self._single: set[str] = set()
        self._beside: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def given_of(self, row: Mapping[str, Any]) -> GivenActor | None:
        """The actor of one's own that a name or an alias of a row is of."""
        names = (row["name"], *row["aliases"])
        return next((self.given[name.lower()] for name in names if name.lower() in self.given), None)

    def key(self, row: Mapping[str, Any]) -> str:
        """The id of a row by itself; "" for a person of one word."""
        if (own := self.given_of(row)) is not None:
            return "_".join(own.name.lower().split())
        words = words_of_name(row["name"].split())
        if not row["is_named"] or not words:
            return str(row["actor_id"])
        if len(words) > 1:
            return "_".join(words)
        return "" if row["kind"] == "person" else f"{words[0]}.{row['kind']}"

    def count(self, row: Mapping[str, Any]) -> None:
        """Note a person of one word."""
        if not self.key(row):
            self._single.update(words_of_name(row["name"].split()))

    def compare(self, actors: Sequence[Mapping[str, Any]]) -> None:
        """Note what occurs with the persons that a single word may stand for."""
        keys = [self.key(row) for row in actors]
        others = _others(keys)
        for row, key in zip(actors, keys, strict=True):
            if key and row["kind"] == "person" and row["is_named"]:
                words = key.split("_")
                for word in self._single.intersection((words[0], words[-1])):
                    for other in others:
                        if other != key:
                            self._beside[word, other].add(key)

    def finish(self, documents: Iterable[tuple[str, list[dict[str, Any]]]]) -> list[str]:
        """The id of each actor."""
        ids: list[str] = []
        first: dict[tuple[str, str], str] = {}
        for document_id, actors in documents:
            keys = [self.key(row) for row in actors]
            others = _others(keys)
            for row, key in zip(actors, keys, strict=True):
                ids.append(key or self._of_single(row, document_id, others, first))
        return ids

    def _of_single(
        self,
        row: Mapping[str, Any],
        document_id: str,
        others: Sequence[str],
        first: dict[tuple[str, str], str],
    ) -> str:
        word = words_of_name(row["name"].split())[0]
        scores: Counter[str] = Counter()
        for other in others:
            people = self._beside.get((word, other), set())
            # What occurs with many of this name tells none of them apart.
            if len(people) <= _MOST_NAMESAKES:
                scores.update(people)
        best = scores.most_common(2)
        if best and (len(best) == 1 or best[0][1] > best[1][1]):
            return best[0][0]
        # The first document of those that share another actor names it.
        pairs = [(word, other) for other in others]
        known = next((first[pair] for pair in pairs if pair in first), f"{word}@{document_id}")
        for pair in pairs:
            first.setdefault(pair, known)
        return known


def _others(keys: Iterable[str]) -> list[str]:
    """The actors of a document that other documents may have, too."""
    return [key for key in dict.fromkeys(keys) if key and "@" not in key][:_NEIGHBOURS]
