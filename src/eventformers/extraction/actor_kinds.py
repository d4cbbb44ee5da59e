"""Kinds of actors in English texts: by the entity recogniser for names, by lists of nouns otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.tokens import Token

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
MALE = frozenset({
    "actor", "baron", "boy", "boyfriend", "brother", "businessman", "chairman", "congressman", "count", "dad",
    "duke", "emperor", "father", "fireman", "fisherman", "gentleman", "grandfather", "grandson", "groom",
    "gunman", "guy", "hero", "husband", "king", "lad", "lord", "man", "monk", "mr", "mr.", "nephew", "pope",
    "policeman", "priest", "prince", "sir", "son", "spokesman", "stepfather", "sultan", "uncle", "waiter",
    "widower", "wizard",
})
FEMALE = frozenset({
    "actress", "aunt", "bride", "businesswoman", "chairwoman", "congresswoman", "countess", "daughter",
    "duchess", "empress", "girl", "girlfriend", "grandmother", "granddaughter", "heroine", "housewife",
    "lady", "lass", "lassie", "maid", "maiden", "miss", "mom", "mother", "mrs", "mrs.", "ms", "ms.", "mum",
    "niece", "nun", "policewoman", "princess", "queen", "sister", "spokeswoman", "stepmother", "waitress",
    "widow", "wife", "witch", "woman",
})
_PEOPLE = MALE | FEMALE | {
    "activist", "adviser", "advisor", "agent", "ambassador", "analyst", "archbishop", "artist", "assistant",
    "astronaut", "athlete", "attacker", "attorney", "author", "baby", "banker", "bishop", "bomber", "boss",
    "burglar", "candidate", "captain", "cardinal", "celebrity", "champion", "chancellor", "chef", "chief",
    "child", "citizen", "clerk", "coach", "colleague", "colonel", "columnist", "comedian", "commander",
    "commissioner", "cook", "cop", "counsel", "cousin", "criminal", "critic", "customer", "dancer",
    "dealer", "defendant", "delegate", "deputy", "designer", "detective", "dictator", "diplomat", "director",
    "doctor", "driver", "economist", "editor", "emir", "employee", "employer", "engineer", "envoy",
    "executive", "expert", "farmer", "fighter", "filmmaker", "firefighter", "founder", "friend", "fugitive",
    "general", "genius", "giant", "governor", "guard", "guest", "hacker", "heir", "historian", "hostage",
    "immigrant", "individual", "inmate", "inspector", "inventor", "investigator", "investor", "jew",
    "journalist", "judge", "juror", "keeper", "kid", "killer", "lawmaker", "lawyer", "leader", "lecturer",
    "legislator", "lieutenant", "lover", "magistrate", "manager", "mayor", "member", "merchant", "migrant",
    "miller", "minister", "murderer", "musician", "neighbor", "neighbour", "nurse", "offender", "officer",
    "official", "opponent", "owner", "painter", "parent", "partner", "passenger", "patient", "peasant",
    "person", "photographer", "physician", "pilot", "pirate", "player", "playwright", "poet", "politician",
    "premier", "president", "prisoner", "producer", "professor", "prosecutor", "protester", "protestor",
    "pupil", "rebel", "refugee", "reporter", "representative", "republican", "researcher", "resident",
    "rival", "robber", "ruler", "sailor", "salesman", "scholar", "scientist", "secretary", "senator",
    "sergeant", "servant", "shepherd", "sheriff", "shooter", "singer", "skipper", "soldier", "solicitor",
    "speaker", "spokesperson", "spouse", "star", "statesman", "striker", "student", "successor", "suspect",
    "tailor", "teacher", "teen", "teenager", "terrorist", "thief", "traveller", "tutor", "veteran", "victim",
    "viewer", "villager", "visitor", "voter", "warrior", "winner", "witness", "worker", "writer",
    "youngster", "youth",
}
_ORGANISATIONS = frozenset({
    "administration", "agency", "airline", "alliance", "army", "association", "authority", "bank", "board",
    "brand", "bureau", "business", "cabinet", "carrier", "church", "club", "coalition", "college",
    "commission", "committee", "company", "conglomerate", "congress", "consortium", "corporation", "council",
    "court", "department", "empire", "firm", "force", "foundation", "giant", "government", "hospital",
    "institute", "institution", "junta", "label", "league", "maker", "manufacturer", "media", "military",
    "ministry", "monarchy", "navy", "network", "newspaper", "organisation", "organization", "parliament",
    "party", "publisher", "regime", "retailer", "school", "senate", "startup", "state", "studio", "team",
    "tribunal", "union", "university",
})
_GROUPS = frozenset({
    "band", "cast", "cavalry", "clan", "class", "community", "couple", "crew", "crowd", "duo", "family",
    "gang", "group", "jury", "mob", "opposition", "people", "police", "population", "public", "staff",
    "tribe", "troop", "trio", "folk", "militia", "delegation", "electorate", "panel", "squad",
})
_PLACES = frozenset({
    "area", "capital", "city", "continent", "country", "county", "district", "island", "kingdom", "nation",
    "neighborhood", "neighbourhood", "province", "region", "republic", "suburb", "territory", "town",
    "village", "world", "zone",
})
# fmt: on
_ENDINGS_OF_PEOPLE = ("man", "woman", "ologist", "maker", "holder", "worker", "player", "goer")


def kind_of_noun(noun: Token) -> str:
    """The kind of what a common noun names; several people are a group."""
    lemma = noun.lemma_.lower()
    if lemma in _PEOPLE or (
        lemma.endswith(_ENDINGS_OF_PEOPLE) and len(lemma) > 5 and lemma not in _ORGANISATIONS
    ):
        return "group" if noun.tag_ in ("NNS", "NNPS") else "person"
    if lemma in _ORGANISATIONS:
        return "organisation"
    if lemma in _GROUPS:
        return "group"
    return "place" if lemma in _PLACES else "other"


def kind_of_name(head: Token) -> str:
    """The kind of a named mention by its head; "" without an entity, or for one that is no actor."""
    return KIND_OF_ENTITY.get(head.ent_type_, "")
