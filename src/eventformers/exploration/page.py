"""The page of an exploration: one file that shows all tables in a browser, without network.

Tables are in it as compressed bytes of their columns, which `page_data.js` reads.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from eventformers.datasets_scripts.events import (
    DOCUMENTS_TABLE,
    EVENTS_TABLE,
    FACTUALITIES,
    check_factuality,
    is_counted,
)
from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.datasets_scripts.reading.tables import read_parquet
from eventformers.errors import EventformersError
from eventformers.exploration import PAGE_FILE, REPORT_FILE
from eventformers.exploration.related import COMPLETIONS_JUDGED, NEXT_JUDGED
from eventformers.exploration.steps import Context, Step, StepRun
from eventformers.extraction.wide import JOINED_TABLES, WIDE_FILES, write_wide
from eventformers.files import write_explained, write_text
from eventformers.inference.report_pages import render_page
from eventformers.provenance import installed_version

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
    described = {name: _column(_array(values), body) for name, values in columns.items()}
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


def _array(values: pa.Array | pa.ChunkedArray | np.ndarray) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    return pa.array(values) if isinstance(values, np.ndarray) else values


def _column(values: pa.Array, body: bytearray) -> dict[str, Any]:
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


_HERE = Path(__file__).parent
_SCRIPTS = ("page_data.js", "page_state.js", "page_lists.js", "page_document.js", "page_map.js", "page.js")
# A browser unpacks the texts of a few documents at once, so that a page of 10,000 documents opens quickly.
_TEXTS_TOGETHER = 64
_NEIGHBOURS_TOGETHER = 8192
_TITLE_LENGTH = 80
_MAP_STEPS = 65_535
# Multiples of the golden angle keep the hues of neighbouring numbers far apart; more hues look alike.
_GOLDEN_ANGLE = 137.508
_HUES = 24
_TABLES = {
    "documents": "texts with title, date, source and licence",
    "events": "who did what to whom, with character offsets",
    "vectors": "a vector for each distinct event text",
    "chains": "events of one protagonist in a document",
    "types": "event types with words, frames and examples",
    "event_types": "the type of each event",
    "next_events": "events of the corpus related to each chain",
    "links": "links of events to the knowledge base",
    "completions": "what precedes and follows each event",
    "map": "places on the map and nearest neighbours",
    "regions": "named regions of the map",
}


def write_page(
    folder: str | Path, page: Path | None = None, factuality: Sequence[str] = FACTUALITIES
) -> Path:
    """Write the page from the tables of an exploration; what a step did not make is left out.

    The page needs no other file, except that its download links lead to the tables beside it.

    Args:
        folder: folder of the exploration, with at least `documents.parquet` and `events.parquet`.
        page: the file to write; None writes `index.html` in the folder.
        factuality: kinds of factuality of the events that the page lists and counts at first.

    Returns:
        Path to the page.

    Raises:
        EventformersError: the folder lacks one of these tables, the page cannot be written, or a kind of
            factuality is unknown.
    """
    folder = Path(folder)
    paths = {name: folder / f"{name}.parquet" for name in _TABLES if name != "vectors"}
    tables = {name: read_parquet(path) for name, path in paths.items() if path.exists()}
    missing = [f"{name}.parquet" for name in ("documents", "events") if name not in tables]
    if missing:
        raise EventformersError(
            f"{folder} has no {' and no '.join(missing)}; accepted: the output folder of explore"
        )
    tables = {
        name: table for name, table in tables.items() if table.num_rows or name in ("documents", "events")
    }
    # Tables of earlier versions lack these.
    for name, column in (("documents", "url"), *(("events", detail) for detail in _DETAILS)):
        if column not in tables[name].column_names:
            tables[name] = tables[name].append_column(column, pa.array([""] * tables[name].num_rows))
    kinds = check_factuality(factuality)
    report_file = folder / REPORT_FILE
    report = read_json_object(report_file, "the report of an exploration") if report_file.exists() else {}
    page = folder / PAGE_FILE if page is None else page
    with write_explained(page):
        write_text(page, _page(folder, tables, report, kinds))
    return page


def _page(
    folder: Path, tables: dict[str, pa.Table], report: dict[str, Any], factuality: Sequence[str]
) -> str:
    plotly = _plotly() if "map" in tables else ""
    notes = list(report.get("notes", []))
    if "map" in tables and not plotly:
        del tables["map"]
        notes.append('The page has no map, because plotly is missing: pip install "eventformers[explore]".')
    events = tables["events"]
    document = pc.index_in(events["document_id"], tables["documents"]["document_id"])
    events = events.append_column("document", document)
    # The page finds the events of a document by binary search.
    events = events.append_column("counted", is_counted(events["factuality"], factuality))
    tables["events"] = events = events.sort_by([("document", "ascending"), ("number", "ascending")])
    types = _types(tables)
    script = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    blocks = _blocks(tables, types)
    if plotly:
        blocks["plotly"] = _packed_script(plotly)
    return render_page(
        _HERE / "page.html.jinja",
        documents=tables["documents"].num_rows,
        events=pc.sum(events["counted"]).as_py() or 0,
        others=pc.sum(pc.invert(events["counted"])).as_py() or 0,
        factuality=factuality,
        chains=tables["chains"].num_rows if "chains" in tables else 0,
        types=types,
        dated=pc.any(pc.not_equal(tables["documents"]["date"], "")).as_py() or False,
        mapped="map" in tables,
        texts_together=_TEXTS_TOGETHER,
        neighbours_together=_NEIGHBOURS_TOGETHER,
        related=NEXT_JUDGED,
        completed=COMPLETIONS_JUDGED,
        notes=notes,
        settings={
            step: _shown(settings) for step, settings in report.get("settings", {}).items() if settings
        },
        seconds=report.get("seconds", {}),
        downloads=_downloads(folder),
        blocks=[{"name": name, "content": Markup(content)} for name, content in blocks.items()],  # noqa: S704
        style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own files
        # The content security policy allows only these scripts.
        script_sources=" ".join(
            f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
            for source in (script, plotly)
            if source
        ),
    )


@lru_cache(maxsize=1)
def _packed_script(source: str) -> str:
    """Pack a library, which is the same in every page of a process."""
    return compressed(source.encode())


def _plotly() -> str:
    """The source of plotly.js; "" if plotly is not installed."""
    if find_spec("plotly") is None:
        return ""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def _types(tables: dict[str, pa.Table]) -> list[dict[str, Any]]:
    if "types" not in tables:
        return []
    texts = dict(
        zip(tables["events"]["event_id"].to_pylist(), tables["events"]["text"].to_pylist(), strict=True)
    )
    numbers = {event_id: number for number, event_id in enumerate(texts)}
    rows = tables["types"].sort_by("type_id").to_pylist()
    largest = max(1, *(row["size"] for row in rows))
    return [
        row
        | {
            "hue": round(row["type_id"] % _HUES * _GOLDEN_ANGLE % 360),
            "share": round(100 * row["size"] / largest, 1),
            "examples": [
                {"event": numbers[event_id], "text": texts[event_id]}
                for event_id in row["examples"]
                if event_id in numbers
            ],
        }
        for row in rows
    ]


def _blocks(tables: dict[str, pa.Table], types: list[dict[str, Any]]) -> dict[str, str]:
    documents, events = tables["documents"], tables["events"]
    event_ids = events["event_id"]
    texts = documents["text"].to_pylist()
    blocks = {"documents": packed(_documents(documents, texts)), "events": packed(_events(tables))}
    for start in range(0, len(texts), _TEXTS_TOGETHER):
        blocks[f"texts-{start // _TEXTS_TOGETHER}"] = packed_texts(texts[start : start + _TEXTS_TOGETHER])
    if types:
        blocks["types"] = packed(
            {name: pa.array([row[name] for row in types]) for name in ("type_id", "name", "weak", "hue")}
        )
    if "chains" in tables:
        chains = tables["chains"]
        blocks["chains"] = packed(
            {"protagonist": chains["protagonist"], "events": _in_lists(chains["event_ids"], event_ids)}
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


def _documents(documents: pa.Table, texts: list[str]) -> dict[str, pa.ChunkedArray | pa.Array]:
    titles = [
        title or _first_words(text) or "(empty)"
        for title, text in zip(documents["title"].to_pylist(), texts, strict=True)
    ]
    names = ("date", "source", "license", "url")
    return {"title": pa.array(titles)} | {name: documents[name] for name in names}


def _first_words(text: str) -> str:
    line = text.strip().partition("\n")[0]
    words = shorten(line, _TITLE_LENGTH, placeholder=" …")
    # Some languages have no blanks between words.
    return line[:_TITLE_LENGTH] if words == "…" else words


_DETAILS = ("factuality", "subject_span", "object_span", "time_text", "time_start", "place_text", "country")
_EVENT_COLUMNS = ("subject", "predicate", "object", "lemma", "negated", "passive", "counted", *_DETAILS)


def _events(tables: dict[str, pa.Table]) -> dict[str, Any]:
    events = tables["events"]
    start, end = events["sentence_start"], events["sentence_end"]
    columns: dict[str, Any] = {
        "document": events["document"],
        "sentence_start": start,
        "sentence_length": pc.subtract(end, start),
        "trigger_offset": pc.subtract(events["trigger_start"], start),
        "trigger_length": pc.subtract(events["trigger_end"], events["trigger_start"]),
    }
    columns |= {name: events[name] for name in _EVENT_COLUMNS}
    if "event_types" in tables and "types" in tables:
        typed = tables["event_types"]
        rows = pc.index_in(events["event_id"], typed["event_id"])
        columns["type"] = pc.fill_null(typed["type_id"].take(rows), -1)
    if "completions" in tables:
        columns["text_number"] = pc.index_in(events["text"], pc.unique(events["text"]))
    return columns


def _by(table: pa.Table, name: str, key: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Add the position of each row's key among the values, and sort by it and by rank.

    Rows with other keys are left out.
    """
    found = table.append_column(name, pc.index_in(table[key], values))
    found = found.filter(pc.is_valid(found[name]))
    return found.sort_by([(name, "ascending"), ("rank", "ascending")])


