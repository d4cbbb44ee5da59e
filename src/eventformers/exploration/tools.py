"""Tools by which agents read an exploration; they need no library of a protocol."""

from __future__ import annotations

import functools
import glob
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Annotated, Any

import duckdb
from pydantic import Field, ValidationError

from eventformers.datasets_scripts.events import (
    DOCUMENTS_TABLE,
    EVENTS_TABLE,
    VECTORS_TABLE,
    check_factuality,
)
from eventformers.errors import EventformersError, shown
from eventformers.evaluation.session import Session
from eventformers.exploration import REPORT_FILE
from eventformers.exploration.related import NEXT_JUDGED
from eventformers.exploration.steps import Model
from eventformers.extraction.pipeline import extract
from eventformers.extraction.texts import iso_date
from eventformers.extraction.wide import wide_query
from eventformers.inference.chains.next_event import next_event
from eventformers.inference.encode import EventEncoder
from eventformers.inference.grounding.ground import ground
from eventformers.inference.grounding.knowledge_base import KnowledgeBase, load_knowledge_base

MAX_ROWS = 100
"""Maximum number of rows of an answer."""

MAX_CHARACTERS = 500
"""Number of characters after which a value of an answer is truncated."""

_SHOWN = (
    *("event_id", "text", "type", "factuality", "date", "time_text", "time_start", "time_end", "place_text"),
    *("country", "subject_span", "subject_name", "predicate", "object_span", "object_name", "participants"),
    *("source_name", "story_id", "story", "sentence_text", "title", "document_id", "url"),
)
_SEARCHED = ("text", "subject_span", "subject_name", "object_span", "object_name", "participants", "title")
_PLACE = ("place_text", "country")
_CANDIDATES = 5

Limit = Annotated[int, Field(ge=1, le=MAX_ROWS, description="Maximum number of rows.")]
Offset = Annotated[
    int, Field(ge=0, le=10**12, description="Number of rows to skip: `next_offset` of the last answer.")
]
Answer = dict[str, Any]


