"""Kinds of actors in English texts: by the entity recogniser for names, by lists of nouns otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventformers.extraction.lexicon import lexicon

if TYPE_CHECKING:
    from spacy.tokens import Token

_WORDS = lexicon("actor_kinds")
KINDS = ("person", "organisation", "place", "group", "other")
"""Kinds of actors."""

KIND_OF_ENTITY = {
    "PERSON": "person",
    "ORG": "organisation",
    **dict.fromkeys(("GPE", "LOC", "FAC"), "place"),
    "NORP": "group",
    **dict.fromkeys(("PRODUCT", "EVENT", "WORK_OF_ART", "LAW", "LANGUAGE"), "other"),
}
"""Kinds by the labels of entities; entities with other labels, such as dates, are no actors."""

# fmt: off
MALE = _WORDS.male
FEMALE = _WORDS.female
_PEOPLE = MALE | FEMALE | _WORDS.people
# fmt: on
_ENDINGS_OF_PEOPLE = ("man", "woman", "ologist", "maker", "holder", "worker", "player", "goer")


def kind_of_noun(noun: Token) -> str:
    """The kind of what a common noun names; several people are a group."""
    lemma = noun.lemma_.lower()
    if lemma in _PEOPLE or (
        lemma.endswith(_ENDINGS_OF_PEOPLE) and len(lemma) > 5 and lemma not in _WORDS.organisations
    ):
        return "group" if noun.tag_ in ("NNS", "NNPS") else "person"
    if lemma in _WORDS.organisations:
        return "organisation"
    if lemma in _WORDS.groups:
        return "group"
    return "place" if lemma in _WORDS.places else "other"


def kind_of_name(head: Token) -> str:
    """The kind of a named mention by its head; "" without an entity, or for one that is no actor."""
    return KIND_OF_ENTITY.get(head.ent_type_, "")
