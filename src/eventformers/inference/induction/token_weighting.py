"""Clustering in rounds: tokens are weighted by how strongly they depend on the clusters found before.

Beyond the paper. A model trained on other texts does not know which words express the types of these ones.
The first clusters tell: a word that occurs in few of them is likely to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from eventformers.errors import EventformersError
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.event_inputs import tokenise_texts
from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.induction.mention_distances import Labels
from eventformers.inference.induction.mention_encoding import TriggerInput
from eventformers.inference.induction.type_naming import keyness

SMALLEST_FACTOR = 0.2
"""Factor of a token that depends on no cluster, as a share of the mean dependence over all occurrences."""


def cluster_dependence(occurrences: csr_array, labels: Labels) -> NDArray[np.float64]:
    """Compute how strongly the occurrence of each token depends on the cluster of a text.

    Args:
        occurrences: 1 for a token that a text contains, `(n, tokens)`.
        labels: the cluster of each text, from 0, `(n,)`.

    Returns:
        The sum of the token's `keyness` in the clusters in which it is more frequent, 0 or more, `(tokens,)`.
    """
    sizes = np.bincount(labels)
    members = csr_array((np.ones(len(labels)), labels, np.arange(len(labels) + 1)), (len(labels), len(sizes)))
    inside = csr_array(members.T @ occurrences)
    everywhere = occurrences.sum(axis=0)
    dependence = np.zeros(occurrences.shape[1])
    # One cluster at a time: the table of many clusters and tokens would be large.
    for cluster, size in enumerate(sizes):
        found = keyness(inside[[cluster]].toarray()[0], size, everywhere, np.array(len(labels)))
        dependence += np.maximum(0.0, found)
    return dependence


def token_factors(
    encoder: EventEncoder,
    trigger_input: TriggerInput | None,
    mentions: Sequence[Mapping[str, Any]],
    clusters: Labels | None,
) -> Vectors | None:
    """Compute the factor of each token id from the clusters of mentions.

    Args:
        encoder: the model, whose tokens are weighted.
        trigger_input: how the model reads triggers.
        mentions: rows with `text`.
        clusters: the cluster of each mention, from 0, `(n,)`; None if there are none yet.

    Returns:
        The `cluster_dependence` of each token plus the smallest factor, `(vocabulary,)`, positive; None
        without clusters, or if the model does not average tokens by the probability of an event.
    """
    if clusters is None or not averages_found(encoder, trigger_input):
        return None
    texts = [str(mention["text"]) for mention in mentions]
    encoded, _ = tokenise_texts(encoder.tokenizer, texts, encoder.max_length, encoder.prompt())
    ids = [np.unique(row) for row in encoded["input_ids"]]
    known, columns = np.unique(np.concatenate(ids), return_inverse=True)
    starts = np.cumsum([0, *map(len, ids)])
    occurrences = csr_array((np.ones(len(columns)), columns, starts), (len(texts), len(known)))
    dependence = cluster_dependence(occurrences, clusters)
    smallest = SMALLEST_FACTOR * dependence[columns].mean() or 1.0
    factors = np.full(len(encoder.tokenizer), smallest, dtype=np.float32)
    factors[known] += dependence
    return factors


def weighting_rounds_of(
    encoders: Sequence[EventEncoder], readings: Sequence[TriggerInput | None], asked: int | None
) -> int:
    """Return the number of rounds for some models.

    Args:
        encoders: the models.
        readings: how each reads triggers.
        asked: the number to use; None takes the highest of the models' own.

    Raises:
        EventformersError: rounds are asked for, and no model averages tokens by their weights.
    """
    able = [
        encoder.model.config
        for encoder, reading in zip(encoders, readings, strict=True)
        if averages_found(encoder, reading)
    ]
    if asked and not able:
        raise EventformersError(
            f"weighting_rounds is {asked} with {encoders[0].name}, which does not average tokens by the "
            "probability of an event; accepted: 0, or a model of event type induction with found_exponent"
        )
    own = max((config.weighting_rounds for config in able), default=0)
    return own if asked is None else asked


def averages_found(encoder: EventEncoder, trigger_input: TriggerInput | None) -> bool:
    """Whether a model averages tokens, each weighted by the probability of an event."""
    has_weights = getattr(encoder.model.config, "found_exponent", None) is not None
    return has_weights and trigger_input in (None, "found")
