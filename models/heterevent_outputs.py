"""Outputs of the HeterEvent models."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from transformers.utils import ModelOutput


@dataclass
class HeterEventModelOutput(ModelOutput):
    """Output of HeterEvent.

    Args:
        embeddings: node of each event in its chain's graph after the last layer, `(batch, chain_dim)`.
        candidates: vector of each event as a candidate, that is, as a chain of one event without a graph,
            `(batch, chain_dim)`.
        chain_embeddings: state at the chain token of each chain, `(chains, chain_dim)`.
        last_hidden_state: token vectors, `(batch, length, hidden_size)`.
        hidden_states: token vectors of every layer of the encoder, if requested.
        attentions: attention weights of every layer of the encoder, if requested.
    """

    embeddings: torch.FloatTensor | None = None
    candidates: torch.FloatTensor | None = None
    chain_embeddings: torch.FloatTensor | None = None
    last_hidden_state: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class HeterEventForPreTrainingOutput(ModelOutput):
    """Output of the training head: the terms of its stage, each before its weight.

    Args:
        loss: weighted sum of the terms, a scalar; None if only vectors are requested.
        masked_word_loss: cross-entropy of the masked tokens (section III-B1).
        order_loss: Eq. 3.
        replacement_loss: Eq. 4.
        composition_loss: Eq. 5.
        normal_corrupted_loss: Eq. 12.
        corrupted_corrupted_loss: Eq. 13.
        word_loss: Eq. 15.
        event_loss: Eq. 16.
        choice_correct: True if inference would score the left-out event above all wrong choices, `(chains,)`;
            None if no choices are given.
        embeddings: the same as those of `HeterEventModel`, if only vectors are requested; None with a loss,
            whose rows are chains.
        hidden_states: token vectors of every layer of the encoder for the events, if requested.
        attentions: attention weights of every layer, if requested.
    """

    loss: torch.FloatTensor | None = None
    masked_word_loss: torch.FloatTensor | None = None
    order_loss: torch.FloatTensor | None = None
    replacement_loss: torch.FloatTensor | None = None
    composition_loss: torch.FloatTensor | None = None
    normal_corrupted_loss: torch.FloatTensor | None = None
    corrupted_corrupted_loss: torch.FloatTensor | None = None
    word_loss: torch.FloatTensor | None = None
    event_loss: torch.FloatTensor | None = None
    choice_correct: torch.BoolTensor | None = None
    embeddings: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class HeterEventForMultipleChoiceOutput(ModelOutput):
    """Output of the choice of a chain's next event.

    Args:
        loss: cross-entropy of the right choice, a scalar; None without labels.
        logits: mean cosine of a choice with the events of the context over the temperature,
            `(chains, choices)`; minus infinity where a question has fewer choices.
        embeddings: the same as those of `HeterEventModel`, if only vectors are requested.
        hidden_states: token vectors of every layer of the encoder for the events, if requested.
        attentions: attention weights of every layer, if requested.
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


class EventVectors(NamedTuple):
    """Vectors of the distinct events of a batch, `(E, event_vector_dim)`, and of their words.

    Args:
        words: vectors of the distinct words of each event, `(E, W, chain_dim)`.
        event_words: the distinct words of each event, `(E, W)`; padded with -1.
    """

    events: torch.Tensor
    words: torch.Tensor
    event_words: torch.Tensor
