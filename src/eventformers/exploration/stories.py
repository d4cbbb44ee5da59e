"""The step that finds stories: mentions of the same event in several reports."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from eventformers.datasets_scripts.events import ACTORS_TABLE, DOCUMENTS_TABLE, EVENTS_TABLE, is_counted
from eventformers.datasets_scripts.reading.tables import read_parquet
from eventformers.exploration import STATE_FOLDER
from eventformers.exploration.curation import curate
from eventformers.exploration.events import kept_vectors, mention_vectors
from eventformers.exploration.steps import Context, Step, StepRun, keys_file
from eventformers.exploration.types import MENTIONS
from eventformers.files import file_digest, packaged_yaml
from eventformers.inference.coreference.same_events import (
    WEIGHTS,
    MentionPairs,
    packaged_scorer,
    same_events,
    tuned_encoder,
)
from eventformers.inference.encoding.vectors import Positions, Vectors
from eventformers.inference.induction.type_naming import has_only_stop_words

STORIES_TABLE = "stories.parquet"
EVENT_STORIES_TABLE = "event_stories.parquet"

THRESHOLD = 0.7
"""Minimum mean probability between two groups that become one. A report shares few of its events with
others, unlike the events that ECB+ annotates, so it is higher than the scorer's own."""

MOST_ACTORS = 5
"""Number of participants that a story lists, the most frequent first."""

# The scorer is trained on vectors of the packaged encoder, so no other can be given.
_ROLE = "stories"
_MENTIONS, _TUNED, _TRIGGERS = (
    f"{STATE_FOLDER}/story_{name}.parquet" for name in ("mentions", "tuned_mentions", "triggers")
)
_KNOWN = f"{STATE_FOLDER}/known_stories.parquet"
_COLUMNS = (
    *("event_id", "document_id", "sentence", "sentence_start", "sentence_end", "trigger_start"),
    *("trigger_end", "trigger_kind", "lemma", "text", "subject", "object", "factuality"),
    *("subject_id", "object_id", "subject_span", "object_span", "participants", "time_start", "time_end"),
    *("time_text", "place_text", "place_id", "country"),
)
STORIES_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("story_id", "name")),
        *((name, pa.int32()) for name in ("events", "documents", "sources")),
        *((name, pa.string()) for name in ("first_date", "last_date", "time_start", "time_end")),
        *((name, pa.string()) for name in ("place_text", "country")),
        ("actors", pa.list_(pa.string())),
        ("first_document_id", pa.string()),
        ("document_ids", pa.list_(pa.string())),
    ]
)
EVENT_STORIES_SCHEMA = pa.schema([("event_id", pa.string()), ("story_id", pa.string())])

Row = Mapping[str, Any]


_WORDS = {name: frozenset(words.split()) for name, words in packaged_yaml(__file__, "words.yaml").items()}
_BEFORE = 3
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d[\d.,]*\d|\d|[^\W\d_]+")
_PRESENT = frozenset({"am", "are", "is"})
_PERFECT = frozenset({"been", "had", "has", "have", "was", "were"})
_GERUND = frozenset({"about", "at", "by", "for", "from", "in", "of", "on", "to", "without"})
_AIM = re.compile(r"\bto (?!the\b|an?\b)[a-z]+ ([\w'’-]+ ){0,4}$")
_DEFINITE = frozenset({"the", "these", "those"})


def is_single(trigger: str, lemma: str, kind: str, before: str) -> bool:
    """Return True if a mention refers to a single event, by the form of its trigger.

    Triggers in the present tense or without a tense are mostly habits, states or aims.

    Args:
        kind: its `trigger_kind`.
        before: the text of the sentence before it.
    """
    word, last = trigger.lower(), _WORD.findall(before.lower())[-_BEFORE:]
    if kind == "noun":
        is_definite = not is_plural(trigger, lemma, kind) or _DEFINITE.intersection(last)
        return bool(is_definite) and not _AIM.search(before)
    if kind == "adjective" or lemma in _WORDS["states"]:
        return False
    if word == lemma:
        return lemma in _WORDS["same_past"] and last[-1:] != ["to"]
    if word in (f"{lemma}s", f"{lemma}es", f"{lemma[:-1]}ies"):
        return False
    if word.endswith("ing"):
        return not _GERUND.intersection(last[-1:])
    return not _PRESENT.intersection(last) or bool(_PERFECT.intersection(last))


def is_plural(trigger: str, lemma: str, kind: str) -> bool:
    """True if a trigger is a noun in the plural."""
    return kind == "noun" and trigger.lower() != lemma and trigger.lower().endswith("s")


def numbers_of(text: str) -> set[str]:
    """The numbers in a text, in figures or words from two to twelve and from first to tenth."""
    found = _NUMBER.findall(text.lower())
    return {one for one in found if one[0].isdigit() or one in _WORDS["numbers"]}


