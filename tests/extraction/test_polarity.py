"""Negation and coordination in parses of `parses.txt`: kind, sentence, its parse, and its events."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventformers.extraction.events import extract_events

pytest.importorskip("spacy", reason="spaCy is not installed")

from parsed_texts import parsed_text

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
