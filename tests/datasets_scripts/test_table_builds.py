"""Every builder reads CSV and Parquet with the rows of the owners' format; faults name file and row."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventformers.datasets_scripts import build_dataset, load_built
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.datasets_scripts.building import BUILDERS
from eventformers.datasets_scripts.malformed import SkippedRows, place_text
from eventformers.datasets_scripts.reading.tables import csv_file_rows, parquet_file_rows, table_columns
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation.data import tasks_of_data

Row = Mapping[str, Any]
ROLES = ("subject", "predicate", "object")
TRIPLE = {"head": "a", "relation": "IsA", "tail": "b"}
QUESTION = {"premise": "a", "alternatives": ["b", "c"], "label": 1}
MENTION = {"context_left": "a ", "mention": "fire", "context_lang": "en", "label_id": "1"}


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as CSV, with lists as JSON, or as Parquet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for row in rows for name in row))
    if path.suffix == ".parquet":
        pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), path)
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for row in rows:
            cells = (row.get(name) for name in names)
            writer.writerow(json.dumps(cell) if isinstance(cell, (list, dict)) else cell for cell in cells)


def build(name: str, config: str, data: Path, split: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of a split that a builder makes of a folder, without where they come from."""
    builder = BUILDERS[name](config, data_dir=data)
    builder.split = split or next(iter(builder.split_files))
    rows = [row for table in builder.tables() for row in table.to_pylist()]
    return [{key: value for key, value in row.items() if key not in ("source", "license")} for row in rows]


def json_lines(name: str) -> list[dict[str, Any]]:
    """The rows of a sample of JSON lines."""
    return [json.loads(line) for line in (SAMPLES / name).read_text(encoding="utf-8").splitlines() if line]


def similarity(suffix: str) -> dict[str, list[Row]]:
    rows = build("event_similarity", "transitive", SAMPLES / "similarity")
    if suffix == ".parquet":
        return {"transitive": rows}
    return {
        "transitive": [
            {f"{name}_{role}": row[name][role] for name in ("event_a", "event_b") for role in ROLES}
            | {"score": row["score"]}
            for row in rows
        ]
    }


def events(suffix: str) -> dict[str, list[Row]]:
    documents = json_lines("chains/events.jsonl")[:20]
    rows = [
        {"document_id": document["document_id"], "license": document["license"]}
        | dict(zip(ROLES, event, strict=True))
        for document in documents
        for event in document["events"]
    ]
    return {"events": rows}


def documents(suffix: str) -> dict[str, list[Row]]:
    return {"events": json_lines("chains/events.jsonl")[:20]}


def mentions(suffix: str) -> dict[str, list[Row]]:
    rows = json_lines("event_types/mentions.jsonl")
    for row in rows:
        if suffix == ".csv" and isinstance(trigger := row.get("trigger"), dict):
            places = {"trigger_start": trigger["start_char"], "trigger_end": trigger["end_char"]}
            row |= {"trigger": trigger["text"], **places}
    return {"mentions": rows}


def frames(suffix: str) -> dict[str, list[Row]]:
    return {"frames": json_lines("event_types/frames.jsonl")}


def hierarchy(suffix: str) -> dict[str, list[Row]]:
    folder = SAMPLES / "event_hierarchies"
    edges = build("event_hierarchies", "hierarchy", folder)
    mentions = [
        row | {"mention_id": f"m{number}"}
        for number, row in enumerate(json_lines("event_hierarchies/wikipedia.train.jsonl"))
    ]
    return {
        "wikipedia.train": mentions,
        "label_dict": json_lines("event_hierarchies/label_dict.jsonl"),
        "edges": edges,
    }


def triples(suffix: str) -> dict[str, list[Row]]:
    return {"valid": build("commonsense_graphs", "conceptnet", SAMPLES / "commonsense", "validation")}


def questions(suffix: str) -> dict[str, list[Row]]:
    return {"CSQA/dev_rand_split": build("commonsense_qa", "csqa", SAMPLES / "commonsense", "validation")}


