"""The whole path on the bundled samples: train, evaluate, save, reload, use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eventformers.datasets_scripts import load_built
from eventformers.datasets_scripts.events import Event, event_text
from eventformers.inference.encode import load_encoder
from eventformers.training import FinishedRun, train

_SHOWN_EVENTS: tuple[Event, ...] = (
    {"subject": "police", "predicate": "arrests", "object": "thief"},
    {"subject": "storm", "predicate": "destroys", "object": "homes"},
    {"subject": "doctor", "predicate": "treats", "object": "patient"},
)


@dataclass
class Demonstration:
    """What the demo shows.

    Args:
        run: the finished run.
        neighbours: a few events, each with its nearest event of the samples and their cosine.
    """

    run: FinishedRun
    neighbours: list[tuple[str, str, float]]


def run_demo(
    method: str, output: str | Path, *, encoder: str | None = None, device: str | None = None
) -> Demonstration:
    """Train a method on the bundled samples, score it, save it, and load it again.

    Args:
        method: the `model_type`.
        output: folder of the demos; each method gets a folder of its own in it.
        encoder: Hub id or folder of a pretrained encoder; None takes the packaged all-MiniLM-L6-v2.
        device: `cpu` or `cuda`; None takes an accelerator where there is one.

    Returns:
        The run and what the reloaded model finds.

    Raises:
        EventformersError: an argument is not accepted; says what is.
    """
    finished = train(
        method, Path(output) / method, recipe="demo", encoder=encoder, overwrite=True, device=device
    )
    model = load_encoder(finished.folder, device=device)
    documents = load_built(None, "documents", builder="event_chains")["train"]
    events = {event_text(event): event for document in documents["events"] for event in document}
    candidates = model.encode(list(events.values()), normalize=True)
    anchors = model.encode(list(_SHOWN_EVENTS), normalize=True)
    cosines = anchors @ candidates.T
    texts = list(events)
    neighbours = []
    for event, row in zip(_SHOWN_EVENTS, cosines, strict=True):
        text = event_text(event)
        others = np.array([candidate != text for candidate in texts])
        best = int(np.argmax(np.where(others, row, -np.inf)))
        neighbours.append((text, texts[best], float(row[best])))
    return Demonstration(finished, neighbours)
