"""Learned tokens that mark a part of a text."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from transformers import AddedToken, PreTrainedTokenizerBase

from eventformers.errors import EventformersError
from eventformers.models.modeling_base import EventPreTrainedModel


def add_marker_tokens(
    tokenizer: PreTrainedTokenizerBase, model: EventPreTrainedModel, markers: Mapping[str, str]
) -> list[int]:
    """Add marker tokens, which the tokenizer never splits, to a tokenizer and a model.

    Both save the tokens; `add_lora` trains their vectors beside its adapters. An existing token, as in a
    later stage, keeps its vector.

    Args:
        tokenizer: the encoder's tokenizer, changed in place.
        model: a model over one encoder or several of the same kind, changed in place; its configuration
            records the ids.
        markers: the tokens, each with a text; a token's initial vector is the mean of the text's token
            vectors in the pretrained encoder.

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
    """Check that a tokenizer has marker tokens; `marked` names what they mark, for the error.

    Raises:
        EventformersError: a token is missing.
    """
    vocabulary = tokenizer.get_vocab()
    if missing := [token for token in markers if token not in vocabulary]:
        raise EventformersError(
            f"the tokenizer lacks {' and '.join(missing)}, which mark {marked}; accepted: the tokenizer "
            "saved with the model"
        )
