"""The builder of event types, and which types are seen and which unseen."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from eventformers.datasets_scripts import build_dataset, build_reports, built_report, load_built
from eventformers.datasets_scripts.event_types import EventTypes, split_types
from eventformers.datasets_scripts.frame_reader import frame_descendants
from eventformers.datasets_scripts.mention_reader import ACE_FRAMES, ACE_SEEN_TYPES, ace_frames
from eventformers.errors import EventformersError, UnknownNameError

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
