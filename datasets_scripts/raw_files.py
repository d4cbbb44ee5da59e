"""Reading raw text files line by line, so that every fault can be told with file and line."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import os
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import yaml

from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.errors import DataFormatError, EventformersError, nearest_name, shown
from eventformers.files import refuse_unfinished

MAX_LINE_BYTES_VARIABLE = "EVENTFORMERS_MAX_LINE_BYTES"
DEFAULT_MAX_LINE_BYTES = 64 * 2**20
"""The longest line of a raw file in bytes where the environment does not set `MAX_LINE_BYTES_VARIABLE`."""

ACCEPTED_EVENT = "a subject, a predicate and an object, at least one of them with a word"

_SURROGATE = re.compile(r"\\u[dD][89A-Fa-f]")
"""The escape of half of a surrogate pair in JSON."""

DataDir = str | Path | Sequence[str | Path]
"""One folder or file, several of them, or a string that joins several by `os.pathsep`."""


def raw_paths(data_dir: DataDir) -> list[Path]:
    """The absolute paths that a `data_dir` names, in the order given.

    Raises:
        EventformersError: none is named, or one does not exist.
    """
    parts: list[str | Path] = []
    for part in [data_dir] if isinstance(data_dir, (str, Path)) else data_dir:
        parts.extend([part] if isinstance(part, Path) else part.split(os.pathsep))
    paths = [Path(part).expanduser().absolute() for part in parts if str(part)]
    if not paths:
        raise EventformersError("the raw data folder is empty text; accepted: an existing folder or file")
    for path in paths:
        if not path.exists():
            raise EventformersError(f"no raw data at {path}; accepted: an existing folder or file")
        refuse_unfinished(path)
    return paths


def max_line_bytes() -> int:
    """Return the longest line, in bytes, that `read_lines` accepts.

    Raises:
        EventformersError: the environment variable is not a positive integer.
    """
    value = os.environ.get(MAX_LINE_BYTES_VARIABLE, str(DEFAULT_MAX_LINE_BYTES))
    if not (value.isascii() and value.isdigit() and int(value) > 0):
        raise EventformersError(
            f"{MAX_LINE_BYTES_VARIABLE}: found {shown(value)}; accepted: a positive number of bytes"
        )
    return int(value)


def read_lines(path: Path, skipped: SkippedRows | None = None) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 text file, plain, gzip or bzip2, with their numbers from 1, without line ends.

    A byte order mark is taken off. Blank lines are yielded too. Memory is bounded by the longest line
    accepted, `max_line_bytes()`.

    Args:
        path: the file.
        skipped: decides on lines that are not UTF-8; None raises for the first.

    Raises:
        DataFormatError: the file is empty, is not UTF-8, has a line that is too long, or is a broken gzip or
            bzip2 file.
        EventformersError: the file cannot be opened.
    """
    number = 0
    longest = max_line_bytes()
    try:
        with _open_bytes(path) as stream:
            for number, raw in enumerate(iter(partial(stream.readline, longest + 1), b""), start=1):
                if len(raw) > longest:
                    raise DataFormatError(
                        path,
                        number,
                        f"a line of more than {longest:,} bytes",
                        f"shorter lines, or a higher limit in the environment variable "
                        f"{MAX_LINE_BYTES_VARIABLE}",
                    )
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    byte = raw[error.start]
                    fault = DataFormatError(
                        path, number, f"the byte 0x{byte:02x} at position {error.start + 1}", "UTF-8 text"
                    )
                    if skipped is None:
                        raise fault from error
                    skipped.leave_out(fault, "line")
                    continue
                yield number, text.rstrip("\r\n")
    except (EOFError, zlib.error, OSError) as error:
        # What the system refuses has a number; what is found broken while it is unpacked has none.
        if isinstance(error, OSError) and error.errno is not None:
            raise EventformersError(f"cannot read {path}: {error.strerror or error}") from error
        kind = "bzip2" if path.suffix == ".bz2" else "gzip"
        found = f"broken {kind} data ({error})"
        raise DataFormatError(path, number + 1, found, f"a whole {kind} file") from error
    if number == 0:
        raise DataFormatError(path, None, "an empty file", "at least one line of data")


