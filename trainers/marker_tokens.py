"""Tokens that mark a part of a text, learned with the rest of a model."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from transformers import AddedToken, PreTrainedTokenizerBase

from eventformers.models.modeling_base import EventPreTrainedModel


def add_marker_tokens(
    tokenizer: PreTrainedTokenizerBase, model: EventPreTrainedModel, markers: Mapping[str, str]
) -> list[int]:
    """Give tokenizer and model tokens that no text splits, whose vectors are learned.

    Saved with both, they are there after `AutoModel` and `AutoTokenizer`; `add_lora` trains their vectors
    beside its adapters. What is there already, as in a later stage, keeps its vector.

    Args:
        tokenizer: the encoder's tokenizer, changed in place.
        model: a model over the encoder, changed in place; its configuration remembers the ids.
        markers: the tokens, and for each a text that the pretrained encoder knows, whose tokens' mean vector
            it starts from.

    Returns:
        The ids of the tokens, in their order.
    """
    known_before = tokenizer.get_vocab()
    starts = {
        token: tokenizer(text, add_special_tokens=False)["input_ids"] for token, text in markers.items()
    }
    tokenizer.add_tokens(
        [AddedToken(token, lstrip=True, normalized=False, special=True) for token in markers],
        special_tokens=True,
    )
    ids = tokenizer.convert_tokens_to_ids(list(markers))
    trained = set(model.config.added_token_ids or ())
    if model.get_input_embeddings().num_embeddings < len(tokenizer):
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    vectors = model.get_input_embeddings().weight
    with torch.no_grad():
        for token, place in zip(markers, ids, strict=True):
            if token not in known_before and place not in trained:
                vectors[place] = vectors[starts[token]].mean(dim=0)
    model.config.added_token_ids = sorted(trained.union(ids))
    return ids
