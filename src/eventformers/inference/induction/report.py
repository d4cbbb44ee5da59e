"""Output of an induction: tables of mentions and of types, and an HTML report; and its types, read again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from eventformers.datasets_scripts.reading.tables import read_parquet
from eventformers.errors import DataFormatError, EventformersError
from eventformers.files import staged_folder, write_explained
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import Vectors, unit_vectors
from eventformers.inference.induction.induce import Induction
from eventformers.inference.induction.mention_distances import Labels, Matrix
from eventformers.inference.induction.mention_encoding import TriggerInput, encode_mentions, token_factors
from eventformers.inference.induction.type_naming import cluster_centroids
from eventformers.inference.report_pages import check_results_free, render_page

MENTIONS_FILE = "mentions.parquet"
TYPES_FILE = "types.jsonl"
REPORT_FILE = "report.html"
_FILES = (MENTIONS_FILE, TYPES_FILE, REPORT_FILE)
check_free = partial(check_results_free, names=_FILES, what="an induction")

_MENTION_TEXTS = ("mention_id", "document_id", "source", "license", "text", "trigger")


MOST_POINTS = 5_000
"""Maximum number of mentions on the map; a random sample is drawn beyond it."""

MOST_BY_TSNE = 3_000
"""Maximum number of mentions for t-SNE; beyond it, principal components take a fraction of the time."""

COMPONENTS = 50
WIDTH, HEIGHT = 860, 620
MARGIN = 14

COLOURS = (
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e",
    "#9498a0",
)  # fmt: skip
SHAPES = ("circle", "square", "triangle", "diamond")
"""Shapes of markers; each round of colours uses the next shape."""

Places = NDArray[np.float64]
Projection = Literal["tsne", "pca"]


def marker(cluster: int) -> tuple[str, str]:
    """Return the colour, of CSS, and the shape, of `SHAPES`, of a cluster's mentions; they repeat once every
    pair is used."""
    return COLOURS[cluster % len(COLOURS)], SHAPES[cluster // len(COLOURS) % len(SHAPES)]


def place_mentions(vectors: Matrix, *, by: Projection = "tsne", seed: int = 0) -> Places:
    """Project mentions to two dimensions so that near vectors stay near.

    Args:
        vectors: unit vectors, `(n, d)`.
        by: t-SNE, up to `MOST_BY_TSNE` mentions, or the two principal components.

    Returns:
        Points in the picture, `(n, 2)`, within `WIDTH` and `HEIGHT` less the margins. If all mentions are
        equal, they are in the middle.
    """
    number = len(vectors)
    centred = vectors - vectors.mean(axis=0)
    if number < 2 or np.abs(centred).max() < 1e-6:
        return np.tile([WIDTH / 2, HEIGHT / 2], (number, 1))
    dimensions = min(COMPONENTS, *vectors.shape)
    components = PCA(dimensions, random_state=seed).fit_transform(centred)
    places = np.zeros((number, 2))
    places[:, : min(2, dimensions)] = components[:, :2]
    if by == "tsne" and 4 <= number <= MOST_BY_TSNE:
        perplexity = min(30.0, (number - 1) / 3)
        places = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(components)
    places = places.astype(np.float64)
    low, high = places.min(axis=0), places.max(axis=0)
    span = np.where(high > low, high - low, 1)
    room = np.array([WIDTH, HEIGHT]) - 2 * MARGIN
    return np.where(high > low, MARGIN + (places - low) / span * room, np.array([WIDTH, HEIGHT]) / 2)


def drawn_mentions(number: int) -> NDArray[np.int64]:
    """Return the positions of the drawn mentions: all, or a random `MOST_POINTS` in their order."""
    return np.sort(np.random.default_rng(0).permutation(number)[:MOST_POINTS])


def path_of(shape: str, x: float, y: float, radius: float = 3.5) -> str:
    """Return the outline of a marker as SVG path data, rounded to tenths."""
    left, right, above, below = x - radius, x + radius, y - radius, y + radius
    if shape == "square":
        return f"M{left:.1f} {above:.1f}H{right:.1f}V{below:.1f}H{left:.1f}Z"
    if shape == "triangle":
        return f"M{left:.1f} {below:.1f}H{right:.1f}L{x:.1f} {above:.1f}Z"
    if shape == "diamond":
        return f"M{left:.1f} {y:.1f}L{x:.1f} {above:.1f}L{right:.1f} {y:.1f}L{x:.1f} {below:.1f}Z"
    arc = f"a{radius} {radius} 0 1 0"
    return f"M{left:.1f} {y:.1f}{arc} {2 * radius} 0{arc} {-2 * radius} 0Z"


def write_induction(induction: Induction, folder: str | Path, *, overwrite: bool = False) -> list[Path]:
    """Write the result of `induce` to a folder, atomically.

    `mentions.parquet` has a row for each mention with its cluster; `types.jsonl` has a line for each cluster;
    `report.html` needs no other file and no network.

    Raises:
        EventformersError: the folder holds an induction and `overwrite` is off, or it cannot be written.
    """
    folder = Path(folder)
    files = [folder / name for name in _FILES]
    check_free(folder, overwrite=overwrite)
    with write_explained(folder), staged_folder(folder, last=(TYPES_FILE,)) as staging:
        pq.write_table(mention_table(induction), staging / MENTIONS_FILE)
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in induction.type_rows()]
        (staging / TYPES_FILE).write_text("".join(lines), encoding="utf-8")
        (staging / REPORT_FILE).write_text(report_page(induction), encoding="utf-8")
    return files


def mention_table(induction: Induction) -> pa.Table:
    """Return a table of mentions with source, licence, cluster, and cosine with the cluster's centroid."""
    rows = induction.mentions
    columns: dict[str, pa.Array] = {
        name: pa.array([str(row[name]) for row in rows], pa.string()) for name in _MENTION_TEXTS
    }
    for name in ("trigger_start", "trigger_end"):
        columns[name] = pa.array([row[name] for row in rows], pa.int32())
    columns["event_type"] = pa.array([row["event_type"] for row in rows], pa.string())
    columns["cluster"] = pa.array(induction.cluster, pa.int32())
    names = [induction.types[number].name for number in induction.cluster]
    columns["cluster_name"] = pa.array(names, pa.string())
    columns["cosine"] = pa.array(induction.cosine, pa.float32())
    metadata = {"settings": json.dumps(induction.settings), "counts": json.dumps(induction.counts)}
    return pa.table(columns).replace_schema_metadata(metadata)


