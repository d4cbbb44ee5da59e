"""Commonsense graphs from raw files to rows, split by split."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

import pytest

from eventformers.datasets_scripts import build_dataset, build_reports, built_report, load_built
from eventformers.datasets_scripts.commonsense_graphs import CommonsenseGraphs
from eventformers.datasets_scripts.relation_templates import relation_templates
from eventformers.errors import DataFormatError, EventformersError

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
    """Without the test split, which is kept aside, so that the paper has a little more."""
    report = built_report(shared_data / "ckg", "conceptnet_inductive_pairs", builder="commonsense_graphs")
    statistics = report["statistics"]
    assert statistics["train"]["average_words"] == 3.92
    of_all = statistics["validation"]
    assert of_all["entities_in_all_splits"] == 72_015
    assert of_all["relations_in_all_splits"] == 33
    assert of_all["average_degree_in_all_splits"] == 1.84
    assert of_all["average_words_in_all_splits"] == 3.92
    assert "entities_in_all_splits" not in statistics["train"]