def find_stories(run: StepRun) -> None:
    """Group the events that are the same event, and describe each group of two or more documents.

    Only events of the factuality that is counted are grouped, without those of stop words such as "be", and
    without groups that have no mention of a single event. The
    id of a story is that of its first event, and its name is the text of the event that most of its events
    have, the first of equally frequent ones; a story of the earlier exploration keeps both. Time, place and
    participants are those most of its events have; participants have the names of their actors. The first
    report is the earliest document with a date.
    """
    kinds = run.context.settings.factuality
    events = run.table(EVENTS_TABLE, _COLUMNS)
    actor_names = {
        row["actor_id"]: row["name"] for row in run.table(ACTORS_TABLE, ["actor_id", "name"]).to_pylist()
    }
    counted = events.filter(is_counted(events["factuality"], kinds)).to_pylist()
    rows = [
        {**row, "actors": [actor_names.get(row[f"{role}_id"], "") for role in ("subject", "object")]}
        for row in counted
        if not has_only_stop_words(row["lemma"])
    ]
    documents = run.table(DOCUMENTS_TABLE, ["document_id", "date", "source", "text"]).to_pylist()
    texts = {row["document_id"]: row["text"] for row in documents}
    mentions = [_mention(row, texts[row["document_id"]]) for row in rows]
    # Without a model of types, the same encoder has read most of them.
    also = MENTIONS if run.context.settings.models.get("types") is None else None
    encoder = run.context.encoder(_ROLE)
    vectors, _ = mention_vectors(run, _MENTIONS, encoder, mentions, "span", also)

    def read_tuned(members: Positions) -> Vectors:
        read = [mentions[one] for one in members.tolist()]
        return mention_vectors(run, _TUNED, tuned_encoder(encoder), read, "span")[0]

    encode = partial(encoder.encode, batch_size=run.context.settings.batch_size, normalize=True)

    def encode_triggers(triggers: Sequence[str]) -> Vectors:
        return kept_vectors(run, _TRIGGERS, triggers, encode)[0]

    groups: list[list[Row]] = []
    if not mentions:
        encode_triggers([])
        read_tuned(np.empty(0, dtype=np.int64))
    else:
        # A month or a year is no day.
        dates = [row["date"][:10] if len(row["date"]) >= 10 else "NaT" for row in documents]
        days = np.array(dates, dtype="datetime64[D]")
        known_days = np.where(np.isnat(days), np.nan, days.astype(np.float64))
        pairs = MentionPairs(mentions, texts, vectors, read_tuned, encode_triggers)
        labels = same_events(pairs, packaged_scorer(), threshold=THRESHOLD, days=known_days, across=True)
        of_label: dict[int, list[Row]] = {}
        for label, row in zip(labels.tolist(), rows, strict=True):
            of_label.setdefault(label, []).append(row)
        single = {label for label, one in zip(labels.tolist(), mentions, strict=True) if one["single"]}
        groups = [
            members
            for label, members in of_label.items()
            if label in single and len({row["document_id"] for row in members}) > 1
        ]
    reports = {row["document_id"]: row for row in documents}
    known = _known(run, groups)
    run.write(_KNOWN, known)
    of_story: dict[str, list[Row]] = {}
    grouped = [row for members in groups for row in members]
    names = dict(zip(known["story_id"].to_pylist(), known["name"].to_pylist(), strict=True))
    before = np.array(known["story_id"].to_pylist(), dtype=object)
    curated = curate(run.context.settings.edits("stories"), before, {one: one for one in names}, "")
    for story_id, member in zip(curated.labels.tolist(), grouped, strict=True):
        of_story.setdefault(story_id, []).append(member)
    of_story.pop("", None)
    names |= curated.names
    run.notes += curated.notes
    stories = [
        {"story_id": one, "name": names[one], **_story(rows, reports)} for one, rows in of_story.items()
    ]
    stories.sort(key=lambda story: -story["documents"])
    run.write(STORIES_TABLE, pa.Table.from_pylist(stories, schema=STORIES_SCHEMA))
    links = [
        {"event_id": row["event_id"], "story_id": story_id}
        for story_id, members in of_story.items()
        for row in members
    ]
    run.write(EVENT_STORIES_TABLE, pa.Table.from_pylist(links, schema=EVENT_STORIES_SCHEMA))
    run.counts["stories"] = len(stories)


