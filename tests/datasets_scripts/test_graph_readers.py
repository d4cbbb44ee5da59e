"""Commonsense graphs: raw files form by form, templates of relations, and what is built."""

from __future__ import annotations

import gzip
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from eventformers.datasets_scripts import build_dataset, build_reports, built_report, load_built
from eventformers.datasets_scripts.commonsense_graphs import (
    CommonsenseGraphs,
    Triple,
    read_triples,
    split_files,
)
from eventformers.datasets_scripts.malformed import SkippedRows, malformed_parts
from eventformers.datasets_scripts.relation_templates import Direction, relation_templates
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError

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


PAIRS = """\
atomic
John leaves John's book | xWant | to read
John leaves John's book. as a result, John wants | to read
John wants to read. because John | leaves John's book

atomic
PersonX thanks PersonY's mother | oReact | happy for PersonX
John thanks Tom's mother. as a result, Tom or others feel | happy for John
Tom or others feel happy for John. because John | thanks Tom's mother

atomic
PersonX wears ___ to school | xNeed | to buy clothes
John wears  to school. but before, John needed | to buy clothes
John needs to buy clothes. as a result John | wears  to school

conceptnet
small mammal | HasProperty | underground
small mammal can be characterized by being or having | underground
underground is the property of | small mammal

conceptnet
run | MotivatedByGoal | keep fit
run is a step towards accomplishing the goal | keep fit
keep fit motivate | run

conceptnet
personx | NotMadeOf | ___
personx is not made of | ___
___ is not used to make | personx
"""
"""A graph, a triple, and its forward and reverse pair."""


@pytest.mark.parametrize("lines", PAIRS.split("\n\n"))
def test_premises_and_alternatives(lines: str) -> None:
    graph, *rows = lines.splitlines()
    triple, forward, reverse = (tuple(row.split(" | ")) for row in rows)
    templates = relation_templates(graph)
    assert templates.pair(*triple, "forward") == forward
    assert templates.pair(*triple, "reverse") == reverse
    head, relation, tail = triple
    assert templates.premise(relation, head, "forward") == forward[0]
    assert templates.premise(relation, tail, "reverse") == reverse[0]
    assert templates.alternative(tail, "forward") == forward[1]
    assert templates.alternative(head, "reverse") == reverse[1]


def test_a_head_of_one_word_stays_whole() -> None:
    assert relation_templates("atomic").alternative("accidents", "reverse") == "accidents"


def test_every_relation_of_the_graphs_has_both_templates() -> None:
    directions: tuple[Direction, ...] = ("forward", "reverse")
    for graph, count in (("conceptnet", 34), ("atomic", 9)):
        templates = relation_templates(graph)
        assert len(templates.relations) == count
        for relation in templates.relations:
            for direction in directions:
                premise = templates.premise(relation, "TEXT", direction)
                assert premise.count("TEXT") == 1
                assert not re.search(r"[{}]|Person|  |^ | $", premise)


def test_an_unknown_relation_lists_the_known_ones_and_the_way_out() -> None:
    told = r"Did you mean 'xWant'\? Accepted: oEffect, .*xWant; or one of .*templates=FILE\.yaml"
    with pytest.raises(UnknownNameError, match=told):
        relation_templates("atomic").premise("xWnt", "John sings", "forward")
    with pytest.raises(UnknownNameError, match="commonsense graph 'wordnet'"):
        relation_templates("wordnet")


def test_a_file_adds_relations_and_replaces_templates(tmp_path: Path) -> None:
    file = tmp_path / "templates.yaml"
    file.write_text(
        'xReason: {forward: "{head}. PersonX did so for", reverse: "For {tail} PersonX"}\n'
        'xWant:\n  forward: "{head}, so PersonY wants"\n  reverse: "{tail}, because"\n',
        encoding="utf-8",
    )
    templates = relation_templates("atomic", file)
    assert len(templates.relations) == 10
    assert templates.pair("John sings", "xReason", "joy", "forward") == ("John sings. John did so for", "joy")
    assert templates.pair("John sings", "xReason", "joy", "reverse") == ("For joy John", "sings")
    assert templates.premise("xWant", "John sings", "forward") == "John sings, so Tom wants"
    assert templates.premise("xNeed", "John sings", "forward") == "John sings. but before, John needed"


