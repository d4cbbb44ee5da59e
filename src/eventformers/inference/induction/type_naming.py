"""Names for clusters of mentions: given ones, frames, or their own terms; and reasons why one is weak."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

from eventformers.datasets_scripts.frame_reader import frame_descendants
from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import EventformersError
from eventformers.inference.encoding.vectors import rounded_cosines, unit_vectors
from eventformers.inference.induction.mention_distances import Labels, Matrix
from eventformers.inference.search import import_bm25s

FEWEST_MENTIONS = 3
"""Minimum number of mentions of a cluster that is not weak."""

WEAK_SHARE = 0.9
"""Share of a cluster's mentions in one document, or with stop words as triggers, from which it is weak."""

Counts = ArrayLike
"""Numbers of occurrences, integers."""

_WORD = re.compile(r"[^\W\d_]{3,}")
_PART = re.compile(r"[^\W_]+")


class ScoredLabel(NamedTuple):
    """A label of a cluster, which is a name, a frame or a term such as a trigger, an object or a word, with
    its score: the cosine with the centroid, for a term its keyness."""

    label: str
    score: float


def cluster_centroids(embeddings: Matrix, labels: Labels) -> NDArray[np.float64]:
    """Compute the centroid of each cluster, `(clusters, d)`: the normalised mean of its mentions' normalised
    vectors, `(n, d)`.

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
    """Compute the cosines of each centroid, of length 1, with each label's vector, `(clusters, labels)`."""
    return rounded_cosines(centroids @ unit_vectors(vectors, labels).T)