def _in_lists(lists: pa.ChunkedArray, event_ids: pa.ChunkedArray) -> pa.Array:
    """Replace event ids in lists by event numbers."""
    together = lists.combine_chunks()
    numbers = pc.fill_null(pc.index_in(together.flatten(), event_ids), -1)
    starts = np.concatenate([[0], np.cumsum(pc.list_value_length(together).to_numpy())])
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), numbers)


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
    blocks |= _neighbour_blocks(placed["neighbors"].combine_chunks(), events)
    if "regions" in tables:
        regions = tables["regions"].sort_by([("size", "descending")])
        x, y = scaled(np.stack([regions["x"].to_numpy(), regions["y"].to_numpy()], axis=1)).T
        blocks["regions"] = packed({"name": regions["name"], "size": regions["size"], "x": x, "y": y})
    return blocks


def _neighbour_blocks(neighbours: pa.StructArray, events: np.ndarray) -> dict[str, str]:
    """Pack the neighbours of each place on the map, in its order, as event numbers with cosines."""
    blocks = {}
    for start in range(0, len(neighbours), _NEIGHBOURS_TOGETHER):
        ids, distances = neighbours.slice(start, _NEIGHBOURS_TOGETHER).flatten()
        starts = pa.array(np.concatenate([[0], np.cumsum(pc.list_value_length(ids).to_numpy())]), pa.int32())
        columns = {"event": events[ids.flatten().to_numpy()], "cosine": 1 - distances.flatten().to_numpy()}
        blocks[f"neighbours-{start // _NEIGHBOURS_TOGETHER}"] = packed(
            {name: pa.ListArray.from_arrays(starts, pa.array(values)) for name, values in columns.items()}
        )
    return blocks


