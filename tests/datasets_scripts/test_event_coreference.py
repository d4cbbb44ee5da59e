"""Mentions of events with their chains: ECB+ as published and its malformed files, WEC, and one's own."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from zipfile import ZipFile

import pytest

from eventformers.datasets_scripts import build_dataset, build_reports, load_built
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.datasets_scripts.event_coreference import (
    DEVELOPMENT_TOPICS,
    SENTENCE_LIST,
    EcbMention,
    EventCoreference,
    read_ecbplus,
)
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation import evaluate

DOCUMENT = """<Document doc_name="3_1ecbplus.xml" doc_id="D">
<token t_id="1" sentence="0" number="0">Ann</token>
<token t_id="2" sentence="0" number="1">was</token>
<token t_id="3" sentence="0" number="2">taken</token>
<token t_id="5" sentence="0" number="3">her</token>
<token t_id="7" sentence="0" number="4">out</token>
<token t_id="9" sentence="1" number="0">She</token>
<Markables>
<ACTION_OCCURRENCE m_id="4"><token_anchor t_id="3"/><token_anchor t_id="7"/></ACTION_OCCURRENCE>
<HUMAN_PART_PER m_id="6"><token_anchor t_id="1"/></HUMAN_PART_PER>
<HUMAN_PART_PER m_id="8"><token_anchor t_id="9"/></HUMAN_PART_PER>
<TIME_DATE m_id="9"><token_anchor t_id="2"/></TIME_DATE>
<HUMAN_PART_PER m_id="10" RELATED_TO="" TAG_DESCRIPTOR="ann" instance_id="HUM1"/>
</Markables>
<Relations>
<CROSS_DOC_COREF r_id="7" note="HUM1"><source m_id="6"/><source m_id="8"/></CROSS_DOC_COREF>
<INTRA_DOC_COREF r_id="8"><source m_id="4"/><target m_id="11"/></INTRA_DOC_COREF>
</Relations>
</Document>
"""


def folder_of(root: Path, document: str = DOCUMENT, sentences: str = "3,1ecbplus,0 \n") -> Path:
    folder = root / "ECB+"
    (folder / "3").mkdir(parents=True)
    (folder / "3" / "3_1ecbplus.xml").write_text(document, encoding="utf-8")
    (root / SENTENCE_LIST).write_text(f"Topic,File,Sentence Number\n{sentences}", encoding="utf-8-sig")
    return folder


def test_folder_and_archive_are_the_same(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    with ZipFile(tmp_path / "ECB+.zip", "w") as archive:
        archive.write(folder / "3" / "3_1ecbplus.xml", "ECB+/3/3_1ecbplus.xml")
        archive.writestr("ECB+/readme.txt", "no document")
    (document,) = read_ecbplus(folder)
    assert list(read_ecbplus(tmp_path / "ECB+.zip")) == [document]
    assert (document.topic, document.name, document.listed) == ("3", "3_1ecbplus", {0})
    assert document.text == "Ann was taken her out\nShe"
    assert [document.text[start:end] for start, end in document.places] == list(document.tokens)
    assert document.mentions == (
        EcbMention("4", "ACTION_OCCURRENCE", (2, 4), "3_1ecbplus#8"),
        EcbMention("6", "HUMAN_PART_PER", (0,), "HUM1"),
        EcbMention("8", "HUMAN_PART_PER", (5,), "HUM1"),
        EcbMention("9", "TIME_DATE", (1,), ""),
    )
    assert [one.id for one in document.listed_mentions() if one.is_event] == ["4"]
    assert [one.id for one in document.listed_mentions()] == ["4", "6", "9"]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ('t_id="9"/>', 't_id="12"/>', "3_1ecbplus.xml, line 11: found <token_anchor> of the token '12'"),
        ('sentence="1"', 'sentence="x"', "line 7: found a token 'She' of the sentence 'x'"),
        (' m_id="8"', "", "line 11: found <HUMAN_PART_PER> without m_id"),
        ("</Document>", "", "broken XML"),
    ],
)
def test_malformed_documents(tmp_path: Path, old: str, new: str, found: str) -> None:
    with pytest.raises(DataFormatError, match=re.escape(found)):
        list(read_ecbplus(folder_of(tmp_path, DOCUMENT.replace(old, new, 1))))


def test_malformed_list_archive_and_topics(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, sentences="3,1ecbplus,first\n")
    with pytest.raises(DataFormatError, match="line 2: found the sentence 'first'"):
        list(read_ecbplus(folder))
    (tmp_path / SENTENCE_LIST).write_text("Topic,File\n3,1ecbplus\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="no column Sentence Number"):
        list(read_ecbplus(folder))
    (tmp_path / SENTENCE_LIST).write_text("Topic,File,Sentence Number\n3,1ecbplus,0\n", encoding="utf-8")
    with pytest.raises(EventformersError, match="no document of the topics 4"):
        list(read_ecbplus(folder, ["4"]))
    (tmp_path / "broken.zip").write_bytes(b"PK")
    with pytest.raises(DataFormatError, match="a broken archive"):
        list(read_ecbplus(tmp_path / "broken.zip"))


def test_the_published_archive(shared_data: Path) -> None:
    documents = list(read_ecbplus(shared_data / "ecbplus" / "ECB+.zip", DEVELOPMENT_TOPICS))
    events = [one for document in documents for one in document.listed_mentions() if one.is_event]
    assert (sum(len(document.listed) for document in documents), len(events)) == (346, 1245)
    assert len({one.chain for one in events if one.chain.startswith("ACT")}) == 151


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
    folder = build_dataset("event_coreference", data_dir=tmp_path, output=tmp_path / "listed")
    assert build_reports(folder)["mentions"]["skipped"] == {}
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
