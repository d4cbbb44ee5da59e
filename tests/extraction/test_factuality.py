"""Whether an event is a fact, is negated, and whose it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmark_scripts import load_benchmark
from parsed_texts import parsed_text

from eventformers.extraction.details.factuality import ACTOR_IDS, factuality_details
from eventformers.extraction.events import ExtractedEvent, extract_events

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


@pytest.fixture(scope="module")
def parse(english_pipeline: str) -> Iterator[Language]:
    import spacy

    return spacy.load(english_pipeline)


def factuality(doc: Doc) -> dict[str, tuple[str, str]]:
    """The factuality and the source of each event by its trigger; the word itself is the id of a source."""
    doc.user_data[ACTOR_IDS] = {token.i: token.text for token in doc}
    events = extract_events(doc)
    found = factuality_details(doc, events)
    return {
        doc[event.trigger_index].text: (one["factuality"], one["source_id"])
        for event, one in zip(events, found, strict=True)
    }


@pytest.mark.parametrize(
    ("sentence", "trigger", "kind", "source"),
    [
        ("The army attacked the town.", "attacked", "fact", ""),
        ("They know that the troops left.", "left", "fact", ""),
        ("The minister managed to resign.", "managed", "fact", ""),
        ("The troops forced him to leave.", "leave", "fact", ""),
        ("I believe that the troops left.", "left", "fact", ""),
        ("The minister did not resign.", "resign", "negated", ""),
        ("The minister failed to resign.", "resign", "negated", ""),
        ("He nearly died.", "died", "negated", ""),
        ("He said he would not resign.", "resign", "negated", "He"),
        ("He denied killing her.", "killing", "negated", "He"),
        ("The minister might have resigned.", "resigned", "possible", ""),
        ("The army will attack the town.", "attack", "possible", ""),
        ("It is not clear how he escaped.", "escaped", "fact", ""),
        ("It is not clear whether he escaped.", "escaped", "possible", ""),
        ("He should not resign.", "resign", "possible", ""),
        ("The army plans to attack the town.", "plans", "possible", ""),
        ("They tried to escape.", "tried", "possible", ""),
        ("He is going to attack the town.", "going", "possible", ""),
        ("If the army attacks the town, people will flee.", "attacks", "possible", ""),
        ("Had he known, he would have left.", "known", "possible", ""),
        ("The minister asked him to resign.", "resign", "possible", ""),
        ("The minister asked whether he had resigned.", "resigned", "possible", "minister"),
        ("Iran refused to sign the treaty.", "sign", "possible", ""),
        ("Iran refused to sign the treaty.", "refused", "fact", ""),
        ("Police accused him of killing her.", "killing", "possible", "Police"),
        ("She was arrested for stealing cars.", "stealing", "possible", ""),
        ("Please call the office.", "call", "possible", ""),
        ("When did the minister leave?", "leave", "possible", ""),
        ("He went to Paris to buy a car.", "buy", "possible", ""),
        ("They are not sure that he left.", "left", "possible", ""),
        ("A plan to attack the town was found.", "attack", "possible", ""),
        ("The president said the army may attack the town.", "attack", "possible", "president"),
        ("The president said the army had attacked the town.", "attacked", "reported", "president"),
        ("Police say a man was killed and two were wounded.", "wounded", "reported", "Police"),
        ("Reporters were told by Smith that the deal collapsed.", "collapsed", "reported", "Smith"),
        ("She was killed, police said.", "killed", "reported", "police"),
        ("Rebels, he said, captured the city.", "captured", "reported", "he"),
        ("Rebels, he said, captured the city.", "said", "fact", ""),
        ("According to police, rebels captured the city.", "captured", "reported", "police"),
        ("According to police, rebels won and they killed ten.", "killed", "reported", "police"),
        ("They signed a deal, according to which troops left.", "signed", "fact", ""),
        ("Rebels reportedly captured the city.", "captured", "reported", ""),
        ("He is said to have left the country.", "left", "reported", ""),
        ('"Rebels captured the city," Smith said. "They killed ten people."', "killed", "reported", "Smith"),
        ("“Rebels won,” said Smith. “They killed ten people.”", "killed", "reported", "Smith"),
        ("'Rebels won,' said Smith. 'They killed ten people.'", "killed", "reported", "Smith"),
        ('"Leave the town," he said.', "Leave", "possible", "he"),
        ('The city was "captured" by rebels.', "captured", "fact", ""),
    ],
)
def test_factuality(parse: Language, sentence: str, trigger: str, kind: str, source: str) -> None:
    assert factuality(parse(sentence))[trigger] == (kind, source)


@pytest.mark.parametrize(
    ("sentence", "noun", "kind"),
    [
        ("The attack killed ten people.", "attack", "fact"),
        ("The planned attack worried people.", "attack", "possible"),
        ("They called for a strike.", "strike", "possible"),
        ("The talks averted a strike.", "strike", "possible"),
        ("The threat of war remains.", "war", "possible"),
        ("The army will launch an attack.", "attack", "possible"),
        ("They will discuss the attack.", "attack", "fact"),
        ("Police said the attack killed ten people.", "attack", "reported"),
    ],
)
def test_events_of_nouns(parse: Language, sentence: str, noun: str, kind: str) -> None:
    doc = parse(sentence)
    place = next(token for token in doc if token.text == noun)
    event = ExtractedEvent(0, place.idx, "", noun, "", noun, False, False, None, None, place.i, "noun")
    assert factuality_details(doc, [event])[0]["factuality"] == kind


def test_a_long_chain_of_clauses_ends(parse: Language) -> None:
    doc = parse("He said " + "that she said " * 400 + "that he left.")
    assert factuality(doc)["left"][0] in ("fact", "reported")


def test_macro_f1_of_judged_events(english_pipeline: str) -> None:
    benchmark = load_benchmark("event_data")
    scores = {
        held_out: benchmark.factuality_scores(
            benchmark.judged_factuality(english_pipeline, "factuality", held_out)
        )
        for held_out in (False, True)
    }
    assert scores[False]["macro"] > 0.90
    assert scores[True]["macro"] > 0.82
    assert min(scores[True].values()) > 0.75


def test_judged_events_of_nouns(english_pipeline: str) -> None:
    judged = load_benchmark("event_data").judged_factuality(english_pipeline, "factuality_of_nouns")
    # The finder leaves out some that name no event.
    assert sum(given not in ("", row["factuality"]) for row, given in judged) <= 6
    assert sum(row["is_event"] and row["factuality"] == given for row, given in judged) >= 14
    assert len(judged) == 30


pytest.importorskip("spacy", reason="spaCy is not installed")

LINES = Path(__file__).with_name("parses.txt").read_text(encoding="utf-8").splitlines()
CASES = {sentence: (parse, events) for _, sentence, parse, events in (line.split("\t") for line in LINES)}
LEMMAS = {
    form: lemma
    for lemma, forms in {
        **{
            "abstain": "abstained",
            "acquit": "acquitted",
            "allow": "allowed",
            "arrest": "arrested",
            "erupt": "erupted",
            "detain": "detained",
            "ask": "asked",
            "attack": "attacked",
            "be": "is was were",
        },
        **{"charge": "charged", "convict": "convicted", "decide": "decided", "deny": "denied", "do": "did"},
        **{
            "fail": "failed",
            "find": "found",
            "forget": "forgot",
            "have": "has",
            "indicate": "indicated",
            "argue": "argued",
            "kill": "killed killing",
        },
        **{"laugh": "laughing", "leave": "left leaving", "mean": "means", "pay": "paying", "plan": "plans"},
        **{
            "prevent": "prevented",
            "refuse": "refused",
            "say": "said",
            "stop": "stopped",
            "reject": "rejected",
            "lack": "lacks",
            "see": "seen",
        },
    }.items()
    for form in forms.split()
}


@pytest.mark.parametrize("sentence", CASES)
def test_negation_and_coordination(sentence: str) -> None:
    parse, wanted = CASES[sentence]
    events = extract_events(parsed_text(parse, lemmas=LEMMAS))
    found = [f"{one.subject}|{'not ' * one.negated}{one.predicate}|{one.object}" for one in events]
    assert found == wanted.split("; ")


def test_long_lists_of_participants() -> None:
    people = [f"p{number}/NNP/{number}/conj" for number in range(1, 30)]
    things = [f"t{number}/NNS/{number + 31}/conj" for number in range(1, 30)]
    doc = parsed_text(" ".join(["p0/NNP/31/nsubj", *people, "saw/VBD/31/ROOT", "t0/NNS/31/dobj", *things]))
    events = extract_events(doc)
    assert len(events) == 59
    assert {event.subject for event in events} == {f"p{number}" for number in range(30)}
    assert {event.object for event in events} == {f"t{number}" for number in range(30)}


@pytest.mark.parametrize(
    ("sentence", "wanted"),
    [
        ("\\n/_SP/3/nsubj Anna/NNP/3/nsubj went/VBD/3/ROOT \\n/_SP/3/dobj", "anna|went|"),
        ("12/CD/2/nsubj killed/VBD/2/ROOT 👍/NNP/2/dobj", "|killed|"),
        ("Anna/NNP/2/nsubj saw/VBD/2/ROOT https://t.co/NN/2/dobj", "anna|saw|"),
        ("Anna/NNP/2/nsubj saw/VBD/2/ROOT at/IN/2/prep \\n/_SP/3/pobj", "anna|saw|"),
    ],
)
def test_what_is_no_role(sentence: str, wanted: str) -> None:
    (event,) = extract_events(parsed_text(sentence))
    assert f"{event.subject}|{event.predicate}|{event.object}" == wanted
