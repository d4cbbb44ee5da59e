"""Seeded mutations of raw files: of their bytes, of their lines, of their JSON and of their cells."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from random import Random
from typing import Any

_REPEATED = (
    *("<", "&lt;ex&gt;", "<ex>", "will x ", "why did ", "what kind of person ", " ", "\t", "|", "[[", "]]"),
    *('"', "\\", "{", "(", "a ", "a.", "''", "\u0301", "&amp;", "<!--", "<TUP>", "[W] ", "'s ", "a", "\n"),
)
"""What a pattern may read in quadratic time when it stands many times."""
_XML_BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">'
    b'<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d SYSTEM "file:///etc/passwd">]><a>&c;&d;</a>'
)
_LINES = (b"", b"   ", b"\t", b"null", b"#", b",", b"|", b"[]", b'"', b"not json", _XML_BOMB)
_JSON = (
    *("null", "0", "-1", "1.5", "1e999", "NaN", "-Infinity", "true", "false", '""', '" "', "[]", "{}"),
    *('["A"]', '[["a", 1]]', '{"a": {"b": null}}', '"\\ud800"', '"a\\u0000b"', "1" * 5_000),
    *("[" * 5_000 + "]" * 5_000, '{"a":' * 5_000 + "1" + "}" * 5_000, json.dumps("x" * 100_000)),
)
"""JSON that may stand where another value stood."""
_CELLS = ("", " ", "x", "0", "nan", "inf", "-1", "1e999", '"', "'", "\0", "[", "none", "x" * 200_000)
_LOOKALIKES = str.maketrans("aeopcxij", "аеорсхіј")


def change_bytes(data: bytes, random: Random) -> bytes:
    """Replace a slice, which may be empty or all that follows, by odd bytes, or flip a bit of each byte."""
    start = random.randrange(len(data) + 1)
    stop = random.choice((start, start + 1, start + random.randint(1, 40), len(data)))
    odd = random.choice(
        (b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\x85", b"\xe2\x80\xa8", b"\x1f", b"\xc3")
    )
    flipped = bytes(byte ^ 1 << random.randrange(8) for byte in data[start : min(stop, start + 8)])
    return data[:start] + random.choice((b"", odd, flipped)) + data[stop:]


def repeat_text(data: bytes, random: Random) -> bytes:
    """Insert one short text very many times."""
    start, text = random.randrange(len(data) + 1), random.choice(_REPEATED)
    return data[:start] + (text * (60_000 // len(text))).encode() + data[start:]


def change_encoding(data: bytes, random: Random) -> bytes:
    """Write the text in another encoding, or with other ends of lines."""
    if random.random() < 0.3:
        return data.replace(b"\n", random.choice((b"\r\n", b"\r", b"", b"\n\n")))
    text = data.decode("utf-8", "replace")
    return text.encode(random.choice(("utf-16", "utf-8-sig", "utf-32", "latin-1")), "replace")


def change_parts(parts: list[Any], new: tuple[Any, ...], random: Random) -> None:
    """Drop, repeat, swap or replace parts of a list, or insert one."""
    place, other = random.randrange(len(parts)), random.randrange(len(parts))
    change = random.randrange(5)
    if change == 0:
        del parts[place]
    elif change == 1:
        parts.insert(place, parts[other])
    elif change == 2:
        parts[place], parts[other] = parts[other], parts[place]
    elif change == 3:
        parts.insert(place, random.choice(new))
    else:
        parts[place] = random.choice(new)


def change_lines(data: bytes, random: Random) -> bytes:
    parts = data.split(b"\n")
    change_parts(parts, _LINES, random)
    return b"\n".join(parts)


def change_cells(data: bytes, random: Random) -> bytes:
    """Change the cells of a line of a table, or the letters of one cell."""
    parts = data.decode("utf-8", "replace").split("\n")
    place = random.choice((0, random.randrange(len(parts))))
    separator = next((one for one in ("\t", "|", ",", " ") if one in parts[place]), " ")
    row = parts[place].split(separator)
    cell = random.choice(row)
    change_parts(row, (*_CELLS, cell.upper(), cell[:-1], cell.translate(_LOOKALIKES)), random)
    parts[place] = separator.join(row)
    return "\n".join(parts).encode()


def change_json(data: bytes, random: Random) -> bytes:
    """Replace, rename, add or remove something in the JSON of a line."""
    parts = data.split(b"\n")
    place = random.randrange(len(parts))
    try:
        record = json.loads(parts[place])
    except (ValueError, RecursionError):
        return change_lines(data, random)
    mark = "\ue000value\ue000"
    text = json.dumps(_changed(record, mark, random), ensure_ascii=False)
    parts[place] = text.replace(f'"{mark}"', random.choice(_JSON)).encode("utf-8", "surrogatepass")
    return b"\n".join(parts)


def _changed(value: Any, mark: str, random: Random) -> Any:
    """A value with one part of it changed; `mark` stands where other JSON is to stand."""
    if isinstance(value, list) and value:
        parts = list(value)
        if random.random() < 0.5:
            change_parts(parts, (mark,), random)
        else:
            place = random.randrange(len(parts))
            parts[place] = _changed(parts[place], mark, random)
        return parts
    if isinstance(value, dict) and value:
        key = random.choice(list(value))
        names = (
            key.upper(),
            key.translate(_LOOKALIKES),
            key[:-1],
            f"{key}s",
            f" {key}",
            "unknown",
            "id",
            "text",
        )
        changes = (
            {**value, key: _changed(value[key], mark, random)},
            {**value, key: mark},
            {**value, random.choice(names): mark},
            {name: one for name, one in value.items() if name != key},
            {random.choice(names) if name == key else name: one for name, one in value.items()},
        )
        return random.choice(changes)
    return mark


MUTATIONS: tuple[Callable[[bytes, Random], bytes], ...] = (
    *(change_bytes, change_bytes, repeat_text, change_encoding, change_lines),
    *(change_json, change_json, change_cells, change_cells),
)


def mutate(data: bytes, name: str, random: Random) -> tuple[bytes, str]:
    """A file's content with one to three mutations, and their names.

    What is compressed by its name is changed inside, or as it lies on disk.
    """
    library = {"gz": gzip, "bz2": bz2}.get(name.rpartition(".")[2]) if random.random() < 0.7 else None
    if library is not None:
        data = library.decompress(data)
    chosen = random.choices(MUTATIONS, k=random.choice((1, 1, 1, 2, 3)))
    for mutation in chosen:
        data = mutation(data, random)
    return data if library is None else library.compress(data), "+".join(one.__name__ for one in chosen)