def read_rows(path: Path, skipped: SkippedRows) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not blank, with their numbers.

    Args:
        path: the file, as `read_lines` takes it.
        skipped: gets the number of blank lines, as `blank_line`, and decides on lines that are not UTF-8.

    Raises:
        DataFormatError: as `read_lines`.
        EventformersError: the file cannot be opened.
    """
    for line, text in read_lines(path, skipped):
        if text.strip():
            yield line, text
        else:
            skipped["blank_line"] += 1


def parse_json(
    text: str, path: Path, line: int | None, accepted: str, *, whole_characters: bool = True
) -> Any:
    """The value of a JSON text, in which no content can be lost or break later.

    Args:
        text: the JSON.
        path: its file, for errors.
        line: its line, for errors; None where the whole file is one value.
        accepted: what would be accepted, for errors.
        whole_characters: refuse half of a surrogate pair, which UTF-8 cannot hold.

    Raises:
        DataFormatError: it is no JSON, is nested too deeply, has a key twice in one object, or has
            half of a surrogate pair.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys)
        if whole_characters and _SURROGATE.search(text):
            # Half of a surrogate pair has an escape in JSON, and none in UTF-8.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise DataFormatError(path, line, f"no JSON ({error.msg})", accepted) from error
    except UnicodeEncodeError as error:
        raise DataFormatError(path, line, "half of a surrogate pair", "whole characters") from error
    except RecursionError as error:
        raise DataFormatError(path, line, "JSON that is nested too deeply", accepted) from error
    except ValueError as error:
        raise DataFormatError(path, line, f"JSON that cannot be read ({error})", accepted) from error
    return value


class _UniqueKeysLoader(yaml.SafeLoader):
    """`yaml.safe_load`, but a key that a mapping has twice is an error; YAML would keep the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep)
        if len(mapping) < len(node.value):
            raise yaml.constructor.ConstructorError(None, None, "a key twice in one mapping", node.start_mark)
        return mapping


def parse_yaml(text: str | bytes, path: Path, accepted: str) -> Any:
    """The value of a YAML text, in which no content can be lost.

    Args:
        text: the YAML.
        path: its file, for errors.
        accepted: what would be accepted, for errors.

    Raises:
        DataFormatError: it is no YAML or no UTF-8, is nested too deeply, has a key twice in one mapping, or a
            date that no calendar has.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        loader = _UniqueKeysLoader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except RecursionError as error:
        raise DataFormatError(path, None, "YAML that is nested too deeply", accepted) from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or error
        found = f"no YAML ({' '.join(str(reason).split())})"
        raise DataFormatError(path, None if mark is None else mark.line + 1, found, accepted) from error


def read_json_values(
    path: Path, skipped: SkippedRows, accepted: str, *, whole_characters: bool = True
) -> Iterator[tuple[int, Any]]:
    """The values of a file with one JSON value a line, with the numbers of the lines; blank ones are counted.

    Args:
        path: the file, as `read_lines` takes it.
        skipped: gets the number of blank lines, as `blank_line`, and decides on malformed ones.
        accepted: what a line may be, for errors.
        whole_characters: see `parse_json`.

    Raises:
        DataFormatError: a line is no JSON, or nested deeper than can be read; or as `read_lines`.
        EventformersError: the file cannot be opened.
    """
    for line, text in read_rows(path, skipped):
        try:
            value = parse_json(text, path, line, accepted, whole_characters=whole_characters)
        except DataFormatError as error:
            skipped.leave_out(error, "line")
        else:
            yield line, value


def first_json_value(path: Path) -> Any:
    """The first value of a file of JSON lines that can be read; None where there is none."""
    try:
        return next((value for _, value in read_json_values(path, SkippedRows("skip"), "JSON")), None)
    except EventformersError:
        return None


def check_keys(
    record: Mapping[str, object],
    known: Iterable[str],
    path: Path,
    line: int | None,
    *,
    what: str = "key",
) -> None:
    """Refuse keys or columns that a format does not document, so that a misspelt one loses nothing.

    Args:
        record: a JSON object or a row.
        known: the keys of the format, those included that are documented as ignored.
        path: the file, for errors.
        line: the line, for errors.
        what: what the keys are called, such as "column".

    Raises:
        DataFormatError: a key is not known; names the nearest that is.
    """
    accepted = known if isinstance(known, (set, frozenset, dict)) else set(known)
    for key in record:
        if key not in accepted:
            nearest = nearest_name(key, accepted)
            hint = f" (did you mean {nearest!r}?)" if nearest else ""
            raise DataFormatError(
                path, line, f"the {what} {shown(key)}{hint}", f"the {what}s {', '.join(sorted(accepted))}"
            )


