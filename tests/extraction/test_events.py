"""Events of parses written by hand: roles, passives, negation, what verbs share, complements, spans."""

from __future__ import annotations

import pytest
from benchmark_scripts import load_benchmark

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.extraction.events import ARGUMENT_FORMS, extract_events

pytest.importorskip("spacy", reason="spaCy is not installed")

import spacy
from parsed_texts import parsed_text
from spacy.tokens import Doc

# A sentence, and its events as "subject|predicate|object" in heads.
ACTIVE = {
    "direct object": (
        "Anna/NNP/2/nsubj opened/VBD/2/ROOT the/DT/5/det old/JJ/5/amod Door/NN/2/dobj ././2/punct",
        ["anna|opened|door"],
    ),
    "preposition": (
        "Anna/NNP/2/nsubj sat/VBD/2/ROOT on/IN/2/prep the/DT/5/det chair/NN/3/pobj",
        ["anna|sat on|chair"],
    ),
    "preposition of a preposition": (
        "Anna/NNP/2/nsubj ran/VBD/2/ROOT out/IN/2/prep of/IN/3/prep town/NN/4/pobj",
        ["anna|ran out of|town"],
    ),
    "preposition before the verb is no object": (
        "In/IN/4/prep June/NNP/1/pobj Anna/NNP/4/nsubj slept/VBD/4/ROOT",
        ["anna|slept|"],
    ),
    "direct object before a preposition": (
        "Anna/NNP/2/nsubj put/VBD/2/ROOT bags/NNS/2/dobj on/IN/2/prep chairs/NNS/4/pobj",
        ["anna|put|bags"],
    ),
    "particle": (
        "Anna/NNP/2/nsubj picked/VBD/2/ROOT up/RP/2/prt bags/NNS/2/dobj",
        ["anna|picked up|bags"],
    ),
    "indirect object alone": ("Anna/NNP/2/nsubj told/VBD/2/ROOT him/PRP/2/dative", ["anna|told|him"]),
    "two objects": (
        "Anna/NNP/2/nsubj gave/VBD/2/ROOT him/PRP/2/dative bags/NNS/2/dobj",
        ["anna|gave|bags"],
    ),
    "dative with to": (
        "Anna/NNP/2/nsubj wrote/VBD/2/ROOT to/IN/2/dative Peter/NNP/3/pobj",
        ["anna|wrote to|peter"],
    ),
    "copula and noun": (
        "Anna/NNP/2/nsubj was/VBD/2/ROOT a/DT/4/det doctor/NN/2/attr",
        ["anna|was|doctor"],
    ),
    "copula and adjective": ("Anna/NNP/2/nsubj was/VBD/2/ROOT angry/JJ/2/acomp", ["anna|was angry|"]),
    "adjective with a preposition": (
        "Anna/NNP/2/nsubj was/VBD/2/ROOT angry/JJ/2/acomp at/IN/3/prep Peter/NNP/4/pobj",
        ["anna|was angry at|peter"],
    ),
    "copula and preposition": (
        "Anna/NNP/2/nsubj was/VBD/2/ROOT in/IN/2/prep London/NNP/3/pobj",
        ["anna|was in|london"],
    ),
    "there is": ("There/EX/2/expl was/VBD/2/ROOT fire/NN/2/attr", ["|was|fire"]),
    "auxiliaries are no events": (
        "Anna/NNP/4/nsubj has/VBZ/4/aux been/VBN/4/aux sleeping/VBG/4/ROOT",
        ["anna|sleeping|"],
    ),
    "participle after a copula": (
        "Anna/NNP/2/nsubj was/VBD/2/ROOT shocked/VBN/2/acomp at/IN/3/prep Peter/NNP/4/pobj",
        ["anna|was shocked at|peter"],
    ),
    "participle as an adjective": (
        "The/DT/3/det broken/VBN/3/amod door/NN/4/nsubj closed/VBD/4/ROOT",
        ["door|closed|"],
    ),
}
PASSIVE = {
    "with an agent": (
        "Peter/NNP/3/nsubjpass was/VBD/3/auxpass arrested/VBN/3/ROOT by/IN/3/agent police/NNS/4/pobj",
        ["police|arrested|peter"],
    ),
    "without": ("Peter/NNP/3/nsubjpass was/VBD/3/auxpass arrested/VBN/3/ROOT", ["|arrested|peter"]),
    "joined": (
        "Peter/NNP/3/nsubjpass was/VBD/3/auxpass arrested/VBN/3/ROOT and/CC/3/cc charged/VBN/3/conj"
        " by/IN/5/agent police/NNS/6/pobj",
        ["police|arrested|peter", "police|charged|peter"],
    ),
    "joined to an active verb": (
        "Peter/NNP/3/nsubjpass was/VBD/3/auxpass arrested/VBN/3/ROOT and/CC/3/cc died/VBD/3/conj",
        ["|arrested|peter", "peter|died|"],
    ),
    "joined to an adjective": (
        "News/NNS/2/nsubj was/VBD/2/ROOT late/JJ/2/acomp and/CC/3/cc expected/VBN/3/conj in/IN/5/prep"
        " June/NNP/6/pobj",
        ["news|was late|", "|expected|news"],
    ),
    "purpose": (
        "Cars/NNS/3/nsubjpass were/VBD/3/auxpass stopped/VBN/3/ROOT to/TO/5/aux find/VB/3/advcl"
        " Anna/NNP/5/dobj",
        ["|stopped|cars", "|find|anna"],
    ),
    "purpose of its agent": (
        "Cars/NNS/3/nsubjpass were/VBD/3/auxpass stopped/VBN/3/ROOT by/IN/3/agent police/NNS/4/pobj"
        " to/TO/7/aux find/VB/3/advcl Anna/NNP/7/dobj",
        ["police|stopped|cars", "police|find|anna"],
    ),
    "participle behind a noun": (
        "Cars/NNS/5/nsubj stolen/VBN/1/acl by/IN/2/agent thieves/NNS/3/pobj vanished/VBD/5/ROOT",
        ["thieves|stolen|cars", "cars|vanished|"],
    ),
    "in a relative clause": (
        "Men/NNS/5/nsubj who/WP/4/nsubjpass were/VBD/4/auxpass arrested/VBN/1/relcl died/VBD/5/ROOT",
        ["|arrested|men", "men|died|"],
    ),
    "complement of a passive": (
        "Peter/NNP/3/nsubjpass was/VBD/3/auxpass asked/VBN/3/ROOT to/TO/5/aux leave/VB/3/xcomp",
        ["|asked|peter", "peter|leave|"],
    ),
}
SHARED = {
    "joined verbs": (
        "Anna/NNP/2/nsubj came/VBD/2/ROOT ,/,/2/punct saw/VBD/2/conj Peter/NNP/4/dobj and/CC/4/cc"
        " left/VBD/4/conj",
        ["anna|came|", "anna|saw|peter", "anna|left|"],
    ),
    "joined verbs with subjects of their own": (
        "Anna/NNP/2/nsubj came/VBD/2/ROOT and/CC/2/cc Peter/NNP/5/nsubj left/VBD/2/conj",
        ["anna|came|", "peter|left|"],
    ),
    "participle clause": (
        "Walking/VBG/4/advcl home/RB/1/advmod Anna/NNP/4/nsubj fell/VBD/4/ROOT",
        ["anna|walking|", "anna|fell|"],
    ),
    "behind a preposition": (
        "Anna/NNP/2/nsubj left/VBD/2/ROOT after/IN/2/prep seeing/VBG/3/pcomp Peter/NNP/4/dobj",
        ["anna|left|", "anna|seeing|peter"],
    ),
    "relative clause": (
        "Men/NNS/5/nsubj who/WP/3/nsubj slept/VBD/1/relcl well/RB/3/advmod left/VBD/5/ROOT",
        ["men|slept|", "men|left|"],
    ),
    "object of a relative clause": (
        "Cars/NNS/5/nsubj that/WDT/4/dobj Anna/NNP/4/nsubj sold/VBD/1/relcl vanished/VBD/5/ROOT",
        ["anna|sold|cars", "cars|vanished|"],
    ),
    "relative clause without a pronoun": (
        "Cars/NNS/6/nsubj Anna/NNP/3/nsubj sold/VBD/1/relcl in/IN/3/prep June/NNP/4/pobj vanished/VBD/6/ROOT",
        ["anna|sold|cars", "cars|vanished|"],
    ),
    "relative clause that ends with a preposition": (
        "Houses/NNS/5/nsubj Anna/NNP/3/nsubj lived/VBD/1/relcl in/IN/3/prep burned/VBD/5/ROOT",
        ["anna|lived in|houses", "houses|burned|"],
    ),
    "relative clause that wants its complement": (
        "Cars/NNS/6/nsubj Anna/NNP/3/nsubj wanted/VBD/1/relcl to/TO/5/aux buy/VB/3/xcomp vanished/VBD/6/ROOT",
        ["anna|wanted buy|cars", "cars|vanished|"],
    ),
    "relative clause of time": (
        "The/DT/2/det day/NN/5/nsubj Anna/NNP/4/nsubj left/VBD/2/relcl ended/VBD/5/ROOT",
        ["anna|left|", "day|ended|"],
    ),
    "relative pronoun of a preposition": (
        "Cars/NNS/6/nsubj that/WDT/5/pobj Anna/NNP/4/nsubj waited/VBD/1/relcl for/IN/4/prep"
        " vanished/VBD/6/ROOT",
        ["anna|waited for|cars", "cars|vanished|"],
    ),
    "relative pronoun of an inner clause": (
        "Cars/NNS/6/nsubj that/WDT/5/nsubj Anna/NNP/4/nsubj said/VBD/1/relcl stopped/VBD/4/ccomp"
        " vanished/VBD/6/ROOT",
        ["anna|said|", "cars|stopped|", "cars|vanished|"],
    ),
    "demonstrative in a relative clause": (
        "Men/NNS/5/nsubj who/WP/3/nsubj did/VBD/1/relcl that/DT/3/dobj left/VBD/5/ROOT",
        ["men|did|that", "men|left|"],
    ),
    "pronoun of a clause that is no relative clause": (
        "Men/NNS/6/nsubj who/WP/3/nsubj said/VBD/1/relcl that/DT/5/nsubj stopped/VBD/3/ccomp left/VBD/6/ROOT",
        ["men|said|", "that|stopped|", "men|left|"],
    ),
    "nothing for a clause with there": (
        "Anna/NNP/2/nsubj left/VBD/2/ROOT since/IN/5/mark there/EX/5/expl was/VBD/2/advcl fire/NN/5/attr",
        ["anna|left|", "|was|fire"],
    ),
    "behind a preposition of the object": (
        "Police/NNS/2/nsubj accused/VBD/2/ROOT Anna/NNP/2/dobj of/IN/2/prep selling/VBG/4/pcomp"
        " cars/NNS/5/dobj",
        ["police|accused|anna", "anna|selling|cars"],
    ),
    "behind a preposition of the verb": (
        "Police/NNS/2/nsubj found/VBD/2/ROOT Anna/NNP/2/dobj by/IN/2/prep following/VBG/4/pcomp"
        " Peter/NNP/5/dobj",
        ["police|found|anna", "police|following|peter"],
    ),
    "infinitive behind a noun has no subject": (
        "Anna/NNP/2/nsubj had/VBD/2/ROOT reasons/NNS/2/dobj to/TO/5/aux leave/VB/3/acl",
        ["anna|had|reasons", "|leave|"],
    ),
}
COMPLEMENTS = {
    "joins the predicate": (
        "Anna/NNP/2/nsubj wanted/VBD/2/ROOT to/TO/4/aux buy/VB/2/xcomp cars/NNS/4/dobj",
        ["anna|wanted buy|cars"],
    ),
    "two in a row": (
        "Anna/NNP/2/nsubj wanted/VBD/2/ROOT to/TO/4/aux stop/VB/2/xcomp running/VBG/4/xcomp around/RP/5/prt",
        ["anna|wanted stop running around|"],
    ),
    "behind an object": (
        "Anna/NNP/2/nsubj asked/VBD/2/ROOT Peter/NNP/2/dobj to/TO/5/aux leave/VB/2/xcomp",
        ["anna|asked|peter", "peter|leave|"],
    ),
    "in the passive": (
        "Anna/NNP/2/nsubj wanted/VBD/2/ROOT to/TO/5/aux be/VB/5/auxpass seen/VBN/2/xcomp by/IN/5/agent"
        " Peter/NNP/6/pobj",
        ["anna|wanted seen by|peter"],
    ),
    "verb joined to it": (
        "Anna/NNP/2/nsubj wanted/VBD/2/ROOT to/TO/4/aux eat/VB/2/xcomp and/CC/4/cc sleep/VB/4/conj",
        ["anna|wanted eat|", "anna|sleep|"],
    ),
    "adjective": ("Anna/NNP/2/nsubj seemed/VBD/2/ROOT tired/JJ/2/oprd", ["anna|seemed tired|"]),
    "behind an adjective": (
        "Anna/NNP/2/nsubj was/VBD/2/ROOT able/JJ/2/acomp to/TO/5/aux buy/VB/3/xcomp cars/NNS/5/dobj",
        ["anna|was able|", "anna|buy|cars"],
    ),
    "behind an adjective and it": (
        "It/PRP/2/nsubj was/VBD/2/ROOT right/JJ/2/acomp to/TO/5/aux buy/VB/2/xcomp cars/NNS/5/dobj",
        ["it|was right|", "|buy|cars"],
    ),
    "behind an adjective of the object": (
        "Cars/NNS/2/nsubj were/VBD/2/ROOT hard/JJ/2/acomp to/TO/5/aux sell/VB/3/xcomp",
        ["cars|were hard|", "|sell|"],
    ),
    "behind the noun of a copula": (
        "Anna/NNP/2/nsubj became/VBD/2/ROOT leader/NN/2/attr to/TO/5/aux help/VB/2/xcomp Peter/NNP/5/dobj",
        ["anna|became|leader", "anna|help|peter"],
    ),
}
UNIVERSAL_DEPENDENCIES = {
    "object": (
        "Anna/NNP/2/nsubj sah/VBD/2/ROOT Peter/NNP/2/obj",
        ["anna|sah|peter"],
    ),
    "oblique": (
        "Anna/NNP/2/nsubj schlief/VBD/2/ROOT in/IN/4/case Berlin/NNP/2/obl",
        ["anna|schlief in|berlin"],
    ),
    "passive": (
        "Peter/NNP/3/nsubj:pass was/VBD/3/aux:pass seen/VBN/3/ROOT by/IN/5/case Anna/NNP/3/obl:agent",
        ["anna|seen|peter"],
    ),
    "passive with an oblique": (
        "Peter/NNP/3/nsubj:pass was/VBD/3/aux:pass seen/VBN/3/ROOT by/IN/5/case Anna/NNP/3/obl",
        ["anna|seen|peter"],
    ),
    "copula and noun": (
        "Anna/NNP/4/nsubj was/VBD/4/cop a/DT/4/det doctor/NN/4/ROOT",
        ["anna|was|doctor"],
    ),
    "copula and place": (
        "Anna/NNP/4/nsubj was/VBD/4/cop in/IN/4/case London/NNP/4/ROOT",
        ["anna|was in|london"],
    ),
    "copula and adjective": ("Anna/NNP/3/nsubj was/VBD/3/cop angry/JJ/3/ROOT", ["anna|was angry|"]),
    "verb joined to a copula": (
        "Anna/NNP/3/nsubj was/VBD/3/cop angry/JJ/3/ROOT and/CC/5/cc left/VBD/3/conj",
        ["anna|was angry|", "anna|left|"],
    ),
}
CASES = {
    f"{group}: {name}": case
    for group, cases in {
        "active": ACTIVE,
        "passive": PASSIVE,
        "shared": SHARED,
        "complement": COMPLEMENTS,
        "universal": UNIVERSAL_DEPENDENCIES,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", CASES)
def test_roles(name: str) -> None:
    sentence, wanted = CASES[name]
    events = extract_events(parsed_text(sentence))
    assert [f"{event.subject}|{event.predicate}|{event.object}" for event in events] == wanted


@pytest.mark.parametrize(
    "sentence",
    [
        "Anna/NNP/4/nsubj did/VBD/4/aux not/RB/4/neg leave/VB/4/ROOT",
        "Anna/NNP/3/nsubj never/RB/3/advmod left/VBD/3/ROOT",
        "Anna/NNP/4/nsubj no/DT/3/neg longer/RB/4/advmod slept/VBD/4/ROOT",
        "Anna/NNP/2/nsubj promised/VBD/2/ROOT not/RB/5/neg to/TO/5/aux leave/VB/2/xcomp",
        "Anna/NNP/4/nsubj was/VBD/4/cop not/RB/4/advmod angry/JJ/4/ROOT",
        "No/DT/2/det cause/NN/4/nsubjpass was/VBD/4/auxpass found/VBN/4/ROOT",
        "Anna/NNP/2/nsubj had/VBD/2/ROOT no/DT/4/det reasons/NNS/2/dobj",
        "Peter/NNP/3/nsubjpass was/VBD/3/auxpass seen/VBN/3/ROOT by/IN/3/agent no/DT/6/det man/NN/4/pobj",
    ],
)
def test_negation(sentence: str) -> None:
    (event,) = extract_events(parsed_text(sentence))
    assert event.negated
    assert not event.predicate.startswith("not")
    (other,) = extract_events(parsed_text("Anna/NNP/3/nsubj often/RB/3/advmod slept/VBD/3/ROOT"))
    assert not other.negated


FRENCH = (
    "Les/DET/1/det ouvriers/NOUN/6/nsubj:pass qui/PRON/3/nsubj travaillaient/VERB/1/acl:relcl "
    "ont/AUX/6/aux:tense été/AUX/6/aux:pass licenciés/VERB/6/ROOT par/ADP/9/case "
    "la/DET/9/det direction/NOUN/6/obl:agent et/CCONJ/12/cc le/DET/12/det maire/NOUN/9/conj"
)


def test_french() -> None:
    words, parts, heads, labels = zip(*(token.split("/") for token in FRENCH.split()), strict=True)
    doc = Doc(
        spacy.blank("fr").vocab,
        words=words,
        pos=parts,
        heads=list(map(int, heads)),
        deps=labels,
        morphs=["PronType=Rel" if word == "qui" else "" for word in words],
        lemmas=words,
    )
    events = extract_events(doc, "spans")
    assert [f"{event.subject}|{event.predicate}|{event.object}" for event in events] == [
        "les ouvriers|travaillaient|",
        "la direction|licenciés|les ouvriers",
        "le maire|licenciés|les ouvriers",
    ]


def test_negation_of_one_clause() -> None:
    left, seeing = extract_events(
        parsed_text("Anna/NNP/2/nsubj left/VBD/2/ROOT without/IN/2/prep seeing/VBG/3/pcomp Peter/NNP/4/dobj")
    )
    assert (left.negated, seeing.negated) == (False, True)


def test_no_before_a_noun() -> None:
    (left,) = extract_events(
        parsed_text("Anna/NNP/2/nsubj left/VBD/2/ROOT for/IN/2/prep no/DT/5/det reason/NN/3/pobj")
    )
    assert not left.negated
    nothing = parsed_text("No/DT/2/det cause/NN/4/nsubjpass was/VBD/4/auxpass found/VBN/4/ROOT")
    (found,) = extract_events(nothing, "spans")
    assert (found.object, found.negated) == ("cause", True)


def test_place_and_fields() -> None:
    doc = parsed_text(
        "Anna/NNP/2/nsubj slept/VBD/2/ROOT ././2/punct",
        "Peter/NNP/4/nsubjpass was/VBD/4/auxpass not/RB/4/neg seen/VBN/4/ROOT by/IN/4/agent her/PRP/5/pobj",
        lemmas={"seen": "see"},
    )
    first, second = extract_events(doc)
    assert doc.text[second.offset :].startswith("seen")
    assert second.fields() == [1, doc.text.index("seen"), "her", "seen", "peter", "see", 1, 1]
    assert (first.sentence, first.passive, first.object_index) == (0, False, None)
    assert doc[second.subject_index].text == "her"
    assert doc[second.object_index].text == "Peter"


def test_spans() -> None:
    sentence = (
        "The/DT/3/det old/JJ/3/amod man/NN/7/nsubj who/WP/5/nsubj slept/VBD/3/relcl ,/,/3/punct"
        " wanted/VBD/7/ROOT to/TO/9/aux sell/VB/7/xcomp the/DT/11/det house/NN/9/dobj of/IN/11/prep"
        " his/PRP$/14/poss Sister/NN/12/pobj"
    )
    doc = parsed_text(sentence)
    heads, spans = (extract_events(doc, form) for form in ARGUMENT_FORMS)
    assert [event.subject for event in heads] == ["man", "man"]
    assert [event.subject for event in spans] == ["the old man", "the old man"]
    assert spans[1].predicate == "wanted to sell"
    assert spans[1].object == "the house of his sister"
    assert (heads[1].predicate, heads[1].object) == ("wanted sell", "house")


def test_tags_stand_in_for_parts_of_speech() -> None:
    doc = parsed_text("Anna/NNP/2/nsubj was/VBD/2/ROOT angry/JJ/2/acomp at/IN/3/prep Peter/NNP/4/pobj")
    for token in doc:
        token.pos_ = ""
    (event,) = extract_events(doc)
    assert (event.subject, event.predicate, event.object) == ("anna", "was angry at", "peter")


def test_text_without_verbs_or_words() -> None:
    assert extract_events(parsed_text("Sunny/JJ/2/amod days/NNS/2/ROOT")) == []
    assert extract_events(parsed_text()) == []


def test_refuses_what_was_not_parsed() -> None:
    import spacy

    doc = spacy.blank("en")("Anna slept.")
    with pytest.raises(EventformersError, match="no dependencies; accepted: a pipeline with a parser"):
        extract_events(doc)
    for token in doc:
        token.dep_ = "dep"
    with pytest.raises(EventformersError, match="no parts of speech"):
        extract_events(doc)
    with pytest.raises(UnknownNameError, match="Did you mean 'heads'"):
        extract_events(doc, "head")


def test_f1_of_an_installed_pipeline(english_pipeline: str) -> None:
    """Against the annotated sentences of `benchmarks/extraction_accuracy.jsonl`."""
    import spacy

    accuracy = load_benchmark("extraction_accuracy")
    sentences = accuracy.read_annotations()
    found = accuracy.extracted(spacy.load(english_pipeline), sentences)
    scores = {part: accuracy.agreement(sentences, found, part).f1 for part in accuracy.PARTS}
    assert scores["subject, predicate, object"] > 0.825
    assert scores["subject, predicate"] > 0.85
    assert scores["predicate, object"] > 0.91
    assert scores["predicate, negation"] > 0.945
