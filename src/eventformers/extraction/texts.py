"""Readers of raw text: newswire in SGML, JSON lines, and plain text with one document a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from eventformers.datasets_scripts.licenses import license_of_source, standard_license
from eventformers.datasets_scripts.malformed import HeldFaults, SkippedRows
from eventformers.datasets_scripts.raw_files import (
    DataDir,
    check_keys,
    is_json_lines,
    raw_paths,
    read_json_values,
    read_lines,
)
from eventformers.errors import DataFormatError, EventformersError
from eventformers.extraction.sgml import read_sgml

ACCEPTED_LINE = 'one JSON object a line with "text", and optionally "id", "source" and "license"'
_KEYS = frozenset({"text", "id", "document_id", "source", "license", "licence"})
_UNUSED_KEYS = frozenset(
    {
        *("added", "created", "date", "dump", "file_path", "language", "language_score", "media", "metadata"),
        *("timestamp", "title", "token_count", "url", "version"),
    }
)
"""Further keys in published web corpora and in datatrove's output."""

ACCEPTED_FILES = "SGML, .jsonl or .txt files, plain or .gz, and folders of them"

_TextKind = Literal["sgml", "json", "plain"]
_SGML_ENDINGS = (".sgml", ".sgm", ".xml")
_PLAIN_ENDINGS = (".txt", ".text")
_JSON_ENDINGS = (".jsonl", ".json", ".ndjson")


@dataclass(frozen=True)
class TextDocument:
    """A text to extract events from.

    Args:
        document_id: its id, distinct among all texts that are read together.
        text: the text.
        source: its corpus.
        license: its terms of use.
    """

    document_id: str
    text: str
    source: str
    license: str


@dataclass(frozen=True)
class TextFile:
    """A file to read.

    Args:
        path: the file.
        name: its relative name without suffixes: the id of a plain text.
        source: the name of the given folder or file: the source of a text without one.
    """

    path: Path
    name: str
    source: str


def find_text_files(texts: DataDir, skipped: SkippedRows) -> list[TextFile]:
    """Find the files under paths, in the given order; files in a folder, and in its subfolders, are sorted by
    name.

    A file that is given directly is read whatever its suffix. In folders, files with an unknown suffix are
    skipped and counted; hidden files are ignored.

    Raises:
        EventformersError: a path does not exist, or there is no file to read.
    """
    found: dict[Path, TextFile] = {}
    for given in raw_paths(texts):
        if not given.is_dir():
            found.setdefault(given, TextFile(given, _stem(given), _stem(given)))
            continue
        for path in sorted(given.rglob("*")):
            inside = path.relative_to(given)
            if not path.is_file() or any(part.startswith(".") for part in inside.parts):
                continue
            if not _is_text_name(path):
                skipped["file_with_unknown_ending"] += 1
                continue
            name = (inside.parent / _stem(path)).as_posix()
            found.setdefault(path, TextFile(path, name, given.name))
    if not found:
        raise EventformersError(f"no text in {texts}; accepted: {ACCEPTED_FILES}")
    return list(found.values())


def read_texts(
    files: Sequence[TextFile],
    read: Counter[str],
    skipped: SkippedRows,
    document_types: Sequence[str] = ("story",),
    source: str | None = None,
    license_name: str | None = None,
) -> Iterator[TextDocument]:
    """Read the documents of the files, in order, each with a distinct id.

    A second document with the id and the text of an earlier one is skipped; one with the id of an earlier one
    and another text gets a number after its id. Both are counted, like empty files and documents without
    text.

    A line of JSON has `"text"`, and `"id"` or `"document_id"`, `"source"` and `"license"` or `"licence"`. The
    keys `url`, `title`, `date`, `timestamp`, `created`, `added`, `version`, `dump`, `file_path`, `language`,
    `language_score`, `token_count`, `metadata` and `media` of published corpora are ignored. Other keys are
    an error. Half of a surrogate pair becomes "?", and its document is counted in `read`.

    Args:
        files: output of `find_text_files`.
        read: counts of what is read; added to.
        skipped: counts of skipped items, by reason, added to, and policy for malformed documents.
        document_types: types of SGML documents to read, in lower case; documents without a type are read,
            too. Empty reads all.
        source: source of texts without one, instead of the name of their file or folder.
        license_name: licence of texts without one, instead of the known licence of their source.

    Raises:
        DataFormatError: a file cannot be read.
    """
    identifiers = _Identifiers()
    for file in files:
        read["files"] += 1
        if _is_empty(file.path):
            skipped["empty_file"] += 1
            continue
        for document in _documents(file, read, skipped, document_types):
            read["documents"] += 1
            if not document.text.strip():
                skipped["document_without_text"] += 1
                continue
            identifier = identifiers.of(document)
            if identifier is None:
                skipped["repeated_document"] += 1
                continue
            if identifier != document.document_id:
                read["document_with_id_of_another"] += 1
            known = document.source or source or file.source
            stated = standard_license(document.license) if document.license else license_name
            yield TextDocument(identifier, document.text, known, license_of_source(known, stated))


