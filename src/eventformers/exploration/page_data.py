"""The data of the page of an exploration: columns as compressed bytes, which `page_data.js` reads."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventformers.inference.induction.type_naming import has_only_stop_words

SCORE_STEPS = 100
"""Steps of a score between 0 and 1: the page shows two digits."""

_ALIGNMENT = 4
_LEVEL = 6
_WHOLE_TYPES = (np.int8, np.uint8, np.int16, np.uint16, np.int32)


def packed(columns: Mapping[str, pa.Array | pa.ChunkedArray | np.ndarray]) -> str:
    """Pack columns of equal length for a page.

    Texts are stored once with the number of their text in each row, whole numbers in the smallest type that
    holds them, scores in hundredths, and lists as their values with the start of each row. The first bytes of
    all numbers of a column come first, then the second ones: so they compress to two thirds.

    Args:
        columns: texts, whole numbers, truth values, scores, or lists of them, by name; null texts are "".

    Returns:
        The base64 text of a gzip stream: the length of a JSON header, the header, and the bytes of the
        columns.
    """
    body = bytearray()
    described = {name: _column(values, body) for name, values in columns.items()}
    rows = max((len(values) for values in columns.values()), default=0)
    header = json.dumps(
        {"rows": rows, "columns": described}, ensure_ascii=False, separators=(",", ":")
    ).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    return compressed(len(header).to_bytes(4, "little") + header + bytes(body))


def packed_texts(texts: list[str]) -> str:
    """Pack a list of texts as JSON."""
    return compressed(json.dumps(texts, ensure_ascii=False).encode())


def compressed(content: bytes) -> str:
    """Compress bytes with gzip; equal bytes give equal texts."""
    return base64.b64encode(gzip.compress(content, _LEVEL, mtime=0)).decode()


def _column(values: pa.Array | pa.ChunkedArray | np.ndarray, body: bytearray) -> dict[str, Any]:
    values = pa.array(values) if isinstance(values, np.ndarray) else values
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_list(values.type):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return {"starts": _numbers(starts, body), **_column(values.flatten(), body)}
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        found = pc.fill_null(values, "").dictionary_encode()
        codes = found.indices.to_numpy(zero_copy_only=False)
        return {"texts": found.dictionary.to_pylist(), **_numbers(codes, body)}
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return _numbers(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), body)


def _numbers(values: np.ndarray, body: bytearray) -> dict[str, Any]:
    steps = SCORE_STEPS if np.issubdtype(values.dtype, np.floating) else 1
    whole = np.rint(values * steps) if steps > 1 else values
    low, high = (int(whole.min()), int(whole.max())) if len(whole) else (0, 0)
    fitting = next(kind for kind in _WHOLE_TYPES if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    place = len(body)
    body += whole.astype(fitting).view(np.uint8).reshape(len(whole), np.dtype(fitting).itemsize).T.tobytes()
    body += b"\0" * (-len(body) % _ALIGNMENT)
    described = {"type": np.dtype(fitting).name, "at": place, "length": len(whole)}
    return described | ({"steps": steps} if steps > 1 else {})


TEXTS_TOGETHER = 64
"""Texts of documents in a block: a browser unpacks a few at once, so that 10,000 documents open quickly."""

NEIGHBOURS_TOGETHER = 8192
"""Events in a block of neighbours."""

_TITLE_LENGTH = 80
_ACTOR_COLUMNS = ("actor_id", "name", "kind", "aliases")
_STORY_COLUMNS = (
    *("story_id", "name", "events", "documents", "first_date", "last_date", "time_start", "time_end"),
    *("place_text", "country", "actors"),
)
_MAP_STEPS = 65_535


def data_blocks(tables: dict[str, pa.Table], types: list[dict[str, Any]]) -> dict[str, str]:
    """Pack the data of the page, by the names of its blocks.

    Args:
        tables: the tables of an exploration; events have the number of their document, by which they are
            sorted, and are counted or not; actors are those of `used_actors`.
    """
    documents, events = tables["documents"], tables["events"]
    event_ids = events["event_id"]
    texts = documents["text"].to_pylist()
    columns = _events(tables, types)
    columns["place"], places = _places(events)
    given = zip(documents["title"].to_pylist(), texts, strict=True)
    titles = pa.array([title or _first_words(text) or "(empty)" for title, text in given])
    told = {name: documents[name] for name in ("date", "source", "license", "url")}
    blocks = {"documents": packed({"title": titles} | told), "events": packed(columns)}
    if len(places["name"]):
        blocks["places"] = packed(places)
        blocks["world"] = packed_texts([world()["path"], str(world()["steps"])])
    if "actors" in tables:
        blocks["actors"] = packed({name: tables["actors"][name] for name in _ACTOR_COLUMNS})
    if "stories" in tables:
        blocks["stories"] = packed({name: tables["stories"][name] for name in _STORY_COLUMNS})
    for start in range(0, len(texts), TEXTS_TOGETHER):
        blocks[f"texts-{start // TEXTS_TOGETHER}"] = packed_texts(texts[start : start + TEXTS_TOGETHER])
    if types:
        shown = ("name", "weak", "hue", "family")
        blocks["types"] = packed({name: pa.array([row[name] for row in types]) for name in shown})
    if "chains" in tables:
        chains = tables["chains"]
        lists = chains["event_ids"].combine_chunks()
        numbers = pc.fill_null(pc.index_in(lists.flatten(), event_ids), -1)
        blocks["chains"] = packed(
            {"protagonist": chains["protagonist"], "events": _with_values(lists, numbers)}
        )
        if "next_events" in tables:
            following = _by(tables["next_events"], "chain", "chain_id", chains["chain_id"])
            numbers = pc.fill_null(pc.index_in(following["event_id"], event_ids), -1)
            blocks["next"] = packed(
                {**{name: following[name] for name in ("chain", "text", "score")}, "event": numbers}
            )
    if "links" in tables:
        links = _by(tables["links"], "event", "event_id", event_ids)
        names = ("event", "knowledge_base_id", "title", "score", "linked", "ancestors")
        blocks["links"] = packed({name: links[name] for name in names})
    if "completions" in tables:
        completions = _by(tables["completions"], "text_number", "text", pc.unique(events["text"]))
        blocks["completions"] = packed(
            {name: completions[name] for name in ("text_number", "relation", "tail", "score")}
        )
    if "map" in tables:
        blocks |= _map_blocks(tables, event_ids)
    return blocks


def _first_words(text: str) -> str:
    line = text.strip().partition("\n")[0]
    words = shorten(line, _TITLE_LENGTH, placeholder=" …")
    # Some languages have no blanks between words.
    return line[:_TITLE_LENGTH] if words == "…" else words


_EVENT_COLUMNS = (
    *("subject", "predicate", "object", "lemma", "negated", "passive", "counted", "factuality"),
    *("subject_span", "object_span", "time_text", "time_start", "place_text", "country"),
)


def _events(tables: dict[str, pa.Table], types: list[dict[str, Any]]) -> dict[str, Any]:
    events = tables["events"]
    start, end = events["sentence_start"], events["sentence_end"]
    columns: dict[str, Any] = {
        "document": events["document"],
        "sentence_start": start,
        "sentence_length": pc.subtract(end, start),
        "trigger_offset": pc.subtract(events["trigger_start"], start),
        "trigger_length": pc.subtract(events["trigger_end"], events["trigger_start"]),
    }
    columns |= {name: events[name] for name in _EVENT_COLUMNS} | _roles(events, tables.get("actors"))
    if "event_types" in tables and types:
        type_ids = pa.array([row["type_id"] for row in types], pa.int32())
        columns["type"] = _numbers_of(events, tables["event_types"], "type_id", type_ids)
    if "event_stories" in tables and "stories" in tables:
        story_ids = tables["stories"]["story_id"]
        columns["story"] = _numbers_of(events, tables["event_stories"], "story_id", story_ids)
    if "completions" in tables:
        columns["text_number"] = pc.index_in(events["text"], pc.unique(events["text"]))
    return columns


def _numbers_of(events: pa.Table, table: pa.Table, name: str, values: pa.Array) -> pa.ChunkedArray:
    """The position among some values of that which a table has for each event, -1 where it has none."""
    found = table[name].take(pc.index_in(events["event_id"], table["event_id"]))
    return pc.fill_null(pc.index_in(found, values), -1)


# The id of an actor that has no name, and so belongs to one document.
_NAMELESS = r"@\d+$"


def used_actors(events: pa.Table, actors: pa.Table) -> pa.Table:
    """The actors that do something or to which something is done, the most frequent first."""
    ids = pa.chunked_array([*events["subject_id"].chunks, *events["object_id"].chunks], pa.string())
    counts = pc.value_counts(ids)
    places = pc.index_in(actors["actor_id"], counts.field("values"))
    actors = actors.append_column("events", counts.field("counts").take(places))
    actors = actors.filter(pc.is_valid(actors["events"]))
    return actors.sort_by([("events", "descending")])


def _roles(events: pa.Table, actors: pa.Table | None) -> dict[str, Any]:
    """Who did what to whom, with the numbers of the actors, and how specific that is to these texts.

    The name of an actor stands for its pronouns and short forms. An event is specific by the inverse document
    frequency of its lemma, the logarithm of the number of documents by that of those with the lemma, times
    its roles: a name counts twice, a stop word such as a pronoun not at all. So reporting verbs and copulas,
    which are in most documents, come last.
    """
    documents = pc.count_distinct(events["document"]).as_py()
    frequencies = events.group_by("lemma").aggregate([("document", "count_distinct")])
    found = frequencies["document_count_distinct"].take(pc.index_in(events["lemma"], frequencies["lemma"]))
    weights = np.zeros(events.num_rows)
    # Predicates with the lemma as first word: "rose in" is "rise in".
    pairs = pc.binary_join_element_wise(events["lemma"], events["predicate"], "\t")
    distinct = pc.unique(pairs)
    named = [
        " ".join([lemma or predicate, *predicate.split(" ")[1:]])
        for lemma, _, predicate in (pair.partition("\t") for pair in distinct.to_pylist())
    ]
    did = pa.array(named, pa.string()).take(pc.index_in(pairs, distinct).combine_chunks())
    columns: dict[str, Any] = {"did": did}
    for role, name, actor in (("subject", "who", "agent"), ("object", "whom", "patient")):
        heads, ids = events[role], events[f"{role}_id"]
        words = pc.unique(heads)
        said = pa.array([0 if has_only_stop_words(word) else 1 for word in words.to_pylist()], pa.int8())
        weight = said.take(pc.index_in(heads, words).combine_chunks())
        columns[name] = heads
        if actors is not None:
            numbers = pc.index_in(ids, actors["actor_id"])
            is_named = pc.and_(pc.is_valid(numbers), pc.invert(pc.match_substring_regex(ids, _NAMELESS)))
            columns[name] = pc.if_else(is_named, actors["name"].take(numbers), heads)
            columns[actor] = pc.fill_null(numbers, -1)
            weight = pc.if_else(is_named, pa.scalar(2, pa.int8()), weight)
        weights += weight.to_numpy()
    columns["specificity"] = weights * np.log(documents / found.to_numpy())
    return columns


@cache
def world() -> dict[str, Any]:
    """The outline of the world, and a name and a point for each country."""
    return json.loads((Path(__file__).parent / "world.json").read_text(encoding="utf-8"))


def _places(events: pa.Table) -> tuple[np.ndarray, dict[str, pa.Array]]:
    """The number of each event's place, -1 if unknown, and the places.

    A place without coordinates, such as a region, is its country.
    """
    names: dict[str, Counter[str]] = {}
    points: dict[str, Sequence[float]] = {}
    number_of: dict[str, int] = {}
    countries = world()["countries"]
    numbers = np.full(events.num_rows, -1)
    has_place = pc.or_(pc.not_equal(events["country"], ""), pc.is_valid(events["latitude"]))
    rows = np.flatnonzero(has_place.to_numpy())
    columns = ("place_id", "place_text", "latitude", "longitude", "country")
    for row, event in zip(rows, events.select(columns).take(rows).to_pylist(), strict=True):
        name, country = event["place_text"], event["country"]
        if event["latitude"] is not None:
            key, point = event["place_id"], (event["longitude"], event["latitude"])
        elif country in countries:
            key, (name, *point) = country, countries[country]
        else:
            continue
        names.setdefault(key, Counter())[name] += 1
        points[key] = point
        numbers[row] = number_of.setdefault(key, len(number_of))
    return numbers, {
        "name": pa.array([counts.most_common(1)[0][0] for counts in names.values()], pa.string()),
        "longitude": pa.array([point[0] for point in points.values()], pa.float64()),
        "latitude": pa.array([point[1] for point in points.values()], pa.float64()),
    }


def _by(table: pa.Table, name: str, key: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Add the position of each row's key among the values, and sort by it and by rank.

    Rows with other keys are left out.
    """
    found = table.append_column(name, pc.index_in(table[key], values))
    found = found.filter(pc.is_valid(found[name]))
    return found.sort_by([(name, "ascending"), ("rank", "ascending")])


