"""Arrays that take long to compute, kept in a cache, such as vectors of texts by an untrained encoder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import numpy.typing as npt
import torch
from accelerate import PartialState
from safetensors.numpy import save_file
from safetensors.torch import load_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from eventformers.files import replaced_file
from eventformers.models.modeling_base import EventEncoderModel
from eventformers.models.processing_events import EventProcessor
from eventformers.models.text_prompts import prompt_of, prompt_tokens
from eventformers.trainers.method import check_text_length

Arrays = Mapping[str, npt.NDArray[Any]]


def cached_arrays(kind: str, decides: Sequence[object], compute: Callable[[], Arrays]) -> Arrays:
    """Compute arrays, or map them from a file in the cache.

    Rank 0 computes and writes; other ranks wait and read. The system takes back memory of mapped arrays if it
    needs it.

    Args:
        decides: everything that the arrays depend on, as JSON values.
    """
    digest = hashlib.sha256(json.dumps(decides).encode()).hexdigest()
    root = Path(datasets.config.HF_DATASETS_CACHE).expanduser() / "eventformers"
    path = root / kind / f"{digest}.safetensors"
    with PartialState().main_process_first():
        if not path.is_file():
            arrays = {name: np.ascontiguousarray(values) for name, values in compute().items()}
            with replaced_file(path) as temporary:
                save_file(arrays, temporary)
    # The loader for NumPy copies the file to memory, the one for tensors maps it.
    return {name: values.numpy() for name, values in load_file(path).items()}


def array_digest(values: npt.NDArray[Any]) -> str:
    """Return a hash of the values of an array."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def model_digest(model: PreTrainedModel) -> str:
    """Return a hash of the configuration and the weights of a model."""
    digest = hashlib.sha256(model.config.to_json_string().encode())
    for name, values in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(values.float().cpu().numpy().tobytes())
    return digest.hexdigest()


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