def coreference(suffix: str) -> dict[str, list[Row]]:
    return {"mentions": build("event_coreference", "mentions", SAMPLES / "coreference", "validation")}


CASES: list[tuple[str, str, Callable[[str], dict[str, list[Row]]]]] = [
    ("event_similarity", "transitive", similarity),
    ("event_chains", "documents", events),
    ("event_chains", "documents", documents),
    ("event_types", "mentions", mentions),
    ("event_types", "frames", frames),
    ("event_coreference", "mentions", coreference),
    ("event_hierarchies", "mentions", hierarchy),
    ("event_hierarchies", "hierarchy", hierarchy),
    ("commonsense_graphs", "conceptnet_pairs", triples),
    ("commonsense_qa", "csqa", questions),
]


def originals(name: str, config: str, tables: Mapping[str, list[Row]], folder: Path) -> list[dict[str, Any]]:
    """The rows of the owners' format: of the samples, or of the same rows as JSON lines."""
    if name in ("event_similarity", "commonsense_graphs", "commonsense_qa"):
        sample = "similarity" if name == "event_similarity" else "commonsense"
        return build(name, config, SAMPLES / sample, "validation" if sample == "commonsense" else None)
    if config == "documents":
        tables = documents("")
    for stem, rows in tables.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{stem}.jsonl").write_text(lines, encoding="utf-8")
    return build(name, config, folder)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("name", "config", "make"), CASES, ids=lambda value: getattr(value, "__name__", value)
)
def test_tables_build_the_rows_of_the_original(
    tmp_path: Path, name: str, config: str, make: Callable[[str], dict[str, list[Row]]], suffix: str
) -> None:
    tables = make(suffix)
    for stem, rows in tables.items():
        write_table(tmp_path / "tables" / f"{stem}{suffix}", rows)
    original = tmp_path / "original"
    original.mkdir()
    expected = originals(name, config, tables, original)
    assert expected
    assert build(name, config, tmp_path / "tables") == expected


def test_every_builder_has_tables() -> None:
    assert all(builder.TABLES for builder in BUILDERS.values())
    assert {name for name, _, _ in CASES} == set(BUILDERS)


FAULTS: dict[tuple[str, str, str], dict[str, str]] = {
    ("event_types", "mentions", "m.csv"): {
        "text,triger\na b,b\n": "line 1: .*'triger' .did you mean 'trigger'",
        "text,text\na,b\n": "line 1: found the column 'text' twice",
        "text,trigger\na b,b\na b,c\n": "line 3: .*not in its sentence",
        "text,trigger_start\na b,x\n": "line 2: .*'x' in the column trig",
        "text,frames\na,\"['A']\"\n": "line 2: found invalid JSON",
        "trigger\na\n": "line 1: .*accepted: a column text or sentence",
    },
    ("event_chains", "documents", "e.csv"): {
        "predicate,object\na,b\n": "accepted: a column document_id or id",
        "id,predicate\n,runs\n": "line 2: found an event without docum",
        "id,predicate\nx,a\ny,b\nx,c\n": "line 4: .*'x' after other doc",
        "id,predicate\nx,\n": "line 2: found an event without any word",
    },
    ("event_similarity", "transitive", "transitive.csv"): {
        "score\n3\n": "a column event_a or event_a_subject"
    },
    ("commonsense_graphs", "conceptnet", "train.csv"): {"head,relation,tail\na,Near,b\n": "line 2: .*'Near'"},
    ("commonsense_qa", "csqa", "dev_rand_split.csv"): {
        'premise,alternatives,label\na,"[""b"",""c""]",2\n': "2 in",
        "premise,alternatives,label\na,,0\n": "a list of texts",
    },
    ("event_coreference", "mentions", "m.csv"): {
        "text,cluster_id\na b,1\n": "line 2: .*no trigger in the",
        "text,trigger,cluster_id,sentence\na b,b,1,-2\n": "line 2: found the sentence -2; accepted: a whole",
        'text,trigger,cluster_id,participants\na b,b,1,"[""a""]"\n': (
            'line 2: found participants=.*accepted: a list of objects with "text" and "kind"'
        ),
        "txt,trigger,cluster_id\na,b,1\n": "mean 'text'",
    },
    ("event_hierarchies", "mentions", "train.csv"): {"mention,label_id\na,1\n": "context_lang or language"},
}


