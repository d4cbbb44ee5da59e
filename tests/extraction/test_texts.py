"""Reading SGML, JSON lines and plain text, what is wrong with them, and ids that are distinct."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from eventformers.datasets_scripts.licenses import license_of_source
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.errors import DataFormatError, EventformersError
from eventformers.extraction.extractor import ExtractionCounts
from eventformers.extraction.sgml import decoded, read_sgml
from eventformers.extraction.texts import TextDocument, find_text_files, read_texts

NEWSWIRE = """<DOC id="XYZ_ENG_19990101.0001" type="story" >
<HEADLINE>
Not part of the text
</HEADLINE>
<TEXT>
<P>
Anna &amp; Peter opened
the shop &LR; .
</P>
<P>
They sold&#160;cars &MD; "five &lt; six" &AT&T; .
</P>
</TEXT>
</DOC>
<doc id=second type='advis'>
<text>
For editors.
</text>
</doc>
<DOC>
<DOCNO> third </DOCNO>
<TEXT>
First paragraph,
of two lines.

Second.
</TEXT></DOC>
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def read(
    *paths: Path, malformed: str = "error", **options: object
) -> tuple[list[TextDocument], Counter[str], SkippedRows]:
    counts: tuple[Counter[str], SkippedRows] = (Counter(), SkippedRows(malformed))
    files = find_text_files(list(paths), counts[1])
    return list(read_texts(files, *counts, **options)), *counts


@pytest.mark.parametrize(
    "name", ["xyz_eng_199901", "xyz_eng_199901.gz", "news.sgml", "news.sgm.gz", "news.txt"]
)
def test_newswire(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, NEWSWIRE)
    if name == "news.txt":
        assert read(path)[0][0].text == NEWSWIRE.rstrip("\n"), "a name that says plain text is believed"
        return
    documents, counted, skipped = read(path)
    assert [document.document_id for document in documents] == ["XYZ_ENG_19990101.0001", "third"]
    assert documents[0].text == ('Anna & Peter opened the shop .\n\nThey sold cars -- "five < six" &AT&T; .')
    assert documents[1].text == "First paragraph, of two lines.\n\nSecond."
    assert documents[0].source == name.split(".")[0]
    assert (counted["documents"], skipped["document_of_type_advis"]) == (2, 1)
    assert len(read(path, document_types=())[0]) == 3
    assert [document.document_id for document in read(path, document_types=["advis"])[0]] == [
        "second",
        "third",
    ]


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("<DOC>\n<TEXT>\nwords\n</TEXT>\n", 1, "a <DOC> without its </DOC>"),
        ("<DOC>\n<TEXT>\nwords\n</DOC>\n", 4, "</DOC> before </TEXT>"),
        ("<DOC>\n<DOC>\n", 2, "<DOC> within the document that begins on line 1"),
        ("<DOC>\n</DOC>\nwords\n", 3, "the text 'words' outside of a document"),
        ("<DOC>\n</DOC>\n</DOC>\n", 3, "</DOC> without its <DOC>"),
        ("<DOC>\n<TEXT>\n<TEXT>\n", 3, "<TEXT> within <TEXT>"),
        ("<DOC>\n</TEXT>\n", 2, "</TEXT> without its <TEXT>"),
        ("<TEXT>\n", 1, "<TEXT> outside of a document"),
        ('<DOC id="a"\ntype="story">\n', 1, "that does not end on its line"),
        ('<!DOCTYPE DOC [\n<!ENTITY x SYSTEM "file:///etc/hostname">\n]>\n', 1, "outside of a document"),
        ('<!DOCTYPE DOC [ <!ENTITY x SYSTEM "file:///etc/hostname"> ]>\n', 1, "a declaration of entities"),
    ],
)
def test_bad_newswire(tmp_path: Path, text: str, line: int, found: str) -> None:
    path = write(tmp_path / "bad.sgml", text)
    with pytest.raises(DataFormatError) as error:
        list(read_sgml(path, SkippedRows()))
    assert error.value.line == line
    assert found in error.value.found


