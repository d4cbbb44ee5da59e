"""Events of a parsed text: who did what to whom, and their place in the text.

The extractor reads the dependency labels of spaCy's English pipelines (ClearNLP) and those of Universal
Dependencies, which spaCy's pipelines of most other languages use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventformers.errors import EventformersError, UnknownNameError

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

ARGUMENT_FORMS = ("heads", "spans")

# fmt: off
_HELPERS = frozenset({"aux", "auxpass", "aux:pass", "cop"})
_NO_CLAUSES = _HELPERS | {
    "acomp", "amod", "case", "compound", "compound:prt", "det", "expl", "mark", "nmod", "oprd", "poss",
    "prep", "prt", "punct",
}
_SUBJECTS = frozenset({"nsubj", "nsubjpass", "nsubj:pass"})
# Dependents that replace a subject: "there was", "to leave is right".
_NO_SUBJECTS = frozenset({"expl", "csubj", "csubjpass", "csubj:pass"})
_PASSIVE_MARKS = frozenset(
    {"nsubjpass", "auxpass", "csubjpass", "nsubj:pass", "aux:pass", "csubj:pass"}
)
_DIRECT_OBJECTS = frozenset({"dobj", "obj"})
_INDIRECT_OBJECTS = frozenset({"dative", "iobj"})
_LINKED = frozenset({"attr", "acomp", "oprd"})
_PARTICLES = frozenset({"prt", "compound:prt"})
_RELATIVE_CLAUSES = frozenset({"relcl", "acl:relcl", "acl"})
_RELATIVE_PRONOUNS = frozenset({"who", "whom", "which", "that"})
_RELATIVE_WORDS = _RELATIVE_PRONOUNS | {"how", "what", "when", "where", "whereby", "whose", "why"}
# Nouns of time, place, manner and reason are no object of their relative clause: "the day Anna left".
_CIRCUMSTANCES = frozenset({
    "day", "moment", "month", "night", "place", "reason", "time", "way", "week", "year",
})
_NEGATIONS = frozenset({"not", "n't", "n’t", "never"})
# "accused him of leaving", "kept him from leaving": the object leaves.
_PREPOSITIONS_OF_OBJECTS = frozenset({"as", "from", "into", "of"})
# "the door was hard to open": its subject is opened.
_ADJECTIVES_OF_OBJECTS = frozenset({"difficult", "easy", "hard", "impossible", "simple", "tough"})
_OUTSIDE_SPANS = _HELPERS | _SUBJECTS | _RELATIVE_CLAUSES | {
    "appos", "advcl", "punct", "mark", "expl", "neg", "csubj", "parataxis", "agent", "ccomp",
}
# fmt: on


@dataclass(frozen=True, slots=True)
class ExtractedEvent:
    """An event, in lower case, with its place in the text.

    Args:
        sentence: index of the sentence in the text, from 0.
        offset: character offset of the verb in the text.
        subject: the agent; "" if it is not named.
        predicate: the verb as written, with its particles, its open complements, a predicative adjective, and
            the preposition of a prepositional object.
        object: the patient.
        lemma: lemma of the verb.
        passive: True if the verb is passive; subject and object are already exchanged.
        negated: True if the text negates the event.
        subject_index: token index of the subject's head in the text; None without a subject.
        object_index: token index of the object's head; None without an object.
    """

    sentence: int
    offset: int
    subject: str
    predicate: str
    object: str
    lemma: str
    passive: bool
    negated: bool
    subject_index: int | None = None
    object_index: int | None = None

    def fields(self) -> list[int | str]:
        """The eight fields of a row of extracted events, in the format of `EventChains`."""
        return [
            self.sentence,
            self.offset,
            self.subject,
            self.predicate,
            self.object,
            self.lemma,
            int(self.passive),
            int(self.negated),
        ]


def extract_events(doc: Doc, arguments: str = "heads") -> list[ExtractedEvent]:
    """Extract the events of a parsed text, in the order of their verbs.

    - Passive: the agent becomes the subject and the grammatical subject the object; without an agent the
      subject is absent.
    - A verb without a subject takes that of the verb that it is joined to or depends on; a participle after a
      noun takes the noun; the antecedent replaces a relative pronoun, also one that is left out ("cars Anna
      sold").
    - An open complement ("wants to buy cars") becomes part of the predicate: `wants buy` in heads,
      `wants to buy` in spans. After an object ("asked him to leave"), a passive, or an adjective or noun of a
      copula ("was able to leave") it is a separate event, whose subject is the object or the grammatical
      subject.
    - Without a direct object, the object is an indirect one, else the noun of a copula, else that of the
      first preposition after the verb, which then ends the predicate (`sat on`). An adjective or participle
      after a copula is part of the predicate (`was angry at`).
    - A negation is an adverb of the verb, `without` before it, or in heads the `no` of a subject or object.

    Args:
        doc: a text with dependencies, sentences, and parts of speech or English (Penn Treebank) tags.
        arguments: `heads` for head words; `spans` for full noun phrases without their relative clauses and
            appositions.

    Returns:
        The events, including those with neither subject nor object.

    Raises:
        UnknownNameError: `arguments` is unknown.
        EventformersError: the text is not parsed or not tagged.
    """
    if arguments not in ARGUMENT_FORMS:
        raise UnknownNameError("form of arguments", arguments, ARGUMENT_FORMS)
    check_annotation(doc)
    return list(_Clauses(doc, arguments == "spans").events())


def check_annotation(doc: Doc) -> None:
    """Reject a text without the annotations that extraction needs; a text of only white space passes.

    Raises:
        EventformersError: the text is not parsed or not tagged.
    """
    if all(token.is_space for token in doc):
        return
    if not doc.has_annotation("DEP"):
        raise EventformersError(
            "the spaCy pipeline provides no dependencies; accepted: a pipeline with a parser, such as"
            " en_core_web_sm"
        )
    if not (doc.has_annotation("POS") or doc.has_annotation("TAG")):
        raise EventformersError(
            "the spaCy pipeline provides no parts of speech; accepted: a pipeline with a tagger or a"
            " morphologizer, such as en_core_web_sm"
        )


class _Clauses:
    """The clauses of one text, with cached answers to repeated questions about a verb."""

    def __init__(self, doc: Doc, spans: bool) -> None:
        self.doc, self.spans = doc, spans
        self._subject_of: dict[int, Token | None] = {}
        self._passive: dict[int, bool] = {}

    def events(self) -> Iterator[ExtractedEvent]:
        """Yield one event for each clause."""
        for number, sentence in enumerate(self.doc.sents):
            for token in sentence:
                if token.dep_ == "cop" and not is_clause_head(token.head):
                    yield self._copula(number, token)
                elif is_clause_head(token) and not self._joins_its_head(token):
                    yield self._event(number, token)

    def _event(self, sentence: int, verb: Token) -> ExtractedEvent:
        words, last = [verb.lower_, *_particles(verb)], verb
        negated = _is_negated(verb)
        while (complement := self._joined_complement(last)) is not None:
            if self.spans:
                words += [child.lower_ for child in complement.lefts if child.lower_ == "to"]
            words += [complement.lower_, *_particles(complement)]
            negated = negated or _is_negated(complement)
            last = complement
        subject = self._grammatical_subject(verb)
        passive = self._is_passive(verb)
        if passive:
            agent = _agent(last)
            subject, target = (agent[1] if agent else None), subject
        elif last is not verb and self._is_passive(last):
            target = None
            if (agent := _agent(last)) is not None:
                words.append(agent[0])
                target = agent[1]
        else:
            target = self._omitted_object(verb, last, words) or self._object(last, words)
        return self._made(sentence, verb, subject, words, target, passive, negated)

    def _copula(self, sentence: int, copula: Token) -> ExtractedEvent:
        """The event of a copula that depends on the predicate noun or adjective, as in Universal
        Dependencies."""
        linked = copula.head
        words, target = [copula.lower_], None
        if linked.pos_ in ("ADJ", "ADV", "VERB"):
            words.append(linked.lower_)
            target = _prepositional(linked, words)
        else:
            words += [child.lower_ for child in linked.lefts if child.dep_ == "case"]
            target = linked
        negated = _is_negated(linked)
        subject = self._grammatical_subject(linked)
        return self._made(sentence, copula, subject, words, target, False, negated)

    def _made(
        self,
        sentence: int,
        verb: Token,
        subject: Token | None,
        words: list[str],
        target: Token | None,
        passive: bool,
        negated: bool,
    ) -> ExtractedEvent:
        return ExtractedEvent(
            sentence=sentence,
            offset=verb.idx,
            subject=self._text(subject),
            predicate=" ".join(" ".join(words).split()),
            object=self._text(target),
            lemma=(verb.lemma_ or verb.lower_).lower(),
            passive=passive,
            negated=negated or (not self.spans and (_has_no(subject) or _has_no(target))),
            subject_index=None if subject is None else subject.i,
            object_index=None if target is None else target.i,
        )

    def _text(self, head: Token | None) -> str:
        if head is None:
            return ""
        return mention_text(head) if self.spans else " ".join(head.lower_.split())

    def _grammatical_subject(self, verb: Token) -> Token | None:
        if verb.i not in self._subject_of:
            self._subject_of[verb.i] = self._find_subject(verb)
        return self._subject_of[verb.i]

    def _find_subject(self, verb: Token) -> Token | None:
        own = _child(verb, _SUBJECTS)
        if own is not None:
            return self._antecedent(own, verb)
        if _child(verb, _NO_SUBJECTS) is not None:
            return None
        dependency, head = verb.dep_, verb.head
        if dependency == "acl":
            return head if _is_participle(verb) else None
        if dependency == "xcomp":
            return self._subject_of_complement(verb)
        if dependency == "pcomp":
            return self._subject_of_gerund(verb)
        if dependency == "advcl" and _is_infinitive(verb) and self._is_passive(head):
            agent = _agent(head)
            return None if agent is None else agent[1]
        # "was pending and came"
        head = head.head if dependency == "conj" and head.dep_ in _LINKED else head
        return self._grammatical_subject(head) if dependency in ("conj", "advcl") and _governs(head) else None

    def _subject_of_complement(self, verb: Token) -> Token | None:
        """The subject of an open complement: the object of its head, else the subject of its head."""
        head, linked = verb.head, _child(verb.head, _LINKED)
        if head.dep_ in _LINKED:
            head, linked = head.head, head
        if not _governs(head):
            return None
        if (target := _child(head, _DIRECT_OBJECTS)) is not None:
            return target
        subject = self._grammatical_subject(head)
        # "it was right to leave"
        if linked is not None and subject is not None and subject.lower_ == "it":
            return None
        return None if linked is not None and linked.lemma_ in _ADJECTIVES_OF_OBJECTS else subject

    def _subject_of_gerund(self, verb: Token) -> Token | None:
        """The subject of a verb after a preposition: the object or the subject of the verb before it."""
        preposition = head = verb.head
        while head.dep_ in ("prep", "pcomp") and head.head.i != head.i and not is_clause_head(head):
            head = head.head
        if not _governs(head):
            return None
        if preposition.head.i == head.i and preposition.lower_ in _PREPOSITIONS_OF_OBJECTS:
            target = _child(head, _DIRECT_OBJECTS)
            if target is not None:
                return target
        return self._grammatical_subject(head)

    def _antecedent(self, argument: Token, verb: Token) -> Token:
        """The antecedent of a relative pronoun; any other argument unchanged."""
        if argument.lower_ not in _RELATIVE_PRONOUNS or argument.i > verb.i:
            return argument
        clause = verb
        while clause.head.i != clause.i and (
            clause.dep_ in ("conj", "xcomp")
            # "cars that Anna said she sold"
            or (clause.dep_ == "ccomp" and argument.i < clause.head.i)
        ):
            clause = clause.head
        return clause.head if clause.dep_ in _RELATIVE_CLAUSES else argument

    def _is_passive(self, verb: Token) -> bool:
        if verb.i not in self._passive:
            self._passive[verb.i] = self._find_passive(verb)
        return self._passive[verb.i]

    def _find_passive(self, verb: Token) -> bool:
        labels = {child.dep_ for child in verb.children}
        if labels & _PASSIVE_MARKS:
            return True
        if labels & _HELPERS or labels & _SUBJECTS or not _is_past_participle(verb):
            return False
        if verb.dep_ == "conj":
            return verb.head.dep_ in _LINKED or self._is_passive(verb.head)
        return verb.dep_ in ("acl", "advcl")

    def _joins_its_head(self, verb: Token) -> bool:
        """True if a verb is an open complement that belongs to the predicate of its head."""
        return verb.dep_ == "xcomp" and is_clause_head(verb.head) and self._takes_complements(verb.head)

    def _joined_complement(self, verb: Token) -> Token | None:
        complement = _child(verb, {"xcomp"})
        if complement is None or not is_clause_head(complement) or not self._takes_complements(verb):
            return None
        return complement

    def _takes_complements(self, verb: Token) -> bool:
        return _child(verb, _DIRECT_OBJECTS | _LINKED) is None and not self._is_passive(verb)

    def _omitted_object(self, verb: Token, last: Token, words: list[str]) -> Token | None:
        """The noun before a relative clause without a relative pronoun, if the clause lacks an object: "cars
        Anna sold". Add the preposition that lacks its noun to `words`: "the house Anna lived in"."""
        noun = verb.head
        if verb.dep_ not in ("relcl", "acl:relcl") or _child(verb, _SUBJECTS) is None:
            return None
        before = verb.doc[verb.left_edge.i : verb.i]
        if verb.left_edge.i != noun.i + 1 or any(word.lower_ in _RELATIVE_WORDS for word in before):
            return None
        if noun.lemma_ in _CIRCUMSTANCES or _is_adjective(noun):
            return None
        if last.pos_ == "AUX" or _child(last, _DIRECT_OBJECTS | _LINKED | {"ccomp", "xcomp"}) is not None:
            return None
        words += [child.lower_ for child in last.rights if child.dep_ == "prep" and not any(child.children)]
        return noun

    def _object(self, verb: Token, words: list[str]) -> Token | None:
        """Find the object of an active verb; add words that belong to the predicate to `words`."""
        for labels in (_DIRECT_OBJECTS, _INDIRECT_OBJECTS):
            found = _child(verb, labels)
            if found is not None and found.pos_ != "ADP" and found.tag_ not in ("IN", "TO"):
                return self._antecedent(found, verb)
        linked = _child(verb, _LINKED | {"xcomp"})
        if linked is not None and not is_clause_head(linked) and not _is_adjective(linked):
            return linked
        found = None
        if linked is not None and not is_clause_head(linked):
            words.append(linked.lower_)
            found = _prepositional(linked, words)
        found = found or _prepositional(verb, words)
        return None if found is None else self._antecedent(found, verb)


def is_clause_head(token: Token) -> bool:
    """True if a token is a verb that heads a clause, including copulas."""
    if token.dep_ in _NO_CLAUSES:
        return False
    return token.pos_ in ("VERB", "AUX") if token.pos else token.tag_.startswith("VB")


def mention_text(head: Token) -> str:
    """The words of a mention by its head, in lower case, without its relative clauses and appositions."""
    start, end = head.i, head.i + 1
    for child in sorted(head.lefts, key=lambda child: -child.i):
        if child.dep_ in _OUTSIDE_SPANS and child.dep_ != "punct":
            break
        start = child.left_edge.i
    for child in head.rights:
        if child.dep_ in _OUTSIDE_SPANS:
            break
        end = child.right_edge.i + 1
    return " ".join(head.doc[start:end].text.lower().split())


def _governs(head: Token) -> bool:
    return is_clause_head(head) or _child(head, {"cop"}) is not None


def _child(token: Token, labels: frozenset[str] | set[str]) -> Token | None:
    return next((child for child in token.children if child.dep_ in labels), None)


def _particles(verb: Token) -> list[str]:
    return [child.lower_ for child in verb.rights if child.dep_ in _PARTICLES]


def _has_no(argument: Token | None) -> bool:
    """True for "no cause", whose head alone does not negate; not after a preposition ("for no reason")."""
    if argument is None or (argument.dep_ in ("pobj", "obl") and argument.head.dep_ != "agent"):
        return False
    return any(child.dep_ == "det" and child.lower_ in ("no", "neither") for child in argument.lefts)


def _is_negated(verb: Token) -> bool:
    if verb.dep_ == "pcomp" and verb.head.lower_ == "without":
        return True
    for child in verb.children:
        if child.dep_ == "neg" or (child.dep_ == "advmod" and child.lower_ in _NEGATIONS):
            return True
        # "no longer"
        if child.dep_ == "advmod" and any(inner.dep_ == "neg" for inner in child.lefts):
            return True
        if child.dep_ == "advmod" and "Neg" in child.morph.get("Polarity"):
            return True
    return False


def _is_past_participle(verb: Token) -> bool:
    return verb.tag_ == "VBN" or (
        "Part" in verb.morph.get("VerbForm") and "Pres" not in verb.morph.get("Tense")
    )


def _is_infinitive(verb: Token) -> bool:
    return verb.tag_ == "VB" or "Inf" in verb.morph.get("VerbForm")


def _is_participle(verb: Token) -> bool:
    return verb.tag_ in ("VBG", "VBN") or "Part" in verb.morph.get("VerbForm")


def _is_adjective(token: Token) -> bool:
    """True for adjectives, adverbs, and participles such as "shocked" in "was shocked"."""
    if token.pos:
        return token.pos_ in ("ADJ", "ADV", "VERB")
    return token.tag_.startswith(("JJ", "RB", "VB"))


def _agent(verb: Token) -> tuple[str, Token] | None:
    """The preposition and the noun of the agent of a passive."""
    agent = _child(verb, {"agent"})
    if agent is not None:
        noun = _child(agent, {"pobj"})
        return None if noun is None else (agent.lower_, noun)
    for child in verb.rights:
        if child.dep_ in ("obl:agent", "obl"):
            case = _child(child, {"case"})
            if child.dep_ == "obl:agent" or (case is not None and case.lower_ == "by"):
                return ("by" if case is None else case.lower_, child)
    return None


def _prepositional(governor: Token, words: list[str]) -> Token | None:
    """Find the noun of the first preposition after a verb or adjective; add the prepositions to `words`."""
    for child in governor.rights:
        if child.dep_ in ("obl", "obl:arg", "nmod"):
            cases = [inner.lower_ for inner in child.lefts if inner.dep_ == "case"]
            if cases:
                words += cases
                return child
        if child.dep_ not in ("prep", "dative"):
            continue
        prepositions, noun = [child.lower_], _child(child, {"pobj"})
        inner = child
        # "out of the house"
        while noun is None and (following := _child(inner, {"prep"})) is not None:
            prepositions.append(following.lower_)
            inner, noun = following, _child(following, {"pobj"})
        if noun is not None:
            words += prepositions
            return noun
    return None
