"""The step that draws a map of the events: places in the plane, their neighbours, and named regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans

from eventformers.datasets_scripts.events import DOCUMENTS_TABLE, EVENTS_TABLE, VECTORS_TABLE, schema_of
from eventformers.datasets_scripts.reading.tables import read_parquet
from eventformers.errors import EventformersError
from eventformers.exploration import STATE_FOLDER
from eventformers.exploration.events import nearest, text_vectors
from eventformers.exploration.steps import Step, StepRun
from eventformers.exploration.types import EVENT_TYPES_TABLE, TYPES_TABLE, UNTYPED, event_terms
from eventformers.inference.encoding.vectors import Positions, Vectors
from eventformers.inference.induction.clustering import by_size
from eventformers.inference.induction.induce import NAME_PARTS
from eventformers.inference.induction.mention_distances import Labels
from eventformers.inference.induction.type_naming import key_terms

MAP_TABLE = "map.parquet"
REGIONS_TABLE = "regions.parquet"

NEIGHBOURS = 10
"""Number of neighbours of an event, each another text."""

MOST_REGIONS = 40
"""Maximum number of regions, as many names as a map holds."""

REGION_TEXTS = 40
"""Minimum number of distinct texts for each region, on average."""

SEED = 0
_PERPLEXITY = 15
_MAP_NEIGHBOURS = 3 * _PERPLEXITY
_ITERATIONS = (150, 250)
"""Iterations with and without exaggeration: at 10,000 texts, twice as many place neighbours no nearer."""
_DRAWN = f"{STATE_FOLDER}/drawn.parquet"
_DRAWN_SHARE = 0.5
"""Minimum share of texts that t-SNE placed in an earlier map; otherwise the map is drawn again."""
_FEWEST_TEXTS = 8
"""Number of texts below which a text has too few neighbours. They are placed on a circle, and so are texts
with equal vectors."""

_COLUMNS = ("event_id", "document_id", "text", "trigger", "lemma", "predicate", "object")
MAP_SCHEMA, REGIONS_SCHEMA = schema_of("map"), schema_of("regions")


class Places(NamedTuple):
    """Distinct texts in the plane.

    Attributes:
        points: `(n, 2)`.
        neighbours: positions of the nearest other texts, `(n, k)`, nearest first.
        distances: 1 - cosine of each, `(n, k)`.
        is_drawn: whether t-SNE placed the text, `(n,)`.
    """

    points: Vectors
    neighbours: Positions
    distances: Vectors
    is_drawn: NDArray[np.bool_]


def draw_map(run: StepRun) -> None:
    """Place events in the plane, so that near events have near vectors; name the regions of the plane.

    Events with the same text have the same place. The regions are clusters of the places, named by the verbs
    and objects that are more frequent there than elsewhere. The rows of the map are in the order of the
    events. Texts of an earlier map stay where they are. Embedding Atlas reads the table with the
    columns `x`, `y` and `neighbors`, whose ids are row numbers.

    Raises:
        EventformersError: openTSNE is not installed.
    """
    events = run.table(EVENTS_TABLE, _COLUMNS)
    texts, vectors = text_vectors(run.table(VECTORS_TABLE))
    drawn: dict[str, list[float]] = {}
    if run.earlier:
        table = read_parquet(run.earlier / _DRAWN)
        drawn = {text: point for text, *point in zip(*table.to_pydict().values(), strict=True)}
    places = place_texts(texts, vectors, run.notes, drawn)
    kept = pa.table([texts, *places.points.T], ["text", "x", "y"]).filter(pa.array(places.is_drawn))
    run.write(_DRAWN, kept)
    rows = events.to_pylist()
    row_of = {text: row for row, text in enumerate(texts)}
    text_of = np.array([row_of[row["text"]] for row in rows])
    # Row numbers of the first event of each text.
    first = np.full(len(texts), -1)
    first[text_of[::-1]] = np.arange(len(rows))[::-1]
    labels, regions = _regions(rows, places.points[text_of], len(texts))
    names = regions["name"].to_pylist()
    type_ids, type_names = [UNTYPED] * len(rows), {UNTYPED: ""}
    if run.has(EVENT_TYPES_TABLE):
        event_types = run.table(EVENT_TYPES_TABLE)
        found = pc.index_in(events["event_id"], event_types["event_id"])
        type_ids = pc.fill_null(event_types["type_id"].take(found), UNTYPED).to_pylist()
        columns_of_types = run.table(TYPES_TABLE, ["type_id", "name"]).to_pydict()
        type_names |= zip(*columns_of_types.values(), strict=True)
    documents = run.table(DOCUMENTS_TABLE, ["document_id", "title", "date"])
    told = {row["document_id"]: row for row in documents.to_pylist()}
    points = places.points[text_of]
    columns: dict[str, Any] = {
        **{name: events[name] for name in ("event_id", "document_id", "text", "trigger")},
        "type_id": type_ids,
        "type": [type_names[number] for number in type_ids],
        "region": [names[label] for label in labels.tolist()],
        **{name: [told[row["document_id"]][name] for row in rows] for name in ("title", "date")},
        "x": points[:, 0],
        "y": points[:, 1],
        "neighbors": _neighbours(first[places.neighbours][text_of], places.distances[text_of]),
    }
    run.write(MAP_TABLE, pa.table(columns, schema=MAP_SCHEMA))
    run.write(REGIONS_TABLE, regions)
    run.counts["regions"] = regions.num_rows


def place_texts(
    texts: Sequence[str],
    vectors: Vectors,
    notes: list[str],
    drawn: Mapping[str, Sequence[float]] = MappingProxyType({}),
) -> Places:
    """Place texts in the plane by t-SNE, or among those of an earlier map, and find their neighbours.

    Args:
        vectors: their vectors at length 1, `(n, d)`.
        notes: gets a sentence if the search is approximate.
        drawn: the places of the texts that t-SNE placed in an earlier map. If they are enough, they stay, and
            the others are placed among the nearest of them.

    Raises:
        EventformersError: openTSNE is not installed.
    """
    is_drawn = np.array([text in drawn for text in texts])
    grows = is_drawn.mean() >= _DRAWN_SHARE
    found = nearest(texts, vectors, vectors, (NEIGHBOURS if grows else _MAP_NEIGHBOURS) + 1, notes)
    # Each text before its neighbours: one with the same vector may come first, or take its place.
    is_own = found.events == np.arange(len(texts))[:, None]
    is_own[~is_own.any(axis=1), -1] = True
    order = np.argsort(~is_own, axis=1, kind="stable")[:, 1:]
    near = np.take_along_axis(found.events, order, axis=1)
    distances = np.take_along_axis(np.maximum(0, 1 - found.scores), order, axis=1)
    if grows:
        points = np.array([drawn.get(text, (0.0, 0.0)) for text in texts])
        points[~is_drawn] = _among(points[is_drawn], vectors[is_drawn], vectors[~is_drawn])
    elif len(texts) < _FEWEST_TEXTS or not np.ptp(vectors, axis=0).any():
        angles = 2 * np.pi * np.arange(len(texts)) / len(texts)
        points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    else:
        points = _tsne(vectors, near, distances)
    near, distances = near[:, :NEIGHBOURS], distances[:, :NEIGHBOURS]
    return Places(points.astype(np.float32), near, distances, is_drawn | (not grows))


def _among(points: NDArray[np.floating], vectors: Vectors, queries: Vectors) -> NDArray[np.floating]:
    """Place new texts, `(m, 2)`: where the nearest of the placed ones are densest, by the kernel of t-SNE."""
    if not len(queries):
        return np.empty((0, 2))
    names = [str(place) for place in range(len(points))]
    near = points[nearest(names, vectors, queries, NEIGHBOURS, []).events]
    kernel = 1 / (1 + np.square(near[:, :, None] - near[:, None]).sum(axis=-1))
    densest = kernel.sum(axis=2).argmax(axis=1)
    weights = kernel[np.arange(len(near)), densest]
    return (near * weights[..., None]).sum(axis=1) / weights.sum(axis=1, keepdims=True)


def _tsne(vectors: Vectors, near: Positions, distances: Vectors) -> NDArray[np.floating]:
    try:
        from openTSNE import TSNEEmbedding, affinity, initialization
        from openTSNE.nearest_neighbors import PrecomputedNeighbors
    except ModuleNotFoundError as error:
        raise EventformersError(
            'the map needs openTSNE; install it with `pip install "eventformers[explore]"`, or leave the map '
            "out with `--skip map`"
        ) from error
    # One thread and a seed make the map repeatable.
    repeatable = {"random_state": SEED, "n_jobs": 1}
    found = PrecomputedNeighbors(near, distances)
    affinities = affinity.PerplexityBasedNN(
        perplexity=min(_PERPLEXITY, near.shape[1] / 3), knn_index=found, **repeatable
    )
    placed = TSNEEmbedding(initialization.pca(vectors, random_state=SEED), affinities, **repeatable)
    exaggerated, plain = _ITERATIONS
    placed = placed.optimize(exaggerated, exaggeration=12, momentum=0.5)
    return np.asarray(placed.optimize(plain, momentum=0.8))


def _regions(rows: Sequence[Mapping[str, Any]], points: Vectors, texts: int) -> tuple[Labels, pa.Table]:
    """Divide the plane into named regions; return the region of each event, and the table."""
    number = min(MOST_REGIONS, max(1, texts // REGION_TEXTS))
    found = MiniBatchKMeans(number, n_init=5, random_state=SEED).fit_predict(points)
    labels = by_size(found)
    names = key_terms([event_terms(row) for row in rows], labels, NAME_PARTS)
    table = []
    for region, terms in enumerate(names):
        inside = points[labels == region]
        # The median lies among the events even if some are far away.
        x, y = np.median(inside, axis=0).tolist()
        name = ", ".join(term.label for term in terms) or f"region {region}"
        table.append({"region_id": region, "name": name, "x": x, "y": y, "size": len(inside)})
    return labels, pa.Table.from_pylist(table, schema=REGIONS_SCHEMA)


def _neighbours(ids: Positions, distances: Vectors) -> pa.StructArray:
    starts = np.arange(len(ids) + 1, dtype=np.int32) * ids.shape[1]
    lists = [
        pa.ListArray.from_arrays(pa.array(starts), pa.array(values.ravel(), kind))
        for values, kind in ((ids, pa.int64()), (distances, pa.float32()))
    ]
    return pa.StructArray.from_arrays(lists, ["ids", "distances"])


MAP = Step(
    "map",
    draw_map,
    reads=(DOCUMENTS_TABLE, EVENTS_TABLE, VECTORS_TABLE),
    may_read=(EVENT_TYPES_TABLE, TYPES_TABLE),
    writes=(MAP_TABLE, REGIONS_TABLE, _DRAWN),
)