def test_entities_are_never_resolved(tmp_path: Path) -> None:
    secret = write(tmp_path / "secret", "secret")
    text = f'<!DOCTYPE DOC>\n<DOC id="&x;">\n<TEXT>\n&x; &file://{secret}; {"&lol;" * 3}\n</TEXT>\n</DOC>\n'
    (document,) = read_sgml(write(tmp_path / "a.sgml", text), SkippedRows())
    assert document.text == f"&x; &file://{secret}; &lol;&lol;&lol;"


def test_references_to_characters() -> None:
    assert decoded("&AMP;&amp;&eacute;&#x41;&#66; &copy=1 &#0; &#xD800; &#1114112; &nosuch;") == (
        "&&éAB &copy=1 &#0; &#xD800; &#1114112; &nosuch;"
    )


def test_json_lines(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": "One.", "source": "wikinews", "licence": "CC BY 2.5"},
        {"document_id": 7, "text": "Two. \ud800", "license": "MIT"},
        {"text": "Three."},
        {"id": "b", "text": " \n"},
    ]
    path = write(tmp_path / "news.jsonl.gz", "\n".join([json.dumps(row) for row in rows]) + "\n\n")
    documents, counted, skipped = read(path)
    assert documents == [
        TextDocument("a", "One.", "wikinews", "CC-BY-2.5"),
        TextDocument("7", "Two. ?", "news", "MIT"),
        TextDocument("news/3", "Three.", "news", "unspecified"),
    ]
    assert (counted["documents"], dict(skipped)) == (4, {"document_without_text": 1, "blank_line": 1})
    assert counted["document_with_replaced_characters"] == 1
    (_, second, third), *_ = read(path, source="mine", license_name="CC0-1.0")
    assert (second.source, second.license, third.license) == ("mine", "MIT", "CC0-1.0")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("{", "invalid JSON"),
        ("[]", 'no "text"'),
        ('{"text": 1}', 'no "text"'),
        ('{"text": "a", "id": []}', '"id" of type'),
        ('{"text": "a", "id": false}', '"id" of type bool'),
        ('{"text": "a", "id": "b", "document_id": "c"}', '"id" and "document_id" that differ'),
        ('{"Text": "a"}', "(did you mean 'text'?)"),
        ('{"text": "a", "licens": "MIT"}', "(did you mean 'license'?)"),
    ],
)
def test_bad_json_lines(tmp_path: Path, line: str, found: str) -> None:
    path = write(tmp_path / "a.jsonl", f'{{"text": "a"}}\n{line}\n')
    with pytest.raises(DataFormatError, match=r"a\.jsonl, line 2: found ") as error:
        read(path)
    assert found in error.value.found


GOOD = '<DOC id="{}">\n<TEXT>\n{}\n</TEXT>\n</DOC>\n'


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("<DOC>\n<TEXT>\nwords\n</DOC>\n", [9]),
        ("<DOC>\n<TEXT>\n<TEXT>\nwords</TEXT></TEXT>\n</DOC>\n", [8]),
        ("<DOC>\n<TEXT>\nwords\n</TEXT>\n", [10]),
        ("<DOC>\n</TEXT>\nwords\n", [7]),
        ("</DOC>\n</DOC>\n", [6, 7]),
        ('<DOC id="a"\ntype="story">\n<TEXT>\nwords\n</TEXT>\n</DOC>\n', [6]),
        ('<DOC>\n<TEXT>\n<DOC id="a"\ntype="story">\n<TEXT>\nwords\n</TEXT>\n</DOC>\n', [8, 8]),
        ("<DOCC>\n<TEXT>\nwords\n</TEXT>\n</DOC>\n", [7]),
        ("<DOC>\n<TEXT>\ncaf\udce9\n</TEXT>\n</DOC>\n", [8]),
        ('<!DOCTYPE DOC [ <!ENTITY x "y"> ]>\n<DOC>', [6, 7]),
    ],
)
def test_malformed_newswire_is_left_out_up_to_the_next_document(
    tmp_path: Path, text: str, places: list[int]
) -> None:
    path = tmp_path / "a.sgm"
    whole = GOOD.format("a", "One.") + text + GOOD.format("b", "Two.")
    path.write_text(whole, encoding="utf-8", errors="surrogateescape")
    documents, _, skipped = read(path, malformed="skip")
    assert [document.document_id for document in documents] == ["a", "b"]
    assert [document.text for document in documents] == ["One.", "Two."]
    assert skipped == {"malformed_document": len(places)}
    assert [part["line"] for part in skipped.parts] == places
    with pytest.raises(DataFormatError, match=r"malformed=.skip") as caught:
        read(path)
    assert caught.value.line == places[0]


