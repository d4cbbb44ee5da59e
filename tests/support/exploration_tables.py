"""Tables of an exploration, drawn at random, in the format that `explore` writes."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PEOPLE = (
    "the minister",
    "rescuers",
    "a court",
    "the company",
    "voters",
    "the striker",
    "scientists",
    "police",
)
VERBS = (
    "announced",
    "elected",
    "arrested",
    "found",
    "opened",
    "signed",
    "scored",
    "denied",
    "closed",
    "praised",
)
THINGS = (
    "a plan",
    "the verdict",
    "two suspects",
    "the bridge",
    "an election",
    "the treaty",
    "a goal",
    "the report",
)
PLACES = ("in Berlin", "on Monday", "after the storm", "in parliament", "at dawn", "without comment")
HOSTILE = "</script><img src=x onerror=\"document.title='run'\"> & <b>bold</b>"


def write_tables(
    folder: Path, documents: int = 12, events_each: int = 8, *, dates: bool = True, seed: int = 0
) -> None:
    """Write all tables for a number of documents; the first one has a hostile title and an emoji."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    texts, events = _texts_and_events(random, documents, events_each)
    day = datetime.date(2019, 1, 1)
    _write(
        folder / "documents.parquet",
        document_id=[f"news/{number}" for number in range(documents)],
        title=[HOSTILE, *(f"Report {number} on {THINGS[number % 8]}" for number in range(1, documents))],
        date=[
            str(day + datetime.timedelta(days=9 * (number % 90))) if dates else ""
            for number in range(documents)
        ],
        source=["samples"] * documents,
        license=["CC BY 4.0"] * documents,
        text=texts,
    )
    table = pa.Table.from_pylist(events)
    pq.write_table(
        table.cast(
            pa.schema(
                [pa.field(f.name, pa.int32() if f.type == pa.int64() else f.type) for f in table.schema]
            )
        ),
        folder / "events.parquet",
    )
    ids = [event["event_id"] for event in events]
    types = np.array([VERBS.index(event["lemma"]) for event in events])
    _write_types(folder, ids, types, events)
    _write_chains(folder, ids, documents, events_each, events, random)
    _write_knowledge(folder, ids, events)
    _write_map(folder, events, types, random)
    report: dict[str, Any] = {
        "counts": {"documents": documents, "events": len(events), "types": len(VERBS)},
        "settings": {"events": {"pipeline": "en_core_web_sm", "window": None}, "types": {"seed": 0}},
        "notes": ["The untrained encoder groups triggers by their words.", "Links were not trained."],
        "seconds": {"documents": 0.4, "events": 12.5},
    }
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")


def _texts_and_events(
    random: np.random.Generator, documents: int, events_each: int
) -> tuple[list[str], list[dict[str, Any]]]:
    texts, events = [], []
    for document in range(documents):
        text = "\U0001f30d " if document == 0 else ""
        for number in range(events_each):
            who, verb, what, where = (random.integers(len(w)) for w in (PEOPLE, VERBS, THINGS, PLACES))
            start = len(text)
            before = f"{PEOPLE[who][0].upper()}{PEOPLE[who][1:]} "
            trigger_start = start + len(before)
            text += (
                f"{before}{VERBS[verb]} {THINGS[what]} number {random.integers(documents)} {PLACES[where]}."
            )
            events.append(
                {
                    "event_id": f"news/{document}#{number}",
                    "document_id": f"news/{document}",
                    "number": number,
                    "sentence": number,
                    "sentence_start": start,
                    "sentence_end": len(text),
                    "trigger": VERBS[verb],
                    "trigger_start": trigger_start,
                    "trigger_end": trigger_start + len(VERBS[verb]),
                    "subject": PEOPLE[who],
                    "predicate": VERBS[verb],
                    "object": THINGS[what],
                    "text": f"{PEOPLE[who]} {VERBS[verb]} {THINGS[what]}",
                    "lemma": VERBS[verb],
                    "negated": bool(random.random() < 0.1),
                    "passive": bool(random.random() < 0.1),
                }
            )
            text += "\n" if number % 4 == 3 else " "
        texts.append(text)
    return texts, events


