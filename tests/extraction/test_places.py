"""Places of events: their entries in the gazetteer, the event that each belongs to, and places judged by
hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from benchmark_scripts import load_benchmark

from eventformers.datasets_scripts.events import empty_details
from eventformers.errors import EventformersError
from eventformers.extraction.details import event_details, places
from eventformers.extraction.details.places import find_places, place_details
from eventformers.extraction.events import ExtractedEvent, extract_events
from eventformers.extraction.extractor import EventExtractor, ExtractionSettings
from eventformers.extraction.texts import TextDocument

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


@pytest.fixture(scope="module")
def parse(english_pipeline: str) -> Iterator[Language]:
    import spacy

    return spacy.load(english_pipeline)


def with_entities(parse: Language, text: str, *names: str, label: str = "GPE") -> Doc:
    """A parsed text whose entities are these names, the last occurrence of each."""
    doc = parse(text)
    starts = [text.rindex(name) for name in names]
    doc.ents = [
        doc.char_span(start, start + len(name), label) for start, name in zip(starts, names, strict=True)
    ]
    return doc


@pytest.mark.parametrize(
    ("text", "names", "country", "number"),
    [
        ("He died in Paris.", ["Paris"], "FR", 2988507),
        ("He died in Paris, Texas.", ["Paris", "Texas"], "US", 4717560),
        ("He died in London, Ontario.", ["London", "Ontario"], "CA", 6058560),
        ("He died in Springfield, Mo.", ["Springfield"], "US", 4409896),
        ("He died in Egypt.", ["Egypt"], "EG", 357994),
        ("He died in the U.S.", ["U.S."], "US", 6252001),
        ("He died in Burma.", ["Burma"], "MM", 1327865),
        ("He died in Virginia.", ["Virginia"], "US", 6254928),
        ("He died in New York.", ["New York"], "US", 5128581),
        ("He died in northern Iraq.", ["northern Iraq"], "IQ", 99237),
        ("He died in Cologne.", ["Cologne"], "DE", 2886242),
        ("He died in Banstead in Surrey.", ["Banstead", "Surrey"], "GB", 2656379),
        ("He died in Ontario.", ["Ontario"], "CA", None),
        ("He left Tbilisi for Armenia. He died in Georgia.", ["Tbilisi", "Armenia", "Georgia"], "GE", 614540),
        ("He left Texas. He died in Georgia.", ["Texas", "Georgia"], "US", 4197000),
        ("He left Chile. He died in Valdivia.", ["Chile", "Valdivia"], "CL", 3868707),
        ("He left Alaska. He died in Palmer.", ["Alaska", "Palmer"], "US", None),
    ],
)
def test_entry(parse: Language, text: str, names: list[str], country: str, number: int | None) -> None:
    entries = {place.span.text: place.entry for place in find_places(with_entities(parse, text, *names))}
    entry = entries[
        next(name for name in names if text.endswith((f"in {name}.", f"the {name}")) or f"in {name}" in text)
    ]
    assert (entry.country, entry.id) == (country, number)
    assert entry.latitude is None or entry.people


@pytest.mark.parametrize(
    ("text", "name", "label"),
    [
        ("He died in Palin.", "Palin", "GPE"),
        ("He died in Georgia.", "Georgia", "GPE"),
        ("He died in the White House.", "White House", "FAC"),
        ("He died at the Washington.", "Washington", "FAC"),
        ("He died in the Middle East.", "Middle East", "LOC"),
        ("He died in South America.", "South America", "LOC"),
    ],
)
def test_no_entry_is_better_than_a_guess(parse: Language, text: str, name: str, label: str) -> None:
    (place,) = find_places(with_entities(parse, text, name, label=label))
    assert place.entry is None


@pytest.mark.parametrize(
    ("text", "names", "of_events"),
    [
        ("Ten people died in Kabul.", ["Kabul"], {"died": "Kabul"}),
        ("The bomb killed ten people in Kabul.", ["Kabul"], {"killed": "Kabul"}),
        ("He flew to Kabul.", ["Kabul"], {"flew": "Kabul"}),
        ("He flew from Kabul.", ["Kabul"], {"flew": ""}),
        ("Washington said so.", ["Washington"], {"said": ""}),
        ("A spokesman in Washington said so.", ["Washington"], {"said": ""}),
        ("A fire in Kabul killed ten people.", ["Kabul"], {"killed": "Kabul"}),
        ("The president of France resigned.", ["France"], {"resigned": ""}),
        ("He attacked Kabul.", ["Kabul"], {"attacked": ""}),
        ("He was found dead in his hotel room in Paris.", ["Paris"], {"was": "", "found": "Paris"}),
        ("He died in prison.", [], {"died": "prison"}),
        ("He died in the old city of Chicago.", ["Chicago"], {"died": "Chicago"}),
        ("He died in the house of Chicago.", ["Chicago"], {"died": "the house"}),
        ("Smith, a biologist at the museum, questioned the claim.", [], {"questioned": ""}),
        ("The prison burned.", [], {"burned": ""}),
    ],
)
def test_the_event_of_a_place(
    parse: Language, text: str, names: list[str], of_events: dict[str, str]
) -> None:
    doc = with_entities(parse, text, *names)
    events = extract_events(doc)
    details = place_details(doc, TextDocument("one", text, "", ""), events)
    found = {
        doc[event.trigger_index].text: one.get("place_text", "")
        for event, one in zip(events, details, strict=True)
    }
    assert found == {trigger: of_events[trigger] for trigger in found}
    assert found


def test_the_place_of_an_event_of_a_noun(parse: Language) -> None:
    text = "The Boston bombing killed ten people."
    doc = with_entities(parse, text, "Boston")
    event = ExtractedEvent(0, doc[2].idx, "", "bombing", "", "bombing", False, False, None, None, 2, "noun")
    (details,) = place_details(doc, TextDocument("one", text, "", ""), [event])
    assert details == {
        "place_text": "Boston",
        "place_id": "geonames:4930956",
        "latitude": pytest.approx(42.36, abs=0.01),
        "longitude": pytest.approx(-71.06, abs=0.01),
        "country": "US",
    }


def test_another_language_has_no_actors_times_places_and_factuality() -> None:
    import spacy

    doc = spacy.blank("de")("Er starb 2004 in Paris.")
    event = ExtractedEvent(0, 3, "er", "starb", "", "sterben", False, False, None, None, 1)
    [details] = event_details(doc, TextDocument("one", doc.text, "", ""), [event])
    assert details == {**empty_details(), "trigger_kind": "verb"}


def test_without_a_gazetteer_no_text_is_parsed(
    english_pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "find_spec", lambda name: None)
    with pytest.raises(EventformersError, match=r'pip install "eventformers\[extract\]"'):
        EventExtractor(ExtractionSettings(english_pipeline))


def test_an_institution_is_no_place(parse: Language) -> None:
    texts = ("He served in the House.", "He hid in the house.", "He met them in the White House.")
    found = [[place.span.text for place in find_places(parse(text))] for text in texts]
    assert found == [[], ["the house"], ["the White House"]]


def test_countries_judged_by_hand(english_pipeline: str) -> None:
    judged_places = load_benchmark("event_data").judged_places
    for held_out, fewest in ((False, 45), (True, 45)):
        right, given = judged_places(english_pipeline, held_out)
        assert right >= fewest
        assert right >= 0.95 * given