def test_malformed_texts_are_left_out_and_listed(tmp_path: Path) -> None:
    rows = write(tmp_path / "a.jsonl", '{"text": "One."}\n{"txt": "Two."}\n{\n{"text": "Three."}\n')
    plain = tmp_path / "b.txt"
    plain.write_bytes(b"fine\ncaf\xe9\n")
    documents, counted, skipped = read(rows, plain, malformed="skip")
    assert [document.text for document in documents] == ["One.", "Three."]
    assert skipped == {"malformed_document": 2, "malformed_line": 1}
    assert [(part["file"], part["line"]) for part in skipped.parts] == [
        ("a.jsonl", 2),
        ("a.jsonl", 3),
        ("b.txt", 2),
    ]
    counts = ExtractionCounts(counted, skipped)
    restored = ExtractionCounts.from_dict(json.loads(json.dumps(counts.to_dict())))
    assert restored.to_dict() == counts.to_dict()
    assert counts.to_dict()["malformed"]["count"] == 3
    assert "malformed" not in ExtractionCounts().to_dict()


def test_keys_of_published_corpora_are_not_used(tmp_path: Path) -> None:
    row = {"text": "One.", "metadata": {"a": [1]}, "language_score": 0.9}
    ((document,), *_) = read(write(tmp_path / "a.jsonl", json.dumps(row)))
    assert document.text == "One."


def test_an_address_is_kept(tmp_path: Path) -> None:
    rows = (
        {"text": "One.", "url": "https://example.org"},
        {"text": "Two.", "url": ["a"]},
        {"text": "Three."},
    )
    (documents, counted, _) = read(write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))))
    assert [document.url for document in documents] == ["https://example.org", "", ""]
    assert counted["document_with_unreadable_url"] == 1


def test_a_name_over_many_lines(tmp_path: Path) -> None:
    text = "<DOC>\n<DOCNO>\na\n b\n</DOCNO>\n<TEXT>\nwords <b a='1' c=2>of</b <i text\n</TEXT>\n</DOC>\n"
    (document,) = read_sgml(write(tmp_path / "a.sgml", text), SkippedRows())
    assert (document.document_id, document.text) == ("a b", "words of</b <i text")


def test_folders(tmp_path: Path) -> None:
    write(tmp_path / "books" / "one.txt", "One.")
    write(tmp_path / "books" / "deep" / "chapter.2.txt.gz", "Two.\nLines.")
    write(tmp_path / "books" / "empty.txt", "")
    write(tmp_path / "books" / "empty.jsonl.gz", "")
    write(tmp_path / "books" / "picture.png", "no text")
    write(tmp_path / "books" / "LICENSE", "no text")
    write(tmp_path / "books" / ".hidden" / "three.txt", "Three.")
    documents, counted, skipped = read(tmp_path / "books")
    assert [(document.document_id, document.text) for document in documents] == [
        ("deep/chapter.2", "Two.\nLines."),
        ("one", "One."),
    ]
    assert {document.source for document in documents} == {"books"}
    assert counted["files"] == 4
    assert dict(skipped) == {"empty_file": 2, "file_with_unknown_ending": 2}


