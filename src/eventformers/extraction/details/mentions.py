"""Whole mentions of subjects and objects as the text has them, and the other participants of an event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from eventformers.extraction.events import ExtractedEvent
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
    from spacy.tokens import Doc, Token

    from eventformers.extraction.texts import TextDocument

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
