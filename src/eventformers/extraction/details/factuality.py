"""Factuality of events: what a text says of whether they happened, and who says so.

- `negated`: the text says that it did not happen, or will not.
- `possible`: modal, future, intended, conditional, asked, refused, or charged; "refused to pay" too, whose
  predicate is "not pay".
- `reported`: somebody other than the author says or thinks so, with the one who does. What a report negates
  or calls possible stays `negated` or `possible`, and has its source.
- `fact`: everything else; also what follows "know that", "began to" or "managed to".

The event is that of the last verb of a predicate: "wants to buy" is possible. English only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from eventformers.extraction.details.actors import ACTOR_IDS
from eventformers.extraction.grammar import (
    DIRECT_OBJECTS,
    LINKED,
    RELATIVE_CLAUSES,
    RELATIVE_PRONOUNS,
    child_of,
    clause_of,
    copula_of,
    is_clause_head,
    is_finite,
    is_infinitive,
    is_participle,
    subject_of,
)
from eventformers.extraction.lexicon import lexicon
from eventformers.extraction.quotations import SPEECH, quotations_of, speaker_of

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

    from eventformers.extraction.events import ExtractedEvent

_WORDS = lexicon("factuality")

# fmt: off
_REPORTS = SPEECH | _WORDS.belief | {"propose"}
# Nouns and verbs whose event is not there: "threat of war", "called for a strike", "avoided a strike".
_AIMS = _WORDS.aims | _WORDS.wishes | _WORDS.outlooks | _WORDS.charges
_AIMS -= {"discuss", "investigate", "oppose"}
# fmt: on
# Governors that are looked through, so that a text cannot exhaust the stack.
_DEEPEST = 100


class _Standing(NamedTuple):
    """What holds of a clause, its own negation aside.

    Args:
        possible: it may not happen.
        hypothetical: it is possible, and "not" does not deny it: "should not leave".
        reported: somebody says so.
        source: the one who does, if known.
    """

    possible: bool = False
    hypothetical: bool = False
    reported: bool = False
    source: Token | None = None

    def report(self) -> _Standing:
        """The report alone."""
        return _Standing(reported=self.reported, source=self.source)

    def within(self, outer: _Standing) -> _Standing:
        """Add what holds of the clause around it."""
        return _Standing(
            self.possible or outer.possible,
            self.hypothetical or outer.hypothetical,
            self.reported or outer.reported,
            self.source if self.source is not None else outer.source,
        )


_FACT = _Standing()
_POSSIBLE = _Standing(possible=True)
_HYPOTHETICAL = _Standing(possible=True, hypothetical=True)


def factuality_details(doc: Doc, events: Sequence[ExtractedEvent]) -> list[dict[str, Any]]:
    """Return `factuality` and `source_id` of each event.

    `source_id` is the actor that `ACTOR_IDS` has for the head word of
    the source.
    """
    clauses, actors = _Clauses(doc), doc.user_data.get(ACTOR_IDS, {})
    found = (clauses.factuality(event) for event in events)
    return [
        {"factuality": factuality, "source_id": actors.get(source.i, "") if source is not None else ""}
        for factuality, source in found
    ]


class _Clauses:
    """The clauses of a text, with what holds of each."""

    def __init__(self, doc: Doc) -> None:
        self.doc = doc
        self._known: dict[int, _Standing] = {}
        self._depth = 0
        self._quotations = quotations_of(doc)

    def factuality(self, event: ExtractedEvent) -> tuple[str, Token | None]:
        """The factuality of an event, and the one who says so."""
        trigger = self.doc[event.trigger_index]
        if event.trigger_kind == "verb":
            # "buy" of "wants to buy"
            word = trigger
            while (
                (complement := child_of(word, {"xcomp"})) is not None
                and is_clause_head(complement)
                and complement.lower_ in event.predicate.split()[1:]
            ):
                word = complement
            is_almost = any(child.dep_ == "advmod" and child.lower_ in _WORDS.almost for child in word.lefts)
            standing, negated = self._of_verb(word), event.negated or is_almost
        else:
            standing, negated = self._of_noun(trigger), event.negated
        if negated and not standing.hypothetical:
            return "negated", standing.source
        if standing.possible:
            return "possible", standing.source
        return ("reported" if standing.reported else "fact"), standing.source

    def _of_verb(self, verb: Token) -> _Standing:
        if verb.i not in self._known:
            # Ends the walk in parses with a cycle of joined words.
            self._known[verb.i] = _FACT
            self._depth += 1
            standing = _own(verb).within(self._of_governor(verb)) if self._depth < _DEEPEST else _FACT
            self._depth -= 1
            self._known[verb.i] = standing if standing.reported else standing.within(self._of_quotation(verb))
        return self._known[verb.i]

    def _of_governor(self, verb: Token) -> _Standing:
        """What the governor of a clause says of it."""
        head, label = verb.head, verb.dep_
        if head.i == verb.i:
            return _HYPOTHETICAL if _is_question(verb) or _is_request(verb) else _FACT
        if label in LINKED or label in ("cop", "aux", "auxpass"):
            return self._of_verb(head)
        if label == "conj":
            return self._of_joined(verb, head)
        if _is_aside(verb):
            return self._of_governor(head)
        if label in ("xcomp", "ccomp", "csubj", "csubjpass", "parataxis"):
            return self._of_complement(verb, head)
        if label == "advcl":
            return self._of_adverbial(verb, head)
        if label in ("pcomp", "pobj"):
            return self._of_preposition(verb, head)
        if label in RELATIVE_CLAUSES or label == "acl":
            return self._of_noun_clause(verb, head)
        return (_HYPOTHETICAL if _is_question(verb) else _FACT).within(self._scope(head))

    def _scope(self, token: Token) -> _Standing:
        """The report around a word, without what is possible in it."""
        return self._of_verb(clause_of(token)).report()

    def _of_joined(self, verb: Token, head: Token) -> _Standing:
        if not is_clause_head(head):
            return self._of_governor(head) if head.dep_ in LINKED else self._scope(head)
        if subject_of(verb) is None and (not is_finite(verb) or (verb.tag_ == "VBP" and _has_modal(head))):
            # "will pay and leave", "to pay and leave"
            return self._of_verb(head)
        # "if he pays and leaves", "said that he paid and left"
        around = self._of_governor(head) if is_finite(head) else _FACT
        return around.within(self._scope(head))

    def _of_complement(self, verb: Token, head: Token) -> _Standing:
        governor, lemma, to = copula_of(head), head.lemma_.lower(), _has_to(verb)
        outer = self._of_verb(governor)
        scope = outer.report()
        if verb.dep_ in ("csubj", "csubjpass"):
            return _POSSIBLE.within(scope) if to else scope
        adjective = head if governor.i != head.i else child_of(head, LINKED) if head.pos_ == "AUX" else None
        is_embedded_question = verb.left_edge.tag_ in ("WP", "WRB", "WDT") and not _has_to(verb)
        if adjective is not None and adjective.i < verb.i:
            if is_embedded_question:
                # "It is not clear how he left"
                return scope
            return self._of_adjective(verb, adjective, governor).within(scope)
        if verb.dep_ == "xcomp" or to:
            if lemma in _WORDS.refusals or (lemma in _WORDS.wishes and to):
                return _HYPOTHETICAL.within(scope)
            if to or is_infinitive(verb):
                if (
                    lemma in _REPORTS
                    and child_of(head, {"auxpass", "dobj"}) is not None
                    and lemma not in _WORDS.asking
                ):
                    # "is said to be", "believed him to be"
                    return _report(head, outer)
                return outer if lemma in _WORDS.doing or not to else _POSSIBLE.within(scope)
            if lemma in _REPORTS:
                # "admitted stealing"
                return _report(head, outer)
            return _POSSIBLE.within(scope) if lemma in _WORDS.outlooks else outer
        mark = child_of(verb, {"mark"})
        asked = lemma in _WORDS.wishes or (mark is not None and mark.lower_ in _WORDS.conditions)
        if lemma in _REPORTS:
            between = verb.doc[min(verb.i, head.i) + 1 : max(verb.i, head.i)]
            is_quoted = verb.i < head.i or any(token.is_quote for token in between)
            if not (is_quoted or asked) and is_embedded_question:
                # "told her where he lived"
                return scope
            if is_quoted:
                asked = _is_request(verb) or any(token.text.endswith("?") for token in between)
            return (_HYPOTHETICAL if asked else _FACT).within(_report(head, outer))
        if asked or lemma in ("appear", "seem"):
            return _HYPOTHETICAL.within(scope)
        # "let him leave", "Did he leave?"
        return outer if lemma in ("do", "have", "help", "let", "make") else scope

    def _of_adjective(self, verb: Token, adjective: Token, copula: Token) -> _Standing:
        word = adjective.lower_
        if word in _WORDS.refusals:
            return _HYPOTHETICAL
        if verb.dep_ == "ccomp" and not _has_to(verb):
            unsure = word in _WORDS.sure and child_of(copula, {"neg"}) is not None
            return _HYPOTHETICAL if unsure or word in _WORDS.unsure_adjectives else _FACT
        return _POSSIBLE if _has_to(verb) and word not in _WORDS.factual_adjectives else _FACT

    def _of_adverbial(self, verb: Token, head: Token) -> _Standing:
        outer = self._of_verb(copula_of(head))
        scope = outer.report()
        words = {child.lower_ for child in verb.lefts if child.dep_ in ("advmod", "mark")}
        if words & _WORDS.conditions or _is_inverted(verb) or ("that" in words and _has_modal(verb)):
            return _HYPOTHETICAL.within(scope)
        if _has_to(verb):
            # "defeated her to become mayor"
            return outer if verb.lemma_ == "become" and _is_past(head) else _HYPOTHETICAL.within(scope)
        if (is_participle(verb) or words & _WORDS.when) and not _is_past(verb):
            # "will win by staying", "when he comes, they will leave"
            return scope if head.lemma_.lower() in _REPORTS else outer
        return scope

    def _of_preposition(self, verb: Token, preposition: Token) -> _Standing:
        governor, word = preposition.head, preposition.lower_
        outer = self._of_verb(governor) if is_clause_head(governor) else self._scope(governor)
        lemma = governor.lemma_.lower()
        if lemma in _WORDS.refusals | _WORDS.charges and word in ("for", "from", "of", "over", "with"):
            accuser = speaker_of(governor) if lemma in _WORDS.charges else None
            return _HYPOTHETICAL._replace(source=accuser).within(outer)
        if lemma in _AIMS or lemma in _WORDS.purposes:
            return _POSSIBLE.within(outer)
        return _report(governor, outer) if lemma in _REPORTS and word == "as" else outer

    def _of_noun_clause(self, verb: Token, noun: Token) -> _Standing:
        scope, lemma = self._scope(noun), noun.lemma_.lower()
        if _has_to(verb) and subject_of(verb) is None and not _has_modal(verb):
            # "the first man to walk there", "a plan to leave"
            if not _WORDS.ordinals.isdisjoint({noun.lower_, *(child.lower_ for child in noun.lefts)}):
                return scope
            return (_HYPOTHETICAL if lemma in _WORDS.refusals else _POSSIBLE).within(scope)
        if verb.dep_ == "acl" and child_of(verb, {"mark"}) is not None:
            if lemma in _WORDS.claims:
                return _Standing(reported=True, source=child_of(noun, {"poss"})).within(scope)
            if lemma in _AIMS:
                return _HYPOTHETICAL.within(scope)
        return scope

    def _of_noun(self, noun: Token) -> _Standing:
        """What a text says of the event of a noun: "planned attack", "called for an attack"."""
        quoted = self._of_quotation(noun)
        before = {child.lower_ for child in noun.lefts}
        if before & _WORDS.unreal:
            return _HYPOTHETICAL.within(quoted)
        word = noun
        while word.dep_ in ("appos", "compound", "conj") and word.head.i != word.i:
            word = word.head
        with_preposition = word.dep_ == "pobj"
        head = word.head.head if with_preposition else word.head
        is_object = with_preposition or word.dep_ in DIRECT_OBJECTS
        # "ruled out an attack", but "ruled on the attack"
        is_aim = head.lemma_.lower() in _AIMS and (
            head.lemma_ != "rule" or child_of(head, {"prt"}) is not None
        )
        if is_aim and is_object:
            return _HYPOTHETICAL.within(self._scope(head)).within(quoted)
        is_known = with_preposition or before & _WORDS.definite or child_of(noun, {"poss"}) is not None
        if is_known or not is_clause_head(head):
            return self._scope(word.head).within(quoted)
        return self._of_verb(head).within(quoted)

    def _of_quotation(self, token: Token) -> _Standing:
        number = self._quotations.around(token)
        return _FACT if number is None else _Standing(reported=True, source=self._quotations.speaker(number))


def _own(verb: Token) -> _Standing:
    """What the auxiliaries and adverbs of a verb say."""
    found = _FACT
    for child in verb.children:
        word, label = child.lower_, child.dep_
        if label == "aux" and child.tag_ == "MD":
            found = (_HYPOTHETICAL if word in _WORDS.hypothetical_modals else _POSSIBLE).within(found)
        elif label == "advmod" and word in _WORDS.unsure:
            found = _HYPOTHETICAL.within(found)
        elif label == "advmod" and word in _WORDS.hearsay:
            found = _Standing(reported=True).within(found)
        elif label == "prep" and word == "according":
            to = child_of(child, {"prep"})
            source = to and child_of(to, {"pobj"})
            # Not "an agreement according to which".
            if source is not None and source.lower_ not in RELATIVE_PRONOUNS:
                found = _Standing(reported=True, source=source).within(found)
        elif _is_aside(child):
            found = _report(child, _FACT).within(found)
    return found


def _is_aside(verb: Token) -> bool:
    """True for "said" in "the deal, he said, is off" and "as he said"."""
    if verb.lemma_.lower() not in SPEECH or child_of(verb, DIRECT_OBJECTS | {"ccomp"}) is not None:
        return False
    mark = child_of(verb, {"mark"})
    return verb.dep_ == "parataxis" or (verb.dep_ == "advcl" and mark is not None and mark.lower_ == "as")


def _is_question(verb: Token) -> bool:
    """True if the sentence of a verb is a question."""
    last = verb.sent[-1]
    while last.i > verb.i and (last.is_space or last.is_quote or last.lower_ in ("'", "’", ")")):
        last = last.nbor(-1)
    return last.text.endswith("?")


def _is_request(verb: Token) -> bool:
    """True for an imperative."""
    return (
        verb.tag_ in ("VB", "VBP")
        and subject_of(verb) is None
        and all(child.lower_ in ("do", "please") for child in verb.children if child.dep_ in ("aux", "intj"))
    )


def _report(verb: Token, outer: _Standing) -> _Standing:
    """What a verb of speech or belief says of its clause."""
    speaker = speaker_of(verb)
    is_author = speaker is not None and speaker.lower_ in ("i", "we") and verb.tag_ in ("VBP", "VB")
    if is_author and not outer.reported:
        return _Standing(outer.hypothetical, outer.hypothetical)
    return _Standing(reported=True, source=speaker).within(outer)


def _has_modal(verb: Token) -> bool:
    return any(child.tag_ == "MD" for child in verb.lefts)


def _has_to(verb: Token) -> bool:
    return any(child.dep_ == "aux" and child.lower_ == "to" for child in verb.lefts)


def _is_inverted(verb: Token) -> bool:
    """True for "had he left" without "if"."""
    first, subject = child_of(verb, {"aux", "auxpass"}), subject_of(verb)
    return (
        first is not None
        and subject is not None
        and first.i < subject.i
        and first.lower_ in ("had", "should", "were")
    )


def _is_past(verb: Token) -> bool:
    return verb.tag_ == "VBD" or any(child.tag_ == "VBD" for child in verb.lefts)