class _Identifiers:
    """Assigns distinct ids to texts, without storing the texts."""

    def __init__(self) -> None:
        self._texts: set[bytes] = set()
        self._numbers: dict[str, int] = {}

    def of(self, document: TextDocument) -> str | None:
        """The id of a document; None if an earlier document has the same id and text."""
        identifier = document.document_id
        digest = blake2b(f"{identifier}\0{document.text}".encode(), digest_size=12).digest()
        if digest in self._texts:
            return None
        self._texts.add(digest)
        if identifier not in self._numbers:
            self._numbers[identifier] = 1
            return identifier
        distinct = identifier
        while distinct in self._numbers:
            self._numbers[identifier] += 1
            distinct = f"{identifier}~{self._numbers[identifier]}"
        self._numbers[distinct] = 1
        return distinct


def _documents(
    file: TextFile, read: Counter[str], skipped: SkippedRows, document_types: Sequence[str]
) -> Iterator[TextDocument]:
    """Read the documents of a file without normalisation; source and licence are "" if it states none."""
    kind = _kind(file.path)
    if kind == "json":
        values = read_json_values(file.path, skipped, ACCEPTED_LINE, whole_characters=False)
        yield from skipped.parsed(values, lambda value: _json_document(*value, file, read), "document")
    elif kind == "plain":
        held = HeldFaults()
        text = "\n".join(line for _, line in read_lines(file.path, held))
        if (fault := held.take()) is not None:
            skipped.leave_out(fault, "document")
        else:
            yield TextDocument(file.name, text, "", "")
    else:
        for document in read_sgml(file.path, skipped):
            if document_types and document.kind and document.kind not in document_types:
                skipped[f"document_of_type_{document.kind}"] += 1
                continue
            identifier = document.document_id or f"{file.name}/{document.line}"
            yield TextDocument(identifier, document.text, "", "")


def _json_document(line: int, record: object, file: TextFile, read: Counter[str]) -> TextDocument:
    path = file.path
    if not isinstance(record, dict):
        raise DataFormatError(path, line, 'no "text"', ACCEPTED_LINE)
    check_keys(record, _KEYS | _UNUSED_KEYS, path, line)
    if not isinstance(record.get("text"), str):
        raise DataFormatError(path, line, 'no "text"', ACCEPTED_LINE)
    values = [record["text"]]
    for names in (("id", "document_id"), ("source",), ("license", "licence")):
        given = [record[name] for name in names if record.get(name) is not None]
        for value in given:
            if not isinstance(value, (str, int)) or isinstance(value, bool):
                raise DataFormatError(path, line, f'"{names[0]}" of type {type(value).__name__}', "a text")
        if len(set(given)) > 1:
            found = " and ".join(f'"{name}"' for name in names)
            raise DataFormatError(path, line, f"{found} that differ", "one of them")
        values.append(str(given[0]) if given else "")
    # JSON can represent halves of surrogate pairs, UTF-8 cannot.
    text, identifier, source, license_name = (
        value.encode("utf-8", "replace").decode("utf-8") for value in values
    )
    if [text, identifier, source, license_name] != values:
        read["document_with_replaced_characters"] += 1
    return TextDocument(identifier or f"{file.name}/{line}", text, source, license_name)


def _kind(path: Path) -> _TextKind:
    name = path.name.lower().removesuffix(".gz")
    if is_json_lines(Path(name)):
        return "json"
    if name.endswith(_SGML_ENDINGS):
        return "sgml"
    if name.endswith(_PLAIN_ENDINGS):
        return "plain"
    lines = read_lines(path, SkippedRows("skip"))
    first = next((text for _, text in lines if text.strip()), "").lstrip().upper()
    return "sgml" if first.startswith(("<DOC", "<!DOCTYPE", "<?XML")) else "plain"


def _is_text_name(path: Path) -> bool:
    name = path.name.lower().removesuffix(".gz")
    known = is_json_lines(Path(name)) or name.endswith((*_SGML_ENDINGS, *_PLAIN_ENDINGS))
    # Newswire is published in files such as nyt_eng_199407.gz.
    return known or (path.suffix.lower() == ".gz" and "." not in name)


def _stem(path: Path) -> str:
    name = path.name
    for ending in (".gz", *_SGML_ENDINGS, *_PLAIN_ENDINGS, *_JSON_ENDINGS):
        if name.lower().endswith(ending) and len(name) > len(ending):
            name = name[: -len(ending)]
    return name


def _is_empty(path: Path) -> bool:
    try:
        next(read_lines(path, SkippedRows("skip")), None)
    except DataFormatError as error:
        return error.line is None
    return False
