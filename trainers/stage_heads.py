"""The head of a training stage: built on an encoder, or continued from the stage before."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.loading.models import (
    faults_told,
    first_sentence,
    load_config,
    load_whole,
    start_from_encoder,
)
from eventformers.methods import Method
from eventformers.models.configuration_base import EventConfig, is_decoder_only
from eventformers.models.modeling_base import EventPreTrainedModel
from eventformers.trainers.recipes import Recipe

logger = logging.getLogger(__name__)

EMBEDDINGS = "embeddings"
"""The token embeddings of any encoder in `frozen_modules`."""


@contextmanager
def accepted_fields() -> Iterator[None]:
    """Turn a configuration's error about a field into one line."""
    try:
        yield
    except (StrictDataclassError, ValueError) as error:
        # Configurations nest the reason: "Validation error for field 'x': TypeError: the reason".
        reason = re.sub(r"^.*?validation error for .*?Error: ", "", " ".join(str(error).split()), flags=re.I)
        raise EventformersError(f"model: {reason}") from error


def head_fields(recipe: Recipe, encoder: str) -> dict[str, Any]:
    """Return the fields of the head's configuration.

    A decoder-only encoder keeps its own pooling unless `--set` gives another one: that of a recipe is for
    encoders that read both sides.
    """
    fields = dict(recipe.model)
    is_chosen = any(key.endswith("model.pooling") for key in recipe.changed)
    if "pooling" in fields and not is_chosen:
        with faults_told(encoder):
            config = load_config(encoder)
        if is_decoder_only(config.encoder_config if isinstance(config, EventConfig) else config):
            pooling = fields.pop("pooling")
            logger.info(
                "the recipe's pooling=%s is not used: a decoder-only encoder has its own; --set pooling=... "
                "changes it",
                pooling,
            )
    return fields


def build_head(
    method: Method, encoder: str, fields: Mapping[str, Any], dtype: torch.dtype | str
) -> EventPreTrainedModel:
    """Build a head with new weights on a pretrained encoder."""
    with faults_told(encoder):
        load_config(encoder)
        with accepted_fields():
            return cast(
                EventPreTrainedModel, start_from_encoder(method.head_class, encoder, dtype=dtype, **fields)
            )


def continue_head(
    method: Method, folder: Path, fields: Mapping[str, Any], dtype: torch.dtype | str
) -> EventPreTrainedModel:
    """Load the head of a finished stage with the configuration of the next stage."""
    with faults_told(str(folder)):
        load_config(str(folder))
        with accepted_fields():
            config = method.config_class.from_pretrained(folder, **fields)
        try:
            head = load_whole(method.head_class, str(folder), config=config, dtype=dtype)
        except RuntimeError as error:
            raise EventformersError(
                f"{folder}: the weights have other sizes; accepted: the same sizes in every stage: "
                f"{' '.join(str(error).split())[:300]}"
            ) from error
        except (EventformersError, OSError, ValueError) as error:
            raise EventformersError(
                f"{folder} is damaged ({first_sentence(error)}); remove it to repeat that stage"
            ) from error
    return cast(EventPreTrainedModel, head).train()


def freeze(model: nn.Module, names: Sequence[str]) -> None:
    """Freeze the parameters of the modules with these names.

    Raises:
        UnknownNameError: the model has no such module.
    """
    for name in names:
        found = [parameter for key, parameter in model.named_parameters() if name in key.split(".")]
        if not found and name == EMBEDDINGS:
            # Encoders have other names for it.
            encoders = cast(EventPreTrainedModel, model).text_encoders()
            found = [part for one in encoders for part in one.get_input_embeddings().parameters()]
        if not found:
            modules = {part for key, _ in model.named_parameters() for part in key.split(".")[:-1]}
            raise UnknownNameError("module in frozen_modules:", name, modules)
        for parameter in found:
            parameter.requires_grad_(False)
