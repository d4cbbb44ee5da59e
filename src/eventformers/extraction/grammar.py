"""Questions about the dependency tree of a sentence, which all rules of the extraction share."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from eventformers.extraction.lexicon import lexicon

if TYPE_CHECKING:
    from spacy.tokens import Span, Token

_WORDS = lexicon("grammar")
# fmt: off
HELPERS = frozenset({"aux", "auxpass", "aux:caus", "aux:pass", "aux:tense", "cop"})
SUBJECTS = frozenset({"nsubj", "nsubjpass", "nsubj:pass"})
DIRECT_OBJECTS = frozenset({"dobj", "obj"})
INDIRECT_OBJECTS = frozenset({"dative", "iobj"})
LINKED = frozenset({"attr", "acomp", "oprd"})
_NO_CLAUSES = HELPERS | {
    "acomp", "amod", "case", "compound", "compound:prt", "det", "expl", "mark", "nmod", "oprd", "poss",
    "prep", "prt", "punct",
}
# Labels that the parse may give the first of two joined subjects.
_FIRST_SUBJECTS = SUBJECTS | {"npadvmod"}
# fmt: on
RELATIVE_CLAUSES = frozenset({"relcl", "acl:relcl", "acl"})
RELATIVE_PRONOUNS = frozenset({"who", "whom", "which", "that"})

_BEFORE_NOUNS = frozenset({"amod", "compound", "nmod", "nummod", "poss", "quantmod"})
_MOST_STEPS = 20
LONGEST_LIST = 20
"""Verbs of a list that are looked through, so that time is linear in the length of a sentence."""


def is_clause_head(token: Token) -> bool:
    """True if a token is a verb that heads a clause, including copulas."""
    if token.dep_ in _NO_CLAUSES or (token.dep_ == "advcl" and token.lower_ in _WORDS.prepositions):
        return False
    if token.lower_ == "let" and token.i + 1 < len(token.doc) and token.nbor().lower_ == "alone":
        return False
    is_verb = token.pos_ in ("VERB", "AUX") if token.pos else token.tag_.startswith("VB")
    # Of an unknown verb ("jeopardised"), only its auxiliary is recognised.
    return (is_verb or child_of(token, {"auxpass"}) is not None) and is_word(token)


def is_elliptical(token: Token) -> bool:
    """True for an auxiliary whose verb follows a joined one: "can't" in "he can't and won't pay"."""
    is_auxiliary = token.tag_ == "MD" or token.lower_ in ("do", "does", "did")
    joined_verb = child_of(token, {"conj"})
    return (
        is_auxiliary
        and child_of(token, DIRECT_OBJECTS) is None
        and joined_verb is not None
        and child_of(joined_verb, {"aux"}) is not None
    )


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
    # Called many times a word: a loop takes half as long as a generator.
    for child in token.children:
        if child.dep_ in labels and not child.is_space:
            return child
    return None


def noun_of_preposition(preposition: Token) -> tuple[list[str], Token | None]:
    """The words of a preposition, also of "out of", and its noun; None without one."""
    words, noun, inner = [preposition.lower_], child_of(preposition, {"pobj"}), preposition
    while noun is None and (following := child_of(inner, {"prep"})) is not None:
        words.append(following.lower_)
        inner, noun = following, child_of(following, {"pobj"})
    return words, noun


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
    """A word and those that are joined to it, in order: "Israel", "Egypt" and "Jordan".

    Also a second subject that the parse gives the verb after a conjunction, and Tom in "Anna, not Tom".
    """
    verbs = (
        [head.head] if head.dep_ in _FIRST_SUBJECTS else [one for one in head.rights if one.dep_ == "conj"]
    )
    others = [one for verb in verbs for one in verb.lefts if one.i > head.i and _follows_conjunction(one)]
    waiting = [*reversed(others), head]
    while waiting:
        token = waiting.pop()
        yield token
        waiting += reversed([child for child in token.rights if child.dep_ == "conj" or is_excluded(child)])


def subject_of(verb: Token) -> Token | None:
    """The first subject of a verb: not "neither" in "neither did the law pass", but Tom in "Tom but not Anna
    left", "Tom as well as Anna left" and "not only Tom but all women left", whatever the parse takes him
    for."""
    subjects = [child for child in verb.children if child.dep_ in SUBJECTS and not child.is_space]
    if len(subjects) > 1 and subjects[0].lower_ == "neither":
        return subjects[1]
    if len(subjects) == 1 and _follows_conjunction(subjects[0]):
        before = [one for one in verb.lefts if one.i < subjects[0].i and one.dep_ in _FIRST_SUBJECTS]
        words = set(_words_before(subjects[0]))
        if verb.dep_ == "conj" and verb.head.pos_ in ("NOUN", "PRON", "PROPN") and "well" not in words:
            before.append(verb.head)
        words.update(one.doc[one.left_edge.i].lower_ for one in before[-1:])
        if before and not words.isdisjoint(("not", "well")):
            return before[-1]
    return subjects[0] if subjects else None


def _follows_conjunction(subject: Token) -> bool:
    """True for Anna in "Tom but not Anna left", if the parse does not join them."""
    words = [word for word in _words_before(subject) if word not in ("also", "not")]
    is_joined = any(word in ("and", "but") for word in words[-2:]) or words[:2] == ["well", "as"]
    return subject.dep_ in SUBJECTS and is_joined


def _words_before(subject: Token) -> list[str]:
    """The two words before a subject, and its first one."""
    start = subject.left_edge.i
    return [word.lower_ for word in subject.doc[max(0, start - 2) : start + 1]]


def is_excluded(apposition: Token) -> bool:
    """True for Tom in "Anna, not Tom"."""
    start = apposition.left_edge.i
    return apposition.dep_ == "appos" and start > 0 and apposition.doc[start - 1].lower_ == "not"


def excluded_after(verb: Token) -> Token | None:
    """Tom in "Anna won, not Tom"."""
    for negation in verb.rights:
        if negation.dep_ == "neg" and negation.nbor(-1).lower_ == ",":
            return next(
                (
                    one
                    for one in verb.rights
                    if one.left_edge.i == negation.i + 1
                    and one.pos_ in ("NOUN", "PRON", "PROPN")
                    # "was, not a plan, but a dream"
                    and one.dep_ not in DIRECT_OBJECTS | {"attr"}
                ),
                None,
            )
    return None


def is_extraposed(clause: Token) -> bool:
    """True for "that Tom resigned" in "it was a surprise that Tom resigned", which has all its parts."""
    noun = clause.head
    subject = child_of(noun.head, SUBJECTS)
    return (
        noun.dep_ == "attr"
        and noun.lemma_ in _WORDS.judgements
        and subject is not None
        and subject.lower_ == "it"
        and any(word.lower_ == "that" for word in clause.lefts)
    )


def cleft_of(verb: Token) -> Token | None:
    """The copula of "it was Tom who left", where `verb` is "left"."""
    if verb.dep_ not in ("ccomp", *RELATIVE_CLAUSES) or is_extraposed(verb):
        return None
    copula = verb.head
    while copula.dep_ in ("appos", "conj", "attr"):
        copula = copula.head
    subject, focus = child_of(copula, SUBJECTS), child_of(copula, {"attr"})
    if copula.lemma_ != "be" or subject is None or subject.lower_ != "it" or focus is None:
        return None
    pronouns = {word.dep_ for word in verb.lefts if word.lower_ in RELATIVE_PRONOUNS}
    # "that" may be taken for a conjunction, which it is in "it was a surprise that he left".
    names_object = focus.pos_ in ("PRON", "PROPN") and focus.ent_type_ not in ("DATE", "TIME")
    is_cleft = pronouns & (SUBJECTS | DIRECT_OBJECTS) or ("mark" in pronouns and names_object)
    return copula if is_cleft else None


def is_relative_pronoun(word: Token) -> bool:
    """True for "who" and "that", and for what a pipeline of another language calls relative: "qui"."""
    return word.lower_ in RELATIVE_PRONOUNS or (word.lang_ != "en" and "Rel" in word.morph.get("PronType"))


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


def trigger_of(span: Span, triggers: Collection[int]) -> int | None:
    """The trigger that a time or a place belongs to; None if the parse gives none.

    It is the nearest one above: "the attack on Monday" is that of a noun, if that noun is an event, else of
    its clause. What stands before a noun ("Monday's attack") belongs to no other word.

    Args:
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
