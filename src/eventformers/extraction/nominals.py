"""Events that nouns and adjectives name: "the attack", "his resignation", "was found dead".

A linear model decides in context which nouns and adjectives are events, by their lemma, their place in the
parse and the words around. Its weights are in `nominals.safetensors`, trained by `benchmarks/event_nouns.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors.numpy import load_file

from eventformers.extraction.events import ExtractedEvent
from eventformers.extraction.grammar import DIRECT_OBJECTS, SUBJECTS, child_of, is_infinitive, is_word
from eventformers.extraction.lexicon import lexicon
from eventformers.extraction.participants import is_measure
from eventformers.extraction.polarity import is_negative

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

_WORDS = lexicon("nominals")
WEIGHTS = Path(__file__).with_name("nominals.safetensors")
TRIGGERS = ("all", "sure", "verbs")
"""Words that name events: verbs, nouns and adjectives; these without doubtful nouns; or only verbs."""
CANDIDATES = frozenset({"NOUN", "PROPN", "ADJ"})
"""Parts of speech of what may be an event."""

SURE = 2.0
"""Score above which a noun is surely an event."""

# fmt: off
# Entity types of subjects before a noun: "Israeli strike", "Microsoft takeover".
_ACTORS = frozenset({"GPE", "NORP", "ORG", "PERSON"})
# fmt: on


def features(token: Token) -> Iterator[str]:
    """The features of a noun or an adjective: itself, its head, its dependents, and the words beside it."""
    label, head, lower = token.dep_, token.head, token.lower_
    yield lemma_of(token)
    yield f"part {token.pos_}"
    yield f"tag {token.tag_}"
    yield f"label {label}"
    yield f"ending {lower[-3:]}"
    yield f"ending {lower[-4:]}"
    yield f"head {label} {_word(head)}"
    yield f"head {label} {head.pos_}"
    if label == "pobj":
        yield f"governor {head.lower_} {_word(head.head)}"
        yield f"governor {head.lower_} {head.head.pos_}"
    for child in token.children:
        yield f"child {child.dep_}"
        yield f"child {child.dep_} {_word(child)}"
    doc, place = token.doc, token.i
    yield f"before {doc[place - 1].lower_ if place else ''}"
    yield f"after {doc[place + 1].lower_ if place + 1 < len(doc) else ''}"


def lemma_of(token: Token) -> str:
    """The lemma in lower case, by which weights are found; that of "Oscars" is "oscar"."""
    if token.tag_ == "NNPS":
        return token.lower_.removesuffix("s")
    return (token.lemma_ or token.lower_).lower()


def _word(token: Token) -> str:
    """The lemma of a common word, and the part of speech of a name or a number."""
    return token.pos_ if token.pos_ in ("PROPN", "NUM") else lemma_of(token)


def score(token: Token, weights: Mapping[str, float]) -> float:
    """The score of a noun or an adjective; above 0 it is an event."""
    return sum(weights.get(name, 0.0) for name in features(token)) + weights[""]


@cache
def packaged_weights() -> dict[str, float]:
    """The weight of each feature; that of "" belongs to every word."""
    tensors = load_file(WEIGHTS)
    names = tensors["names"].tobytes().decode("utf-8").split("\n")
    return dict(zip(names, tensors["weights"].astype(float).tolist(), strict=True))


def with_nominals(
    doc: Doc,
    events: Sequence[ExtractedEvent],
    text_of: Callable[[Token], str],
    above: float = 0.0,
) -> list[ExtractedEvent]:
    """Add the events of nouns and adjectives to those of verbs, in the order of their triggers.

    - The possessor, the agent after "by", a people or an institution before the noun ("police raid",
      "Israeli strike"), or the subject of a light verb ("made an attack") is the subject; what follows "of",
      or another preposition, which then ends the predicate (`attack on`), is the object. The possessor of an
      arrest is its object, and what follows the "of" of a death is its subject.
    - A light verb, or "there was", and its noun are one event, that of the noun; so are "was" and an
      adjective.
    - What an adjective is fit, eager or proud "to be" is no event.
    - A time or a speed is not the object of a verb: "died on Monday", "moved at 20 mph".

    Args:
        doc: a text in English with dependencies and parts of speech.
        text_of: the text of a role by its head.
        above: the score of nouns that are events.
    """
    weights = packaged_weights()
    candidates = (token for token in doc if token.pos_ in CANDIDATES and not _is_in_name(token))
    triggers = [
        token for token in candidates if score(token, weights) > (0.0 if token.pos_ == "ADJ" else above)
    ]
    nominal = {token.i for token in triggers}
    sentence_of = {token.i: number for number, sentence in enumerate(doc.sents) for token in sentence}
    kept, light, denied = [], {}, set()
    for event in events:
        verb = doc[event.trigger_index]
        target = None if event.object_index is None else doc[event.object_index]
        if target is not None and target.dep_ == "pobj" and is_measure(target):
            predicate = event.predicate.removesuffix(f" {target.head.lower_}")
            event = replace(event, predicate=predicate, object="", object_index=None)
        if event.negated and (linked := child_of(verb, {"attr"})) is not None:
            denied.add(linked.i)
        if event.object_index in nominal and _is_light(verb):
            light[event.object_index] = event
        elif (
            (adjective := child_of(verb, {"acomp"})) is not None
            and adjective.i in nominal
            and verb.lemma_ == "be"
        ):
            nominal.discard(adjective.i)
            kept.append(
                replace(
                    event,
                    offset=adjective.idx,
                    lemma=lemma_of(adjective),
                    trigger_index=adjective.i,
                    trigger_kind="adjective",
                )
            )
        elif not _is_quality(verb):
            kept.append(event)
    for trigger in triggers:
        if trigger.i in nominal:
            made = _event(trigger, sentence_of[trigger.i], light.get(trigger.i), text_of)
            # "They are no threat", "they are not a threat"
            kept.append(replace(made, negated=made.negated or trigger.i in denied))
    return sorted(kept, key=lambda event: event.trigger_index)


def _event(
    trigger: Token, sentence: int, light: ExtractedEvent | None, text_of: Callable[[Token], str]
) -> ExtractedEvent:
    subject, preposition, target = _roles(trigger)
    if subject is None and trigger.pos_ == "ADJ":
        # "dead men", "found him dead"
        subject = (
            trigger.head if trigger.dep_ == "amod" else child_of(trigger.head, DIRECT_OBJECTS | SUBJECTS)
        )
    subject_text, subject_index = ("", None) if subject is None else (text_of(subject), subject.i)
    if light is not None:
        if subject is None:
            subject_text, subject_index = light.subject, light.subject_index
        if target is None:
            preposition, target = _noun_after(trigger.head, after=trigger.i)
    return ExtractedEvent(
        sentence=sentence,
        offset=trigger.idx,
        subject=subject_text,
        predicate=f"{trigger.lower_} {preposition}".strip(),
        object="" if target is None else text_of(target),
        lemma=lemma_of(trigger),
        passive=False,
        negated=is_negative(trigger)
        or trigger.head.lower_ == "without"
        or (light is not None and light.negated and not is_negative(trigger)),
        subject_index=subject_index,
        object_index=None if target is None else target.i,
        trigger_index=trigger.i,
        trigger_kind="adjective" if trigger.pos_ == "ADJ" else "noun",
    )


def _roles(noun: Token) -> tuple[Token | None, str, Token | None]:
    """Subject, preposition of the object unless it is "of", and object of an event noun."""
    lemma = lemma_of(noun)
    possessor = child_of(noun, {"poss"})
    (_, agent), (_, of), (_, between) = (_noun_after(noun, (word,)) for word in ("by", "of", "between"))
    before = [one for one in noun.lefts if one.dep_ in ("compound", "nmod", "amod") and is_word(one)]
    actor = next(
        (one for one in before if one.ent_type_ in _ACTORS or one.lower_ in _WORDS.institutions), None
    )
    matter = next((one for one in before if one.dep_ == "compound" and one != actor), None)
    if between is not None:
        return between, "", next((one for one in between.rights if one.dep_ == "conj"), None)
    subject = target = None
    if agent is not None:
        subject, target = agent, of or possessor or matter
    elif lemma in _WORDS.of_objects:
        subject, target = actor, of or possessor or matter
        if of is not None:
            subject = possessor or actor
    elif lemma in _WORDS.of_subjects:
        subject = possessor or of or actor
    else:
        subject, target = possessor or actor, of
    if target is not None:
        return subject, "", target
    return subject, *_noun_after(noun)


def _noun_after(
    word: Token, prepositions: Collection[str] = _WORDS.prepositions, after: int = 0
) -> tuple[str, Token | None]:
    """The first of the prepositions that depend on a word, from a place on, and its noun."""
    for child in word.rights:
        if child.i > after and child.dep_ in ("prep", "agent") and child.lower_ in prepositions:
            target = child_of(child, {"pobj"})
            if target is not None and is_word(target):
                return child.lower_, target
    return "", None


def _is_in_name(noun: Token) -> bool:
    """True for "Analysis" in "Centre for Disease Analysis"; not for "World War"."""
    if noun.ent_type_ not in _ACTORS | {"FAC", "LAW", "LOC", "PRODUCT", "WORK_OF_ART"}:
        return False
    following = noun.doc[noun.i + 1].ent_iob_ if noun.i + 1 < len(noun.doc) else ""
    return noun.ent_iob_ == "I" or following == "I"


def _is_light(verb: Token) -> bool:
    """True for the verb of "made an attack", "carried out an attack" and "there was an attack"."""
    lemma, particles = lemma_of(verb), [child.lower_ for child in verb.rights if child.dep_ == "prt"]
    if lemma == "be":
        return child_of(verb, {"expl"}) is not None
    return lemma in _WORDS.light_verbs and particles == (["out"] if lemma == "carry" else [])


def _is_quality(verb: Token) -> bool:
    """True for "be" in "unfit to be president"; not in "likely to be president"."""
    return (
        lemma_of(verb) == "be"
        and is_infinitive(verb)
        and verb.dep_ in ("xcomp", "advcl", "ccomp")
        and verb.head.pos_ == "ADJ"
        and lemma_of(verb.head) not in _WORDS.adjectives_of_chance
    )
