"""Groups of mentions of the same event: candidate pairs, their scores, and average linkage.

The scorer of pairs reads features, not texts: cosines of frozen vectors, the overlap of words of documents,
sentences and arguments, and equal lemmas. The logit rises with the cosine of vectors that an encoder with
trained upper layers gives. Since no cosine is above 1, most pairs are refused without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer
from torch import nn

from eventformers.files import file_digest
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import Positions, Vectors, unit_vectors
from eventformers.inference.induction.mention_distances import Labels
from eventformers.loading.pretrained import changed_weights

WEIGHTS = Path(__file__).with_name("pair_scorer.safetensors")
"""Weights learned from the training topics of ECB+ with vectors of all-MiniLM-L6-v2: those of the networks,
and the change of the upper layers of this encoder."""

ENCODER = "tuned_encoder."
"""Prefix of the names of the change of the encoder."""

WINDOW = 5
"""Number of words on each side of a trigger whose overlap is a feature."""

# fmt: off
REPORTING = frozenset({
    "accord", "add", "admit", "announce", "argue", "ask", "call", "claim", "confirm", "deny", "describe",
    "explain", "note", "report", "reveal", "say", "state", "suggest", "tell", "warn",
})
# fmt: on
"""Lemmas of English verbs of reporting: two of them are seldom the same event."""

_AT_ONCE = 20_000
_FARTHEST = 10.0
_PREFIX = 4

Mention = Mapping[str, Any]
"""`document_id`; `text`, its sentence; `trigger_start` and `trigger_end`, characters of the sentence; the
number of the `sentence`; the `lemma` of the trigger, and its `trigger_kind` (`verb`, `noun`, `adjective`);
the words that name its `participants`, which may be none; its `arguments`: the texts of its subject, its
object, and its other participants, times and places, each "" if unknown. Optional: `time_start`
and `time_end`, as in events; the `names`, the words of `objects` and `places`, the `numbers` of its sentence
and its `own_numbers`, which may each be none; whether it is a `plural` noun or has an `indefinite` object."""

DIFFERING = ("objects", "places", "numbers", "own_numbers")
"""What a mention may name, of which two reports that are not of the same days need a common one."""

NUM_FEATURES = 21
"""Number of features of a pair that the networks read."""


class MentionPairs:
    """The features of pairs of mentions of a collection.

    Args:
        vectors: vectors of the triggers in their sentences, `(n, d)`, at length 1.
        read_tuned: returns those of the mentions at some positions by `tuned_encoder`.
        encode: encodes the distinct triggers alone, in lower case.
    """

    def __init__(
        self,
        mentions: Sequence[Mention],
        documents: Mapping[str, str],
        vectors: Vectors,
        read_tuned: Callable[[Positions], Vectors],
        encode: Callable[[Sequence[str]], Vectors],
    ) -> None:
        self.vectors, self._read_tuned = vectors, read_tuned
        triggers = [one["text"][one["trigger_start"] : one["trigger_end"]].lower() for one in mentions]
        distinct = list(dict.fromkeys(triggers))
        row_of = {trigger: row for row, trigger in enumerate(distinct)}
        self._trigger = np.array([row_of[trigger] for trigger in triggers])
        self._triggers = unit_vectors(encode(distinct), distinct)
        names = list(documents)
        place_of = {name: place for place, name in enumerate(names)}
        self.document = np.array([place_of[one["document_id"]] for one in mentions])
        self.documents = text_overlaps([documents[name] for name in names], stop_words="english")
        self.sentences = text_overlaps([one["text"] for one in mentions])
        self._windows = text_overlaps([_window(one) for one in mentions])
        arguments = [one["arguments"] for one in mentions]
        self._arguments = [
            text_overlaps(texts, stop_words="english")
            for texts in (*zip(*arguments, strict=True), [" ".join(texts) for texts in arguments])
        ]
        self._sentence = np.array([one["sentence"] for one in mentions], dtype=np.float64)
        lemmas = [one["lemma"] for one in mentions]
        self.lemma = np.unique(lemmas, return_inverse=True)[1]
        self.prefix = np.unique([lemma[:_PREFIX] for lemma in lemmas], return_inverse=True)[1]
        self.noun = np.array([one["trigger_kind"] == "noun" for one in mentions])
        self._kind = np.unique([one["trigger_kind"] for one in mentions], return_inverse=True)[1]
        self.reports = np.array([lemma in REPORTING for lemma in lemmas])
        self.days = np.array([_days(one.get("time_start", ""), one.get("time_end", "")) for one in mentions])
        self.plural, self.indefinite = (
            np.array([one.get(key, False) for one in mentions]) for key in ("plural", "indefinite")
        )
        self.known: dict[str, csr_array] = {
            key: csr_array(
                MultiLabelBinarizer(sparse_output=True).fit_transform([one.get(key, ()) for one in mentions]),
                dtype=np.int32,
            )
            for key in ("participants", "names", *DIFFERING)
        }

    def features(self, first: Positions, second: Positions) -> NDArray[np.float32]:
        """Compute the features of pairs that the networks read, `(pairs, 21)`."""

        def equal(values: NDArray[Any]) -> NDArray[np.bool_]:
            return values[first] == values[second]

        same_document = equal(self.document)
        distance = np.minimum(np.abs(self._sentence[first] - self._sentence[second]), _FARTHEST)
        columns = [
            _cosines(self.vectors, first, second),
            _cosines(self._triggers, self._trigger[first], self._trigger[second]),
            _products(self.sentences, first, second),
            _products(self._windows, first, second),
            _products(self.documents, self.document[first], self.document[second]),
            same_document,
            equal(self.lemma),
            equal(self._trigger),
            equal(self.prefix),
            equal(self._kind),
            self.noun[first] + 1.0 * self.noun[second],
            self.reports[first] + 1.0 * self.reports[second],
            np.where(same_document, distance, _FARTHEST),
        ]
        for words in self._arguments:
            named = np.diff(words.indptr) > 0
            columns += [_products(words, first, second), named[first] & named[second]]
        return np.stack(columns, axis=1).astype(np.float32)

    def nearer(self, first: Positions, second: Positions) -> NDArray[np.float32]:
        """Return how much nearer the tuned vectors of pairs are, `(pairs,)`; only those are read."""
        members, places = np.unique(np.stack([first, second]), return_inverse=True)
        one, other = places.reshape(2, -1)
        tuned = self._read_tuned(members)
        cosines = _cosines(tuned, one, other) - _cosines(self.vectors, first, second)
        return cosines.astype(np.float32)


class PairScorer(nn.Module):
    """Networks with two hidden layers, whose logits rise with how much nearer the tuned vectors are; the mean
    of their probabilities is the score.
    """

    def __init__(self, num_features: int = NUM_FEATURES, num_networks: int = 3) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_features))
        self.register_buffer("deviation", torch.ones(num_features))
        self.register_buffer("tuned_weight", torch.zeros(()))
        self.networks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(num_features, 32),
                nn.ReLU(),
                nn.Dropout(0.1),
                nn.Linear(32, 16),
                nn.ReLU(),
                nn.Linear(16, 1),
            )
            for _ in range(num_networks)
        )

    def logits(self, features: torch.Tensor, nearer: torch.Tensor) -> torch.Tensor:
        """Return the logit of each pair by each network, `(networks, pairs)`."""
        scaled = (features - self.mean) / self.deviation
        logits = torch.stack([network(scaled).squeeze(1) for network in self.networks])
        return logits + self.tuned_weight * nearer

    def forward(self, features: torch.Tensor, nearer: torch.Tensor) -> torch.Tensor:
        """Return the probability of each pair, `(pairs,)`."""
        return torch.sigmoid(self.logits(features, nearer)).mean(0)

    def save(self, path: Path) -> None:
        """Write the weights."""
        save_file(self.state_dict(), path)

    @classmethod
    def load(cls, path: Path = WEIGHTS) -> PairScorer:
        """Read weights, by default the packaged ones."""
        scorer = cls()
        weights = load_file(path)
        scorer.load_state_dict({name: weights[name] for name in scorer.state_dict()})
        return scorer.eval()


@cache
def packaged_scorer() -> PairScorer:
    """Return the packaged scorer."""
    return PairScorer.load()


def tuned_encoder(encoder: EventEncoder) -> EventEncoder:
    """Return a copy of the packaged encoder with the trained upper layers."""
    packaged = load_file(WEIGHTS).items()
    change = {name.removeprefix(ENCODER): value for name, value in packaged if name.startswith(ENCODER)}
    model = deepcopy(encoder.model)
    weights = {name: value.float().cpu() for name, value in model.state_dict().items()}
    model.load_state_dict(changed_weights({"prefixes": [""], "left_out": []}, weights, change))
    return replace(encoder, model=model, revision=file_digest(WEIGHTS), memory=None)


def _days(start: str, end: str) -> tuple[float, float]:
    """The first and the last day of a time as numbers, of a season those of its year; NaN if unknown."""
    ends = []
    for time in (start, end):
        # EDTF writes seasons as months from 21.
        known = np.datetime64(time[:4] if time[5:7] > "12" else time) if time else np.datetime64("NaT")
        ends.append(known)
    last = (ends[1] + 1).astype("datetime64[s]") - 1
    days = np.array([ends[0], last], dtype="datetime64[D]")
    return tuple(np.where(np.isnat(days), np.nan, days.astype(np.float64)).tolist())


def _window(mention: Mention) -> str:
    before = mention["text"][: mention["trigger_start"]].split()[-WINDOW:]
    return " ".join(before + mention["text"][mention["trigger_end"] :].split()[:WINDOW])


def text_overlaps(texts: Sequence[str], **options: Any) -> csr_array:
    """TF-IDF of texts at length 1; a text without a word has none."""
    analyse = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **options)
    try:
        return csr_array(analyse.fit_transform(texts))
    except ValueError:
        # No text has a word that counts.
        return csr_array((len(texts), 1), dtype=np.float32)


def _cosines(rows: NDArray[np.floating], first: Positions, second: Positions) -> NDArray[np.floating]:
    blocks = [slice(start, start + _AT_ONCE) for start in range(0, len(first), _AT_ONCE)]
    products = [np.einsum("nd,nd->n", rows[first[one]], rows[second[one]]) for one in blocks]
    return np.concatenate(products) if products else np.empty(0)


def _products(rows: csr_array, first: Positions, second: Positions) -> NDArray[np.floating]:
    return np.asarray(rows[first].multiply(rows[second]).sum(axis=1)).ravel()


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
