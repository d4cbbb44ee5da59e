"""Candidates that a document contradicts are refused; the events of a document agree on an entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eventformers.inference.grounding.document_evidence import weigh_by_documents
from eventformers.inference.search.candidate_index import Candidates
from eventformers.models.grounding_tokens import EventText


def event(document: str, sentence: tuple[int, int], start: str | None = "", end: str = "") -> dict[str, Any]:
    places = {"sentence_start": sentence[0], "sentence_end": sentence[1]}
    return {"document_id": document, **places, "time_start": start, "time_end": end}


def weighed(
    text: str,
    entry: EventText,
    *,
    date: str | None = "",
    start: str | None = "",
    end: str = "",
    language: str = "en",
) -> bool:
    """True if the entry stays a candidate of an event in the last sentence of a text."""
    first = text.rindex(". ") + 2 if ". " in text else 0
    found = weigh_by_documents(
        Candidates(np.array([[0]]), np.array([[0.7]], dtype=np.float32)),
        [event("d", (first, len(text)), start, end)],
        {"d": {"text": text, "date": date}},  # type: ignore[dict-item]
        [entry, EventText("floods", "a flood after the storm; an election, an attack")],
        language,
    )
    assert found.scores[0, 0] == pytest.approx(0.7) or found.events[0, 0] == -1
    return bool(found.events[0, 0] == 0)


@pytest.mark.parametrize(
    ("text", "title", "stays"),
    [
        ("Voters in Serbia chose.", "Serbian election", True),
        ("Voters in Croatia chose.", "Serbian election", False),
        # The name is in the document, but not in the sentence.
        ("Serbia voted. They chose.", "Serbian election", False),
        # Half of the names are enough; of three, two.
        ("The rain hit Milan.", "Floods in Milan and Turin", True),
        ("The rain hit Milan.", "Floods in Milan, Turin and Rome", False),
        ("Turin is wet. The rain hit Milan.", "Floods in Milan, Turin and Rome", True),
        # An ordinary word at the start of a title is no name.
        ("The rain hit the city.", "Flood", True),
    ],
)
def test_names_of_an_entry_are_in_the_document(text: str, title: str, stays: bool) -> None:
    assert weighed(text, EventText(title)) == stays


def test_german_nouns_are_no_names() -> None:
    assert weighed("Die Bürger stimmten ab.", EventText("Wahl"), language="de")
    assert not weighed("Die Bürger stimmten ab.", EventText("Wahl"))


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
        # Without a time of its own: the years of the document and of its date.
        ("2019 election", {"date": "2019-12-31"}, True),
        ("2018 election", {"date": "2019-12-31"}, False),
        ("2012 election", {"date": "2019-12-31"}, False),
        ("2018 election", {"date": "2019-12-31", "text": "In 2018 they voted."}, True),
        ("2018 election", {"text": "In 2017 they voted."}, False),
        ("2018 election", {"text": "On 2017-18-01 they voted."}, False),
        # Nothing is known of the time, or of the years of the entry.
        ("2018 election", {"date": None, "start": None}, True),
        ("election", {"date": "2019-12-31"}, True),
        ("flood of 12 people", {"start": "2019"}, True),
    ],
)
def test_years_of_an_entry_are_those_of_the_event(title: str, given: dict[str, Any], stays: bool) -> None:
    text = given.pop("text", "they voted") if "text" in given else "they voted"
    assert weighed(text, EventText(title), **given) == stays


def test_events_of_a_document_agree() -> None:
    """Half of a score is the mean of the three best of the entry in the document; refused ones count not."""
    scores = np.array([[0.8, 0.7], [0.6, 0.5], [0.7, 0.68], [0.61, 0.6], [0.9, 0.1]], dtype=np.float32)
    entries = [EventText("a flood"), EventText("a storm"), EventText("Serbian storm")]
    places = np.array([[0, 1], [1, 0], [0, 1], [1, 0], [2, 0]])
    events = [event("a", (0, 9)) for _ in range(3)] + [event("b", (0, 9)) for _ in range(2)]
    documents = {name: {"text": "a storm", "date": ""} for name in "ab"}
    found = weigh_by_documents(Candidates(places, scores, {"fr": 1}), events, documents, entries)
    of_a = {0: (0.8 + 0.5 + 0.7) / 3, 1: (0.7 + 0.6 + 0.68) / 3}
    of_b = {0: (0.6 + 0.1) / 2, 1: 0.61}
    assert found.events.tolist() == [[0, 1], [1, 0], [0, 1], [1, 0], [0, -1]]
    expected = [
        [(0.8 + of_a[0]) / 2, (0.7 + of_a[1]) / 2],
        [(0.6 + of_a[1]) / 2, (0.5 + of_a[0]) / 2],
        [(0.7 + of_a[0]) / 2, (0.68 + of_a[1]) / 2],
        [(0.61 + of_b[1]) / 2, (0.6 + of_b[0]) / 2],
        [(0.1 + of_b[0]) / 2, -np.inf],
    ]
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)
    assert found.without_pool == {"fr": 1}


def test_only_the_three_best_events_of_a_document_agree() -> None:
    scores = np.array([[0.9], [0.1], [0.6], [0.6]], dtype=np.float32)
    found = weigh_by_documents(
        Candidates(np.zeros((4, 1), dtype=int), scores),
        [event("a", (0, 7)) for _ in range(4)],
        {"a": {"text": "a storm", "date": ""}},
        [EventText("a storm")],
    )
    np.testing.assert_allclose(found.scores, (scores + 0.7) / 2, atol=1e-6)


def test_the_document_may_change_the_order() -> None:
    scores = np.array([[0.70, 0.69], [0.8, -np.inf]], dtype=np.float32)
    found = weigh_by_documents(
        Candidates(np.array([[0, 1], [1, -1]]), scores),
        [event("a", (0, 7)), event("a", (0, 7))],
        {"a": {"text": "a storm", "date": ""}},
        [EventText("a flood"), EventText("a storm")],
    )
    assert found.events.tolist() == [[1, 0], [1, -1]]
