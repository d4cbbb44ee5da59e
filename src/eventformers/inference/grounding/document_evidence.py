"""What the document of an event says for and against its candidates: its beginning, years, and other events.

Scores compare an event with an entry alone. The wrong links among the best scores are events of the same kind
elsewhere or in another year, and sentences of background in a document about the entry; what a document is
about is not in each of its sentences.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from eventformers.inference.search.candidate_index import Candidates
from eventformers.models.grounding_tokens import EventText

Sentence: TypeAlias = tuple[str, int, int]
"""A document, and the places where the sentence begins and ends."""

_SUPPORT = 0.5
"""Weight of the document in a score, chosen on judged links of Wikinews like the other numbers here."""

_AGREEING = 3
_ABOUT = 0.18
"""What a candidate gains as the document is about it."""

_LEAD = 800
"""Number of characters at the beginning of a document in which it tells what it is about."""

_LONGEST_TURN = 20
"""Number of years that a range with two figures at its end may have over the turn of a century."""

_WORD = re.compile(r"[^\W_]{3,}")
_YEARS = re.compile(r"\b(1[5-9]\d\d|20\d\d)(?:[–-](\d{4}|\d\d|present)\b(?!-))?")
_PAST = re.compile(r"\b(?:was|were|had|did)\b")


def weigh_by_documents(
    candidates: Candidates,
    events: Sequence[Mapping[str, Any]],
    counted: Sequence[bool],
    documents: Mapping[str, Mapping[str, str]],
    entries: Sequence[EventText],
    language: str = "en",
) -> Candidates:
    """Keep the candidates that the document is about and the event is part of, and let its events agree.

    A document is about an entry if its title, or a sentence at its beginning, has all words of the entry's
    title, without years, compared by their first five letters; scripts without capitals have no words here.
    All other candidates are removed, and so are those of events that are not counted, or whose sentence has
    no verb in the past, as in definitions (English only). A title with years keeps only events of these
    years. The years of an event are those of its own time, else of its sentence, else all that the document
    names and that of its date. A title without years removes events of the years before the document. The
    score of a candidate becomes a mean with its three best scores among the events of the document, plus a
    constant.

    Args:
        candidates: those of the events, with scores of the index.
        events: rows of `EVENT_SCHEMA`, with `document_id`, the places of the sentence, times, and trigger.
        counted: True for events that may be linked.
        documents: `title`, `text` and `date` of each document, by its id.
        entries: the texts of the index's events, by position.
        language: the language of the entries.

    Returns:
        The candidates that are left, best first.
    """
    timeless = _timeless_sentences(events, documents) if language == "en" else set()
    leads: dict[str, list[set[str]]] = {}
    for name, first, last in dict.fromkeys(map(_sentence, events)):
        lead = leads.setdefault(name, [_words(documents[name]["title"] or "")])
        if first < _LEAD:
            lead.append(_words(documents[name]["text"][first:last]))

    @cache
    def of_entry(place: int) -> tuple[set[str], set[int]]:
        return _words(entries[place].title), _years(entries[place].title)

    @cache
    def is_about(document_id: str, place: int) -> bool:
        return any(of_entry(place)[0] <= words for words in leads[document_id])

    @cache
    def years_of(document_id: str) -> tuple[set[int], set[int]]:
        date = _years((documents[document_id]["date"] or "")[:4])
        return _years(documents[document_id]["text"]) | date, date

    scores = np.full(candidates.scores.shape, -np.inf, dtype=np.float32)
    of_document: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row, event in enumerate(events):
        document_id, first, last = _sentence(event)
        in_text, date = years_of(document_id)
        start, end = ((event[name] or "")[:4] for name in ("time_start", "time_end"))
        told = _years(f"{start}-{end}") or _years(documents[document_id]["text"][first:last])
        happened, is_before = told or in_text, bool(told and date) and max(told) < max(date)
        is_told = counted[row] and _sentence(event) not in timeless
        for column, place in enumerate(candidates.events[row].tolist()):
            if place < 0 or not is_about(document_id, place):
                continue
            of_document[document_id, place].append(float(candidates.scores[row, column]))
            years = of_entry(place)[1]
            if is_told and (not happened or years & happened if years else not is_before):
                scores[row, column] = candidates.scores[row, column] + _ABOUT
    support = {key: np.mean(sorted(of_one)[-_AGREEING:]) for key, of_one in of_document.items()}
    for row, column in np.argwhere(np.isfinite(scores)).tolist():
        agreed = support[events[row]["document_id"], int(candidates.events[row, column])]
        scores[row, column] += _SUPPORT * (agreed + _ABOUT - scores[row, column])
    order = np.argsort(-scores, axis=1, kind="stable")
    scores = np.take_along_axis(scores, order, axis=1)
    places = np.where(np.isfinite(scores), np.take_along_axis(candidates.events, order, axis=1), -1)
    return replace(candidates, events=places, scores=scores)


def _sentence(event: Mapping[str, Any]) -> Sentence:
    return event["document_id"], event["sentence_start"], event["sentence_end"]


def _timeless_sentences(
    events: Sequence[Mapping[str, Any]], documents: Mapping[str, Mapping[str, str]]
) -> set[Sentence]:
    """The sentences that have verbs, and none of them in the past: definitions and rules."""
    verbs = [event for event in events if event["trigger_kind"] == "verb"]
    past = {_sentence(event) for event in verbs if _is_past(event)}
    found = set(map(_sentence, verbs)) - past
    return {one for one in found if not _PAST.search(documents[one[0]]["text"][one[1] : one[2]])}


def _is_past(event: Mapping[str, Any]) -> bool:
    form = event["trigger"].lower()
    return not event["passive"] and form not in (event["lemma"], "are") and not form.endswith(("s", "ing"))


def _words(text: str) -> set[str]:
    """The beginnings of the words and numbers of a text, without years, in scripts with capitals."""
    words = _WORD.findall(_YEARS.sub("", text))
    return {word[:5].lower() for word in words if word.isdigit() or word.lower() != word.upper()}


def _years(text: str) -> set[int]:
    """The years that a text names, those of ranges such as "2019–20" and "2014–present" included."""
    found: set[int] = set()
    for first, last in _YEARS.findall(text):
        end = int({"": first, "present": "2100"}.get(last, first[: -len(last)] + last))
        # "1999–02" ends in the next century; "2014-05" is a month.
        end += 100 if end + 100 <= int(first) + _LONGEST_TURN else 0
        found.update({int(first)}, range(int(first), end + 1))
    return found
