"""Readers of raw text files, line by line, whose errors name file and line."""

from __future__ import annotations

import bz2
import gzip
import json
import math
import os
import re
import stat
import unicodedata
import warnings
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import yaml

from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.errors import DataFormatError, EventformersError, lookalike, nearest_name, shown
from eventformers.files import refuse_unfinished

MAX_LINE_BYTES_VARIABLE = "EVENTFORMERS_MAX_LINE_BYTES"
DEFAULT_MAX_LINE_BYTES = 64 * 2**20
"""Maximum length of a line in bytes if the environment does not set `MAX_LINE_BYTES_VARIABLE`."""

ACCEPTED_EVENT = "a subject, a predicate and an object, at least one of them with a word"

Result = TypeVar("Result")

_LONG_JSON = 2**20
_MAX_YAML_NODES = 1_000_000

_ACCEPTED_ENCODING = (
    "UTF-8 text; iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW converts a file of Excel, R or Stata, -f UTF-16 "
    "one of Excel's Unicode text"
)

_ROLES = ("subject", "predicate", "object")

_SURROGATE = re.compile(r"\\u[dD][89A-Fa-f]")
"""The JSON escape of half of a surrogate pair."""

DataDir = str | Path | Sequence[str | Path]
"""A folder or file, a list of several, or a string that joins several with `os.pathsep`."""


def raw_paths(data_dir: DataDir) -> list[Path]:
    """Convert a `data_dir` to absolute paths, in the given order.

    A text that is not a path is split at `os.pathsep`.

    Raises:
        EventformersError: there are none, or one does not exist.
    """
    parts: list[str | Path] = []
    for part in [data_dir] if isinstance(data_dir, (str, Path)) else data_dir:
        # Unlike `Path.exists`, this is False for a text too long for a path.
        if isinstance(part, Path) or os.path.exists(os.path.expanduser(part)):
            parts.append(part)
        else:
            parts.extend(part.split(os.pathsep))
    paths = [Path(part).expanduser().absolute() for part in parts if str(part)]
    if not paths:
        raise EventformersError("the raw data folder is empty text; accepted: an existing folder or file")
    for path in paths:
        if not path.exists():
            raise EventformersError(f"no raw data at {path}; accepted: an existing folder or file")
        if not (path.is_file() or path.is_dir()):
            raise EventformersError(f"{path} is a pipe or a device; accepted: a file, which is read twice")
        refuse_unfinished(path)
    return paths


def corpus_folders(path: Path, is_corpus: Callable[[str], object]) -> list[Path]:
    """Find a folder and its subfolders that are named after a corpus.

    Args:
        path: a folder; for a file, there are none.
        is_corpus: returns whether the name of a subfolder is that of a corpus.
    """
    if not path.is_dir():
        return []
    return [path, *sorted(item for item in path.iterdir() if item.is_dir() and is_corpus(item.name))]


def files_inside(path: Path, is_corpus: Callable[[str], object]) -> list[Path]:
    """Find the files directly in each of the `corpus_folders`; a file is returned as it is."""
    if not path.is_dir():
        return [path]
    folders = corpus_folders(path, is_corpus)
    return [item for folder in folders for item in sorted(folder.iterdir()) if item.is_file()]


def max_line_bytes() -> int:
    """Return the maximum length of a line in bytes that `read_lines` accepts.

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
    """Read the lines of a UTF-8 text file, plain, gzip or bzip2, with their numbers from 1, without line
    ends.

    A byte order mark is removed. Blank lines are yielded, too. Memory is bounded by the maximum line length,
    `max_line_bytes()`.

    Args:
        path: the file.
        skipped: policy for lines that are not UTF-8; None raises an error for the first one.

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
                        path,
                        number,
                        f"the byte 0x{byte:02x} at position {error.start + 1}",
                        _ACCEPTED_ENCODING,
                    )
                    if skipped is None:
                        raise fault from error
                    skipped.leave_out(fault, "line")
                    continue
                yield number, text.rstrip("\r\n")
    except (EOFError, zlib.error, OSError) as error:
        # Errors of the system have an errno; errors in the compressed data have none.
        if isinstance(error, OSError) and error.errno is not None:
            raise EventformersError(f"cannot read {path}: {error.strerror or error}") from error
        kind = "bzip2" if path.suffix.lower() == ".bz2" else "gzip"
        found = f"broken {kind} data ({error})"
        raise DataFormatError(path, number + 1, found, f"a complete {kind} file") from error
    if number == 0:
        raise DataFormatError(path, None, "an empty file", "at least one line of data")


