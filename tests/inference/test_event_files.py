"""Files of events in every format give one Parquet file, in order; bad input names its place."""

from __future__ import annotations

import contextlib
import csv
import gzip
import itertools
import json
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventformers.errors import DataFormatError, EventformersError
from eventformers.inference.encode import EventEncoder, encode, load_encoder
from eventformers.inference.encoding import event_files
from eventformers.inference.encoding.event_files import EventRow, embed_file, read_event_rows

EVENTS = [
    {"id": "a", "subject": "police", "predicate": "arrested", "object": "man"},
    {"id": "b", "subject": "storm", "predicate": "closed", "object": ""},
    {"id": "a", "subject": "police", "predicate": "arrested", "object": "man"},
]
TEXTS = ["police arrested man", "storm closed", "police arrested man"]


def write_events(path: Path) -> Path:
    """The events of this test in the format that the suffix names."""
    kind = path.name.split(".", 1)[1]
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(EVENTS), path)
    elif kind == "struct.parquet":
        pq.write_table(
            pa.table({"event": [{key: e[key] for key in event_files.ROLES} for e in EVENTS]}), path
        )
    elif kind in ("csv", "tsv"):
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(EVENTS[0]), delimiter="," if kind == "csv" else "\t")
            writer.writeheader()
            writer.writerows(EVENTS)
    elif kind == "txt":
        path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    else:
        lines = "".join(json.dumps(event) + "\n" for event in EVENTS).encode()
        path.write_bytes(gzip.compress(lines) if kind.endswith("gz") else lines)
    return path


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "csv", "tsv", "parquet", "struct.parquet", "txt"])
def test_every_format_gives_the_same_rows(tmp_path: Path, suffix: str) -> None:
    rows = list(read_event_rows(write_events(tmp_path / f"events.{suffix}")))
    assert [row.text for row in rows] == TEXTS
    has_ids = suffix not in ("txt", "struct.parquet")
    assert [row.id for row in rows] == (["a", "b", "a"] if has_ids else ["0", "1", "2"])


