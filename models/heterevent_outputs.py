"""What the HeterEvent models return."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from transformers.utils import ModelOutput


@dataclass
class HeterEventModelOutput(ModelOutput):
    """Output of HeterEvent.

    Args:
        embeddings: node of each event in its chain's graph after the last layer, `(batch, chain_dim)`.
        candidates: vector of each event as a candidate: a chain of its own, without a graph,
            `(batch, chain_dim)`.
        chain_embeddings: state at the chain token of each chain, `(chains, chain_dim)`.
        last_hidden_state: token vectors, `(batch, length, hidden_size)`.
        hidden_states: token vectors of every layer of the encoder, where asked for.
        attentions: attention weights of every layer of the encoder, where asked for.
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
        loss: weighted sum of the terms, a scalar; None where only vectors are asked for.
        order_loss: Eq. 3.
        replacement_loss: Eq. 4.
        composition_loss: Eq. 5.
        normal_corrupted_loss: Eq. 12.
        corrupted_corrupted_loss: Eq. 13.
        word_loss: Eq. 15.
        event_loss: Eq. 16.
        choice_correct: whether each left-out event is chosen before the wrong choices, by the scores of
            inference, `(chains,)`; None where no choices are given.
        embeddings: as `HeterEventModel` gives them, where only vectors are asked for; None with a loss, whose
            rows are chains.
    """

    loss: torch.FloatTensor | None = None
    order_loss: torch.FloatTensor | None = None
    replacement_loss: torch.FloatTensor | None = None
    composition_loss: torch.FloatTensor | None = None
    normal_corrupted_loss: torch.FloatTensor | None = None
    corrupted_corrupted_loss: torch.FloatTensor | None = None
    word_loss: torch.FloatTensor | None = None
    event_loss: torch.FloatTensor | None = None
    choice_correct: torch.BoolTensor | None = None
    embeddings: torch.FloatTensor | None = None


@dataclass
class HeterEventForMultipleChoiceOutput(ModelOutput):
    """Output of the choice of a chain's next event.

    Args:
        loss: cross-entropy of the right choice, a scalar; None without labels.
        logits: mean cosine of a choice with the events of the context over the temperature,
            `(chains, choices)`; minus infinity where a question has fewer choices.
        embeddings: as `HeterEventModel` gives them, where only vectors are asked for.
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None


class EventVectors(NamedTuple):
    """Vectors of the distinct events of a batch and of their words.

    Args:
        events: `(E, event_vector_dim)`.
        words: vectors of the distinct words of each event, `(E, W, chain_dim)`.
        event_words: which words they are, `(E, W)`; -1 where an event has fewer.
    """

    events: torch.Tensor
    words: torch.Tensor
    event_words: torch.Tensor
