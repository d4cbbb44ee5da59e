"""Raw files by name, line by line, and as JSON and YAML; errors name file and line."""

from __future__ import annotations

import bz2
import gzip
import json
import math
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml

from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.errors import DataFormatError, EventformersError, shown
from eventformers.files import refuse_unfinished

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


MAX_LINE_BYTES_VARIABLE = "EVENTFORMERS_MAX_LINE_BYTES"
DEFAULT_MAX_LINE_BYTES = 64 * 2**20
"""Maximum length of a line in bytes if the environment does not set `MAX_LINE_BYTES_VARIABLE`."""

Result = TypeVar("Result")

_LONG_JSON = 2**20
_MAX_YAML_NODES = 1_000_000

_ACCEPTED_ENCODING = (
    "UTF-8 text; iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW converts a file of Excel, R or Stata, -f UTF-16 "
    "one of Excel's Unicode text"
)

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
        skipped: policy for lines that are not UTF-8; None raises an error for the first one.

    Raises:
        DataFormatError: the file is empty, is not UTF-8, has a line that is too long, or is a broken gzip or
            bzip2 file.
        EventformersError: the file cannot be opened.
    """
    number = 0
    longest = max_line_bytes()
    try:
        openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
        with openers.get(path.suffix.lower(), open)(path, "rb") as stream:
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


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {shown(repeated)} twice in one object")
    return record
