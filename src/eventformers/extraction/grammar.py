"""Questions about the dependency tree of a sentence, which all rules of the extraction share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.tokens import Token

# fmt: off
HELPERS = frozenset({"aux", "auxpass", "aux:pass", "cop"})
SUBJECTS = frozenset({"nsubj", "nsubjpass", "nsubj:pass"})
DIRECT_OBJECTS = frozenset({"dobj", "obj"})
INDIRECT_OBJECTS = frozenset({"dative", "iobj"})
LINKED = frozenset({"attr", "acomp", "oprd"})
_NO_CLAUSES = HELPERS | {
    "acomp", "amod", "case", "compound", "compound:prt", "det", "expl", "mark", "nmod", "oprd", "poss",
    "prep", "prt", "punct",
}
# Participles that are prepositions: "six following the landslide".
_PREPOSITIONS = frozenset({"concerning", "excluding", "following", "including", "pending", "regarding"})
# fmt: on

LONGEST_LIST = 20
"""Verbs of a list that are looked through, so that time is linear in the length of a sentence."""


def is_clause_head(token: Token) -> bool:
    """True if a token is a verb that heads a clause, including copulas."""
    if token.dep_ in _NO_CLAUSES or (token.dep_ == "advcl" and token.lower_ in _PREPOSITIONS):
        return False
    is_verb = token.pos_ in ("VERB", "AUX") if token.pos else token.tag_.startswith("VB")
    # Of an unknown verb ("jeopardised"), only its auxiliary is recognised.
    return (is_verb or child_of(token, {"auxpass"}) is not None) and is_word(token)


def is_word(token: Token) -> bool:
    """True for what can be a verb or a role: with a letter of a script that the language may use, and no
    address of the web."""
    if token.is_alpha and token.is_ascii:
        return True
    has_case = token.vocab.writing_system["has_case"]
    letters = filter(str.isalpha, token.text)
    return any(not has_case or one.lower() != one.upper() for one in letters) and not token.like_url


def governs(head: Token) -> bool:
    """True for a verb that heads a clause, and for a predicate with a copula."""
    return is_clause_head(head) or child_of(head, {"cop"}) is not None


def child_of(token: Token, labels: frozenset[str] | set[str]) -> Token | None:
    """The first dependent with one of these labels that is no white space."""
    return next((child for child in token.children if child.dep_ in labels and not child.is_space), None)


def copula_of(predicate: Token) -> Token:
    """The verb of a predicative adjective or noun, also of one that is joined to another; else the word
    itself."""
    word = predicate
    while word.dep_ == "conj" and not is_clause_head(word):
        word = word.head
    return word.head if word.dep_ in LINKED else predicate


def coordinator(verb: Token) -> str:
    """The conjunction before a joined verb, or before the last one of its list; "" without one."""
    for _ in range(LONGEST_LIST):
        if verb.dep_ != "conj":
            break
        between = [child for child in verb.head.children if child.dep_ == "cc" and child.i < verb.i]
        words = [*between, *(child for child in verb.lefts if child.dep_ == "cc")]
        words = [word for word in words if word.i > verb.head.i]
        if words:
            return words[-1].lower_
        following = next((child for child in verb.rights if child.dep_ == "conj"), None)
        if following is None:
            break
        verb = following
    return ""


def joined(head: Token) -> Iterator[Token]:
    """A word and those that are joined to it, in order: "Israel", "Egypt" and "Jordan"."""
    waiting = [head]
    while waiting:
        token = waiting.pop()
        yield token
        waiting += reversed([child for child in token.rights if child.dep_ == "conj"])


def is_past_participle(verb: Token) -> bool:
    """True for the form "arrested" of a passive."""
    return verb.tag_ == "VBN" or (
        "Part" in verb.morph.get("VerbForm") and "Pres" not in verb.morph.get("Tense")
    )


def is_finite(verb: Token) -> bool:
    """True for a verb of a whole clause: "leaves", "had left", "will leave"."""
    finite = ("MD", "VBD", "VBP", "VBZ")
    return verb.tag_ in finite or any(
        child.tag_ in finite for child in verb.lefts if child.dep_ in ("aux", "auxpass")
    )


def is_infinitive(verb: Token) -> bool:
    """True for an infinitive, with "to" or without."""
    return verb.tag_ == "VB" or "Inf" in verb.morph.get("VerbForm")


def is_participle(verb: Token) -> bool:
    """True for a participle of any tense."""
    return verb.tag_ in ("VBG", "VBN") or "Part" in verb.morph.get("VerbForm")


def is_adjective(token: Token) -> bool:
    """True for adjectives, adverbs, and participles such as "shocked" in "was shocked"."""
    if token.pos:
        return token.pos_ in ("ADJ", "ADV", "VERB")
    return token.tag_.startswith(("JJ", "RB", "VB"))
