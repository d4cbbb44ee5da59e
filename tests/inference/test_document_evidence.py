"""A document is about the entries that it keeps as candidates; the events of its beginning agree on one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from eventformers.exploration.links import weigh_by_documents
from eventformers.inference.search.candidate_index import Candidates
from eventformers.models.processing_event_grounding import EventText


def event(document: str, sentence: tuple[int, int], start: str | None = "", end: str = "") -> dict[str, Any]:
    places = {"sentence_start": sentence[0], "sentence_end": sentence[1], "trigger_start": sentence[0]}
    return {"document_id": document, **places, "time_start": start, "time_end": end, **verb("voted", "vote")}


def verb(trigger: str, lemma: str, *, passive: bool = False, kind: str = "verb") -> dict[str, Any]:
    return {"trigger": trigger, "lemma": lemma, "passive": passive, "trigger_kind": kind}


def weighed(
    text: str,
    entry: str,
    *,
    title: str = "",
    date: str | None = "",
    start: str | None = "",
    end: str = "",
    counted: bool = True,
    verbs: Sequence[dict[str, Any]] = ({},),
    language: str = "en",
) -> bool:
    """True if the entry stays a candidate of the first event in the last sentence of a text.

    Each sentence has an event, the last one of each verb.
    """
    ends = [place + 1 for place, sign in enumerate(text) if sign == "."] or [len(text)]
    places = list(zip([0, *ends], ends, strict=False))
    events = [event("d", places[-1], start, end) | one for one in verbs]
    for one in events:
        one["trigger_start"] = max(text.find(one["trigger"]), one["sentence_start"])
    events += [event("d", place) for place in places[:-1]]
    found = weigh_by_documents(
        Candidates(np.array([[0]] * len(events)), np.array([[0.5]] * len(events), dtype=np.float32)),
        events,
        [counted] * len(events),
        {"d": {"title": title, "text": text, "date": date}},  # type: ignore[dict-item]
        [EventText(entry)],
        language,
    )
    assert found.scores[0, 0] == pytest.approx(0.7) or found.events[0, 0] == -1
    return bool(found.events[0, 0] == 0)


FAR = "Nothing was said of it. " * 40


@pytest.mark.parametrize(
    ("text", "entry", "stays"),
    [
        ("Serbia had an election. They chose.", "Serbian elections", True),
        ("Croatia had an election. They chose.", "Serbian elections", False),
        # One sentence has all words.
        ("Serbia is in Europe. It had an election.", "Serbian elections", False),
        # "Earlier" is no hurricane.
        ("The hurricane came earlier.", "Hurricane Earl", False),
        ("Flight 1344 crashed.", "Flight 171", False),
        ("Flight 171 crashed in 2025.", "Crash of flight 171 (2025)", True),
        (f"{FAR} Serbia had an election.", "Serbian elections", False),
        # The sentence begins in the beginning of the document.
        (f"Serbia had an election of {'which nothing was said ' * 40}.", "Serbian elections", True),
        # One passage of it has them.
        (f"Serbia had {'much to say of ' * 8} an early election.", "Serbian elections", True),
        (f"Serbia had {'much to say of ' * 9} an election.", "Serbian elections", False),
        (f"{'It was said of ' * 10} them that Serbia had an election.", "Serbian elections", True),
        # Another event is compared.
        ("Phanfone hit towns that were hit by Typhoon Haiyan.", "Typhoon Haiyan", True),
        ("Phanfone hit towns, like Typhoon Haiyan.", "Typhoon Haiyan", False),
        ("Phanfone was unlike Typhoon Haiyan.", "Typhoon Haiyan", False),
        ("It was Similar to Typhoon Haiyan.", "Typhoon Haiyan", False),
        ("Towns were hit, compared with Typhoon Haiyan.", "Typhoon Haiyan", False),
        ("Typhoon Haiyan was like no other.", "Typhoon Haiyan", True),
        # A country and its adjective.
        ("Troops of Turkey came.", "Turkish invasion of Syria", False),
        ("Troops of Turkey in an invasion of Syria.", "Turkish invasion of Syria", True),
        ("The church of Palin had a fire.", "Palisades fire", False),
        ("The turkey came with the invasion of Syria.", "Turkish invasion of Syria", False),
        # Names of two letters are words.
        ("An election was held.", "UK election", False),
        ("A UK election was held.", "UK election", True),
        ("A Typhoon came.", "Typhoon In-fa", False),
        ("The G8 had a summit.", "G7 summit", False),
        ("A Typhoon, In-fa, came.", "Typhoon In-fa", True),
        # Without years, one of the words is a name.
        ("Other protests came.", "Other protests", True),
        ("They had other protests.", "Other protests", False),
        ("They had other protests in 2019.", "Other protests in 2019", True),
        ("They had protests in Hong Kong.", "Hong Kong protests", True),
        # Scripts without capitals have no spaces to find words by.
        ("They voted.", "塞尔维亚选举", True),
    ],
)
def test_the_beginning_of_a_document_tells_what_it_is_about(text: str, entry: str, stays: bool) -> None:
    assert weighed(text, entry) == stays


def test_the_title_of_a_document_tells_what_it_is_about() -> None:
    assert weighed(f"{FAR} They voted.", "Serbian elections", title="Serbia: an election")
    assert not weighed(f"{FAR} They voted.", "Serbian elections", title="An election")


@pytest.mark.parametrize(
    ("text", "verbs", "stays"),
    [
        ("A flood killed a man.", [verb("killed", "kill")], True),
        ("A flood kills people.", [verb("kills", "kill")], False),
        ("A flood is water.", [verb("is", "be")], False),
        ("Floods are water.", [verb("are", "be")], False),
        ("A flood did come.", [verb("come", "come")], True),
        ("Floods are measured by rain.", [verb("measured", "measure", passive=True)], False),
        ("Floods were measured by rain.", [verb("measured", "measure", passive=True)], True),
        ("A flood is coming.", [verb("coming", "come")], False),
        ("The flood began as it rains.", [verb("rains", "rain"), verb("began", "begin")], False),
        ("The flood began as it rains.", [verb("began", "begin"), verb("rains", "rain")], True),
        ("The flood was there.", [verb("was", "be")], True),
        ("The flood brought rains.", [verb("rains", "rain", kind="noun"), verb("brought", "bring")], True),
        # What happened before.
        ("A flood had then killed a man.", [verb("killed", "kill")], False),
        ("A flood had then quickly killed a man.", [verb("killed", "kill")], False),
        ("As a man had a house, a flood killed him.", [verb("killed", "kill")], True),
        ("The town had a flood.", [verb("flood", "flood", kind="noun"), verb("had", "have")], False),
        ("They did discuss the flood.", [verb("discuss", "discuss")], True),
        ("It was a flood that has killed a man.", [verb("killed", "kill")], False),
        ("It was Floods that have killed them.", [verb("killed", "kill")], False),
        ("The flood began before it killed a man.", [verb("killed", "kill")], False),
        ("The flood began before a man was killed by it.", [verb("killed", "kill")], True),
        ("They began to discuss the flood.", [verb("discuss", "discuss"), verb("began", "begin")], False),
        ("They came to a flood.", [verb("flood", "flood", kind="noun"), verb("came", "come")], True),
        # No verb tells when, as in headlines.
        ("A flood in Rome.", [verb("flood", "flood", kind="noun")], True),
        ("The flood is a disaster.", [verb("flood", "flood", kind="noun"), verb("is", "be")], False),
    ],
)
def test_definitions_and_rules_are_no_events(text: str, verbs: list[dict[str, Any]], stays: bool) -> None:
    assert weighed(text, "Flood of 2019", date="2019", verbs=verbs) == stays
    assert weighed(text, "Flood of 2019", date="2019", verbs=verbs, language="fr")


def test_only_counted_events_have_candidates() -> None:
    assert not weighed("The flood of 2019.", "Flood of 2019", counted=False)
    assert weighed("The flood of 2019.", "Flood of 2019")


@pytest.mark.parametrize(
    ("title", "given", "stays"),
    [
        ("2016 election", {"start": "2016-05-01", "end": "2016-05-31", "date": "2020-01-01"}, True),
        ("2020 election", {"start": "2016", "end": "2016", "date": "2020-01-01"}, False),
        ("2014–present election", {"start": "2016"}, True),
        ("2015–17 election", {"start": "2016"}, True),
        ("2015–17 election", {"start": "2017"}, True),
        ("2015-17 election", {"start": "2018"}, False),
        ("1999–02 election", {"start": "2001"}, True),
        ("1999–02 election", {"start": "1950"}, False),
        ("2014-05 election", {"start": "2014"}, True),
        ("2014-05 election", {"start": "2030"}, False),
        # Without a time of its own: the years of its sentence.
        ("2018 election", {"date": "2019-12-31", "text": "They voted. The election of 2018."}, True),
        ("2018 election", {"text": "They voted in 2018. The election of 2017."}, False),
        # Else the years of the document and of its date.
        ("2019 election", {"date": "2019-12-31"}, True),
        ("2018 election", {"date": "2019-12-31"}, False),
        ("2012 election", {"date": "2019-12-31"}, False),
        ("2018 election", {"date": "2019-12-31", "text": "They did in 2018. The election."}, True),
        ("2018 election", {"text": "On 2017-18-01. The election."}, False),
        # An entry without years is not before its document.
        ("Serbian election", {"date": "2019-12-31"}, True),
        ("Serbian election", {"date": "2019-12-31", "text": "The election of 2018."}, False),
        ("Serbian election", {"date": "2019-12-31", "text": "The election of 2019."}, True),
        ("Serbian election", {"date": "2019-12-31", "start": "2018"}, False),
        (
            "Serbian election",
            {"date": "2019-12-31", "text": "The election of 2020, after that of 2016."},
            True,
        ),
        ("Serbian election", {"text": "The election of 2018."}, True),
        # Nothing is known of the time, or of the years of the entry.
        ("2018 election", {"date": None, "start": None}, False),
        ("Serbian election", {"date": None, "start": None}, True),
        ("Serbian election for 12", {"start": "2019"}, True),
    ],
)
def test_years_of_an_entry_are_those_of_the_event(title: str, given: dict[str, Any], stays: bool) -> None:
    text = given.get("text", "the election for them")
    given = {"title": "Serbian election for 12"} | given | {"text": text}
    assert weighed(entry=title, **given) == stays


def test_events_of_a_beginning_agree() -> None:
    """Half of a score is the mean of the three best of the entry in the first sentence, uncounted, too."""
    scores = np.array([[0.8, 0.7], [0.6, 0.5], [0.7, 0.68], [0.61, 0.6], [0.9, 0.1]], dtype=np.float32)
    entries = [EventText("a Flood"), EventText("a Storm"), EventText("Serbian Storm")]
    places = np.array([[0, 1], [1, 0], [0, 1], [1, 0], [2, 0]])
    events = [event("a", (0, 17)) for _ in range(3)] + [event("b", (0, 17)) for _ in range(2)]
    documents = {name: {"title": "", "text": "a Storm and Flood", "date": ""} for name in "ab"}
    counted = [True, True, False, True, True]
    found = weigh_by_documents(Candidates(places, scores, {"fr": 1}), events, counted, documents, entries)
    of_a = {0: (0.8 + 0.5 + 0.7) / 3, 1: (0.7 + 0.6 + 0.68) / 3}
    of_b = {0: (0.6 + 0.1) / 2, 1: 0.61}
    assert found.events.tolist() == [[0, 1], [1, 0], [-1, -1], [1, 0], [0, -1]]
    expected = [
        [(0.8 + of_a[0]) / 2, (0.7 + of_a[1]) / 2],
        [(0.6 + of_a[1]) / 2, (0.5 + of_a[0]) / 2],
        [-np.inf, -np.inf],
        [(0.61 + of_b[1]) / 2, (0.6 + of_b[0]) / 2],
        [(0.1 + of_b[0]) / 2, -np.inf],
    ]
    np.testing.assert_allclose(found.scores, np.array(expected) + 0.2, atol=1e-6)
    assert found.without_pool == {"fr": 1}


def test_only_the_first_sentence_agrees() -> None:
    """Events of later sentences have no say, and an entry that is far from the first is none."""
    found = weigh_by_documents(
        Candidates(np.array([[0, 1], [0, -1], [0, -1]]), np.array([[0.8, 0.7], [0.6, 0], [0.4, 0]])),
        [event("a", (20, 40)), event("a", (0, 20)), event("a", (0, 20))],
        [True] * 3,
        {"a": {"title": "", "text": "a Storm and a Flood. They came.", "date": ""}},
        [EventText("a Storm"), EventText("a Flood")],
    )
    assert found.events.tolist() == [[0, -1], [0, -1], [0, -1]]
    np.testing.assert_allclose(found.scores[:, 0], [0.65 + 0.2, 0.55 + 0.2, 0.45 + 0.2], atol=1e-6)


def test_only_the_three_best_events_of_a_beginning_agree() -> None:
    scores = np.array([[0.9], [0.1], [0.6], [0.6]], dtype=np.float32)
    found = weigh_by_documents(
        Candidates(np.zeros((4, 1), dtype=int), scores),
        [event("a", (0, 7)) for _ in range(4)],
        [True] * 4,
        {"a": {"title": "", "text": "a Storm", "date": ""}},
        [EventText("a Storm")],
    )
    np.testing.assert_allclose(found.scores, (scores + 0.7) / 2 + 0.2, atol=1e-6)


def test_the_document_may_change_the_order() -> None:
    scores = np.array([[0.70, 0.69], [0.8, -np.inf]], dtype=np.float32)
    found = weigh_by_documents(
        Candidates(np.array([[0, 1], [1, -1]]), scores),
        [event("a", (0, 17)), event("a", (0, 17))],
        [True, True],
        {"a": {"title": "", "text": "a Storm and Flood", "date": ""}},
        [EventText("a Flood"), EventText("a Storm")],
    )
    assert found.events.tolist() == [[1, 0], [1, -1]]


@pytest.mark.parametrize(
    ("title", "date", "loss"),
    [
        ("2020–21 season", "2020-03-11", 0.05),
        ("2019–20 season", "2020-03-11", 0),
        ("2020–22 season", "2020-03-11", 0),
        ("2020–present season", "2020-03-11", 0),
        ("2021 season", "2020-03-11", 0),
        ("2020–21 season", "", 0),
    ],
)
def test_an_entry_that_ends_after_the_document_scores_lower(title: str, date: str, loss: float) -> None:
    found = weigh_by_documents(
        Candidates(np.array([[0]]), np.array([[0.5]], dtype=np.float32)),
        [event("a", (0, 26))],
        [True],
        {"a": {"title": "", "text": "The season of 2020 to 2021", "date": date}},
        [EventText(title)],
    )
    assert found.scores[0, 0] == pytest.approx(0.7 - loss)
