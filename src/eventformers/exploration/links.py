"""The step that links events to a knowledge base, or to none of its entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from eventformers.datasets_scripts.events import DOCUMENTS_TABLE, EVENTS_TABLE, LINK_SCHEMA, is_counted
from eventformers.exploration import STATE_FOLDER
from eventformers.exploration.events import kept_vectors
from eventformers.exploration.steps import Step, StepRun, keys_file
from eventformers.inference.grounding.document_evidence import weigh_by_documents
from eventformers.inference.grounding.knowledge_base import (
    FALLBACK_LANGUAGE,
    load_knowledge_base,
)
from eventformers.inference.grounding.linking import find_threshold
from eventformers.inference.grounding.retrieve_rerank import Ranked, grounding_model
from eventformers.inference.search.candidate_index import CandidateIndex
from eventformers.models.grounding_tokens import EventText, MentionText

LINKS_TABLE = "links.parquet"

TOP = 3
"""Number of candidates of an event in the table."""

_ENTRIES, _MENTIONS = f"{STATE_FOLDER}/entries.parquet", f"{STATE_FOLDER}/linked.parquet"
_BLOCK_EVENTS = 16_384
_NEAREST = 256
"""Number of entries from which the document of an event chooses."""

_COLUMNS = (
    *("event_id", "document_id", "sentence_start", "sentence_end", "trigger_start", "trigger_end"),
    *("time_start", "time_end", "trigger", "trigger_kind", "lemma", "passive", "factuality"),
)


def link_events(run: StepRun) -> None:
    """Link each event, by its trigger in its sentence, to its first candidate if that is near enough.

    The rows are those of `LINK_SCHEMA`, best first for each event; an event without a linked row is NULL.
    Scores are those of `weigh_by_documents`. The entries are read in the only language of the knowledge base,
    or in English. The threshold is learned with the model, or else that of `find_threshold`.

    Raises:
        EventformersError: no entry is in that language, or an error of the encoder.
    """
    settings, encoder = run.context.settings, run.context.encoder("grounding")
    knowledge_base = load_knowledge_base(cast("str | Path", settings.knowledge_base))
    languages = knowledge_base.languages
    language = languages[0] if len(languages) == 1 else FALLBACK_LANGUAGE
    entries = knowledge_base.in_languages({language})
    model = grounding_model(encoder, batch_size=settings.batch_size, show_progress=settings.show_progress)

    known = [EventText.from_row(row) for row in entries.to_list()]
    vectors, _ = kept_vectors(run, _ENTRIES, known, model.read_events)
    index = CandidateIndex(entries["event_id"][:], vectors)
    threshold = find_threshold(None, encoder, None, 0.0, TOP, index)
    run.notes += [f"{threshold.note}."] if threshold.note else []
    if len(languages) > 1:
        run.notes.append(f"Of the {len(languages)} languages of the knowledge base, {language} is read.")
    documents = run.table(DOCUMENTS_TABLE, ["document_id", "text", "title", "date"])
    read = {row["document_id"]: row for row in documents.to_pylist()}
    events = run.table(EVENTS_TABLE, _COLUMNS)
    rows, counted = events.to_pylist(), is_counted(events["factuality"], settings.factuality).to_pylist()
    mentions = []
    for row in rows:
        document, (start, end) = read[row["document_id"]], (row["trigger_start"], row["trigger_end"])
        text, before, after = document["text"], row["sentence_start"], row["sentence_end"]
        parts = text[before:start], text[start:end], text[end:after]
        mentions.append(MentionText(*parts, document["title"], document["date"]))
    queries, _ = kept_vectors(run, _MENTIONS, mentions, model.read_mentions)
    number_of = min(_NEAREST, len(index.event_ids))
    tables = [LINK_SCHEMA.empty_table()]
    for block in document_blocks(rows):
        nearest = index.search(queries[block], number_of)
        candidates = weigh_by_documents(nearest, rows[block], counted[block], read, known, language)
        links = threshold.link(Ranked(candidates, candidates), index.event_ids)
        written = []
        places, scores = candidates.events[:, :TOP].tolist(), candidates.scores[:, :TOP].tolist()
        for row, of_row, of_scores, linked in zip(rows[block], places, scores, links, strict=True):
            for rank, (place, score) in enumerate(zip(of_row, of_scores, strict=True), start=1):
                if place < 0:
                    break
                entry = index.event_ids[place]
                above = knowledge_base.ancestors(entry) if entry in linked else []
                written.append(
                    {
                        "event_id": row["event_id"],
                        "rank": rank,
                        "knowledge_base_id": entry,
                        "title": knowledge_base.title(entry, language),
                        "score": score,
                        "linked": entry in linked,
                        "ancestors": [knowledge_base.title(one, language) for one in above],
                    }
                )
        tables.append(pa.Table.from_pylist(written, schema=LINK_SCHEMA))
    table = pa.concat_tables(tables)
    # Only the first candidate of an event is ever linked.
    number = pc.sum(table["linked"]).as_py() or 0
    run.write(LINKS_TABLE, table)
    run.counts["linked_events"] = number
    run.notes.append(
        f"{number:,} of {len(rows):,} events are linked to the knowledge base, the others to NULL."
    )


def document_blocks(rows: Sequence[Mapping[str, Any]]) -> Iterator[slice]:
    """Divide events into blocks, each with all events of its documents."""
    start = 0
    for place in range(1, len(rows) + 1):
        is_full = place - start >= _BLOCK_EVENTS
        if place == len(rows) or (is_full and rows[place]["document_id"] != rows[place - 1]["document_id"]):
            yield slice(start, place)
            start = place


LINKS = Step(
    "links",
    link_events,
    reads=(DOCUMENTS_TABLE, EVENTS_TABLE),
    writes=(LINKS_TABLE, *(file for name in (_ENTRIES, _MENTIONS) for file in (name, keys_file(name)))),
    models=("grounding",),
    settings=lambda context: (
        {"knowledge_base": identity, "factuality": list(context.settings.factuality)}
        if (identity := context.data_identity("knowledge_base"))
        else None
    ),
)
