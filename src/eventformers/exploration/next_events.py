"""The step that finds the events of the corpus that are related to each chain, if it is turned on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eventformers.datasets_scripts.chain_readers import REPORTING_PREDICATES
from eventformers.datasets_scripts.events import CHAINS_TABLE, EVENTS_TABLE, VECTORS_TABLE, Event, event_text
from eventformers.exploration.neighbours import nearest, text_vectors
from eventformers.exploration.steps import Found, Step, StepRun
from eventformers.inference.chains.next_event import MAX_EVENTS
from eventformers.inference.chains.scorers import CosineScorer, EmbedEvents, EncoderChainScorer, chain_scorer
from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.induction.type_naming import has_only_stop_words

NEXT_EVENTS_TABLE = "next_events.parquet"

TOP = 5
"""Number of next events of a chain."""

JUDGED = (
    "Few related events come next: of 60 judged chains of news, the first one could in 11; an event drawn at "
    "random could in 1."
)
"""How good they are, for the page and the report. The step is off by default."""

_SEARCHED = 100
"""Number of nearest candidates from which those with a verb of the chain are left out."""
_COLUMNS = ("event_id", "text", "subject", "predicate", "object", "lemma", "negated")
SCHEMA = pa.schema(
    [
        ("chain_id", pa.string()),
        ("rank", pa.int32()),
        ("text", pa.string()),
        ("score", pa.float32()),
        ("event_id", pa.string()),
    ]
)

Row = Mapping[str, Any]
"""A row of the table of events."""


def find_next_events(events: pa.Table, chains: pa.Table, scorer: CosineScorer) -> Found:
    """Rank the distinct events of a corpus by how related they are to each chain, in rows of `SCHEMA`.

    Candidates have a verb and an object that are not stop words, and their verb does not report speech:
    events such as "he said" are near every chain. A candidate has another verb than all events of the chain,
    and than the candidates before it, so that the list does not repeat what happened in other words.

    Args:
        events: the events, with the columns of `events.parquet`.
        chains: their chains; the latest `MAX_EVENTS` events of each are read.
        scorer: the scorer of candidates.

    Raises:
        EventformersError: an error of the scorer.
    """
    rows = events.select(_COLUMNS).to_pylist()
    candidates = list(_candidates(rows))
    ids, members = chains["chain_id"].to_pylist(), chains["event_ids"].to_pylist()
    notes = [
        f"Related events are chosen among {len(candidates):,} distinct events: their verb and object are not "
        f"stop words, and their verb reports no speech. The latest {MAX_EVENTS} events of a chain count.",
        JUDGED,
    ]
    if not candidates or not ids:
        return Found(SCHEMA.empty_table(), notes)
    row_of = {row["event_id"]: row for row in rows}
    of_chains = [[row_of[event_id] for event_id in event_ids] for event_ids in members]
    latest = [[_event(row) for row in of_chain[-MAX_EVENTS:]] for of_chain in of_chains]
    directions, vectors = scorer.directions(latest, [_event(row) for row in candidates])
    texts = [row["text"] for row in candidates]
    found = nearest(texts, _single(vectors), _single(directions), _SEARCHED, notes)
    table = [
        {"chain_id": chain_id, "rank": rank, "text": row["text"], "score": score, "event_id": row["event_id"]}
        for chain_id, of_chain, places, scores in zip(
            ids, of_chains, found.events.tolist(), found.scores.tolist(), strict=True
        )
        for rank, (row, score) in enumerate(_new(of_chain, candidates, places, scores), start=1)
    ]
    return Found(pa.Table.from_pylist(table, schema=SCHEMA), notes)


def _candidates(rows: Sequence[Row]) -> Iterator[Row]:
    """Return the first event of each distinct text that tells something."""
    seen: set[str] = set()
    for row in rows:
        if row["text"] in seen:
            continue
        seen.add(row["text"])
        verb, target = row["lemma"], row["object"]
        if not (has_only_stop_words(verb) or verb in REPORTING_PREDICATES or has_only_stop_words(target)):
            yield row


def _new(
    chain: Sequence[Row], candidates: Sequence[Row], places: Sequence[int], scores: Sequence[float]
) -> Iterator[tuple[Row, float]]:
    """Yield up to `TOP` candidates with verbs that are new to the chain, each verb once."""
    known = {row["lemma"] for row in chain}
    told = 0
    for place, score in zip(places, scores, strict=True):
        row = candidates[place]
        if place >= 0 and row["lemma"] not in known and told < TOP:
            known.add(row["lemma"])
            told += 1
            yield row, score


def _event(row: Row) -> Event:
    predicate = f"not {row['predicate']}" if row["negated"] else row["predicate"]
    return {"subject": row["subject"], "predicate": predicate, "object": row["object"]}


def _single(vectors: np.ndarray) -> Vectors:
    return np.ascontiguousarray(vectors, dtype=np.float32)


def _run(run: StepRun) -> None:
    models = run.context.settings.models
    encoder = run.context.encoder("chains")
    events = run.table(EVENTS_TABLE, _COLUMNS)
    scorer: CosineScorer
    if models.get("chains") is models.get("events") and not encoder.reads_chains:
        texts, vectors = text_vectors(run.table(VECTORS_TABLE))
        scorer = EncoderChainScorer(_stored(events, texts, vectors), encoder.name)
    else:
        scorer = chain_scorer(encoder, batch_size=run.context.settings.batch_size)
    found = find_next_events(events, run.table(CHAINS_TABLE), scorer)
    run.write(NEXT_EVENTS_TABLE, found.table)
    run.counts["chains_with_next_events"] = len(found.table["chain_id"].unique())
    run.notes += found.notes


def _stored(events: pa.Table, texts: Sequence[str], vectors: Vectors) -> EmbedEvents:
    """Return a function that reads the vectors of events from the table of vectors."""
    row_of_text = {text: row for row, text in enumerate(texts)}
    # Tables of other programs may write the text of an event in another way than from its roles.
    row_of = {event_text(_event(row)): row_of_text[row["text"]] for row in events.to_pylist()}
    return lambda asked: vectors[[row_of[event_text(event)] for event in asked]]


NEXT_EVENTS = Step(
    "next_events",
    _run,
    reads=(EVENTS_TABLE, VECTORS_TABLE, CHAINS_TABLE),
    writes=(NEXT_EVENTS_TABLE,),
    models=("chains",),
    settings=lambda context: {} if context.settings.next_events else None,
)
