"""Polarity of clauses: whether a text says that an event did not happen.

A clause is negated by its own words ("not", "nobody", "no cause", "without") or by the word that governs it:
"failed to pay", "unfit to be president", "prevented from leaving", "was not able to leave". Two negations
cancel each other out: "did not fail to pay".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from eventformers.extraction.grammar import (
    DIRECT_OBJECTS,
    INDIRECT_OBJECTS,
    LINKED,
    SUBJECTS,
    child_of,
    cleft_of,
    coordinator,
    copula_of,
    excluded_after,
    is_infinitive,
    is_participle,
    joined,
    subject_of,
)
from eventformers.extraction.lexicon import lexicon

if TYPE_CHECKING:
    from spacy.tokens import Token

_WORDS = lexicon("polarity")
# fmt: off
_ADVERBS = _WORDS.negations | _WORDS.adverbs
_VERBS_WITH_FROM = _WORDS.verbs | _WORDS.verbs_with_from
# "instead of leaving", "rather than leave", "far from leaving", "let alone leave"
_BEFORE = frozenset({
    ("instead", "of"), ("out", "of"), ("short", "of"), ("rather", "than"), ("far", "from"), ("let", "alone"),
})
# fmt: on


class Polarity:
    """The polarity of the clauses of one text.

    Args:
        subject_of: finds the grammatical subject of a verb, its own or that of another verb.
        joins: says whether a verb belongs to the predicate of its head.
    """

    def __init__(self, subject_of: Callable[[Token], Token | None], joins: Callable[[Token], bool]) -> None:
        self._subject_of, self._joins = subject_of, joins
        self._negated: dict[int, bool] = {}
        self._governed_by: dict[int, bool | None] = {}
        self._adverbs: dict[int, bool] = {}

    def is_negated(self, verb: Token) -> bool:
        """True if a text says that the event of a verb, or of a predicate with a copula, did not happen."""
        if verb.i not in self._negated:
            governed = self._governed(verb)
            cue = self._has_adverb(verb) or _stands_behind_negation(verb) or _has_negative_object(verb)
            if governed is None:
                # Not the noun before a relative clause: "no man who left".
                subject = subject_of(verb) or self._subject_of(verb)
                governed = subject is not None and is_negative(subject)
            elif (own := subject_of(verb)) is not None:
                governed ^= is_negative(own)
            self._negated[verb.i] = cue ^ governed
        return self._negated[verb.i]

    def _governed(self, verb: Token) -> bool | None:
        """True if the governor of a clause negates it, False if it does not, None if it says nothing."""
        if verb.i not in self._governed_by:
            self._governed_by[verb.i] = self._find_governed(verb)
        return self._governed_by[verb.i]

    def _find_governed(self, verb: Token) -> bool | None:
        head = verb.head
        if (copula := cleft_of(verb)) is not None:
            return self.is_negated(copula)
        if verb.dep_ == "conj":
            # "refused to eat or sleep"
            return self._governed(head) if _shares(verb) else None
        if verb.dep_ in ("xcomp", "ccomp", "advcl", "csubj"):
            return self._of_complement(verb, head)
        if verb.dep_ in ("pcomp", "pobj"):
            return self._of_preposition(verb, head)
        if is_infinitive(verb) if verb.dep_ == "relcl" else verb.dep_ == "acl" and not is_participle(verb):
            return self._of_noun(head, verb)
        return None

    def _of_complement(self, verb: Token, head: Token) -> bool | None:
        if verb.dep_ in ("advcl", "csubj") and not is_infinitive(verb):
            return None
        adjective, head = head, copula_of(head)
        if adjective.i == head.i:
            adjective = child_of(head, LINKED) or head
        if adjective.i != head.i or child_of(head, {"cop"}) is not None:
            if adjective.pos_ in ("NOUN", "PROPN"):
                return self._of_noun(adjective, verb) if verb.dep_ == "xcomp" else None
            return self._of_adjective(verb, adjective, self.is_negated(head))
        lemma, infinitive = head.lemma_.lower(), is_infinitive(verb)
        if verb.dep_ in ("advcl", "csubj"):
            return None
        negates = lemma in (_WORDS.verbs if infinitive else _WORDS.verbs - {"forget"})
        # "could not help laughing"
        negates = negates or (lemma == "help" and verb.tag_ == "VBG" and self.is_negated(head))
        if verb.dep_ == "ccomp" and not infinitive:
            negates = lemma in _WORDS.verbs_with_clauses or _is_mistaken(head)
            if not negates and lemma not in _WORDS.verbs_of_opinion:
                return None
        elif not (
            negates or self._joins(verb) or lemma in _WORDS.verbs_of_enabling | _WORDS.verbs_of_opinion
        ):
            return None
        return negates ^ self.is_negated(head)

    def _of_adjective(self, verb: Token, adjective: Token, negated: bool) -> bool | None:
        word = adjective.lower_
        degrees = {child.lower_ for child in adjective.children if child.dep_ == "advmod"}
        if verb.dep_ == "ccomp" and not is_infinitive(verb):
            if word in ("doubtful", "false", "impossible", "improbable", "unlikely", "untrue"):
                return not negated
            return negated if word in _WORDS.adjectives_of_clauses else None
        if (
            verb.dep_ in ("advcl", "csubj")
            and not degrees & {"too", "enough"}
            and word not in _WORDS.adjectives
        ):
            return None
        if word in _WORDS.adjectives or "too" in degrees:
            return not negated
        return None if word in _WORDS.factual_adjectives else negated

    def _of_preposition(self, verb: Token, preposition: Token) -> bool | None:
        word, head = preposition.lower_, preposition.head
        if (
            word == "from"
            and head.pos_ in ("NOUN", "PROPN", "PRON")
            and head.dep_ in (*DIRECT_OBJECTS, *SUBJECTS)
        ):
            head = head.head
        lemma = head.lemma_.lower()
        if (
            (word == "from" and lemma in _VERBS_WITH_FROM)
            or (word == "of" and lemma in _WORDS.verbs_with_of)
            or (word in ("of", "for", "with", "as") and _is_mistaken(head))
        ):
            return not self.is_negated(head)
        if head.pos_ == "ADJ" and (copula := copula_of(head)).i != head.i:
            # "not guilty of killing", "incapable of killing"
            negated = self.is_negated(copula)
            has_not = any(child.dep_ == "neg" for child in head.lefts)
            # "found not guilty of killing": of a passive, which the adjective does not negate
            return self._of_adjective(verb, head, negated ^ (head.dep_ == "oprd" and has_not))
        if word in ("of", "on", "in", "at") and head.pos_ == "NOUN":
            return self._of_noun(head, verb)
        return None

    def _of_noun(self, noun: Token, verb: Token) -> bool | None:
        """Of "failure to pay", "no intention to pay", "did not have time to pay"."""
        if verb.i >= 2 and verb.nbor(-2).lower_ == "but":
            # "no choice but to leave"
            return None
        negated = is_negative(noun) and noun.lemma_.lower() not in _WORDS.no_and_more
        governor = noun.head
        lemma = governor.lemma_.lower()
        if not negated and noun.dep_ in DIRECT_OBJECTS | {"attr"}:
            if lemma in _WORDS.verbs_of_rejection:
                return not self.is_negated(governor)
            negated = lemma in _WORDS.light_verbs and self.is_negated(governor)
        if noun.lemma_.lower() in _WORDS.nouns:
            return not negated
        return True if negated else None

    def _has_adverb(self, verb: Token) -> bool:
        """True if an adverb negates a verb, its own or that of the verb that it is joined to."""
        if verb.i not in self._adverbs:
            self._adverbs[verb.i] = _has_adverb(verb) or (
                _shares_adverbs(verb) and self._has_adverb(verb.head)
            )
        return self._adverbs[verb.i]


def _shares(verb: Token) -> bool:
    """True if a verb shares what stands before the verb that it is joined to: "did not eat or sleep"."""
    head = verb.head
    return (
        verb.tag_ == head.tag_
        and verb.tag_ in ("VB", "VBG", "VBN")
        and coordinator(verb) != "but"
        and child_of(verb, SUBJECTS | {"aux", "auxpass", "neg"}) is None
    )


def _shares_adverbs(verb: Token) -> bool:
    if verb.dep_ != "conj" or child_of(verb, SUBJECTS) is not None:
        return False
    # "did not eat and drink", "never ate or drank"
    if coordinator(verb) == "or" and child_of(verb, {"aux", "auxpass"}) is None:
        return True
    return child_of(verb.head, {"aux", "auxpass"}) is not None and _shares(verb)


def is_negative(argument: Token) -> bool:
    """True for "nobody" and "no cause"; not for "nothing but the truth"."""
    following = argument.doc[argument.i + 1].lower_ if argument.i + 1 < len(argument.doc) else ""
    if following in _WORDS.exceptions:
        return False
    if argument.lower_ in _WORDS.negative_pronouns:
        return True
    for child in argument.lefts:
        if child.lower_ in _WORDS.determiners and child.dep_ in ("advmod", "cc", "det", "neg", "preconj"):
            return True
        # "not a single man", "not one"
        if child.lower_ == "not" and child.nbor().lower_ in ("a", "one", "any", "single"):
            return True
    return False


def is_universal(argument: Token) -> bool:
    """True for "everyone", "all" and "every country", which "but" restricts."""
    return not _WORDS.universal.isdisjoint({argument.lower_, *(child.lower_ for child in argument.lefts)})


def is_contrasted(argument: Token) -> bool:
    """True for Tom in "not Tom but Anna" and "did not see Tom but Anna"; not in "not only Tom but Anna"."""
    verb = argument.head
    is_object = argument.dep_ in DIRECT_OBJECTS | LINKED and argument.i > verb.i
    return (
        any(
            child.dep_ == "neg" and child.lower_ in _WORDS.negations and not _is_weak(child)
            for child in (*argument.lefts, *(verb.children if is_object else ()))
        )
        and not is_negative(argument)
        and alternative_of(argument) is not None
    )


def alternative_of(argument: Token) -> Token | None:
    """Anna in "not Tom but Anna", whether the parse joins her to Tom, to the verb, or to the clause after it
    in "it was not Tom who left but Anna"."""
    clauses = (one for head in (argument, argument.head) for one in head.rights if cleft_of(one) is not None)
    for head in (argument, argument.head, *clauses):
        but = next((child.i for child in head.rights if child.dep_ == "cc" and child.lower_ == "but"), -1)
        if but > argument.i:
            others = [*joined(argument)][1:] if head == argument else head.rights
            nouns = (one for one in others if one.i > but and one.pos_ in ("NOUN", "PROPN", "PRON"))
            labels = {"conj"} | SUBJECTS | (DIRECT_OBJECTS if cleft_of(head) is not None else set())
            found = next((one for one in nouns if one.dep_ in labels), None)
            if found is not None:
                return None if found.nbor(-1).lower_ == "not" else found
    return None


def is_negative_pronoun(argument: Token) -> bool:
    """True for a pronoun that names nobody: "nobody", "no one", "nothing"."""
    if argument.lower_ == "one":
        return any(child.lower_ in ("no", "not") for child in argument.lefts)
    return argument.lower_ in _WORDS.negative_pronouns


def _has_adverb(verb: Token) -> bool:
    adjective = child_of(verb, {"acomp"})
    children = [*verb.children, *(adjective.lefts if adjective is not None else ())]
    negations = [child for child in children if child.dep_ == "neg" and child.lower_ in _WORDS.negations]
    if negations and excluded_after(verb) is not None:
        children = [child for child in children if child not in negations or child.i < verb.i]
        negations = [child for child in negations if child.i < verb.i]
    if len(negations) == 2:
        # "cannot not go"
        return False
    if negations:
        target = child_of(verb, DIRECT_OBJECTS | LINKED)
        subject = subject_of(verb)
        others = [*joined(subject)][1:] if subject is not None else []
        # "did not see Tom but Anna", "the driver but not the owner left"
        if (target is not None and is_contrasted(target)) or any(
            other.left_edge.i == negations[0].i + 1 for other in others
        ):
            children = [child for child in children if child not in negations]
    before = verb.nbor(-1) if verb.i else verb
    if before.lower_ == "neither" and before != child_of(verb, SUBJECTS):
        # Some parses give "neither" another label or head: "He neither ate nor slept".
        return True
    for child in children:
        word = child.lower_
        if word == "neither" and child.dep_ in SUBJECTS and child != subject_of(verb):
            return True
        if child.dep_ in ("neg", "advmod", "preconj", "cc", "det") and word in _ADVERBS:
            # "nor" after a verb belongs to the next one.
            if not (_is_weak(child) or (child.i > verb.i and word in ("neither", "nor"))):
                return True
        elif child.dep_ == "neg" or (child.dep_ == "advmod" and "Neg" in child.morph.get("Polarity")):
            return True
        elif child.dep_ in ("advmod", "npadvmod") and child.lemma_.lower() not in _WORDS.no_and_more:
            # "no longer"
            if any(inner.dep_ in ("neg", "det") and inner.lower_ == "no" for inner in child.lefts):
                following = child.doc[child.i + 1].lower_ if child.i + 1 < len(child.doc) else ""
                if following != "than":
                    return True
        elif child.dep_ == "prep":
            noun = child_of(child, {"pobj"})
            if noun is not None and noun.lemma_.lower() in _WORDS.circumstances and is_negative(noun):
                return True
    return coordinator(verb) == "nor"


def _is_weak(adverb: Token) -> bool:
    """True for "not only", "whether or not", and for "hardly had he left when"."""
    following = adverb.doc[adverb.i + 1] if adverb.i + 1 < len(adverb.doc) else None
    if adverb.i and adverb.nbor(-1).lower_ == "or":
        return True
    if following is None:
        return False
    if adverb.lower_ in ("hardly", "scarcely"):
        return following.lower_ == "had"
    return following.lower_ in _WORDS.after_not


def _stands_behind_negation(verb: Token) -> bool:
    place = verb.i - 1
    if place > 0 and verb.nbor(-1).lower_ == "to" and verb.nbor(-2).lower_ == "yet":
        # "has yet to respond"
        return True
    while place > 0 and (
        verb.doc[place].lower_ in ("to", "be", "being", "having") or verb.doc[place].pos_ == "ADV"
    ):
        if (verb.doc[place - 1].lower_, verb.doc[place].lower_) in _BEFORE:
            break
        place -= 1
    if place < 0:
        return False
    word = verb.doc[place]
    if word.lower_ in _WORDS.prepositions and verb.dep_ in ("pcomp", "advcl"):
        return True
    return place > 0 and (verb.doc[place - 1].lower_, word.lower_) in _BEFORE


def _has_negative_object(verb: Token) -> bool:
    objects = DIRECT_OBJECTS | INDIRECT_OBJECTS | LINKED
    for child in verb.children:
        if child.dep_ in objects and is_negative(child):
            return True
        if child.dep_ == "agent" and (noun := child_of(child, {"pobj"})) is not None and is_negative(noun):
            return True
        if child.dep_ == "prep" and child.i > verb.i and child.lower_ != "for":
            noun = child_of(child, {"pobj"})
            if noun is not None and is_negative_pronoun(noun) and is_negative(noun):
                return True
    return False


def _is_mistaken(verb: Token) -> bool:
    return any(child.dep_ == "advmod" and child.lower_ in _WORDS.mistaken for child in verb.children)


def governs_negatively(verb: Token) -> bool:
    """True for a verb whose complement did not happen, so that both are events: "failed to pay"."""
    return verb.lemma_.lower() in _WORDS.verbs
