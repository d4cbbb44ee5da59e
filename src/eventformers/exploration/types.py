"""The step that finds event types: clusters of triggers in their sentences, with names and frames."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_array
from scipy.spatial.distance import squareform

from eventformers.datasets_scripts.events import DOCUMENTS_TABLE, EVENTS_TABLE, is_counted
from eventformers.exploration import STATE_FOLDER
from eventformers.exploration.events import vector_column, vectors_of
from eventformers.exploration.steps import Step, StepRun, key_of, keys_file
from eventformers.inference.encoding.vectors import Positions, Vectors, unit_vectors
from eventformers.inference.induction.clustering import ALIKE, by_size
from eventformers.inference.induction.induce import NAME_PARTS, usual_trigger_input
from eventformers.inference.induction.mention_distances import Labels
from eventformers.inference.induction.mention_encoding import encode_labels, encode_mentions
from eventformers.inference.induction.type_naming import (
    ScoredLabel,
    has_only_stop_words,
    key_terms,
    load_frames,
    name_clusters,
    weaknesses,
)

TYPES_TABLE = "types.parquet"
EVENT_TYPES_TABLE = "event_types.parquet"

SAMPLE = 4_000
"""Maximum number of mentions to cluster, which is quadratic in time and memory."""

LEVEL = 2.7
"""Minimum mean cosine between the mentions of a type: this many times as far above the median of pairs with
different verbs as the 5th percentile, which types do not affect, is below it. Among articles of Wikinews, one
in a hundred such pairs is that much alike."""

FEWEST_MENTIONS = 4
"""Minimum number of sampled mentions of a type; a quarter of the square root of their number if that is
more, so that types become larger and hardly more numerous with more mentions."""

MOST_TYPES = 100
"""Maximum number of types: a longer list is hard to read."""

NAMED_SHARE = 0.1
"""Minimum share of a type's events with a verb of its name; at least two events."""

NEAR_SHARE = 0.75
"""Minimum mean cosine of an event with the events of its type, as a share of the mean cosine between them."""

UNTYPED = -1
"""Type of an event that fits no type."""

# fmt: off
LIGHT_VERBS = frozenset({
    "bring", "come", "get", "give", "go", "hold", "keep", "let", "make", "put", "run", "set", "take", "turn",
})
# fmt: on
"""English verbs whose object says what happens: "take place", "make a decision", "hold elections"."""

TOP = 5
"""Number of words, frames and examples of a type."""

