"""What the document of an event says for and against its candidates: names, years, and its other events.

Scores compare an event with an entry alone. The wrong links among the best scores are events of the same kind
elsewhere or in another year, and what a document is about is not in each of its sentences.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from eventformers.inference.search.candidate_index import Candidates
from eventformers.models.grounding_tokens import EventText

_SUPPORT = 0.5
"""Weight of the document in a score, chosen with the next two on 191 judged links of Wikinews."""

_AGREEING = 3
_LONGEST_TURN = 20
"""Number of years that a range with two figures at its end may have over the turn of a century."""

_NOUNS_CAPITALISED = frozenset(("de", "lb"))
"""Languages whose nouns all begin with a capital, so that names cannot be told from them."""

_NAMED = 0.5
_WORD = re.compile(r"[^\W\d_]{2,}")
_YEARS = re.compile(r"\b(1[5-9]\d\d|20\d\d)(?:[–-](\d{4}|\d\d|present)\b(?!-))?")


def weigh_by_documents(
    candidates: Candidates,
    events: Sequence[Mapping[str, Any]],
    documents: Mapping[str, Mapping[str, str]],
    entries: Sequence[EventText],
    language: str = "en",
) -> Candidates:
    """Refuse candidates that the document contradicts, and move the other scores towards the document.

    A candidate is refused if the sentence has none of the names in its title, or the document fewer than half
    of them, or if its title has years in which the event did not happen: its own time, else any year that the
    document names or the year of its date. Names are capitalised words that no entry has in lower case,
    compared by their first four letters, as in "Iran" and "Iranian"; in German there are none. The score of a
    candidate becomes a mean with its three best scores among the events of the document.

    Args:
        candidates: those of the events, with scores of the index.
        events: rows of `EVENT_SCHEMA`, with `document_id`, the places of the sentence, and times.
        documents: `text` and `date` of each document, by its id.
        entries: the texts of the index's events, by position.
        language: the language of the entries.

    Returns:
        The candidates that are left, best first.
    """
    lower = {word for entry in entries for text in entry for word in _WORD.findall(text) if word.islower()}

    @cache
    def of_entry(place: int) -> tuple[set[str], set[int]]:
        names = set() if language in _NOUNS_CAPITALISED else _names(entries[place].title, lower)
        return names, _years(entries[place].title)

    @cache
    def of_text(document_id: str) -> tuple[set[str], set[int]]:
        text, date = documents[document_id]["text"], documents[document_id]["date"] or ""
        return _names(text), _years(text) | _years(date[:4])

    scores = np.full(candidates.scores.shape, -np.inf, dtype=np.float32)
    of_document: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row, event in enumerate(events):
        document_id = event["document_id"]
        in_text, in_years = of_text(document_id)
        start, end = ((event[name] or "")[:4] for name in ("time_start", "time_end"))
        in_sentence = _names(documents[document_id]["text"][event["sentence_start"] : event["sentence_end"]])
        happened = _years(f"{start}-{end}") or in_years
        for column, place in enumerate(candidates.events[row].tolist()):
            names, years = of_entry(place) if place >= 0 else (set(), set())
            is_named = len(names & in_text) >= _NAMED * len(names) and (not names or names & in_sentence)
            if place >= 0 and is_named and (not years or not happened or years & happened):
                scores[row, column] = candidates.scores[row, column]
                of_document[document_id, place].append(float(scores[row, column]))
    support = {key: np.mean(sorted(of_one)[-_AGREEING:]) for key, of_one in of_document.items()}
    for row, column in np.argwhere(np.isfinite(scores)).tolist():
        agreed = support[events[row]["document_id"], int(candidates.events[row, column])]
        scores[row, column] += _SUPPORT * (agreed - scores[row, column])
    order = np.argsort(-scores, axis=1, kind="stable")
    scores = np.take_along_axis(scores, order, axis=1)
    places = np.where(np.isfinite(scores), np.take_along_axis(candidates.events, order, axis=1), -1)
    return replace(candidates, events=places, scores=scores)


def _names(text: str, lower: Collection[str] = ()) -> set[str]:
    """The beginnings of the capitalised words of a text, but for those known in lower case."""
    words = (word for word in _WORD.findall(text) if word[0].isupper())
    return {word[:4].lower() for word in words if word.lower() not in lower}


def _years(text: str) -> set[int]:
    """The years that a text names, those of ranges such as "2019–20" and "2014–present" included."""
    found: set[int] = set()
    for first, last in _YEARS.findall(text):
        end = int({"": first, "present": "2100"}.get(last, first[: -len(last)] + last))
        # "1999–02" ends in the next century; "2014-05" is a month.
        end += 100 if end + 100 <= int(first) + _LONGEST_TURN else 0
        found.update({int(first)}, range(int(first), end + 1))
    return found
