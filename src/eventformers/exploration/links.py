"""The step that links events to a knowledge base, or to none of its entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import pyarrow as pa

from eventformers.datasets_scripts.event_tables import DOCUMENTS_TABLE, EVENTS_TABLE
from eventformers.exploration.settings import Context
from eventformers.exploration.steps import Step, StepRun
from eventformers.inference.encode import EventEncoder, Vectors
from eventformers.inference.grounding.knowledge_base import (
    FALLBACK_LANGUAGE,
    KnowledgeBase,
    load_knowledge_base,
)
from eventformers.inference.grounding.linking import LinkThreshold, find_threshold
from eventformers.inference.grounding.retrieve_rerank import grounding_model, retrieve
from eventformers.inference.search.candidate_index import CandidateIndex, PooledIndex
from eventformers.models.grounding_tokens import EventText, MentionText

LINKS_TABLE = "links.parquet"

TOP = 3
"""Number of candidates of an event."""

NEAR_QUANTILE = 0.25
"""Quantile of the scores of entries with their nearest other entry that a link by an untrained encoder must
reach: 0.67 on Wikipedia's current events. Of 2,088 mentions whose entry is among 9,499 there,
all-MiniLM-L6-v2 ranks the entry first for 22 %; a score of 0.65 links 30 %, of which 38 % are right, and one
of 0.70 links 16 %, of which 43 % are right."""

_SAMPLED_ENTRIES = 4_096
_BLOCK_EVENTS = 16_384
_COLUMNS = (*("event_id", "document_id", "sentence_start", "sentence_end", "trigger_start", "trigger_end"),)
SCHEMA = pa.schema(
    [
        ("event_id", pa.string()),
        ("rank", pa.int32()),
        ("knowledge_base_id", pa.string()),
        ("title", pa.string()),
        ("score", pa.float32()),
        ("linked", pa.bool_()),
        ("ancestors", pa.list_(pa.string())),
    ]
)


class FoundLinks(NamedTuple):
    """Candidates and links of events.

    Attributes:
        table: rows of `SCHEMA`, best first for each event; an event without a linked row is NULL.
        linked: number of events with a link.
        notes: sentences for the report.
    """

    table: pa.Table
    linked: int
    notes: list[str]


def link_events(
    events: pa.Table,
    documents: pa.Table,
    knowledge_base: KnowledgeBase,
    encoder: EventEncoder,
    *,
    batch_size: int | Literal["auto"] = "auto",
    show_progress: bool = False,
) -> FoundLinks:
    """Link each event, by its trigger in its sentence, to its first candidate if that is near enough.

    The threshold is learned with the model. Without one, a link needs a score that at least `NEAR_QUANTILE`
    of the entries do not exceed with their nearest other entry: entries are different events, so a lower
    score only shows a related topic.

    Args:
        events: the events, with the columns of `events.parquet`.
        documents: their documents.
        knowledge_base: the entries to link to, in its only language, or in English.
        encoder: a bi-encoder of event grounding or any plain encoder.
        batch_size: maximum number of texts in a batch, or `auto`.
        show_progress: draw progress bars on standard error.

    Raises:
        EventformersError: no entry is in that language, or an error of the encoder.
    """
    languages = knowledge_base.languages
    language = languages[0] if len(languages) == 1 else FALLBACK_LANGUAGE
    entries = knowledge_base.in_languages({language})
    model = grounding_model(encoder, batch_size=batch_size, show_progress=show_progress)
    vectors = model.read_events([EventText.from_row(row) for row in entries.to_list()])
    index = CandidateIndex(entries["event_id"][:], vectors)
    threshold = find_threshold(None, encoder, None, 0.0, TOP)
    notes = []
    if threshold.value is None:
        score = usual_score(vectors)
        threshold = LinkThreshold(score, "assumed", with_reranker=False)
        notes.append(
            f"{encoder.name} has no learned threshold for links: a link needs a score of {score:.2f}, which "
            f"{1 - NEAR_QUANTILE:.0%} of the entries reach with another entry."
        )
    if len(languages) > 1:
        notes.append(f"Of the {len(languages)} languages of the knowledge base, {language} is read.")
    parts, linked = [], 0
    rows = events.select(_COLUMNS).to_pylist()
    texts = _texts(documents)
    for start in range(0, len(rows), _BLOCK_EVENTS):
        block = rows[start : start + _BLOCK_EVENTS]
        mentions = [_mention(row, texts[row["document_id"]]) for row in block]
        candidates = retrieve(model, index, mentions, [language] * len(block), TOP)
        links = threshold.link(candidates, index.event_ids)
        linked += sum(map(bool, links))
        found = _found(block, candidates.events, candidates.scores, links, index, knowledge_base, language)
        parts.append(pa.Table.from_pylist(list(found), schema=SCHEMA))
    notes.append(f"{linked:,} of {len(rows):,} events are linked to the knowledge base, the others to NULL.")
    return FoundLinks(pa.concat_tables([SCHEMA.empty_table(), *parts]), linked, notes)


def usual_score(vectors: Vectors) -> float:
    """Return the `NEAR_QUANTILE` of the scores of entries with their nearest other entry, on at most
    `_SAMPLED_ENTRIES`; infinite for fewer than two entries.

    Args:
        vectors: the vectors of the entries, `(n, d)`.
    """
    if len(vectors) < 2:
        return float("inf")
    sample = np.unique(
        np.linspace(0, len(vectors) - 1, min(len(vectors), _SAMPLED_ENTRIES)).round().astype(np.int64)
    )
    names = [str(place) for place in range(len(vectors))]
    found = CandidateIndex(names, vectors).search(vectors[sample], 2)
    others = np.where(found.events == sample[:, None], -np.inf, found.scores).max(axis=1)
    return float(np.quantile(others, NEAR_QUANTILE))


def _texts(documents: pa.Table) -> dict[str, Mapping[str, str]]:
    columns = documents.select(["document_id", "text", "title", "date"])
    return {row["document_id"]: row for row in columns.to_pylist()}


def _mention(row: Mapping[str, Any], document: Mapping[str, str]) -> MentionText:
    text = document["text"]
    start, end = row["trigger_start"], row["trigger_end"]
    return MentionText(
        text[row["sentence_start"] : start],
        text[start:end],
        text[end : row["sentence_end"]],
        document["title"],
        document["date"],
    )


def _found(
    rows: Sequence[Mapping[str, Any]],
    places: np.ndarray,
    scores: np.ndarray,
    links: Sequence[Sequence[str]],
    index: PooledIndex,
    known: KnowledgeBase,
    language: str,
) -> Iterator[dict[str, Any]]:
    for row, of_row, of_scores, linked in zip(rows, places.tolist(), scores.tolist(), links, strict=True):
        for rank, (place, score) in enumerate(zip(of_row, of_scores, strict=True), start=1):
            if place < 0:
                break
            entry = index.event_ids[place]
            is_linked = entry in linked
            above = known.ancestors(entry) if is_linked else []
            yield {
                "event_id": row["event_id"],
                "rank": rank,
                "knowledge_base_id": entry,
                "title": known.title(entry, language),
                "score": score,
                "linked": is_linked,
                "ancestors": [known.title(one, language) for one in above],
            }


def _run(run: StepRun) -> None:
    settings = run.context.settings
    found = link_events(
        run.table(EVENTS_TABLE, _COLUMNS),
        run.table(DOCUMENTS_TABLE),
        load_knowledge_base(cast("str | Path", settings.knowledge_base)),
        run.context.encoder("grounding"),
        batch_size=settings.batch_size,
        show_progress=settings.show_progress,
    )
    run.write(LINKS_TABLE, found.table)
    run.counts["linked_events"] = found.linked
    run.notes += found.notes


def _settings(context: Context) -> Mapping[str, Any] | None:
    identity = context.data_identity("knowledge_base")
    return None if identity is None else {"knowledge_base": identity}


LINKS = Step(
    "links",
    _run,
    reads=(DOCUMENTS_TABLE, EVENTS_TABLE),
    writes=(LINKS_TABLE,),
    models=("grounding",),
    settings=_settings,
)