@pytest.mark.parametrize(
    ("name", "config", "file", "content", "found"),
    [(*place, content, found) for place, faults in FAULTS.items() for content, found in faults.items()],
)
def test_faults_name_file_and_row(
    tmp_path: Path, name: str, config: str, file: str, content: str, found: str
) -> None:
    path = tmp_path / file
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataFormatError, match=found) as caught:
        build(name, config, path)
    assert str(caught.value).startswith(str(path))


def test_faults_of_parquet_name_the_row(tmp_path: Path) -> None:
    write_table(tmp_path / "m.parquet", [{"text": "a b", "trigger": "b"}, {"text": "a b", "trigger": "c"}])
    with pytest.raises(DataFormatError, match=r"m\.parquet, row 2: .*not in its sentence"):
        build("event_types", "mentions", tmp_path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("tables", "tasks"),
    [
        ({"train": [TRIPLE], "valid": [TRIPLE]}, {"conceptnet_completion"}),
        ({"train": [QUESTION], "dev": [QUESTION]}, {"siqa"}),
        (
            {
                "train": [MENTION],
                "dev": [MENTION],
                "label_dict": [{"label_id": "1", "label_title": "Great fire", "label_lang": "en"}],
            },
            {"event_retrieval", "event_linking"},
        ),
        (
            {name: [{"text": "a b", "trigger": "b", "cluster_id": "1"}] for name in ("train", "test")},
            {"event_coreference"},
        ),
    ],
)
def test_tables_of_one_name_are_told_apart_by_their_columns(
    tmp_path: Path, tables: dict[str, list[Row]], tasks: set[str], suffix: str
) -> None:
    for stem, rows in tables.items():
        write_table(tmp_path / f"{stem}{suffix}", rows)
    assert set(tasks_of_data(tmp_path)) == tasks


def test_one_name_in_two_formats_is_an_error(tmp_path: Path) -> None:
    rows = [{"document_id": "x", "events": [["a", "b", "c"]]}]
    write_table(tmp_path / "events.parquet", rows)
    (tmp_path / "events.jsonl").write_text(json.dumps(rows[0]) + "\n", encoding="utf-8")
    with pytest.raises(EventformersError, match=r"events\.parquet, which have one name in two formats"):
        build("event_chains", "documents", tmp_path)
    # extract writes its events twice.
    (tmp_path / "events.jsonl").rename(tmp_path / "events.jsonl.gz.txt")
    (tmp_path / "events.jsonl.gz").write_bytes(b"")
    assert [
        path.name for path in BUILDERS["event_chains"].find_raw_files("documents", [tmp_path])["train"]
    ] == ["events.jsonl.gz"]


def test_names_that_differ_after_a_dot_are_two_files(tmp_path: Path) -> None:
    header = "mention,context_lang,label_id\n"
    (tmp_path / "mentions.train.csv").write_text(f"{header}fall,en,1\n", encoding="utf-8")
    (tmp_path / "mentions.test.csv").write_text(f"{header}fire,en,2\n", encoding="utf-8")
    built = load_built(tmp_path, "mentions", builder="event_hierarchies")
    assert {split: rows["mention"] for split, rows in built.items()} == {"train": ["fall"], "test": ["fire"]}


