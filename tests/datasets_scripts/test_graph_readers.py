"""The raw files of commonsense graphs, form by form."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest

from eventformers.datasets_scripts.commonsense_graphs import CommonsenseGraphs
from eventformers.datasets_scripts.graph_readers import Triple, read_triples, split_files
from eventformers.datasets_scripts.malformed import SkippedRows, malformed_parts
from eventformers.datasets_scripts.relation_templates import relation_templates
from eventformers.errors import DataFormatError, EventformersError

CSV_HEADER = "event,oEffect,oReact,oWant,xAttr,xEffect,xIntent,xNeed,xReact,xWant,prefix,split\n"


def csv_row(event: str, split: str, x_want: str = "[]", x_attr: str = "[]") -> str:
    quoted = [text.replace('"', '""') for text in (x_attr, x_want)]
    return f'{event},[],[],[],"{quoted[0]}",[],[],[],[],"{quoted[1]}","[""a""]",{split}\n'


def read(
    graph: str, *files: Path, split: str = "train"
) -> tuple[list[Triple], dict[str, int], dict[str, int]]:
    counts: Counter[str] = Counter()
    skipped = SkippedRows()
    triples = list(read_triples(files, graph, split, relation_templates(graph), counts, skipped))
    return triples, dict(counts), dict(skipped)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_conceptnet_has_the_relation_first_and_maybe_a_confidence(tmp_path: Path) -> None:
    path = write(tmp_path / "train.txt", "IsA\tdog\tanimal\nIsA\tcat\tanimal\t2.5\n\nIsA\tdog\tcat\t0\n")
    assert read("conceptnet", path) == (
        [("dog", "IsA", "animal"), ("cat", "IsA", "animal")],
        {"triples": 2},
        {"blank_line": 1, "triple_labelled_false": 1},
    )


def test_duplicates_are_counted_and_kept_and_empty_tails_are_left_out(tmp_path: Path) -> None:
    row = "John sings\txWant\tto rest\n"
    path = write(tmp_path / "train.txt", f"{row}John sings\txWant\t\n\txWant\tto rest\n{row}{row}")
    assert read("atomic", path) == (
        [("John sings", "xWant", "to rest")] * 3,
        {"triples": 5, "duplicate_triples": 2},
        {"empty_tail": 1, "empty_head": 1},
    )


def test_texts_of_the_published_files_stay_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path / "train.txt", "John gives tom \txWant\tnone\n")
    assert read("atomic", path)[0] == [("John gives tom ", "xWant", "none")]


def test_the_original_csv_of_atomic(tmp_path: Path) -> None:
    path = write(
        tmp_path / "v4_atomic_all.csv",
        CSV_HEADER
        + csv_row("PersonX gives ___ to PersonY", "trn", '["to rest ", "none"]', '["kind"]')
        + csv_row('"PersonX eats, slowly"', "dev", '["a \\"nap\\""]'),
    )
    assert split_files("atomic", [path]) == {"train": [path], "validation": [path]}
    assert read("atomic", path) == (
        [("John gives  to Tom", "xAttr", "kind"), ("John gives  to Tom", "xWant", "to rest")],
        {"triples": 3},
        {"tail_none": 1},
    )
    validation = read("atomic", path, split="validation")[0]
    assert validation == [("John eats, slowly", "xWant", 'a "nap"')]


def test_atomic_2020_leaves_out_relations_without_a_template(tmp_path: Path) -> None:
    path = write(
        tmp_path / "train.tsv",
        "PersonX eats\txWant\tto rest\nPersonX eats\tHinderedBy\tno food\nPersonX eats\txWant\tnone\n",
    )
    assert read("atomic", path) == (
        [("John eats", "xWant", "to rest")],
        {"triples": 3},
        {"relation_without_template_HinderedBy": 1, "tail_none": 1},
    )


def test_files_are_known_by_their_names(tmp_path: Path) -> None:
    first = {name: write(tmp_path / name, "IsA\tdog\tanimal\t1\n") for name in ("train.txt", "test.txt")}
    assert split_files("conceptnet", first.values()) == {
        "train": [first["train.txt"]],
        "test": [first["test.txt"]],
    }
    released = [tmp_path / name for name in ("train100k.txt.gz", "dev1.txt.gz", "dev2.txt.gz", "test.txt.gz")]
    for path in released:
        path.write_bytes(gzip.compress(b"IsA\tdog\tanimal\t1\n"))
    train, dev_1, dev_2, test = released
    assert split_files("conceptnet", released) == {
        "train": [train],
        "validation": [dev_1, dev_2],
        "test": [test],
    }
    assert read("conceptnet", dev_1, dev_2)[1] == {"triples": 2, "duplicate_triples": 1}
    assert split_files("atomic", first.values()) == {}
    events = write(tmp_path / "atomic" / "train.txt", "John eats\txWant\tto rest\n")
    assert split_files("conceptnet", [events]) == {}


FAULTS: dict[tuple[str, str], list[tuple[str, int | None, str]]] = {
    ("conceptnet", "train.txt"): [
        ("IsA\ta\tb\nIsA\ta\n", 2, "found 2 columns; accepted: relation, head, tail"),
        ("IsA a b\n", 1, "found 1 column;"),
        ("IsA\ta\tb\t1\t2\n", 1, "found 5 columns"),
        ("Likes\ta\tb\n", 1, "UsedFor; or one of a file given as templates=FILE.yaml"),
        *(
            (f"IsA\ta\tb\t{wrong}\n", 1, f"found the confidence '{wrong}'")
            for wrong in ("high", "nan", "inf", "-0.5")
        ),
    ],
    ("atomic", "train.txt"): [
        ("a b\txWant\tc\t1\n", 1, "found 4 columns; accepted: head, relation, tail"),
        ("a b\txLikes\tc\n", 1, "found the relation 'xLikes'; accepted: oEffect, oReact"),
        ("a b\tHinderedBy\tc\n", 1, "found the relation 'HinderedBy'"),
        ("", None, "found an empty file"),
    ],
    ("atomic", "train.tsv"): [("a b\txLikes\tc\n", 1, "found the relation 'xLikes'")],
    ("atomic", "a.csv"): [
        (CSV_HEADER + csv_row("a b", "trn", "to rest"), 2, "found 'to rest' in the column xWant"),
        (CSV_HEADER + csv_row("a b", "trn", "[1]"), 2, "accepted: a JSON list of texts"),
        (CSV_HEADER + csv_row("a b", "all"), 2, "found the split 'all'; accepted: trn, dev"),
        (CSV_HEADER + "a b,[],trn\n", 2, "found 3 columns; accepted: 12 columns"),
        ("head,relation,tail\n", 1, "found the columns 'head, relation, tail'"),
        ("\n\n", None, "found only blank lines"),
        (CSV_HEADER.replace("xWant", "xWnat") + csv_row("a b", "trn"), 1, "'xWnat' (did you mean 'xWant'?)"),
        (CSV_HEADER.replace("xWant", "xAttr"), 1, "found a column twice"),
        (CSV_HEADER + csv_row("a b", "trn", "[" * 50_000), 2, "in the column xWant"),
        (CSV_HEADER + csv_row('"a b', "trn"), 2, "found broken CSV"),
        (CSV_HEADER + csv_row("a" * 200_000, "trn"), 2, "found broken CSV (field larger"),
        (CSV_HEADER + csv_row("a b", "trn", r'["\ud800"]'), 2, "in the column xWant"),
    ],
}


@pytest.mark.parametrize(
    ("graph", "name", "text", "line", "found"),
    [(*place, *fault) for place, faults in FAULTS.items() for fault in faults],
)
def test_bad_rows_name_file_and_line(
    tmp_path: Path, graph: str, name: str, text: str, line: int | None, found: str
) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(DataFormatError, match=re.escape(found)) as caught:
        read(graph, path)
    assert (caught.value.path, caught.value.line) == (path, line)


def test_malformed_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = "IsA\tdog\tanimal\nIsA\tdog\nIzA\tdog\tcat\nIsA\tcat\tpet\tnan\n\nIsA\tcat\tanimal\n"
    path = write(tmp_path / "train.txt", rows)
    with malformed_parts("skip"):
        assert read("conceptnet", path) == (
            [("dog", "IsA", "animal"), ("cat", "IsA", "animal")],
            {"triples": 2},
            {"malformed_row": 3, "blank_line": 1},
        )


def test_a_row_of_the_csv_goes_whole_and_is_counted_with_one_split(tmp_path: Path) -> None:
    """A quote that is never closed takes nothing behind its line along."""
    path = write(
        tmp_path / "v4_atomic_all.csv",
        CSV_HEADER
        + csv_row("PersonX eats", "trn", "[1]", '["kind"]')
        + "\n"
        + csv_row('"PersonX runs', "trn", '["to rest"]')
        + csv_row("PersonX sings", "trn", '["to rest"]')
        + csv_row("PersonX sings", "dev", '["to rest"]'),
    )
    builder = CommonsenseGraphs("atomic", data_dir=path, cache_dir=tmp_path, malformed="skip")
    for split in builder.split_files:
        assert [table.num_rows for _, table in builder._generate_tables(split)] == [1]
    assert builder.reports["train"].skipped == {"malformed_row": 2, "blank_line": 1}
    assert builder.reports["validation"].skipped == {}
    assert [part["line"] for part in builder.reports["train"].skipped.parts] == [2, 4]


def test_splits_in_several_formats_are_all_read(tmp_path: Path) -> None:
    for name in ("train.csv", "valid.txt", "test.txt"):
        (tmp_path / name).write_text("IsA\ta\tb\n", encoding="utf-8")
    found = split_files("conceptnet", tmp_path.iterdir())
    assert {split: [path.name for path in paths] for split, paths in found.items()} == {
        "train": ["train.csv"],
        "validation": ["valid.txt"],
        "test": ["test.txt"],
    }
    (tmp_path / "test.txt.gz").touch()
    with pytest.raises(EventformersError, match=r"test\.txt\.gz, which are one file by name"):
        split_files("conceptnet", tmp_path.iterdir())


def test_a_tsv_may_have_a_header(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("head\trelation\ttail\na\tIsA\tb\n", encoding="utf-8")
    assert split_files("conceptnet", [path]) == {"train": [path]}
    read = Counter[str]()
    triples = read_triples(
        [path], "conceptnet", "train", relation_templates("conceptnet"), read, SkippedRows()
    )
    assert list(triples) == [("a", "IsA", "b")]
