"""Actors, stories, places and factuality for the tables of `exploration_tables`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from exploration_tables import HOSTILE, PEOPLE

FORMULA = "=HYPERLINK(1)"
KINDS = ("person", "group", "organisation", "organisation", "group", "person", "group", "organisation")


def add_details(folder: Path) -> None:
    """Give the events of a folder actors, places and factuality, and group them into stories.

    The first of `PEOPLE` is the named actor "Ada Blair", the second has a hostile name, the third is a
    formula, and the others have no name. All documents but the first come from two sources.
    """
    events = pq.read_table(folder / "events.parquet")
    rows = events.to_pylist()
    names = ["Ada Blair", HOSTILE, FORMULA, *PEOPLE[3:]]
    ids = ["ada_blair", "hostile", "formula", *(f"news/0@{number}" for number in range(3, len(PEOPLE)))]
    agents = [PEOPLE.index(row["subject"]) for row in rows]
    # The next of the people, but those without a name have no one to act on.
    patients = [(agent + 1) % len(ids) if agent < 3 else None for agent in agents]
    places = [
        [("", None, None, ""), ("b", 52.5, 13.4, "DE"), ("", None, None, "FR")][n % 3]
        for n in range(len(rows))
    ]
    details = {
        "subject_id": [ids[agent] for agent in agents],
        "object_id": ["" if patient is None else ids[patient] for patient in patients],
        "place_id": [place[0] for place in places],
        "place_text": [("", "Berlin", "Provence")[number % 3] for number in range(len(rows))],
        "latitude": pa.array([place[1] for place in places], pa.float64()),
        "longitude": pa.array([place[2] for place in places], pa.float64()),
        "country": [place[3] for place in places],
        "time_start": [("2019-02-03", "", "")[number % 3] for number in range(len(rows))],
        "factuality": ["reported" if number % 8 == 7 else "fact" for number in range(len(rows))],
    }
    for name, values in details.items():
        events = events.append_column(name, values if isinstance(values, pa.Array) else pa.array(values))
    pq.write_table(events, folder / "events.parquet")
    actors = {
        "actor_id": ids,
        "name": names,
        "kind": KINDS,
        "aliases": [["Blair"], *[[] for _ in ids[1:]]],
        "mentions": pa.array([1] * len(ids), pa.int32()),
    }
    pq.write_table(pa.table(actors), folder / "actors.parquet")
    documents = pq.read_table(folder / "documents.parquet")
    sources = ["samples", *(f"paper {number % 2}" for number in range(1, documents.num_rows))]
    place = documents.column_names.index("source")
    pq.write_table(documents.set_column(place, "source", [sources]), folder / "documents.parquet")
    # The first events of the documents 3, 1 and 2 are one story.
    same = ["news/3#0", "news/1#0", "news/2#0"]
    story = {
        "story_id": [same[0]],
        "name": [HOSTILE],
        "events": pa.array([3], pa.int32()),
        "documents": pa.array([3], pa.int32()),
        **{name: [""] for name in ("time_start", "time_end", "place_text", "country")},
        "first_date": ["2019-01-10"],
        "last_date": ["2019-01-28"],
        "actors": [["Ada Blair"]],
        "document_ids": [["news/3", "news/1", "news/2"]],
    }
    pq.write_table(pa.table(story), folder / "stories.parquet")
    links = {"event_id": same, "story_id": [same[0]] * 3}
    pq.write_table(pa.table(links), folder / "event_stories.parquet")
