"""The step that encodes the distinct texts of the events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from eventformers.datasets_scripts.event_tables import EVENTS_TABLE, VECTORS_TABLE
from eventformers.datasets_scripts.events import EVENT_ORDERS, Event
from eventformers.exploration.neighbours import vector_column
from eventformers.exploration.steps import Step, StepRun
from eventformers.inference.encode import EventEncoder

_BLOCK_TEXTS = 16_384
_TRUNCATED = b"truncated"
_ROLES = EVENT_ORDERS["subject_predicate_object"]


def encode_events(run: StepRun) -> None:
    """Encode each distinct event text once, at length 1, in the order of its first event.

    A model that reads roles reads those of the first event with the text.
    """
    columns = run.table(EVENTS_TABLE, ["text", "negated", *_ROLES]).to_pydict()
    events: dict[str, Event] = {}
    for text, negated, subject, predicate, target in zip(*columns.values(), strict=True):
        if text not in events:
            predicate = f"not {predicate}" if negated else predicate
            events[text] = {"subject": subject, "predicate": predicate, "object": target}
    encoder = run.context.encoder("events")
    schema = pa.schema(
        [("text", pa.string()), ("embedding", pa.list_(pa.float32(), encoder.dimension))],
        metadata={"model": encoder.name, "model_revision": encoder.revision or ""},
    )
    run.write_parts(VECTORS_TABLE, schema, _parts(run, encoder, events, schema))
    run.counts["distinct_event_texts"] = len(events)


def _parts(
    run: StepRun, encoder: EventEncoder, events: dict[str, Event], schema: pa.Schema
) -> Iterator[pa.Table]:
    settings = run.context.settings
    texts, truncated = list(events), 0

    def encoded(block: Sequence[str]) -> pa.Table:
        vectors = encoder.encode(
            [events[text] for text in block],
            batch_size=settings.batch_size,
            normalize=True,
            show_progress=settings.show_progress,
        )
        part = pa.table([pa.array(block, pa.string()), vector_column(vectors)], schema=schema)
        return part.replace_schema_metadata({_TRUNCATED: str(encoder.truncated)})

    for start in range(0, len(texts), _BLOCK_TEXTS):
        part = run.keep(f"texts-{start}", partial(encoded, texts[start : start + _BLOCK_TEXTS]))
        truncated += int(part.schema.metadata[_TRUNCATED])
        yield part
    if truncated:
        run.notes.append(f"Event texts truncated to {encoder.max_length} tokens: {truncated:,}.")


VECTORS = Step("vectors", encode_events, reads=(EVENTS_TABLE,), writes=(VECTORS_TABLE,), models=("events",))
