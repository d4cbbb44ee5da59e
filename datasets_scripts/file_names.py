"""What the name of a raw file says: its format, its compression, and the name without both."""

from __future__ import annotations

from pathlib import Path

JSON_LINES = (".jsonl", ".json", ".ndjson")
TABLES = (".csv", ".tsv", ".parquet")
PLAIN_TEXTS = (".txt", ".text")
SGML = (".sgml", ".sgm", ".xml")
COMPRESSED = (".gz", ".bz2")

_FORMATS = frozenset((*JSON_LINES, *TABLES, *PLAIN_TEXTS, *SGML))


def unpacked_name(path: Path) -> str:
    """Return the name of a file without `.gz` or `.bz2`."""
    return path.stem if path.suffix.lower() in COMPRESSED else path.name


def format_suffix(path: Path) -> str:
    """Return the suffix that names the format, in lower case: `.csv` for `Events.CSV.gz`; "" if there is
    none."""
    return Path(unpacked_name(path)).suffix.lower()


def file_stem(path: Path) -> str:
    """Return the name of a file without its compression and its format: `news.2020` for `news.2020.jsonl.gz`
    and for `news.2020`."""
    name = unpacked_name(path)
    return Path(name).stem if format_suffix(path) in _FORMATS else name


def is_json_lines(path: Path) -> bool:
    """True if the name of a file marks it as JSON lines."""
    return format_suffix(path) in JSON_LINES