def label_ranks(
    cosines: NDArray[np.float64], labels: Sequence[str], valid: Sequence[Collection[str]]
) -> list[float]:
    """Compute the best rank of a valid label for each cluster (Edwards and Ji, section 2.2).

    Args:
        cosines: `(clusters, labels)`.
        valid: the correct labels of each cluster.

    Returns:
        Ranks from 1, plus half a rank for each wrong label that ties with the best correct one; infinite if
        no label is correct.
    """
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

    Returns:
        The `top` names of each cluster, best first; ties keep the order of the names.
    """
    cosines = label_cosines(centroids, vectors, names)
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :top]
    return [
        tuple(ScoredLabel(names[place], float(row[place])) for place in places)
        for row, places in zip(cosines, order, strict=True)
    ]


def keyness(inside: Counts, size: Counts, everywhere: Counts, total: Counts) -> NDArray[np.float64]:
    """Compute how much more often terms occur in a group than outside of it: the signed log-likelihood G2.

    G2 = 2 sum O ln(O / E) over the four cells of the table of a term and other terms, in the group and
    outside of it, with the counts E that are expected if both are independent (Dunning, 1993, "Accurate
    Methods for the Statistics of Surprise and Coincidence"). If they are, G2 exceeds 3.84 with a probability
    of 5 %, and 15.13 with 0.01 %. Unlike a ratio of shares, it does not rank terms that occur once first.

    Args:
        inside: count of each term in its group, of any shape; the other arguments have the same shape or one
            that broadcasts to it.
        size: count of all terms in the group.
        everywhere: count of the term in all groups together.
        total: count of all terms in all groups together.

    Returns:
        G2, 0 or more, for a term that is more frequent in the group; -G2 for one that is less frequent.
    """
    in_group, of_group, of_term, of_all = (
        np.asarray(count, dtype=np.int64) for count in (inside, size, everywhere, total)
    )
    elsewhere, others, rest = of_term - in_group, of_all - of_term, of_all - of_group
    observed = (in_group, elsewhere, of_group - in_group, rest - elsewhere)
    products = (of_term * of_group, of_term * rest, others * of_group, others * rest)
    divergence = np.sum(
        [
            rel_entr(count, product / np.maximum(of_all, 1))
            for count, product in zip(observed, products, strict=True)
        ],
        axis=0,
    )
    return np.sign(in_group * of_all - products[0]) * np.maximum(2 * divergence, 0.0)


def key_terms(terms: Sequence[Iterable[str]], labels: Labels, top: int = 5) -> list[tuple[ScoredLabel, ...]]:
    """Return the `top` terms of highest `keyness` of each cluster, best first; none if its mentions have no
    terms.

    Terms ignore case, and each counts once for a mention. Terms that contain only stop words come last,
    unless they are most of the cluster's; terms that are less frequent in the cluster than elsewhere are left
    out. Ties go by frequency, then by the alphabet.

    Args:
        terms: the terms of each mention, such as its trigger and its object, or the words of its sentence.
        labels: the cluster of each mention, from 0, `(n,)`.
    """
    inside = [Counter[str]() for _ in range(int(labels.max()) + 1)]
    everywhere: Counter[str] = Counter()
    for found, label in zip(terms, labels.tolist(), strict=True):
        distinct = {name for term in found if (name := _normalised(term))}
        inside[label].update(distinct)
        everywhere.update(distinct)
    named = []
    for counts in inside:
        overall = [everywhere[name] for name in counts]
        scores = keyness([*counts.values()], counts.total(), overall, everywhere.total()).tolist()
        stop_words = {name for name in counts if has_only_stop_words(name)}
        if 2 * sum(counts[name] for name in stop_words) > counts.total():
            stop_words = set()
        ranked = sorted(
            (name in stop_words, -score, -counts[name], name)
            for name, score in zip(counts, scores, strict=True)
            if score >= 0
        )
        named.append(tuple(ScoredLabel(name, -score) for _, score, _, name in ranked[:top]))
    return named


def words_of(text: str) -> list[str]:
    """Return the words of a text: runs of at least three letters."""
    return _WORD.findall(text)


def has_only_stop_words(text: str) -> bool:
    """True if a text has no word but English stop words, such as "was" or "it"."""
    return _stop_words().issuperset(_PART.findall(text.lower()))


@functools.cache
def _stop_words() -> frozenset[str]:
    listed = import_bm25s("stopwords").STOPWORDS_EN_PLUS
    return frozenset(part for word in listed for part in _PART.findall(word))


def weaknesses(triggers: Sequence[str], document_ids: Sequence[str], labels: Labels) -> list[str]:
    """Explain for each cluster why it is weak as an event type; "" for one that is not.

    A cluster is weak if it has fewer than `FEWEST_MENTIONS` mentions, or if at least `WEAK_SHARE` of them are
    in one document (of several), or have a trigger that contains only stop words.

    Args:
        triggers: the trigger of each mention; "" if there is none.
        document_ids: the document of each mention; "" if unknown.
        labels: the cluster of each mention, from 0, `(n,)`.
    """
    in_documents = [Counter[str]() for _ in range(int(labels.max()) + 1)]
    by_trigger = [Counter[str]() for _ in in_documents]
    for trigger, document_id, label in zip(triggers, document_ids, labels.tolist(), strict=True):
        in_documents[label][document_id] += 1
        by_trigger[label][_normalised(trigger)] += 1
    is_one_document = len(set(document_ids)) == 1
    weak = []
    for documents, of_cluster in zip(in_documents, by_trigger, strict=True):
        size = documents.total()
        if size < FEWEST_MENTIONS:
            weak.append(f"fewer than {FEWEST_MENTIONS} mentions")
            continue
        reasons = []
        document_id, count = documents.most_common(1)[0]
        if document_id and not is_one_document and count >= WEAK_SHARE * size:
            reasons.append(f"{count:,} of {size:,} mentions are in one document, {document_id}")
        stop_words = Counter({name: of_cluster[name] for name in of_cluster if has_only_stop_words(name)})
        del stop_words[""]
        if stop_words.total() >= WEAK_SHARE * size:
            named = ", ".join(name for name, _ in stop_words.most_common(3))
            reasons.append(f"{stop_words.total():,} of {size:,} triggers are stop words: {named}")
        weak.append("; ".join(reasons))
    return weak


def majority_type(types: Iterable[str]) -> tuple[str, int]:
    """Return the most frequent type and its count; ties go by the alphabet. "" is an unknown type and does
    not count; "" and 0 if no type is known."""
    counts = Counter(name for name in types if name)
    return min(counts.items(), key=lambda item: (-item[1], item[0]), default=("", 0))


def _normalised(term: str) -> str:
    return " ".join(term.lower().split())


class Frames(NamedTuple):
    """Frames to link to.

    Attributes:
        descendants: the frames that inherit from each, directly and through others.
        left_out: number of frames without a definition, which cannot be linked.
    """

    names: list[str]
    definitions: list[str]
    descendants: dict[str, set[str]]
    left_out: int


def load_frames(data: str | Path | None) -> Frames:
    """Load frames of raw files, a built folder or a Hub id of `EventTypes`, config `frames`; None uses the
    samples.

    Raises:
        EventformersError: the frames cannot be loaded, or none has a definition.
    """
    rows = [row for split in load_built(data, "frames", builder="event_types").values() for row in split]
    return defined_frames(rows, str(data))


def defined_frames(rows: Sequence[Mapping[str, Any]], place: str = "the data") -> Frames:
    """Select the frames that have a definition from rows of `EventTypes`, config `frames`; `place` names
    their source in the error if there is none."""
    defined = [row for row in rows if row["definition"].strip()]
    if not defined:
        raise EventformersError(f"{place}: found no frame with a definition; accepted: at least one")
    return Frames(
        names=[row["name"] for row in defined],
        definitions=[row["definition"] for row in defined],
        descendants=frame_descendants(rows),
        left_out=len(rows) - len(defined),
    )


def valid_frames(mapped: Iterable[str], descendants: Mapping[str, Collection[str]]) -> set[str]:
    """Return the correct frames for a type: the frames it maps to and their descendants."""
    found = set(mapped)
    return found.union(*(descendants.get(name, ()) for name in found))
