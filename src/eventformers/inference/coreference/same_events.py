"""Groups of mentions of the same event: candidate pairs, their scores, and average linkage."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform

from eventformers.inference.coreference.pair_scorer import DIFFERING, NUM_FEATURES, MentionPairs, PairScorer
from eventformers.inference.encoding.vectors import Positions
from eventformers.inference.induction.mention_distances import Labels

THRESHOLD = 0.3
"""Minimum mean probability between two groups that become one."""

NEAR_DOCUMENTS = 10
"""Number of the most similar documents whose mentions are compared with those of a document."""

MOST_DOCUMENTS = 100
"""The same for mentions that such comparisons link: many documents report one event."""

LEAST_OVERLAP = 0.1
"""Minimum TF-IDF cosine of two documents whose mentions are compared."""

LEAST_COSINE = 0.4
"""Minimum cosine of two triggers in their sentences to be compared, unless their lemmas are equal."""

DAYS_APART = 1
"""Days between the known times of two mentions from which on they are not compared; reports round times."""

SERIES_DAYS = 3
"""Days between two reports from which on, as if a day is unknown, events need more than alike words."""

SHARED_NAMES = 0.5
"""Minimum share of the names of two such mentions that both have, unless their times are the same."""

LONGEST_TIME = 31
"""Maximum number of days of times that may be the same: two events of one year are no equal ones."""

STOCK_SENTENCE, STOCK_OVERLAP = 0.9, 0.25
"""TF-IDF cosines: sentences that are more alike, in documents that are less, are stock phrases."""

REPORTED_OVERLAP = 0.5
"""Minimum TF-IDF cosine of two sentences whose triggers are reporting verbs: who says something says more."""

_DOCUMENTS_AT_ONCE = 512
_MENTIONS_AT_ONCE = 128
_PAIRS_AT_ONCE = 20_000
_LARGEST = 3_000
_LEAST_PROBABILITY = 0.1


def same_events(
    pairs: MentionPairs,
    scorer: PairScorer,
    *,
    threshold: float = THRESHOLD,
    days: Sequence[float] | NDArray[np.float64] = (),
    topics: Labels | None = None,
    across: bool = False,
) -> Labels:
    """Group mentions that refer to the same event.

    Mentions are compared within a document and with those of its most similar documents, so the cost grows
    with the number of mentions, not of their pairs. Mentions of two documents that both name participants,
    but no common one, are not compared, nor are those of other times: a series of reports has similar events.
    With days, neither are stock sentences, a noun and its plural, and what different sentences report; and
    reports that are not of the same days need common names or times and lemmas that begin alike, and no other
    objects, places or numbers, nor an indefinite object ("a speech") both times.
    With given topics, all mentions of a topic are compared instead, and no others.
    Groups grow by average linkage on the probabilities, where a pair that is not compared counts as 0.

    Args:
        threshold: minimum mean probability between two groups that become one.
        days: the day of each document as a number, NaN if unknown; documents more than 30 days apart are not
            compared. Empty if none is known.
        topics: the topic of each mention, `(n,)`; None for none.
        across: leave out groups that can only have mentions of one document, and compare mentions that pairs
            link in more documents, since many may report one event.

    Returns:
        The group of each mention, `(n,)`, numbered from 0 in the order of their first mentions.
    """
    number = len(pairs.document)
    of_documents = np.asarray(days, dtype=np.float64)
    compared = candidate_pairs(pairs, of_documents) if topics is None else pairs_within(topics)
    first, second, features, highest = _likely(pairs, scorer, *compared)
    if across:
        linked = highest >= threshold
        graph = csr_array((linked[linked], (first[linked], second[linked])), shape=(number, number))
        part = connected_components(graph, directed=False)[1]
        others = candidate_pairs(pairs, of_documents, part)
        one, other = (np.concatenate(sides) for sides in zip((first, second), others, strict=True))
        first, second, features, _ = _likely(pairs, scorer, *_distinct(one, other, number))
        of_part = np.unique(np.stack([part, pairs.document]), axis=1)[0]
        inside = (part[first] == part[second]) & (np.bincount(of_part) > 1)[part[first]]
        first, second, features = first[inside], second[inside], features[inside]
    probabilities = _probabilities(scorer, features, pairs.nearer(first, second))
    return linked_pairs(first, second, probabilities, number, threshold)


def _likely(
    pairs: MentionPairs, scorer: PairScorer, first: Positions, second: Positions
) -> tuple[Positions, Positions, NDArray[np.float32], NDArray[np.float32]]:
    """Return the pairs that can be likely, their features, and the highest probability that they can have."""
    found = [(first[:0], np.empty((0, NUM_FEATURES), np.float32), np.empty(0, np.float32))]
    for start in range(0, len(first), _PAIRS_AT_ONCE):
        block = slice(start, start + _PAIRS_AT_ONCE)
        features = pairs.features(first[block], second[block])
        # No tuned vectors are nearer than equal ones.
        highest = _probabilities(scorer, features, 1 - features[:, 0])
        kept = np.flatnonzero(highest >= _LEAST_PROBABILITY)
        found.append((start + kept, features[kept], highest[kept]))
    chosen, features, highest = (np.concatenate(part) for part in zip(*found, strict=True))
    return first[chosen], second[chosen], features, highest


def _distinct(first: Positions, second: Positions, number: int) -> tuple[Positions, Positions]:
    distinct = np.unique(first * number + second)
    return distinct // number, distinct % number


@torch.inference_mode()
def _probabilities(
    scorer: PairScorer, features: NDArray[np.float32], nearer: NDArray[np.float32]
) -> NDArray[np.float32]:
    return scorer(torch.from_numpy(features), torch.from_numpy(nearer)).numpy()


def linked_pairs(
    first: Positions, second: Positions, probabilities: NDArray[np.float32], number: int, threshold: float
) -> Labels:
    """Group mentions by the probabilities of their pairs; see `same_events`.

    Args:
        first: the earlier mention of each pair.
        second: the later one.
        probabilities: of each pair, `(pairs,)`.
        number: number of mentions.
        threshold: minimum mean probability between two groups that become one.
    """
    labels = np.arange(number)
    kept = probabilities >= _LEAST_PROBABILITY
    graph = csr_array(
        (probabilities[kept].astype(np.float64), (first[kept], second[kept])), shape=(number, number)
    )
    graph = graph + graph.T
    for members in _components(graph, np.arange(number), threshold):
        distances = 1 - graph[members][:, members].toarray()
        np.fill_diagonal(distances, 0)
        joined = linkage(squareform(distances, checks=False), "average")
        groups = fcluster(joined, 1 - threshold, "distance")
        _, first_of, group = np.unique(groups, return_index=True, return_inverse=True)
        labels[members] = members[first_of[group]]
    return np.unique(labels, return_inverse=True)[1]


def pairs_within(topics: Labels) -> tuple[Positions, Positions]:
    """Return all pairs of mentions of the same topic, the earlier mention of each first."""
    order = np.argsort(topics, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(topics[order])) + 1)
    first, second = zip(*(part[np.stack(np.triu_indices(len(part), 1))] for part in parts), strict=True)
    return np.concatenate(first), np.concatenate(second)


def candidate_pairs(
    pairs: MentionPairs, days: NDArray[np.float64], part: Labels | None = None
) -> tuple[Positions, Positions]:
    """Find the pairs of mentions to compare, the earlier mention of each first; with the part of each mention
    only pairs within a part, but those of more documents."""
    order = np.argsort(pairs.document, kind="stable")
    if part is not None:
        order = order[np.bincount(part)[part[order]] > 1]
    most = NEAR_DOCUMENTS if part is None else MOST_DOCUMENTS
    first_days, last_days = pairs.days.T
    is_short = last_days - first_days < LONGEST_TIME
    names = pairs.known["names"]
    num_names = names.sum(axis=1)
    starts = np.searchsorted(pairs.document[order], np.arange(pairs.documents.shape[0] + 1))
    members = [order[start:end] for start, end in pairwise(starts)]
    found: list[tuple[Positions, Positions]] = []
    for document, near in enumerate(_near_documents(pairs.documents, days, most)):
        others = np.concatenate([members[document], *(members[other] for other in near.tolist())])
        for start in range(0, len(members[document]), _MENTIONS_AT_ONCE):
            own = members[document][start : start + _MENTIONS_AT_ONCE]
            alike = pairs.vectors[own] @ pairs.vectors[others].T >= LEAST_COSINE
            alike |= pairs.lemma[own][:, None] == pairs.lemma[others]
            if part is not None:
                alike &= part[own][:, None] == part[others]
            strangers = _are_other(pairs.known["participants"], own, others)
            # An unknown day is apart from none, and the same as none.
            after = first_days[own][:, None] - last_days[others]
            before = first_days[others] - last_days[own][:, None]
            strangers |= np.fmax(after, before) > DAYS_APART
            if len(days):
                apart = ~(np.abs(days[pairs.document[others]] - days[document]) <= SERIES_DAYS)
                common = _shared(names, own, others)
                is_same_time = np.maximum(after, before) <= DAYS_APART
                is_same_time &= is_short[own][:, None] & is_short[others]
                of_either = num_names[own][:, None] + num_names[others] - common
                few = common < SHARED_NAMES * np.maximum(of_either, 1)
                differ = (few & ~is_same_time) | (pairs.prefix[own][:, None] != pairs.prefix[others])
                indefinite = pairs.indefinite[own][:, None] & pairs.indefinite[others]
                differ |= indefinite & (_shared(pairs.known["own_numbers"], own, others) == 0)
                for key in DIFFERING:
                    differ |= _are_other(pairs.known[key], own, others)
                strangers |= apart & differ
                is_noun = pairs.noun[own][:, None] & pairs.noun[others]
                strangers |= is_noun & (pairs.plural[own][:, None] != pairs.plural[others])
                unlike = (pairs.documents[[document]] @ pairs.documents[pairs.document[others]].T).toarray()
                alike_sentences = (pairs.sentences[own] @ pairs.sentences[others].T).toarray()
                strangers |= (alike_sentences >= STOCK_SENTENCE) & (unlike < STOCK_OVERLAP)
                reports = pairs.reports[own][:, None] | pairs.reports[others]
                strangers |= reports & (alike_sentences < REPORTED_OVERLAP)
            alike &= ~strangers | (pairs.document[own][:, None] == pairs.document[others])
            row, column = np.nonzero(alike)
            one, other = own[row], others[column]
            found.append((np.minimum(one, other), np.maximum(one, other)))
    if not found:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    first, second = (np.concatenate(side) for side in zip(*found, strict=True))
    # A pair of documents may be near in both directions.
    first, second = _distinct(first, second, len(pairs.document))
    return first[first != second], second[first != second]


def _shared(known: csr_array, own: Positions, others: Positions) -> NDArray[np.int32]:
    return (known[own] @ known[others].T).toarray()


def _are_other(known: csr_array, own: Positions, others: Positions) -> NDArray[np.bool_]:
    """True for mentions that both name something, but nothing in common, `(own, others)`."""
    named = np.diff(known.indptr) > 0
    return (_shared(known, own, others) == 0) & named[own][:, None] & named[others]


def _near_documents(documents: csr_array, days: NDArray[np.float64], most: int) -> list[Positions]:
    """The most similar other documents of each."""
    near: list[Positions] = []
    transposed = documents.T.tocsc()
    for start in range(0, documents.shape[0], _DOCUMENTS_AT_ONCE):
        overlaps = (documents[start : start + _DOCUMENTS_AT_ONCE] @ transposed).tocsr()
        for row, (low, high) in enumerate(pairwise(overlaps.indptr), start=start):
            others, values = overlaps.indices[low:high], overlaps.data[low:high]
            kept = (values >= LEAST_OVERLAP) & (others != row)
            if len(days):
                # An unknown day is near to all.
                kept &= ~(np.abs(days[others] - days[row]) > 30)
            others, values = others[kept], values[kept]
            near.append(others[np.argsort(-values, kind="stable")[:most]])
    return near


def _components(graph: csr_array, members: Positions, least: float) -> list[Positions]:
    """Divide mentions into parts that are linked by no probability of at least `least`, of two mentions or
    more; a part that is too large for a matrix of its pairs is divided at a higher one."""
    inside = graph[members][:, members]
    inside.data[inside.data < least] = 0
    inside.eliminate_zeros()
    _, component = connected_components(inside, directed=False)
    order = np.argsort(component, kind="stable")
    parts = np.split(members[order], np.flatnonzero(np.diff(component[order])) + 1)
    found: list[Positions] = []
    for part in parts:
        if len(part) > _LARGEST and least < 0.99:
            found += _components(graph, part, (1 + least) / 2)
        elif len(part) > 1:
            found.append(part)
    return found
