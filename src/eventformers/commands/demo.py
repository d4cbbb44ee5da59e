"""The demos on the bundled samples: train, evaluate, save, reload and use a model; explore texts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from datasets import Dataset

from eventformers.datasets_scripts import load_built
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.datasets_scripts.events import Event, event_text
from eventformers.datasets_scripts.relation_templates import relation_templates
from eventformers.errors import UnknownNameError
from eventformers.exploration.explore import Exploration, explore
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.methods import all_methods, load_object
from eventformers.training import FinishedRun, train

Texts = dict[str, str | Event]
"""Texts or events to encode, by their text."""


_logger = logging.getLogger("eventformers")

EXPLORE = "explore"
"""The demo that trains nothing."""


@dataclass(frozen=True)
class Showing:
    """Queries and candidates of a method's demo, which shows the nearest neighbours among the samples."""

    query: str
    nearest: str
    queries: Callable[[], Texts]
    candidates: Callable[[], Texts]
    number: int


@dataclass
class Demonstration:
    """A finished demo.

    Args:
        neighbours: query, text and cosine, query by query, nearest first.
    """

    run: FinishedRun
    showing: Showing
    neighbours: list[tuple[str, str, float]]


def explore_samples(
    output: str | Path, *, encoder: str | None = None, device: str | None = None
) -> Exploration:
    """Explore the bundled texts, in a subfolder of the folder of demos; their events are extracted
    beforehand, so that no parser is needed."""
    return explore(
        SAMPLES / "texts" / "extracted",
        Path(output) / EXPLORE,
        events=encoder,
        device=device,
        show_progress=True,
    )


def run_demo(
    method: str | None, output: str | Path, *, encoder: str | None = None, device: str | None = None
) -> Demonstration:
    """Train a method, None for the first one, on the bundled samples; score, save and reload it.

    Args:
        output: folder of the demos; each method gets a subfolder.
        encoder: Hub id or folder of a pretrained encoder; None takes the packaged all-MiniLM-L6-v2.

    Returns:
        The run and the neighbours found by the reloaded model.
    """
    shown = {name: one.showing for name, one in all_methods().items() if one.showing}
    chosen = next(iter(shown)) if method is None else method
    if chosen not in shown:
        raise UnknownNameError("method", chosen, [*shown, EXPLORE])
    _logger.info("Training on the bundled samples, from %s.", encoder or "the packaged encoder")
    showing: Showing = load_object(shown[chosen])
    finished = train(
        chosen, Path(output) / chosen, recipe="demo", encoder=encoder, overwrite=True, device=device
    )
    model = load_encoder(finished.folder, device=device)
    return Demonstration(finished, showing, find_neighbours(model, showing))


def find_neighbours(model: EventEncoder, showing: Showing) -> list[tuple[str, str, float]]:
    """Find the sample texts nearest to the queries, excluding the queries themselves: query, text and cosine,
    query by query, nearest first."""
    queries, candidates = showing.queries(), showing.candidates()
    texts = list(candidates)
    vectors = model.encode(list(candidates.values()), normalize=True)
    cosines = model.encode(list(queries.values()), normalize=True) @ vectors.T
    neighbours = []
    for query, row in zip(queries, cosines, strict=True):
        others = np.array([text != query for text in texts])
        nearest = np.argsort(-np.where(others, row, -np.inf), kind="stable")[: showing.number]
        neighbours += [(query, texts[place], float(row[place])) for place in nearest]
    return neighbours


def _texts(items: Iterable[str | Event]) -> Texts:
    return {item if isinstance(item, str) else event_text(item): item for item in items}


def _samples(builder: str, config: str) -> Dataset:
    return load_built(None, config, builder=builder)["train"]


NEAREST_EVENT = Showing(
    "event",
    "nearest event",
    lambda: _texts(
        (
            {"subject": "police", "predicate": "arrests", "object": "thief"},
            {"subject": "storm", "predicate": "destroys", "object": "homes"},
            {"subject": "doctor", "predicate": "treats", "object": "patient"},
        )
    ),
    lambda: _texts(event for events in _samples("event_chains", "documents")["events"] for event in events),
    number=1,
)
"""For a method that reads events."""

NEAREST_ALTERNATIVES = Showing(
    "premise",
    "nearest alternatives",
    lambda: _texts(
        relation_templates("conceptnet").premise(relation, head, "forward")
        for head, relation in (("dog", "CapableOf"), ("umbrella", "UsedFor"), ("book", "AtLocation"))
    ),
    lambda: _texts(_samples("commonsense_graphs", "conceptnet_inductive_pairs")["alternative"]),
    number=3,
)
"""For a method that reads premises and alternatives."""

NEAREST_SENTENCES = Showing(
    "sentence",
    "nearest mentions",
    lambda: _texts(
        (
            "The court gave the smuggler six years in prison.",
            "Thousands marched through the capital against the new tax.",
            "The bakery opened its third shop near the station.",
        )
    ),
    lambda: _texts(_samples("event_types", "mentions")["text"]),
    number=3,
)
"""For a method that reads sentences with triggers."""

NEAREST_MENTIONS = Showing(
    "mention",
    "nearest mentions",
    lambda: _texts(
        (
            "The painter fled the city in the last winter of the [ENT_START] First World War [ENT_END].",
            "Seine Division kämpfte in der [ENT_START] Schlacht von Stalingrad [ENT_END].",
            "Elle prit sa retraite après les [ENT_START] Jeux olympiques de Pékin [ENT_END].",
        )
    ),
    lambda: _texts(
        f"{row['context_left']}[ENT_START] {row['mention']} [ENT_END]{row['context_right']}"
        for row in _samples("event_hierarchies", "mentions")
    ),
    number=3,
)
"""For a method that links mentions to events."""