def _with_values(lists: pa.ListArray, values: pa.Array | np.ndarray) -> pa.ListArray:
    """Lists of the same lengths with other values."""
    starts = np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy())])
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pa.array(values))


def _map_blocks(tables: dict[str, pa.Table], event_ids: pa.ChunkedArray) -> dict[str, str]:
    placed = tables["map"]
    events = pc.index_in(placed["event_id"], event_ids).to_numpy()
    places = np.stack([placed["x"].to_numpy(), placed["y"].to_numpy()], axis=1)
    low = places.min(axis=0)
    width = float((places.max(axis=0) - low).max()) or 1.0

    def scaled(points: np.ndarray) -> np.ndarray:
        return np.rint((points - low) / width * _MAP_STEPS).clip(0, _MAP_STEPS).astype(np.int32)

    x, y = scaled(places).T
    blocks = {"map": packed({"event": events, "x": x, "y": y})}
    neighbours = placed["neighbors"].combine_chunks()
    for start in range(0, len(neighbours), NEIGHBOURS_TOGETHER):
        ids, distances = neighbours.slice(start, NEIGHBOURS_TOGETHER).flatten()
        columns = {"event": events[ids.flatten().to_numpy()], "cosine": 1 - distances.flatten().to_numpy()}
        blocks[f"neighbours-{start // NEIGHBOURS_TOGETHER}"] = packed(
            {name: _with_values(ids, values) for name, values in columns.items()}
        )
    if "regions" in tables:
        regions = tables["regions"].sort_by([("size", "descending")])
        x, y = scaled(np.stack([regions["x"].to_numpy(), regions["y"].to_numpy()], axis=1)).T
        blocks["regions"] = packed({"name": regions["name"], "size": regions["size"], "x": x, "y": y})
    return blocks
