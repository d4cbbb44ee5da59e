"""Events of a parsed text: who did what to whom, and their place in the text.

The extractor reads the dependency labels of spaCy's English pipelines (ClearNLP) and those of Universal
Dependencies, which spaCy's pipelines of most other languages use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, product
from typing import TYPE_CHECKING

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.extraction.grammar import (
    DIRECT_OBJECTS,
    HELPERS,
    INDIRECT_OBJECTS,
    LINKED,
    LONGEST_LIST,
    RELATIVE_CLAUSES,
    RELATIVE_PRONOUNS,
    SUBJECTS,
    child_of,
    cleft_of,
    coordinator,
    copula_of,
    governs,
    is_adjective,
    is_clause_head,
    is_elliptical,
    is_extraposed,
    is_finite,
    is_infinitive,
    is_participle,
    is_past_participle,
    is_relative_pronoun,
    is_word,
    subject_of,
)
from eventformers.extraction.lexicon import lexicon
from eventformers.extraction.participants import (
    Participant,
    agent_of,
    head_text,
    is_handle,
    mention_text,
    participants_of,
    prepositional_object,
)
from eventformers.extraction.polarity import Polarity, governs_negatively

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

_WORDS = lexicon("events")

ARGUMENT_FORMS = ("heads", "spans")
# fmt: off
_BEFORE_FINITE_VERBS = frozenset({"advmod", "aux", "auxpass", "neg"})
# Dependents that replace a subject: "there was", "to leave is right".
_NO_SUBJECTS = frozenset({"expl", "csubj", "csubjpass", "csubj:pass"})
_PASSIVE_MARKS = frozenset({"nsubjpass", "auxpass", "csubjpass", "nsubj:pass", "aux:pass", "csubj:pass"})
_PARTICLES = frozenset({"prt", "compound:prt"})
_RELATIVE_WORDS = RELATIVE_PRONOUNS | {"how", "what", "when", "where", "whereby", "whose", "why"}
# fmt: on


_MOST_PAIRS = 16
"""Most events of one verb: of longer lists, each subject has the first object and each object the first
subject."""


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
        trigger_index: token index of the trigger, the word at `offset`.
        trigger_kind: `verb`, `noun` or `adjective`.
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
    trigger_index: int = 0
    trigger_kind: str = "verb"

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
    - Joined subjects and objects ("Israel and Egypt signed a treaty") give one event for each; joined verbs
      share their subject, and the object or agent of the last one ("arrested and beat protesters").
    - A verb is negated by its own words or by the word that governs it (`polarity`); a verb such as "fail" or
      "refuse" and its complement are two events, the second one negated.
    - A role has a letter, and is no white space and no address of the web.

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
    """Reject a text without the annotations that extraction needs; a text of only white space passes."""
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
        # Objects of the parse that are subjects of the next verb.
        self._taken: set[int] = set()
        for token in doc:
            if is_clause_head(token) and child_of(token, SUBJECTS) is None:
                self._taken_subject(token)
        self._polarity = Polarity(self._grammatical_subject, self._joins_its_head)

    def events(self) -> Iterator[ExtractedEvent]:
        """Yield the events of each clause."""
        for number, sentence in enumerate(self.doc.sents):
            for token in sentence:
                if token.dep_ == "cop" and not is_clause_head(token.head):
                    # A copula that depends on the predicate noun or adjective, as in Universal Dependencies.
                    linked = token.head
                    words = [token.lower_]
                    if linked.pos_ in ("ADJ", "ADV", "VERB"):
                        words.append(linked.lower_)
                        target = prepositional_object(linked, words)
                    else:
                        words += [child.lower_ for child in linked.lefts if child.dep_ == "case"]
                        target = linked
                    negated, subject = self._polarity.is_negated(linked), self._grammatical_subject(linked)
                    yield from self._made(number, token, subject, words, target, False, negated)
                elif is_clause_head(token) and not (
                    self._joins_its_head(token) or is_handle(token) or is_elliptical(token)
                ):
                    yield from self._event(number, token)

    def _event(self, sentence: int, verb: Token) -> Iterator[ExtractedEvent]:
        words, last = [verb.lower_, *_particles(verb)], verb
        while (
            (complement := child_of(last, {"xcomp"})) is not None
            and is_clause_head(complement)
            and self._takes_complements(last)
        ):
            if self.spans:
                words += [child.lower_ for child in complement.lefts if child.lower_ == "to"]
            words += [complement.lower_, *_particles(complement)]
            last = complement
        subject = self._grammatical_subject(verb)
        passive = self._is_passive(verb)
        if passive:
            agent = agent_of(last) or agent_of(self._last_joined(last))
            subject, target = (agent[1] if agent else None), subject
        elif last is not verb and self._is_passive(last):
            target = None
            if (agent := agent_of(last)) is not None:
                words.append(agent[0])
                target = agent[1]
        else:
            target = self._omitted_object(verb, last, words) or self._object(last, words)
            end = last if target is not None else self._last_joined(last)
            if end.i != last.i and last.lemma_.lower() not in _WORDS.intransitive:
                # The object of the last joined verb, which this one shares: "arrested and beat protesters".
                shared = None if self._is_passive(end) else child_of(end, DIRECT_OBJECTS)
                target = shared if shared is not None and shared.i > end.i else None
        negated = self._polarity.is_negated(last)
        yield from self._made(sentence, verb, subject, words, target, passive, negated)

    def _made(
        self,
        sentence: int,
        verb: Token,
        subject: Token | None,
        words: list[str],
        target: Token | None,
        passive: bool,
        negated: bool,
    ) -> Iterator[ExtractedEvent]:
        subjects = participants_of(subject, verb, negated)
        targets = participants_of(target, verb, negated)
        pairs: Iterable[tuple[Participant, Participant]] = product(subjects, targets)
        if len(subjects) * len(targets) > _MOST_PAIRS:
            pairs = chain(product(subjects, targets[:1]), product(subjects[:1], targets[1:]))
        made: dict[tuple[str, str, bool], ExtractedEvent] = {}
        for (agent, agent_excluded), (patient, patient_excluded) in pairs:
            event = ExtractedEvent(
                sentence=sentence,
                offset=verb.idx,
                subject=self._text(agent),
                predicate=" ".join(" ".join(words).split()),
                object=self._text(patient),
                lemma=(verb.lemma_ or verb.lower_).lower(),
                passive=passive,
                negated=negated ^ agent_excluded ^ patient_excluded,
                subject_index=None if agent is None else agent.i,
                object_index=None if patient is None else patient.i,
                trigger_index=verb.i,
            )
            # "114 active cases and 33 recovered cases"
            made.setdefault((event.subject, event.object, event.negated), event)
        yield from made.values()

    def _text(self, head: Token | None) -> str:
        if head is None:
            return ""
        return mention_text(head) if self.spans else head_text(head)

    def _grammatical_subject(self, verb: Token) -> Token | None:
        if verb.i not in self._subject_of:
            self._subject_of[verb.i] = self._find_subject(verb)
        return self._subject_of[verb.i]

    def _find_subject(self, verb: Token) -> Token | None:
        own = subject_of(verb)
        if own is not None:
            return self._antecedent(own, verb)
        if (taken := self._taken_subject(verb)) is not None:
            return taken
        if child_of(verb, _NO_SUBJECTS) is not None:
            return None
        dependency, head = verb.dep_, verb.head
        if head.lower_ == "let" and not is_clause_head(head):
            # "cannot walk, let alone run"
            return self._grammatical_subject(head.head)
        if (
            dependency == "relcl"
            and is_infinitive(verb)
            and head.dep_ == "pobj"
            and head.head.lower_ == "for"
        ):
            # "for a man to leave"
            return head
        if dependency == "acl":
            if head.lower_ == "order" and head.head.dep_ == "prep" and governs(head.head.head):
                # "in order to leave"
                return self._grammatical_subject(head.head.head)
            return head if is_participle(verb) else None
        if dependency == "xcomp":
            return self._subject_of_complement(verb)
        if dependency in ("pcomp", "pobj"):
            return self._subject_of_gerund(verb)
        if dependency == "advcl" and is_infinitive(verb) and head.lemma_.lower() in _WORDS.verbs_of_asking:
            if self._is_passive(head):
                return self._grammatical_subject(head)
            if (target := self._direct_object(head)) is not None:
                return target
        if dependency == "advcl" and is_infinitive(verb) and self._is_passive(head):
            agent = agent_of(head)
            return None if agent is None else agent[1]
        # "was pending and came"
        head = head.head if dependency == "conj" and head.dep_ in LINKED else head
        return self._grammatical_subject(head) if dependency in ("conj", "advcl") and governs(head) else None

    def _taken_subject(self, verb: Token) -> Token | None:
        """The noun before a finite verb without a subject, or the speaker after it, if the parse takes it as
        an object: "said the state of emergency is over"."""
        if child_of(verb, _NO_SUBJECTS | {"mark"}) is not None or not is_finite(verb):
            return None
        # The speaker after a verb that follows what is said.
        noun = child_of(verb, DIRECT_OBJECTS) if verb.lemma_.lower() in _WORDS.verbs_of_speech else None
        follows_mark = verb.i > verb.sent.start and verb.nbor(-1).is_punct
        if noun is not None and not (
            follows_mark and noun.left_edge.i == verb.i + 1 and not coordinator(verb)
        ):
            noun = None
        # "hours spread over years" may have a participle.
        is_clear = (
            verb.tag_ != "VBD" or verb.pos_ == "AUX" or verb.head.lemma_.lower() in _WORDS.verbs_of_speech
        )
        if noun is None and is_clear and verb.dep_ in ("ccomp", "advcl", "conj", "ROOT"):
            start = min(
                (child.i for child in verb.lefts if child.dep_ in _BEFORE_FINITE_VERBS), default=verb.i
            )
            while start > verb.sent.start and verb.doc[start - 1].is_quote:
                start -= 1
            nouns = _objects_that_end(verb.doc, start)
            if nouns:
                noun = nouns[0] if verb.dep_ in ("conj", "ROOT") else nouns[-1]
            elif verb.dep_ in ("ccomp", "advcl"):
                noun = _object_before_prepositions(verb.head, start)
        if noun is not None:
            self._taken.add(noun.i)
        return noun

    def _direct_object(self, verb: Token) -> Token | None:
        found = child_of(verb, DIRECT_OBJECTS)
        return None if found is None or found.i in self._taken else found

    def _subject_of_complement(self, verb: Token) -> Token | None:
        """The subject of an open complement: the object of its head, else the subject of its head."""
        head, linked = verb.head, child_of(verb.head, LINKED)
        if (copula := copula_of(head)).i != head.i:
            head, linked = copula, head
        if not governs(head):
            return None
        if (target := self._direct_object(head)) is not None and is_word(target):
            return target
        subject = self._grammatical_subject(head)
        # "it was right to leave"
        if linked is not None and subject is not None and subject.lower_ == "it":
            return None
        return None if linked is not None and linked.lemma_ in _WORDS.adjectives_of_objects else subject

    def _subject_of_gerund(self, verb: Token) -> Token | None:
        """The subject of a verb after a preposition: the object or the subject of the verb before it."""
        preposition = head = verb.head
        # "prior to leaving", "guilty of leaving", "in the process of leaving"
        while head.head.i != head.i and not is_clause_head(head):
            if not (
                head.dep_ in ("prep", "pcomp")
                or (head.dep_ == "advmod" and head.i < verb.i)
                or (head.dep_ in LINKED and head.pos_ == "ADJ")
                or (head.dep_ == "pobj" and preposition.lower_ == "of")
            ):
                break
            head = head.head
        if not governs(head):
            return None
        word, lemma = preposition.lower_, head.lemma_.lower()
        of_object = word in _WORDS.prepositions_of_objects or (
            # Not "detained him for questioning".
            word == "for" and lemma in _WORDS.verbs_of_judgement and verb.lower_ != "questioning"
        )
        if preposition.head.i == head.i and of_object:
            target = child_of(head, DIRECT_OBJECTS)
            if target is not None:
                return target
        return self._grammatical_subject(head)

    def _antecedent(self, argument: Token, verb: Token) -> Token:
        """The antecedent of a relative pronoun; any other argument unchanged."""
        if not is_relative_pronoun(argument) or argument.i > verb.i:
            return argument
        clause = verb
        while clause.head.i != clause.i and (
            clause.dep_ in ("conj", "xcomp")
            # "cars that Anna said she sold"
            or (clause.dep_ == "ccomp" and argument.i < clause.head.i)
        ):
            clause = clause.head
        if (copula := cleft_of(clause)) is not None:
            return child_of(copula, {"attr"}) or argument
        return clause.head if clause.dep_ in RELATIVE_CLAUSES else argument

    def _is_passive(self, verb: Token) -> bool:
        if verb.i not in self._passive:
            labels = {child.dep_ for child in verb.children}
            passive = not labels.isdisjoint(_PASSIVE_MARKS)
            if not passive and labels.isdisjoint(HELPERS | SUBJECTS) and is_past_participle(verb):
                passive = verb.dep_ in ("acl", "advcl") or (
                    verb.dep_ == "conj" and (verb.head.dep_ in LINKED or self._is_passive(verb.head))
                )
            self._passive[verb.i] = passive
        return self._passive[verb.i]

    def _joins_its_head(self, verb: Token) -> bool:
        """True if a verb is an open complement that belongs to the predicate of its head."""
        return verb.dep_ == "xcomp" and is_clause_head(verb.head) and self._takes_complements(verb.head)

    def _takes_complements(self, verb: Token) -> bool:
        if child_of(verb, DIRECT_OBJECTS | LINKED) is not None or self._is_passive(verb):
            return False
        return not governs_negatively(verb)

    def _last_joined(self, verb: Token) -> Token:
        """The last of verbs that are joined with nothing but adverbs between them: "arrested and later
        beat"."""
        last = verb
        for _ in range(LONGEST_LIST):
            following = next((child for child in last.rights if child.dep_ == "conj"), None)
            if following is None:
                break
            between = verb.doc[last.i + 1 : following.i]
            if (
                not is_clause_head(following)
                or (following.tag_ == "VBG") != (verb.tag_ == "VBG")
                or any(word.dep_ not in ("advmod", "cc", "punct") for word in between)
            ):
                return verb
            last = following
        return last if coordinator(last) in ("and", "or") else verb

    def _omitted_object(self, verb: Token, last: Token, words: list[str]) -> Token | None:
        """The noun before a relative clause without a relative pronoun, if the clause lacks an object: "cars
        Anna sold". Add the preposition that lacks its noun to `words`: "the house Anna lived in"."""
        noun = verb.head
        if verb.dep_ not in ("relcl", "acl:relcl") or child_of(verb, SUBJECTS) is None:
            return None
        before = verb.doc[verb.left_edge.i : verb.i]
        if verb.left_edge.i != noun.i + 1 or any(
            word.lower_ in _RELATIVE_WORDS or is_relative_pronoun(word) for word in before
        ):
            return None
        if noun.lemma_ in _WORDS.circumstances or is_adjective(noun):
            return None
        if last.pos_ == "AUX" or child_of(last, DIRECT_OBJECTS | LINKED | {"ccomp", "xcomp"}) is not None:
            return None
        words += [child.lower_ for child in last.rights if child.dep_ == "prep" and not any(child.children)]
        return noun

    def _object(self, verb: Token, words: list[str]) -> Token | None:
        """Find the object of an active verb; add words that belong to the predicate to `words`."""
        for labels in (DIRECT_OBJECTS, INDIRECT_OBJECTS):
            found = child_of(verb, labels)
            if (
                found is not None
                and found.i not in self._taken
                # "neither did the law pass"
                and (found.lower_ != "neither" or found.i > verb.i)
                and not (found.lower_ == "that" and is_extraposed(verb))
                and found.pos_ != "ADP"
                and found.tag_ not in ("IN", "TO")
            ):
                # "beat Chelsea 3-1"
                named = None if is_word(found) else child_of(found, {"compound"})
                return self._antecedent(named or found, verb)
        linked = child_of(verb, LINKED | {"xcomp"})
        if linked is not None and not is_clause_head(linked) and not is_adjective(linked):
            return linked
        found = None
        if linked is not None and not is_clause_head(linked):
            words.append(linked.lower_)
            found = prepositional_object(linked, words)
        found = found or prepositional_object(verb, words)
        if found is None and subject_of(verb) is not None and (copula := cleft_of(verb)) is not None:
            # "it was Tom that they saw", where "that" is taken for a conjunction
            focus = child_of(copula, {"attr"})
            return None if focus == self._grammatical_subject(verb) else focus
        return None if found is None else self._antecedent(found, verb)


def _particles(verb: Token) -> list[str]:
    return [child.lower_ for child in verb.rights if child.dep_ in _PARTICLES]


def _objects_that_end(doc: Doc, place: int) -> list[Token]:
    """The objects whose last word stands before a place, the innermost one first."""
    found: list[Token] = []
    if place:
        noun = doc[place - 1]
        while noun.right_edge.i == place - 1:
            if noun.dep_ in DIRECT_OBJECTS and noun.head.i < noun.i:
                found.append(noun)
            if noun.head.i == noun.i:
                break
            noun = noun.head
    return found


def _object_before_prepositions(verb: Token, place: int) -> Token | None:
    """The object of a verb, if only its prepositions stand between that and a later place."""
    found = child_of(verb, DIRECT_OBJECTS)
    if found is None or not verb.i < found.i < place:
        return None
    end = found.right_edge.i + 1
    for child in verb.rights:
        if child.dep_ == "prep" and child.left_edge.i == end:
            end = child.right_edge.i + 1
    return found if end == place else None
