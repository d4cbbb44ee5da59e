"""Tables of documents and events as input of induce, ground and next_event, from folders and from memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from event_files import write_events

from eventformers.datasets_scripts.events import (
    DOCUMENT_SCHEMA,
    DOCUMENTS_TABLE,
    EVENT_SCHEMA,
    EVENTS_TABLE,
    event_id,
)
from eventformers.errors import EventformersError
from eventformers.inference.chains.next_event import next_event
from eventformers.inference.encoding.event_tables import (
    pipeline_language,
    read_event_mentions,
    read_table_events,
)
from eventformers.inference.encoding.mention_files import load_mentions, load_text_mentions
from eventformers.inference.grounding.ground import ground
from eventformers.inference.induction.induce import induce

DOCUMENTS = {
    "a": "“Police” arrested a thief.\n The river flooded the road.",
    "b": "The judge did not free the thief. A storm hit the city.",
}
EVENTS = (
    ("a", 0, "arrested", "arrest", ("police", "arrested", "thief"), False),
    ("a", 1, "flooded", "flood", ("river", "flooded", "road"), False),
    ("b", 0, "free", "free", ("judge", "free", "thief"), True),
    ("b", 1, "hit", "hit", ("storm", "hit", "city"), False),
)


def event_tables() -> dict[str, pa.Table]:
    """The tables of two documents with two events each; one sentence starts with white space."""
    documents = [
        {
            "document_id": name,
            "title": f"Report {name}",
            "date": "2020-01-02",
            "source": "news",
            "license": "CC0-1.0",
            "text": text,
        }
        for name, text in DOCUMENTS.items()
    ]
    events: list[dict[str, Any]] = []
    for document_id, sentence, trigger, lemma, roles, negated in EVENTS:
        text = DOCUMENTS[document_id]
        end = text.index(".") + 1
        first, last = (0, end) if sentence == 0 else (end, len(text))
        start = text.index(trigger, first)
        subject, predicate, object_ = roles
        events.append(
            {
                "event_id": event_id(document_id, sentence),
                "document_id": document_id,
                **{"number": sentence, "sentence": sentence, "sentence_start": first, "sentence_end": last},
                **{"trigger": trigger, "trigger_start": start, "trigger_end": start + len(trigger)},
                **{"subject": subject, "predicate": predicate, "object": object_},
                "text": f"{subject} {'not ' if negated else ''}{predicate} {object_}",
                "lemma": lemma,
                **{"negated": negated, "passive": False},
            }
        )
    return {
        "documents": pa.Table.from_pylist(documents, schema=DOCUMENT_SCHEMA),
        "events": pa.Table.from_pylist(events, schema=EVENT_SCHEMA),
    }


def write_event_tables(folder: Path) -> Path:
    """Write the tables of `event_tables` to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = event_tables()
    pq.write_table(tables["documents"], folder / DOCUMENTS_TABLE)
    pq.write_table(tables["events"], folder / EVENTS_TABLE)
    return folder


IDS = ["a#0", "a#1", "b#0", "b#1"]


def in_folder(tables: dict[str, pa.Table], folder: Path) -> Path:
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    return folder


FORMS: dict[str, Callable[[dict[str, pa.Table], Path], Any]] = {
    "folder": in_folder,
    "path": lambda tables, folder: str(in_folder(tables, folder)),
    "arrow": lambda tables, folder: tables,
    "pandas": lambda tables, folder: {name: table.to_pandas() for name, table in tables.items()},
    "polars": lambda tables, folder: {name: pl.from_arrow(table) for name, table in tables.items()},
    "datasets": lambda tables, folder: {name: Dataset(table) for name, table in tables.items()},
}


@pytest.mark.parametrize("form", FORMS)
def test_events_are_read_with_their_sentences(form: str, tmp_path: Path) -> None:
    source = FORMS[form](event_tables(), tmp_path)
    found = read_event_mentions(source)
    assert [one.event_id for one in found] == IDS
    assert [one.sentence for one in found[:2]] == [
        "“Police” arrested a thief.",
        "The river flooded the road.",
    ]
    triggers = [one.sentence[one.trigger_start : one.trigger_end] for one in found]
    assert triggers == ["arrested", "flooded", "free", "hit"]
    assert found[0].document.text == DOCUMENTS["a"]
    assert found[0].document.license == "CC0-1.0"
    assert [event["predicate"] for event in read_table_events(source)] == [
        "arrested",
        "flooded",
        "not free",
        "hit",
    ]


def test_events_are_mentions_of_an_induction(tiny_encoder: Path) -> None:
    rows, counts = load_mentions(event_tables())
    assert rows[1]["text"] == "The river flooded the road."
    assert (rows[1]["trigger"], rows[1]["trigger_start"], rows[1]["trigger_end"]) == ("flooded", 10, 17)
    assert (rows[1]["mention_id"], rows[1]["document_id"], rows[1]["source"]) == ("a#1", "a", "news")
    assert rows[1]["license"] == "CC0-1.0"
    assert counts == {}
    found = induce(tiny_encoder, event_tables(), num_clusters=1)
    # The lemmas and the objects, by frequency.
    assert [label.label for label in found.types[0].labels] == ["thief", "arrest", "city", "flood", "free"]
    assert found.counts == {"mentions": 4}


