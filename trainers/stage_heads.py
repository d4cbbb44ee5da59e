"""The head of a training stage: built or continued; its dropout, cached encoder and initial weights."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from torch.nn import functional

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


Weights = dict[str, torch.Tensor]


def encoder_weights(model: EventPreTrainedModel) -> Weights:
    """Copy the weights of the encoders of a model."""
    parameters = nn.ModuleList(model.text_encoders()).named_parameters()
    return {name: parameter.detach().cpu().clone() for name, parameter in parameters}


@torch.no_grad()
def add_change(model: EventPreTrainedModel, change: Weights) -> None:
    """Add a change to the weights of the encoders, in place: a sum of task vectors (Ilharco et al., 2023)."""
    parameters = dict(nn.ModuleList(model.text_encoders()).named_parameters())
    for name, value in change.items():
        parameters[name].add_(value.to(parameters[name]))


@torch.no_grad()
def average_into(model: EventPreTrainedModel, start: Weights, share: float) -> None:
    """Average the trained weights of the encoders with the initial ones, in place (Wortsman et al., 2022).

    An averaged model often keeps both the initial model's performance on other tasks and most of the gain. A
    negative share extrapolates: it scales the change of the weights beyond 1, as task arithmetic scales a
    task vector (Ilharco et al., 2023).

    Args:
        share: share of the initial weights, at most 1; below 0, the change of the weights is scaled by 1 -
            share.
    """
    for name, parameter in nn.ModuleList(model.text_encoders()).named_parameters():
        parameter.lerp_(start[name].to(parameter), share)


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


def set_dropout(encoders: Iterable[nn.Module], share: float) -> None:
    """Set the dropout of hidden vectors and attention in encoders; their configurations stay unchanged.

    Raises:
        EventformersError: an encoder has no dropout.
    """
    for encoder in encoders:
        places = list(_dropouts(encoder))
        for module, name in places:
            setattr(module, name, share)
        if share and not places:
            raise EventformersError(
                f"setting encoder_dropout: found {share}, but {type(encoder).__name__} has no dropout; "
                "accepted: 0 or null"
            )


def has_dropout(encoders: Iterable[nn.Module]) -> bool:
    """Return True if an encoder drops entries in training, so that two passes of a text differ."""
    return any(getattr(module, name) for encoder in encoders for module, name in _dropouts(encoder))


def _dropouts(encoder: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """Yield the modules of an encoder with dropout, each with the attribute that is its share."""
    for module in encoder.modules():
        if isinstance(module, nn.Dropout):
            yield module, "p"
        # Fused attention holds its dropout as a number instead of a layer.
        for name, value in list(vars(module).items()):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if is_number and (name.endswith("dropout") or name in ("dropout_prob", "drop_prob")):
                yield module, name


Group = tuple[torch.Tensor, torch.Tensor]


class CachedEncoding:
    """Replacement of a model's `encode_together` that encodes only new texts.

    Vectors are cached in half precision, so a loss agrees with that of the encoder to about three digits.
    Their last digit depends on the batch of a text's first occurrence: a resumed run equals an uninterrupted
    one up to rounding.

    Args:
        encode: the model's own `encode_together` with a frozen encoder.
        max_tokens: maximum number of cached tokens, at two bytes for each entry of a vector; later texts are
            encoded each time.
    """

    def __init__(
        self, encode: Callable[[Sequence[Group]], list[Group]], max_tokens: int, token_size: int
    ) -> None:
        self._encode = encode
        self._max_tokens = max_tokens
        self._token_size = token_size
        self._cached: dict[bytes, torch.Tensor] = {}
        self._used = 0

    @torch.no_grad()
    def __call__(self, groups: Sequence[Group]) -> list[Group]:
        """Return token vectors `(rows, width, token_size)` and mask of each group, like `encode_together`.

        Vectors of padding are zero.
        """
        width = max(ids.shape[1] for ids, _ in groups)
        input_ids = torch.cat([functional.pad(ids, (0, width - ids.shape[1])) for ids, _ in groups])
        mask = torch.cat([functional.pad(mask, (0, width - mask.shape[1])) for _, mask in groups])
        there = mask.bool()
        keys = [row[row >= 0].tobytes() for row in input_ids.masked_fill(~there, -1).cpu().numpy()]
        missing = torch.tensor([key not in self._cached for key in keys], device=there.device)
        hidden = torch.zeros(*there.shape, self._token_size, device=there.device)
        if bool(missing.any()):
            [(fresh, _)] = self._encode([(input_ids[missing], mask[missing])])
            fresh = fresh[:, :width].masked_fill(~there[missing].unsqueeze(-1), 0)
            # Rounded, they equal their cached vectors in later batches.
            hidden[missing] = fresh.half().float()
        for row, (key, is_new) in enumerate(zip(keys, missing.tolist(), strict=True)):
            if not is_new:
                hidden[row, there[row]] = self._cached[key].float()
            elif self._used <= self._max_tokens and key not in self._cached:
                vectors = hidden[row, there[row]].half()
                # The first text without room closes the cache.
                self._used += len(vectors)
                if self._used <= self._max_tokens:
                    self._cached[key] = vectors
        sizes = [len(ids) for ids, _ in groups]
        return list(zip(hidden.split(sizes), mask.split(sizes), strict=True))


def cache_encoder(head: EventPreTrainedModel, max_tokens: int) -> None:
    """Add a cache of at most `max_tokens` to a head with a frozen encoder, so that each text is encoded once.

    Raises:
        EventformersError: the encoder is not frozen.
    """
    if not getattr(head.config, "freeze_encoder", False):
        raise EventformersError(
            "encoder_cache_tokens needs a frozen encoder; accepted: freeze_encoder=true, or "
            "encoder_cache_tokens=null"
        )
    model = head.base_model
    model.encode_together = CachedEncoding(model.encode_together, max_tokens, model.token_size)
