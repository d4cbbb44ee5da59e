"""The scorer of pairs of mentions: the probability that both refer to the same event.

It reads features of a pair, not its text: cosines of frozen vectors, the overlap of words of the documents,
sentences and arguments, and equal lemmas. The logit rises with the cosine of vectors that an encoder with
trained upper layers gives. Since no cosine is above 1, most pairs are refused without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer
from torch import nn

from eventformers.files import file_digest
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import Positions, Vectors, unit_vectors
from eventformers.loading.pretrained import changed_weights

WEIGHTS = Path(__file__).with_suffix(".safetensors")
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
