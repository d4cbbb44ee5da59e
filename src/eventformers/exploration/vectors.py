"""The step that encodes the distinct texts of the events."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eventformers.datasets_scripts.events import EVENT_ORDERS, EVENTS_TABLE, VECTORS_TABLE, Event
from eventformers.exploration.neighbours import vector_column
from eventformers.exploration.steps import Step, StepRun, key_of, keys_file

_ROLES = EVENT_ORDERS["subject_predicate_object"]


def encode_events(run: StepRun) -> None:
    """Encode each distinct event text once, at length 1, in the order of its first event.

    A model that reads roles reads those of the first event with the text.
    """
    settings = run.context.settings
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
    texts = list(events)

    def encoded(numbers: Sequence[int]) -> pa.Table:
        block = [texts[number] for number in numbers]
        vectors = encoder.encode(
            [events[text] for text in block],
            batch_size=settings.batch_size,
            normalize=True,
            show_progress=settings.show_progress,
        )
        return pa.table([pa.array(block, pa.string()), vector_column(vectors)], schema=schema)

    run.rows(VECTORS_TABLE, [key_of([text, event]) for text, event in events.items()], encoded)
    run.counts["distinct_event_texts"] = len(events)
    inputs = encoder.inputs()
    keys = [inputs.key(event, place) for place, event in enumerate(events.values())]
    if truncated := len(inputs.token_rows(keys)[1]):
        run.notes.append(f"Event texts truncated to {encoder.max_length} tokens: {truncated:,}.")


VECTORS = Step(
    "vectors",
    encode_events,
    reads=(EVENTS_TABLE,),
    writes=(VECTORS_TABLE, keys_file(VECTORS_TABLE)),
    models=("events",),
)
