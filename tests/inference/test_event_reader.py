"""Event-like input: every format, table and folder gives the same events."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
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
from eventformers.inference.chains.next_event import next_event, read_events
from eventformers.inference.encode import load_encoder
from eventformers.inference.encoding.event_reader import read_items, values_of
from eventformers.inference.encoding.event_tables import (
    pipeline_language,
    read_event_mentions,
    read_table_events,
)
from eventformers.inference.encoding.mention_files import load_mentions, load_text_mentions
from eventformers.inference.grounding.ground import ground
from eventformers.inference.induction.induce import induce

TEXTS = ["police arrested man", "storm closed road"]
TRIPLES = [("police", "arrested", "man"), ("", "closed", "road")]
EVENTS = [dict(zip(("subject", "predicate", "object"), triple, strict=True)) for triple in TRIPLES]
TEXT_ROWS = {"title": ["a", "b"], "text": TEXTS}
ROLE_ROWS = {"subject": ["police", None], "predicate": ["arrested", "closed"], "object": ["man", "road"]}
ARROW_EVENTS = pa.array(EVENTS)

FRAMES = [pd.DataFrame, pl.DataFrame, pa.table, pa.RecordBatch.from_pydict, datasets.Dataset.from_dict]
SERIES = [
    list,
    tuple,
    iter,
    lambda values: (value for value in values),
    pd.Series,
    pl.Series,
    pa.array,
    lambda values: pa.chunked_array([values[:1], values[1:]]),
    lambda values: datasets.Dataset.from_dict({"column": values})["column"],
    lambda values: datasets.Dataset.from_dict({"column": values}).to_iterable_dataset()["column"],
]


@pytest.mark.parametrize("frame", FRAMES)
def test_rows_are_read_by_their_columns(frame):
    assert read_items(frame(TEXT_ROWS)) == TEXTS
    assert read_items(frame(ROLE_ROWS)) == EVENTS
    assert read_items(frame({"event": EVENTS, "date": ["1", "2"]})) == EVENTS


@pytest.mark.parametrize("series", SERIES)
def test_columns_hold_texts_or_events(series):
    assert read_items(series(TEXTS)) == TEXTS
    assert read_items(series(EVENTS)) == EVENTS
    assert read_items(series([list(triple) for triple in TRIPLES])) == EVENTS


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (np.array(TEXTS), TEXTS),
        (np.array(TRIPLES), EVENTS),
        (TRIPLES, EVENTS),
        (tuple(TRIPLES), EVENTS),
        (["a", "b", "c"], ["a", "b", "c"]),
        (np.array(["a", "b", "c"]), ["a", "b", "c"]),
        ([["police", "arrested", "man"], TEXTS[1]], [EVENTS[0], TEXTS[1]]),
        (datasets.Dataset.from_dict(ROLE_ROWS).to_iterable_dataset(), EVENTS),
        (list(datasets.Dataset.from_dict(TEXT_ROWS)), TEXTS),
        (datasets.Dataset.from_dict(TEXT_ROWS).select([1]), TEXTS[1:]),
        (pd.DataFrame(TEXT_ROWS).query("title == 'b'"), TEXTS[1:]),
        (
            pd.DataFrame(
                {"subject": ["police", np.nan], **{k: ROLE_ROWS[k] for k in ("predicate", "object")}}
            ),
            EVENTS,
        ),
        (pd.Series(TEXTS, dtype="category"), TEXTS),
        (pl.Series(TEXTS, dtype=pl.Categorical), TEXTS),
        (pl.DataFrame(EVENTS).to_struct("event"), EVENTS),
        (pa.table(TEXT_ROWS).slice(1), TEXTS[1:]),
        (pa.chunked_array([ARROW_EVENTS.slice(1)]), EVENTS[1:]),
        (pa.table(TEXT_ROWS).to_reader(), TEXTS),
    ],
)
def test_other_forms(items, expected):
    assert read_items(items) == expected


@pytest.mark.parametrize(
    "alone", ["a dog", np.array("a dog"), TRIPLES[0], EVENTS[0], {"text": "a dog", "n": 1}]
)
def test_one_alone(alone):
    values, is_alone = values_of(alone)
    assert is_alone
    assert len(list(values)) == 1
    assert not values_of([alone])[1]


@pytest.mark.parametrize(
    ("items", "found"),
    [
        ({"a dog", "a cat"}, "found set; accepted: a text, an event, or a list"),
        (b"a dog", "found bytes"),
        (bytearray(b"a dog"), "found bytearray"),
        (3, "found int"),
        (None, "found NoneType"),
        (pl.DataFrame(TEXT_ROWS).lazy(), "found LazyFrame"),
        (pd.DataFrame(TEXT_ROWS).groupby("title"), "found DataFrameGroupBy"),
        ({"text": TEXTS}, r"item 0: found the text \['police"),
        (
            datasets.DatasetDict({"train": datasets.Dataset.from_dict(TEXT_ROWS)}),
            "item 0: found the keys train",
        ),
        ([1.5], "item 0: found float"),
        (range(3), "item 0: found int"),
        (np.zeros((2, 3)), "item 0: found a list of 3"),
        (["a", ("b", "c")], "item 1: found a tuple of 2"),
        (["a", None], "item 1: found NoneType"),
        (["a", "\ud800"], "item 1: found half of a surrogate pair"),
        (["\u200b\x00"], "item 0: found a text without any word"),
        ([{"predicate": "a", "object": 0}], "item 0: found the object 0"),
        ([{"predicate": "a", "Object": "b"}], "'Object' .did you mean 'object'"),
        (pd.DataFrame({"title": ["a"]}), "DataFrame: found the columns title"),
        (pd.DataFrame({0: ["a"]}), "DataFrame: found the columns 0"),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "DataFrame: found the column 'text' twice"),
        (pl.DataFrame({"text": ["a", None]}), "item 1: found the text None"),
        (pa.table({"text": [1]}), "item 0: found the text 1"),
        (pa.array([1]), "item 0: found int"),
        (
            pa.table({"predicate": ["a"], "subj": ["b"]}),
            "Table: found the column 'subj' .did you mean 'subject'",
        ),
        (datasets.Dataset.from_dict({"sentence": ["a"]}), "Dataset: found the columns sentence"),
        (["x" * 100_000, ["y" * 100_000]], r"item 1: found a list of 1: \['y+… \(100,004 characters\)"),
    ],
)
def test_anything_else_is_refused(items, found):
    with pytest.raises(EventformersError, match=found) as raised:
        read_items(items)
    assert len(str(raised.value)) < 1000


def test_encode_reads_rows_and_not_names(tiny_encoder):
    encoder = load_encoder(tiny_encoder, device="cpu")
    expected = encoder.encode(TEXTS)
    for items in (pd.DataFrame(TEXT_ROWS), pl.DataFrame(TEXT_ROWS)["text"], pa.table(TEXT_ROWS), iter(TEXTS)):
        np.testing.assert_array_equal(encoder.encode(items), expected)
    # A batch of another size may round otherwise.
    np.testing.assert_array_equal(encoder.encode(TRIPLES[0]), encoder.encode(TEXTS[0]))
    assert encoder.encode(["police", "arrested", "man"]).shape == (3, encoder.dimension)
    assert encoder.texts(pd.DataFrame(ROLE_ROWS)) == ["police arrested man", "closed road"]


def test_chains_are_read_from_the_same_forms():
    for items in (pd.DataFrame(ROLE_ROWS), TRIPLES, EVENTS, ["police | arrested | man", " | closed | road"]):
        assert read_events(items, "the chain") == EVENTS
    # A chain has several events, so that three strings are three of them in a tuple, too.
    assert len(read_events(("a", "b", "c"), "the chain")) == 3
    with pytest.raises(EventformersError, match="found set"):
        read_events({"a"}, "the chain")


DOCUMENTS = {
    "a": "“Police” arrested a thief.\n The river flooded the road.",
    "b": "The judge did not free the thief. A storm hit the city.",
}
OF_SENTENCES = (
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
    for document_id, sentence, trigger, lemma, roles, negated in OF_SENTENCES:
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