def read_rows(path: Path, skipped: SkippedRows) -> Iterator[tuple[int, str]]:
    """Read the non-blank lines of a file, with their numbers.

    Args:
        path: the file; see `read_lines`.
        skipped: count of blank lines, as `blank_line`, and policy for lines that are not UTF-8.

    Raises:
        DataFormatError: see `read_lines`.
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
    """Parse a JSON text strictly, so that no content is lost or causes an error later.

    Args:
        text: the JSON.
        path: its file, for errors.
        line: its line, for errors; None if the whole file is one value.
        accepted: the accepted content, for errors.
        whole_characters: reject half of a surrogate pair, which UTF-8 cannot represent.

    Raises:
        DataFormatError: it is not JSON, is nested too deeply, has a key twice in one object, or has half of a
            surrogate pair.
    """
    if line is not None and len(text) > _LONG_JSON:
        # A value takes a byte of text, but up to a hundred bytes of memory.
        marks, most = sum(map(text.count, "[{,")), max_line_bytes() // 64
        if marks > most:
            limit = f"at most {most:,}, or a higher limit in {MAX_LINE_BYTES_VARIABLE}"
            raise DataFormatError(path, line, f"JSON with {marks:,} values", limit)
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys)
        if whole_characters and _SURROGATE.search(text):
            # Half of a surrogate pair can be written in JSON as an escape, but not in UTF-8.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise DataFormatError(path, line, f"invalid JSON ({error.msg})", accepted) from error
    except UnicodeEncodeError as error:
        raise DataFormatError(path, line, "half of a surrogate pair", "whole characters") from error
    except RecursionError as error:
        raise DataFormatError(path, line, "JSON that is nested too deeply", accepted) from error
    except ValueError as error:
        raise DataFormatError(path, line, f"JSON that cannot be read ({error})", accepted) from error
    return value


def read_regular_text(path: Path, accepted: str, *, is_limited: bool = True) -> str:
    """Read a whole text file, such as one of settings.

    Args:
        path: the file.
        accepted: the accepted content, for errors.
        is_limited: reject a file larger than `max_line_bytes()`.

    Raises:
        DataFormatError: it is not a regular file, is too large, or is not UTF-8.
        EventformersError: it cannot be read.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DataFormatError(
                path, None, "a folder, a pipe or a device", f"a regular file with {accepted}"
            )
        if is_limited and status.st_size > max_line_bytes():
            found = f"{status.st_size:,} bytes"
            limit = f"at most {max_line_bytes():,} bytes, or a higher limit in {MAX_LINE_BYTES_VARIABLE}"
            raise DataFormatError(path, None, found, limit)
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"the byte 0x{error.object[error.start]:02x} at position {error.start + 1}"
        raise DataFormatError(path, None, found, f"{accepted} in UTF-8") from error
    except OSError as error:
        raise EventformersError(
            f"{path}: cannot be read: {error.strerror or error}; accepted: {accepted}"
        ) from error


def read_json_object(
    path: Path, accepted: str = "a JSON object", *, whole_characters: bool = True
) -> dict[str, Any]:
    """Read a file with one JSON object; see `read_regular_text` and `parse_json`.

    Raises:
        DataFormatError: the file or its content is not accepted.
        EventformersError: it cannot be read.
    """
    text = read_regular_text(path, accepted)
    value = parse_json(text, path, None, accepted, whole_characters=whole_characters)
    if not isinstance(value, dict):
        raise DataFormatError(path, None, shown(value), accepted)
    return value


class _UniqueKeysLoader(yaml.SafeLoader):
    """`yaml.safe_load`, but a repeated key in a mapping is an error; YAML would keep the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep)
        if len(mapping) < len(node.value):
            raise yaml.constructor.ConstructorError(None, None, "a key twice in one mapping", node.start_mark)
        return mapping

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None and _expanded_size(node, {}) > _MAX_YAML_NODES:
            # A few lines of aliases can stand for billions of values.
            problem = f"aliases that expand to more than {_MAX_YAML_NODES:,} values"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return node


def _expanded_size(node: yaml.Node, sizes: dict[int, float]) -> float:
    """Count the values of a node with aliases expanded; infinite if it contains itself."""
    if id(node) not in sizes:
        sizes[id(node)] = math.inf
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        children = [child for part in parts for child in (part if isinstance(part, tuple) else (part,))]
        sizes[id(node)] = 1 + sum(_expanded_size(child, sizes) for child in children)
    return sizes[id(node)]


def parse_yaml(text: str | bytes, path: Path, accepted: str) -> Any:
    """Parse a YAML text strictly, so that no content is lost.

    Args:
        text: the YAML.
        path: its file, for errors.
        accepted: the accepted content, for errors.

    Raises:
        DataFormatError: it is not YAML or not UTF-8, is nested too deeply, has a key twice in one mapping, or
            has an impossible date.
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
        found = f"invalid YAML ({' '.join(str(reason).split())})"
        raise DataFormatError(path, None if mark is None else mark.line + 1, found, accepted) from error