def _downloads(folder: Path) -> list[dict[str, str]]:
    wide = dict.fromkeys(WIDE_FILES.values(), "a row an event, with all that is known of it")
    files = {f"{name}.parquet": holds for name, holds in _TABLES.items()} | wide
    return [
        {"file": name, "holds": holds, "size": _size((folder / name).stat().st_size)}
        for name, holds in files.items()
        if (folder / name).exists()
    ]


def _shown(value: object) -> str:
    """A setting as a text; settings of None are left out."""
    if isinstance(value, dict):
        named = ((name.replace("_", " "), _shown(each)) for name, each in value.items() if each is not None)
        return "; ".join(f"{name}: {each}" for name, each in named)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(_shown, value)) if isinstance(value, list) else str(value)


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _wide_table(name: str) -> Step:
    """The step that writes a wide table of events, if its format is chosen."""

    def settings(context: Context) -> dict[str, str] | None:
        chosen = context.settings.file_format
        return {"format": chosen} if chosen and WIDE_FILES[chosen] == name else None

    def run(step: StepRun) -> None:
        write_wide(step.folder, step.context.settings.file_format or "", step.path(name))

    return Step(
        f"wide_{Path(name).suffix[1:]}",
        run,
        reads=(DOCUMENTS_TABLE, EVENTS_TABLE),
        may_read=JOINED_TABLES,
        writes=(name,),
        settings=settings,
    )


WIDE_TABLES = tuple(map(_wide_table, dict.fromkeys(WIDE_FILES.values())))
"""The steps that write a wide table, one for each file."""

PAGE = Step(
    "page",
    lambda run: write_page(run.folder, run.path(PAGE_FILE), run.context.settings.factuality),
    reads=(DOCUMENTS_TABLE, EVENTS_TABLE),
    may_read=(*(f"{name}.parquet" for name in _TABLES), *dict.fromkeys(WIDE_FILES.values()), REPORT_FILE),
    writes=(PAGE_FILE,),
    settings=lambda context: {
        "plotly": installed_version("plotly") or "",
        "factuality": list(context.settings.factuality),
    },
)