def test_a_name_with_the_separator_of_paths(tmp_path: Path) -> None:
    path = write(tmp_path / f"at 14{os.pathsep}30.txt", "One.")
    assert [file.path for file in find_text_files(str(path), SkippedRows())] == [path]


def test_linked_folders_and_those_of_results(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "one.txt", "One.")
    write(tmp_path / "books" / "two.txt", "Two.")
    (tmp_path / "books" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "cycle").symlink_to(tmp_path / "books")
    write(tmp_path / "books" / "extracted" / "events.parquet", "")
    write(tmp_path / "books" / "extracted" / "events.jsonl", "")
    documents, _, skipped = read(tmp_path / "books")
    assert [document.document_id for document in documents] == ["link/one", "two"]
    assert dict(skipped) == {"folder_of_extracted_events": 1}


def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "books" / "two.txt", "Two.")
    write(tmp_path / "books" / "locked" / "one.txt", "One.")
    scan = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(EventformersError, match=r"cannot read .*locked: Permission denied"):
        read(tmp_path / "books")


def test_a_file_that_cannot_be_read_can_be_skipped(tmp_path: Path) -> None:
    write(tmp_path / "books" / "one.txt", "One.")
    write(tmp_path / "books" / "other.csv", "words,more\na,b\n")
    (tmp_path / "books" / "cut.txt.gz").write_bytes(gzip.compress(b"Two." * 100)[:20])
    (tmp_path / "books" / "broken.parquet").write_bytes(b"no table")
    documents, _, skipped = read(tmp_path / "books", malformed="skip")
    assert [document.document_id for document in documents] == ["one"]
    assert skipped["malformed_file"] == 3
    with pytest.raises(DataFormatError, match=r"or skip each such file with malformed=.skip"):
        read(tmp_path / "books" / "broken.parquet")


def test_ids_are_made_distinct(tmp_path: Path) -> None:
    texts = ["One.", "Two.", "One.", "Two.", "Three."]
    rows = [{"id": "a", "text": text} for text in texts] + [{"id": "a~2", "text": "Four."}]
    path = write(tmp_path / "a.jsonl", "\n".join(json.dumps(row) for row in rows))
    documents, counted, skipped = read(path, path)
    assert [(document.document_id, document.text) for document in documents] == [
        ("a", "One."),
        ("a~2", "Two."),
        ("a~3", "Three."),
        ("a~2~2", "Four."),
    ]
    assert (counted["document_with_id_of_another"], skipped["repeated_document"]) == (3, 2)


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="no text in"):
        read(tmp_path)
    with pytest.raises(EventformersError, match="no raw data at"):
        read(tmp_path / "absent")
    broken = tmp_path / "a.txt.gz"
    broken.write_bytes(gzip.compress(b"text" * 1000)[:20])
    with pytest.raises(DataFormatError, match="broken gzip data"):
        read(broken)


@pytest.mark.parametrize(
    ("stated", "name"),
    [
        ("CC BY 2.5", "CC-BY-2.5"),
        ("apache-2.0", "Apache-2.0"),
        ("public domain", "public-domain"),
        ("open, commercial use allowed", "unrestricted"),
        ("my  own", "my own"),
    ],
)
def test_names_of_licences(stated: str, name: str) -> None:
    assert license_of_source("own", stated) == name


def test_public_documents(shared_data: Path) -> None:
    documents, counted, skipped = read(shared_data / "text" / "docs.jsonl.gz")
    assert (len(documents), counted["documents"], sum(skipped.values())) == (2015, 2015, 0)
    assert {document.license for document in documents} == {
        "Apache-2.0", "CC-BY-2.5", "public-domain", "public-domain-US", "unrestricted",
    }  # fmt: skip