def test_a_verb_of_stop_words_names_a_type_by_its_predicate() -> None:
    tables = event_tables()
    frame = tables["events"].to_pandas()
    frame["lemma"] = ["be", "be", "have", "hit"]
    frame["predicate"] = ["was angry at", "was", "had", "hit"]
    terms = [row["terms"] for row in load_mentions({**tables, "events": frame})[0]]
    assert terms == [("was angry at", "thief"), ("was",), ("had",), ("hit", "city")]


def test_events_are_mentions_of_a_grounding(tiny_encoder: Path, tmp_path: Path) -> None:
    mentions, _ = load_text_mentions(event_tables())
    assert [mention.mention_id for mention in mentions] == IDS
    text = mentions[1].text
    assert text == ("The river ", "flooded", " the road.", "Report a", "2020-01-02")
    known = write_events(tmp_path / "kb", [("storm", "en", "storm", "the storm hit the city")])
    folder = write_event_tables(tmp_path / "explored")
    found = ground(tiny_encoder, folder, known)
    assert [one.mention.mention_id for one in found.mentions] == IDS
    assert all(one.candidates[0].event_id == "storm" for one in found.mentions)


@pytest.mark.parametrize(
    ("report", "language"),
    [
        ({"made_of": {"pipeline": "de_core_news_sm 3.8.0, spaCy 3.8.18"}}, "de"),
        ({"settings": {"events": {"pipeline": "fr_core_news_sm"}}}, "fr"),
        ({"made_of": "by hand", "settings": [1]}, None),
        ({"settings": {"events": {"pipeline": None}}}, None),
        ({}, None),
    ],
)
def test_a_folder_has_the_language_of_its_pipeline(
    report: dict[str, object], language: str | None, tmp_path: Path
) -> None:
    folder = write_event_tables(tmp_path / "extracted")
    assert pipeline_language(folder) is None
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    assert pipeline_language(folder) == language


@pytest.mark.parametrize("name", ["", "events.parquet"])
def test_events_are_candidates_of_a_chain(name: str, tiny_encoder: Path, tmp_path: Path) -> None:
    folder = write_event_tables(tmp_path / "explored")
    found = next_event(tiny_encoder, "POLICE | arrested | thief", corpus=folder / name)
    texts = {candidate.text for candidate in found.candidates}
    assert texts == {"river flooded road", "judge not free thief", "storm hit city"}


def changed(table: str, **columns: list[object]) -> Callable[[], dict[str, Any]]:
    def tables() -> dict[str, Any]:
        found: dict[str, Any] = event_tables()
        found[table] = found[table].to_pandas().assign(**columns)
        return found

    return tables


FAULTS: dict[str, Callable[[], dict[str, Any]]] = {
    "the tables: found event; accepted: documents and events": lambda: {"event": event_tables()["events"]},
    "found int; accepted: for documents, an Arrow table": lambda: {**event_tables(), "documents": 3},
    "events: found no column event_id, trigger, .*; accepted: the columns that extract and": lambda: {
        **event_tables(),
        "events": event_tables()["documents"],
    },
    "events: found no event": lambda: {**event_tables(), "events": event_tables()["events"][:0]},
    "documents, row 1: found the document_id 'a' twice": changed("documents", document_id=["a", "a"]),
    "documents, row 1: found the text 3; accepted: a text": changed("documents", text=["x", 3]),
    "row 3: found the document_id 'c', which": changed("events", document_id=["a", "a", "b", "c"]),
    "row 1: found sentence_start 26, trigger_start 0": changed("events", trigger_start=[9, 0, 0, 0]),
    "row 1: .* in a text of 55 characters": changed("events", trigger_end=[17, 500, 0, 0]),
    "row 0: found .* 9.5.*; accepted: whole numbers": changed("events", trigger_start=[9.5, 0, 0, 0]),
    "found the trigger 'arrested', where the text has 'rrest": changed("events", trigger_start=[10, 0, 0, 0]),
}


@pytest.mark.parametrize("message", FAULTS)
def test_tables_that_do_not_fit_are_refused(message: str) -> None:
    with pytest.raises(EventformersError, match=message):
        read_event_mentions(FAULTS[message]())


def test_folders_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    folder = write_event_tables(tmp_path)
    (folder / "documents.parquet").write_bytes(b"PAR1")
    with pytest.raises(EventformersError, match=r"documents.parquet: found no Parquet"):
        load_mentions(folder)
    (folder / "documents.parquet").unlink()
    with pytest.raises(
        EventformersError, match=r"documents.parquet: no such file; accepted: a folder that extract"
    ):
        load_text_mentions(folder)
    (folder / "events.parquet").unlink()
    (folder / "story.txt").write_text("A storm hit the city.", encoding="utf-8")
    for read in (load_mentions, load_text_mentions):
        with pytest.raises(
            EventformersError, match=r"found no mention; accepted: .*for raw texts, --pipeline"
        ):
            read(folder)
    with pytest.raises(EventformersError, match="found no events; accepted: a folder that extract"):
        next_event("unread", "a | b | c", corpus=folder)
