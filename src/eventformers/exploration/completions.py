"""The step that completes events with a commonsense graph: their causes, effects and more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import pyarrow as pa

from eventformers.datasets_scripts.commonsense_graphs import graph_of
from eventformers.datasets_scripts.dataset_card import built_configs
from eventformers.datasets_scripts.events import CHAINS_TABLE, EVENTS_TABLE
from eventformers.datasets_scripts.relation_templates import relation_templates
from eventformers.exploration.settings import Context
from eventformers.exploration.steps import Found, Step, StepRun
from eventformers.inference.commonsense.alternative_index import (
    AlternativeIndex,
    AlternativeRecord,
    trained_templates,
)
from eventformers.inference.commonsense.complete import DEFAULT_GRAPH, default_rerank, open_graph
from eventformers.inference.commonsense.complete_many import ManyCompletions, complete_many
from eventformers.inference.commonsense.neighbour_votes import vote_settings
from eventformers.inference.encode import EventEncoder
from eventformers.inference.induction.type_naming import has_only_stop_words, words_of
from eventformers.inference.search.index_folder import holds_index, read_record

COMPLETIONS_TABLE = "completions.parquet"

TOP = 3
"""Number of completions of an event and a relation."""

_ASKED = 30
"""Number of completions from which those that repeat the event are left out."""

MOST_QUERIES = 10_000
"""Maximum number of pairs of an event and a relation, which take about a minute on two cores."""

JUDGED = "Few completions fit: of 60 judged ones of news, 9 did; of 60 drawn at random, 2 did."
"""How good they are, for the page and the report. They are made only if a graph is given."""

EVENT_RELATIONS = frozenset(
    {
        *("Causes", "CausesDesire", "HasFirstSubevent", "HasLastSubevent", "HasPrerequisite"),
        *("HasSubevent", "MotivatedByGoal"),
    }
)
"""Relations of ConceptNet between events; those of a graph with none of these are all used."""

_PAIRS = "_pairs"
_COLUMNS = ("event_id", "text", "lemma")
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

    The rows are those of `SCHEMA`, best first for each text and relation. A completion with a word of its
    event is left out: it repeats what is known ("flood" for "river flooded town").

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
    lemma_of = dict(zip(events["text"].to_pylist(), events["lemma"].to_pylist(), strict=True))
    chosen = texts[: MOST_QUERIES // len(relations)]
    completed = complete_many(
        encoder,
        chosen,
        relations,
        index,
        templates,
        top=_ASKED,
        votes=vote_settings(default_rerank(graph)),
        batch_size=batch_size,
        show_progress=show_progress,
    )
    table = [
        {"text": one.head, "relation": one.relation, "rank": rank, "tail": tail, "score": score}
        for one in completed
        for rank, (tail, score) in enumerate(_new(one, lemma_of[one.head]), start=1)
    ]
    notes = [JUDGED]
    if len(chosen) < len(texts):
        notes.append(
            f"{len(chosen):,} of {len(texts):,} distinct events are completed with {len(relations)} "
            "relations, those in chains first."
        )
    return Found(pa.Table.from_pylist(table, schema=SCHEMA), notes)


def _new(completed: ManyCompletions, lemma: str) -> list[tuple[str, float]]:
    """Return the best alternatives that share no word with the event."""
    known = _stems(f"{completed.head} {lemma}")
    return [
        (tail, score)
        for tail, score in completed.alternatives
        if not any(_are_alike(one, other) for one in _stems(tail) for other in known)
    ][:TOP]


def _stems(text: str) -> set[str]:
    """Return the words of a text that are not stop words, without a final e or y."""
    return {word.rstrip("ey") for word in words_of(text.lower()) if not has_only_stop_words(word)}


def _are_alike(one: str, other: str) -> bool:
    """True if two words may be forms of one word or derived from each other: they start alike.

    One is the start of the other, or a long start differs by its last letter: "robbery", "robbed".
    """
    length = min(len(one), len(other))
    return one[:length] == other[:length] or (length > 5 and one[: length - 1] == other[: length - 1])


def _chained_first(events: pa.Table, chains: pa.Table | None) -> list[str]:
    ids, texts = events["event_id"].to_pylist(), events["text"].to_pylist()
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