def _mention(row: Row, text: str) -> dict[str, Any]:
    """What the scorer and `candidate_pairs` read of an event."""
    sentence = text[row["sentence_start"] : row["sentence_end"]]
    start, end = (row[name] - row["sentence_start"] for name in ("trigger_start", "trigger_end"))
    form = sentence[start:end], row["lemma"], row["trigger_kind"]
    subject, object_ = row["subject_span"] or row["subject"], row["object_span"] or row["object"]
    others = [one["text"] for one in row["participants"] or ()]
    rest_of_clause = re.split(r"[,;:]\s", sentence[end:], maxsplit=1)[0]
    return {
        **row,
        "text": sentence,
        "trigger_start": start,
        "trigger_end": end,
        "participants": _words(row["subject"], row["object"], *row["actors"]),
        "objects": _words(object_, row["actors"][1]),
        "arguments": (f"{subject} {row['actors'][0]}", f"{object_} {row['actors'][1]}", " ".join(others)),
        # The ids of those without a name have their document.
        "names": {
            one
            for one in (
                *(row["subject_id"], row["object_id"], row["place_id"]),
                *(one["actor_id"] for one in row["participants"] or ()),
            )
            if one and "@" not in one
        },
        "places": _words(row["place_text"]),
        "numbers": numbers_of(sentence),
        "own_numbers": numbers_of(" ".join((row["time_text"], subject, object_, rest_of_clause))),
        "plural": is_plural(*form),
        "indefinite": object_.lower().startswith(("a ", "an ", "another ")),
        "single": is_single(*form, sentence[:start]),
    }


def _words(*texts: str) -> set[str]:
    return {word for text in texts for word in text.lower().split() if not has_only_stop_words(word)}


def _known(run: StepRun, groups: Sequence[Sequence[Row]]) -> pa.Table:
    """Return the story of each event before any curation: `event_id`, `story_id`, `name`.

    A group keeps the id and the name of the earlier story that most of its events had, if no other group has
    more of them.
    """
    before = {}
    if run.earlier:
        before = {row["event_id"]: row for row in read_parquet(run.earlier / _KNOWN).to_pylist()}
    names = {row["story_id"]: row["name"] for row in before.values()}
    shared = Counter(
        (number, before[row["event_id"]]["story_id"])
        for number, members in enumerate(groups)
        for row in members
        if row["event_id"] in before
    )
    ids: dict[int, str] = {}
    taken: set[str] = set()
    for (number, story_id), _ in shared.most_common():
        if number not in ids and story_id not in taken:
            ids[number] = story_id
            taken.add(story_id)
    rows = []
    for number, members in enumerate(groups):
        free = (row["event_id"] for row in members if row["event_id"] not in names)
        # An event may have given its id to a story that others keep.
        story_id = ids.get(number) or next(free, f"{members[0]['event_id']}+")
        name = names.get(ids.get(number, "")) or _commonest(row["text"] for row in members)
        rows += [{"event_id": row["event_id"], "story_id": story_id, "name": name} for row in members]
    return pa.Table.from_pylist(rows, schema=EVENT_STORIES_SCHEMA.append(pa.field("name", pa.string())))


def _story(members: Sequence[Row], documents: Mapping[str, Row]) -> dict[str, Any]:
    document_ids = list(dict.fromkeys(row["document_id"] for row in members))
    # A date sorts before a longer one that begins with it.
    dated = sorted((documents[name]["date"], name) for name in document_ids if documents[name]["date"])
    actors = Counter(name for row in members for name in dict.fromkeys(row["actors"]) if name)
    return {
        "events": len(members),
        "documents": len(document_ids),
        "sources": len({documents[name]["source"] for name in document_ids}),
        "first_date": dated[0][0] if dated else "",
        "last_date": dated[-1][0] if dated else "",
        **{
            name: _commonest(row[name] for row in members)
            for name in ("time_start", "time_end", "place_text", "country")
        },
        "actors": [name for name, _ in actors.most_common(MOST_ACTORS)],
        "first_document_id": dated[0][1] if dated else document_ids[0],
        "document_ids": document_ids,
    }


def _commonest(values: Iterable[str]) -> str:
    """The most frequent value that is known, the first of equally frequent ones; "" if none is."""
    return next((value for value, _ in Counter(filter(None, values)).most_common(1)), "")


def _settings(context: Context) -> dict[str, Any] | None:
    if not context.settings.stories:
        return None
    return {
        "factuality": list(context.settings.factuality),
        "threshold": THRESHOLD,
        "weights": file_digest(WEIGHTS),
        "model": context.model_identity(_ROLE),
        "curation": context.curation_identity("stories"),
    }


STORIES = Step(
    "stories",
    find_stories,
    reads=(DOCUMENTS_TABLE, EVENTS_TABLE, ACTORS_TABLE),
    may_read=(MENTIONS, keys_file(MENTIONS)),
    writes=(
        *(STORIES_TABLE, EVENT_STORIES_TABLE, _KNOWN),
        *(file for name in (_MENTIONS, _TUNED, _TRIGGERS) for file in (name, keys_file(name))),
    ),
    settings=_settings,
    applied=("factuality", "threshold", "curation"),
)
