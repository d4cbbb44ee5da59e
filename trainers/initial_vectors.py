"""Vectors of texts by an encoder before its training, kept in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import datasets
import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedTokenizerBase

from eventformers.models.modeling_base import EventEncoderModel
from eventformers.models.processing_events import EventProcessor
from eventformers.models.text_prompts import prompt_of, prompt_tokens
from eventformers.trainers.data_reports import array_digest, cached_arrays, model_digest
from eventformers.trainers.method import check_text_length

_BLOCK = 256
_SHOWN = 10
"""Minimum number of blocks with a progress bar."""


def initial_vectors(
    texts: Sequence[str], model: EventEncoderModel, tokenizer: PreTrainedTokenizerBase, max_seq_length: int
) -> npt.NDArray[np.float32]:
    """Encode texts with the weights that a model has now, or read their vectors from the cache.

    Args:
        max_seq_length: maximum number of tokens of a text, without its prompt.

    Returns:
        `(texts, d)`.

    Raises:
        EventformersError: the encoder reads shorter texts.
    """
    check_text_length(model.config, tokenizer, max_seq_length)
    of_prompt = len(prompt_tokens(tokenizer, prompt_of(model.config.prompts)))
    processor = EventProcessor(tokenizer, prompts=model.config.prompts)
    encoded = processor.tokenise(list(texts), max_length=max_seq_length + of_prompt)
    ids, mask = encoded["input_ids"], encoded["attention_mask"]
    decides = [array_digest(ids.numpy()), array_digest(mask.numpy()), model_digest(model)]

    def encode(part: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        return model.embed_distinct([(part, own)])[0]

    def compute() -> dict[str, npt.NDArray[np.float32]]:
        return {"vectors": encode_blocks(ids, mask, model, encode).numpy()}

    return cached_arrays("distillation", decides, compute)["vectors"]


@torch.no_grad()
def encode_blocks(
    ids: torch.Tensor,
    mask: torch.Tensor,
    model: EventEncoderModel,
    encode: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Encode token ids `(texts, length)` block by block, without dropout, in float32 on the CPU."""
    was_training = model.training
    model.eval()
    parts = list(zip(ids.split(_BLOCK), mask.split(_BLOCK), strict=True))
    blocks = [
        encode(part.to(model.device), own.to(model.device)).float().cpu()
        for part, own in datasets.utils.tqdm(
            parts, desc="Encoding texts", unit=f" of {_BLOCK}", disable=len(parts) < _SHOWN
        )
    ]
    model.train(was_training)
    return torch.cat(blocks)
