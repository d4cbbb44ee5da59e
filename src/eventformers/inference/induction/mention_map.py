"""Mentions on a plane, as points that a page can draw by itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from eventformers.inference.induction.mention_distances import Matrix

MOST_POINTS = 5_000
"""Mentions that are drawn at most; of more, some are drawn at random."""

MOST_BY_TSNE = 3_000
"""Mentions up to which t-SNE places them; beyond, principal components do, in a fraction of the time."""

COMPONENTS = 50
WIDTH, HEIGHT = 860, 620
MARGIN = 14

COLOURS = (
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e",
    "#9498a0",
)  # fmt: skip
SHAPES = ("circle", "square", "triangle", "diamond")
"""With more clusters than colours, the next round of colours has another shape."""

Places = NDArray[np.float64]


class Marker(NamedTuple):
    """How the mentions of a cluster are drawn.

    Attributes:
        colour: as CSS knows it.
        shape: one of `SHAPES`.
    """

    colour: str
    shape: str


def marker(cluster: int) -> Marker:
    """The marker of a cluster; they repeat after as many clusters as there are pairs of colour and shape."""
    return Marker(COLOURS[cluster % len(COLOURS)], SHAPES[cluster // len(COLOURS) % len(SHAPES)])


def place_mentions(vectors: Matrix, *, seed: int = 0) -> Places:
    """Place mentions on a plane, so that near vectors are near.

    Args:
        vectors: at length 1, `(n, d)`.
        seed: decides the start of t-SNE.

    Returns:
        Points in the picture, `(n, 2)`: within `WIDTH` and `HEIGHT` less the margins. Mentions that are all
        alike stand in its middle.
    """
    number = len(vectors)
    centred = vectors - vectors.mean(axis=0)
    if number < 2 or np.abs(centred).max() < 1e-6:
        return np.tile([WIDTH / 2, HEIGHT / 2], (number, 1))
    dimensions = min(COMPONENTS, *vectors.shape)
    components = PCA(dimensions, random_state=seed).fit_transform(centred)
    places = np.zeros((number, 2))
    places[:, : min(2, dimensions)] = components[:, :2]
    if 4 <= number <= MOST_BY_TSNE:
        perplexity = min(30.0, (number - 1) / 3)
        places = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(components)
    return _into_picture(places.astype(np.float64))


def drawn_mentions(number: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Which mentions are drawn: all, or `MOST_POINTS` of them at random, in their order."""
    if number <= MOST_POINTS:
        return np.arange(number)
    return np.sort(np.random.default_rng(seed).permutation(number)[:MOST_POINTS])


def path_of(shape: str, x: float, y: float, radius: float = 3.5) -> str:
    """The outline of a marker as the data of an SVG path, in whole tenths."""
    left, right, above, below = x - radius, x + radius, y - radius, y + radius
    if shape == "square":
        return f"M{left:.1f} {above:.1f}H{right:.1f}V{below:.1f}H{left:.1f}Z"
    if shape == "triangle":
        return f"M{left:.1f} {below:.1f}H{right:.1f}L{x:.1f} {above:.1f}Z"
    if shape == "diamond":
        return f"M{left:.1f} {y:.1f}L{x:.1f} {above:.1f}L{right:.1f} {y:.1f}L{x:.1f} {below:.1f}Z"
    arc = f"a{radius} {radius} 0 1 0"
    return f"M{left:.1f} {y:.1f}{arc} {2 * radius} 0{arc} {-2 * radius} 0Z"


def _into_picture(places: Places) -> Places:
    low, high = places.min(axis=0), places.max(axis=0)
    span = np.where(high > low, high - low, 1)
    room = np.array([WIDTH, HEIGHT]) - 2 * MARGIN
    return np.where(high > low, MARGIN + (places - low) / span * room, np.array([WIDTH, HEIGHT]) / 2)
