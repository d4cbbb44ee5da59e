"""Event mentions of ACE 2005: offsets and their quirks, LDC's folders, and what is refused."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from eventformers.datasets_scripts.ace_reader import annotation_files, read_ace
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.mention_reader import Mention
from eventformers.errors import DataFormatError

TEXT = (
    "<DOC>\n<TEXT>\nWorkers at Reed &amp; Sons\nwere fired. A &lt;b&gt; sale _ of Reed &amp; Sons _ began."
    "\n</TEXT>\n"
)
WRITTEN = re.sub("<.*?>", "", TEXT)


def charseq(written: str, shift: int = 0, shown: str | None = None) -> str:
    """A `charseq` at the place of a part of the text, which holds it as a parser of XML gives it."""
    start = WRITTEN.index(written) + shift
    text = escape(shown) if shown is not None else written
    return f'<charseq START="{start}" END="{start + len(written) - 1}">{text}</charseq>'


SCOPE = charseq("Workers at Reed &amp; Sons\nwere fired.")
ANCHOR = charseq("fired")
DOCUMENT_TYPE = '<!DOCTYPE source_file SYSTEM "apf.v5.1.1.dtd">'


def annotation(scope: str = SCOPE, anchor: str = ANCHOR, head: str = DOCUMENT_TYPE) -> str:
    return (
        f'<?xml version="1.0"?>\n{head}\n'
        '<source_file URI="x.sgm">\n<document DOCID="x">\n<event ID="x-EV1" TYPE="Personnel"'
        f' SUBTYPE="End-Position">\n<event_mention ID="x-EV1-1">\n<extent>{scope}</extent>\n'
        f"<ldc_scope>{scope}</ldc_scope>\n<anchor>{anchor}</anchor>\n"
        "</event_mention></event></document></source_file>\n"
    )


def read(folder: Path, xml: str, text: str = TEXT) -> tuple[list[Mention], Counter[str]]:
    (folder / "x.sgm").write_bytes(text.encode())
    (folder / "x.apf.xml").write_text(xml, encoding="utf-8")
    notes: Counter[str] = Counter()
    return list(read_ace([folder / "x.apf.xml"], "ace2005", "LDC", Counter(), notes, SkippedRows())), notes


def test_a_mention_at_its_offsets(tmp_path: Path) -> None:
    (row,), notes = read(tmp_path, annotation())
    assert row == Mention(
        mention_id="x-EV1-1",
        document_id="x",
        source="ace2005",
        license="LDC",
        text="Workers at Reed & Sons were fired.",
        trigger="fired",
        trigger_start=28,
        trigger_end=33,
        event_type="Personnel:End-Position",
        frames=["Being_employed", "Process_end"],
    )
    # The parser makes one character of what the offsets count as five.
    assert notes == {"stretches_with_character_references": 1}


@pytest.mark.parametrize("shift", [-70, -3, 1, 70])
def test_shifted_offsets_are_mended_and_counted(tmp_path: Path, shift: int) -> None:
    padding = "\n" * 70
    text = TEXT.replace("<TEXT>", f"<TEXT>{padding}").replace("</TEXT>", f"{padding}</TEXT>")
    start = re.sub("<.*?>", "", text).index("fired") + shift
    anchor = f'<charseq START="{start}" END="{start + 4}">fired</charseq>'
    scope = charseq("Workers at Reed &amp; Sons\nwere fired.", shift=70)
    (row,), notes = read(tmp_path, annotation(scope, anchor), text)
    assert row.text[row.trigger_start : row.trigger_end] == row.trigger == "fired"
    assert notes["stretches_moved_to_their_text"] == 1


@pytest.mark.parametrize(
    ("scope", "anchor", "trigger"),
    [
        # Offsets that count decoded characters.
        (charseq("A &lt;b&gt; sale", -4), charseq("sale", -10), "sale"),
        # One kind of line for the other.
        (
            charseq("sale _ of Reed &amp; Sons _ began.", 0, "sale - of Reed & Sons - began."),
            charseq("sale"),
            "sale",
        ),
        # White space of another kind.
        (charseq("Sons\nwere fired.", 0, "Sons  were fired."), charseq("fired"), "fired"),
        (charseq("sale _ of Reed &amp; Sons"), charseq("Reed &amp; Sons", 34), "Reed & Sons"),
    ],
)
def test_known_quirks(tmp_path: Path, scope: str, anchor: str, trigger: str) -> None:
    (row,), _ = read(tmp_path, annotation(scope, anchor))
    assert row.trigger == trigger
    assert row.text[row.trigger_start : row.trigger_end] == trigger


def test_line_ends_are_not_translated(tmp_path: Path) -> None:
    text = TEXT.replace("\n", "\r\n")
    written = re.sub("<.*?>", "", text)
    start, end = written.index("Workers"), written.index("fired.") + 5
    scope = f'<charseq START="{start}" END="{end}">Workers at Reed &amp; Sons\nwere fired.</charseq>'
    anchor = f'<charseq START="{end - 5}" END="{end - 1}">fired</charseq>'
    (row,), notes = read(tmp_path, annotation(scope, anchor), text)
    assert (row.text, row.trigger_start) == ("Workers at Reed & Sons were fired.", 28)
    # Only the line end inside of the scope differs.
    assert notes == {"stretches_moved_to_their_text": 1}


def test_the_extent_serves_without_a_scope_and_triggers_may_be_missing(tmp_path: Path) -> None:
    xml = re.sub(r"<ldc_scope>.*?</ldc_scope>\n", "", annotation(), flags=re.DOTALL)
    (row,), _ = read(tmp_path, xml)
    assert row.text == "Workers at Reed & Sons were fired."
    for anchor, note in (
        ("", "mentions_without_trigger"),
        (charseq("began"), "triggers_outside_of_their_sentence"),
    ):
        (row,), notes = read(tmp_path, annotation(anchor=anchor))
        assert (row.trigger, row.trigger_start, row.trigger_end) == ("", -1, -1)
        assert notes[note] == 1


@pytest.mark.parametrize(
    ("xml", "line", "found"),
    [
        *(
            (annotation(anchor=anchor), 11, found)
            for anchor, found in (
                (
                    charseq("fired", 0, "hired"),
                    "the <anchor> 'hired' of the mention x-EV1-1 at 34 to 38, where x.sgm has 'fired'",
                ),
                (ANCHOR.replace('START="', 'START="9'), "'fired' of the mention x-EV1-1 at 934"),
                ('<charseq START="-1" END="3">a</charseq>', "START='-1' in the mention"),
                ("<charseq>a</charseq>", "START='' in the mention x-EV1-1"),
                (f'<charseq START="{"1" * 5_000}" END="3">a</charseq>', "START='1111"),
            )
        ),
        (annotation(scope=""), 6, "the mention x-EV1-1 without a sentence"),
        (annotation().replace(' ID="x-EV1-1"', ""), 6, "<event_mention> without ID"),
        (annotation().replace(' TYPE="Personnel"', ""), 5, "<event> without TYPE"),
        (annotation().replace("source_file", "html"), 3, "<html>"),
        (
            annotation(head='<!DOCTYPE source_file SYSTEM "http://example.org/x.dtd">'),
            2,
            "a document type outside",
        ),
        (annotation(head='<!DOCTYPE source_file [<!ENTITY a SYSTEM "x">]>'), 2, "XML with entities"),
        (annotation()[:-20], 12, "broken XML"),
        (annotation().replace("ldc_scope>", "ldc_scop>"), 9, "'ldc_scop' (did you mean 'ldc_scope'?)"),
        (annotation().replace("event_mention", "evnt_mention"), 6, "(did you mean 'event_mention'?)"),
        (annotation().replace("event>", "evnt>").replace("<event ", "<evnt "), 5, "'evnt' (did you mean"),
        # Within a character reference nothing stands by itself.
        (annotation(scope=charseq("amp")), 8, "the <ldc_scope> 'amp'"),
    ],
)
def test_what_is_refused(tmp_path: Path, xml: str, line: int, found: str) -> None:
    with pytest.raises(DataFormatError, match=re.escape(found)) as caught:
        read(tmp_path, xml)
    assert (caught.value.path.name, caught.value.line) == ("x.apf.xml", line)


def test_texts_that_are_missing_or_no_utf_8(tmp_path: Path) -> None:
    xml = tmp_path / "x.apf.xml"
    xml.write_text(annotation(), encoding="utf-8")
    with pytest.raises(DataFormatError, match=r"x\.apf\.xml: found no x\.sgm beside it"):
        list(read_ace([xml], "a", "b", Counter(), Counter(), SkippedRows()))
    (tmp_path / "x.sgm").write_bytes(b"ab\xe9")
    with pytest.raises(DataFormatError, match=r"x\.sgm: found the byte 0xe9 at position 3"):
        list(read_ace([xml], "a", "b", Counter(), Counter(), SkippedRows()))


def test_which_annotations_of_ldc_are_read(tmp_path: Path) -> None:
    names = (
        "English/nw/timex2norm/a",
        "English/nw/adj/a",
        "English/nw/adj/b",
        "English/nw/fp1/a",
        "English/nw/fp2/c",
        "English/bc/timex2norm/d",
        "Chinese/nw/adj/e",
    )
    for name in names:
        path = tmp_path / "data" / f"{name}.apf.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def found(folder: str) -> list[str]:
        return [
            str(path.relative_to(tmp_path / "data")).removesuffix(".apf.xml")
            for path in annotation_files(tmp_path / folder)
        ]

    english = ["English/bc/timex2norm/d", "English/nw/adj/b", "English/nw/timex2norm/a"]
    assert found("") == found("data") == found("data/English") == english
    assert found("data/English/nw/fp2") == found("data/English/nw/fp2/c.apf.xml") == ["English/nw/fp2/c"]
    assert found("data/Chinese") == ["Chinese/nw/adj/e"]


def test_a_stretch_of_references_to_blanks_is_none(tmp_path: Path) -> None:
    text = "<TEXT>\nA &#32; war.\n</TEXT>"
    scope, anchor = (
        f'<charseq START="{start}" END="{end}">{escape(stretch)}</charseq>'
        for start, end, stretch in ((1, 12, "A &#32; war."), (3, 7, "&#32;"))
    )
    (row,), notes = read(tmp_path, annotation(scope, anchor), text)
    assert (row.text, row.trigger, row.trigger_start) == ("A war.", "", -1)
    assert notes["mentions_without_trigger"] == 1
    with pytest.raises(DataFormatError, match="the mention x-EV1-1 with only blanks"):
        read(tmp_path, annotation(anchor, anchor), text)


def test_a_malformed_document_is_left_out_with_its_counts(tmp_path: Path) -> None:
    paths = []
    for name, xml in (("a", annotation()), ("b", annotation(anchor=charseq("fired", 0, "hired")))):
        (tmp_path / f"{name}.sgm").write_text(TEXT, encoding="utf-8")
        paths.append(tmp_path / f"{name}.apf.xml")
        paths[-1].write_text(xml, encoding="utf-8")
    paths.append(tmp_path / "absent.apf.xml")
    paths[-1].write_text(annotation(), encoding="utf-8")
    counts, skipped = (Counter[str](), Counter[str]()), SkippedRows("skip")
    assert len(list(read_ace(paths, "ace2005", "LDC", *counts, skipped))) == 1
    assert counts == ({"documents": 1, "stretches": 2}, {"stretches_with_character_references": 1})
    assert skipped == {"malformed_document": 2}
    assert [part["file"] for part in skipped.parts] == ["b.apf.xml", "absent.apf.xml"]


def test_one_name_in_two_folders_is_one_document_only_with_one_text(tmp_path: Path) -> None:
    for folder, text in (("a", "one"), ("b", "two"), ("copy", "one")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.apf.xml").touch()
        (tmp_path / folder / "x.sgm").write_text(text)
    assert [path.parent.name for path in annotation_files(tmp_path)] == ["a", "b"]
