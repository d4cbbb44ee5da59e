"""The step that encodes the distinct texts of the events."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from eventformers.datasets_scripts.events import Event
from eventformers.exploration.events import EVENTS_FILE
from eventformers.exploration.steps import Step, StepRun
from eventformers.inference.encode import EventEncoder

VECTORS_FILE = "vectors.parquet"
_BLOCK_TEXTS = 65_536
_ROLES = ("subject", "predicate", "object")


def encode_events(run: StepRun) -> None:
    """Encode each distinct event text once, at length 1, in the order of its first event.

    A model that reads roles reads those of the first event with the text.
    """
    columns = run.table(EVENTS_FILE, ["text", "negated", *_ROLES]).to_pydict()
    events: dict[str, Event] = {}
    for text, negated, subject, predicate, target in zip(*columns.values(), strict=True):
        if text not in events:
            predicate = f"not {predicate}" if negated else predicate
            events[text] = {"subject": subject, "predicate": predicate, "object": target}
    encoder = run.context.encoder("events")
    schema = pa.schema([("text", pa.string()), ("embedding", pa.list_(pa.float32(), encoder.dimension))])
    run.write_parts(VECTORS_FILE, schema, _parts(run, encoder, events, schema))
    run.counts["distinct_event_texts"] = len(events)


def _parts(
    run: StepRun, encoder: EventEncoder, events: dict[str, Event], schema: pa.Schema
) -> Iterator[pa.Table]:
    settings = run.context.settings
    texts, truncated = list(events), 0
    for start in range(0, len(texts), _BLOCK_TEXTS):
        block = texts[start : start + _BLOCK_TEXTS]
        vectors = encoder.encode(
            [events[text] for text in block],
            batch_size=settings.batch_size,
            normalize=True,
            show_progress=settings.show_progress,
        )
        truncated += encoder.truncated
        embedding = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), type=schema.types[1])
        yield pa.table([pa.array(block, pa.string()), embedding], schema=schema)
    if truncated:
        run.notes.append(f"{truncated:,} event texts are truncated to {encoder.max_length} tokens")


VECTORS = Step("vectors", encode_events, reads=(EVENTS_FILE,), writes=(VECTORS_FILE,), models=("events",))