SEED = 0
_CANDIDATES = 20
_MENTIONS = f"{STATE_FOLDER}/mentions.parquet"
_COLUMNS = (
    *("event_id", "document_id", "sentence_start", "sentence_end", "trigger", "trigger_start"),
    *("trigger_end", "predicate", "object", "text", "lemma", "factuality"),
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


def find_types(run: StepRun) -> None:
    """Cluster the triggers of events in their sentences, and describe the clusters.

    A sample of the mentions is clustered by average linkage on cosines. Two groups become one while the mean
    cosine between them is far above that of unrelated mentions (`LEVEL`). Groups with enough mentions are
    types, the largest first; with `num_types`, each of that number of groups is one. Every event belongs to
    the type with the nearest centroid if its mean cosine with the type's events is that high, too; otherwise
    it has no type.

    A frequent verb is sampled less often than its share, by the square root of its frequency. Verbs that say
    little by themselves, stop words such as "be" and `LIGHT_VERBS`, form no types of their own: their
    mentions are read with the words that complete the verb.

    Raises:
        EventformersError: an error of `encode_mentions`.
    """
    settings = run.context.settings
    frames = None if settings.frames is None else load_frames(settings.frames)
    events = run.table(EVENTS_TABLE, _COLUMNS)
    rows = events.to_pylist()
    vectors = _encode(run, rows)
    sample = sample_mentions([row["lemma"] for row in rows], SAMPLE)
    groups, level = group_mentions(
        vectors[sample], [rows[place]["lemma"] for place in sample], settings.num_types
    )
    labels = np.full(len(rows), UNTYPED)
    labels[sample] = groups
    # The second time by the centroids of all events of a type, not only of those in the sample.
    for _ in range(2):
        labels = _nearest(vectors, labels, level)
    typed = np.flatnonzero(labels != UNTYPED)
    centroids = _units(_means(vectors, labels))
    cosines = np.einsum("nd,nd->n", vectors[typed], centroids[labels[typed]])
    linked: list[tuple[ScoredLabel, ...]] = [()] * len(centroids)
    if frames is not None:
        encoder, batch_size = run.context.encoder("types"), run.context.settings.batch_size
        definitions = encode_labels(encoder, frames.definitions, batch_size=batch_size)
        linked = name_clusters(centroids.astype(np.float64), frames.names, definitions, TOP)
    counted = is_counted(events["factuality"], settings.factuality).to_numpy()
    types = _describe(rows, labels, typed, cosines, linked, counted)
    event_types = pa.table(
        [events["event_id"].take(typed), labels[typed], cosines], schema=EVENT_TYPES_SCHEMA
    )
    run.write(TYPES_TABLE, types)
    run.write(EVENT_TYPES_TABLE, event_types)
    run.counts["types"] = types.num_rows
    if len(sample) == SAMPLE:
        run.notes.append(
            f"Types are groups of {SAMPLE:,} sampled events; others have the nearest type that fits."
        )
    if others := len(rows) - len(typed):
        run.notes.append(f"Events that fit no type: {others:,} of {len(rows):,}.")
    if weak := sum(map(bool, types["weak"].to_pylist())):
        run.notes.append(f"{weak:,} of {types.num_rows:,} types are weak; the column weak says why.")


def group_mentions(
    vectors: Vectors, verbs: Sequence[str], num_types: int | None = None
) -> tuple[Labels, float]:
    """Group sampled mentions into types.

    Args:
        vectors: the vectors of the mentions at length 1, `(n, d)`.
        verbs: the lemma of each mention's verb, `(n,)`.
        num_types: maximum number of types, however different their mentions; None finds the number.

    Returns:
        The type of each mention, 0 the largest, or `UNTYPED`, `(n,)`; and the mean cosine with the mentions
        of a type that a member has at least.
    """
    if len(vectors) < 2:
        return np.full(len(vectors), UNTYPED if num_types is None else 0), -1.0
    cosines = squareform(vectors @ vectors.T, checks=False)
    tree = linkage(np.maximum(1 - cosines, 0), "average")
    if num_types is not None:
        return by_size(fcluster(tree, num_types, "maxclust")), -1.0
    level = _least_cosine(cosines, verbs)
    groups = by_size(fcluster(tree, max(1 - level, ALIKE), "distance"))
    fewest = max(FEWEST_MENTIONS, math.isqrt(len(vectors)) // 4)
    number = min(MOST_TYPES, int(np.count_nonzero(np.bincount(groups) >= fewest)))
    return np.where(groups < number, groups, UNTYPED), level


def _least_cosine(cosines: NDArray[np.float32], verbs: Sequence[str]) -> float:
    """Return the minimum mean cosine between the mentions of a type from the cosines of all pairs."""
    codes = np.unique(verbs, return_inverse=True)[1]
    is_other = squareform(codes[:, None] != codes, checks=False)
    if not is_other.any():
        return -1.0
    low, median = np.quantile(cosines[is_other], (0.05, 0.5)).tolist()
    level = median + LEVEL * (median - low)
    # Where most verbs mean the same, none are unrelated. Mentions of one verb are then alike enough.
    return level if is_other.all() else min(level, float(np.quantile(cosines[~is_other], 0.25)))


def sample_mentions(lemmas: Sequence[str], number: int) -> Positions:
    """Draw the mentions to cluster, those of a verb with a weight of the square root of its frequency.

    Args:
        lemmas: the lemma of each mention's verb, `(n,)`.
        number: maximum number of mentions to draw.

    Returns:
        Positions, sorted. Verbs that say little by themselves are not drawn if there are others.
    """
    counts = Counter(lemmas)
    weight_of = {lemma: 0.0 if _says_little(lemma) else count**-0.5 for lemma, count in counts.items()}
    weights = np.array([weight_of[lemma] for lemma in lemmas])
    if not weights.any():
        weights[:] = 1
    number = min(number, int(np.count_nonzero(weights)))
    drawn = np.random.default_rng(SEED).choice(len(weights), number, replace=False, p=weights / weights.sum())
    return np.sort(drawn)


def mention_end(row: Row, sentence: str) -> int:
    """Return the end, in its sentence, of what is read for an event.

    That is the trigger; for a verb that says little by itself, also what follows it up to the last word of
    its predicate and object, if the sentence has them: "was | angry", "took | place".
    """
    end = int(row["trigger_end"]) - int(row["sentence_start"])
    if not _says_little(row["lemma"]):
        return end
    words = [*row["predicate"].split()[1:], *row["object"].split()]
    ends = [end]
    for word in words:
        if not has_only_stop_words(word):
            at = re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE).search(sentence, end)
            ends += [at.end()] if at else []
    return max(ends)


def _encode(run: StepRun, rows: Sequence[Row]) -> Vectors:
    """Encode the mentions of all events, `(n, d)` at length 1."""
    settings, encoder = run.context.settings, run.context.encoder("types")
    columns = run.table(DOCUMENTS_TABLE, ["document_id", "text"]).to_pydict()
    mentions = list(_mentions(rows, dict(zip(*columns.values(), strict=True))))

    def encoded(numbers: Sequence[int]) -> pa.Table:
        block = [mentions[number] for number in numbers]
        read = encode_mentions(
            encoder,
            block,
            trigger_input=usual_trigger_input(encoder, block),
            batch_size=settings.batch_size,
            show_progress=settings.show_progress,
        )
        vectors = unit_vectors(read.embeddings, [rows[number]["text"] for number in numbers])
        return pa.table({"embedding": vector_column(vectors)})

    return vectors_of(run.rows(_MENTIONS, [key_of(mention) for mention in mentions], encoded))


def _mentions(rows: Sequence[Row], texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for row in rows:
        start = row["sentence_start"]
        sentence = texts[row["document_id"]][start : row["sentence_end"]]
        yield {
            "text": sentence,
            "trigger_start": row["trigger_start"] - start,
            "trigger_end": mention_end(row, sentence),
        }


def _says_little(verb: str) -> bool:
    return verb in LIGHT_VERBS or has_only_stop_words(verb)


def _means(vectors: Vectors, labels: Labels) -> Vectors:
    """Return the mean vector of each type, `(types, d)`, without a copy of all vectors."""
    places = np.flatnonzero(labels != UNTYPED)
    sizes = np.bincount(labels[places])
    shares = (1 / sizes[labels[places]]).astype(np.float32)
    return csr_array((shares, (labels[places], places)), shape=(len(sizes), len(labels))) @ vectors


def _units(means: Vectors) -> Vectors:
    names = [f"the centroid of type {place}" for place in range(len(means))]
    return unit_vectors(means, names).astype(np.float32)


def _nearest(vectors: Vectors, labels: Labels, level: float) -> Labels:
    """Return the type with the nearest centroid of each event, 0 the largest.

    It is `UNTYPED` if the event's mean cosine with the type's events is below a level, or far below that
    between them.
    """
    found = np.full(len(vectors), UNTYPED)
    means = _means(vectors, labels)
    if len(means):
        cosines = vectors @ _units(means).T
        nearest = cosines.argmax(axis=1)
        # The mean cosine with the vectors of a type is the product with their mean.
        lengths = np.linalg.norm(means, axis=1)
        least = np.maximum(level, NEAR_SHARE * lengths**2)
        fits = (cosines[np.arange(len(nearest)), nearest] * lengths[nearest]) >= least[nearest]
        found[fits] = by_size(nearest[fits])
    return found


def _describe(
    rows: Sequence[Row],
    labels: Labels,
    typed: Positions,
    cosines: NDArray[np.float32],
    frames: Sequence[tuple[ScoredLabel, ...]],
    counted: NDArray[np.bool_],
) -> pa.Table:
    number = len(frames)
    # Events without a type are one more cluster, as the terms of a type are compared with those of the rest.
    clusters = np.where(labels == UNTYPED, number, labels)
    terms = [event_terms(row) for row in rows]
    words = key_terms(terms, clusters, _CANDIDATES)
    weak = weaknesses([row["trigger"] for row in rows], [row["document_id"] for row in rows], clusters)
    order = typed[np.lexsort((-cosines, labels[typed]))]
    starts = np.searchsorted(labels[order], np.arange(number + 1))
    described = []
    for type_id in range(number):
        places = order[starts[type_id] : starts[type_id + 1]]
        verbs = Counter(terms[place][0] for place in places)
        listed = [term.label for term in words[type_id]]
        name, named = _name(listed, verbs)
        unnamed = f"{named:,} of {len(places):,} events have a verb of its name"
        described.append(
            {
                "type_id": type_id,
                "name": name or f"type {type_id}",
                "size": int(counted[places].sum()),
                "words": listed[:TOP],
                "frames": [frame._asdict() for frame in frames[type_id]],
                "weak": "; ".join(filter(None, [weak[type_id], unnamed if 2 * named < len(places) else ""])),
                "examples": _examples(rows, places[counted[places]]),
            }
        )
    return pa.Table.from_pylist(described, schema=TYPES_SCHEMA)


def _name(terms: Sequence[str], verbs: Counter[str]) -> tuple[str, int]:
    """Name a type by its first verbs that enough of its events have; see `NAMED_SHARE`.

    Args:
        terms: verbs and objects of the type, best first.
        verbs: the verbs of its events.

    Returns:
        The name, of its first verb without such ones; and how many events have one of them.
    """
    least = max(2, NAMED_SHARE * verbs.total())
    chosen = [term for term in terms if verbs[term] >= least and not has_only_stop_words(term)][:NAME_PARTS]
    chosen = chosen or [term for term in terms if verbs[term]][:1]
    return ", ".join(chosen), sum(verbs[term] for term in chosen)


def event_terms(row: Row) -> tuple[str, str]:
    """Return the terms that name groups of events: the verb, with its complement if it is a stop word, and
    the object."""
    verb = row["predicate"] if has_only_stop_words(row["lemma"]) else row["lemma"]
    return verb.lower(), row["object"].lower()


def _examples(rows: Sequence[Row], nearest: Positions) -> list[str]:
    """Return the ids of the events nearest to a centroid, each text once."""
    found: dict[str, str] = {}
    for place in nearest.tolist():
        found.setdefault(rows[place]["text"], rows[place]["event_id"])
        if len(found) == TOP:
            break
    return list(found.values())


TYPES = Step(
    "types",
    find_types,
    reads=(DOCUMENTS_TABLE, EVENTS_TABLE),
    writes=(TYPES_TABLE, EVENT_TYPES_TABLE, _MENTIONS, keys_file(_MENTIONS)),
    models=("types",),
    settings=lambda context: {
        "num_types": context.settings.num_types,
        "factuality": list(context.settings.factuality),
        "frames": context.data_identity("frames"),
    },
)
