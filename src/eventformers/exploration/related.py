"""Steps of related events: those of the corpus for each chain, and completions from a commonsense graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from eventformers.datasets_scripts.chain_readers import REPORTING_PREDICATES
from eventformers.datasets_scripts.commonsense_graphs import graph_of
from eventformers.datasets_scripts.dataset_card import built_configs
from eventformers.datasets_scripts.events import (
    CHAINS_TABLE,
    EVENTS_TABLE,
    VECTORS_TABLE,
    Event,
    event_text,
    schema_of,
)
from eventformers.datasets_scripts.relation_templates import relation_templates
from eventformers.exploration.events import nearest, text_vectors
from eventformers.exploration.steps import Step, StepRun
from eventformers.inference.chains.next_event import MAX_EVENTS
from eventformers.inference.chains.scorers import CosineScorer, EncoderChainScorer, chain_scorer
from eventformers.inference.commonsense.alternative_index import (
    AlternativeRecord,
    open_graph,
    trained_templates,
)
from eventformers.inference.commonsense.complete import (
    DEFAULT_GRAPH,
    ManyCompletions,
    complete_many,
    default_rerank,
)
from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.induction.type_naming import has_only_stop_words, words_of
from eventformers.inference.search.index_folder import holds_index, read_record

NEXT_EVENTS_TABLE = "next_events.parquet"

TOP_NEXT = 5
"""Number of next events of a chain."""

NEXT_JUDGED = (
    "Few related events come next: of 60 judged chains of news, the first one could in 11; an event drawn at "
    "random could in 1."
)
"""How good they are, for the page and the report. The step is off by default."""

_SEARCHED = 100
"""Number of nearest candidates from which those with a verb of the chain are left out."""
_CANDIDATE_COLUMNS = ("event_id", "text", "subject", "predicate", "object", "lemma", "negated")
NEXT_SCHEMA = schema_of("next_events")

Row = Mapping[str, Any]
"""A row of the table of events."""


def find_next_events(run: StepRun) -> None:
    """Rank the distinct events of a corpus by how related they are to each chain, in rows of `NEXT_SCHEMA`.

    Candidates have a verb and an object that are not stop words, and their verb does not report speech:
    events such as "he said" are near every chain. A candidate has another verb than all events of the chain,
    and than the candidates before it, so that the list does not repeat what happened in other words. The
    latest `MAX_EVENTS` events of a chain are read.

    Raises:
        EventformersError: an error of the scorer.
    """
    chains = run.table(CHAINS_TABLE)
    rows = run.table(EVENTS_TABLE, _CANDIDATE_COLUMNS).to_pylist()
    candidates = list(_candidates(rows))
    ids, members = chains["chain_id"].to_pylist(), chains["event_ids"].to_pylist()
    run.notes += [
        f"Related events are chosen among {len(candidates):,} distinct events: their verb and object are not "
        f"stop words, and their verb reports no speech. The latest {MAX_EVENTS} events of a chain count.",
        NEXT_JUDGED,
    ]
    table = []
    if candidates and ids:
        row_of = {row["event_id"]: row for row in rows}
        of_chains = [[row_of[event_id] for event_id in event_ids] for event_ids in members]
        latest = [[_event(row) for row in of_chain[-MAX_EVENTS:]] for of_chain in of_chains]
        directions, vectors = _scorer(run, rows).directions(latest, [_event(row) for row in candidates])
        texts = [row["text"] for row in candidates]
        found = nearest(texts, _single(vectors), _single(directions), _SEARCHED, run.notes)
        table = [
            {
                **{"chain_id": chain_id, "rank": rank, "text": row["text"], "score": score},
                "event_id": row["event_id"],
            }
            for chain_id, of_chain, places, scores in zip(
                ids, of_chains, found.events.tolist(), found.scores.tolist(), strict=True
            )
            for rank, (row, score) in enumerate(_new_events(of_chain, candidates, places, scores), start=1)
        ]
    run.write(NEXT_EVENTS_TABLE, pa.Table.from_pylist(table, schema=NEXT_SCHEMA))
    run.counts["chains_with_next_events"] = len({row["chain_id"] for row in table})


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


def _new_events(
    chain: Sequence[Row], candidates: Sequence[Row], places: Sequence[int], scores: Sequence[float]
) -> Iterator[tuple[Row, float]]:
    """Yield up to `TOP_NEXT` candidates with verbs that are new to the chain, each verb once."""
    known = {row["lemma"] for row in chain}
    told = 0
    for place, score in zip(places, scores, strict=True):
        row = candidates[place]
        if place >= 0 and row["lemma"] not in known and told < TOP_NEXT:
            known.add(row["lemma"])
            told += 1
            yield row, score


def _event(row: Row) -> Event:
    predicate = f"not {row['predicate']}" if row["negated"] else row["predicate"]
    return {"subject": row["subject"], "predicate": predicate, "object": row["object"]}


def _single(vectors: np.ndarray) -> Vectors:
    return np.ascontiguousarray(vectors, dtype=np.float32)


def _scorer(run: StepRun, rows: Sequence[Row]) -> CosineScorer:
    """Return the scorer of candidates, which reads known vectors from the table of vectors."""
    models, encoder = run.context.settings.models, run.context.encoder("chains")
    if models.get("chains") is not models.get("events") or encoder.reads_chains:
        return chain_scorer(encoder, batch_size=run.context.settings.batch_size)
    texts, vectors = text_vectors(run.table(VECTORS_TABLE))
    row_of_text = {text: row for row, text in enumerate(texts)}
    # Tables of other programs may write the text of an event in another way than from its roles.
    row_of = {event_text(_event(row)): row_of_text[row["text"]] for row in rows}
    return EncoderChainScorer(
        lambda asked: vectors[[row_of[event_text(event)] for event in asked]], encoder.name
    )


NEXT_EVENTS = Step(
    "next_events",
    find_next_events,
    reads=(EVENTS_TABLE, VECTORS_TABLE, CHAINS_TABLE),
    writes=(NEXT_EVENTS_TABLE,),
    models=("chains",),
    settings=lambda context: {} if context.settings.next_events else None,
)


COMPLETIONS_TABLE = "completions.parquet"

TOP_COMPLETIONS = 3
"""Number of completions of an event and a relation."""

_ASKED = 30
"""Number of completions from which those that repeat the event are left out."""

MOST_QUERIES = 10_000
"""Maximum number of pairs of an event and a relation, which take about a minute on two cores."""

COMPLETIONS_JUDGED = "Few completions fit: of 60 judged ones of news, 9 did; of 60 drawn at random, 2 did."
"""How good they are, for the page and the report. They are made only if a graph is given."""

EVENT_RELATIONS = frozenset(
    {
        *("Causes", "CausesDesire", "HasFirstSubevent", "HasLastSubevent", "HasPrerequisite"),
        *("HasSubevent", "MotivatedByGoal"),
    }
)
"""Relations of ConceptNet between events; those of a graph with none of these are all used."""

_PAIRS = "_pairs"
_COMPLETED_COLUMNS = ("event_id", "text", "lemma")
COMPLETIONS_SCHEMA = schema_of("completions")


def find_completions(run: StepRun) -> None:
    """Complete distinct event texts, those in chains first, with the relations of a graph.

    The rows are those of `COMPLETIONS_SCHEMA`, best first for each text and relation. A completion with a
    word of its event is left out: it repeats what is known ("flood" for "river flooded town").

    Raises:
        EventformersError: an error of `complete_many`.
    """
    settings, encoder = run.context.settings, run.context.encoder("commonsense")
    # Without a graph, the step has no settings and is not run.
    given = cast("str | Path", settings.graph)
    folder = Path(given).expanduser()
    is_index = holds_index(folder)
    index = open_graph(
        encoder,
        None if is_index else given,
        graph_config_of(given, settings.graph_config),
        folder if is_index else None,
        None,
        None,
        batch_size=settings.batch_size,
        overwrite=False,
        show_progress=settings.show_progress,
    )
    events = run.table(EVENTS_TABLE, _COMPLETED_COLUMNS)
    chains = run.table(CHAINS_TABLE) if run.has(CHAINS_TABLE) else None
    graph = index.record.graph
    templates = relation_templates(graph_of(graph), None, trained_templates(encoder))
    relations = [one for one in templates.relations if one in EVENT_RELATIONS] or list(templates.relations)
    ids, texts = events["event_id"].to_pylist(), events["text"].to_pylist()
    text_of = dict(zip(ids, texts, strict=True))
    chained = [] if chains is None else chains["event_ids"].to_pylist()
    # Events of chains come first.
    texts = list(dict.fromkeys([*(text_of[one] for chain in chained for one in chain), *texts]))
    lemma_of = dict(zip(events["text"].to_pylist(), events["lemma"].to_pylist(), strict=True))
    chosen = texts[: MOST_QUERIES // len(relations)]
    completed = complete_many(
        encoder,
        chosen,
        relations,
        index,
        templates,
        top=_ASKED,
        votes=default_rerank(graph),
        batch_size=settings.batch_size,
        show_progress=settings.show_progress,
    )
    table = [
        {"text": one.head, "relation": one.relation, "rank": rank, "tail": tail, "score": score}
        for one in completed
        for rank, (tail, score) in enumerate(_new_alternatives(one, lemma_of[one.head]), start=1)
    ]
    run.write(COMPLETIONS_TABLE, pa.Table.from_pylist(table, schema=COMPLETIONS_SCHEMA))
    run.counts["completed_events"] = len({row["text"] for row in table})
    run.notes.append(COMPLETIONS_JUDGED)
    if len(chosen) < len(texts):
        run.notes.append(
            f"{len(chosen):,} of {len(texts):,} distinct events are completed with {len(relations)} "
            "relations, those in chains first."
        )


def _new_alternatives(completed: ManyCompletions, lemma: str) -> list[tuple[str, float]]:
    """Return the best alternatives that share no word with the event."""
    known = _stems(f"{completed.head} {lemma}")
    return [
        (tail, score)
        for tail, score in completed.alternatives
        if not any(_are_alike(one, other) for one in _stems(tail) for other in known)
    ][:TOP_COMPLETIONS]


def _stems(text: str) -> set[str]:
    """Return the words of a text that are not stop words, without a final e or y."""
    return {word.rstrip("ey") for word in words_of(text.lower()) if not has_only_stop_words(word)}


def _are_alike(one: str, other: str) -> bool:
    """True if two words may be forms of one word or derived from each other: they start alike.

    One is the start of the other, or a long start differs by its last letter: "robbery", "robbed".
    """
    length = min(len(one), len(other))
    return one[:length] == other[:length] or (length > 5 and one[: length - 1] == other[: length - 1])


def graph_config_of(graph: str | Path, config: str | None) -> str:
    """Return the config of a graph: the given one, otherwise that of an index or of a built dataset."""
    folder = Path(graph).expanduser()
    if config is not None or not folder.is_dir():
        return config or DEFAULT_GRAPH
    if holds_index(folder):
        return read_record(folder, AlternativeRecord).graph
    built = sorted(name.removesuffix(_PAIRS) for name in built_configs(folder) if name.endswith(_PAIRS))
    return built[0] if built else DEFAULT_GRAPH


COMPLETIONS = Step(
    "completions",
    find_completions,
    reads=(EVENTS_TABLE,),
    may_read=(CHAINS_TABLE,),
    writes=(COMPLETIONS_TABLE,),
    models=("commonsense",),
    settings=lambda context: (
        {"graph": identity, "config": context.settings.graph_config}
        if (identity := context.data_identity("graph"))
        else None
    ),
)
