"""When and where an event is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from benchmark_scripts import load_benchmark

from eventformers.datasets_scripts.events import empty_details
from eventformers.errors import EventformersError
from eventformers.extraction.details import event_details, places
from eventformers.extraction.details.places import find_places, place_details
from eventformers.extraction.details.times import find_times, time_details
from eventformers.extraction.events import ExtractedEvent, extract_events
from eventformers.extraction.extractor import EventExtractor, ExtractionSettings
from eventformers.extraction.texts import TextDocument

if TYPE_CHECKING:
    from spacy.language import Language

THURSDAY = "2011-05-05"


@pytest.fixture(scope="module")
def parse(english_pipeline: str) -> Iterator[Language]:
    import spacy

    return spacy.load(english_pipeline)


@pytest.mark.parametrize(
    ("sentence", "text", "start", "end"),
    [
        ("He left on 3 March 2019.", "3 March 2019", "2019-03-03", "2019-03-03"),
        ("He left on Sunday, March 3, 2019.", "Sunday, March 3, 2019", "2019-03-03", "2019-03-03"),
        ("He left on 2019-03-03.", "2019-03-03", "2019-03-03", "2019-03-03"),
        ("He left on 27/09/2013.", "27/09/2013", "2013-09-27", "2013-09-27"),
        ("He left on 7/11/2003.", "7/11/2003", "", ""),
        ("He left on 31 June 2004.", "31 June 2004", "", ""),
        ("He left in March 2019.", "March 2019", "2019-03", "2019-03"),
        ("He left in June of last year.", "June of last year", "2010-06", "2010-06"),
        ("He left in 2004.", "2004", "2004", "2004"),
        ("He left in late 2004.", "late 2004", "2004", "2004"),
        ("He left in the summer of 2004.", "summer of 2004", "2004-22", "2004-22"),
        ("He left in the 1950s.", "1950s", "1950", "1959"),
        ("He left in the 1900s.", "1900s", "", ""),
        ("He lived in the 19th century.", "19th century", "1801", "1900"),
        ("He left on Monday.", "Monday", "2011-05-02", "2011-05-02"),
        ("He left on Thursday.", "Thursday", THURSDAY, THURSDAY),
        ("He will leave on Monday.", "Monday", "2011-05-09", "2011-05-09"),
        ("He was scheduled to leave on Monday.", "Monday", "2011-05-09", "2011-05-09"),
        ("The shop opens on Monday.", "Monday", "2011-05-09", "2011-05-09"),
        ("He left in June.", "June", "2010-06", "2010-06"),
        ("He will leave in March.", "March", "2012-03", "2012-03"),
        ("He will leave on January 3.", "January 3", "2012-01-03", "2012-01-03"),
        ("He left on December 3.", "December 3", "2010-12-03", "2010-12-03"),
        ("He left last May.", "last May", "2010-05", "2010-05"),
        ("He left yesterday morning.", "yesterday morning", "2011-05-04", "2011-05-04"),
        ("He left last night.", "last night", "2011-05-04", "2011-05-04"),
        ("He left last week.", "last week", "2011-04-25", "2011-05-01"),
        ("He left earlier this week.", "earlier this week", "2011-05-02", THURSDAY),
        ("He left last month.", "last month", "2011-04", "2011-04"),
        ("He left last year.", "last year", "2010", "2010"),
        ("He left two days ago.", "two days ago", "2011-05-03", "2011-05-03"),
        ("He left six months ago.", "six months ago", "2010-11", "2010-11"),
        ("He won twice in the past two weeks.", "the past two weeks", "2011-04-21", THURSDAY),
        ("He left a few days ago.", "a few days ago", "", ""),
        ("He left three days later.", "three days later", "", ""),
        ("A month later, he left.", "A month later", "", ""),
        ("The court adjourned the trial until Friday.", "until Friday", "", "2011-05-06"),
        ("He waited for several hours.", "several hours", "", ""),
        ("He has lived here since 2003.", "since 2003", "2003", ""),
        ("He will stay until Monday.", "until Monday", "", "2011-05-09"),
        ("He left after Monday's attack.", "Monday", "2011-05-02", "2011-05-02"),
        ("He lived here from 1995 to 1999.", "from 1995 to 1999", "1995", "1999"),
        ("He lived here between May and July 2004.", "May and July 2004", "2004-05", "2004-07"),
        ("He left at 5:30 p.m. on Tuesday.", "5:30 p.m. on Tuesday", "2011-05-03T17:30", "2011-05-03T17:30"),
        ("He left on 3 May 2011 at noon.", "3 May 2011 at noon", "2011-05-03T12:00", "2011-05-03T12:00"),
        ("He left at 5:30 p.m.", "5:30 p.m.", "", ""),
        ("He left at the weekend.", "the weekend", "2011-04-30", "2011-05-01"),
        ("He will leave at the weekend.", "the weekend", "2011-05-07", "2011-05-08"),
        ("He left on Christmas Day.", "Christmas Day", "2010-12-25", "2010-12-25"),
        ("He died on New Year's Eve 2004.", "New Year's Eve 2004", "2004-12-31", "2004-12-31"),
        ("He left at Easter 2005.", "Easter 2005", "2005", "2005"),
        ("He left at Christmas.", "Christmas", "", ""),
        ("He left last Christmas.", "last Christmas", "", ""),
    ],
)
def test_value(parse: Language, sentence: str, text: str, start: str, end: str) -> None:
    ((found, value, _),) = find_times(parse(sentence), THURSDAY)
    assert (found.text, value) == (text, (start, end))


@pytest.mark.parametrize(
    "sentence",
    [
        "Theresa May resigned.",
        "He is 41 years old.",
        "The Sunday Times said so.",
        "They may march.",
        "He may fall.",
        "Christmas trees fell.",
        "They sang at Christmas concerts.",
        "Prices stayed at 2004 levels.",
    ],
)
def test_no_time(parse: Language, sentence: str) -> None:
    assert list(find_times(parse(sentence), THURSDAY)) == []


@pytest.mark.parametrize("known", ["", "2011", "2011-05"])
def test_without_the_day_of_the_document_relative_times_are_unknown(parse: Language, known: str) -> None:
    doc = parse("He left on Monday, last year, two days ago, on May 3, and in June 2004.")
    values = [time.value for time in find_times(doc, known)]
    assert values == [("", "")] * 4 + [("2004-06", "2004-06")]


@pytest.mark.parametrize("written", ["2011-05-05T23:30:00+02:00", "20110505T233000"])
def test_the_date_of_the_document_may_have_a_time(parse: Language, written: str) -> None:
    ((_, value, _),) = find_times(parse("He left yesterday."), written)
    assert value == ("2011-05-04", "2011-05-04")


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
def test_times_out_of_the_calendar_are_unknown(parse: Language, day: str) -> None:
    doc = parse("He left last week and 90,000 years ago, and he will leave next month and next year.")
    assert len(list(find_times(doc, day))) == 4


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("A Moscow court on Tuesday sentenced the man.", {"sentenced": "Tuesday"}),
        ("Police said on Friday that he died in 2004.", {"said": "Friday", "died": "2004"}),
        ("He was arrested. They left on Friday.", {"arrested": "", "left": "Friday"}),
        ("On Monday he met Anna and left Paris.", {"met": "Monday", "left": "Monday"}),
        ("The 2004 report praised him.", {"praised": ""}),
        ("He wants to buy cars on Monday.", {"wants": "Monday"}),
        ("They met on Friday at 10 a.m.", {"met": "Friday at 10 a.m."}),
        ("In 2010, he left on 3 May 2010.", {"left": "3 May 2010"}),
        ("On 3 May 2010 he left in 2010.", {"left": "3 May 2010"}),
    ],
)
def test_the_event_of_a_time(parse: Language, text: str, times: dict[str, str]) -> None:
    doc = parse(text)
    events = extract_events(doc)
    details = time_details(doc, TextDocument("one", text, "", "", date=THURSDAY), events)
    assert {
        doc[event.trigger_index].text: one.get("time_text", "")
        for event, one in zip(events, details, strict=True)
    } == times


def test_the_time_of_an_event_of_a_noun(parse: Language) -> None:
    text = "Monday's attack killed ten people."
    doc = parse(text)
    event = ExtractedEvent(0, doc[2].idx, "", "attack", "", "attack", False, False, None, None, 2, "noun")
    (details,) = time_details(doc, TextDocument("one", text, "", "", date=THURSDAY), [event])
    assert details == {"time_text": "Monday", "time_start": "2011-05-02", "time_end": "2011-05-02"}


def test_times_judged_by_hand(english_pipeline: str) -> None:
    judged_times = load_benchmark("event_data").judged_times
    assert judged_times(english_pipeline, False) >= 0.98
    assert judged_times(english_pipeline, True) >= 0.96


if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


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
