"""The event that a time or a place belongs to, by the parse."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from eventformers.extraction.grammar import is_clause_head

if TYPE_CHECKING:
    from spacy.tokens import Span, Token

_BEFORE_NOUNS = frozenset({"amod", "compound", "nmod", "nummod", "poss", "quantmod"})
_MOST_STEPS = 20


def trigger_of(span: Span, triggers: Collection[int]) -> int | None:
    """The trigger that a time or a place belongs to; None if the parse gives none.

    It is the nearest one above: "the attack on Monday" is that of a noun, if that noun is an event, else of
    its clause. What stands before a noun ("Monday's attack") belongs to no other word.

    Args:
        span: the time or place.
        triggers: token indexes of the events.
    """
    word = span.root
    while word.dep_ in _BEFORE_NOUNS and word.head.i != word.i:
        word = word.head
        if word.i in triggers:
            return word.i
        if word.dep_ not in _BEFORE_NOUNS:
            return None
    for _ in range(_MOST_STEPS):
        if word.i in triggers:
            return word.i
        # The predicate of "wants to buy" is one event, whose trigger is its first verb.
        ends = is_clause_head(word) and word.dep_ != "xcomp"
        if ends or word.head.i == word.i:
            return None
        word = word.head
    return None


def clause_of(word: Token) -> Token:
    """The verb of the clause of a word, or the root of its sentence."""
    return next((one for one in (word, *word.ancestors) if is_clause_head(one)), word.sent.root)
