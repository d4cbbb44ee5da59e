"""The step that links events to a knowledge base, or to none of its entries.

Scores compare an event with an entry alone. The wrong links among the best scores are events of the same kind
elsewhere or in another year, and sentences of background in a document about the entry. So the document of an
event decides with it: what a document is about is not in each of its sentences, but at its beginning.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventformers.datasets_scripts.events import DOCUMENTS_TABLE, EVENTS_TABLE, LINK_SCHEMA, is_counted
from eventformers.exploration import STATE_FOLDER
from eventformers.exploration.events import kept_vectors
from eventformers.exploration.steps import Step, StepRun, keys_file
from eventformers.inference.grounding.knowledge_base import FALLBACK_LANGUAGE, load_knowledge_base
from eventformers.inference.grounding.linking import find_threshold
from eventformers.inference.grounding.retrieve_rerank import Ranked, grounding_model
from eventformers.inference.search.candidate_index import CandidateIndex, Candidates
from eventformers.models.processing_event_grounding import EventText, MentionText

LINKS_TABLE = "links.parquet"

TOP = 3
"""Number of candidates of an event in the table."""

_ENTRIES, _MENTIONS = f"{STATE_FOLDER}/entries.parquet", f"{STATE_FOLDER}/linked.parquet"
_BLOCK_EVENTS = 16_384
_NEAREST = 256
"""Number of entries from which the document of an event chooses."""

_COLUMNS = (
    *("event_id", "document_id", "sentence_start", "sentence_end", "trigger_start", "trigger_end"),
    *("time_start", "time_end", "trigger", "trigger_kind", "lemma", "passive", "factuality"),
)


Sentence: TypeAlias = tuple[str, int, int]
"""A document, and the places where the sentence begins and ends."""

_SUPPORT = 0.5
"""Weight of the first sentence in a score, chosen on judged links of Wikinews like the other numbers here."""

_AGREEING = 3
_ABOUT = 0.2
"""What a candidate gains as the document is about it."""

_LEAD = 800
"""Number of characters at the beginning of a document in which it tells what it is about."""

_NEAR = 20
"""Number of successive words of a sentence among which all words of a title must be."""

_UNFINISHED = 0.05
"""What a title loses whose years end in the year after the document: "2020–21" in 2020, beside "2019–20"."""

_SHORT_NAME = 7
"""Maximum length of a name that is compared by its first four letters, as in "Turkey" and "Turkish"."""

_LONGEST_TURN = 20
"""Number of years that a range with two figures at its end may have over the turn of a century."""

_WORD = re.compile(r"[^\W_]{3,}|\b[A-Z]\w\b")
_YEARS = re.compile(r"\b(1[5-9]\d\d|20\d\d)(?:[–-](\d{4}|\d\d|present)\b(?!-))?")
_PAST = re.compile(r"\b(?:was|were|had|did)\b")
_EARLIER = re.compile(r"\b(?:(?:had|has|have|before)(?:\W+\w+){0,2}|to)\W*$", re.IGNORECASE)
_COMPARED = re.compile(r"\b(?:like|unlike|similar|compared)\b", re.IGNORECASE)


def weigh_by_documents(
    candidates: Candidates,
    events: Sequence[Mapping[str, Any]],
    counted: Sequence[bool],
    documents: Mapping[str, Mapping[str, str]],
    entries: Sequence[EventText],
    language: str = "en",
) -> Candidates:
    """Keep the candidates that fit the document and the years of the event, and weigh them by its beginning.

    A document is about an entry if its title, or 20 successive words of a sentence at its beginning, before a
    comparison ("like"), have all words of the entry's title, without years, compared by their first five
    letters, or four of short names, as in "Turkey" and "Turkish"; one of them must have a capital in both,
    unless the title has years, or a script without capitals, which has no words here. All other candidates
    are removed, and so are those of events that are not counted or, in English, are background. A title with
    years keeps only events of these years. The years of an event are those of its own time, else of its
    sentence, else all that the document names and that of its date. A title without years removes events of
    the years before the document. The score of a candidate becomes a mean with its three best scores among
    the events of the first sentence with events, plus a constant, which is lower if the title's years end in
    the year after the document. A candidate that none of these events has is removed.

    Args:
        candidates: those of the events, with scores of the index.
        events: rows of `EVENT_SCHEMA`, with `document_id`, times, trigger, and the places of this and of the
            sentence.
        counted: True for events that may be linked.
        documents: `title`, `text` and `date` of each document, by its id.
        entries: the texts of the index's events, by position.

    Returns:
        The candidates that are left, best first.
    """
    background = _background(events, documents) if language == "en" else set()
    openings: dict[str, Sentence] = {}
    leads: dict[str, list[set[str]]] = {}
    for sentence in dict.fromkeys(map(_sentence, events)):
        name, first, last = sentence
        openings[name] = min(sentence, openings.get(name, sentence))
        lead = leads.setdefault(name, [set().union(*_words(documents[name]["title"] or ""))])
        if first < _LEAD:
            words = _words(_COMPARED.split(documents[name]["text"][first:last])[0])
            ends = range(_NEAR, max(_NEAR, len(words)) + 1)
            lead += [set().union(*words[end - _NEAR : end]) for end in ends]

    @cache
    def of_entry(place: int) -> tuple[list[set[str]], set[int]]:
        return _words(entries[place].title), _years(entries[place].title)

    @cache
    def is_about(document_id: str, place: int) -> bool:
        words, years = of_entry(place)
        known = set().union(*words)
        is_named = bool(years) or not words
        return any(
            all(word & lead for word in words) and (is_named or any(map(str.isupper, known & lead)))
            for lead in leads[document_id]
        )

    @cache
    def years_of(document_id: str) -> tuple[set[int], set[int]]:
        date = _years((documents[document_id]["date"] or "")[:4])
        return _years(documents[document_id]["text"]) | date, date

    of_opening: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row, event in enumerate(events):
        document_id = event["document_id"]
        if _sentence(event) == openings[document_id]:
            for place, score in zip(candidates.events[row].tolist(), candidates.scores[row], strict=True):
                if place >= 0 and is_about(document_id, place):
                    of_opening[document_id, place].append(float(score))
    support = {key: np.mean(sorted(of_one)[-_AGREEING:]) for key, of_one in of_opening.items()}

    scores = np.full(candidates.scores.shape, -np.inf, dtype=np.float32)
    for row, event in enumerate(events):
        if not counted[row] or row in background:
            continue
        document_id, first, last = _sentence(event)
        in_text, date = years_of(document_id)
        start, end = ((event[name] or "")[:4] for name in ("time_start", "time_end"))
        told = _years(f"{start}-{end}") or _years(documents[document_id]["text"][first:last])
        happened, is_before = told or in_text, bool(told and date) and max(told) < max(date)
        for column, place in enumerate(candidates.events[row].tolist()):
            agreed = support.get((document_id, place))
            if agreed is None:
                continue
            years = of_entry(place)[1]
            if years & happened if years else not is_before:
                score = candidates.scores[row, column]
                is_unfinished = bool(date & years) and max(years) == max(date) + 1
                score += _SUPPORT * (agreed - score) + _ABOUT
                scores[row, column] = score - _UNFINISHED * is_unfinished
    order = np.argsort(-scores, axis=1, kind="stable")
    scores = np.take_along_axis(scores, order, axis=1)
    places = np.where(np.isfinite(scores), np.take_along_axis(candidates.events, order, axis=1), -1)
    return replace(candidates, events=places, scores=scores)


def _sentence(event: Mapping[str, Any]) -> Sentence:
    return event["document_id"], event["sentence_start"], event["sentence_end"]


def _background(events: Sequence[Mapping[str, Any]], documents: Mapping[str, Mapping[str, str]]) -> set[int]:
    """The rows of events that are background.

    These are events of sentences with verbs of which none is in the past, such as definitions; verbs in the
    third person of the present; and events within two words after "had", "has", "have" or "before", or
    directly after "to".
    """
    verbs = [event for event in events if event["trigger_kind"] == "verb"]
    past = {_sentence(event) for event in verbs if _is_past(event)}
    timeless = set(map(_sentence, verbs)) - past
    found = set()
    for row, event in enumerate(events):
        document_id, first, last = _sentence(event)
        text, form = documents[document_id]["text"], event["trigger"].lower()
        is_present = (
            event["trigger_kind"] == "verb" and form.endswith("s") and form not in (event["lemma"], "was")
        )
        is_timeless = (document_id, first, last) in timeless and not _PAST.search(text[first:last])
        if is_present or is_timeless or _EARLIER.search(text[first : event["trigger_start"]]):
            found.add(row)
    return found


def _is_past(event: Mapping[str, Any]) -> bool:
    form = event["trigger"].lower()
    return not event["passive"] and form not in (event["lemma"], "are") and not form.endswith(("s", "ing"))


def _words(text: str) -> list[set[str]]:
    """The beginnings by which each word and number of a text, without years, is compared.

    One is in lower case; a word with a capital has a second one, in capitals. Scripts without capitals have
    no words here.
    """
    found = []
    for word in _WORD.findall(_YEARS.sub("", text)):
        if word.isdigit() or word.lower() != word.upper():
            found.append({word[:5].lower()})
            if word[0].isupper():
                found[-1].add(word[: 4 if len(word) <= _SHORT_NAME else 5].upper())
    return found


def _years(text: str) -> set[int]:
    """The years that a text names, those of ranges such as "2019–20" and "2014–present" included."""
    found: set[int] = set()
    for first, last in _YEARS.findall(text):
        end = int({"": first, "present": "2100"}.get(last, first[: -len(last)] + last))
        # "1999–02" ends in the next century; "2014-05" is a month.
        end += 100 if end + 100 <= int(first) + _LONGEST_TURN else 0
        found.update({int(first)}, range(int(first), end + 1))
    return found


def link_events(run: StepRun) -> None:
    """Link each event, by its trigger in its sentence, to its first candidate if that is near enough.

    The rows are those of `LINK_SCHEMA`, best first for each event; an event without a linked row is NULL.
    Scores are those of `weigh_by_documents`. The entries are read in the only language of the knowledge base,
    or in English. The threshold is learned with the model, or else that of `find_threshold`.

    Raises:
        EventformersError: no entry is in that language, or an error of the encoder.
    """
    settings, encoder = run.context.settings, run.context.encoder("grounding")
    knowledge_base = load_knowledge_base(cast("str | Path", settings.knowledge_base))
    languages = knowledge_base.languages
    language = languages[0] if len(languages) == 1 else FALLBACK_LANGUAGE
    entries = knowledge_base.in_languages({language})
    model = grounding_model(encoder, batch_size=settings.batch_size, show_progress=settings.show_progress)

    known = [EventText.from_row(row) for row in entries.to_list()]
    vectors, _ = kept_vectors(run, _ENTRIES, known, model.read_events)
    index = CandidateIndex(entries["event_id"][:], vectors)
    threshold = find_threshold(None, encoder, None, 0.0, TOP, index)
    run.notes += [f"{threshold.note}."] if threshold.note else []
    if len(languages) > 1:
        run.notes.append(f"Of the {len(languages)} languages of the knowledge base, {language} is read.")
    documents = run.table(DOCUMENTS_TABLE, ["document_id", "text", "title", "date"])
    read = {row["document_id"]: row for row in documents.to_pylist()}
    events = run.table(EVENTS_TABLE, _COLUMNS)
    rows, counted = events.to_pylist(), is_counted(events["factuality"], settings.factuality).to_pylist()
    mentions = []
    for row in rows:
        document, (start, end) = read[row["document_id"]], (row["trigger_start"], row["trigger_end"])
        text, before, after = document["text"], row["sentence_start"], row["sentence_end"]
        parts = text[before:start], text[start:end], text[end:after]
        mentions.append(MentionText(*parts, document["title"], document["date"]))
    queries, _ = kept_vectors(run, _MENTIONS, mentions, model.read_mentions)
    number_of = min(_NEAREST, len(index.event_ids))
    tables = [LINK_SCHEMA.empty_table()]
    for block in document_blocks(rows):
        nearest = index.search(queries[block], number_of)
        candidates = weigh_by_documents(nearest, rows[block], counted[block], read, known, language)
        links = threshold.link(Ranked(candidates, candidates), index.event_ids)
        written = []
        places, scores = candidates.events[:, :TOP].tolist(), candidates.scores[:, :TOP].tolist()
        for row, of_row, of_scores, linked in zip(rows[block], places, scores, links, strict=True):
            for rank, (place, score) in enumerate(zip(of_row, of_scores, strict=True), start=1):
                if place < 0:
                    break
                entry = index.event_ids[place]
                above = knowledge_base.ancestors(entry) if entry in linked else []
                written.append(
                    {
                        "event_id": row["event_id"],
                        "rank": rank,
                        "knowledge_base_id": entry,
                        "title": knowledge_base.title(entry, language),
                        "score": score,
                        "linked": entry in linked,
                        "ancestors": [knowledge_base.title(one, language) for one in above],
                    }
                )
        tables.append(pa.Table.from_pylist(written, schema=LINK_SCHEMA))
    table = pa.concat_tables(tables)
    # Only the first candidate of an event is ever linked.
    number = pc.sum(table["linked"]).as_py() or 0
    run.write(LINKS_TABLE, table)
    run.counts["linked_events"] = number
    run.notes.append(
        f"{number:,} of {len(rows):,} events are linked to the knowledge base, the others to NULL."
    )


def document_blocks(rows: Sequence[Mapping[str, Any]]) -> Iterator[slice]:
    """Divide events into blocks, each with all events of its documents."""
    start = 0
    for place in range(1, len(rows) + 1):
        is_full = place - start >= _BLOCK_EVENTS
        if place == len(rows) or (is_full and rows[place]["document_id"] != rows[place - 1]["document_id"]):
            yield slice(start, place)
            start = place


LINKS = Step(
    "links",
    link_events,
    reads=(DOCUMENTS_TABLE, EVENTS_TABLE),
    writes=(LINKS_TABLE, *(file for name in (_ENTRIES, _MENTIONS) for file in (name, keys_file(name)))),
    models=("grounding",),
    settings=lambda context: (
        {"knowledge_base": identity, "factuality": list(context.settings.factuality)}
        if (identity := context.data_identity("knowledge_base"))
        else None
    ),
)