def test_order_of_roles_and_fields_that_are_absent(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(
        '{"id": 7, "subject": "police", "predicate": "arrested", "object": null}\n'
        '{"event": {"subject": "", "predicate": "closed", "object": "road"}}\n'
        '{"text": "  as  it stands "}\n'
    )
    rows = list(read_event_rows(path, "predicate_first"))
    assert [row.text for row in rows] == ["arrested police", "closed road", "as it stands"]
    assert [row.id for row in rows] == ["7", "1", "2"]


def test_embed_file_writes_vectors_in_order(
    tmp_path: Path, encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_files, "BLOCK_ROWS", 2)
    target = tmp_path / "new" / "vectors.parquet"
    report = embed_file(encoder, write_events(tmp_path / "events.jsonl"), target, normalize=True)
    assert (report.rows, report.distinct, report.truncated, report.dimension) == (3, 2, 0, encoder.dimension)
    table = pq.read_table(target)
    assert table.column_names == ["id", "text", "embedding"]
    assert table["id"].to_pylist() == ["a", "b", "a"]
    assert table["text"].to_pylist() == TEXTS
    expected = encoder.encode(TEXTS, normalize=True)
    np.testing.assert_allclose(np.array(table["embedding"].to_pylist()), expected, atol=1e-6)
    assert table.schema.metadata[b"model_revision"].decode() == encoder.revision
    assert [path.name for path in target.parent.iterdir()] == ["vectors.parquet"]


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_memory_holds_only_blocks_of_the_file(
    tmp_path: Path, encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    monkeypatch.setattr(event_files, "BLOCK_ROWS", 1)
    texts = [f"police arrested man {number * number % 150}" for number in range(200)]
    (tmp_path / "events.txt").write_text("\n".join(texts))

    class Text(str):
        """A text with weak references."""

    numbers, most = itertools.count(), 0
    held: weakref.WeakValueDictionary[int, Text] = weakref.WeakValueDictionary()

    def spied(*arguments: Any) -> Iterator[EventRow]:
        nonlocal most
        for row in read_event_rows(*arguments):
            held[next(numbers)] = text = Text(row.text)
            most = max(most, len(held))
            yield replace(row, text=text)

    monkeypatch.setattr(event_files, "read_event_rows", spied)
    target = tmp_path / "vectors.parquet"
    report = embed_file(encoder, tmp_path / "events.txt", target, precision=precision)
    assert report.distinct == len(set(texts)) > 40
    # Two blocks of eight rows, and the rows on their way.
    assert most < 20
    table = pq.read_table(target)
    assert table["text"].to_pylist() == texts
    found = np.array(table["embedding"].to_pylist(), dtype=np.float32)
    expected = encode(encoder, texts, precision=precision)
    np.testing.assert_allclose(found, expected, atol=1e-6 if precision == "float32" else 1)


@pytest.mark.parametrize(
    ("name", "content", "line", "found"),
    [
        ("a.jsonl", b"", None, "empty file"),
        ("a.txt", b"", None, "empty file"),
        ("a.csv", b"", None, "empty file"),
        ("a.parquet", b"", None, "empty file"),
        ("a.parquet", b"no parquet at all", None, "no Parquet"),
        ("a.txt", b"police arrested\ncaf\xe9 closed\n", 2, "byte 0xe9"),
        ("a.txt", b"police arrested\n \n", 2, "without any word"),
        ("a.jsonl", b'{"text": "a"}\n{"predicate": ""}\n', 2, "without any word"),
        ("a.jsonl", b'{"text": "a"}\n{"text"\n', 2, "invalid JSON"),
        ("a.jsonl", b'["police"]\n', 1, "a list of 1"),
        ("a.jsonl", b'{"title": "a"}\n', 1, "the keys title"),
        ("a.jsonl", b'{"text": 3}\n', 1, "the text 3"),
        ("a.jsonl", b'{"predicate": 0}\n', 1, "the predicate 0"),
        ("a.jsonl", b'{"predicate": "a", "object": false}\n', 1, "the object False"),
        ("a.jsonl", b'{"predicate": "a", "object": []}\n', 1, r"the object \[\]"),
        ("a.jsonl", b'{"predicate": "a", "object": {}}\n', 1, "the object {}"),
        ("a.jsonl", b'{"predicate": "a", "Subject": "b"}\n', 1, "'Subject' .did you mean 'subject'"),
        ("a.jsonl", '{"pr\u0435dicate": "a"}\n'.encode(), 1, "did you mean 'predicate'"),
        ("a.jsonl", b'{"event": {"predicate": "a", "obj": "b"}}\n', 1, "'obj' .did you mean 'object'"),
        ("a.jsonl", b'{"text": "a", "ID": 3}\n', 1, "'ID' .did you mean 'id'"),
        ("a.jsonl", b'{"text": "a", "text": "b"}\n', 1, "the key 'text' twice"),
        ("a.jsonl", b'{"text": "\\ud800"}\n', 1, "half of a surrogate pair"),
        ("a.jsonl", b'{"text": ' + b"[" * 100_000, 1, "nested too deeply"),
        ("a.csv", b"subj,predicate,object\na,b,c\n", 1, "'subj' .did you mean 'subject'"),
        ("a.csv", b"predicate,object,date\na,b,c\n", 1, "the column 'date'"),
        ("a.csv", b"text\n" + b"a" * 200_000, 2, "field larger than field limit"),
        ("a.jsonl", b'{"id": 1.5, "text": "a"}\n', 1, "the id 1.5"),
        ("a.csv", b"subject,object\na,b\n", 1, "the columns subject, object"),
        ("a.csv", b"text,text\na,b\n", 1, "the column 'text' twice"),
        ("a.csv", b"id,text\n1,a\n2\n", 3, "1 column;"),
        ("a.csv", b"text\na\n\n", 3, "0 columns"),
        ("a.csv", b"id,text\n", None, "a header without rows"),
        ("a.csv", b'id,text\n1,"a\n', None, "broken CSV"),
    ],
)
def test_bad_input_names_file_and_line(
    tmp_path: Path, encoder: EventEncoder, name: str, content: bytes, line: int | None, found: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    target = tmp_path / "out.parquet"
    target.write_bytes(b"an earlier result")
    with pytest.raises(DataFormatError, match=found) as raised:
        embed_file(encoder, path, target)
    assert raised.value.path == path
    assert line is None or raised.value.line == line
    assert "\n" not in str(raised.value)
    assert target.read_bytes() == b"an earlier result"
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted({name, "out.parquet"})


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.txt"])
def test_a_file_of_malformed_rows_alone(tmp_path: Path, encoder: EventEncoder, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"id,text\n" * (name == "a.csv") + b"1,caf\xe9\n")
    with pytest.raises(DataFormatError, match="found malformed rows alone"):
        embed_file(encoder, path, tmp_path / "out.parquet", malformed="skip")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="a folder; accepted: a file of events"):
        read_event_rows(tmp_path)


def test_parquet_without_the_columns_or_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"title": ["a"]}), path)
    with pytest.raises(DataFormatError, match="the columns title"):
        list(read_event_rows(path))
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), path)
    with pytest.raises(DataFormatError, match="no rows"):
        list(read_event_rows(path))


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"text": ["a", None]}, "row 2: found the text None"),
        ({"text": [3, 4]}, "row 1: found the text 3"),
        ({"event": [["a", "b", "c"], ["a", "b"]]}, "row 2: found a list of 2"),
        ({"event": [None]}, "row 1: found the event None"),
        ({"event": [{"predicate": "a", "Object": "b"}]}, "row 1: .*'Object' .did you mean 'object'"),
        ({"predicate": [["a"]]}, "row 1: found the predicate"),
        ({"text": pa.array([b"caf\xe9"]).view(pa.string())}, "row 1: found values that cannot be read"),
    ],
)
def test_parquet_of_other_types(tmp_path: Path, columns: dict[str, object], found: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(DataFormatError, match=found):
        list(read_event_rows(path))


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    path = write_events(tmp_path / "a.parquet")
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + b"\xff\xff" + whole[place + 2 :])
        with contextlib.suppress(DataFormatError):
            list(read_event_rows(path))


