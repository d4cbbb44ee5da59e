"""Documents and co-occurrence from raw files to rows."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pytest

from eventformers.datasets_scripts import build_dataset, built_report, load_built
from eventformers.datasets_scripts.event_chains import EventChains
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A folder with documents of three sources and a cloze file."""
    folder = tmp_path / "raw"
    folder.mkdir()
    documents = [
        {
            "source": "wikinews",
            "events": [["army", "took", "city"], ["he", "said", ""], ["people", "fled", ""]],
        },
        {
            "source": "brown",
            "events": [["army", "took", "city"], ["people", "fled", ""], ["he", "saw", "it"]],
        },
        {"source": "brown", "events": []},
        {"source": "brown", "events": [["--", "*", ""]]},
    ]
    lines = "".join(json.dumps(document) + "\n" for document in documents)
    (folder / "events.jsonl").write_text(lines, encoding="utf-8")
    (folder / "mcnc_dev.txt").write_text(
        "rain|fell|\nriver|rose|\nHOLDOUT_SEP\na|b|c\nNEG_SEP\nd|e|f\nDOC_SEP\n", encoding="utf-8"
    )
    (folder / "README.md").write_text("# Not data\n", encoding="utf-8")
    return folder


def test_documents_keep_order_source_and_licence(raw: Path) -> None:
    rows = load_built(raw, "documents")["train"]
    assert rows.column_names == ["document_id", "source", "license", "events"]
    assert [(row["document_id"], row["source"], row["license"]) for row in rows] == [
        ("events/1", "wikinews", "CC-BY-2.5"),
        ("events/2", "brown", "research-only"),
        ("mcnc_dev/0", "mcnc_dev", "Apache-2.0"),
    ]
    assert [event["predicate"] for event in rows[0]["events"]] == ["took", "said", "fled"]
    report = built_report(raw, "documents")
    assert report["read"] == {"documents": 5, "events": 9}
    assert report["skipped"] == {
        "cloze_held_out_event": 1,
        "cloze_wrong_candidate": 1,
        "document_without_events": 1,
        "document_without_kept_events": 1,
        "event_without_letters_or_digits": 1,
    }
    assert report["sources"] == {
        "brown": {"license": "research-only", "documents": 1, "events": 3},
        "mcnc_dev": {"license": "Apache-2.0", "documents": 1, "events": 2},
        "wikinews": {"license": "CC-BY-2.5", "documents": 1, "events": 3},
    }


def test_cooccurrence_counts_documents(raw: Path) -> None:
    rows = load_built(raw, "cooccurrence")["train"]
    assert rows.column_names == ["event", "co_events", "frequencies"]
    by_subject = {row["event"]["subject"]: row for row in rows if row["event"]["predicate"] != "said"}
    assert [event["predicate"] for event in by_subject["army"]["co_events"]] == ["fled", "said", "saw"]
    assert by_subject["army"]["frequencies"] == [2, 1, 1]
    statistics = built_report(raw, "cooccurrence")["statistics"]
    assert isinstance(statistics, dict)
    assert (statistics["minimum_pair_frequency"], statistics["maximum_pair_frequency"]) == (1, 2)


@pytest.mark.parametrize(
    ("settings", "subjects"),
    [
        ({"exclude_source": ["brown", "mcnc_dev"]}, [["army", "he", "people"]]),
        ({"exclude_source": "mcnc_dev,brown"}, [["army", "he", "people"]]),
        ({"open_licenses_only": True}, [["army", "he", "people"], ["rain", "river"]]),
        (
            {"exclude_predicates": ["reporting", "rose"]},
            [["army", "people"], ["army", "people", "he"], ["rain"]],
        ),
        ({"drop_pronoun_only": True}, [["army", "people"], ["army", "people"], ["rain", "river"]]),
    ],
)
def test_filters(raw: Path, settings: dict[str, object], subjects: list[list[str]]) -> None:
    rows = load_built(raw, "documents", **settings)["train"]
    assert [[event["subject"] for event in row["events"]] for row in rows] == subjects
    skipped = built_report(raw, "documents", **settings)["skipped"]
    assert skipped != built_report(raw, "documents")["skipped"]


def test_several_folders_and_single_files(raw: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"source": "mine", "events": [["a", "b", "c"]]}\n', encoding="utf-8")
    rows = load_built([raw, other], "documents")["train"]
    assert rows.unique("source") == ["wikinews", "brown", "mcnc_dev", "mine"]
    assert load_built(other, "documents")["train"].unique("source") == ["mine"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"windw": 3}, "Did you mean 'window'?"),
        ({"window": 0}, "setting window: found 0; accepted: a whole number of 1 or more, or null"),
        ({"min_event_frequency": None}, "found None; accepted: a whole number of 1 or more"),
        ({"max_co_events": "many"}, "found 'many'"),
        ({"memory_limit": "much"}, "setting memory_limit"),
        ({"predicate_form": "lema"}, "Did you mean 'lemma'?"),
        ({"exclude_source": ["wikinew"]}, "Did you mean 'wikinews'?"),
        ({"drop_pronoun_only": "yes"}, "accepted: true or false"),
        (
            {"exclude_source": ["wikinews", "brown", "mcnc_dev"]},
            "no rows left from events.jsonl, mcnc_dev.txt",
        ),
    ],
)
def test_bad_settings_say_what_is_accepted(raw: Path, settings: dict[str, object], message: str) -> None:
    with pytest.raises(EventformersError, match=re.escape(message)):
        build_dataset("event_chains", "documents", raw, raw.parent / "out", **settings)


def test_data_without_lemmas_are_told(tmp_path: Path) -> None:
    events = [{"subject": "she", "predicate": "brings", "object": "it"}]
    data = tmp_path / "mine.jsonl"
    for lemma in ({}, {"lemma": ""}):
        data.write_text(json.dumps({"events": [{**events[0], **lemma}]}) + "\n", encoding="utf-8")
        with pytest.warns(UserWarning, match="no event has a lemma, so predicate_form=lemma keeps pred"):
            build_dataset(
                "event_chains", "documents", data, tmp_path / str(len(lemma)), predicate_form="lemma"
            )
    events.append({**events[0], "lemma": "bring"})
    data.write_text(json.dumps({"events": events}) + "\n", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_dataset("event_chains", "documents", data, tmp_path / "some", predicate_form="lemma")


def test_too_little_memory_is_told(raw: Path) -> None:
    with pytest.raises(EventformersError, match="a higher memory_limit"):
        build_dataset("event_chains", "cooccurrence", raw, raw.parent / "out", memory_limit="1KB")


def test_a_fault_in_the_middle_is_told_as_itself(raw: Path) -> None:
    with (raw / "events.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"events": [["", "", ""]]}\n')
    with pytest.raises(DataFormatError, match="line 5: found an event without any word"):
        EventChains("documents", data_dir=raw, cache_dir=raw.parent / "cache").download_and_prepare()


def test_a_folder_without_raw_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="no raw file for event_chains"):
        load_built(tmp_path, "documents")
    with pytest.raises(UnknownNameError, match="unknown config"):
        load_built(tmp_path, "document")
