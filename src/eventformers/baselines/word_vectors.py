"""Word2Vec on narrative chains, with gensim (extra `baselines`).

A chain is one text with the words of its events in order, so that a word is near the words of neighbouring
events. The vector of an event is the sum of the vectors of its words (Granroth-Wilding and Clark, AAAI 2016;
Gao et al., ACL 2022).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError
from eventformers.inference.chains.scorers import EncoderChainScorer
from eventformers.strict import StrictSettings, count, strict_settings

ROLES = ("subject", "predicate", "object")


@strict_settings
@dataclass(frozen=True)
class WordVectorSettings(StrictSettings):
    """Training of word vectors: skip-gram with negative sampling.

    Attributes:
        window: number of words on either side that a word predicts.
        epochs: passes over the chains.
        negatives: number of negative samples for each predicted word.
        min_count: minimum number of occurrences of a word.
    """

    dimension: int = count(100)
    window: int = count(10)
    epochs: int = count(20)
    negatives: int = count(10)
    min_count: int = count(2)


@dataclass(frozen=True)
class WordVectors:
    """Vectors of words.

    Attributes:
        vectors: `(words, dimension)`.
    """

    index: dict[str, int]
    vectors: NDArray[np.float32]

    def embed(self, events: Sequence[Event]) -> NDArray[np.float32]:
        """Sum of the vectors of each event's words, `(events, dimension)`.

        An event with only unknown words gets the mean vector of all words, which is near none of them.
        """
        unknown = self.vectors.mean(axis=0)
        rows = [[self.index[word] for word in event_words(event) if word in self.index] for event in events]
        return np.stack([self.vectors[row].sum(axis=0) if row else unknown for row in rows])

    def scorer(self) -> EncoderChainScorer:
        """The vectors as a scorer of chains: the mean cosine with the context."""
        return EncoderChainScorer(self.embed, name="word2vec")


def role_words(event: Event) -> list[list[str]]:
    """The words of subject, predicate and object, in lower case; none for an absent role."""
    return [text.lower().split() for text in (event["subject"], event["predicate"], event["object"])]


def event_words(event: Event) -> list[str]:
    """The words of an event, in lower case."""
    return [word for words in role_words(event) for word in words]


def train_word_vectors(
    chains: Iterable[Sequence[Event]], settings: WordVectorSettings | None = None, *, seed: int = 42
) -> WordVectors:
    """Train Word2Vec on chains; the same seed gives the same vectors.

    Args:
        chains: the events of each chain, in order.
        seed: seed of the initial vectors and of the negative samples.

    Raises:
        EventformersError: no word occurs often enough.
    """
    from gensim.models import Word2Vec

    settings = settings or WordVectorSettings()
    texts = [[word for event in events for word in event_words(event)] for events in chains]
    model = Word2Vec(
        vector_size=settings.dimension,
        window=settings.window,
        min_count=settings.min_count,
        negative=settings.negatives,
        sg=1,
        epochs=settings.epochs,
        seed=seed,
        # Several threads finish in varying order, and each order gives other vectors.
        workers=1,
    )
    model.build_vocab(texts)
    if not model.wv.index_to_key:
        raise EventformersError(
            f"no word of the {len(texts):,} chains occurs {settings.min_count} times; accepted: a lower "
            "min_count or more chains"
        )
    model.train(texts, total_examples=len(texts), epochs=settings.epochs)
    return WordVectors(dict(model.wv.key_to_index), np.array(model.wv.vectors))
