"""A map of mentions in two dimensions, drawn as SVG."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from eventformers.inference.induction.mention_distances import Matrix

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
