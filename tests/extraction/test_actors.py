"""Actors: kinds and ids within a document, and names merged across documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eventformers
from eventformers.datasets_scripts.events import ACTOR_SCHEMA
from eventformers.errors import DataFormatError
from eventformers.extraction.actors import DOCUMENT_ACTOR_SCHEMA, merge_actors, read_actors

TEXTS = {
    "a": "Tory leader Michael Howard met President Barack Obama in Paris. He gave the president a letter.",
    "b": "Police arrested two protesters. Obama flew to Paris. He thanked the US government.",
    "c": "The United States sent a ship. The police left.",
}


def extracted(
    folder: Path, pipeline: str, **settings: Any
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """The actors by their ids, and the events."""
    texts = folder / "texts"
    texts.mkdir(exist_ok=True)
    for name, text in TEXTS.items():
        (texts / f"{name}.txt").write_text(text, encoding="utf-8")
    eventformers.extract(texts, folder / "out", pipeline=pipeline, overwrite=True, **settings)
    actors = pq.read_table(folder / "out" / "actors.parquet")
    assert actors.schema.equals(ACTOR_SCHEMA)
    events = pq.read_table(folder / "out" / "events.parquet").to_pylist()
    return {row["actor_id"]: row for row in actors.to_pylist()}, events


def test_actors_of_texts(english_pipeline: str, tmp_path: Path) -> None:
    actors, events = extracted(tmp_path, english_pipeline)
    met, gave, arrested, flew, thanked, sent, left = events
    assert (met["subject_span"], met["object_span"]) == (
        "Tory leader Michael Howard",
        "President Barack Obama",
    )
    text = TEXTS["a"]
    assert text[met["object_start"] : met["object_end"]] == "President Barack Obama"
    (paris,) = met["participants"]
    assert (paris["preposition"], paris["text"], actors[paris["actor_id"]]["kind"]) == (
        "in",
        "Paris",
        "place",
    )
    howard = actors[met["subject_id"]]
    assert (howard["name"], howard["kind"], gave["subject_id"]) == (
        "Michael Howard",
        "person",
        met["subject_id"],
    )
    assert gave["participants"][0]["actor_id"] == met["object_id"]
    # Two documents have Obama and Paris.
    assert flew["subject_id"] == thanked["subject_id"] == met["object_id"] == "barack_obama"
    assert actors["barack_obama"]["aliases"] == ["Obama"]
    assert actors[arrested["subject_id"]]["kind"] == actors[arrested["object_id"]]["kind"] == "group"
    assert sent["subject_id"] == "united_states"
    # Without a name, each document has its own.
    assert left["subject_id"] != arrested["subject_id"]
    assert left["subject_id"].startswith("c@")
    known = {"", *actors}
    for event in events:
        assert {event["subject_id"], event["object_id"], event["source_id"]} <= known


def test_own_names_win(english_pipeline: str, tmp_path: Path) -> None:
    table = tmp_path / "actors.csv"
    table.write_text(
        "alias,name,kind\npolice,The Police,organisation\n"
        "Obama,B. Obama,person\nBarack Obama,B. Obama,person\n",
        encoding="utf-8",
    )
    actors, events = extracted(tmp_path, english_pipeline, actors=table)
    assert {events[2]["subject_id"], events[6]["subject_id"]} == {"the_police"}
    assert (actors["the_police"]["name"], actors["the_police"]["kind"]) == ("The Police", "organisation")
    assert events[0]["object_id"] == events[3]["subject_id"] == "b._obama"


def rows(*documents: tuple[str, ...]) -> pa.Table:
    found = []
    for number, names in enumerate(documents):
        for place, name in enumerate(names):
            kind = "place" if name.startswith("P") else "person"
            row = {"document_id": f"d{number}", "actor_id": f"d{number}@{place}", "name": name, "kind": kind}
            found.append({**row, "aliases": [], "mentions": 1, "is_named": True, "events": [], "roles": []})
    return pa.Table.from_pylist(found, schema=DOCUMENT_ACTOR_SCHEMA)


def ids_of(*documents: tuple[str, ...]) -> list[str]:
    table = rows(*documents)
    return merge_actors(lambda: [table.slice(0, 2), table.slice(2)], {})[1]


def test_names_of_one_word_follow_the_actors_around_them() -> None:
    bill, hillary = ("Bill Clinton", "Paris"), ("Hillary Clinton", "Prague")
    assert ids_of(bill, hillary, ("Clinton", "Prague"))[-2] == "hillary_clinton"
    # Nothing tells them apart.
    assert ids_of(bill, hillary, ("Clinton", "Pisa"))[-2] == "clinton@d2"
    assert ids_of(bill, ("Clinton", "Pisa"), ("Clinton", "Pisa"))[2::2] == ["clinton@d1", "clinton@d1"]


def test_ids_stay_when_documents_are_added() -> None:
    documents = [("Bill Clinton", "Paris"), ("Clinton", "Paris"), ("Smith", "Pisa")]
    before = ids_of(*documents)
    assert ids_of(*documents, ("Anna Lee", "Pisa"), ("Smith", "Paris"))[: len(before)] == before


def test_aliases_of_the_own_table_may_have_an_article(tmp_path: Path, caplog) -> None:
    path = tmp_path / "actors.csv"
    path.write_text(
        "alias,name,kind\nthe House,US House,organisation\nBob,Bob Ray,person\nRob,Bob Ray,person\n",
        encoding="utf-8",
    )
    table = rows(("House", "Paris"))
    assert merge_actors(lambda: [table], read_actors(path))[1][0] == "us_house"
    assert caplog.messages == [
        "1 of 2 actors of the table are not in these texts under any of their aliases: 'Bob Ray'"
    ]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("alias,name\nx,y\n", r"actors.csv, line 1: found no column kind"),
        ("alias,name,kind\nx,y,human\n", r"actors.csv, line 2: found the kind 'human'"),
        ("alias,name,kind\n,y,person\n", r"actors.csv, line 2: found alias ''"),
        ("alias,name,kind\nx,y,person\nX,z,person\n", r"actors.csv, line 3: found 'x' again"),
    ],
)
def test_faults_of_the_own_table(tmp_path: Path, content: str, found: str) -> None:
    path = tmp_path / "actors.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataFormatError, match=found):
        read_actors(path)
