"""Readers of raw text: plain text with one document a file, JSON lines, CSV and Parquet, newswire in SGML."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from functools import lru_cache
from hashlib import blake2b
from io import StringIO
from pathlib import Path
from typing import Any

from eventformers.datasets_scripts.document_splits import DistinctIds
from eventformers.datasets_scripts.events import EVENTS_TABLE
from eventformers.datasets_scripts.licenses import license_of_source
from eventformers.datasets_scripts.malformed import HeldFaults, SkippedRows
from eventformers.datasets_scripts.reading.fields import check_keys
from eventformers.datasets_scripts.reading.lines import (
    COMPRESSED,
    JSON_LINES,
    MAX_LINE_BYTES_VARIABLE,
    PLAIN_TEXTS,
    SGML,
    TABLES,
    DataDir,
    file_stem,
    format_suffix,
    max_line_bytes,
    raw_paths,
    read_json_values,
    read_lines,
    unpacked_name,
)
from eventformers.datasets_scripts.reading.tables import csv_file_rows, parquet_file_rows
from eventformers.errors import DataFormatError, EventformersError, lookalike, shown
from eventformers.extraction.sgml import read_sgml
from eventformers.files import walk_with_links

_USUAL = {
    "text": ("text",),
    "id": ("id", "document_id"),
    "title": ("title",),
    "date": ("date",),
    "source": ("source",),
    "license": ("license", "licence"),
    "url": ("url",),
}
"""The columns of each part of a text. If a row has two of them, they must be equal."""

_UNUSED = (
    *("added", "created", "dump", "file_path", "language", "language_score", "media", "metadata"),
    *("timestamp", "token_count", "version"),
)
"""Further columns in published web corpora and in datatrove's output."""

_KNOWN = frozenset(_UNUSED).union(*_USUAL.values())

ACCEPTED_DATE = "a date in ISO 8601, such as 2024-05-31, 2024-05, 2024 or 2024-05-31T14:30:00+02:00"
_YEAR_OR_MONTH = re.compile(r"[0-9]{4}(-(0[1-9]|1[0-2]))?")


