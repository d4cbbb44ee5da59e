"""The tables and the page of a grounding: whole, self-contained, escaped, and right for every script."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from event_files import write_edges, write_events
from html_pages import Page, assert_self_contained

from eventformers.errors import EventformersError
from eventformers.inference.encoding.mention_files import TextMention
from eventformers.inference.grounding import grounded_text as grounding_report
from eventformers.inference.grounding.grounded_text import (
    Ancestor,
    CandidateEvent,
    EventRow,
    FoundParent,
    GroundedMention,
    Grounding,
    event_tree,
    report_page,
    write_grounding,
)
from eventformers.inference.grounding.knowledge_base import KnowledgeBase, load_knowledge_base
from eventformers.models.processing_event_grounding import MentionText

EVENTS = [
    ("war", "en", "The <b>war</b>", "it & more"),
    ("siege", "en", "Siege", ""),
    ("siege", "ar", "حصار", ""),
    ("treaty", "en", "Treaty", ""),
    ("age", "en", "Age", ""),
    ("unused", "en", "Unused", ""),
]
EDGES = [("siege", "war"), ("siege", "treaty"), ("war", "age"), ("treaty", "age")]
NOTE = "tiny <model> has no learned threshold"
SETTINGS = {
    "model": "tiny <model>",
    "model_revision": None,
    "reranker": None,
    "retriever_weight": 0.0,
    "reranker_revision": None,
    "threshold": None,
    "threshold_source": "none",
    "retriever_threshold": None,
    "candidates": 2,
    "search": "exact",
    "candidate_language": None,
}


class ListedMentions(tuple[GroundedMention, ...]):
    """Mentions made by hand, with what `Grounding` reads of `GroundedMentions`."""

    def links(self) -> Iterator[tuple[list[str], dict[str, list[str]]]]:
        for one in self:
            linked = [event.event_id for event in one.linked]
            yield linked, {above.event_id: list(above.of) for above in one.ancestors}

    def languages(self) -> Counter[str]:
        return Counter(one.mention.language for one in self)


@pytest.fixture
def known(tmp_path: Path) -> KnowledgeBase:
    return load_knowledge_base(write_edges(write_events(tmp_path / "kb", EVENTS), EDGES))


def grounded(
    known: KnowledgeBase, text: MentionText, language: str, linked: list[str], place: int
) -> GroundedMention:
    """A mention with its linked events as the only candidates."""
    above = {one: None for event_id in linked for one in known.ancestors(event_id) if one not in linked}
    return GroundedMention(
        TextMention(f"m{place}", language, text),
        tuple(
            CandidateEvent(event_id, known.title(event_id, language), 1.0, None, True) for event_id in linked
        ),
        tuple(Ancestor(event_id, known.title(event_id, language), tuple(linked)) for event_id in above),
        has_pool=language != "fi",
    )


@pytest.fixture
def grounding(known: KnowledgeBase) -> Grounding:
    texts = [
        (MentionText("the <i>long</i> ", "siege", " & after", "News <1>", "2020"), "en", ["siege"]),
        (MentionText("بعد ", "حصار\u0301", " المدينة"), "ar", ["siege", "war"]),
        (MentionText("", "piiritys", ""), "fi", []),
        (MentionText("", "war", ""), "en", ["war"]),
        (MentionText("", "nothing", ""), "en", []),
    ]
    mentions = ListedMentions(grounded(known, *item, place) for place, item in enumerate(texts))
    parents = (
        FoundParent("siege", "Siege", "war", "The <b>war</b>", 1.0, 2, "parent"),
        FoundParent("war", "The <b>war</b>", "siege", "Siege", 0.5, 2, "below"),
    )
    return Grounding(mentions, parents, known, SETTINGS, {"mentions": 5}, {"fi": 1}, {"en": 0.975}, NOTE)


def test_writes_tables_and_page(grounding: Grounding, tmp_path: Path) -> None:
    files = write_grounding(grounding, tmp_path / "out")
    rows, parents = (
        [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] for file in files[:2]
    )
    assert rows == [one.to_dict() for one in grounding.mentions]
    assert [row["null"] for row in rows] == [False, False, True, False, True]
    assert [row["has_pool"] for row in rows] == [True, True, False, True, True]
    assert rows[1]["mention"] == "حصار\u0301"
    assert [one["event_id"] for one in rows[0]["ancestors"]] == ["war", "treaty", "age"]
    assert [one["known"] for one in parents] == ["parent", "below"]
    summary = json.loads(files[2].read_text(encoding="utf-8"))
    assert summary == {
        "settings": SETTINGS,
        "counts": {"mentions": 5},
        "without_pool": {"fi": 1},
        "recall": {"en": 0.975},
        "note": NOTE,
    }
    assert {path.name for path in (tmp_path / "out").iterdir()} == {path.name for path in files}
    with pytest.raises(EventformersError, match=r"holds mentions\.jsonl of a grounding; --overwrite"):
        write_grounding(grounding, tmp_path / "out")
    write_grounding(grounding, tmp_path / "out", overwrite=True)


def test_page_is_self_contained_and_escapes_texts(grounding: Grounding) -> None:
    text = report_page(grounding)
    assert_self_contained(text)
    for raw in ("<b>war", "<i>long", "News <1>", "tiny <model>"):
        assert raw not in text
    page = Page(text)
    assert len(set(page.ids)) == len(page.ids)
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert "The <b>war</b>" in page.texts("h2", dir="auto")
    assert "siege" in page.texts("mark")
    assert re.search(r'\s<span class="above">in ', text)
    assert "Recall of the approximate search: en 97.5 %" in text
    assert "that no event is described in: fi 1" in text
    assert text.count("NULL") == 2
    assert text.count("no event is described in its language") == 1


def test_links_without_a_threshold_are_marked(grounding: Grounding) -> None:
    text = report_page(grounding)
    assert "tiny &lt;model&gt; has no learned threshold" in text
    # The three mentions that are linked.
    assert text.count("unchecked") == 3
    assert [one.to_dict()["unchecked"] for one in grounding.mentions] == [True, True, False, True, False]


def test_null_is_shown_with_its_best_candidate(grounding: Grounding) -> None:
    candidate = CandidateEvent("siege", "<Siege>", 0.21, None, False)
    mentions = ListedMentions(
        replace(one, threshold=0.5, candidates=one.candidates or ((candidate,) if one.has_pool else ()))
        for one in grounding.mentions
    )
    settings = {**SETTINGS, "threshold": 0.5, "threshold_source": "learned"}
    text = report_page(replace(grounding, mentions=mentions, settings=settings, note=""))
    assert "the best candidate, <bdi>&lt;Siege&gt;</bdi>, has 0.21, below 0.5" in text
    assert "at least 0.5, the threshold that was learned with the model" in text
    assert "unchecked" not in text
    assert "Siege</a> 1.00" in text
    row = mentions[-1].to_dict()
    assert (row["null"], row["linked"], row["threshold"]) == (True, [], 0.5)
    assert row["candidates"][0] == candidate._asdict()


def test_texts_choose_their_direction(grounding: Grounding) -> None:
    page = Page(report_page(grounding))
    contexts = [attrs for tag, attrs, _ in page.elements if attrs.get("class") == "context"]
    assert {attrs["lang"] for attrs in contexts} == {"en", "ar", "fi"}
    assert all(attrs["dir"] == "auto" for attrs in contexts)
    assert "حصار\u0301" in page.texts("mark")
    assert page.texts("p", class_="context", lang="ar")[0] == "بعد  المدينة"
    links = [attrs for tag, attrs, _ in page.elements if tag == "a" and attrs["href"] != "#all"]
    assert links
    assert all(attrs["dir"] == "auto" for attrs in links)


def test_every_event_shows_its_mentions(grounding: Grounding) -> None:
    text = report_page(grounding)
    sections = {
        section.split("</h2>", 1)[0].rpartition(">")[2]: section.split("</section>", 1)[0]
        for section in text.split('<section class="event"')[1:]
    }
    shown = {title: section.count("<mark>") for title, section in sections.items()}
    assert shown == {"Age": 3, "The &lt;b&gt;war&lt;/b&gt;": 3, "Siege": 2, "Treaty": 2}
    # Those that are linked to the event itself come first; the others say through which event.
    war = sections["The &lt;b&gt;war&lt;/b&gt;"]
    assert war.count("through") == 1
    assert war.index("<mark>war") < war.index("<mark>siege")
    assert "it &amp; more" in war
    assert sections["Siege"].count("through") == 0
    assert "part of" in sections["Siege"]


def test_the_tree_counts_mentions(grounding: Grounding) -> None:
    text = report_page(grounding)
    tree = text.split("<nav", 1)[1].split("</nav>", 1)[0]
    page = Page(f"<nav{tree}</nav>")
    assert [" ".join(own.split()) for own in page.texts("li")] == [
        "0 / 3",
        "2 / 3",
        "2 / 2",
        "0 / 2",
        "2 / 2",
    ]
    assert page.texts("a")[1:] == ["Age", "The <b>war</b>", "Siege", "Treaty", "Siege"]
    # The root holds the others, which are two levels deep.
    depth, depths = 0, []
    for part in tree.replace("</ul>", "<ul>/").split("<ul>")[1:]:
        depth += -1 if part.startswith("/") else 1
        depths += [depth] * part.count("<a ")
    assert depths == [1, 2, 3, 2, 3]


def test_a_tree_has_every_event_under_each_parent() -> None:
    places = {"a": [1, 2], "b": [1], "c": [1, 2], "d": [1], "e": [1]}
    parents = {"d": ["b", "c"], "e": ["d"], "b": ["a"], "c": ["a"]}
    assert event_tree(places, parents, str) == [
        EventRow(1, "a", False),
        EventRow(2, "c", False),
        EventRow(3, "d", False),
        EventRow(4, "e", False),
        EventRow(2, "b", False),
        EventRow(3, "d", True),
    ]
    assert event_tree({}, {}, str) == []
    deep = {str(number): [1] for number in range(3000)}
    above = {str(number): [str(number - 1)] for number in range(1, 3000)}
    assert event_tree(deep, above, str)[-1] == EventRow(3000, "2999", False)


def test_much_is_shown_in_part(grounding: Grounding, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MENTIONS", 2), ("OF_EVENT", 1), ("PARENTS", 1), ("CONTEXT", 8)):
        monkeypatch.setattr(grounding_report, f"SHOWN_{name}", value)
    text = report_page(grounding)
    assert "2 of 5 mentions are shown" in text
    assert text.count("1 of 3 mentions are shown") == 2
    assert text.count("1 of 2 mentions are shown") == 2
    assert "1 of 2 are shown; parents.jsonl" in text
    # A context is cut on the side away from the mention.
    assert "… ong&lt;/i&gt; <mark>siege</mark> &amp; after" in text
    assert "<mark>حصار\u0301</mark> المدينة" in text


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("short", "short", "short"),
        ("one two three four", "one two …", "… four"),
        ("新" * 20, "新" * 8 + " …", "… " + "新" * 8),
    ],
)
def test_contexts_are_cut(text: str, first: str, last: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grounding_report, "SHOWN_CONTEXT", 8)
    assert grounding_report._first_words(text) == first
    assert grounding_report._last_words(text) == last


def test_nothing_linked_has_a_page(grounding: Grounding) -> None:
    nothing = replace(grounding, mentions=ListedMentions(grounding.mentions[2:3]), parents=())
    text = report_page(nothing)
    Page(text)
    assert "No mention is linked to an event" in text
    assert "No two events share enough mentions" in text


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({}, "The first one is linked, whatever its score."),
        ({"threshold": -1.5, "threshold_source": "given"}, "Linked are those with a score of at least -1.5."),
        (
            {"threshold": 0.71235, "threshold_source": "learned"},
            "The first one is linked where its score is at least 0.7124, the threshold that was learned",
        ),
        ({"reranker": "cross", "threshold": 0.3}, "with a probability of at least 0.3"),
        ({"reranker": "cross", "threshold": 0.3}, "for each mention, reranked by cross. Linked are"),
        (
            {"reranker": "cross", "threshold": 0.3, "retriever_threshold": 0.6},
            "at least 0.3, and a score of tiny &lt;model&gt; of at least 0.6.",
        ),
        (
            {"reranker": "cross", "threshold": 0.3, "retriever_weight": 20.0},
            "reranked by cross with 20.0 times the score of tiny &lt;model&gt;. Linked are",
        ),
        ({"search": "ivf", "candidate_language": "en"}, "(ivf), 2 for each mention, all in en"),
        # The choice of the search is not reported; the recall of an approximate one is.
        ({"search": "auto"}, "tiny &lt;model&gt;, 2 for each mention"),
    ],
)
def test_the_page_tells_how_was_linked(changed: dict[str, object], text: str, grounding: Grounding) -> None:
    page = report_page(replace(grounding, settings=SETTINGS | changed))
    assert text in " ".join(page.split())


def test_nothing_is_left_where_a_part_fails(
    grounding: Grounding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Grounding) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(grounding_report, "report_page", fail)
    with pytest.raises(EventformersError, match="No space left"):
        write_grounding(grounding, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(EventformersError, match="accepted: a folder to write to"):
        write_grounding(grounding, tmp_path / "file")
