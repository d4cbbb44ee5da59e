"""Names for clusters of mentions, from given names, their most central triggers or their words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventformers.errors import EventformersError
from eventformers.inference.encoding.unit_vectors import rounded_cosines, unit_vectors
from eventformers.inference.induction.mention_distances import Labels, Matrix

_WORD = re.compile(r"[^\W\d_]{3,}")


class ScoredLabel(NamedTuple):
    """A label of a cluster with its score.

    Attributes:
        label: a name, a frame, a trigger or a word.
        score: the cosine with the centroid; for a trigger, the sum of cosines over its mentions divided by
            the size of the cluster; for a word, how much more often it occurs in the cluster than overall, in
            bits.
    """

    label: str
    score: float


def cluster_centroids(embeddings: Matrix, labels: Labels) -> NDArray[np.float64]:
    """Compute the centroid of each cluster: the normalised mean of its mentions' normalised vectors.

    Args:
        embeddings: encoder vectors, `(n, d)`.
        labels: the cluster of each mention, from 0, `(n,)`.

    Returns:
        `(clusters, d)`.

    Raises:
        EventformersError: a vector is NaN, infinite or zero, or the vectors of a cluster cancel out.
    """
    units = unit_vectors(embeddings, [f"mention {place}" for place in range(len(embeddings))])
    sums = np.zeros((int(labels.max()) + 1, units.shape[1]))
    np.add.at(sums, labels, units)
    return unit_vectors(sums, [f"the centroid of cluster {place}" for place in range(len(sums))])


def label_cosines(
    centroids: NDArray[np.float64], vectors: Matrix, labels: Sequence[str]
) -> NDArray[np.float64]:
    """Compute the cosines of each centroid with each label's vector, `(clusters, labels)`.

    Args:
        centroids: at length 1, `(clusters, d)`.
        vectors: encoder vectors of the labels' texts, `(labels, d)`.
        labels: the labels, for errors.

    Raises:
        EventformersError: a vector is NaN, infinite or zero.
    """
    return rounded_cosines(centroids @ unit_vectors(vectors, labels).T)


def best_labels(
    cosines: NDArray[np.float64], labels: Sequence[str], top: int
) -> list[tuple[ScoredLabel, ...]]:
    """Return the nearest labels of each cluster, nearest first; ties keep the order of the list."""
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :top]
    return [
        tuple(ScoredLabel(labels[place], float(row[place])) for place in places)
        for row, places in zip(cosines, order, strict=True)
    ]


def label_ranks(
    cosines: NDArray[np.float64], labels: Sequence[str], valid: Sequence[Collection[str]]
) -> list[float]:
    """Compute the best rank of a valid label for each cluster (Edwards and Ji, section 2.2).

    Args:
        cosines: `(clusters, labels)`.
        labels: the labels.
        valid: the correct labels of each cluster.

    Returns:
        Ranks from 1, plus half a rank for each wrong label that ties with the best correct one; infinite if
        no label is correct.

    Raises:
        EventformersError: the number of collections differs from the number of clusters.
    """
    if len(valid) != len(cosines):
        raise EventformersError(
            f"received valid labels for {len(valid)} clusters; accepted: for all {len(cosines)}"
        )
    ranks = []
    for row, right in zip(cosines, valid, strict=True):
        is_right = np.fromiter((label in right for label in labels), dtype=bool, count=len(labels))
        if not is_right.any():
            ranks.append(float("inf"))
            continue
        best, wrong = row[is_right].max(), row[~is_right]
        ranks.append(1 + float(np.sum(wrong > best)) + float(np.sum(wrong == best)) / 2)
    return ranks


def name_clusters(
    centroids: NDArray[np.float64], names: Sequence[str], vectors: Matrix, top: int = 5
) -> list[tuple[ScoredLabel, ...]]:
    """Rank given names for each cluster by cosine with its centroid (Edwards and Ji, section 2.2).

    Args:
        centroids: at length 1, `(clusters, d)`.
        names: names of event types or of frames; two clusters may get the same name.
        vectors: encoder vectors of the names, or of the frames' definitions, `(names, d)`.
        top: number of names to return.

    Returns:
        The names of each cluster, best first.

    Raises:
        EventformersError: there are no names, or a vector is not valid.
    """
    if not names:
        raise EventformersError("the names are empty; accepted: at least one name, or None")
    return best_labels(label_cosines(centroids, vectors, names), names, top)


def central_triggers(
    embeddings: Matrix,
    labels: Labels,
    centroids: NDArray[np.float64],
    triggers: Sequence[str],
    top: int = 5,
) -> list[tuple[ScoredLabel, ...]]:
    """Return the most central triggers of each cluster.

    The score of a trigger sums the cosines of all of its mentions, ignoring case, so that neither a rare
    trigger at the centre nor a frequent one at the edge comes first.

    Args:
        embeddings: encoder vectors, `(n, d)`.
        labels: the cluster of each mention, `(n,)`.
        centroids: at length 1, `(clusters, d)`.
        triggers: the trigger of each mention; "" if there is none.
        top: number of triggers to return.

    Returns:
        The triggers of each cluster, most central first; empty if no mention of it has one.
    """
    units = unit_vectors(embeddings, list(triggers))
    cosines = np.einsum("nd,nd->n", units, centroids[labels])
    sizes = np.bincount(labels, minlength=len(centroids))
    sums: list[dict[str, float]] = [defaultdict(float) for _ in centroids]
    for label, trigger, cosine in zip(labels, triggers, cosines, strict=True):
        if name := " ".join(trigger.lower().split()):
            sums[label][name] += max(0.0, float(cosine))
    return [_highest(found, int(size), top) for found, size in zip(sums, sizes, strict=True)]


def telling_words(texts: Sequence[str], labels: Labels, top: int = 5) -> list[tuple[ScoredLabel, ...]]:
    """Return the words that distinguish each cluster, for mentions without triggers.

    A word scores p log2(p / q), where p and q are the shares of texts with the word, in the cluster and
    overall. Words are runs of at least three letters.

    Args:
        texts: the sentences, `(n,)`.
        labels: the cluster of each, `(n,)`.
        top: number of words to return.

    Returns:
        The words of each cluster, best first; empty if no text has one.
    """
    clusters = int(labels.max()) + 1
    inside = [Counter[str]() for _ in range(clusters)]
    everywhere: Counter[str] = Counter()
    for text, label in zip(texts, labels, strict=True):
        words = {word.lower() for word in _WORD.findall(text)}
        inside[label].update(words)
        everywhere.update(words)
    sizes = np.bincount(labels, minlength=clusters)
    named = []
    for counts, size in zip(inside, sizes, strict=True):
        shares = {word: (count / size, everywhere[word] / len(texts)) for word, count in counts.items()}
        scores = {word: share * float(np.log2(share / of_all)) for word, (share, of_all) in shares.items()}
        named.append(_highest(scores, 1, top))
    return named


def majority_type(types: Iterable[str]) -> tuple[str, int]:
    """Return the most frequent type and its count; ties go by the alphabet.

    Args:
        types: the types; "" if unknown, which does not count.

    Returns:
        The type and its count; "" and 0 if no type is known.
    """
    counts = Counter(name for name in types if name)
    return min(counts.items(), key=lambda item: (-item[1], item[0]), default=("", 0))


def _highest(scores: dict[str, float], scale: int, top: int) -> tuple[ScoredLabel, ...]:
    order = sorted(scores, key=lambda label: (-scores[label], label))[:top]
    return tuple(ScoredLabel(label, scores[label] / scale) for label in order)
