"""Chains with a planted pattern: what someone does next depends on which story they are in."""

from __future__ import annotations

import random

from eventformers.datasets_scripts.events import Event

STORIES = (
    (("police", "arrest", "*"), ("*", "face", "trial"), ("judge", "sentence", "*"), ("*", "enter", "prison")),
    (("*", "buy", "flour"), ("*", "heat", "oven"), ("*", "bake", "bread"), ("guest", "praise", "*")),
    (("*", "board", "ship"), ("storm", "hit", "*"), ("*", "reach", "island"), ("crew", "rescue", "*")),
)
PEOPLE = ("anna", "bruno", "clara", "david", "emma", "felix", "greta", "hugo")


def planted_chains(count: int = 90) -> tuple[list[list[Event]], list[str]]:
    """Chains of one story each, in turns, and their protagonists."""
    chains, protagonists = [], []
    for number in range(count):
        person = PEOPLE[(number // len(STORIES)) % len(PEOPLE)]
        chains.append([_event(parts, person) for parts in STORIES[number % len(STORIES)]])
        protagonists.append(person)
    return chains, protagonists


def planted_questions() -> tuple[list[list[Event]], list[list[Event]], list[int]]:
    """Two events of a story, the last events of all stories as choices, and the right one: all of one
    person, so that the names tell nothing."""
    draw = random.Random(0)  # noqa: S311
    contexts, choices, labels = [], [], []
    for person in PEOPLE:
        for label, story in enumerate(STORIES):
            contexts.append([_event(parts, person) for parts in story[:2]])
            order = draw.sample(range(len(STORIES)), len(STORIES))
            choices.append([_event(STORIES[other][3], person) for other in order])
            labels.append(order.index(label))
    return contexts, choices, labels


def _event(parts: tuple[str, str, str], person: str) -> Event:
    subject, predicate, object_ = (person if part == "*" else part for part in parts)
    return {"subject": subject, "predicate": predicate, "object": object_}
