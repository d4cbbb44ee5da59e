"""Raw files of event hierarchies: their kinds by names and first lines, and the columns of tables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from eventformers.datasets_scripts.document_splits import SPLIT_WORDS
from eventformers.datasets_scripts.licenses import SOURCE_LICENSES, license_of_source
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.lines import (
    files_inside,
    is_json_lines,
    parse_json,
    read_lines,
    unpacked_name,
)
from eventformers.datasets_scripts.reading.tables import columns_of, first_record, is_table
from eventformers.errors import DataFormatError, EventformersError

MENTION_COLUMNS = columns_of("linked_mentions")
EVENT_COLUMNS = columns_of("events_of_hierarchies")
HIERARCHY_COLUMNS = columns_of("hierarchies")
EDGE_COLUMNS = columns_of("edges")
HIERARCHY_FIELDS = ("part_of", "has_part", "follows", "followed_by", "P361", "P527", "P155", "P156")

EDGE_HEADERS = (
    ("child_id", "relation", "parent_id"),
    ("child_id", "parent_id"),
    ("event_id", "next_event_id"),
    ("head_qid", "property", "tail_qid"),
)
"""Required columns of a file of edges; the first set that fits is read."""

Kind = Literal[
    "mentions",
    "mention_table",
    "dictionary",
    "description_table",
    "descriptions",
    "hierarchy",
    "edges",
    "properties",
    "entities",
]
"""Content of a raw file; `hierarchy_readers` describes the formats."""

MENTION_KINDS: tuple[Kind, ...] = ("mentions", "mention_table")
TEXT_KINDS: tuple[tuple[Kind, ...], ...] = (
    ("dictionary", "description_table"),
    ("descriptions",),
    ("entities",),
)
"""Kinds of files that have titles and descriptions of events, in order of preference."""
EDGE_KINDS: tuple[Kind, ...] = ("hierarchy", "edges", "properties", "entities")


_PUBLISHED_FILE = re.compile(
    r"(?:wikipedia|wikipedia-zero-shot|wikinews-zero-shot|wikinews-cross-domain)\.(?:train|dev|test)\.jsonl.*"
)
"""XLEL-WD's files of mentions on the Hub."""
_PUBLISHED_FOLDER = re.compile(r"(?:wikipedia|wikinews)-(?:zero-shot|cross-domain)-(?:multi|cross)lingual")
"""The folders that XLEL-WD's download script makes."""
_LINES_TRIED = 20
"""Number of lines of a file to try for its kind, since the first ones may be malformed."""


class HierarchyFile(NamedTuple):
    """A raw file and the facts in its name.

    Args:
        kind: its content.
        split: the split in its name, or test for a Wikinews file without one; else None.
        domain: `wikinews` if its name or that of its folder says so, else `wikipedia`.
        wikinews: the kind of events in a file of Wikinews; None for Wikipedia.
        task: the task of its folder; None if it serves both.
    """

    path: Path
    kind: Kind
    split: str | None
    domain: str
    wikinews: str | None
    task: str | None


def hierarchy_files(paths: Iterable[Path]) -> list[HierarchyFile]:
    """Find the files directly in the folders, in their subfolders of known corpora, and those given directly,
    without repeats.

    Unknown files in a folder are ignored; an unknown file that is given directly is read as mentions, so that
    its faults are reported.
    """
    found: dict[Path, HierarchyFile] = {}
    for path in paths:
        for item in files_inside(
            path, lambda name: _PUBLISHED_FOLDER.fullmatch(name) or name in SOURCE_LICENSES
        ):
            kind = file_kind(item)
            if kind is None and item == path:
                kind = "mentions"
            if kind is not None:
                words = _words(unpacked_name(item))
                splits = list(dict.fromkeys(SPLIT_WORDS[word] for word in words if word in SPLIT_WORDS))
                published = _PUBLISHED_FOLDER.fullmatch(item.parent.name)
                name = f"{item.parent.name} {item.name}" if published else item.name
                is_wikinews = "wikinews" in name or item.name.startswith("wn_")
                found.setdefault(
                    item,
                    (
                        HierarchyFile(
                            path=item,
                            kind=kind,
                            split=splits[0] if len(splits) == 1 else "test" if is_wikinews else None,
                            domain="wikinews" if is_wikinews else "wikipedia",
                            wikinews=("cross-domain" if "cross-domain" in name else "zero-shot")
                            if is_wikinews
                            else None,
                            task=item.parent.name.rsplit("-", 1)[1] if published else None,
                        )
                    ),
                )
    return list(found.values())


def file_kind(path: Path) -> Kind | None:
    """Determine the kind of a file from its first readable line, else from its name; None if both fail."""
    if is_table(path):
        columns = first_record(path) or {}
        if "Context" in columns:
            return "mention_table"
        if "Wikipedia Description" in columns:
            return "description_table"
        return _record_kind(columns) or ("edges" if "edges" in _words(path.name) else None)
    if not is_json_lines(path):
        return None
    try:
        lines = (text for _, text in read_lines(path, SkippedRows("skip")) if text.strip(" \t,[]"))
        for text in islice(lines, _LINES_TRIED):
            with suppress(DataFormatError):
                record = parse_json(text.strip(" \t,["), path, None, "", whole_characters=False)
                if isinstance(record, dict) and (kind := _record_kind(record)):
                    return kind
    except EventformersError:
        # The reader of the file reports its faults, for the kind that its name means.
        pass
    words = {*_words(unpacked_name(path))}
    if words & {"dict", "dictionary"}:
        return "dictionary"
    if "hierarchy" in words:
        return "hierarchy"
    return "mentions" if words & SPLIT_WORDS.keys() else None


def origin_of(file: HierarchyFile) -> tuple[str, str]:
    """Source and licence of the rows of a file.

    XLEL-WD's files are identified by their names, the names of their folders or the files beside them. Files
    in Wikidata's or Wikipedia's formats are attributed to these; any other file is named after its folder.
    """
    folder = file.path.parent
    if file.kind in ("entities", "properties", "descriptions"):
        source = "wikidata"
    elif (
        _PUBLISHED_FOLDER.fullmatch(folder.name)
        or "xlel" in folder.name.lower()
        or any(_PUBLISHED_FILE.fullmatch(item.name) for item in folder.iterdir())
    ):
        source = "xlel_wd"
    elif file.kind in ("mention_table", "description_table"):
        source = file.domain
    else:
        source = folder.name
    return source, license_of_source(source)


def _words(name: str) -> list[str]:
    return re.split(r"[._\-]+", name.lower())


def _record_kind(record: dict[str, object]) -> Kind | None:
    """Determine the kind of file that a line of JSON belongs to."""
    fields = record.keys()
    if "claims" in fields and "id" in fields:
        return "entities"
    if {"qid", "pid", "datavalue"} <= fields:
        return "properties"
    if {"qid", "lang", "label"} <= fields:
        return "descriptions"
    if "mention" in fields:
        return "mentions"
    if any(set(header) <= fields for header in EDGE_HEADERS):
        return "edges"
    if not fields & {"label_id", "event_id"}:
        return None
    if fields & {"label_lang", "language"}:
        return "dictionary"
    return "hierarchy" if fields & set(HIERARCHY_FIELDS) else None