class ExplorationTools:
    """Read-only tools over the tables of an exploration, or of an extraction, which has fewer of them.

    Answers have at most `MAX_ROWS` rows, no empty values, and values of at most `MAX_CHARACTERS`.

    Args:
        folder: the folder that `explore` or `extract` wrote.
        events: the encoder of its vectors, as for `explore`.
        chains: the model of `next_events`; None takes `events`.
        grounding: the model of `ground_text`, as for `ground`.
        knowledge_base: the entries of `ground_text`; None turns it off.
        pipeline: the spaCy pipeline of `ground_text`.
        index: folder for the vectors of candidates and entries, so that later servers find them; None uses a
            temporary one.

    Raises:
        EventformersError: the folder has no tables, or those of an earlier version.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        events: Model = None,
        chains: Model = None,
        grounding: Model = "grounding",
        knowledge_base: str | Path | None = None,
        pipeline: str | Path | None = None,
        index: str | Path | None = None,
        device: str | None = None,
    ) -> None:
        self.folder = Path(folder)
        for name in (DOCUMENTS_TABLE, EVENTS_TABLE):
            if not (self.folder / name).is_file():
                raise EventformersError(
                    f"{folder} has no {name}; accepted: a folder that explore or extract wrote"
                )
        self._models = {"events": events, "chains": chains or events, "grounding": grounding}
        self._knowledge_base, self._pipeline, self._device = knowledge_base, pipeline, device
        self._scratch = TemporaryDirectory(prefix="eventformers-")
        self._index = Path(index or self._scratch.name)
        self._session, self._lock = Session(keeps_vectors=False), Lock()
        self._database = duckdb.connect(config={"temp_directory": self._scratch.name})
        if (self.folder / VECTORS_TABLE).exists():
            path = glob.escape(str(self.folder / VECTORS_TABLE))
            self._database.read_parquet(path).create_view("vectors")
        try:
            # The queries hold names of ours alone; values are parameters.
            self._database.execute(f"CREATE VIEW wide AS {wide_query(self._database, self.folder)}")
        except duckdb.Error as error:
            raise EventformersError(
                f"{folder}: the tables are not those of this version ({str(error).splitlines()[0]}); run "
                "explore again"
            ) from error
        columns = {row[0] for row in self._database.execute("DESCRIBE wide").fetchall()}
        self._shown = [name for name in _SHOWN if name in columns]
        self._searched = [name for name in _SEARCHED if name in columns]

    def about(self) -> Answer:
        """Say what the exploration has: counts, dates, frequent types and actors, and its limits."""
        report = self.folder / REPORT_FILE
        recorded = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else {}
        [[documents, events, first, last]] = self._query(
            "SELECT count(DISTINCT document_id), count(*), min(nullif(date, '')), max(nullif(date, '')) "
            "FROM wide"
        )
        answer: Answer = {"documents": documents, "events": events, "first_date": first, "last_date": last}
        for name, table, order in (("types", "types", "size"), ("actors", "actors", "mentions")):
            if (self.folder / f"{table}.parquet").exists():
                sums = f"SELECT name, sum({order}) FROM {table} GROUP BY name"  # noqa: S608
                rows = self._query(f"{sums} ORDER BY 2 DESC, 1 LIMIT 20")
                answer[f"frequent_{name}"] = dict(rows)
        return answer | {"counts": recorded.get("counts", {}), "notes": recorded.get("notes", [])}

    def search_events(
        self,
        words: Annotated[str, Field(description="Words that the event or its document's title has.")] = "",
        like: Annotated[
            str, Field(description="Rank by similarity to this event, e.g. 'storm hit city'.")
        ] = "",
        subject: Annotated[str, Field(description="Words of who acts.")] = "",
        predicate: Annotated[str, Field(description="The verb or noun of the event, e.g. 'arrest'.")] = "",
        object: Annotated[str, Field(description="Words of whom or what it concerns.")] = "",
        place: Annotated[str, Field(description="Words of its place, or an ISO code of a country.")] = "",
        event_type: Annotated[str, Field(description="Words of the name of its type.")] = "",
        since: Annotated[str, Field(description="First date of documents, e.g. 2024-05.")] = "",
        until: Annotated[str, Field(description="Last date of documents.")] = "",
        factuality: Annotated[str, Field(description="fact, negated, possible or reported.")] = "",
        limit: Limit = 20,
        offset: Offset = 0,
    ) -> Answer:
        """Find events by words, roles, place, date and meaning; all conditions must hold.

        Rows are in the order of dates, or best first with `like`. Each has its sentence and document.
        """
        where: list[str] = ["true"]
        values: list[Any] = []

        def contains(text: str, columns: Sequence[str]) -> None:
            there = ", ".join(column for column in columns if column in self._shown) or "''"
            for word in text.lower().split():
                where.append(f"contains(lower(concat_ws(' ', {there})), ?)")
                values.append(word)

        contains(words, self._searched)
        contains(subject, ("subject_span", "subject_name"))
        contains(object, ("object_span", "object_name"))
        contains(place, _PLACE)
        contains(event_type, ("type",))
        if predicate:
            where.append(
                "(contains(lower(predicate), lower(?)) OR "
                "event_id IN (SELECT event_id FROM events WHERE lemma = lower(?)))"
            )
            values += [predicate, predicate]
        if factuality:
            where.append("list_contains(?, factuality)")
            values.append(list(check_factuality([factuality])))
        for name, given, comparison in (
            ("since", since, "date >= ?"),
            ("until", until, "date <> '' AND left(date, length(?)) <= ?"),
        ):
            # Other texts compare with dates, too, and would find none or all of them.
            if day := iso_date(given, Path(name), None):
                where.append(comparison)
                values += [day] * comparison.count("?")
        return self._events(where, values, limit, offset, like)

    def actor_events(
        self,
        actor: Annotated[str, Field(description="Name, alias or actor_id.")],
        limit: Limit = 20,
        offset: Offset = 0,
    ) -> Answer:
        """List the events in which a person, organisation or place takes part, in the order of dates."""
        self._needs("actors", "an explore of this version")
        found: list[tuple[Any, ...]] = []
        for condition in (
            "actor_id = $name",
            "lower($name) IN (SELECT lower(unnest(list_prepend(name, aliases))))",
            "contains(lower(concat_ws(' ', name, array_to_string(aliases, ' '))), lower($name))",
        ):
            query = (
                f"SELECT actor_id, name, kind, mentions FROM actors WHERE {condition} ORDER BY mentions DESC"  # noqa: S608
            )
            found = found or self._query(query, {"name": actor.strip()})
        if len(found) != 1:
            named = found or self._query("SELECT actor_id, name, kind, mentions FROM actors LIMIT 20")
            listed = "; ".join(f"{one[0]} ({one[1]}, {one[2]}, {one[3]} mentions)" for one in named[:20])
            raise EventformersError(
                f"actor: {len(found) or 'no'} actors match {shown(actor)}; accepted: one actor_id of {listed}"
            )
        [(actor_id, name, kind, mentions)] = found
        takes_part = (
            "event_id IN (SELECT event_id FROM events WHERE ? IN (subject_id, object_id, source_id) "
            "OR list_contains(list_transform(participants, lambda one: one.actor_id), ?))"
        )
        told = {"actor_id": actor_id, "name": name, "kind": kind, "mentions": mentions}
        return {"actor": told} | self._events([takes_part], [actor_id, actor_id], limit, offset)

    def search_stories(
        self,
        words: Annotated[str, Field(description="Words of its name, actors, place or country.")] = "",
        limit: Limit = 20,
        offset: Offset = 0,
    ) -> Answer:
        """Find stories: events that are the same event, in one document or many; largest first."""
        self._needs("stories", "explore without --no-stories")
        condition = (
            "contains(lower(concat_ws(' ', name, array_to_string(actors, ' '), place_text, country)), ?)"
        )
        parts = words.lower().split()
        query = (
            "SELECT *, count(*) OVER () AS total FROM (SELECT * EXCLUDE (document_ids, file_row_number) "  # noqa: S608
            f"FROM stories) WHERE {' AND '.join([condition] * len(parts)) or 'true'} "
            "ORDER BY documents DESC, events DESC, story_id"
        )
        return self._page(query, parts, limit, offset)

    def read_story(
        self,
        story_id: Annotated[str, Field(description="The story_id of a row of events or stories.")],
        limit: Limit = 20,
        offset: Offset = 0,
    ) -> Answer:
        """Read a story: its events with the sentences and documents that report them."""
        self._needs("stories", "explore without --no-stories")
        answer = self._events(["story_id = ?"], [story_id], limit, offset)
        if not answer["total"]:
            raise EventformersError(
                f"story_id: found {shown(story_id)}; accepted: a story_id of search_stories or search_events"
            )
        return answer

    def next_events(
        self,
        events: Annotated[
            list[str],
            Field(min_length=1, description="What happened, in order: 'subject | predicate | object'."),
        ],
        limit: Limit = 10,
    ) -> Answer:
        """Rank events of the texts by how related they are to a chain of events. Few of them come next."""
        with self._lock:
            found = next_event(
                self._encoder("chains"),
                events,
                corpus=self.folder,
                index=self._index / "events",
                top=limit,
            )
        rows = [{"text": one.text, "score": round(one.score, 3)} for one in found.candidates]
        return {"rows": rows, "considered": found.considered, "note": NEXT_JUDGED}

    def ground_text(
        self,
        text: Annotated[
            str, Field(max_length=20_000, description="A text; mark chosen mentions as [[mention]].")
        ],
        language: Annotated[
            str, Field(description="Its language; may be empty if all entries have one, or without marks.")
        ] = "",
        limit: Limit = 20,
    ) -> Answer:
        """Link the events of a text to entries of the knowledge base, with the events they are part of."""
        with self._lock, TemporaryDirectory(prefix="eventformers-") as scratch:
            entries = self._entries
            texts: Any = [text]
            if "[[" not in text:
                (Path(scratch) / "text.txt").write_text(text, encoding="utf-8")
                texts = Path(scratch) / "events"
                extract(Path(scratch) / "text.txt", texts, pipeline=self._pipeline, triggers="verbs")
            found = ground(
                self._encoder("grounding"),
                texts,
                entries,
                candidates=_CANDIDATES,
                language=language or None,
                index=self._index / "knowledge_base",
            )
        rows = []
        for one in found.mentions[:limit]:
            told = one.to_dict()
            candidates = [
                {"event_id": each.event_id, "title": each.title, "score": round(each.score, 3)}
                for each in one.candidates
            ]
            rows.append(
                {
                    name: told[name]
                    for name in ("mention", "start_char", "end_char", "linked", "ancestors", "null")
                }
                | {"candidates": candidates}
            )
        return {"rows": rows, "total": len(found.mentions), "note": found.note}

    @functools.cached_property
    def _entries(self) -> KnowledgeBase:
        if self._knowledge_base is None:
            raise EventformersError("this server has no knowledge base; start it with --knowledge-base")
        return load_knowledge_base(self._knowledge_base)

    def _encoder(self, role: str) -> EventEncoder:
        model = self._models[role]
        device = None if isinstance(model, EventEncoder) else self._device
        return self._session.encoder(model, device=device)

    def _needs(self, table: str, option: str) -> None:
        if not (self.folder / f"{table}.parquet").exists():
            raise EventformersError(f"{self.folder.name} has no {table}; they need {option}")

    def _query(self, query: str, values: Any = ()) -> list[tuple[Any, ...]]:
        # The server calls tools on several threads, each of which needs a cursor of its own.
        return self._database.cursor().execute(query, values).fetchall()

    def _events(
        self, where: Sequence[str], values: Sequence[object], limit: int, offset: int, like: str = ""
    ) -> Answer:
        """Return events by date, or by cosine with a text."""
        source, score, order = "wide", "", "date, document_id, trigger_start"
        first: list[object] = []
        if like:
            self._needs("vectors", "explore without --skip vectors")
            report = json.loads((self.folder / REPORT_FILE).read_text(encoding="utf-8"))
            made_by = report["settings"]["vectors"]["events model"]
            with self._lock:
                encoder = self._encoder("events")
                if made_by["revision"] != encoder.revision:
                    raise EventformersError(
                        f"like: the vectors are of {made_by['name']}, the server has {encoder.name}; start "
                        "it with --events and the model that explore had, or search without like"
                    )
                vector = encoder.encode([like], normalize=True)[0].tolist()
            kind = f"FLOAT[{len(vector)}]"
            source = "wide JOIN vectors USING (text)"
            score = f"round(array_inner_product(embedding::{kind}, ?::{kind})::DOUBLE, 3) AS score, "
            order, first = f"score DESC, {order}", [vector]
        query = (
            f"SELECT {score}{', '.join(self._shown)}, count(*) OVER () AS total FROM {source} "  # noqa: S608
            f"WHERE {' AND '.join(where)} ORDER BY {order}"
        )
        return self._page(query, [*first, *values], limit, offset)

    def _page(self, query: str, values: Sequence[object], limit: int, offset: int) -> Answer:
        """Return some rows of a query whose last column is the number of all."""
        found = self._database.cursor().execute(f"{query} LIMIT ? OFFSET ?", [*values, limit, offset])
        names = [column[0] for column in found.description]
        rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        if offset and not rows:
            raise EventformersError(
                f"offset: found {offset}; accepted: less than the total of the first answer"
            )
        total = rows[0]["total"] if rows else 0
        answer: Answer = {
            "total": total,
            "rows": [
                {
                    name: f"{value[:MAX_CHARACTERS]}…"
                    if isinstance(value, str) and len(value) > MAX_CHARACTERS
                    else value
                    for name, value in row.items()
                    if name != "total" and value not in ("", None, [])
                }
                for row in rows
            ],
        }
        return answer | ({"next_offset": offset + len(rows)} if offset + len(rows) < total else {})


def wrong_arguments(error: ValidationError) -> str:
    """Say which arguments of a tool are wrong, what was received, and what is accepted."""
    told = []
    for one in error.errors():
        found, accepted = shown(one["input"]), one["msg"].removeprefix("Input should be ")
        if one["type"].startswith("missing"):
            found, accepted = "nothing", "a value"
        told.append(f"{'.'.join(map(str, one['loc']))}: found {found}; accepted: {accepted}")
    return "; ".join(told)


TOOLS = (
    *("about", "search_events", "actor_events", "search_stories", "read_story", "next_events", "ground_text"),
)
"""The names of the tools, methods of `ExplorationTools`."""