TEMPLATE = '{}: {{forward: "{{head}} a", reverse: "b {{tail}}"}}'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "found no relations; accepted: lines like MyRelation:"),
        ("xReason", "found no relations"),
        ("xReason: [", "invalid YAML"),
        ("[" * 1_000, "YAML that is nested too deeply"),
        ("2001-99-99: a", "invalid YAML (month must be in 1..12)"),
        ("xReason: because", "'xReason': found str; accepted: lines like"),
        ('xReason: {forward: "{head} a"}', "'xReason': found the keys ['forward']"),
        (
            'xReason: {forward: "a", reverse: "{tail}"}',
            "'xReason', forward: found 'a'; accepted: a text with",
        ),
        ('xReason: {forward: "{head}", reverse: "{head}"}', "'xReason', reverse: found '{head}'"),
        ("xReason: {forward: 1, reverse: 2}", "'xReason', forward: found int"),
        (f"{TEMPLATE.format('No')}", "found the relation False; accepted: a text, in quotes"),
        (f"{TEMPLATE.format('xReason')}\n{TEMPLATE.format('xReason')}", "a key twice in one mapping"),
    ],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, text: str, found: str) -> None:
    file = tmp_path / "templates.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(EventformersError, match=re.escape(found)):
        relation_templates("atomic", file)
    with pytest.raises(EventformersError, match=r"cannot read the templates .*No such file"):
        relation_templates("atomic", tmp_path / "absent.yaml")