@dataclass(frozen=True)
class TextColumns:
    """Columns of texts in tables, or keys in JSON lines.

    A named column must exist. None takes the usual one: `text`, which must exist; `id` or `document_id`,
    `title` and `date`, if they exist. `source`, `license` or `licence`, and `url` are always read if they
    exist. Values of a title, date, source, licence or address that are of another type count as unknown,
    unless their column is named. Case does not matter if only one column matches.

    Args:
        text: column of the text.
        id: column of the id.
        title: column of the title.
        date: column of the date. Its values must be dates in ISO 8601.
        others: True ignores other columns. False accepts only those of published web corpora; it has no
            effect if a column is named.
    """

    text: str | None = None
    id: str | None = None
    title: str | None = None
    date: str | None = None
    others: bool = False

    def named(self) -> dict[str, str]:
        """The columns that are named, by part.

        Raises:
            EventformersError: a name is empty, or two parts have the same column.
        """
        parts = {"text": self.text, "id": self.id, "title": self.title, "date": self.date}
        named = {part: name for part, name in parts.items() if name is not None}
        for part, name in named.items():
            if not name or list(named.values()).count(name) > 1:
                found = "an empty name" if not name else f"{shown(name)} for two columns"
                raise EventformersError(
                    f"--{part}-column: found {found}; accepted: the name of a column of its own"
                )
        return named

    def of_header(self, names: Sequence[str], path: Path) -> set[str]:
        """Check the columns of a table, and return those to read.

        Raises:
            DataFormatError: a column is absent, unknown, or occurs twice.
        """
        for name in names:
            if names.count(name) > 1:
                raise DataFormatError(path, 1, f"the column {shown(name)} twice", "each column once")
        return {name for part in self.of_names(names, path, 1).values() for name in part}

    def of_names(
        self, names: Sequence[str], path: Path, line: int | None, what: str = "column"
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the columns of each part that a row with these names has.

        Args:
            names: the columns of the row.
            path: the file, for errors.
            line: the line, for errors.
            what: name of a column, for errors.

        Raises:
            DataFormatError: a named column, or the text, is absent; or there is an unknown column.
        """
        named = self.named()
        if not named and not self.others:
            check_keys(dict.fromkeys(names), _KNOWN, path, line, what=what)
        found = _columns(self, tuple(names))
        for part in ("text", *named):
            if not found[part]:
                wanted = named.get(part, part)
                raise DataFormatError(
                    path,
                    line,
                    f"the {what}s {shown(', '.join(names))[1:-1] or 'none'}",
                    f"a {what} {wanted}; --{part}-column names another one",
                )
        return found


USUAL_COLUMNS = TextColumns()
"""The usual columns, without others."""


@lru_cache(maxsize=1024)
def _columns(columns: TextColumns, names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    named = columns.named()
    found = {}
    for part, usual in _USUAL.items():
        wanted = (named[part],) if part in named else usual
        exact = tuple(name for name in wanted if name in names)
        near = () if exact else tuple(name for name in names if lookalike(name, wanted))
        found[part] = exact or (near if len(near) == 1 else ())
    return found


def part_of(record: Mapping[str, Any], names: Sequence[str], path: Path, line: int | None) -> object:
    """Return the value of a part of a text; None if it is absent.

    Raises:
        DataFormatError: the row has two different values for it.
    """
    given = [record[name] for name in names if record.get(name) is not None]
    if any(value != given[0] for value in given):
        found = " and ".join(f'"{name}"' for name in names)
        raise DataFormatError(path, line, f"{found} that differ", "one of them")
    return given[0] if given else None


def iso_date(value: object, path: Path, line: int | None) -> str:
    """Return a date in ISO 8601, without a time if it is midnight of an unknown zone; "" if unknown.

    Args:
        value: a text in ISO 8601, a whole number such as 2024 or 20240531, a date, a time stamp, or None. A
            year, or a month of a year, is a date, too.

    Raises:
        DataFormatError: the value is not a date.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and _YEAR_OR_MONTH.fullmatch(value.strip()):
        return value.strip()
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        elif isinstance(value, date) and not isinstance(value, datetime):
            return value.isoformat()
        if isinstance(value, datetime):
            if value.timetz() == time():
                return value.date().isoformat()
            return value.isoformat()
    except ValueError:
        pass
    raise DataFormatError(path, line, f"the date {shown(value)}", ACCEPTED_DATE)


ACCEPTED_LINE = 'one JSON object a line with "text", and optionally "id", "source" and "license"'
ACCEPTED_ROW = "a text, or a row with a column text"
ACCEPTED_FILES = (
    ".txt, .jsonl, .csv, .tsv or SGML files, plain, .gz or .bz2, .parquet files, and folders of them"
)

_KINDS = {
    **dict.fromkeys(SGML, "sgml"),
    **dict.fromkeys(PLAIN_TEXTS, "plain"),
    **dict.fromkeys(JSON_LINES, "json"),
    **{suffix: suffix[1:] for suffix in TABLES},
}
"""The kind of a file by the ending of its name, in lower case and without compression."""
_BINARY_STARTS = {
    b"%PDF-": "a PDF file",
    b"PK\x03\x04": "a ZIP archive or an Office file",
    b"\xd0\xcf\x11\xe0": "an Office file",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
_ACCEPTED_PLAIN = "plain text in UTF-8; convert the file first"
_SHOWN_ENDINGS = 5


@dataclass(frozen=True)
class TextDocument:
    """A text to extract events from.

    Args:
        document_id: its id, distinct among all texts that are read together.
        source: its corpus.
        license: its terms of use.
        title: its title; "" if unknown.
        date: its date in ISO 8601; "" if unknown.
        url: its address; "" if unknown.
    """

    document_id: str
    text: str
    source: str
    license: str
    title: str = ""
    date: str = ""
    url: str = ""


@dataclass(frozen=True)
class TextFile:
    """A file to read.

    Args:
        name: its relative name without suffixes: the id of a plain text.
        source: the name of the given folder or file: the source of a text without one.
    """

    path: Path
    name: str
    source: str


@dataclass(frozen=True)
class TextRows:
    """Texts in memory: rows of a frame, a table or a dataset, or strings.

    Args:
        rows: the rows, each a mapping or a string.
        name: prefix of the id of a row without one.
        source: the source of a row without one.
    """

    rows: Iterable[object]
    name: str
    source: str


def find_text_files(
    texts: DataDir, skipped: SkippedRows, marks: Collection[str] = (EVENTS_TABLE,)
) -> list[TextFile]:
    """Find the files under paths, in the given order; files in a folder, and in its subfolders, are sorted by
    name.

    A file that is given directly is read whatever its suffix. In folders, files with an unknown suffix, and
    subfolders of results, are skipped and counted; hidden files are ignored. Links to folders are followed.

    Args:
        skipped: counts of skipped files and folders, added to.
        marks: files and folders of which a folder of results has one.

    Raises:
        EventformersError: a path does not exist, a folder cannot be read, or there is no file to read.
    """
    found: dict[Path, TextFile] = {}
    others: Counter[str] = Counter()
    for given in raw_paths(texts):
        if not given.is_dir():
            found.setdefault(given, TextFile(given, file_stem(given), file_stem(given)))
            continue
        below: list[Path] = []
        for place, folders, names in walk_with_links(given):
            if place != given and any((place / mark).exists() for mark in marks):
                skipped["folder_of_extracted_events"] += 1
                folders.clear()
                continue
            folders[:] = [name for name in folders if not name.startswith(".")]
            below += [path for name in names if not name.startswith(".") and (path := place / name).is_file()]
        for path in sorted(below):
            # Newswire is published in files such as nyt_eng_199407.gz.
            is_newswire = path.suffix.lower() in COMPRESSED and "." not in unpacked_name(path)
            if not is_newswire and format_suffix(path) not in _KINDS:
                skipped["file_with_unknown_ending"] += 1
                others[path.suffix.lower() or "no ending"] += 1
                continue
            name = (path.relative_to(given).parent / file_stem(path)).as_posix()
            found.setdefault(path, TextFile(path, name, given.name))
    if not found:
        listed = ", ".join(f"{count} with {ending}" for ending, count in others.most_common(_SHOWN_ENDINGS))
        there = f" ({'files: ' + listed if listed else 'no files'})"
        named = ", ".join(map(str, raw_paths(texts)))
        raise EventformersError(f"no text in {named}{there}; accepted: {ACCEPTED_FILES}")
    return list(found.values())


def read_texts(
    sources: Sequence[TextFile | TextRows],
    read: Counter[str],
    skipped: SkippedRows,
    document_types: Sequence[str] = ("story",),
    source: str | None = None,
    license_name: str | None = None,
    columns: TextColumns = USUAL_COLUMNS,
    longest: int | None = None,
) -> Iterator[TextDocument]:
    """Read documents, in order, each with a distinct id.

    A second document with the id and the text of an earlier one is skipped; one with the id of an earlier one
    and another text gets a number after its id. Both are counted, like empty files and documents without
    text. Half of a surrogate pair becomes "?", and its document is counted in `read`.

    Args:
        sources: output of `find_text_files`, or texts in memory.
        read: counts of what is read; added to.
        skipped: counts of skipped items, by reason, added to, and policy for malformed documents.
        document_types: types of SGML documents to read, in lower case; documents without a type are read,
            too. Empty reads all.
        source: source of texts without one, instead of the name of their file or folder.
        license_name: licence of texts without one, instead of the known licence of their source.
        columns: columns of tables and keys of JSON lines.
        longest: maximum number of characters of a document; a longer one becomes several, split at ends of
            paragraphs. None splits none.

    Raises:
        DataFormatError: a file or row cannot be read.
    """
    named = [f"--{part}-column {name}" for part, name in columns.named().items()]
    if named and all(isinstance(one, TextFile) and _kind(one.path) in ("plain", "sgml") for one in sources):
        # A generator's caller is the code that iterates, such as tqdm, whose warnings commands do not show.
        warnings.warn(f"{', '.join(named)}: not used, as no file is a table or JSON lines", stacklevel=1)
    identifiers = DistinctIdentifiers()
    for place in sources:
        if isinstance(place, TextFile):
            read["files"] += 1
            if _is_empty(place.path):
                skipped["empty_file"] += 1
                continue
        documents = _documents(place, read, skipped, document_types, columns)
        for whole in _up_to_fault(documents, skipped):
            read["documents"] += 1
            if not whole.text.strip():
                skipped["document_without_text"] += 1
                continue
            parts = [whole] if longest is None else split_document(whole, longest)
            if len(parts) > 1:
                read["document_split_into_parts"] += 1
            for document in parts:
                identifier = identifiers.of(document)
                if identifier is None:
                    skipped["repeated_document"] += 1
                    continue
                if identifier != document.document_id:
                    read["document_with_id_of_another"] += 1
                known = document.source or source or place.source
                stated = document.license or license_name
                origin = {"source": known, "license": license_of_source(known, stated)}
                yield replace(document, document_id=identifier, **origin)


def split_document(document: TextDocument, longest: int) -> list[TextDocument]:
    """Split a document that is too long, at the last end of a paragraph that fits.

    Without one, the split is at the last end of a line, of a sentence or of a word, in this order.

    Args:
        longest: maximum number of characters of a part.

    Returns:
        The document alone if it is short enough; otherwise its parts, with `/1`, `/2` and so on after its id,
        and their number after its title.
    """
    if len(document.text) <= longest:
        return [document]
    texts, start = [], 0
    while start < len(document.text):
        end = start + longest
        if end < len(document.text):
            places = (document.text.rfind(mark, start + 1, end) for mark in ("\n\n", "\n", ". ", " "))
            end = next((place + 1 for place in places if place > 0), end)
        if part := document.text[start:end].strip():
            texts.append(part)
        start = end
    return [
        replace(
            document,
            document_id=f"{document.document_id}/{number}",
            text=text,
            title=document.title and f"{document.title} ({number} of {len(texts)})",
        )
        for number, text in enumerate(texts, start=1)
    ]


class DistinctIdentifiers:
    """Assigns distinct ids to texts, without storing the texts."""

    def __init__(self) -> None:
        self._texts: set[bytes] = set()
        self._ids = DistinctIds("~")

    def of(self, document: TextDocument) -> str | None:
        """The id of a document; None if an earlier document has the same id and text."""
        identifier = document.document_id
        digest = blake2b(f"{identifier}\0{document.text}".encode(), digest_size=12).digest()
        if digest in self._texts:
            return None
        self._texts.add(digest)
        return self._ids.of(identifier)


def _up_to_fault(documents: Iterator[TextDocument], skipped: SkippedRows) -> Iterator[TextDocument]:
    """Yield documents, up to a fault of the file as a whole."""
    try:
        yield from documents
    except DataFormatError as error:
        skipped.leave_out(error, "file")


def _documents(
    place: TextFile | TextRows,
    read: Counter[str],
    skipped: SkippedRows,
    document_types: Sequence[str],
    columns: TextColumns,
) -> Iterator[TextDocument]:
    """Read documents without normalisation; source and licence are "" if the text states none."""
    reader = _RowReader(columns, read)
    if isinstance(place, TextRows):
        yield from skipped.parsed(enumerate(place.rows, start=1), lambda row: reader.of_memory(place, *row))
        return
    path, kind = place.path, _kind(place.path)
    if kind == "plain":
        yield from _plain_document(place, skipped)
    elif kind == "sgml":
        for document in read_sgml(path, skipped):
            if document_types and document.kind and document.kind not in document_types:
                skipped[f"document_of_type_{document.kind}"] += 1
                continue
            identifier = document.document_id or f"{place.name}/{document.line}"
            yield TextDocument(identifier, document.text, "", "")
    else:
        rows: Iterator[tuple[int, Any]]
        if kind == "json":
            rows = read_json_values(path, skipped, ACCEPTED_LINE, whole_characters=False)
        elif kind == "parquet":
            rows = parquet_file_rows(path, columns.of_header, row="text", skipped=skipped)
        else:
            rows = csv_file_rows(path, skipped, columns.of_header, row="text", longest_field=max_line_bytes())
        yield from skipped.parsed(rows, lambda row: reader.of_file(place, *row), "document")


def _plain_document(file: TextFile, skipped: SkippedRows) -> Iterator[TextDocument]:
    """Read a file as one document; one that is not plain text is malformed."""
    held, longest = HeldFaults(), max_line_bytes()
    # A list of lines would take many times the memory of the text.
    text, fault = StringIO(), None
    with open(file.path, "rb") as stream:
        start = stream.read(8)
    binary = next((name for mark, name in _BINARY_STARTS.items() if start.startswith(mark)), None)
    if binary is not None:
        fault = DataFormatError(file.path, None, binary, _ACCEPTED_PLAIN)
    else:
        for number, line in read_lines(file.path, held):
            if "\0" in line:
                fault = DataFormatError(file.path, number, "a NUL character", _ACCEPTED_PLAIN)
                break
            if text.write(f"{line}\n") and text.tell() > longest:
                found = f"a text of more than {longest:,} characters"
                accepted = (
                    f"shorter texts, or a higher limit in the environment variable {MAX_LINE_BYTES_VARIABLE}"
                )
                fault = DataFormatError(file.path, number, found, accepted)
                break
    fault = fault or held.take()
    if fault is not None:
        skipped.leave_out(fault, "document")
    else:
        yield TextDocument(file.name, text.getvalue().removesuffix("\n"), "", "")


@dataclass(frozen=True)
class _RowReader:
    """Reads rows of tables and JSON objects as documents, and counts repairs."""

    columns: TextColumns
    read: Counter[str]

    def of_file(self, file: TextFile, line: int, record: object) -> TextDocument:
        return self._document(record, f"{file.name}/{line}", ACCEPTED_LINE, file.path, line)

    def of_memory(self, rows: TextRows, number: int, value: object) -> TextDocument:
        record = {self.columns.text or "text": value} if isinstance(value, str) else value
        place = Path(f"{rows.source}, row {number}")
        return self._document(record, f"{rows.name}/{number}", ACCEPTED_ROW, place, None)

    def _document(
        self, record: object, usual_id: str, accepted: str, path: Path, line: int | None
    ) -> TextDocument:
        if not isinstance(record, Mapping):
            raise DataFormatError(path, line, 'no "text"', accepted)
        parts = self.columns.of_names(list(map(str, record)), path, line, "key")
        values = []
        for part in ("text", "id", "source", "license", "title", "url"):
            value = part_of(record, parts[part], path, line)
            if value is not None and (
                not isinstance(value, str if part == "text" else (str, int)) or isinstance(value, bool)
            ):
                if part == "text":
                    raise DataFormatError(path, line, 'no "text"', accepted)
                if part == "id" or part in self.columns.named():
                    raise DataFormatError(path, line, f'"{part}" of type {type(value).__name__}', "a text")
                self.read[f"document_with_unreadable_{part}"] += 1
                value = None
            values.append("" if value is None else str(value))
        # JSON can represent halves of surrogate pairs, UTF-8 cannot.
        whole = [value.encode("utf-8", "replace").decode("utf-8") for value in values]
        if whole != values:
            self.read["document_with_replaced_characters"] += 1
        text, identifier, source, license_name, title, url = whole
        day, date = part_of(record, parts["date"], path, line), ""
        try:
            date = iso_date(day, path, line)
        except DataFormatError:
            if self.columns.date is not None:
                raise
            self.read["document_with_unreadable_date"] += 1
        return TextDocument(identifier or usual_id, text, source, license_name, title, date, url)


def _kind(path: Path) -> str:
    if kind := _KINDS.get(format_suffix(path)):
        return kind
    lines = read_lines(path, SkippedRows("skip"))
    first = next((text for _, text in lines if text.strip()), "").lstrip().upper()
    return "sgml" if first.startswith(("<DOC", "<!DOCTYPE", "<?XML")) else "plain"


def _is_empty(path: Path) -> bool:
    if path.suffix.lower() not in COMPRESSED:
        return not path.stat().st_size
    try:
        next(read_lines(path, SkippedRows("skip")), None)
    except DataFormatError as error:
        return error.line is None
    return False