def test_a_broken_row_of_csv_costs_its_own_line(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    path.write_text('id,text\n1,"a\nb"\n2,"c" d\n3,e\n4,"f\n5,g\n\n6,h,i\n7,"j\n8,k\n', encoding="utf-8")
    skipped = SkippedRows("skip")
    rows = [
        (line, row["id"]) for line, row in csv_file_rows(path, skipped, lambda names, _: names, row="row")
    ]
    assert rows == [(3, "1"), (5, "3"), (7, "5"), (11, "8")]
    assert skipped == {"malformed_row": 4, "blank_line": 1}
    assert [part["line"] for part in skipped.parts] == [4, 6, 9, 10]
    with pytest.raises(DataFormatError, match=r"line 4: found broken CSV.*or skip each such row with malf"):
        list(csv_file_rows(path, SkippedRows("error"), lambda names, _: names, row="row"))


@pytest.mark.parametrize(
    ("name", "mark"), [("a.csv", ","), ("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", "\t"), ("a.csv.gz", ";")]
)
def test_the_header_tells_what_separates_fields(tmp_path: Path, name: str, mark: str) -> None:
    """Spreadsheets write semicolons where a comma is the decimal mark."""
    path = tmp_path / name
    content = f'\ufeffid{mark}text\r\n1{mark}"a, b; c"\r\n'.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    assert table_columns(path) == ["id", "text"]
    rows = list(csv_file_rows(path, SkippedRows("error"), lambda names, _: names, row="row"))
    assert rows == [(2, {"id": "1", "text": "a, b; c"})]


def test_of_several_marks_in_the_header_the_comma_separates(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,text;tab\there\n1,a;b\n", encoding="utf-8")
    assert table_columns(path) == ["id", "text;tab\there"]


def test_a_damaged_block_of_parquet_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "texts.parquet"
    texts = [f"{number * 7919 % 1000:08d}" for number in range(300)]
    pq.write_table(pa.table({"text": texts}), path, row_group_size=100, use_dictionary=False)
    with pq.ParquetFile(path) as file:
        column = file.metadata.row_group(1).column(0)
        place = column.data_page_offset + column.total_compressed_size // 2
    data = bytearray(path.read_bytes())
    data[place - 40 : place + 40] = b"\xff" * 80
    path.write_bytes(data)
    skipped = SkippedRows("skip")
    rows = [line for line, _ in parquet_file_rows(path, lambda names, _: names, row="row", skipped=skipped)]
    assert rows == [*range(1, 101), *range(201, 301)]
    (part,) = skipped.parts
    assert place_text(part).startswith("texts.parquet, row 101 (row group): ")
    assert "in the rows to row 200" in part["found"]
    with pytest.raises(DataFormatError, match=r"row 101: .*malformed=.skip"):
        list(parquet_file_rows(path, lambda names, _: names, row="row", skipped=SkippedRows("error")))


EVENTS = "document_id,subject,predicate,object\na,s,p,o\na,t,q,r\n"


def test_a_table_that_no_config_reads_is_told(tmp_path: Path) -> None:
    misspelt = tmp_path / "events.csv"
    misspelt.write_text(EVENTS.replace("predicate", "predicat"), encoding="utf-8")
    told = r"not read: events\.csv: found the column 'predicat' \(did you mean 'predicate'\?\)"
    with pytest.raises(EventformersError, match=told):
        build("event_chains", "documents", tmp_path)
    with pytest.raises(EventformersError, match=told):
        build_dataset("event_chains", None, tmp_path, tmp_path / "out")
    (tmp_path / "good.csv").write_text(EVENTS, encoding="utf-8")
    write_table(tmp_path / "questions.csv", [QUESTION])
    named = rf"event_chains, {re.escape(str(tmp_path))} \({told}"
    with pytest.warns(UserWarning, match=named) as caught:
        assert len(build("event_chains", "documents", tmp_path)) == 1
    # A table of other data is not meant for these.
    assert not any("questions" in str(one.message) for one in caught)
    misspelt.write_text(EVENTS, encoding="utf-16")
    with pytest.warns(UserWarning, match=r"events\.csv, line 1: found the byte 0xff"):
        build("event_chains", "documents", tmp_path)


def test_what_extract_writes_beside_its_documents_is_not_missed(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    (tmp_path / "events.jsonl.gz").write_bytes(gzip.compress(b'{"events": [["a", "b", "c"]]}\n'))
    write_table(tmp_path / "chains.parquet", [{"chain_id": "1", "document_id": "a", "protagonist": "b"}])
    assert len(build("event_chains", "documents", tmp_path)) == 1
    assert not recwarn.list


@pytest.mark.parametrize("policy", ["error", "skip"])
def test_a_header_that_is_no_utf_8_is_always_an_error(tmp_path: Path, policy: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"caf\xe9,b\n1,2\n3,4\n")
    with pytest.raises(DataFormatError, match="line 1: found the byte 0xe9"):
        list(csv_file_rows(path, SkippedRows(policy), lambda names, path: names, row="row"))


def test_blank_lines_before_the_header_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n  \na;b\n1;2\n", encoding="utf-8")
    rows = csv_file_rows(path, SkippedRows(), lambda names, path: names, row="row")
    assert list(rows) == [(4, {"a": "1", "b": "2"})]
    assert table_columns(path) == ["a", "b"]


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("a,s,p,o,MIT", "an event of 'a' after other documents"),
        ("b,s,p,o,proprietary", "the license 'proprietary' of 'b', which has 'MIT' above"),
    ],
)
def test_rows_that_contradict_their_document_are_refused_or_left_out(
    tmp_path: Path, row: str, found: str
) -> None:
    path = tmp_path / "events.csv"
    path.write_text(
        f"document_id,subject,predicate,object,license\na,s,p,o,MIT\nb,s,p,o,MIT\n{row}\nb,t,q,r,MIT\n",
        encoding="utf-8",
    )
    with pytest.raises(DataFormatError, match=f"line 4: found {found}"):
        build("event_chains", "documents", path)
    builder = BUILDERS["event_chains"]("documents", data_dir=path, malformed="skip")
    rows = [row for table in builder.tables() for row in table.to_pylist()]
    assert [len(row["events"]) for row in rows] == [1, 2]
    assert builder.report.skipped.num_malformed == 1


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ("a,s,p,o,MIT\na,t,q,r,\nb,s,p,q,\nb,t,q,r,MIT\n", [("MIT", 2), ("MIT", 2)]),
        ("a,s,p,o,mit\nb,t,p,o,CC BY 4.0\n", [("MIT", 1), ("CC-BY-4.0", 1)]),
    ],
)
def test_one_row_may_state_the_licence_of_its_document_in_any_case(
    tmp_path: Path, rows: str, found: list[tuple[str, int]]
) -> None:
    path = tmp_path / "events.csv"
    path.write_text(f"document_id,subject,predicate,object,license\n{rows}", encoding="utf-8")
    builder = BUILDERS["event_chains"]("documents", data_dir=path, open_licenses_only=True)
    documents = [row for table in builder.tables() for row in table.to_pylist()]
    assert [(row["license"], len(row["events"])) for row in documents] == found


