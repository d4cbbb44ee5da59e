"""A user's own knowledge base: from raw files, a built folder or memory, with the same hierarchy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from event_files import write_edges, write_events

from eventformers.datasets_scripts.base import SAMPLES
from eventformers.datasets_scripts.building import build_dataset
from eventformers.errors import DataFormatError, EventformersError
from eventformers.inference.grounding.knowledge_base import load_knowledge_base
from eventformers.models.grounding_tokens import EventText

EVENTS = [
    ("war", "fr", "Guerre", ""),
    ("war", "en", "War", "a war"),
    ("battle", "en", "Battle", ""),
    ("siege", "de", "Belagerung", ""),
    ("siege", "fr", "Siège", "un siège"),
]
EDGES = [("battle", "war"), ("siege", "battle")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_edges(write_events(tmp_path / "kb", EVENTS), EDGES)


def test_events_and_their_hierarchy_are_read(folder: Path) -> None:
    known = load_knowledge_base(folder)
    assert len(known.events) == 5
    assert known.languages == ["de", "en", "fr"]
    assert known.ancestors("siege") == ["battle", "war"]
    assert known.ancestors("war") == []
    assert known.counts == {"events": 3, "event_texts": 5, "hierarchy_edges": 2}
    assert load_knowledge_base(known) is known


def test_texts_fall_back_to_another_language(folder: Path) -> None:
    known = load_knowledge_base(folder)
    assert known.text("war", "fr") == EventText("Guerre", "")
    assert known.text("war", "fi") == EventText("War", "a war")
    assert known.title("battle", "fr") == "Battle"
    # There is no English one: the first that there is.
    assert known.title("siege", "fi") == known.title("siege", "en") == "Belagerung"
    assert known.title("siege", "fr") == "Siège"
    with pytest.raises(KeyError):
        known.text("fire", "en")


def test_languages_are_chosen(folder: Path) -> None:
    known = load_knowledge_base(folder)
    assert known.in_languages({"fr", "fi"})["event_id"][:] == ["war", "siege"]
    assert len(known.in_languages({"de", "en", "fr"})) == 5


def test_the_samples_have_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = load_knowledge_base("samples")
    assert known.counts["events"] > 1
    assert known.counts == load_knowledge_base(SAMPLES / "event_hierarchies").counts


def test_a_hierarchy_is_not_needed(tmp_path: Path) -> None:
    known = load_knowledge_base(write_events(tmp_path / "kb", EVENTS) / "label_dict.jsonl.gz")
    assert known.ancestors("siege") == []
    assert known.counts == {"events": 3, "event_texts": 5, "hierarchy_edges": 0}


def test_several_files_are_one_knowledge_base(folder: Path, tmp_path: Path) -> None:
    paths = [str(folder / "label_dict.jsonl.gz"), str(folder / "edges.csv")]
    for data in (paths, os.pathsep.join(paths)):
        assert load_knowledge_base(data).ancestors("siege") == ["battle", "war"]


def test_a_built_dataset_is_the_same_as_its_raw_files(tmp_path: Path) -> None:
    folder = build_dataset("event_hierarchies", None, None, tmp_path / "built")
    built = load_knowledge_base(folder)
    raw = load_knowledge_base(Path(__file__).parents[2] / "datasets_scripts/samples/event_hierarchies")
    assert built.counts == raw.counts
    assert built.graph.parents == raw.graph.parents
    texts = [sorted(known.events.to_list(), key=lambda row: sorted(row.items())) for known in (built, raw)]
    assert texts[0] == texts[1]
    flat = build_dataset("event_hierarchies", "events", None, tmp_path / "flat")
    assert load_knowledge_base(flat).counts["hierarchy_edges"] == 0


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    events = [*EVENTS, ("war", "en", "Again", ""), ("fire", "en", "", "no title")]
    edges = [*EDGES, ("war", "siege"), ("battle", "fire"), ("war", "war")]
    folder = write_edges(write_events(tmp_path / "kb", events), edges)
    # Which event comes before which is not asked.
    (folder / "next.csv").write_text("event_id,next_event_id\nwar,fire\n", encoding="utf-8")
    known = load_knowledge_base(folder)
    assert known.counts == {
        "events": 3,
        "event_texts": 5,
        "hierarchy_edges": 2,
        "event_repeated_in_a_language": 1,
        "event_without_title": 1,
        "hierarchy_edge_of_an_event_to_itself": 1,
        "hierarchy_edge_that_closes_a_cycle": 1,
        "hierarchy_edge_to_no_event": 1,
    }
    assert known.title("war", "en") == "War"


@pytest.mark.parametrize("configs", ["events", "[1, 2]", "{a: b}", "[{path: a}]"])
def test_a_readme_of_something_else_is_passed_over(configs: str, folder: Path) -> None:
    (folder / "README.md").write_text(f"---\nconfigs: {configs}\n---\n", encoding="utf-8")
    assert load_knowledge_base(folder).counts["events"] == 3


def test_a_file_that_nothing_is_known_of_is_told(folder: Path) -> None:
    # In a folder it is passed over; who names it expects it to be read.
    other = folder / "links.csv"
    other.write_text("child,parent\nbattle,war\n", encoding="utf-8")
    assert load_knowledge_base(folder).counts["hierarchy_edges"] == 2
    with pytest.raises(
        EventformersError, match=r"links\.csv: neither its first line nor its name identifies"
    ):
        load_knowledge_base([folder / "label_dict.jsonl.gz", other])


def test_what_is_no_knowledge_base_is_told(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="no dataset at missing"):
        load_knowledge_base("missing")
    with pytest.raises(EventformersError, match="found no file with titles of events; accepted: files of"):
        load_knowledge_base(tmp_path)
    empty = write_events(tmp_path / "empty", [("a", "en", "", "")])
    with pytest.raises(EventformersError, match="the knowledge base has no event"):
        load_knowledge_base(empty)
    broken: Any = write_events(tmp_path / "broken", [("a", "", "A", "")])
    with pytest.raises(
        DataFormatError, match=r"label_dict\.jsonl\.gz, line 1: found an event without a lang"
    ):
        load_knowledge_base(broken)
