"""The step that finds event types: clusters of triggers in their sentences, with names and frames."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eventformers.datasets_scripts.event_tables import DOCUMENTS_TABLE, EVENTS_TABLE
from eventformers.exploration.neighbours import vector_column, vectors_of
from eventformers.exploration.steps import Keep, Step, StepRun, keep_nothing
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.arrays import Positions, Vectors
from eventformers.inference.encoding.unit_vectors import unit_vectors
from eventformers.inference.induction.clustering import (
    AverageLinkage,
    by_size,
    candidate_numbers,
    choose_num_clusters,
)
from eventformers.inference.induction.frame_linking import Frames, load_frames
from eventformers.inference.induction.induce import NAME_PARTS, usual_trigger_input
from eventformers.inference.induction.mention_distances import Labels, MentionVectors
from eventformers.inference.induction.mention_encoding import encode_labels, encode_mentions
from eventformers.inference.induction.type_naming import (
    ScoredLabel,
    cluster_centroids,
    has_only_stop_words,
    key_terms,
    name_clusters,
    weaknesses,
)

TYPES_TABLE = "types.parquet"
EVENT_TYPES_TABLE = "event_types.parquet"

SAMPLE = 4_000
"""Maximum number of mentions to cluster, which is quadratic in time and memory."""

MOST_TYPES = 100
"""Maximum number of types to try: a longer list is hard to read."""

FEWEST_SHARE = 5
"""Largest number of types to try, divided by the smallest."""

TOP = 5
"""Number of words, frames and examples of a type."""

SEED = 0
_BLOCK_EVENTS = 16_384
_COLUMNS = (
    *("event_id", "document_id", "sentence_start", "sentence_end", "trigger", "trigger_start"),
    *("trigger_end", "predicate", "object", "text", "lemma"),
)
TYPES_SCHEMA = pa.schema(
    [
        ("type_id", pa.int32()),
        ("name", pa.string()),
        ("size", pa.int32()),
        ("words", pa.list_(pa.string())),
        ("frames", pa.list_(pa.struct([("label", pa.string()), ("score", pa.float32())]))),
        ("weak", pa.string()),
        ("examples", pa.list_(pa.string())),
    ]
)
EVENT_TYPES_SCHEMA = pa.schema([("event_id", pa.string()), ("type_id", pa.int32()), ("cosine", pa.float32())])

Row = Mapping[str, Any]
"""A row of the table of events."""


class FoundTypes(NamedTuple):
    """Event types of a corpus.

    Attributes:
        types: rows of `TYPES_SCHEMA`, the largest type first.
        event_types: rows of `EVENT_TYPES_SCHEMA`, one for each event.
        notes: sentences for the report.
    """

    types: pa.Table
    event_types: pa.Table
    notes: list[str]


def find_types(
    events: pa.Table,
    documents: pa.Table,
    encoder: EventEncoder,
    *,
    frames: Frames | None = None,
    num_types: int | None = None,
    batch_size: int | Literal["auto"] = "auto",
    show_progress: bool = False,
    keep: Keep = keep_nothing,
) -> FoundTypes:
    """Cluster the triggers of events in their sentences, and describe the clusters.

    A sample of the mentions is clustered by average linkage on manifold weights, as in `induce`; every
    mention belongs to the type with the nearest centroid. A frequent verb is sampled less often than its
    share, by the square root of its frequency. Verbs that are stop words, such as "be" and "have", form no
    types of their own: their mentions are read with the words that complete the verb.

    Args:
        events: the events, with the columns of `events.parquet`.
        documents: their documents.
        encoder: a model of event type induction or any plain encoder.
        frames: frames to link the types to; None links none.
        num_types: number of types; None uses the number with the highest silhouette.
        batch_size: maximum number of texts in a batch, or `auto`.
        show_progress: draw progress bars on standard error.
        keep: keeps the vectors of each block of mentions.

    Raises:
        EventformersError: an error of `encode_mentions`.
    """
    rows = events.select(_COLUMNS).to_pylist()
    vectors = _encode(encoder, rows, documents, batch_size, show_progress, keep)
    sample = sample_mentions([row["lemma"] for row in rows], SAMPLE)
    of_sample = MentionVectors(vectors[sample])
    tree = AverageLinkage.of_mentions([of_sample])
    if num_types is None:
        num_types = choose_num_clusters(tree, of_sample, numbers_of_types(len(sample))).num_clusters
    clusters = tree.cut(min(num_types, len(sample)))
    found = cluster_centroids(of_sample.embeddings, clusters).astype(np.float32)
    labels = by_size((vectors @ found.T).argmax(axis=1))
    centroids = _centroids(vectors, labels)
    cosines = np.einsum("nd,nd->n", vectors, centroids[labels])
    types = _describe(rows, labels, cosines, _linked(frames, centroids, encoder, batch_size))
    event_types = pa.table([events["event_id"], labels, cosines], schema=EVENT_TYPES_SCHEMA)
    return FoundTypes(types, event_types, _notes(rows, sample, types))


def numbers_of_types(mentions: int) -> list[int]:
    """Return the numbers of types to try for a sample of mentions.

    The silhouette of texts in two languages is highest with two types, so small numbers are left out.
    """
    most = min(MOST_TYPES, mentions, 2 * math.isqrt(mentions))
    return [number for number in candidate_numbers(mentions, most) if number >= most // FEWEST_SHARE]


def sample_mentions(lemmas: Sequence[str], number: int) -> Positions:
    """Draw the mentions to cluster, those of a verb with a weight of the square root of its frequency.

    Args:
        lemmas: the lemma of each mention's verb, `(n,)`.
        number: maximum number of mentions to draw.

    Returns:
        Positions, sorted. Verbs that are stop words are not drawn if there are others.
    """
    counts = Counter(lemmas)
    weight_of = {lemma: 0.0 if has_only_stop_words(lemma) else count**-0.5 for lemma, count in counts.items()}
    weights = np.array([weight_of[lemma] for lemma in lemmas])
    if not weights.any():
        weights[:] = 1
    number = min(number, int(np.count_nonzero(weights)))
    drawn = np.random.default_rng(SEED).choice(len(weights), number, replace=False, p=weights / weights.sum())
    return np.sort(drawn)


def mention_end(row: Row, sentence: str) -> int:
    """Return the end, in its sentence, of what is read for an event.

    That is the trigger; for a verb that is a stop word, also what follows it up to the last word of its
    predicate and object, if the sentence has them: "was | angry", "is the | president".
    """
    end = int(row["trigger_end"]) - int(row["sentence_start"])
    if not has_only_stop_words(row["lemma"]):
        return end
    words = [*row["predicate"].split()[1:], *row["object"].split()]
    ends = [end]
    for word in words:
        if not has_only_stop_words(word):
            at = re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE).search(sentence, end)
            ends += [at.end()] if at else []
    return max(ends)


def _encode(
    encoder: EventEncoder,
    rows: Sequence[Row],
    documents: pa.Table,
    batch_size: int | Literal["auto"],
    show_progress: bool,
    keep: Keep,
) -> Vectors:
    """Encode the mentions of all events, `(n, d)` at length 1."""
    columns = documents.select(["document_id", "text"]).to_pydict()
    texts = dict(zip(columns["document_id"], columns["text"], strict=True))

    def encoded(block: Sequence[Row]) -> pa.Table:
        mentions = list(_mentions(block, texts))
        run = encode_mentions(
            encoder,
            mentions,
            trigger_input=usual_trigger_input(encoder, mentions),
            batch_size=batch_size,
            show_progress=show_progress,
        )
        vectors = unit_vectors(run.embeddings, [row["text"] for row in block])
        return pa.table({"embedding": vector_column(vectors)})

    vectors = np.empty((len(rows), encoder.dimension), dtype=np.float32)
    for start in range(0, len(rows), _BLOCK_EVENTS):
        block = rows[start : start + _BLOCK_EVENTS]
        vectors[start : start + len(block)] = vectors_of(keep(f"mentions-{start}", partial(encoded, block)))
    return vectors


def _mentions(rows: Sequence[Row], texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for row in rows:
        start = row["sentence_start"]
        sentence = texts[row["document_id"]][start : row["sentence_end"]]
        yield {
            "text": sentence,
            "trigger_start": row["trigger_start"] - start,
            "trigger_end": mention_end(row, sentence),
        }


def _centroids(vectors: Vectors, labels: Labels) -> Vectors:
    """Return the centroid of each cluster at length 1, without a copy of all vectors."""
    sums = np.zeros((int(labels.max()) + 1, vectors.shape[1]))
    np.add.at(sums, labels, vectors)
    return unit_vectors(sums, [f"the centroid of type {place}" for place in range(len(sums))]).astype(
        np.float32
    )


def _linked(
    frames: Frames | None, centroids: Vectors, encoder: EventEncoder, batch_size: int | Literal["auto"]
) -> list[tuple[ScoredLabel, ...]]:
    if frames is None:
        return [()] * len(centroids)
    definitions = encode_labels(encoder, frames.definitions, batch_size=batch_size)
    return name_clusters(centroids.astype(np.float64), frames.names, definitions, TOP)


def _describe(
    rows: Sequence[Row],
    labels: Labels,
    cosines: NDArray[np.float32],
    frames: Sequence[tuple[ScoredLabel, ...]],
) -> pa.Table:
    words = key_terms([event_terms(row) for row in rows], labels, TOP)
    weak = weaknesses([row["trigger"] for row in rows], [row["document_id"] for row in rows], labels)
    order = np.lexsort((-cosines, labels))
    starts = np.searchsorted(labels[order], np.arange(len(words) + 1))
    return pa.Table.from_pylist(
        [
            {
                "type_id": number,
                "name": ", ".join(term.label for term in words[number][:NAME_PARTS]) or f"type {number}",
                "size": int(starts[number + 1] - starts[number]),
                "words": [term.label for term in words[number]],
                "frames": [frame._asdict() for frame in frames[number]],
                "weak": weak[number],
                "examples": _examples(rows, order[starts[number] : starts[number + 1]]),
            }
            for number in range(len(words))
        ],
        schema=TYPES_SCHEMA,
    )


def event_terms(row: Row) -> tuple[str, str]:
    """Return the terms that name groups of events: the verb, with its complement if it is a stop word, and
    the object."""
    verb = row["predicate"] if has_only_stop_words(row["lemma"]) else row["lemma"]
    return verb, row["object"]


def _examples(rows: Sequence[Row], nearest: Positions) -> list[str]:
    """Return the ids of the events nearest to a centroid, each text once."""
    found: dict[str, str] = {}
    for place in nearest.tolist():
        found.setdefault(rows[place]["text"], rows[place]["event_id"])
        if len(found) == TOP:
            break
    return list(found.values())


def _notes(rows: Sequence[Row], sample: Positions, types: pa.Table) -> list[str]:
    notes = []
    if len(sample) < len(rows):
        notes.append(
            f"Types are clusters of {len(sample):,} sampled mentions; each of the {len(rows):,} events has "
            "the type with the nearest centroid."
        )
    if weak := sum(map(bool, types["weak"].to_pylist())):
        notes.append(f"{weak:,} of {types.num_rows:,} types are weak; the column weak says why.")
    return notes


def _run(run: StepRun) -> None:
    settings = run.context.settings
    found = find_types(
        run.table(EVENTS_TABLE, _COLUMNS),
        run.table(DOCUMENTS_TABLE, ["document_id", "text"]),
        run.context.encoder("types"),
        frames=None if settings.frames is None else load_frames(settings.frames),
        num_types=settings.num_types,
        batch_size=settings.batch_size,
        show_progress=settings.show_progress,
        keep=run.keep,
    )
    run.write(TYPES_TABLE, found.types)
    run.write(EVENT_TYPES_TABLE, found.event_types)
    run.counts["types"] = found.types.num_rows
    run.notes += found.notes


TYPES = Step(
    "types",
    _run,
    reads=(DOCUMENTS_TABLE, EVENTS_TABLE),
    writes=(TYPES_TABLE, EVENT_TYPES_TABLE),
    models=("types",),
    settings=lambda context: {
        "num_types": context.settings.num_types,
        "frames": context.data_identity("frames"),
    },
)
