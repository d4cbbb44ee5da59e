"""The builder of event types, and which types are seen and which unseen."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, cast
from xml.sax.saxutils import escape

import pytest

from eventformers.datasets_scripts import build_dataset, build_reports, built_report, load_built
from eventformers.datasets_scripts.event_types import EventTypes, annotation_files, read_ace, split_types
from eventformers.datasets_scripts.frame_reader import frame_descendants
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.mention_reader import ACE_FRAMES, ACE_SEEN_TYPES, Mention, ace_frames
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError

TYPES = ("Buy", "Sell", "Sell", "Sell", "Give", "Give", "", "Take")


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    mentions = [
        {"id": f"m{n}", "text": f"They traded it {n} times.", "trigger": "traded", "event_type": name}
        for n, name in enumerate(TYPES)
    ]
    frames = [
        {
            "name": "Trade",
            "definition": "Goods change hands.",
            "parents": ["Act"],
            "examples": ["They traded."],
        }
    ]
    for name, rows in (("own.jsonl", mentions), ("own_frames.jsonl", frames)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "ontology.json").write_text('{\n "Buy": {}\n}\n', encoding="utf-8")
    return folder


def seen_of(data: Path | None, config: str = "mentions", **settings: object) -> dict[str, bool]:
    rows = load_built(data, config, builder="event_types", **settings)["train"]
    return dict(zip(rows["event_type"], rows["seen"], strict=True))


def report_of(data: Path | None, config: str = "mentions", **settings: object) -> dict[str, Any]:
    return built_report(data, config, builder="event_types", **settings)


def test_seen_and_unseen_types(raw: Path) -> None:
    kept = {"Sell": True, "Give": False, "Buy": False, "": False}
    assert seen_of(raw, num_seen=1, num_unseen=2) == kept
    report = report_of(raw, num_seen=1, num_unseen=2)
    assert (report["read"], report["skipped"]) == ({"mentions": 8}, {"mention_of_further_type": 1})
    assert report["statistics"] == {
        "seen_mentions": 3,
        "seen_sentences": 3,
        "seen_types": ["Sell"],
        "unseen_mentions": 3,
        "unseen_sentences": 4,
        "unseen_types": ["Give", "Buy"],
        "untyped_mentions": 1,
    }
    assert seen_of(raw, num_seen=1, num_unseen=0) == {**kept, "Take": False}
    named = {"Take": True, "Buy": True, "Sell": False, "": False}
    assert seen_of(raw, seen_types="Take, Buy", num_unseen=1) == named
    assert all(seen_of(raw)[name] for name in set(TYPES) - {""})


def test_settings_that_cannot_be(raw: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"event type in seen_types 'Bye'\. Did you mean 'Buy'"):
        load_built(raw, "mentions", builder="event_types", seen_types="Bye")
    with pytest.raises(EventformersError, match="setting num_seen: found -1; accepted: a whole number of 0"):
        load_built(raw, "mentions", builder="event_types", num_seen=-1)
    with pytest.raises(UnknownNameError, match="setting of event_types"):
        load_built(raw, "mentions", builder="event_types", seen=3)


def test_mentions_that_are_alike_are_kept_and_ids_made_different(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    row = {"id": "m", "text": "It fell.", "trigger": "fell", "event_type": "Fall"}
    path.write_text("".join(json.dumps(item) + "\n" for item in (row, row, {**row, "text": "He fell."}, row)))
    rows = load_built(path, "mentions", builder="event_types")["train"]
    assert rows["mention_id"][:] == ["m", "m#2", "m#3", "m#4"]
    statistics = report_of(path)["statistics"]
    assert (statistics["mentions_alike"], statistics["mentions_with_repeated_id"]) == (2, 3)


def test_configs_find_their_files(raw: Path, tmp_path: Path) -> None:
    def found(config: str, *paths: Path) -> list[str]:
        return [path.name for path in EventTypes.find_raw_files(config, list(paths)).get("train", [])]

    assert found("mentions", raw) == ["own.jsonl"]
    assert found("frames", raw) == ["own_frames.jsonl"]
    assert found("ace2005", raw) == found("mentions", raw / "ontology.json") == []
    folder = build_dataset("event_types", data_dir=raw, output=tmp_path / "out")
    assert sorted(build_reports(folder)) == ["frames", "mentions"]
    frames = load_built(folder, "frames")["train"]
    assert frames[0] == {
        "frame_id": "Trade",
        "name": "Trade",
        "definition": "Goods change hands.",
        "parents": ["Act"],
        "examples": ["They traded."],
        "source": "own_frames",
        "license": "unspecified",
    }
    assert build_reports(folder)["frames"]["statistics"] == {"parents_that_are_no_row": 1}


def test_only_deciding_settings_decide(raw: Path, tmp_path: Path) -> None:
    def fingerprint(config: str, data: Path | None = raw, **settings: object) -> str:
        return EventTypes(config, data_dir=data, cache_dir=tmp_path / "cache", **settings).fingerprint

    assert fingerprint("frames") == fingerprint("frames", num_seen=3)
    assert fingerprint("mentions") != fingerprint("mentions", num_seen=3)
    assert fingerprint("ace2005", None) == fingerprint("ace2005", None, num_seen=3)
    # A folder of FrameNet's name changes where frames come from.
    named = tmp_path / "framenet"
    named.mkdir()
    (named / "own_frames.jsonl").write_bytes((raw / "own_frames.jsonl").read_bytes())
    assert fingerprint("frames") != fingerprint("frames", named)
    assert report_of(named, "frames")["licenses"] == ["CC-BY-3.0"]
    assert report_of(tmp_path, "frames")["sources"] == report_of(named, "frames")["sources"]


def test_the_samples() -> None:
    rows = load_built(None, "mentions", builder="event_types", num_seen=6)["train"]
    assert Counter(Counter(rows["event_type"]).values()) == {40: 12}
    assert sum(rows["seen"]) == 240
    for row in rows:
        assert row["text"][row["trigger_start"] : row["trigger_end"]] == row["trigger"] != ""
    frames = load_built(None, "frames")["train"]
    assert {name for names in rows["frames"] for name in names} <= set(frames["name"])
    assert report_of(None, "frames")["statistics"] == {"parents_that_are_no_row": 0}
    ace = load_built(None, "ace2005")["train"]
    assert set(ace["event_type"]) <= set(ACE_FRAMES)
    assert [name in ACE_SEEN_TYPES for name in ace["event_type"]] == ace["seen"][:]
    assert report_of(None, "ace2005")["statistics"]["stretches_with_character_references"] > 0


def test_a_long_list_of_raw_files_is_cut_in_the_card(tmp_path: Path) -> None:
    (tmp_path / "frame").mkdir()
    for number in range(25):
        text = f'<frame name="F{number:02}" ID="{number}"><definition>d</definition></frame>'
        (tmp_path / "frame" / f"F{number:02}.xml").write_text(text, encoding="utf-8")
    folder = build_dataset("event_types", "frames", tmp_path, tmp_path / "out")
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.count("- raw file: ") == 20
    assert "- 5 more raw files, in `frames/build_report.json`\n" in card
    assert "| FrameNet | CC-BY-3.0 | 25 |" in card
    # A folder of FrameNet's name inside another is found, too.
    (tmp_path / "raw").mkdir()
    (tmp_path / "frame").rename(tmp_path / "raw" / "frame")
    (tmp_path / "raw").rename(tmp_path / "fndata-1.7")
    assert report_of(tmp_path, "frames")["sources"] == {"FrameNet": {"license": "CC-BY-3.0", "frames": 25}}


def test_geneva(shared_data: Path) -> None:
    data = shared_data / "event_types" / "geneva.jsonl.gz"
    rows = load_built(data, "mentions", builder="event_types")["train"]
    report = report_of(data)
    assert report["read"] == {"mentions": 7392}
    assert report["skipped"] == {"mention_of_further_type": 2402}
    assert report["licenses"] == ["CC-BY-3.0"]
    statistics = cast("dict[str, Any]", report["statistics"])
    assert (statistics["unseen_mentions"], statistics["unseen_sentences"]) == (2520, 1832)
    # One trigger of the published file stands at the offsets of its neighbour.
    assert statistics["triggers_moved_to_their_text"] == 1
    assert (len(statistics["seen_types"]), len(statistics["unseen_types"])) == (10, 23)
    assert statistics["seen_types"][:3] == ["Statement", "Manufacturing", "Action"]
    assert all(rows["frames"])
    for row in rows:
        assert row["text"][row["trigger_start"] : row["trigger_end"]] == row["trigger"] != ""
    everything = load_built(data, "mentions", builder="event_types", num_unseen=0)["train"]
    assert (len(everything), len(set(everything["event_type"]))) == (7392, 115)


def test_m2e2_has_the_frames_of_its_ace_types(shared_data: Path) -> None:
    rows = load_built(shared_data / "event_types" / "m2e2.jsonl", "mentions", builder="event_types")["train"]
    assert len(rows) == 1297
    assert all(rows["frames"])


def test_framenet_and_the_map_of_ace_types(shared_data: Path) -> None:
    frames = load_built(shared_data / "framenet", "frames")["train"]
    report = report_of(shared_data / "framenet", "frames")
    assert report["read"] == {"frames": 1221, "inheritance_edges": 781}
    assert report["sources"] == {"FrameNet": {"license": "CC-BY-3.0", "frames": 1221}}
    assert all(frames["definition"])
    below = frame_descendants(frames)
    with open(shared_data / "framenet" / "ace_to_framenet.csv", encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    assert len(table) == len(ACE_FRAMES) == 33
    assert len(ACE_FRAMES.keys() & set(ACE_SEEN_TYPES)) == 10
    for row in table:
        mapped = ace_frames(row["ace_subtype"], row["ace_type"])
        assert "|".join(mapped) == row["frames"]
        assert "|".join(sorted(set().union(*(below[name] for name in mapped)))) == row["descendants"]


def test_the_made_up_document_of_ace(shared_data: Path) -> None:
    rows = load_built(shared_data / "ace_format", "ace2005")["train"]
    assert [(row["trigger"], row["event_type"], row["seen"]) for row in rows] == [
        ("elected", "Personnel:Elect", True),
        ("arrested", "Justice:Arrest-Jail", True),
        ("charged", "Justice:Charge-Indict", False),
        ("injured", "Life:Injure", False),
        ("marched", "Conflict:Demonstrate", False),
        ("married", "Life:Marry", False),
    ]
    assert rows[3]["text"].startswith("Three people were injured when")
    report = report_of(shared_data / "ace_format", "ace2005")
    assert report["read"] == {"documents": 1, "mentions": 6, "stretches": 12}
    assert report["licenses"] == ["LDC-user-agreement"]
    assert "stretches_moved_to_their_text" not in report["statistics"]


def test_a_made_id_is_none_that_another_mention_has(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    rows = ({"id": name, "text": f"It fell {name}.", "trigger": "fell"} for name in ("a", "a", "a#2"))
    path.write_text("".join(json.dumps(item) + "\n" for item in rows))
    assert len(set(load_built(path, "mentions", builder="event_types")["train"]["mention_id"])) == 3


def test_further_keys_beside_the_known_ones_are_ignored(tmp_path: Path) -> None:
    rows = [{"text": "She died.", "trigger": "died", "event_type": "Die", "original_type": "Life.Die"}]
    (tmp_path / "mine.jsonl").write_text(json.dumps(rows[0]) + "\n", encoding="utf-8")
    with pytest.warns(UserWarning, match=r"mine\.jsonl: ignored the key 'original_type'"):
        built = load_built(tmp_path, "mentions", builder="event_types")
    assert [row["event_type"] for split in built.values() for row in split] == ["Die"]


COUNTS = Counter({"d": 4, "c": 2, "b": 2, "a": 2, "e": 1})


@pytest.mark.parametrize(
    ("settings", "seen", "unseen", "left_out"),
    [
        ({}, "dabce", "", ""),
        ({"num_seen": 2, "num_unseen": 2}, "da", "bc", "e"),
        ({"num_seen": 2, "num_unseen": 0}, "da", "bce", ""),
        ({"num_seen": 0, "num_unseen": 1}, "", "d", "abce"),
        ({"seen_types": "ec", "num_unseen": 2}, "ce", "da", "b"),
        ({"seen_types": ()}, "", "dabce", ""),
        ({"seen_types": "bz", "num_unseen": 1, "known": "z"}, "b", "d", "ace"),
    ],
)
def test_splits(settings: dict, seen: str, unseen: str, left_out: str) -> None:
    assert split_types(COUNTS, **settings) == (list(seen), list(unseen), list(left_out))


def test_a_named_type_must_be_there() -> None:
    with pytest.raises(UnknownNameError, match="unknown event type in seen_types 'z'"):
        split_types(COUNTS, seen_types="az")


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
