"""ECB+: the archive and its folder, chains within and across documents, and malformed files."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

import pytest

from eventformers.datasets_scripts.reading.ecbplus import (
    DEVELOPMENT_TOPICS,
    SENTENCE_LIST,
    EcbMention,
    read_ecbplus,
)
from eventformers.errors import DataFormatError, EventformersError

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
