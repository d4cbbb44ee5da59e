"""When events happened: the times that a text names, and their values by the date of its document.

A small grammar of English. Values are those of EDTF (ISO 8601-2): a year, a month, a day, a minute of local
time (`2004-11-05T10:30`), or a season (`2004-21`, the spring). What begins "since" has no end, what begins
"until" no start. A duration and a vague time have a text alone, and so has a relative time if the date of the
document is unknown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from eventformers.extraction.grammar import LINKED, SUBJECTS, child_of, clause_of, trigger_of
from eventformers.extraction.lexicon import lexicon
from eventformers.extraction.normalising import place_given

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

    from eventformers.extraction.events import ExtractedEvent
    from eventformers.extraction.texts import TextDocument

_WORDS = lexicon("times")

Interval = tuple[str, str]
"""First and last EDTF value of a time; "" is unknown."""

_UNKNOWN: Interval = ("", "")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SEASONS, _NUMBERS = _WORDS.seasons, _WORDS.numbers
_PARTS = {
    "seasons": "|".join(_SEASONS),
    "numbers": "|".join(reversed(_NUMBERS[1:])),
    "feasts": "|".join(_WORDS.feasts),
}
for _name, _pattern in _WORDS.parts.items():
    _PARTS[_name] = _pattern % _PARTS
_TIMES, _LED_TIMES = (
    [(kind, pattern % _PARTS) for rule in rules for kind, pattern in rule.items()]
    for rules in (_WORDS.times, _WORDS.led_times)
)


class _Time(NamedTuple):
    """A time: its tokens, its value, and its clock time if it has no day."""

    span: Span
    value: Interval
    clock: str


Parts = Mapping[str, str]
"""Named parts of a match; an absent one is ""."""


def _step(parts: Parts) -> int:
    """-1 for "last", 1 for "next", else 0."""
    word = parts["step"].strip().lower()
    return -1 if word in ("last", "past") else int(word in ("next", "coming"))


def _year(parts: Parts, anchor: date) -> int:
    year = parts["year"]
    return int(year) if year.isdigit() else anchor.year + _step({"step": year.partition(" ")[0]})


def _month(name: str) -> int:
    return _MONTHS.index(name[:3].lower()) + 1


def _number(text: str) -> int:
    text = text.lower()
    if text[0].isdigit():
        return int(re.sub(r"\D", "", text))
    return 1 if text == "an" else max(_NUMBERS.index(text), 1)


def _whole(year: int, month: int | None = None) -> Interval:
    """A year, or a month, whose number may be of another year."""
    if month is None:
        return (date(year, 1, 1).isoformat()[:4],) * 2
    return (date(year + (month - 1) // 12, (month - 1) % 12 + 1, 1).isoformat()[:7],) * 2


def _days(first: date, last: date | None = None) -> Interval:
    return first.isoformat(), (last or first).isoformat()


def _around(anchor: date, unit: str, step: int) -> Interval:
    """The calendar week, month, year or decade that is some steps before or after a date."""
    if unit in ("week", "weekend"):
        monday = anchor + timedelta(days=7 * step - anchor.weekday())
        return _days(monday + timedelta(days=5 if unit == "weekend" else 0), monday + timedelta(days=6))
    if unit == "decade":
        first = 10 * (anchor.year // 10 + step)
        return f"{first:04d}", f"{first + 9:04d}"
    return _whole(anchor.year + step) if unit == "year" else _whole(anchor.year, anchor.month + step)


def _interval(kind: str, parts: Parts, anchor: date, future: bool) -> Interval:
    """The value of a time of a kind.

    Args:
        kind: the kind in the lexicon; a vague time has no value.
        future: whether its clause is about what is to come.
    """
    step = _step(parts)
    is_ahead = step > 0 or (not step and future)
    match kind:
        case "numeric_day":
            first, second = int(parts["month"]), int(parts["day"])
            if parts["slash"] and first != second:
                # 7/11/2003 is a day of July or of November.
                if max(first, second) <= 12:
                    return _UNKNOWN
                first, second = min(first, second), max(first, second)
            return _days(date(int(parts["year"]), first, second))
        case "calendar_day":
            month, day = _month(parts["month"]), _number(parts["day"])
            if parts["year"]:
                return _days(date(_year(parts, anchor), month, day))
            is_later = (month, day) > (anchor.month, anchor.day)
            is_earlier = (month, day) < (anchor.month, anchor.day)
            return _days(date(anchor.year + (is_earlier if future else -is_later), month, day))
        case "calendar_month":
            month = _month(parts["month"])
            if parts["year"]:
                return _whole(_year(parts, anchor), month)
            if is_ahead:
                return _whole(anchor.year + (month < anchor.month + step), month)
            return _whole(anchor.year - (month > anchor.month + step), month)
        case "calendar_year":
            return _whole(int(parts["year"]))
        # "last winter" and "this winter" span two years, of which the text names none.
        case "season" if parts["year"] or not (step or parts["season"] == "winter"):
            year = int(parts["year"] or anchor.year)
            return (f"{_whole(year)[0]}-{_SEASONS[parts['season']]}",) * 2
        # "the 1900s" is a decade or a century.
        case "decade" if (begin := int(parts["decade"])) % 100:
            return f"{begin}", f"{begin + 9}"
        case "century":
            last = 100 * _number(parts["century"])
            return f"{last - 99:04d}", f"{last:04d}"
        case "near_day":
            word = parts["near"].lower()
            days = 1 if word == "tomorrow" else -1 if word.startswith(("yesterday", "last")) else 0
            return _days(anchor + timedelta(days=days))
        case "weekday":
            ahead = (_WEEKDAYS.index(parts["weekday"][:3].lower()) - anchor.weekday()) % 7
            if is_ahead:
                return _days(anchor + timedelta(days=ahead or 7 * step))
            return _days(anchor + timedelta(days=ahead - 7 if ahead or step else 0))
        case "weekend":
            # The last weekend that has begun, or the next one that has not ended.
            return _around(anchor, "weekend", 0 if future or anchor.weekday() >= 5 else -1)
        case "feast":
            # A feast of a fixed day, or else the year that the text gives it.
            if (month_and_day := _WORDS.feasts.get(parts["feast"])) is None:
                return _whole(int(parts["year"])) if parts["year"] else _UNKNOWN
            number, day_of_month = month_and_day.split("-")
            named = {"month": _MONTHS[int(number) - 1], "day": day_of_month, "year": parts["year"]}
            return _interval("calendar_day", defaultdict(str, named), anchor, future)
        case "near_unit":
            start, end = _around(anchor, parts["unit"], step)
            if parts["side"] and not step:
                is_first = parts["side"].lower() == "earlier"
                return (start, anchor.isoformat()) if is_first else (anchor.isoformat(), end)
            return start, end
        case "ago":
            count, unit = _number(parts["number"]), parts["unit"].removesuffix("s")
            if unit in ("day", "night"):
                return _days(anchor - timedelta(days=count))
            return _around(anchor, unit, -count)
        case "stretch":
            # The last or the next days, weeks, months or years, counted from the date of the document.
            unit, count = parts["unit"].removesuffix("s"), _number(parts["number"] or "one")
            count *= {"week": 7, "decade": 10}.get(unit, 1) * (step or 1)
            if unit in ("day", "week"):
                there, here = _days(anchor + timedelta(days=count)), _days(anchor)
            elif unit == "month":
                there, here = _whole(anchor.year, anchor.month + count), _whole(anchor.year, anchor.month)
            else:
                there, here = _whole(anchor.year + count), _whole(anchor.year)
            return (there[0], here[1]) if count < 0 else (here[0], there[1])
    return _UNKNOWN


_PARTS |= {
    name: "|".join(re.sub(r"\?P<\w+>", "?:", pattern) for _, pattern in times)
    for name, times in (("any_time", _TIMES), ("any_led_time", _LED_TIMES))
}
_TIME = re.compile("".join(_WORDS.pattern) % _PARTS)
_RULES = tuple((kind, re.compile(pattern)) for kind, pattern in (*_TIMES, *_LED_TIMES))


def time_details(doc: Doc, document: TextDocument, events: Sequence[ExtractedEvent]) -> list[dict[str, Any]]:
    """Return `time_text`, `time_start` and `time_end` of each event."""
    details: list[dict[str, Any]] = [{} for _ in events]
    triggers = {event.trigger_index for event in events}
    found: dict[int, list[_Time]] = {}
    for time in find_times(doc, document.date):
        trigger = trigger_of(time.span, triggers)
        if trigger is not None:
            found.setdefault(trigger, []).append(time)
    for columns, event in zip(details, events, strict=True):
        verb = doc[event.trigger_index]
        times = found.get(verb.i, [])
        if not times and verb.dep_ == "conj" and child_of(verb, SUBJECTS) is None:
            # "On Monday he met her and left"
            times = [time for time in found.get(verb.head.i, ()) if time.span.start < verb.head.i]
        if times:
            # The most exact time, with the clock time of another one.
            best = max(times, key=lambda time: (bool(time.value[0] or time.value[1]), *map(len, time.value)))
            start, end = best.value
            clock = next((time.clock for time in times if time.clock), "")
            if clock and start == end and len(start) == len("2004-11-05"):
                start = end = f"{start}T{clock}"
            first, last = place_given(best.span)
            columns |= {"time_text": document.text[first:last], "time_start": start, "time_end": end}
    return details


def find_times(doc: Doc, document_date: str) -> Iterator[_Time]:
    """Yield the times of an English text, in order.

    Args:
        document_date: date of the document, in ISO 8601; a relative time has a value only with its day.
    """
    try:
        anchor = datetime.fromisoformat(document_date).date()
    except ValueError:
        # A year or a month alone, or none.
        anchor = None
    waiting: _Time | None = None
    text = doc.text
    for match in _TIME.finditer(text):
        span = doc.char_span(match.start("time"), match.end("time"), alignment_mode="expand")
        is_feast = (match["led"] or "").startswith(tuple(_WORDS.feasts))
        if span.root.dep_ == "compound" and (span.root.head.pos_ == "PROPN" or is_feast):
            # "The Sunday Times", "at Christmas parties"
            continue
        in_range = False
        if waiting is not None:
            # "from 1995 to 1999", "between May and July 2004"
            between = text[waiting.span.end_char : match.start()].strip().lower()
            before = doc[waiting.span.start - 1].lower_ if waiting.span.start else ""
            is_dash = between in ("to", "through", "-", "–", "—")
            in_range = is_dash or (between == "and" and before == "between")
        if not match["led"] or in_range or _is_led(match):
            time = _time(span, match, anchor)
            if waiting is not None and in_range:
                time = _range(waiting, time, anchor)
            elif waiting is not None:
                yield waiting
            waiting = time
    if waiting is not None:
        yield waiting


def _is_led(match: re.Match[str]) -> bool:
    """True if a month or a year alone is a time: "in May", "early 2004", "the 1967 murders"; not "march"."""
    before = match["before"] or match["bound"] or ""
    if before.lower() in ("a", "the"):
        return match["led"][0].isdigit()
    if before.lower() in ("at", "over"):
        return match["led"].startswith(tuple(_WORDS.feasts))
    return bool(before) or not re.match(rf"\d|{_PARTS['month']}", match["led"])


def _time(span: Span, match: re.Match[str], anchor: date | None) -> _Time:
    clock = _clock(match["clock"] or match["late_clock"] or match["only_clock"] or "")
    text = match["day"] or match["led"]
    if text is None:
        return _Time(span, _UNKNOWN, clock)
    start, end = _value(text, anchor, _is_future(span))
    if clock and start == end and len(start) == len("2004-11-05"):
        start = end = f"{start}T{clock}"
    # "after Monday's attack" is after the attack.
    if match["bound"] and not (span.end < len(span.doc) and span.doc[span.end].tag_ == "POS"):
        span = span.doc.char_span(match.start("bound"), span.end_char, alignment_mode="expand")
        start, end = (start, "") if match["bound"].lower() in ("since", "from", "after") else ("", end)
    return _Time(span, (start, end), "")


def _value(text: str, anchor: date | None, future: bool) -> Interval:
    for kind, pattern in _RULES:
        if match := pattern.fullmatch(text):
            parts = defaultdict(str, {name: part or "" for name, part in match.groupdict().items()})
            # A text without a year, a decade or a century of its own is relative.
            if anchor is None and not any(
                parts[name][:1].isdigit() for name in ("year", "decade", "century")
            ):
                return _UNKNOWN
            try:
                return _interval(kind, parts, anchor or date.min, future)
            except (ValueError, OverflowError):
                # There is no 31 June, and no year 0.
                return _UNKNOWN
    return _UNKNOWN


def _clock(text: str) -> str:
    """The 24-hour form of "2.16 p.m.", "noon" and the like; "" if it is none."""
    if text in ("noon", "midnight", ""):
        return {"noon": "12:00"}.get(text, "")
    hour, minute = (int(part) for part in (*re.findall(r"\d+", text), "0")[:2])
    if "m" in text.lower():
        hour = hour % 12 + (12 if "p" in text.lower() else 0)
    return f"{hour:02d}:{minute:02d}" if hour < 24 else ""


def _range(first: _Time, second: _Time, anchor: date | None) -> _Time:
    """The interval of two times; the first one may have its year from the second one."""
    year = re.search(rf"{_PARTS['digits']}$", second.span.text)
    text = re.sub(rf"^{_PARTS['bound']} ", "", first.span.text)
    start = (
        first.value[0]
        if not year or re.search(_PARTS["digits"], text)
        else _value(f"{text} {year[0]}", anchor, False)[0]
    )
    end = second.value[1]
    span = first.span.doc[first.span.start : second.span.end]
    return _Time(span, (start, end) if start and start <= end else _UNKNOWN, "")


def _is_future(span: Span) -> bool:
    """True if the clause of a time is about what is to come."""
    verb = clause_of(span.root)
    for _ in range(5):
        auxiliaries = [child for child in verb.lefts if child.dep_ in ("aux", "auxpass")]
        if any(one.lower_ in _WORDS.modals for one in auxiliaries):
            return True
        if verb.tag_ == "VBN" and verb.lemma_ in _WORDS.plans and verb.i < span.start:
            # "was scheduled for Monday"
            return True
        if verb.lemma_ in _WORDS.delays and span.doc[span.root.i - 1].lower_ in ("until", "till"):
            return True
        tags = {one.tag_ for one in (verb, *auxiliaries)}
        if "VBD" in tags or any(one.lemma_ == "have" for one in auxiliaries):
            return False
        if not tags.isdisjoint(("VBP", "VBZ")):
            return verb.lemma_ not in ("report", "say")
        head = verb.head
        if verb.tag_ == "VB" and any(one.lower_ == "to" for one in auxiliaries):
            predicate = child_of(head, LINKED)
            if (
                head.lemma_.lower() in _WORDS.plans
                or head.tag_.startswith("NN")
                or (predicate is not None and predicate.lower_ in _WORDS.plans)
            ):
                return True
        if head.i == verb.i:
            return False
        verb = clause_of(head)
    return False
