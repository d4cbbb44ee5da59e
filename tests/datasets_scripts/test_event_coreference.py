"""Mentions of events with their chains, from ECB+ as published."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.datasets_scripts.reading.test_ecbplus import DOCUMENT, folder_of

from eventformers.datasets_scripts import build_dataset, build_reports, load_built
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.datasets_scripts.event_coreference import EventCoreference
from eventformers.datasets_scripts.reading.ecbplus import SENTENCE_LIST
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation import evaluate


def test_a_mention_has_its_sentence_chain_and_participants(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    expected = {
        "mention_id": "3_1ecbplus#4",
        "document_id": "3_1ecbplus",
        "topic": "3",
        "subtopic": "3ecbplus",
        "cluster_id": "3_1ecbplus#8",
        "sentence": 0,
        "text": "Ann was taken her out",
        "trigger": "taken out",
        "trigger_start": 8,
        "trigger_end": 21,
        "kind": "ACTION_OCCURRENCE",
        "participants": [{"text": "Ann", "kind": "HUMAN_PART_PER"}, {"text": "was", "kind": "TIME_DATE"}],
        "source": "ecbplus",
        "license": "CC-BY-3.0",
    }
    for given in (tmp_path, folder):
        built = load_built(given, "mentions", builder="event_coreference")
        assert {split: rows.to_list() for split, rows in built.items()} == {"train": [expected]}


def test_a_mention_without_others_has_a_chain_of_its_own(tmp_path: Path) -> None:
    folder_of(tmp_path, DOCUMENT.replace('<source m_id="4"/>', ""))
    (row,) = load_built(tmp_path, "mentions", builder="event_coreference")["train"]
    assert row["cluster_id"] == row["mention_id"]


def test_sentences_that_are_not_listed_are_counted(tmp_path: Path) -> None:
    folder_of(tmp_path, sentences="3,1ecbplus,1\n3,1ecbplus,0\n")
    more = DOCUMENT.replace('sentence="1" number="0"', 'sentence="2" number="0"').replace(
        'HUMAN_PART_PER m_id="8"><token_anchor t_id="9"/></HUMAN_PART_PER',
        'ACTION_STATE m_id="8"><token_anchor t_id="9"/></ACTION_STATE',
    )
    (tmp_path / "ECB+" / "3" / "3_1ecbplus.xml").write_text(more, encoding="utf-8")
    folder = build_dataset("event_coreference", data_dir=tmp_path, output=tmp_path / "out")
    report = build_reports(folder)["mentions"]
    assert report["read"]["mentions"] == 2
    assert report["skipped"] == {"mention_in_a_sentence_not_listed": 1}


def test_the_list_of_sentences_is_needed(tmp_path: Path) -> None:
    folder_of(tmp_path)
    (tmp_path / SENTENCE_LIST).unlink()
    with pytest.raises(EventformersError, match=r"no raw file .* with ECBplus_coreference_sentences\.csv"):
        EventCoreference("mentions", data_dir=tmp_path)


def test_what_is_not_ecbplus_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.xml").write_text("<notes/>", encoding="utf-8")
    with pytest.raises(EventformersError, match=r"no raw file .* accepted: ECB\+\.zip or the folder ECB\+"):
        EventCoreference("mentions", data_dir=tmp_path)


def test_own_mentions_need_little(tmp_path: Path) -> None:
    rows = [
        {"text": "Ann ran and ran.", "trigger": "ran", "cluster_id": "a", "document_id": "x", "id": "1"},
        {"text": "Bo fell.", "trigger": "fell", "cluster_id": None, "document_id": "x", "id": "1"},
        {"text": "Ann ran and ran.", "trigger_start": 12, "trigger_end": 15, "cluster_id": 7},
    ]
    for name, number in (("train", 0), ("dev", 1), ("mentions.test", 2)):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(f"{json.dumps(row)}\n" for row in rows[: number + 1]), encoding="utf-8"
        )
    built = load_built(tmp_path, "mentions", builder="event_coreference")
    assert {split: len(of_split) for split, of_split in built.items()} == {
        "train": 1,
        "validation": 2,
        "test": 3,
    }
    columns = ("mention_id", "cluster_id", "document_id", "sentence", "trigger", "trigger_start", "source")
    assert [tuple(row[name] for name in columns) for row in built["test"]] == [
        ("1", "a", "x", 0, "ran", 4, "mentions.test"),
        ("1#2", "1#2", "x", 1, "fell", 3, "mentions.test"),
        ("mentions.test/3", "7", "", 0, "ran", 12, "mentions.test"),
    ]
    report = build_reports(build_dataset("event_coreference", data_dir=tmp_path, output=tmp_path / "out"))
    statistics = report["mentions"]["splits"]["test"]["statistics"]
    assert (statistics["chains"], statistics["mentions_with_repeated_id"]) == (3, 1)


def test_samples_have_all_splits_and_chains_across_documents() -> None:
    built = load_built(None, "mentions", builder="event_coreference")
    assert {split: len(rows) for split, rows in built.items()} == {"train": 18, "validation": 17, "test": 19}
    for rows in built.values():
        chains = {(row["cluster_id"], row["document_id"]) for row in rows}
        assert max(Counter(chain for chain, _ in chains).values()) == 2
        for row in rows:
            assert row["text"][row["trigger_start"] :].startswith(row["trigger"].split()[0])


def test_the_published_archive_has_the_counted_mentions(tmp_path: Path, shared_data: Path) -> None:
    folder = build_dataset("event_coreference", data_dir=shared_data / "ecbplus", output=tmp_path)
    rows = {name: split["rows"] for name, split in build_reports(folder)["mentions"]["splits"].items()}
    # The topics of the test are not part of this archive.
    assert rows == {"train": 3_808, "validation": 1_245}


WEC = SAMPLES / "coreference" / "wec"


def test_mentions_of_wec_have_their_paragraph(tmp_path: Path) -> None:
    [(split, rows)] = load_built(WEC, "mentions", builder="event_coreference").items()
    assert (split, len(rows), len(set(rows["cluster_id"]))) == ("test", 10, 4)
    published = json.loads((WEC / "Test_Event_gold_mentions_validated.json").read_text(encoding="utf-8"))
    for row, mention in zip(rows, published, strict=True):
        assert row["text"].split(" ") == mention["mention_context"]
        assert row["text"][row["trigger_start"] : row["trigger_end"]] == row["trigger"]
        assert row["trigger"] == mention["tokens_str"]
        assert (row["document_id"], row["topic"]) == (mention["doc_id"], "")
    assert rows[0]["license"] == "Apache-2.0"
    for name in ("Train_Event_gold_mentions", "Dev_Event_gold_mentions_validated"):
        (tmp_path / f"{name}.json").write_text(json.dumps(published[:3]), encoding="utf-8")
    (tmp_path / "All_Event_gold_mentions_unfiltered.json").write_text("[", encoding="utf-8")
    built = load_built(tmp_path, "mentions", builder="event_coreference")
    assert {name: len(rows) for name, rows in built.items()} == {"train": 3, "validation": 3}
    assert {*built["train"]["source"], *built["train"]["license"]} == {"wec_eng", "CC-BY-SA-3.0"}
    # Three mentions of one event.
    assert (
        evaluate(
            None,
            "event_coreference",
            data=tmp_path,
            split="validation",
            baseline=False,
            settings={"topics": "none", "threshold": 0.01},
        ).scores["conll_f1"]
        > 0
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "tokens_number",
            [40],
            "tokens_number=\\[40\\]; accepted: one or more places in mention_context, 0 to 20",
        ),
        ("tokens_number", [1.0], "tokens_number="),
        ("tokens_number", [True], "tokens_number="),
        ("coref_chain", True, "coref_chain="),
        ("tokens_number", [], "tokens_number"),
        ("mention_context", "a text", "a list of tokens"),
        ("coref_chain", None, "a whole number"),
    ],
)
def test_a_malformed_mention_of_wec_is_named(key: str, value: object, message: str, tmp_path: Path) -> None:
    mentions = json.loads((WEC / "Test_Event_gold_mentions_validated.json").read_text(encoding="utf-8"))
    mentions[1] = {**mentions[0], key: value}
    path = tmp_path / "Train_Event_gold_mentions.json"
    path.write_text(json.dumps(mentions), encoding="utf-8")
    with pytest.raises(DataFormatError, match=f"line 2: .*{message}"):
        load_built(tmp_path, "mentions", builder="event_coreference")
    built = load_built(tmp_path, "mentions", builder="event_coreference", malformed="skip")
    assert len(built["train"]) == 9
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(DataFormatError, match="accepted: a list of mentions"):
        load_built(tmp_path, "mentions", builder="event_coreference")
