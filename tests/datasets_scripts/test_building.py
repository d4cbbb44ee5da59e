"""Built folders: what they hold, that they load, and that nothing half-written is left."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import datasets
import pyarrow.parquet as pq
import pytest
import yaml
from datasets import Dataset, DatasetDict, get_dataset_config_names, load_dataset
from datasets.info import DatasetInfosDict
from huggingface_hub import DatasetCard

import eventformers
from eventformers.datasets_scripts import (
    BUILDERS,
    build_dataset,
    build_reports,
    built_report,
    dataset_fingerprint,
    list_datasets,
    load_built,
)
from eventformers.datasets_scripts.base import config_names
from eventformers.datasets_scripts.building import Reports
from eventformers.datasets_scripts.dataset_card import dataset_card, read_front_matter
from eventformers.datasets_scripts.event_chains import EventChains
from eventformers.datasets_scripts.event_similarity import EventSimilarity
from eventformers.datasets_scripts.fingerprints import parquet_fingerprint
from eventformers.datasets_scripts.loading import check_raw_files
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError
from eventformers.evaluation.tasks import TASKS
from eventformers.publishing.dataset_building import benchmark_file

HARD = "a | runs | b | c | walks | d | a | runs | b | a | runs | e\n"
TRANSITIVE = "author | write | book | delegate | buy | land | 1.13\n"


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "hard.txt").write_text(HARD, encoding="utf-8")
    (folder / "transitive.txt").write_text(TRANSITIVE, encoding="utf-8")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def subjects(folder: Path) -> list[str]:
    return [row["similar_a"]["subject"] for row in load_built(folder, "hard")["test"]]


def test_load_dataset_reads_a_built_folder(raw: Path, tmp_path: Path) -> None:
    folder = build_dataset("event_similarity", data_dir=raw, output=tmp_path / "out")
    assert sorted(contents(folder)) == [
        "README.md",
        "hard/build_report.json",
        "hard/test-00000-of-00001.parquet",
        "transitive/build_report.json",
        "transitive/test-00000-of-00001.parquet",
    ]
    cache = str(tmp_path / "cache")
    assert get_dataset_config_names(str(folder)) == ["hard", "transitive"]
    default = load_dataset(str(folder), cache_dir=cache, split="test")
    assert default[0]["similar_b"] == {"subject": "c", "predicate": "walks", "object": "d"}
    assert load_dataset(str(folder), "transitive", cache_dir=cache, split="test")[0]["score"] == 1.13
    front = read_front_matter(folder / "README.md")
    assert front["license"] == ["apache-2.0", "unknown"]
    assert front["tags"] == ["eventformers", "events"]
    assert (folder / "README.md").read_text(encoding="utf-8").count("The first row") == 1


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_every_config_of_every_builder_is_built_from_its_samples(name: str, tmp_path: Path) -> None:
    folder = build_dataset(name, output=tmp_path / "out")
    builder = BUILDERS[name]
    reports = build_reports(folder)
    assert sorted(reports) == sorted(config_names(builder))
    assert "sample" in cast("list[str]", read_front_matter(folder / "README.md")["tags"])
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "They are not a benchmark" in card
    assert card.count("The first row, shortened:") == len(reports)
    assert card.index("The first row") < card.index("load_dataset") < card.index("\n## ")
    for config, report in reports.items():
        splits = load_built(folder, config)
        assert [split for split in builder.SPLITS if split in splits] == list(splits)
        told = cast("dict[str, dict[str, object]]", report["splits"])
        assert list(told) == list(splits)
        for split, rows in splits.items():
            assert rows.features == builder.features(config)
            assert len(rows) == told[split]["rows"]
            assert len(rows) > 0
            assert told[split]["rows_fingerprint"] == dataset_fingerprint(rows)
        assert report["rows"] == sum(map(len, splits.values()))
        whole = next(iter(splits.values())) if len(splits) == 1 else splits
        assert report["rows_fingerprint"] == dataset_fingerprint(whole)
        assert report["sample"] is True
        assert report["licenses"] == ["Apache-2.0"]
        assert str(tmp_path) not in json.dumps(report)
        assert load_built(None, config, builder=name).keys() == splits.keys()


def test_configs_add_up_in_a_folder_and_the_default_comes_first(raw: Path, tmp_path: Path) -> None:
    folder = build_dataset("event_similarity", "transitive", raw, tmp_path / "out")
    build_dataset("event_similarity", "hard", raw, folder)
    entries = cast("list[dict[str, object]]", read_front_matter(folder / "README.md")["configs"])
    assert [(entry["config_name"], entry.get("default")) for entry in entries] == [
        ("hard", True),
        ("transitive", None),
    ]


def test_several_named_configs_are_built_together(raw: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    build_dataset("event_similarity", ["transitive", "hard", "transitive"], raw, folder)
    assert sorted(build_reports(folder)) == ["hard", "transitive"]
    (raw / "transitive.txt").write_text("\n", encoding="utf-8")
    before = contents(folder)
    with pytest.raises(EventformersError, match="config transitive, split test: no rows"):
        build_dataset("event_similarity", ["hard", "transitive"], raw, folder)
    assert contents(folder) == before
    with pytest.raises(UnknownNameError, match="hrd"):
        build_dataset("event_similarity", ["transitive", "hrd"], raw, folder)


def test_changed_raw_files_are_never_answered_with_old_rows(raw: Path, tmp_path: Path) -> None:
    folder = build_dataset("event_similarity", "hard", raw, tmp_path / "out")
    assert (subjects(folder), subjects(raw)) == (["a"], ["a"])
    before = built_report(raw, "hard")["fingerprint"]
    (raw / "hard.txt").write_text(HARD.replace("a |", "z |"), encoding="utf-8")
    assert subjects(raw) == ["z"]
    assert built_report(raw, "hard")["fingerprint"] != before
    assert subjects(folder) == ["a"]
    build_dataset("event_similarity", "hard", raw, folder)
    assert subjects(folder) == ["z"]


def test_fingerprints_follow_bytes_and_settings_and_not_places(raw: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    (moved / "hard.txt").write_bytes((raw / "hard.txt").read_bytes())
    cache = tmp_path / "cache"
    first = EventSimilarity("hard", data_dir=raw, cache_dir=cache)
    assert first.fingerprint == EventSimilarity("hard", data_dir=moved, cache_dir=cache).fingerprint
    assert first.fingerprint != EventSimilarity("transitive", data_dir=raw, cache_dir=cache).fingerprint

    def chains(config: str, **settings: object) -> str:
        return EventChains(config, cache_dir=cache, **settings).fingerprint

    assert chains("cooccurrence") != chains("cooccurrence", window=5)
    assert chains("cooccurrence") == chains("cooccurrence", memory_limit="1GB", threads=1)
    assert chains("documents") == chains("documents", window=5)
    assert chains("documents") != chains("documents", drop_pronoun_only=True)


def test_none_is_a_value_of_a_setting(tmp_path: Path) -> None:
    builder = EventChains("cooccurrence", cache_dir=tmp_path, window=None, max_co_events=None)
    assert (builder.config.window, builder.config.max_co_events) == (None, None)
    assert EventChains("cooccurrence", cache_dir=tmp_path).config.window == 100


def test_a_builder_is_a_builder_of_datasets(raw: Path, tmp_path: Path) -> None:
    builder = EventSimilarity("transitive", data_dir=raw, cache_dir=tmp_path / "cache")
    builder.download_and_prepare()
    assert builder.as_dataset(split="test")[0]["score"] == 1.13
    assert builder.report.read == {"rows": 1}
    assert builder.fingerprint in builder.cache_dir


def test_streams(raw: Path) -> None:
    stream = load_built(raw, "hard", streaming=True)["test"]
    assert isinstance(stream, datasets.IterableDataset)
    assert [row["similar_b"]["subject"] for row in stream] == ["c"]


def test_a_failed_build_leaves_the_earlier_one_whole(raw: Path, tmp_path: Path) -> None:
    folder = build_dataset("event_similarity", data_dir=raw, output=tmp_path / "out")
    before = contents(folder)
    (raw / "hard.txt").write_text(HARD + "broken\n", encoding="utf-8")
    with pytest.raises(EventformersError, match="line 2: found 1 fields"):
        build_dataset("event_similarity", data_dir=raw, output=folder)
    assert contents(folder) == before


def test_a_disk_that_fills_up_between_two_configs_leaves_all_the_old_ones(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_dataset("event_similarity", data_dir=raw, output=tmp_path / "out")
    before = contents(folder)
    examples = EventSimilarity.examples

    def full(self: EventSimilarity) -> Iterator[dict[str, object]]:
        if self.config.name == "transitive":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        yield from examples(self)

    (raw / "hard.txt").write_text(HARD * 2, encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(EventSimilarity, "examples", full)
        with pytest.raises(EventformersError, match="cannot write event_similarity: No space left"):
            build_dataset("event_similarity", data_dir=raw, output=folder)
    assert contents(folder) == before
    build_dataset("event_similarity", data_dir=raw, output=folder)
    assert contents(folder) != before


def test_what_a_killed_build_left_is_cleared(raw: Path, tmp_path: Path) -> None:
    leftover = tmp_path / "out" / ".staging" / "new"
    leftover.mkdir(parents=True)
    (leftover / "half.parquet").write_bytes(b"PAR1")
    folder = build_dataset("event_similarity", "hard", raw, tmp_path / "out")
    assert {path.name for path in folder.iterdir()} == {"README.md", "hard"}
    assert subjects(folder) == ["a"]


def test_folders_of_others_are_not_overwritten(raw: Path, tmp_path: Path) -> None:
    folder = build_dataset("event_similarity", data_dir=raw, output=tmp_path / "out")
    with pytest.raises(EventformersError, match="has event_similarity; accepted for event_chains"):
        build_dataset("event_chains", "documents", output=folder)
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "README.md").write_text("mine\n", encoding="utf-8")
    with pytest.raises(EventformersError, match="was not written by eventformers"):
        build_dataset("event_similarity", data_dir=raw, output=notes)
    assert contents(notes) == {"README.md": b"mine\n"}
    with pytest.raises(EventformersError, match="is a file"):
        build_dataset("event_similarity", data_dir=raw, output=notes / "README.md")


def test_raw_files_are_checked_where_they_are_read(raw: Path, tmp_path: Path) -> None:
    """A built dataset has no raw files, and what does not exist may be on the Hub."""
    built = build_dataset("event_similarity", "hard", raw, tmp_path / "built")
    for data in (raw, built, "nobody/frames"):
        check_raw_files(data, "event_similarity", "hard")
    for data in (raw, f"{raw}{os.pathsep}{raw}"):
        with pytest.raises(EventformersError, match="no raw file for event_types, config frames"):
            check_raw_files(data, "event_types", "frames")
    with pytest.raises(UnknownNameError, match=r"unknown config of .*built 'frames'"):
        check_raw_files(built, "event_types", "frames")


def test_names_that_are_unknown_or_absent_are_told(raw: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'event_chains'"):
        build_dataset("event_chain", output=tmp_path / "out")
    folder = build_dataset("event_similarity", "hard", raw, tmp_path / "out")
    with pytest.raises(UnknownNameError, match="transitive"):
        load_built(folder, "transitive")
    with pytest.raises(EventformersError, match="no dataset at"):
        load_built(tmp_path / "nowhere", "hard")
    with pytest.raises(EventformersError, match="no raw data at"):
        build_dataset("event_similarity", "hard", tmp_path / "nowhere", tmp_path / "new")
    with pytest.raises(EventformersError, match="no folder some/where"):
        load_built("some/where", "hard")
    assert not (tmp_path / "new").exists()


def test_other_settings_than_those_of_a_built_folder_are_told(tmp_path: Path) -> None:
    folder = build_dataset("event_chains", "cooccurrence", output=tmp_path / "out", window=5)
    with pytest.warns(UserWarning, match="window=5 and not 7"):
        load_built(folder, "cooccurrence", window=7)


@pytest.mark.filterwarnings("error")
def test_the_same_settings_in_another_order_are_not_told(tmp_path: Path) -> None:
    excluded = {"exclude_predicates": ["reporting", "be"]}
    folder = build_dataset("event_chains", "cooccurrence", output=tmp_path / "out", **excluded)
    load_built(folder, "cooccurrence", **excluded)


def test_a_list_of_what_can_be_built() -> None:
    entries = {(entry["name"], entry["config"]): entry for entry in list_datasets()}
    assert entries["event_chains", "cooccurrence"]["columns"] == ["event", "co_events", "frequencies"]
    assert "window" in entries["event_chains", "cooccurrence"]["settings"]
    assert entries["event_similarity", "hard_extended"]["raw_files"].startswith("hard_extend.txt")


def test_a_fingerprint_covers_the_code_that_the_builder_imports(tmp_path: Path) -> None:
    modules = {
        builder.NAME: {
            module.__name__.rpartition(".")[2] for module in builder(cache_dir=tmp_path)._modules()
        }
        for builder in BUILDERS.values()
    }
    assert all({"base", "events", "malformed", "lines"} <= names for names in modules.values())
    assert {"event_chains", "cooccurrence", "chains", "chain_readers", "tables"} <= modules["event_chains"]
    assert {"mention_reader", "frame_reader"} <= modules["event_types"]
    assert {"hierarchy_readers", "document_splits"} <= modules["event_hierarchies"]
    assert "relation_templates" in modules["commonsense_graphs"]
    assert not {"building", "dataset_card"} & set().union(*modules.values())


def test_the_fingerprint_of_rows_sees_values_alone() -> None:
    rows = {
        "text": ["a", "bc", None],
        "numbers": [[1], [], [2, 3]],
        "event": [{"s": "x", "p": 0.5}, {"s": "", "p": 1.5}, {"s": "é", "p": None}],
    }
    whole = Dataset.from_dict(rows)
    digest = dataset_fingerprint(whole)
    parts = [whole.select([index]) for index in range(3)]
    assert dataset_fingerprint(datasets.concatenate_datasets(parts)) == digest
    assert dataset_fingerprint(whole.select([2, 1, 0]).select([2, 1, 0])) == digest
    assert dataset_fingerprint(whole.select([1, 0, 2])) != digest
    changed = {**rows, "text": ["ab", "c", None]}
    assert dataset_fingerprint(Dataset.from_dict(changed)) != digest
    moved = {**rows, "numbers": [[1], [2], [3]]}
    assert dataset_fingerprint(Dataset.from_dict(moved)) != digest
    assert dataset_fingerprint(DatasetDict({"test": whole})) != dataset_fingerprint(
        DatasetDict({"train": whole})
    )


@pytest.mark.parametrize("row_group", [1_500, 4_096, 20_000])
def test_the_fingerprint_of_a_file_is_that_of_its_rows(row_group: int, tmp_path: Path) -> None:
    numbers = range(10_000)
    rows = Dataset.from_dict(
        {
            "text": [None if number % 7 == 0 else f"é{number}" for number in numbers],
            "parts": [[{"s": str(number), "p": number / 3}] * (number % 3) for number in numbers],
        }
    )
    path = tmp_path / "rows.parquet"
    pq.write_table(rows.data.table, path, row_group_size=row_group)
    assert parquet_fingerprint(path) == dataset_fingerprint(rows)
    pq.write_table(rows.data.table.slice(1), path, row_group_size=row_group)
    assert parquet_fingerprint(path) != dataset_fingerprint(rows)


def test_a_folder_of_built_datasets_is_data_of_each(tmp_path: Path) -> None:
    build_dataset("event_similarity", "hard", output=tmp_path / "event_similarity")
    rows = load_built(tmp_path, "hard", builder="event_similarity")
    assert rows["test"].to_list() == load_built(None, "hard", builder="event_similarity")["test"].to_list()
    assert built_report(tmp_path, "hard", builder="event_similarity")["rows"] == len(rows["test"])
    with pytest.raises(EventformersError, match="found the datasets event_similarity, but not event_chains"):
        load_built(tmp_path, "chains", builder="event_chains")


@pytest.mark.parametrize("path", ["/train.parquet", "../other/train.parquet", "events.csv"])
def test_a_card_names_only_parquet_files_of_its_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "README.md").write_text(
        f"---\nconfigs:\n- config_name: documents\n  data_files:\n  - split: train\n    path: {path}\n---\n"
    )
    with pytest.raises(DataFormatError, match=r"README\.md: found the files .*; accepted: Parquet files in"):
        load_built(tmp_path, "documents")


def test_raw_data_may_have_a_card_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("---\nconfigs:\n- config_name: default\n  data_files: a.csv\n---\n")
    (tmp_path / "a.csv").write_text("document_id,subject,predicate,object\na,s,p,o\n")
    assert len(load_built(tmp_path, "documents")["train"]) == 1


def test_the_card_describes_the_data_as_push_to_hub_does(tmp_path: Path) -> None:
    folder = build_dataset("commonsense_qa", ["copa", "siqa"], output=tmp_path / "built")
    data = DatasetCard.load(folder / "README.md").data
    infos = DatasetInfosDict.from_dataset_card_data(data)
    for config in ("copa", "siqa"):
        loaded = load_dataset(str(folder), config, cache_dir=str(tmp_path / "cache"))
        assert infos[config].features == next(iter(loaded.values())).features
        rows = {split: info.num_examples for split, info in infos[config].splits.items()}
        assert rows == {split: one.num_rows for split, one in loaded.items()}
        assert infos[config].download_size == sum(
            path.stat().st_size for path in (folder / config).glob("*.parquet")
        )
    assert (data.size_categories, data.task_categories) == (["n<1K"], ["multiple-choice"])


@pytest.mark.parametrize(
    ("rows", "category"),
    [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (10**6, "1M<n<10M"), (10**12, "n>1T")],
)
def test_size_categories_of_the_hub(rows: int, category: str) -> None:
    split = {"rows": rows, "rows_fingerprint": "", "read": {}, "skipped": {}, "statistics": {}}
    lists = {"licenses": [], "raw_files": [], "settings": {}, "sources": {}}
    report = {"config": "copa", "sample": False, "rows": rows, "splits": {"test": split}, **lists}
    assert f"size_categories:\n- {category}\n" in dataset_card(
        BUILDERS["commonsense_qa"], {"copa": report}, {}
    )


def test_every_builder_has_a_task_category() -> None:
    assert all(builder.TASK_CATEGORIES for builder in BUILDERS.values())


def test_a_built_dataset_names_the_tasks_that_score_it(raw, tmp_path):
    folder = eventformers.build_dataset("event_similarity", data_dir=raw, output=tmp_path / "built")
    content = yaml.safe_load((folder / "eval.yaml").read_text(encoding="utf-8"))
    builder = BUILDERS["event_similarity"]
    assert content == {
        "name": builder.TITLE,
        "description": builder.SUMMARY,
        "evaluation_framework": "eventformers",
        "tasks": [
            {"id": "hard_similarity", "config": "hard", "split": "test"},
            {"id": "transitive_similarity", "config": "transitive", "split": "test"},
        ],
    }
    for task in content["tasks"]:
        assert TASKS[task["id"]].config == task["config"]
        assert task["split"] in build_reports(folder)[task["config"]]["splits"]


def test_a_config_that_is_built_later_adds_its_tasks(raw, tmp_path):
    for config in ("transitive", "hard"):
        folder = eventformers.build_dataset("event_similarity", config, raw, tmp_path / "built")
    content = yaml.safe_load((folder / "eval.yaml").read_text(encoding="utf-8"))
    assert [task["config"] for task in content["tasks"]] == ["hard", "transitive"]


def test_samples_are_no_benchmark(tmp_path):
    folder = eventformers.build_dataset("event_similarity", "hard", output=tmp_path / "built")
    assert not (folder / "eval.yaml").exists()


def reports(builder: str, configs: dict[str, list[str]]) -> Reports:
    """The build reports of a dataset, as far as they decide on its tasks."""
    return {
        config: {"builder": builder, "sample": False, "splits": {split: {} for split in splits}}
        for config, splits in configs.items()
    }


def tasks_of(files: dict[str, str]) -> list[tuple[str, str, str]]:
    tasks = yaml.safe_load(files["eval.yaml"])["tasks"]
    return [(task["id"], task["config"], task["split"]) for task in tasks]


def test_several_tasks_of_one_config_have_ids_of_their_own():
    place = reports("event_chains", {"multistep": ["train", "validation"]})
    assert tasks_of(benchmark_file(place)) == [
        (name, "multistep", "validation") for name in ("mcns_v", "mcne_v", "multistep_base", "multistep_sky")
    ]


def test_a_task_needs_its_companions_and_takes_other_configs():
    mentions = reports("event_types", {"ace2005": ["train"]})
    assert tasks_of(benchmark_file(mentions)) == [
        ("type_induction", "ace2005", "train"),
        ("type_naming", "ace2005", "train"),
    ]
    both = reports("event_types", {"mentions": ["train"], "frames": ["train"]})
    assert tasks_of(benchmark_file(both))[-1] == ("frame_linking", "mentions", "train")


def test_training_rows_alone_are_no_benchmark():
    place = reports("event_chains", {"mcnc": ["train"], "cooccurrence": ["test"]})
    assert benchmark_file(place) == {}
