"""Statements of a commonsense graph, whole sentences that MICO does not train on, with their vectors before
training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from eventformers.models.modeling_base import EventEncoderModel
from eventformers.models.text_prompts import prompt_of
from eventformers.trainers.cached_arrays import cached_arrays, model_digest
from eventformers.trainers.tokenising import tokenise

MOST_STATEMENTS = 20_000
"""Maximum number of statements, which are encoded before training."""
_BLOCK = 256


@dataclass(frozen=True)
class Statements:
    """Texts, with the vectors of the encoder before training.

    Args:
        texts: the statements.
        vectors: of each statement, `(n, d)`, in float32 on the CPU.
        max_length: maximum number of tokens of a statement.
    """

    texts: Sequence[str]
    vectors: torch.Tensor
    max_length: int


@torch.no_grad()
def encode_statements(
    texts: Sequence[str], model: EventEncoderModel, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> Statements:
    """Encode statements, or read their vectors from the cache of another run.

    Args:
        texts: the statements.
        model: the encoder before training.
        tokenizer: its tokenizer.
        max_length: maximum number of tokens of a statement.
    """
    prompt = prompt_of(model.config.prompts, "event")
    found = cached_arrays(
        "statements",
        [model_digest(model), max_length, *texts],
        lambda: {"vectors": _vectors(texts, model, tokenizer, max_length, prompt).numpy()},
    )
    return Statements(texts, torch.from_numpy(np.array(found["vectors"])), max_length)


def _vectors(
    texts: Sequence[str],
    model: EventEncoderModel,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    prompt: str,
) -> torch.Tensor:
    was_training = model.training
    model.eval()
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    vectors = torch.empty(len(texts), model.config.projection_dim)
    for start in range(0, len(texts), _BLOCK):
        places = order[start : start + _BLOCK]
        batch, _ = tokenise(tokenizer, [texts[place] for place in places], max_length, prompt)
        batch = batch.to(model.device)
        vectors[places] = model(batch["input_ids"], batch["attention_mask"]).embeddings.float().cpu()
    model.train(was_training)
    return vectors