def test_a_flag_is_0_or_1(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    row = {"document_id": "a", "subject": "s", "predicate": "p", "object": "o"}
    write_table(path, [{**row, "negated": 2}])
    with pytest.raises(DataFormatError, match="row 1: found 2 in the column negated"):
        build("event_chains", "documents", path)


def test_a_line_twice_with_one_id_is_one_document(tmp_path: Path) -> None:
    lines = ["a,s,p,o", "a,t,q,r"]
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("\n".join(["document_id,subject,predicate,object", *lines]) + "\n")
    builder = BUILDERS["event_chains"](
        "chains", data_dir=tmp_path, min_chain_length=2, validation_share=0, test_share=0
    )
    whole = [row for table in builder.tables() for row in table.to_pylist()]
    assert builder.report.skipped["document_repeated"] == 1
    assert len({row["chain_id"] for row in whole}) == len(whole)


def test_own_tables_have_no_licence_of_a_published_file(tmp_path: Path) -> None:
    for name, config, rows in (
        ("event_similarity", "transitive", similarity(".parquet")["transitive"]),
        ("commonsense_qa", "siqa", [QUESTION]),
    ):
        stem = "dev" if config == "siqa" else config
        write_table(tmp_path / f"{stem}.parquet", rows)
        builder = BUILDERS[name](config, data_dir=tmp_path)
        builder.split = next(iter(builder.split_files))
        list(builder.tables())
        assert builder.report.licenses == ["unspecified"]
