"""Quotations in a text, and those who speak."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from eventformers.extraction.grammar import (
    RELATIVE_CLAUSES,
    RELATIVE_PRONOUNS,
    child_of,
    copula_of,
    subject_of,
)
from eventformers.extraction.lexicon import lexicon
from eventformers.extraction.normalising import NORMALISED

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

_WORDS = lexicon("quotations")
_KEY = "eventformers_quotations"
# fmt: off
SPEECH = _WORDS.speech
# fmt: on
"""Lemmas of verbs of speech."""
_DOUBLE = re.compile(r"[\"“”„«»]|``|''")
_SINGLE = re.compile(r"(?<!\w)['‘](?=\w)(?:(?!(?<!\w)['‘](?=\w)).)*?[.,!?;:—-]['’](?!\w)", re.DOTALL)
_LONGEST_QUOTATION = 3000
_FARTHEST_SPEAKER = 40


class Quotations:
    """The quotations of a parsed text, in order, not nested."""

    def __init__(self, doc: Doc) -> None:
        self.doc = doc
        self.places = _quotations(doc)
        """Token indexes of the opening and closing marks."""
        self._starts = [start for start, _ in self.places]
        self._speakers: dict[int, Token | None] = {}

    def around(self, token: Token) -> int | None:
        """The number of the quotation that a word is in, if it is of three words or more."""
        number = bisect_right(self._starts, token.i) - 1
        if number < 0:
            return None
        start, end = self.places[number]
        # Single words are quoted for their sound: "martyred".
        return number if start < token.i < end and end - start >= 5 else None

    def speaker(self, number: int) -> Token | None:
        """The head of the one who speaks: the subject of the verb of speech after a quotation, or before
        it."""
        if number not in self._speakers:
            self._speakers[number] = self._find_speaker(number)
        return self._speakers[number]

    def _find_speaker(self, number: int) -> Token | None:
        start, end = self.places[number]
        following = self._starts[number + 1] if number + 1 < len(self._starts) else len(self.doc)
        for token in self.doc[end + 1 : min(end + 8, following)]:
            if token.lemma_.lower() in SPEECH and (subject := speaker_of(token)) is not None:
                return subject
        previous = self.places[number - 1][1] if number else 0
        for place in range(start - 1, max(previous, start - _FARTHEST_SPEAKER), -1):
            token = self.doc[place]
            if token.is_space and "\n" in token.text and place < start - 1:
                break
            if token.lemma_.lower() in SPEECH and (subject := speaker_of(token)) is not None:
                return subject
        return None


def quotations_of(doc: Doc) -> Quotations:
    """The quotations of a text, which are looked for once."""
    if _KEY not in doc.user_data:
        doc.user_data[_KEY] = Quotations(doc)
    return doc.user_data[_KEY]


def _quotations(doc: Doc) -> list[tuple[int, int]]:
    """The token indexes of the opening and closing marks of quotations, in order, not nested."""
    normalised = doc.user_data.get(NORMALISED)
    # Joining the tokens again takes longer.
    text = doc.text if normalised is None else normalised.text
    spans: list[tuple[int, int]] = []
    opened: int | None = None
    for mark in _DOUBLE.finditer(text):
        before = text[mark.start() - 1 : mark.start()] if mark.start() else " "
        after = text[mark.end() : mark.end() + 1] or " "
        sign = mark.group()
        if sign in ("“", "„", "«", "``"):
            opens = True
        elif sign in ("”", "»", "''"):
            opens = False
        elif before.isspace() != after.isspace():
            opens = before.isspace()
        else:
            opens = opened is None
        if opens:
            if opened is not None:
                # A paragraph of a longer quotation has no closing mark.
                end = text.find("\n", opened)
                spans.append((opened, mark.start() if end < 0 else min(end, mark.start())))
            opened = mark.start()
        elif opened is not None:
            if mark.start() - opened < _LONGEST_QUOTATION:
                spans.append((opened, mark.start()))
            opened = None
    if opened is not None:
        end = text.find("\n", opened)
        spans.append((opened, len(text) if end < 0 else end))
    covered = sum(end - start for start, end in spans)
    if covered == 0 or 20 * covered < len(text):
        spans = sorted([*spans, *(match.span() for match in _SINGLE.finditer(text))])
    if not spans:
        return []
    found: list[tuple[int, int]] = []
    tokens = np.searchsorted(doc.to_array("IDX"), np.array(spans), "right") - 1
    for start, end in tokens.tolist():
        if not found or start > found[-1][1]:
            found.append((start, end))
    return found


def speaker_of(verb: Token) -> Token | None:
    """The one who speaks: the subject, also after the verb, or the agent of a passive."""
    found = subject_of(verb)
    if found is not None and found.dep_ in ("nsubjpass", "nsubj:pass"):
        agent = child_of(verb, {"agent"})
        return agent and child_of(agent, {"pobj"})
    for _ in range(3):
        if found is not None or verb.dep_ not in ("advcl", "conj", "xcomp"):
            break
        verb = copula_of(verb.head)
        found = subject_of(verb)
    if verb.dep_ in RELATIVE_CLAUSES and (found is None or found.lower_ in RELATIVE_PRONOUNS):
        return verb.head
    if found is None and (after := child_of(verb, {"dobj", "npadvmod"})) is not None and after.i > verb.i:
        # "said Tom", where the parse takes him as the object
        return after if after.left_edge.i == verb.i + 1 else None
    return found
