"""Chains of events about a protagonist, found without co-reference resolution, and questions about them.

The questions follow the code of Lee and Goldwasser (ACL 2019), which MulCL's evaluation uses: narrative cloze
with one and with several steps.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np
import numpy.typing as npt

from eventformers.datasets_scripts.chain_readers import PRONOUNS, WORDS, ClozeItem, RawDocument
from eventformers.datasets_scripts.document_splits import SeededDraws
from eventformers.datasets_scripts.events import Event, event_text
from eventformers.datasets_scripts.malformed import SkippedRows

NO_PROTAGONISTS: frozenset[str] = PRONOUNS | {"all", "some", "thou", "thee", "ye", "'s", "'em"}
"""Arguments that do not identify a person, so equal ones need not be the same person: pronouns, including
older English ones, and the two quantifiers and clitics that parsers often give as a head word."""


NAMES_NOBODY = frozenset(WORDS["nobody"].split())
"""Heads that name neither somebody nor a group: amounts, times, parts of the body, places and objects, and
abstract nouns, as far as they were frequent protagonists of news and stories."""


@dataclass(frozen=True)
class Chain:
    """The events of one protagonist in a document.

    Args:
        chain_id: id of the document and the protagonist, or the id in the raw file.
        license: its terms of use.
        protagonist: the protagonist; in lower case if it was found as an equal argument.
        events: the distinct events in the order of the text; a repeated event is at its first position.
    """

    chain_id: str
    document_id: str
    source: str
    license: str
    protagonist: str
    events: list[Event]


def event_key(event: Event) -> str:
    """The text of an event in lower case; events with the same key count as the same."""
    return event_text(event).lower()


def distinct_events(events: Iterable[Event]) -> list[Event]:
    """Remove events with the same key as an earlier one."""
    distinct: dict[str, Event] = {}
    for event in events:
        distinct.setdefault(event_key(event), event)
    return list(distinct.values())


def document_chains(
    document: RawDocument,
    events: list[Event],
    min_length: int,
    skipped: SkippedRows,
    *,
    max_length: int | None = None,
    excluded: Collection[str] = (),
) -> Iterator[Chain]:
    """The chains of a document that have at least `min_length` distinct events.

    A chain of the raw file is used as it is. The events of a whole document are grouped by equal subjects or
    objects, ignoring case, that are not in `NO_PROTAGONISTS`. An event with two such arguments is in two
    chains, and the chains are sorted by the first mention of their protagonists.

    Args:
        events: its kept events, in the order of the text.
        min_length: minimum number of distinct events.
        skipped: counts of skipped items, by reason; added to.
        max_length: number of first distinct events that a chain keeps; None keeps all.
        excluded: further arguments, in lower case, that are no protagonists of a whole document.
    """
    if document.chain_id:
        groups = {document.protagonist: events}
    else:
        groups = {}
        for event in events:
            for argument in dict.fromkeys((event["subject"].lower(), event["object"].lower())):
                if argument and argument not in NO_PROTAGONISTS and argument not in excluded:
                    groups.setdefault(argument, []).append(event)
    for protagonist, group in groups.items():
        distinct = distinct_events(group) if len(group) >= min_length else []
        if len(distinct) < min_length:
            skipped["chain_below_minimum_length"] += 1
            continue
        if max_length is not None and len(distinct) > max_length:
            skipped["event_beyond_maximum_chain_length"] += len(distinct) - max_length
            distinct = distinct[:max_length]
        yield Chain(
            chain_id=document.chain_id or f"{document.document_id}/{protagonist}",
            document_id=document.document_id,
            source=document.source,
            license=document.license,
            protagonist=protagonist,
            events=distinct,
        )


CHOICES = 5
"""Number of choices of a question, including the true event."""

QUESTION_EVENTS = {"mcnc": 9, "multistep": 5}
"""Number of events in a question: eight of context and the one to predict, or the start and one for each of
four steps."""

_TRIES = 200
"""Maximum number of draws for one distractor; after that the question is dropped."""

_SLOTS: tuple[Literal["subject", "object"], ...] = ("subject", "object", "object")
"""The role of each argument slot. The events of the protocol have three arguments: subject, direct object and
the object of a preposition. Ours have the latter two in one role, and the preposition in the predicate."""


class Choices(TypedDict):
    """Choices for one position, and the index of the true event."""

    choices: list[Event]
    label: int


class EventPool:
    """Events to draw distractors from, each as often as it occurs.

    It needs 20 bytes for each distinct event, and stores each distinct text of a role once. Draws depend only
    on the events, not on their order.

    Args:
        texts: the distinct texts of all roles.
        events: the index in `texts` of the subject, the predicate and the object of each event, `(E, 3)`.
        counts: number of occurrences of each event, `(E,)`; None counts each row once.
    """

    def __init__(
        self,
        texts: Sequence[str],
        events: npt.NDArray[np.integer],
        counts: npt.NDArray[np.int64] | None = None,
    ) -> None:
        order = sorted(range(len(texts)), key=texts.__getitem__)
        self._texts = [texts[place] for place in order]
        ranks = np.empty(len(texts), dtype=np.int32)
        ranks[order] = np.arange(len(texts), dtype=np.int32)
        rows = ranks[events]
        by_text = np.lexsort(rows.T)
        rows = rows[by_text]
        ends = np.arange(1, len(rows) + 1) if counts is None else np.cumsum(counts[by_text])
        is_last = np.ones(len(rows), dtype=bool)
        is_last[:-1] = (rows[1:] != rows[:-1]).any(axis=1)
        self._rows, self._ends = rows[is_last], ends[is_last]

    @classmethod
    def of_events(cls, events: Iterable[Event]) -> EventPool:
        """Collect the occurrences of events."""
        return cls.by_source(("", event) for event in events)[""]

    @classmethod
    def by_source(cls, events: Iterable[tuple[str, Event]]) -> defaultdict[str, EventPool]:
        """Collect the occurrences of the events of each source; an unknown source has an empty pool."""
        collected: defaultdict[str, tuple[dict[str, int], array[int]]] = defaultdict(lambda: ({}, array("i")))
        for source, event in events:
            names, ids = collected[source]
            for text in (event["subject"], event["predicate"], event["object"]):
                ids.append(names.setdefault(text, len(names)))
        pools = defaultdict(lambda: cls([], np.empty((0, 3), dtype=np.int32)))
        for source, (names, ids) in collected.items():
            pools[source] = cls(list(names), np.asarray(ids, dtype=np.int32).reshape(-1, 3))
        return pools

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def draw(self, draws: SeededDraws) -> Event:
        """Draw one occurrence uniformly, as a new event object."""
        place = np.searchsorted(self._ends, draws.below(len(self)), side="right")
        subject, predicate, object_ = self._rows[place]
        return {
            "subject": self._texts[subject],
            "predicate": self._texts[predicate],
            "object": self._texts[object_],
        }


def argument_texts(events: Sequence[Event]) -> list[str]:
    """The non-empty arguments of the events, including pronouns, each as often as it occurs."""
    return [text for event in events for text in (event["subject"], event["object"]) if text]


def draw_choices(
    true_event: Event,
    arguments: Sequence[str],
    chain_keys: Collection[str],
    pool: EventPool,
    draws: SeededDraws,
    *,
    in_filled_slot: bool = False,
) -> Choices | None:
    """Place the true event at a uniformly drawn position among distractors, with the other arguments of
    `draw_distractors`; None if there are not enough of these."""
    label = draws.below(CHOICES)
    choices = draw_distractors(CHOICES - 1, arguments, chain_keys, pool, draws, in_filled_slot=in_filled_slot)
    if choices is None:
        return None
    choices.insert(label, true_event)
    return {"choices": choices, "label": label}


def draw_distractors(
    number: int,
    arguments: Sequence[str],
    chain_keys: Collection[str],
    pool: EventPool,
    draws: SeededDraws,
    *,
    in_filled_slot: bool = False,
) -> list[Event] | None:
    """Draw wrong choices.

    A distractor is a random event of the pool in which a random argument of the chain replaces one of the
    argument slots, empty or not. It is drawn again if its text equals that of an event of the chain or of an
    earlier distractor.

    Args:
        number: number of distractors.
        arguments: the arguments of the question's events.
        chain_keys: `event_key` of all events of the chain.
        pool: the events to draw from.
        draws: the draws of this question.
        in_filled_slot: replace only an argument that the event has; the subject if it has none.

    Returns:
        The distractors; None if there is no argument, or if 200 draws gave no new distractor.
    """
    if not arguments:
        return None
    taken: set[str] = set()
    distractors: list[Event] = []
    while len(distractors) < number:
        for _ in range(_TRIES):
            distractor = pool.draw(draws)
            slots = (
                [slot for slot in _SLOTS[:2] if distractor[slot]] or _SLOTS[:1] if in_filled_slot else _SLOTS
            )
            distractor[slots[draws.below(len(slots))]] = arguments[draws.below(len(arguments))]
            key = event_key(distractor)
            if key not in taken and key not in chain_keys:
                break
        else:
            return None
        taken.add(key)
        distractors.append(distractor)
    return distractors


def question_columns(
    kind: str,
    events: Sequence[Event],
    chain_keys: Collection[str],
    pool: EventPool,
    draws: SeededDraws,
    protagonist: str | None = None,
) -> dict[str, object] | None:
    """Compute the columns of a question: `context, choices, label` of `mcnc`, `start, steps, labels` of
    `multistep`.

    Args:
        kind: a key of `QUESTION_EVENTS`.
        chain_keys, pool, draws: see `draw_distractors`.
        protagonist: replaces one argument of every distractor (Granroth-Wilding and Clark,
            AAAI 2016); None fills in random arguments of the chain instead (Lee and Goldwasser, ACL 2019).

    Returns:
        The columns; None if the distractors of one position cannot be drawn.
    """
    arguments = argument_texts(events)
    is_filled = protagonist is not None
    if protagonist is not None:
        # Chains compare names without case, so the name is written as in the events.
        arguments = [next((one for one in arguments if one.lower() == protagonist.lower()), protagonist)]
    context, asked = (events[:-1], events[-1:]) if kind == "mcnc" else (events[:1], events[1:])
    places: list[Choices] = []
    for true_event in asked:
        choices = draw_choices(true_event, arguments, chain_keys, pool, draws, in_filled_slot=is_filled)
        if choices is None:
            return None
        places.append(choices)
    if kind == "mcnc":
        return {"context": list(context), **places[0]}
    return {
        "start": context[0],
        "steps": [choices["choices"] for choices in places],
        "labels": [choices["label"] for choices in places],
    }


def place_held_out(item: ClozeItem, draws: SeededDraws) -> Choices:
    """Place the held-out event of an item at a uniformly drawn position among all of its wrong candidates."""
    label = draws.below(len(item.wrong) + 1)
    choices = list(item.wrong)
    choices.insert(label, item.held_out[0])
    return {"choices": choices, "label": label}
