"""Whole mentions of subjects, objects and other participants as the text has them, and the actors of a text:
the persons, organisations, places and groups that its mentions stand for (`coreference`), in English only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from eventformers.extraction.actor_kinds import kind_of_name, kind_of_noun
from eventformers.extraction.chains import CLUSTERS, clusters_by_head
from eventformers.extraction.coreference import name_in, resolve
from eventformers.extraction.grammar import (
    INDIRECT_OBJECTS,
    LINKED,
    child_of,
    is_word,
    joined,
    noun_of_preposition,
)
from eventformers.extraction.normalising import place_given
from eventformers.extraction.participants import is_measure, mention_span

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

    from eventformers.extraction.events import ExtractedEvent
    from eventformers.extraction.texts import TextDocument

ACTOR_IDS = "eventformers_actor_ids"
"""Key in `Doc.user_data` of the actors of a text: actor ids by the token index of a mention's head word."""

ACTORS = "eventformers_actors"
"""Key in `Doc.user_data` of the actors of a text, by their ids: `name, kind, aliases, mentions, is_named`."""

_PEOPLE = frozenset({"he", "him", "his", "himself", "she", "her", "hers", "herself", "i", "me", "my"})


PARTICIPANT_INDEXES = "eventformers_participants"
"""Key in `Doc.user_data` of the token indexes of the heads of each event's `participants`."""

_PREPOSITIONS = frozenset({"prep", "dative", "agent"})
_OBLIQUES = frozenset({"obl", "obl:agent", "obl:arg", "nmod"})


def mention_details(
    doc: Doc, document: TextDocument, events: Sequence[ExtractedEvent]
) -> list[dict[str, Any]]:
    """Return `subject_span`, `object_span` and their places, and `participants`.

    Participants are nouns with a preposition, indirect objects and agents, if they are neither subject nor
    object nor a time.
    """
    found, indexes = [], []
    for event in events:
        columns: dict[str, Any] = {}
        for role, index in (("subject", event.subject_index), ("object", event.object_index)):
            if index is not None:
                text, start, end = _mention(doc[index], document)
                columns |= {f"{role}_span": text, f"{role}_start": start, f"{role}_end": end}
        others = list(_participants(doc, event))
        columns["participants"] = [
            dict(zip(("preposition", "text", "start", "end"), (word, *_mention(noun, document)), strict=True))
            | {"actor_id": ""}
            for word, noun in others
        ]
        found.append(columns)
        indexes.append([noun.i for _, noun in others])
    doc.user_data[PARTICIPANT_INDEXES] = indexes
    return found


def _mention(head: Token, document: TextDocument) -> tuple[str, int, int]:
    start, end = place_given(mention_span(head))
    return " ".join(document.text[start:end].split()), start, end


def _participants(doc: Doc, event: ExtractedEvent) -> Iterator[tuple[str, Token]]:
    """The prepositions and heads of the other participants, in order."""
    governors = [doc[event.trigger_index]]
    words = event.predicate.split()
    while (last := child_of(governors[-1], {"xcomp"} | LINKED)) is not None and last.lower_ in words:
        governors.append(last)
    found: dict[int, tuple[str, Token]] = {}
    for governor in governors:
        for child in governor.children:
            for word, head in _nouns(child):
                found.update({noun.i: (word, noun) for noun in joined(head) if is_word(noun)})
    for index in sorted(found):
        noun = found[index][1]
        if index not in (event.subject_index, event.object_index) and not is_measure(noun):
            yield found[index]


def _nouns(child: Token) -> Iterator[tuple[str, Token]]:
    if child.dep_ in _PREPOSITIONS:
        words, noun = noun_of_preposition(child)
        if noun is not None:
            yield " ".join(words), noun
        elif child.dep_ == "dative" and child.pos_ != "ADP":
            yield "", child
    elif child.dep_ in _OBLIQUES:
        if words := [one.lower_ for one in child.lefts if one.dep_ == "case"]:
            yield " ".join(words), child
    elif child.dep_ in INDIRECT_OBJECTS:
        yield "", child


def actor_details(
    doc: Doc, document: TextDocument, events: Sequence[ExtractedEvent], mentions: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return `subject_id`, `object_id`, and `participants` with their `actor_id`.

    The ids are those of the document; `merge_actors` gives those of all documents. `mentions` are the columns
    of `mention_details`.
    """
    clusters: Sequence[Sequence[Span]] = doc.user_data.get(CLUSTERS) or resolve(doc)
    actors: dict[str, dict[str, Any]] = {}
    id_of: dict[int, str] = {}
    for number, cluster in enumerate(clusters):
        if (actor := _actor(cluster)) is not None:
            id_of[number] = f"{document.document_id}@{number}"
            actors[id_of[number]] = actor
    ids: dict[int | None, str] = {
        head: id_of[number] for head, number in clusters_by_head(clusters).items() if number in id_of
    }
    doc.user_data[ACTOR_IDS], doc.user_data[ACTORS] = ids, actors
    found = []
    for event, columns, indexes in zip(events, mentions, doc.user_data[PARTICIPANT_INDEXES], strict=True):
        others = zip(columns["participants"], indexes, strict=True)
        found.append(
            {
                "subject_id": ids.get(event.subject_index, ""),
                "object_id": ids.get(event.object_index, ""),
                "participants": [{**one, "actor_id": ids.get(index, "")} for one, index in others],
            }
        )
    return found


def _actor(cluster: Sequence[Span]) -> dict[str, Any] | None:
    """What an actor is called and what it is; None for a thing without a name."""
    heads = [span.root for span in cluster]
    # Without titles, articles and possessive endings.
    names = [
        " ".join(words)
        for span in cluster
        if (span.root.pos_ == "PROPN" or kind_of_name(span.root)) and (words := name_in(span))
    ]
    kinds = Counter(filter(None, (kind_of_name(head) for head in heads)))
    nouns = [span for span, head in zip(cluster, heads, strict=True) if head.pos_ == "NOUN"]
    kind = max(kinds, key=lambda one: kinds[one]) if kinds else ""
    if not kind and (names or nouns):
        described = Counter(kind_of_noun(span.root) for span in nouns)
        kind = next((one for one, _ in described.most_common() if one != "other"), "")
    if kind in ("", "other") and any(head.lower_ in _PEOPLE for head in heads):
        kind = "person"
    if not names and (not kind or not nouns):
        return None
    name = max(names, key=lambda one: len(one.split())) if names else " ".join(nouns[0].text.split())
    return {
        "name": name,
        "kind": kind or "other",
        "aliases": [one for one in dict.fromkeys(names) if one != name],
        "mentions": len(cluster),
        "is_named": bool(names),
    }