def _write_types(folder: Path, ids: list[str], types: np.ndarray, events: list[dict[str, Any]]) -> None:
    numbers = range(len(VERBS))
    _write(
        folder / "types.parquet",
        type_id=pa.array(numbers, pa.int32()),
        name=[f"{verb}, {THINGS[number % 8]}" for number, verb in enumerate(VERBS)],
        size=pa.array([int((types == number).sum()) for number in numbers], pa.int32()),
        words=[[verb, THINGS[number % 8]] for number, verb in enumerate(VERBS)],
        frames=[[{"label": verb.title(), "score": 0.71}] for verb in VERBS],
        weak=["only stop words" if number == 9 else "" for number in numbers],
        examples=[[ids[place] for place in np.flatnonzero(types == number)[:3]] for number in numbers],
    )
    _write(
        folder / "event_types.parquet",
        event_id=ids,
        type_id=pa.array(types, pa.int32()),
        cosine=pa.array(np.full(len(ids), 0.8), pa.float32()),
    )


def _write_chains(
    folder: Path,
    ids: list[str],
    documents: int,
    events_each: int,
    events: list[dict[str, Any]],
    random: np.random.Generator,
) -> None:
    chains = [f"news/{document}@0" for document in range(documents)]
    _write(
        folder / "chains.parquet",
        chain_id=chains,
        document_id=[f"news/{document}" for document in range(documents)],
        protagonist=[PEOPLE[document % 8] for document in range(documents)],
        event_ids=[ids[start : start + 4] for start in range(0, len(ids), events_each)],
    )
    guesses = random.integers(len(ids), size=3 * documents)
    _write(
        folder / "next_events.parquet",
        chain_id=np.repeat(chains, 3),
        rank=pa.array(np.tile([1, 2, 3], documents), pa.int32()),
        text=[events[place]["text"] for place in guesses],
        score=np.tile([0.9, 0.5, 0.25], documents),
        event_id=[ids[place] for place in guesses],
    )


def _write_knowledge(folder: Path, ids: list[str], events: list[dict[str, Any]]) -> None:
    half = len(ids) // 2
    _write(
        folder / "links.parquet",
        event_id=np.repeat(ids, 2),
        rank=pa.array(np.tile([1, 2], len(ids)), pa.int32()),
        knowledge_base_id=np.tile(["Q1", "Q2"], len(ids)),
        title=np.tile(["Election of the mayor", "Bridge opening"], len(ids)),
        score=np.tile([0.8, 0.3], len(ids)),
        linked=np.tile([True, False], half).tolist() + [False] * (2 * len(ids) - 2 * half),
        ancestors=[["Election", "Politics"], []] * len(ids),
    )
    texts = sorted({event["text"] for event in events})
    _write(
        folder / "completions.parquet",
        text=np.repeat(texts, 2),
        relation=np.tile(["Result", "Reason"], len(texts)),
        rank=pa.array(np.ones(2 * len(texts)), pa.int32()),
        tail=np.tile(["people cheered", "money was short"], len(texts)),
        score=np.tile([0.6, 0.4], len(texts)),
    )


def _write_map(
    folder: Path, events: list[dict[str, Any]], types: np.ndarray, random: np.random.Generator
) -> None:
    centres = random.normal(size=(len(VERBS), 2)) * 6
    places = centres[types] + random.normal(size=(len(events), 2))
    neighbours = random.integers(len(events), size=(len(events), 10))
    distances = np.sort(random.random(neighbours.shape) / 2)
    _write(
        folder / "map.parquet",
        **{
            name: [event[name] for event in events] for name in ("event_id", "document_id", "text", "trigger")
        },
        type_id=pa.array(types, pa.int32()),
        x=pa.array(places[:, 0], pa.float32()),
        y=pa.array(places[:, 1], pa.float32()),
        neighbors=pa.StructArray.from_arrays(
            [
                pa.array(list(neighbours), pa.list_(pa.int64())),
                pa.array(list(distances), pa.list_(pa.float32())),
            ],
            ["ids", "distances"],
        ),
    )
    _write(
        folder / "regions.parquet",
        region_id=pa.array(range(len(VERBS)), pa.int32()),
        name=[f"{verb} · {THINGS[number % 8]}" for number, verb in enumerate(VERBS)],
        x=pa.array(centres[:, 0], pa.float32()),
        y=pa.array(centres[:, 1], pa.float32()),
        size=pa.array([int((types == number).sum()) for number in range(len(VERBS))], pa.int32()),
    )


def _write(path: Path, **columns: Any) -> None:
    pq.write_table(pa.table({name: pa.array(values) for name, values in columns.items()}), path)