TRAIN = "IsA\tdog\tanimal\nUsedFor\tpen\twrite\nIsA\tdog\tanimal\n"
VALID = "IsA\tfox\tanimal\nIsA\tfox\t\n"


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A folder with a graph and its inductive split, which has no training file of its own."""
    folder = tmp_path / "raw"
    for name, text in (
        ("CN-82K/train.txt", TRAIN),
        ("CN-82K/valid.txt", "UsedFor\tcup\tdrink\n"),
        ("CN-82K-Ind/valid.txt", VALID),
        ("CN-82K-Ind/test.txt", "IsA\towl\tbird\n"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def files_of(config: str, *paths: Path) -> dict[str, list[str]]:
    found = CommonsenseGraphs.find_raw_files(config, list(paths))
    return {split: ["/".join(path.parts[-2:]) for path in files] for split, files in found.items()}


def test_triples_and_pairs_by_split(raw: Path) -> None:
    triples = load_built(raw, "conceptnet_inductive")
    assert list(triples) == ["train", "validation", "test"]
    assert triples["train"].column_names == ["head", "relation", "tail"]
    assert triples["train"][1] == {"head": "pen", "relation": "UsedFor", "tail": "write"}
    pairs = load_built(raw, "conceptnet_inductive_pairs")
    assert [tuple(row.values()) for row in pairs["validation"]] == [
        ("fox is a", "animal", "forward"),
        ("animal includes", "fox", "reverse"),
    ]
    # The rows of one triple are neighbours: row 2 i, then row 2 i + 1.
    templates = relation_templates("conceptnet")
    for split, rows in pairs.items():
        assert len(rows) == 2 * len(triples[split])
        for number, row in enumerate(rows):
            premise, alternative = templates.pair(*triples[split][number // 2].values(), row["direction"])
            assert (row["premise"], row["alternative"]) == (premise, alternative)
            assert row["direction"] == ("forward", "reverse")[number % 2]


def test_the_report_and_the_card_tell_every_split(raw: Path, tmp_path: Path) -> None:
    folder = build_dataset("commonsense_graphs", "conceptnet_inductive_pairs", raw, tmp_path / "out")
    (report,) = build_reports(folder).values()
    assert report == built_report(raw, "conceptnet_inductive_pairs") | {"seconds": report["seconds"]}
    splits = cast("dict[str, dict[str, Any]]", report["splits"])
    told = {split: (counts["rows"], counts["read"], counts["skipped"]) for split, counts in splits.items()}
    assert told == {
        "train": (6, {"duplicate_triples": 1, "triples": 3}, {}),
        "validation": (2, {"triples": 2}, {"empty_tail": 1}),
        "test": (2, {"triples": 1}, {}),
    }
    assert report["rows"] == 10
    assert report["read"] == {"duplicate_triples": 1, "triples": 6}
    assert report["skipped"] == {"empty_tail": 1}
    assert report["sources"] == {"ConceptNet": {"license": "CC-BY-SA-4.0", "triples": 5}}
    files = cast("list[dict[str, Any]]", report["raw_files"])
    assert [item["name"] for item in files] == ["train.txt", "valid.txt", "test.txt"]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "- train: rows: 6\n" in card
    assert "- validation: skipped: empty_tail 1\n" in card
    assert "- test: skipped: none\n" in card
    assert "| source | license | triples |\n| --- | --- | --- |\n| ConceptNet | CC-BY-SA-4.0 | 5 |" in card
    assert "- cc-by-sa-4.0\n" in card
    parquet = sorted(path.name for path in folder.rglob("*.parquet"))
    assert parquet == [f"{split}-00000-of-00001.parquet" for split in ("test", "train", "validation")]
    streams = load_built(folder, "conceptnet_inductive_pairs", streaming=True)
    assert [len(list(stream)) for stream in streams.values()] == [6, 2, 2]


def test_a_split_without_rows_is_told(raw: Path) -> None:
    (raw / "CN-82K" / "valid.txt").write_text("IsA\tfox\t\n", encoding="utf-8")
    with pytest.raises(
        EventformersError, match=r"split validation: no rows .* valid\.txt \(skipped: 1 empty"
    ):
        load_built(raw, "conceptnet")


def test_where_the_files_are_looked_for(raw: Path) -> None:
    graph = {"train": ["CN-82K/train.txt"], "validation": ["CN-82K/valid.txt"]}
    inductive = {
        "train": ["CN-82K/train.txt"],
        "validation": ["CN-82K-Ind/valid.txt"],
        "test": ["CN-82K-Ind/test.txt"],
    }
    assert files_of("conceptnet", raw) == files_of("conceptnet_pairs", raw / "CN-82K") == graph
    assert files_of("conceptnet_inductive", raw) == files_of("conceptnet_inductive", raw / "CN-82K-Ind")
    assert files_of("conceptnet_inductive", raw) == inductive
    for config in ("conceptnet", "atomic", "atomic_inductive"):
        assert files_of(config, raw / "CN-82K-Ind") == {}
    assert files_of("conceptnet_inductive", raw / "CN-82K") == files_of("atomic", raw) == {}
    train, valid = raw / "CN-82K" / "train.txt", raw / "CN-82K-Ind" / "valid.txt"
    assert list(files_of("conceptnet", train)) == ["train"]
    assert list(files_of("conceptnet_inductive", train, valid)) == ["train", "validation"]
    own = raw / "my-graph"
    shutil.copytree(raw / "CN-82K", own)
    assert list(files_of("conceptnet", own)) == ["train", "validation"]
    with pytest.raises(EventformersError, match=r"config atomic, in .*; accepted: train\.txt, valid\.txt"):
        load_built(raw, "atomic")


def test_the_inductive_samples_feed_both_configs_of_atomic() -> None:
    names = load_built(None, "atomic_pairs")["train"]
    assert names[0]["direction"] == "forward"
    assert names[:] == load_built(None, "atomic_inductive_pairs")["train"][:]


def test_templates_of_ones_own(raw: Path, tmp_path: Path) -> None:
    with open(raw / "CN-82K" / "train.txt", "a", encoding="utf-8") as stream:
        stream.write("Precedes\tdawn\tday\n")
    with pytest.raises(DataFormatError, match=r"train\.txt, line 4: found the relation 'Precedes'"):
        load_built(raw, "conceptnet")
    file = tmp_path / "templates.yaml"
    file.write_text('Precedes: {forward: "{head} before", reverse: "{tail} after"}\n', encoding="utf-8")
    pairs = load_built(raw, "conceptnet_pairs", templates=str(file))["train"]
    assert pairs["premise"][-2:] == ["dawn before", "day after"]
    report = built_report(raw, "conceptnet_pairs", templates=str(file))
    assert "templates.yaml" in [item["name"] for item in cast("list[dict[str, Any]]", report["raw_files"])]
    file.write_text('Precedes: {forward: "{head} then", reverse: "{tail} since"}\n', encoding="utf-8")
    pairs = load_built(raw, "conceptnet_pairs", templates=str(file))["train"]
    assert pairs["premise"][-2:] == ["dawn then", "day since"]


@pytest.mark.parametrize(
    ("config", "train", "validation"),
    [
        ("conceptnet", 81_920, 10_240),
        ("conceptnet_inductive_pairs", 163_840, 19_590),
        ("atomic_inductive_pairs", 193_454, 48_710),
    ],
)
def test_the_published_counts(shared_data: Path, config: str, train: int, validation: int) -> None:
    data = shared_data / "ckg"
    splits = load_built(data, config)
    assert {split: len(rows) for split, rows in splits.items()} == {"train": train, "validation": validation}
    report = built_report(data, config)
    is_atomic = config.startswith("atomic")
    assert report["skipped"] == ({"empty_tail": 3} if is_atomic else {})
    # The published count of validation pairs holds with the seven triples that stand there twice.
    read = cast("dict[str, dict[str, Any]]", report["splits"])["validation"]["read"]
    assert read.get("duplicate_triples", 0) == (7 if is_atomic else 0)
    if is_atomic:
        assert splits["train"][0]["premise"] == "John calls a taxi. as a result, Tom or others feel"
        assert splits["train"][1]["premise"] == "Tom or others feel grateful. because John"
        assert splits["train"][1]["alternative"] == "calls a taxi"


@pytest.mark.parametrize(
    ("place", "config", "source", "license_name"),
    [
        ("CN-82K/train.txt", "conceptnet", "ConceptNet", "CC-BY-SA-4.0"),
        ("anywhere/train100k.txt", "conceptnet", "ConceptNet", "CC-BY-SA-4.0"),
        ("my-graph/train.txt", "conceptnet_pairs", "my-graph", "unspecified"),
        # A folder of the other graph's name says nothing of this one.
        ("ATOMIC/train.txt", "conceptnet", "ATOMIC", "unspecified"),
    ],
)
def test_a_graph_of_ones_own_has_no_published_licence(
    tmp_path: Path, place: str, config: str, source: str, license_name: str
) -> None:
    file = tmp_path / place
    file.parent.mkdir()
    file.write_text(TRAIN, encoding="utf-8")
    report = built_report(file.parent, config)
    assert report["sources"] == {source: {"license": license_name, "triples": 3}}


def test_folders_add_their_splits_and_may_not_repeat_one(tmp_path: Path) -> None:
    for name in ("a/train.csv", "b/valid.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("head,relation,tail\na,IsA,b\n", encoding="utf-8")
    folders = (tmp_path / "a", tmp_path / "b")
    assert files_of("conceptnet", *folders) == {"train": ["a/train.csv"], "validation": ["b/valid.csv"]}
    shutil.copy(tmp_path / "a/train.csv", tmp_path / "b")
    with pytest.raises(EventformersError, match=r"a/train\.csv and .*b/train\.csv, both the split train"):
        files_of("conceptnet", *folders)


def test_the_words_of_relations_decide_the_cache() -> None:
    assert "eventformers.models.relation_words" in {one.__name__ for one in CommonsenseGraphs._modules()}


def test_the_counts_of_the_papers_table(shared_data: Path) -> None:
    """The files have no test split, so the counts are a little below the published ones."""
    report = built_report(shared_data / "ckg", "conceptnet_inductive_pairs", builder="commonsense_graphs")
    statistics = report["statistics"]
    assert statistics["train"]["average_words"] == 3.92
    of_all = statistics["validation"]
    assert of_all["entities_in_all_splits"] == 72_015
    assert of_all["relations_in_all_splits"] == 33
    assert of_all["average_degree_in_all_splits"] == 1.84
    assert of_all["average_words_in_all_splits"] == 3.92
    assert "entities_in_all_splits" not in statistics["train"]
