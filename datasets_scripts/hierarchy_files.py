"""Which raw files of event hierarchies are what, by their names and their first lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from eventformers.datasets_scripts.document_splits import SPLITS
from eventformers.datasets_scripts.licenses import license_of_source
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.raw_files import is_json_lines, parse_json, read_lines
from eventformers.errors import DataFormatError, EventformersError

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
"""What a raw file holds; `hierarchy_readers` and `wikidata_reader` say how it looks."""

MENTION_KINDS: tuple[Kind, ...] = ("mentions", "mention_table")
TEXT_KINDS: tuple[Kind, ...] = ("dictionary", "description_table")
"""What has titles and descriptions of events for certain."""
WIKIDATA_TEXT_KINDS: tuple[Kind, ...] = ("descriptions", "entities")
"""What has labels and descriptions of Wikidata, which serve where nothing of `TEXT_KINDS` is there."""
EDGE_KINDS: tuple[Kind, ...] = ("hierarchy", "edges", "properties", "entities")

DOMAINS = ("wikipedia", "wikinews")
TASKS = ("multilingual", "crosslingual")
WIKINEWS_CONFIGS = ("zero-shot", "cross-domain")

_SPLIT_WORDS = {"train": "train", "dev": "validation", "valid": "validation", "val": "validation"}
_SPLIT_WORDS |= {split: split for split in SPLITS}
_PUBLISHED_FILE = re.compile(
    r"(?:wikipedia|wikipedia-zero-shot|wikinews-zero-shot|wikinews-cross-domain)\.(?:train|dev|test)\.jsonl.*"
)
"""XLEL-WD's files of mentions on the Hub."""
_PUBLISHED_FOLDER = re.compile(r"(?:wikipedia|wikinews)-(?:zero-shot|cross-domain)-(?:multi|cross)lingual")
"""The folders that XLEL-WD's own download makes."""
_COMPRESSED = (".gz", ".bz2")
_LINES_TRIED = 20
"""How many lines of a file are tried for what it holds: the first ones may be malformed."""

HIERARCHY_FIELDS = ("part_of", "has_part", "follows", "followed_by", "P361", "P527", "P155", "P156")
EDGE_HEADERS = (
    ("child_id", "relation", "parent_id"),
    ("child_id", "parent_id"),
    ("event_id", "next_event_id"),
    ("head_qid", "property", "tail_qid"),
)
"""The columns that a file of edges has, among others; those of the first that fits are read."""


class HierarchyFile(NamedTuple):
    """A raw file and what its name tells.

    Args:
        path: where it lies.
        kind: what it holds.
        split: the split that its name tells, and test for Wikinews where it tells none; else None.
        domain: `wikinews` where its name or that of its folder says so, else `wikipedia`.
        wikinews: which events a file of Wikinews is about; None for Wikipedia.
        task: the task that its folder is made for; None where it serves both.
    """

    path: Path
    kind: Kind
    split: str | None
    domain: str
    wikinews: str | None
    task: str | None


def hierarchy_files(paths: Iterable[Path]) -> list[HierarchyFile]:
    """The files straight in the folders, in folders in them that XLEL-WD's own download makes, and those
    given by themselves, without repeats.

    Of a folder what cannot be told is passed over; a file given by itself is taken for mentions then, so
    that its faults are told.
    """
    found: dict[Path, HierarchyFile] = {}
    for path in paths:
        for item in _inside(path):
            kind = file_kind(item)
            if kind is None and item == path:
                kind = "mentions"
            if kind is not None:
                found.setdefault(item, _described(item, kind))
    return list(found.values())


def file_kind(path: Path) -> Kind | None:
    """What a file holds by its first line that can be read, else by its name; None where neither tells."""
    name = _plain_name(path)
    lines = _first_lines(path)
    first = next(iter(lines), "")
    if name.endswith(".csv"):
        columns = [column.strip(' "') for column in first.split(",")]
        has_edges = any(set(header) <= set(columns) for header in EDGE_HEADERS)
        return "edges" if has_edges or "edges" in _words(name) else None
    if name.endswith(".tsv"):
        columns = first.split("\t")
        if "Context" in columns:
            return "mention_table"
        return "description_table" if "Wikipedia Description" in columns else None
    if not is_json_lines(path.with_name(name)):
        return None
    return next(filter(None, map(_kind_of_json, lines)), None) or _named_kind(path)


def origin_of(file: HierarchyFile) -> tuple[str, str]:
    """The source of the rows of a file and its licence.

    Files are XLEL-WD's by their names, by those of their folders or by what lies beside them. What is
    Wikidata's or Wikipedia's by its format is theirs, and what lies elsewhere goes by the name of its folder.
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


def _inside(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    inside = sorted(path.iterdir())
    yield from (item for item in inside if item.is_file())
    for folder in inside:
        if folder.is_dir() and _PUBLISHED_FOLDER.fullmatch(folder.name):
            yield from sorted(item for item in folder.iterdir() if item.is_file())


def _plain_name(path: Path) -> str:
    return path.name.removesuffix(path.suffix) if path.suffix in _COMPRESSED else path.name


def _words(name: str) -> list[str]:
    return re.split(r"[._\-]+", name.lower())


def _first_lines(path: Path) -> list[str]:
    """The first lines but for blank ones and brackets; those before a fault of the file."""
    lines: list[str] = []
    try:
        told = (text for _, text in read_lines(path, SkippedRows("skip")) if text.strip(" \t,[]"))
        lines.extend(islice(told, _LINES_TRIED))
    except EventformersError:
        pass
    return lines


def _kind_of_json(text: str) -> Kind | None:
    try:
        record = parse_json(text.strip(" \t,["), Path(), None, "", whole_characters=False)
    except DataFormatError:
        return None
    return _record_kind(record) if isinstance(record, dict) else None


def _record_kind(record: dict[str, object]) -> Kind | None:
    """What a line of JSON belongs to."""
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


def _named_kind(path: Path) -> Kind | None:
    """What a file of JSON lines is meant for by its name, so that what is wrong with it is told."""
    words = _words(_plain_name(path))
    if "dict" in words or "dictionary" in words:
        return "dictionary"
    if "hierarchy" in words:
        return "hierarchy"
    return "mentions" if _SPLIT_WORDS.keys() & set(words) else None


def _described(path: Path, kind: Kind) -> HierarchyFile:
    words = _words(_plain_name(path))
    splits = list(dict.fromkeys(_SPLIT_WORDS[word] for word in words if word in _SPLIT_WORDS))
    published = _PUBLISHED_FOLDER.fullmatch(path.parent.name)
    name = f"{path.parent.name} {path.name}" if published else path.name
    is_wikinews = "wikinews" in name or path.name.startswith("wn_")
    return HierarchyFile(
        path=path,
        kind=kind,
        split=splits[0] if len(splits) == 1 else "test" if is_wikinews else None,
        domain="wikinews" if is_wikinews else "wikipedia",
        wikinews=("cross-domain" if "cross-domain" in name else "zero-shot") if is_wikinews else None,
        task=path.parent.name.rsplit("-", 1)[1] if published else None,
    )
