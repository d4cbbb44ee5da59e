"""Chains and questions from raw files to rows: splits, seeds, distractors, bad input."""

from __future__ import annotations

import gzip
import json
import re
import warnings
from itertools import chain as joined
from itertools import islice
from pathlib import Path

import pytest
from datasets import DatasetDict

from eventformers.datasets_scripts import build_dataset, built_report, dataset_fingerprint, load_built
from eventformers.datasets_scripts.base import NoRowsError
from eventformers.datasets_scripts.chains import CHOICES, event_key
from eventformers.datasets_scripts.event_chains import EventChainsConfig
from eventformers.datasets_scripts.events import Event
from eventformers.errors import DataFormatError, EventformersError

CONFIGS = ("chains", "mcnc", "multistep")
SPLITS = ["train", "validation", "test"]
DOCUMENTS = 100


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents about two people each, 16 events; every tenth occurs twice."""
    folder = tmp_path_factory.mktemp("raw")
    lines = []
    for number in range(DOCUMENTS):
        hero, friend = f"hero{number % 40}", f"friend{number % 40}"
        events = [
            [hero if n % 3 else friend, f"verb{number}-{n}", friend if n % 5 == 1 else f"thing{n}"]
            for n in range(16)
        ]
        document = {"document_id": f"d{number}", "source": "wikinews", "events": events}
        lines.append(document)
        if number % 10 == 0:
            lines.append({**document, "document_id": f"copy{number}"})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "events.jsonl").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def built(raw: Path) -> dict[str, DatasetDict]:
    return {config: load_built(raw, config) for config in CONFIGS}


def events_of_choices(row: dict) -> list[list[Event]]:
    return [row["choices"]] if "choices" in row else row["steps"]


def test_no_document_is_in_two_splits(built: dict[str, DatasetDict]) -> None:
    place: dict[str, str] = {}
    for config in CONFIGS:
        assert list(built[config]) == SPLITS
        for split, rows in built[config].items():
            for document_id in rows["document_id"]:
                assert place.setdefault(document_id, split) == split
    assert len(place) == DOCUMENTS


def test_of_a_document_told_twice_one_stays(raw: Path, built: dict[str, DatasetDict]) -> None:
    documents = {name for rows in built["chains"].values() for name in rows["document_id"]}
    for number in range(0, DOCUMENTS, 10):
        assert len({f"d{number}", f"copy{number}"} & documents) == 1
    assert built_report(raw, "chains")["skipped"]["document_repeated"] == DOCUMENTS // 10


def test_the_splits_of_real_documents_share_none(shared_data: Path, tmp_path: Path) -> None:
    with gzip.open(shared_data / "chains" / "events.jsonl.gz", "rt", encoding="utf-8") as stream:
        (tmp_path / "events.jsonl").write_text("".join(islice(stream, 0, 19_000, 10)), encoding="utf-8")
    chains, questions = load_built(tmp_path, "chains"), load_built(tmp_path, "multistep")
    places: dict[str, set[str]] = {}
    for split in SPLITS:
        assert chains[split]["chain_id"] == questions[split]["chain_id"]
        places[split] = set(chains[split]["document_id"])
        keys = {row["chain_id"]: {event_key(event) for event in row["events"]} for row in chains[split]}
        for row in questions[split]:
            for choices, label in zip(row["steps"], row["labels"], strict=True):
                same = [event_key(choice) in keys[row["chain_id"]] for choice in choices]
                assert same == [place == label for place in range(CHOICES)]
    assert min(map(len, places.values())) > 50
    assert sum(map(len, places.values())) == len(set.union(*places.values()))


def test_questions_are_made_of_the_first_events_of_a_chain(built: dict[str, DatasetDict]) -> None:
    chains = {row["chain_id"]: row["events"] for rows in built["chains"].values() for row in rows}
    for rows in built["mcnc"].values():
        for row in rows:
            events = chains[row["chain_id"]]
            assert [*row["context"], row["choices"][row["label"]]] == events[:9]
            assert len(row["choices"]) == CHOICES
    for rows in built["multistep"].values():
        for row in rows:
            steps = [choices[label] for choices, label in zip(row["steps"], row["labels"], strict=True)]
            assert [row["start"], *steps] == chains[row["chain_id"]][:5]


@pytest.mark.parametrize("config", ["mcnc", "multistep"])
def test_distractors_are_of_the_same_split_and_never_of_the_chain(
    built: dict[str, DatasetDict], raw: Path, config: str
) -> None:
    documents = load_built(raw, "documents")["train"]
    predicates = {row["document_id"]: {event["predicate"] for event in row["events"]} for row in documents}
    for split, rows in built[config].items():
        chains = {row["chain_id"]: row["events"] for row in built["chains"][split]}
        known = set.union(*(predicates[name] for name in built["chains"][split]["document_id"]))
        for row in rows:
            keys = {event_key(event) for event in chains[row["chain_id"]]}
            for choices in events_of_choices(row):
                assert len({event_key(choice) for choice in choices}) == CHOICES
                assert sum(event_key(choice) in keys for choice in choices) == 1
                assert {choice["predicate"] for choice in choices} <= known


def test_questions_have_no_shortcuts_by_default() -> None:
    config = EventChainsConfig(name="mcnc")
    assert (config.distractor_source, config.max_chain_events) == ("same", 50)
    assert config.exclude_protagonists == ("nobody",)


def test_distractors_are_of_the_same_source(raw: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (raw / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    for place, line in enumerate(lines):
        source = ("wikinews", "gutenberg")[place % 2]
        line["source"] = source
        line["events"] = [[subject, f"{source} {verb}", other] for subject, verb, other in line["events"]]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    other_source = {}
    for name in ("same", "any"):
        rows = load_built(tmp_path, "multistep", distractor_source=name)["train"]
        other_source[name] = sum(
            choice["predicate"].split()[0] != row["source"]
            for row in rows
            for choices in row["steps"]
            for choice in choices
        )
    assert other_source["same"] == 0 < other_source["any"]


def test_the_protagonist_fills_the_choices(raw: Path) -> None:
    rows = load_built(raw, "multistep", distractor_argument="protagonist")["train"]
    for row in rows:
        protagonist = row["chain_id"].split("/")[1]
        for choices in row["steps"]:
            assert all(protagonist in (choice["subject"], choice["object"]) for choice in choices)


@pytest.mark.parametrize("config", CONFIGS)
def test_the_same_seeds_give_the_same_bytes_and_others_other_rows(
    raw: Path, tmp_path: Path, config: str
) -> None:
    def parquet(name: str, **settings: object) -> list[bytes]:
        folder = build_dataset("event_chains", config, raw, tmp_path / name, **settings)
        return [path.read_bytes() for path in sorted(folder.glob("*/*.parquet"))]

    first = parquet("one")
    assert len(first) == 3
    assert first == parquet("two")
    assert first != parquet("three", split_seed=14)
    assert (first == parquet("four", distractor_seed=14)) == (config == "chains")


@pytest.mark.parametrize("config", ["mcnc", "multistep"])
def test_rows_do_not_depend_on_the_order_of_documents(
    raw: Path, built: dict[str, DatasetDict], tmp_path: Path, config: str
) -> None:
    lines = (raw / "events.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "b.jsonl").write_text("".join(lines[: DOCUMENTS // 2][::-1]), encoding="utf-8")
    (tmp_path / "a.jsonl").write_text("".join(lines[DOCUMENTS // 2 :]), encoding="utf-8")
    other = load_built(tmp_path, config)
    for split in SPLITS:
        assert dataset_fingerprint(other[split]) != dataset_fingerprint(built[config][split])
        rows, others = (
            sorted(each[split], key=lambda row: row["chain_id"]) for each in (built[config], other)
        )
        assert rows == others


def test_windows_and_shares_are_settings(raw: Path) -> None:
    alone = {"validation_share": 0, "test_share": 1.0}
    first = load_built(raw, "multistep", **alone)
    assert list(first) == ["test"]
    every = load_built(raw, "multistep", **alone, first_window_only=False)["test"]
    assert len(first["test"]) < len(every)
    assert built_report(raw, "mcnc")["skipped"]["chain_too_short_for_a_question"] == DOCUMENTS


def test_chains_of_a_raw_file_are_taken_as_they_are(
    raw: Path, built: dict[str, DatasetDict], tmp_path: Path
) -> None:
    rows = list(joined.from_iterable(built["chains"].values()))
    (tmp_path / "events.jsonl").write_bytes((raw / "events.jsonl").read_bytes())
    (tmp_path / "chains.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    chains = load_built(tmp_path, "chains")
    for split in SPLITS:
        assert dataset_fingerprint(chains[split]) == dataset_fingerprint(built["chains"][split])
    report = built_report(tmp_path, "chains")
    assert report["read"] == {"chains": len(rows), "events": sum(len(row["events"]) for row in rows)}
    questions = load_built(tmp_path, "mcnc")
    assert questions["test"]["context"] == built["mcnc"]["test"]["context"]
    # The same folder gives its documents once.
    assert len(load_built(tmp_path, "documents")["train"]) == DOCUMENTS * 11 // 10


def test_filters_come_before_chains(raw: Path) -> None:
    rows = load_built(raw, "chains", exclude_predicates="verb0-1")
    first = next(row for split in rows.values() for row in split if row["chain_id"].endswith("0/hero0"))
    assert first["events"][0]["predicate"] != "verb0-1"


def test_bad_chains_are_counted_or_told(tmp_path: Path) -> None:
    good = [["man", f"did {n}", ""] for n in range(6)]
    rows = [
        {"chain_id": "good", "protagonist": "man", "events": good},
        {"chain_id": "one", "protagonist": "man", "events": [["man", "ran", ""]]},
        {"chain_id": "equal", "protagonist": "man", "events": [["man", "ran", ""]] * 9},
        {"chain_id": "silent", "protagonist": "man", "events": [["--", "*", ""]] * 9},
        {"protagonist": "man", "events": []},
    ]
    path = tmp_path / "chains.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    alone = {"validation_share": 0, "test_share": 0}
    assert load_built(path, "chains", **alone)["train"]["chain_id"] == ["good"]
    assert built_report(path, "chains", **alone)["skipped"] == {
        "chain_below_minimum_length": 2,
        "document_without_events": 1,
        "document_without_kept_events": 1,
        "event_without_letters_or_digits": 9,
    }
    with path.open("a", encoding="utf-8") as stream:
        stream.write('{"chain_id": "x", "events": [["", "", ""]]}\n')
    with pytest.raises(DataFormatError, match="line 6: found an event without any word"):
        load_built(path, "chains", **alone)


def test_a_question_without_distractors_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "chains.jsonl"
    # The pool is the chain itself, and its one argument leaves every event as it is.
    events = [["man", f"did {n}", "man"] for n in range(5)]
    path.write_text(json.dumps({"chain_id": "c", "events": events}) + "\n", encoding="utf-8")
    with pytest.raises(NoRowsError, match="skipped: 1 question_without_distractors"):
        load_built(path, "multistep", validation_share=0, test_share=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_chain_length": 1}, "setting min_chain_length: found 1; accepted: a whole number of 2 or more"),
        ({"test_share": 1.5}, "setting test_share: found 1.5; accepted: a number from 0 to 1"),
        ({"validation_share": "many"}, "setting validation_share: found 'many'"),
        ({"validation_share": 0.6, "test_share": 0.6}, "found 0.6 and 0.6; accepted: a sum of at most 1"),
        ({"first_window_only": 1}, "setting first_window_only: found 1; accepted: true or false"),
        ({"min_chain_length": 50}, "or disable a split with validation_share=0 or test_share=0"),
    ],
)
def test_bad_settings_say_what_is_accepted(
    raw: Path, tmp_path: Path, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(EventformersError, match=re.escape(message)):
        build_dataset("event_chains", "mcnc", raw, tmp_path / "out", **settings)


def test_configs_without_rows_are_left_out_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"events": [["a", "b", "c"], ["d", "e", "f"]]}\n', encoding="utf-8")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        folder = build_dataset("event_chains", data_dir=path, output=tmp_path / "out")
    told = [str(warning.message) for warning in warned if "left out" in str(warning.message)]
    assert [text.split(", ")[1] for text in told] == [f"config {config}" for config in CONFIGS]
    assert sorted(item.name for item in folder.iterdir()) == ["README.md", "cooccurrence", "documents"]


def test_cloze_files_are_questions_as_they_are(tmp_path: Path) -> None:
    item = "a|b|c\nHOLDOUT_SEP\nd|e|f\nNEG_SEP\nx|y|z\nu|v|w\nDOC_SEP\n"
    for name in ("mcnc_dev.txt", "mcnc_test.txt", "cmcnc_dev.txt"):
        (tmp_path / name).write_text(item * 3, encoding="utf-8")
    rows = load_built(tmp_path, "variable_mcnc")
    assert list(rows) == ["validation", "test"]
    assert rows["validation"]["item_id"] == ["mcnc_dev/0", "mcnc_dev/1", "mcnc_dev/2"]
    assert set(rows["test"]["license"]) == {"Apache-2.0"}
    for row in rows["validation"]:
        assert row["choices"][row["label"]]["predicate"] == "e"
        assert len(row["choices"]) == 3
    assert list(load_built(tmp_path, "coherent_mcnc")) == ["validation"]
    with pytest.raises(EventformersError, match="no raw file for event_chains, config chains"):
        load_built(tmp_path, "chains")
    (tmp_path / "mcnc_dev.txt").write_text("a|b|c\nHOLDOUT_SEP\nd|e|f\nNEG_SEP\nDOC_SEP\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match=r"mcnc_dev.txt, line 5: found an item with one choice"):
        load_built(tmp_path, "variable_mcnc")


def test_the_published_items(shared_data: Path) -> None:
    variable = load_built(shared_data / "mcnc", "variable_mcnc")["validation"]
    coherent = load_built(shared_data / "mcnc", "coherent_mcnc")["validation"]
    assert (len(variable), len(coherent)) == (2000, 71)
    assert {len(choices) for choices in coherent["choices"]} == {6}
    report = built_report(shared_data / "mcnc", "variable_mcnc")
    assert report["statistics"]["random_pick_percent"] == 10.8
    assert report["sources"] == {"mcnc_dev": {"license": "Apache-2.0", "items": 2000}}


def test_documents_of_one_split_are_those_of_its_chains(
    raw: Path, built: dict[str, DatasetDict], tmp_path: Path
) -> None:
    cloze = tmp_path / "mcnc_dev.txt"
    cloze.write_text("|1,2,3,4|a,b,c,d|\n", encoding="utf-8")
    for split in SPLITS:
        rows = load_built([raw, cloze], "documents", document_split=split)["train"]
        assert set(rows["document_id"]) == set(built["chains"][split]["document_id"])
    assert len(set(load_built(raw, "documents")["train"]["document_id"])) == DOCUMENTS * 11 // 10
    events = {event_key(event) for row in rows["events"] for event in row}
    counted = load_built(raw, "cooccurrence", document_split="test")["train"]
    assert {event_key(event) for event in counted["event"]} == events
    with pytest.raises(EventformersError, match="unknown setting document_split"):
        load_built(raw, "documents", document_split="dev")
