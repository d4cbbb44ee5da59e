"""Tokens that mark a part of a text, learned with the rest of a model."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from transformers import AddedToken, PreTrainedTokenizerBase

from eventformers.errors import EventformersError
from eventformers.models.modeling_base import EventPreTrainedModel


def add_marker_tokens(
    tokenizer: PreTrainedTokenizerBase, model: EventPreTrainedModel, markers: Mapping[str, str]
) -> list[int]:
    """Give tokenizer and model tokens that no text splits, whose vectors are learned.

    Saved with both, they are there after `AutoModel` and `AutoTokenizer`; `add_lora` trains their vectors
    beside its adapters. What is there already, as in a later stage, keeps its vector.

    Args:
        tokenizer: the encoder's tokenizer, changed in place.
        model: a model over one encoder or several of its kind, changed in place; its configuration remembers
            the ids.
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
    with torch.no_grad():
        for encoder in model.text_encoders():
            vectors = encoder.get_input_embeddings().weight
            for token, place in zip(markers, ids, strict=True):
                if token not in known_before and place not in trained:
                    vectors[place] = vectors[starts[token]].mean(dim=0)
    model.config.added_token_ids = sorted(trained.union(ids))
    return ids


def check_marker_tokens(tokenizer: PreTrainedTokenizerBase, markers: Mapping[str, str], marked: str) -> None:
    """Refuse a tokenizer that would split the tokens that mark a part of a text.

    Args:
        tokenizer: the tokenizer.
        markers: the tokens, as `add_marker_tokens` takes them.
        marked: what they mark, for the error.

    Raises:
        EventformersError: it lacks one of them.
    """
    vocabulary = tokenizer.get_vocab()
    if missing := [token for token in markers if token not in vocabulary]:
        raise EventformersError(
            f"the tokenizer lacks {' and '.join(missing)}, which mark {marked}; accepted: the tokenizer that "
            "was saved with the model"
        )
