"""Who takes part in an event: heads of mentions, those that are joined to them, and their texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventformers.extraction.grammar import (
    DIRECT_OBJECTS,
    HELPERS,
    INDIRECT_OBJECTS,
    RELATIVE_CLAUSES,
    SUBJECTS,
    child_of,
    cleft_of,
    excluded_after,
    is_clause_head,
    is_word,
    joined,
    noun_of_preposition,
)
from eventformers.extraction.lexicon import lexicon
from eventformers.extraction.normalising import NORMALISED
from eventformers.extraction.polarity import alternative_of, is_contrasted, is_negative_pronoun, is_universal

if TYPE_CHECKING:
    from spacy.tokens import Span, Token

Participant = tuple["Token | None", bool]
"""The head of a mention, or None without one; True if the text excludes it: "but not Egypt"."""

_WORDS = lexicon("participants")
# fmt: off
_OUTSIDE_SPANS = HELPERS | SUBJECTS | RELATIVE_CLAUSES | {
    "appos", "advcl", "punct", "mark", "expl", "neg", "csubj", "parataxis", "agent", "ccomp", "case", "cc",
}
# fmt: on
_SEPARATORS = (",", ";", ":", "–", "—")


def head_text(head: Token) -> str:
    """The head word of a mention in lower case; a handle has its `@`, and "no one" both words."""
    if head.lower_ == "one" and is_negative_pronoun(head):
        return "no one"
    return f"@{head.lower_}" if is_handle(head) else " ".join(head.lower_.split())


def mention_text(head: Token) -> str:
    """The words of a mention by its head (`mention_span`), in lower case."""
    words = (head_text(token) + token.whitespace_ for token in mention_span(head))
    return " ".join("".join(words).split())


def mention_span(head: Token) -> Span:
    """A mention by its head, without its relative clauses and appositions, without a `no`, which the event's
    negation states, and without the ending of a possessor."""
    start, end = head.i, head.i + 1
    for child in sorted(head.lefts, key=lambda child: -child.i):
        if (child.dep_ in _OUTSIDE_SPANS and child.dep_ != "punct") or child.lower_ in (
            "no",
            "neither",
            "not",
        ):
            break
        start = child.left_edge.i
    for child in head.rights:
        if child.dep_ in _OUTSIDE_SPANS or child.dep_ == "conj" or child.tag_ == "POS":
            break
        end = child.right_edge.i + 1
    doc = head.doc
    while end > head.i + 1 and doc[end - 1].text in _SEPARATORS:
        end -= 1
    if sum(token.is_quote for token in doc[start:end]) == 1:
        # The other mark is outside.
        start += doc[start].is_quote
        end -= doc[end - 1].is_quote and doc[end - 1].text != "'"
    return doc[start:end]


def is_measure(noun: Token) -> bool:
    """True for "hours" and "mph", and for "Monday" where the entity recogniser says so."""
    return noun.ent_type_ in ("DATE", "TIME") or noun.lemma_.lower() in _WORDS.measures


def is_handle(token: Token) -> bool:
    normalised = token.doc.user_data.get(NORMALISED)
    return normalised is not None and normalised.is_handle(token.idx)


def participants_of(head: Token | None, verb: Token, negated: bool) -> list[Participant]:
    """The heads of an argument: itself and those that are joined to it on the same side of the verb; True for
    one that the text excludes, such as "but not Egypt"."""
    if head is None:
        return [(None, False)]
    of = child_of(head, {"cc", "prep"}) if is_negative_pronoun(head) else None
    if of is not None and (of.lower_ == "of" or not negated):
        # "none of the men", "no one except Tom"
        head = child_of(of, {"pobj"}) or head
    found: list[Participant] = []
    if (
        head.dep_ in DIRECT_OBJECTS
        and child_of(verb, INDIRECT_OBJECTS) is not None
        and (first := child_of(head, {"nmod"})) is not None
        and child_of(first, {"cc"}) is not None
    ):
        # The house in "sold Tom a house and Anna a car", which the parse gives the car.
        found.append((first, False))
    for token in joined(head):
        is_beside = (token.i < verb.i) == (head.i < verb.i)
        # In "nobody failed to come", nobody did not come, so that somebody else is its subject.
        is_nobody = is_negative_pronoun(token) and not negated
        if (
            is_beside
            and is_word(token)
            and not is_nobody
            and (token.i == head.i or not is_clause_head(token))
        ):
            before = token.doc[token.left_edge.i - 1].lower_ if token.left_edge.i else ""
            excluded = (
                is_contrasted(token)
                if token.i == head.i
                else "not" in (before, *(child.lower_ for child in token.lefts))
                # "everyone but Tom"
                or (before == "but" and is_universal(head))
            )
            found.append((token if token.i == head.i else _given_second(token, verb), excluded))
    for word in head.doc[head.i + 1 : verb.i]:
        if is_clause_head(word):
            break
        if word.lower_ == "with" and word.nbor(-1).lower_ in ("along", "together"):
            # "Tom, along with Anna, left"
            found += [(one, False) for one in joined(child_of(word, {"pobj"}) or head) if one != head]
    is_focus = head.dep_ == "attr" and head.i < verb.i
    if (head.i < verb.i and is_focus == (cleft_of(verb) is not None)) and (other := excluded_after(verb)):
        # "Anna won, not Tom"
        found.append((other, True))
    if found and found[-1][0] == head and is_contrasted(head):
        # "blamed not Tom, but Anna"
        found.append((alternative_of(head), False))
    return found or [(None, False)]


def _given_second(joined: Token, verb: Token) -> Token:
    """The pen in "gave Tom a book and Bob a pen", where the parse joins Bob to the book; any other word
    unchanged."""
    if joined.head.dep_ not in DIRECT_OBJECTS or child_of(verb, INDIRECT_OBJECTS) is None:
        return joined
    following = (*joined.rights, *joined.head.rights, *verb.rights)
    nouns = (one for one in following if one.pos_ in ("NOUN", "PROPN"))
    return next((noun for noun in nouns if noun.left_edge.i == joined.i + 1), joined)


def agent_of(verb: Token) -> tuple[str, Token] | None:
    """The preposition and the noun of the agent of a passive."""
    agent = child_of(verb, {"agent"})
    if agent is not None:
        noun = child_of(agent, {"pobj"})
        return None if noun is None else (agent.lower_, noun)
    for child in verb.rights:
        if child.dep_ in ("obl:agent", "obl"):
            case = child_of(child, {"case"})
            if child.dep_ == "obl:agent" or (case is not None and case.lower_ == "by"):
                return ("by" if case is None else case.lower_, child)
    return None


def prepositional_object(governor: Token, words: list[str]) -> Token | None:
    """Find the noun of the first preposition after a verb or adjective; add the prepositions to `words`."""
    for child in governor.rights:
        if child.dep_ in ("obl", "obl:arg", "nmod"):
            cases = [inner.lower_ for inner in child.lefts if inner.dep_ == "case"]
            if cases:
                words += cases
                return child
        # Not "including" and "according to".
        if child.dep_ not in ("prep", "dative") or child.tag_ == "VBG":
            continue
        prepositions, noun = noun_of_preposition(child)
        if noun is not None:
            words += prepositions
            return noun
    return None