def test_malformed_rows_can_be_left_out(tmp_path: Path, encoder: EventEncoder) -> None:
    target = tmp_path / "out.parquet"
    for name, content, whole in (
        ("a.jsonl", b'{"text": "police closed"}\nno json\n{"id": "b", "text": "storm"}\n', "line"),
        ("a.jsonl", b'{"text": "police closed"}\n{"text": 3}\n{"id": "b", "text": "storm"}\n', "row"),
        ("a.csv", b"id,text\n0,police closed\n1\nb,storm\n", "row"),
        ("a.txt", b"police closed\n\xff\nstorm\n", "line"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(DataFormatError, match=rf"or skip each such {whole} with malformed=.skip"):
            embed_file(encoder, path, target)
        with pytest.warns(UserWarning, match=rf"1 malformed part left out: {name}, line [23] \({whole}\)"):
            report = embed_file(encoder, path, target, malformed="skip")
        assert (report.rows, report.left_out) == (2, 1)
        assert pq.read_table(target)["text"].to_pylist() == ["police closed", "storm"]
    path = path.with_suffix(".csv")
    path.write_bytes(b"\xff\n")
    with pytest.raises(DataFormatError, match="line 1: found the byte 0xff"):
        embed_file(encoder, path, target, malformed="skip")


def test_other_columns_are_ignored_where_no_role_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("date,subject,predicate,object,id\n2020,police,arrested,man,a\n", encoding="utf-8-sig")
    assert [(row.id, row.text) for row in read_event_rows(path)] == [("a", "police arrested man")]
    path = tmp_path / "a.json"
    path.write_text('[{"text": "storm closed", "url": "x"},\n ["police", "arrested", "man"], "a dog bites"]')
    assert [row.text for row in read_event_rows(path)] == [
        "storm closed",
        "police arrested man",
        "a dog bites",
    ]


def test_unknown_suffix_absent_file_and_wrong_output(tmp_path: Path, encoder: EventEncoder) -> None:
    with pytest.raises(EventformersError, match="no such file"):
        read_event_rows(tmp_path / "absent.jsonl")
    (tmp_path / "a.xml").write_text("<a/>")
    with pytest.raises(EventformersError, match=r"'\.xml'; accepted: \.jsonl"):
        read_event_rows(tmp_path / "a.xml")
    source = write_events(tmp_path / "events.txt")
    with pytest.raises(EventformersError, match=r"accepted: \.parquet"):
        embed_file(encoder, source, tmp_path / "out.csv")
    with pytest.raises(EventformersError, match="cannot write"):
        embed_file(encoder, source, source / "out.parquet")
    with pytest.raises(EventformersError, match="apply when a model is loaded"):
        embed_file(encoder, source, tmp_path / "out.parquet", pooling="cls")


def test_full_disk_and_changed_input_leave_nothing_half_written(
    tmp_path: Path, encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_events(tmp_path / "events.txt")
    target = tmp_path / "out.parquet"
    target.write_bytes(b"an earlier result")
    write = event_files._write_parquet

    def full_disk(path: Path, *arguments: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(event_files, "_write_parquet", full_disk)
    with pytest.raises(EventformersError, match=r"cannot write .*No space left"):
        embed_file(encoder, source, target)

    def changed(path: Path, *arguments: object) -> None:
        write(path, *arguments)  # type: ignore[arg-type]
        source.write_text("another event\n")

    monkeypatch.setattr(event_files, "_write_parquet", changed)
    with pytest.raises(EventformersError, match="changed while it was encoded"):
        embed_file(encoder, source, target)
    assert target.read_bytes() == b"an earlier result"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["events.txt", "out.parquet"]


def test_a_model_that_reads_roles_gets_them(tmp_path: Path, tiny_heterevent: Path) -> None:
    encoder = load_encoder(tiny_heterevent, device="cpu")
    path = tmp_path / "events.jsonl"
    path.write_text(
        '{"subject": "police", "predicate": "arrested man"}\n'
        '{"subject": "police", "predicate": "arrested", "object": "man"}\n'
        '{"text": "police arrested man"}\n'
        '{"subject": " police", "predicate": "arrested", "object": "man"}\n'
    )
    report = embed_file(encoder, path, tmp_path / "vectors.parquet")
    table = pq.read_table(report.output)
    assert table["text"].to_pylist() == ["police arrested man"] * 4
    assert report.distinct == 3
    found = np.asarray(table["embedding"].to_pylist(), dtype=np.float32)
    expected = encoder.encode(
        [
            {"subject": "police", "predicate": "arrested man", "object": ""},
            {"subject": "police", "predicate": "arrested", "object": "man"},
            "police arrested man",
        ]
    )
    np.testing.assert_allclose(found, expected[[0, 1, 2, 1]], atol=1e-5)


def test_the_ids_of_our_own_tables_are_kept(encoder: EventEncoder, tmp_path: Path) -> None:
    source, target = tmp_path / "events.csv", tmp_path / "vectors.parquet"
    source.write_text("event_id,mention_id,text\na#0,m,storm\na#1,n,police closed\n", encoding="utf-8")
    embed_file(encoder, source, target)
    assert pq.read_table(target)["id"].to_pylist() == ["a#0", "a#1"]