def json_object(
    value: object, known: Iterable[str], path: Path, line: int | None, accepted: str
) -> dict[str, Any]:
    """Return a JSON value as an object, all of whose keys a format documents.

    Args:
        value: the value.
        known: as for `check_keys`.
        path: the file, for errors.
        line: the line, for errors.
        accepted: what is accepted where the value is no object.

    Raises:
        DataFormatError: it is no object, or one of its keys is not known.
    """
    if not isinstance(value, dict):
        raise DataFormatError(path, line, f"JSON that is {type(value).__name__}", accepted)
    check_keys(value, known, path, line)
    return value


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {shown(repeated)} twice in one object")
    return record


def is_json_lines(path: Path) -> bool:
    """Whether a file is read as JSON lines, by its name."""
    return path.name.removesuffix(".gz").endswith((".jsonl", ".json", ".ndjson"))


def text_field(record: Mapping[str, object], name: str, path: Path, line: int) -> str:
    """A text of a JSON object, "" where it is absent or null; whole numbers become texts.

    Raises:
        DataFormatError: it is something else, or text that UTF-8 cannot hold.
    """
    value = record.get(name)
    if value is None:
        return ""
    if isinstance(value, str) and value.isascii():
        return value
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise DataFormatError(path, line, f'"{name}" that is {type(value).__name__}', "a text")
    return check_characters(str(value), f'"{name}"', path, line)


def check_characters(text: str, where: str, path: Path, line: int | None) -> str:
    """Return a text, or raise `DataFormatError` if it has half of a surrogate pair, which UTF-8 cannot hold.

    Args:
        text: the text.
        where: what holds it, for the error.
        path: the file, for the error.
        line: the line, for the error.
    """
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            found = f"half of a surrogate pair in {where}"
            raise DataFormatError(path, line, found, "whole characters") from error
    return text


def text_of_either(record: Mapping[str, object], names: Sequence[str], path: Path, line: int) -> str:
    """The text that a JSON object has under one of several names, as `text_field` reads it; "" without any.

    Raises:
        DataFormatError: two of them hold different texts; or as `text_field`.
    """
    texts = {name: text for name in names if (text := text_field(record, name, path, line))}
    if len(set(texts.values())) > 1:
        found = " and ".join(f'"{name}"' for name in texts)
        raise DataFormatError(path, line, f"{found} that differ", "one of them")
    return next(iter(texts.values()), "")


def replace_marked(pattern: re.Pattern[str], closing: str, replacement: str, text: str) -> str:
    """Replace parts of a text that end with `closing`, in time linear in its length.

    Args:
        pattern: a part, from its opening to the first `closing` after that.
        closing: what ends a part.
        replacement: stands where the parts stood.
        text: the text.
    """
    # Behind the last closing, every opening would be searched to the end of the text in vain.
    marked, last, rest = text.rpartition(closing)
    return pattern.sub(replacement, marked + last) + rest


def is_blank(text: str) -> bool:
    """Whether a text has no character that can be seen: white space, controls and joiners alone."""
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)


def checked_event(subject: str, predicate: str, object_: str, path: Path, line: int) -> Event:
    """An event with the white space of its roles made plain.

    Raises:
        DataFormatError: no role holds anything.
    """
    event: Event = {
        "subject": " ".join(subject.split()),
        "predicate": " ".join(predicate.split()),
        "object": " ".join(object_.split()),
    }
    if not (event["subject"] or event["predicate"] or event["object"]):
        raise DataFormatError(path, line, "an event without any word", ACCEPTED_EVENT)
    return event


def has_word(event: Event) -> bool:
    """Whether any role holds a letter or a digit: an extractor's "^" or "--" is no word."""
    return any(map(str.isalnum, event["subject"] + event["predicate"] + event["object"]))


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, read once while its size and time of change stay."""
    status = path.stat()
    return _digest(str(path), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _digest(path: str, size: int, changed: int) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _open_bytes(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.suffix == ".bz2":
        return cast(BinaryIO, bz2.open(path, "rb"))
    return open(path, "rb")
