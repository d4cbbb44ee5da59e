"""Seeded mutations of raw files: of their bytes, of their lines, of their JSON and of their cells."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from random import Random
from typing import Any

Mutation = Callable[[bytes, Random], bytes]

_DEEP = 5_000
_VALUES: tuple[str, ...] = (
    *("null", "0", "-1", "1.5", "1e999", "NaN", "-Infinity", "true", "false", '""', '" "', "[]", "{}"),
    *('["A"]', '[["a", 1]]', '{"a": {"b": null}}', '"\\ud800"', '"a\\u0000b"', "1" * 5_000),
    "[" * _DEEP + "]" * _DEEP,
    '{"a":' * _DEEP + "1" + "}" * _DEEP,
    json.dumps("x" * 100_000),
)
"""JSON that may stand where another value stood."""

_REPETITIONS = (
    *("<", "&lt;ex&gt;", "<ex>", "will x ", "why did ", "what kind of person ", " ", "\t", "|", "[[", "]]"),
    *('"', "\\", "{", "(", "a ", "a.", "''", "\u0301", "&amp;", "<!--", "<TUP>", "[W] ", "'s "),
    *("a", "ab ", "\n"),
)
"""What a pattern may read in quadratic time when it stands many times."""

_XML_BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">'
    b'<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d SYSTEM "file:///etc/passwd">]><a>&c;&d;</a>'
)

_LOOKALIKES = str.maketrans("aeopcxij", "аеорсхіј")


def flip_bits(data: bytes, random: Random) -> bytes:
    """Flip one to eight bits."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 8) if data else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def truncate(data: bytes, random: Random) -> bytes:
    """Keep the beginning."""
    return data[: random.randrange(len(data) + 1)]


def delete_slice(data: bytes, random: Random) -> bytes:
    """Delete up to 40 bytes."""
    start = random.randrange(len(data) + 1)
    return data[:start] + data[start + random.randint(1, 40) :]


def insert_bytes(data: bytes, random: Random) -> bytes:
    """Insert a few bytes that text files seldom have."""
    start = random.randrange(len(data) + 1)
    wanted = random.choice(
        (b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\x85", b"\xe2\x80\xa8", b"\x1f", b"\xc3")
    )
    return data[:start] + wanted + data[start:]


def repeat_text(data: bytes, random: Random) -> bytes:
    """Insert one short text very many times."""
    start = random.randrange(len(data) + 1)
    text = random.choice(_REPETITIONS)
    return data[:start] + (text * (60_000 // len(text))).encode() + data[start:]


def other_encoding(data: bytes, random: Random) -> bytes:
    """Write the text in another encoding."""
    text = data.decode("utf-8", "replace")
    return text.encode(random.choice(("utf-16", "utf-8-sig", "utf-32", "latin-1")), "replace")


def lines(data: bytes, random: Random) -> bytes:
    """Drop, repeat, swap, empty or join lines."""
    parts = data.split(b"\n")
    place, other = random.randrange(len(parts)), random.randrange(len(parts))
    kind = random.randrange(6)
    if kind == 0:
        del parts[place]
    elif kind == 1:
        parts.insert(place, parts[other])
    elif kind == 2:
        parts[place], parts[other] = parts[other], parts[place]
    elif kind == 3:
        parts.insert(place, random.choice((b"", b"   ", b"\t", b"null", b"#", b",", b"|", b"[]", b'"')))
    elif kind == 4:
        parts[place : place + 2] = [b"".join(parts[place : place + 2])]
    else:
        return random.choice(
            (b"", b"\n" * 20, b"\r\n".join(parts), b"\r".join(parts), _XML_BOMB, b"not json\n")
        )
    return b"\n".join(parts)


def json_value(data: bytes, random: Random) -> bytes:
    """Replace, rename, repeat, add or remove something in the JSON of a line."""
    parts = data.split(b"\n")
    place = random.randrange(len(parts))
    try:
        record = json.loads(parts[place])
    except (ValueError, RecursionError):
        return lines(data, random)
    mark = "\ue000value\ue000"
    record = _changed(record, mark, random)
    written = json.dumps(record, ensure_ascii=False).replace(
        json.dumps(mark, ensure_ascii=False), random.choice(_VALUES)
    )
    parts[place] = written.encode("utf-8", "surrogatepass")
    return b"\n".join(parts)


def _changed(value: Any, mark: str, random: Random) -> Any:
    """A value with one part of it changed; `mark` stands where other JSON is to stand."""
    if isinstance(value, dict) and value:
        key = random.choice(list(value))
        kind = random.randrange(6)
        if kind < 2:
            return {**value, key: _changed(value[key], mark, random)}
        if kind == 2:
            new = random.choice(
                (key.upper(), key.title(), key.translate(_LOOKALIKES), key[:-1], f"{key}s", f" {key}")
            )
            return {new if name == key else name: held for name, held in value.items()}
        if kind == 3:
            return {name: held for name, held in value.items() if name != key}
        if kind == 4:
            return {**value, random.choice(("unknown", "id", "text", "label", "event")): mark}
        return {**value, key: mark}
    if isinstance(value, list) and value and random.random() < 0.8:
        place = random.randrange(len(value))
        if random.random() < 0.3:
            return value[:place] + value[place + 1 :]
        return [*value[:place], _changed(value[place], mark, random), *value[place + 1 :]]
    return mark


def cells(data: bytes, random: Random) -> bytes:
    """Drop, add, swap, empty or change cells of a line of a table."""
    parts = data.decode("utf-8", "replace").split("\n")
    place = random.choice((0, random.randrange(len(parts))))
    separator = next((one for one in ("\t", "|", ",", " ") if one in parts[place]), " ")
    row = parts[place].split(separator)
    column = random.randrange(len(row))
    kind = random.randrange(6)
    if kind == 0:
        del row[column]
    elif kind == 1:
        row.insert(column, random.choice(("", "x", '"', "0")))
    elif kind == 2:
        other = random.randrange(len(row))
        row[column], row[other] = row[other], row[column]
    elif kind == 3:
        row[column] = random.choice(
            ("", " ", "nan", "inf", "-1", "1e999", '"', "'", "\0", "[", "none", "x" * 200_000)
        )
    elif kind == 4:
        row[column] = random.choice(
            (row[column].upper(), row[column][:-1], row[column].translate(_LOOKALIKES))
        )
    else:
        row = row * 2
    parts[place] = separator.join(row)
    return "\n".join(parts).encode()


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    truncate,
    delete_slice,
    insert_bytes,
    repeat_text,
    other_encoding,
    lines,
    json_value,
    json_value,
    json_value,
    cells,
    cells,
)


def mutate(data: bytes, name: str, random: Random) -> tuple[bytes, str]:
    """A file's content with one to three mutations, and their names.

    Args:
        data: the content as it lies on disk.
        name: the file's name: what ends in `.gz` or `.bz2` is changed inside, or as it lies on disk.
        random: decides.
    """
    pack = gzip.compress if name.endswith(".gz") else bz2.compress if name.endswith(".bz2") else None
    inside = pack is not None and random.random() < 0.7
    if inside:
        data = gzip.decompress(data) if name.endswith(".gz") else bz2.decompress(data)
    chosen = random.choices(MUTATIONS, k=random.choice((1, 1, 1, 2, 3)))
    for mutation in chosen:
        data = mutation(data, random)
    if inside and pack is not None:
        data = pack(data)
    return data, "+".join(mutation.__name__ for mutation in chosen)
