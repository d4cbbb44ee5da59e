"""The step that completes events with a commonsense graph: their causes, effects and more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import pyarrow as pa

from eventformers.datasets_scripts.commonsense_graphs import graph_of
from eventformers.datasets_scripts.dataset_card import built_configs
from eventformers.datasets_scripts.event_tables import CHAINS_TABLE, EVENTS_TABLE
from eventformers.datasets_scripts.relation_templates import relation_templates
from eventformers.exploration.settings import Context
from eventformers.exploration.steps import Found, Step, StepRun
from eventformers.inference.commonsense.alternative_index import AlternativeIndex, AlternativeRecord
from eventformers.inference.commonsense.complete import DEFAULT_GRAPH, default_rerank, open_graph
from eventformers.inference.commonsense.complete_many import complete_many
from eventformers.inference.commonsense.graph_words import trained_templates
from eventformers.inference.commonsense.neighbour_votes import vote_settings
from eventformers.inference.encode import EventEncoder
from eventformers.inference.search.index_folder import holds_index, read_record

COMPLETIONS_TABLE = "completions.parquet"

TOP = 3
"""Number of completions of an event and a relation."""

MOST_QUERIES = 10_000
"""Maximum number of pairs of an event and a relation, which take about a minute on two cores."""

EVENT_RELATIONS = frozenset(
    {
        *("Causes", "CausesDesire", "HasFirstSubevent", "HasLastSubevent", "HasPrerequisite"),
        *("HasSubevent", "MotivatedByGoal"),
    }
)
"""Relations of ConceptNet between events; those of a graph with none of these are all used."""

_PAIRS = "_pairs"
_COLUMNS = ("event_id", "text")
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("relation", pa.string()),
        ("rank", pa.int32()),
        ("tail", pa.string()),
        ("score", pa.float32()),
    ]
)


def find_completions(
    events: pa.Table,
    chains: pa.Table | None,
    index: AlternativeIndex,
    encoder: EventEncoder,
    *,
    batch_size: int | Literal["auto"] = "auto",
    show_progress: bool = False,
) -> Found:
    """Complete distinct event texts, those in chains first, with the relations of a graph.

    The rows are those of `SCHEMA`, best first for each text and relation.

    Args:
        events: the events, with the columns of `events.parquet`.
        chains: their chains; None without.
        index: the graph.
        encoder: the model of the index.
        batch_size: maximum number of texts in a batch, or `auto`.
        show_progress: draw progress bars on standard error.

    Raises:
        EventformersError: an error of `complete_many`.
    """
    graph = index.record.graph
    templates = relation_templates(graph_of(graph), None, trained_templates(encoder))
    relations = [one for one in templates.relations if one in EVENT_RELATIONS] or list(templates.relations)
    texts = _chained_first(events, chains)
    chosen = texts[: MOST_QUERIES // len(relations)]
    completed = complete_many(
        encoder,
        chosen,
        relations,
        index,
        templates,
        top=TOP,
        votes=vote_settings(default_rerank(graph)),
        batch_size=batch_size,
        show_progress=show_progress,
    )
    table = [
        {"text": one.head, "relation": one.relation, "rank": rank, "tail": tail, "score": score}
        for one in completed
        for rank, (tail, score) in enumerate(one.alternatives, start=1)
    ]
    notes = []
    if len(chosen) < len(texts):
        notes.append(
            f"{len(chosen):,} of {len(texts):,} distinct events are completed with {len(relations)} "
            "relations, those in chains first."
        )
    return Found(pa.Table.from_pylist(table, schema=SCHEMA), notes)


def _chained_first(events: pa.Table, chains: pa.Table | None) -> list[str]:
    ids, texts = (events[name].to_pylist() for name in _COLUMNS)
    text_of = dict(zip(ids, texts, strict=True))
    chained: Sequence[Sequence[str]] = [] if chains is None else chains["event_ids"].to_pylist()
    return list(dict.fromkeys([*(text_of[one] for chain in chained for one in chain), *texts]))


def graph_config(graph: str | Path, config: str | None) -> str:
    """Return the config of a graph: the given one, otherwise that of an index or of a built dataset."""
    folder = Path(graph).expanduser()
    if config is not None or not folder.is_dir():
        return config or DEFAULT_GRAPH
    if holds_index(folder):
        return read_record(folder, AlternativeRecord).graph
    built = sorted(name.removesuffix(_PAIRS) for name in built_configs(folder) if name.endswith(_PAIRS))
    return built[0] if built else DEFAULT_GRAPH


def _run(run: StepRun) -> None:
    settings = run.context.settings
    # Without a graph, the step has no settings and is not run.
    graph = cast("str | Path", settings.graph)
    folder = Path(graph).expanduser()
    index = folder if holds_index(folder) else None
    encoder = run.context.encoder("commonsense")
    opened = open_graph(
        encoder,
        graph if index is None else None,
        graph_config(graph, settings.graph_config),
        index,
        None,
        None,
        batch_size=settings.batch_size,
        overwrite=False,
        show_progress=settings.show_progress,
    )
    found = find_completions(
        run.table(EVENTS_TABLE, _COLUMNS),
        run.table(CHAINS_TABLE) if run.has(CHAINS_TABLE) else None,
        opened,
        encoder,
        batch_size=settings.batch_size,
        show_progress=settings.show_progress,
    )
    run.write(COMPLETIONS_TABLE, found.table)
    run.counts["completed_events"] = len(found.table["text"].unique())
    run.notes += found.notes


def _settings(context: Context) -> Mapping[str, Any] | None:
    identity = context.data_identity("graph")
    return None if identity is None else {"graph": identity, "config": context.settings.graph_config}


COMPLETIONS = Step(
    "completions",
    _run,
    reads=(EVENTS_TABLE,),
    may_read=(CHAINS_TABLE,),
    writes=(COMPLETIONS_TABLE,),
    models=("commonsense",),
    settings=_settings,
)