def report_page(induction: Induction) -> str:
    """Render the report: the map of mentions, and each cluster's name, frames, purity and examples."""
    drawn = drawn_mentions(len(induction.mentions))
    places = place_mentions(induction.vectors[drawn])
    points: list[list[tuple[int, float, float]]] = [[] for _ in induction.types]
    for mention, number, (x, y) in zip(
        drawn.tolist(), induction.cluster[drawn].tolist(), places.tolist(), strict=True
    ):
        points[number].append((mention, x, y))
    return render_page(
        Path(__file__).with_name("report.html.jinja"),
        induction=induction,
        points=points,
        marker=marker,
        path_of=path_of,
        drawn=len(drawn),
        by_tsne=4 <= len(drawn) <= MOST_BY_TSNE,
        width=WIDTH,
        height=HEIGHT,
        licenses=sorted({str(row["license"]) for row in induction.mentions}),
        labelled=any(found.labelled for found in induction.types),
        framed=any(found.frames for found in induction.types),
    )


class FittedTypes(NamedTuple):
    """The types of an induction.

    Attributes:
        centroids: at length 1, `(types, d)`.
        trigger_input: how the model reads mentions, as for `encode_mentions`, like `token_factors`.
    """

    names: tuple[str, ...]
    centroids: NDArray[np.float64]
    encoder: EventEncoder
    trigger_input: TriggerInput
    token_factors: Vectors | None

    def assign(self, mentions: Sequence[Mapping[str, Any]]) -> tuple[Labels, NDArray[np.float64]]:
        """Find the type with the nearest centroid for each mention, as for `encode_mentions`; return types
        and cosines, `(n,)` each."""
        run = encode_mentions(
            *(self.encoder, mentions), trigger_input=self.trigger_input, token_factors=self.token_factors
        )
        cosines = unit_vectors(run.embeddings, [str(row["text"]) for row in mentions]) @ self.centroids.T
        types = cosines.argmax(axis=1)
        return types, cosines[np.arange(len(types)), types]


def load_fitted_types(folder: str | Path, encoder: EventEncoder) -> FittedTypes:
    """Compute the centroids of the types of an induction, which `write_induction` wrote, from its mentions.

    Raises:
        DataFormatError: the table of mentions has no settings of an induction.
        EventformersError: the folder has no induction, or it has another model than `encoder`, or several.
    """
    path = Path(folder).expanduser() / MENTIONS_FILE
    if not path.is_file():
        raise EventformersError(f"{path}: no such file; accepted: a folder that `eventformers induce` wrote")
    table = read_parquet(path)
    try:
        settings = json.loads((table.schema.metadata or {})[b"settings"])
        models = settings["models"]
    except (KeyError, ValueError) as error:
        raise DataFormatError(path, None, "no settings of an induction", "the file of `induce`") from error
    if [model["revision"] for model in models] != [encoder.revision]:
        told = ", ".join(f"{model['name']} ({str(model['revision'])[:12]})" for model in models)
        raise EventformersError(
            f"{folder}: the types were induced with {told}; received {encoder.name} "
            f"({str(encoder.revision)[:12]}); accepted: the one model of the induction"
        )
    rows = table.to_pylist()
    reading: TriggerInput = models[0]["trigger_input"]
    cluster = np.array([row["cluster"] for row in rows])
    # The clusters of the last round, not those that weighted its tokens, which are not kept.
    weighted_by = cluster if settings.get("weighting_rounds") else None
    factors = token_factors(encoder, reading, rows, weighted_by)
    vectors = encode_mentions(encoder, rows, trigger_input=reading, token_factors=factors).embeddings
    names = {row["cluster"]: row["cluster_name"] for row in rows}
    centroids = cluster_centroids(vectors, cluster)
    types = tuple(names[number] for number in range(len(centroids)))
    return FittedTypes(types, centroids, encoder, reading, factors)