def read_json_values(
    path: Path, skipped: SkippedRows, accepted: str, *, whole_characters: bool = True
) -> Iterator[tuple[int, Any]]:
    """Read a file with one JSON value per line, with line numbers; blank lines are counted.

    Args:
        path: the file; see `read_lines`.
        skipped: count of blank lines, as `blank_line`, and policy for malformed lines.
        accepted: the accepted content of a line, for errors.
        whole_characters: see `parse_json`.

    Raises:
        DataFormatError: a line is not JSON or is nested too deeply; or see `read_lines`.
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
    """The first readable value of a JSON lines file; None if there is none."""
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
    same: Iterable[Collection[str]] = (),
    complete: bool = False,
) -> None:
    """Reject a key or column that may be a misspelt known one which is missing; ignore others, and name each
    once.

    Args:
        record: a JSON object or a row.
        known: the keys of the format, including documented keys that are ignored.
        path: the file, for errors.
        line: the line, for errors.
        what: name of the keys in the error, such as "column".
        same: groups of keys that mean the same, so that one of them stands for all.
        complete: while a known key is missing, any other key may be meant for it.

    Raises:
        DataFormatError: a key may be a misspelt one; names the nearest known key.
    """
    accepted = known if isinstance(known, (set, frozenset, dict)) else set(known)
    if not (unknown := [key for key in record if key not in accepted]):
        return
    missing = {name for name in accepted if name not in record}
    missing -= {name for group in same if any(key in record for key in group) for name in group}
    for key in map(str, unknown):
        nearest = nearest_name(key, missing) if complete else _resembled(key, missing)
        if nearest or (complete and missing):
            hint = f" (did you mean {nearest!r}?)" if nearest else ""
            raise DataFormatError(
                path, line, f"the {what} {shown(key)}{hint}", f"the {what}s {', '.join(sorted(accepted))}"
            )
    _name_ignored(unknown, path, what)


_ignored: dict[Path, set[str]] = {}
"""The ignored keys that were named, by file."""
_NAMED_KEYS = 50


def _name_ignored(keys: Iterable[str], path: Path, what: str) -> None:
    named = _ignored.setdefault(path, set())
    # R and Excel write columns without a name.
    new = [key for key in keys if key not in named and str(key).strip()]
    if new and len(named) < _NAMED_KEYS:
        named.update(new)
        listed = ", ".join(shown(key) for key in new[:_NAMED_KEYS])
        where = "the rows" if path == Path() else path
        warnings.warn(f"{where}: ignored the {what}{'s' if len(new) > 1 else ''} {listed}", stacklevel=4)


def _resembled(key: str, names: Collection[str]) -> str | None:
    """Find the name that a key is up to case, separators, plural, abbreviation and slips of the pen; else
    None. A name with more or fewer words is another one: `sentence_id` is not `sentence`."""
    if (same := lookalike(key, names)) is not None:
        return same
    words = _words_of(key)
    near = [name for name in sorted(names) if _are_alike(words, _words_of(name))]
    return max(near, key=lambda name: SequenceMatcher(None, key, name).ratio(), default=None)


def _words_of(name: str) -> list[str]:
    words = re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).casefold())
    return [word.removesuffix("s") for word in words]


def _are_alike(words: Sequence[str], others: Sequence[str]) -> bool:
    if "".join(words) == "".join(others):
        return True
    return len(words) == len(others) and all(
        sorted(one) == sorted(other)
        or (min(len(one), len(other)) >= 3 and (one.startswith(other) or other.startswith(one)))
        or SequenceMatcher(None, one, other).ratio() >= _NEAR
        for one, other in zip(words, others, strict=True)
    )


_NEAR = 0.8


def json_object(
    value: object,
    known: Iterable[str],
    path: Path,
    line: int | None,
    accepted: str,
    same: Iterable[Collection[str]] = (),
) -> dict[str, Any]:
    """Check that a JSON value is an object without misspelt keys, and return it.

    Args:
        value: the value.
        known: see `check_keys`.
        path: the file, for errors.
        line: the line, for errors.
        accepted: the accepted content if the value is not an object.
        same: see `check_keys`.

    Raises:
        DataFormatError: it is not an object, or one of its keys may be misspelt.
    """
    if not isinstance(value, dict):
        raise DataFormatError(path, line, f"JSON of type {type(value).__name__}", accepted)
    check_keys(value, known, path, line, same=same)
    return value


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {shown(repeated)} twice in one object")
    return record


def text_field(record: Mapping[str, object], name: str, path: Path, line: int) -> str:
    """Read a text of a JSON object, "" if it is absent or null; integers become texts.

    Raises:
        DataFormatError: it has another type, or is a text that UTF-8 cannot represent.
    """
    value = record.get(name)
    if value is None:
        return ""
    if isinstance(value, str) and value.isascii():
        return value
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise DataFormatError(path, line, f'"{name}" of type {type(value).__name__}', "a text")
    return check_characters(str(value), f'"{name}"', path, line)


def check_characters(text: str, where: str, path: Path, line: int | None) -> str:
    """Return a text, or raise `DataFormatError` if it has half of a surrogate pair, which UTF-8 cannot
    represent.
    """
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            found = f"half of a surrogate pair in {where}"
            raise DataFormatError(path, line, found, "whole characters") from error
    return text


def text_of_either(
    record: Mapping[str, object],
    names: Sequence[str],
    path: Path,
    line: int,
    read: Callable[[Mapping[str, object], str, Path, int], str] = text_field,
) -> str:
    """Read a text of a JSON object under one of several names, with `read`; "" if there is none.

    Raises:
        DataFormatError: two of them have different texts; or see `text_field`.
    """
    texts = {name: text for name in names if (text := read(record, name, path, line))}
    if len(set(texts.values())) > 1:
        found = " and ".join(f'"{name}"' for name in texts)
        raise DataFormatError(path, line, f"{found} that differ", "one of them")
    return next(iter(texts.values()), "")


def replace_marked(pattern: re.Pattern[str], closing: str, replacement: str, text: str) -> str:
    """Replace parts of a text that end with `closing`, in time linear in its length.

    Args:
        pattern: a part, from its opening to the first `closing` after it.
        closing: the end of a part.
        replacement: the text to insert.
        text: the text.
    """
    # After the last closing, the pattern would search from every opening to the end of the text in vain.
    marked, last, rest = text.rpartition(closing)
    return pattern.sub(replacement, marked + last) + rest


def is_blank(text: str) -> bool:
    """True if a text has no visible character, only white space, control characters and joiners."""
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)


def checked_event(subject: str, predicate: str, object_: str, path: Path, line: int) -> Event:
    """Create an event with normalised white space in its roles.

    Raises:
        DataFormatError: all roles are empty.
    """
    event: Event = {
        "subject": " ".join(subject.split()),
        "predicate": " ".join(predicate.split()),
        "object": " ".join(object_.split()),
    }
    if not (event["subject"] or event["predicate"] or event["object"]):
        raise DataFormatError(path, line, "an event without any word", ACCEPTED_EVENT)
    return event


def event_of(value: object, path: Path, line: int, accepted: str = ACCEPTED_EVENT) -> Event:
    """Read an event: an object with the roles, where roles may be absent, or a list of the three.

    Args:
        value: the event; null is an absent role.
        path: the file, for errors.
        line: the line, for errors.
        accepted: the accepted content, for errors.

    Raises:
        DataFormatError: it is something else, or all roles are empty.
    """
    if isinstance(value, dict):
        check_keys(value, _ROLES, path, line, what="role", complete=True)
        fields = [value.get(role) for role in _ROLES]
    elif isinstance(value, list) and len(value) == len(_ROLES):
        fields = value
    else:
        found = f"an event of {len(value)} fields" if isinstance(value, list) else f"the event {shown(value)}"
        raise DataFormatError(path, line, found, accepted)
    subject, predicate, object_ = (role_of(field, path, line) for field in fields)
    return checked_event(subject, predicate, object_, path, line)


def role_of(field: object, path: Path, line: int) -> str:
    """Read a role of an event; "" for null.

    Raises:
        DataFormatError: it is no text.
    """
    if field is None:
        return ""
    if not isinstance(field, str):
        found = f"a role of type {type(field).__name__}"
        raise DataFormatError(path, line, found, "a text, or null where the event has none")
    return field


def has_word(event: Event) -> bool:
    """True if a role has a letter or a digit; an extractor's "^" or "--" does not count."""
    return any(map(str.isalnum, event["subject"] + event["predicate"] + event["object"]))


def _open_bytes(path: Path) -> BinaryIO:
    if path.suffix.lower() == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.suffix.lower() == ".bz2":
        return cast(BinaryIO, bz2.open(path, "rb"))
    return open(path, "rb")
