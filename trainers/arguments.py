"""Training arguments that transformers does not have."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, get_type_hints

from transformers import TrainingArguments

from eventformers.trainers.setting_types import (
    Count,
    NotNegative,
    Number,
    Positive,
    Range,
    ShareBelowOne,
    check_types,
)

_RANGES: dict[str, Any] = {
    **dict.fromkeys(("per_device_train_batch_size", "per_device_eval_batch_size"), Count),
    **dict.fromkeys(("gradient_accumulation_steps", "ddp_timeout"), Count),
    **dict.fromkeys(("eval_accumulation_steps", "save_total_limit", "torch_empty_cache_steps"), Count | None),
    **dict.fromkeys(("dataloader_prefetch_factor", "ddp_bucket_cap_mb"), Count | None),
    **dict.fromkeys(("learning_rate", "weight_decay", "warmup_steps"), NotNegative),
    **dict.fromkeys(("max_grad_norm", "eval_delay"), NotNegative),
    **dict.fromkeys(("num_train_epochs", "logging_steps", "save_steps", "adam_epsilon"), Positive),
    **dict.fromkeys(("eval_steps", "neftune_noise_alpha"), Positive | None),
    **dict.fromkeys(("adam_beta1", "adam_beta2", "label_smoothing_factor"), ShareBelowOne),
    "max_steps": Count | Literal[-1],
    "dataloader_num_workers": Number,
    "seed": Number,
    "data_seed": Number | None,
}
"""The ranges of the base class's fields, which it does not check."""


@dataclass
class EventTrainingArguments(TrainingArguments):
    """`TrainingArguments` for the heads of this suite.

    Args:
        module_learning_rates: learning rate of the parameters of a module, by the module's name, where it
            differs from `learning_rate`, such as `{"prototypes": 5e-4}`.
        gradient_cache_chunk_size: encode this many rows at a time and still compute the loss, with its exact
            gradient, on the whole batch (GradCache, Gao et al., 2021); None encodes the batch at once. Memory
            then grows with the chunk and no longer with the batch, for one more forward pass.
        frozen_modules: modules, by name, whose parameters do not train.
        encoder_dropout: dropout of the text encoders while they train; None keeps their own. On a CPU 0 is
            faster, too: attention that drops weights has to write all of them down.
        stop_at_relative_change: stop where the validation loss changes by less than this share of the one
            before; None goes on to the last step.
        early_stopping_patience: stop where `metric_for_best_model` has not got better for this many
            validations; None goes on to the last step.
        learning_rate_decay: what every learning rate is multiplied by from epoch to epoch, a little at each
            step; None takes the rates of `lr_scheduler_type`.
        encoder_cache_tokens: hold the vectors of this many tokens of a frozen encoder, so that each text is
            encoded once; None encodes it each time.
        silhouette_window: of all checkpoints take the best one within the best window of this many, by the
            silhouette of the mentions of unseen types (`trainers.silhouette_stopping`); all checkpoints stay
            until the choice. None takes the end.
        silhouette_clusters: how many clusters these mentions are cut into; None takes the number of unseen
            types.
        start_weight_share: share of the start's weights in the final encoder, whose weights are the average
            of start and end (Wortsman et al., 2022); 0 takes the end alone.
    """

    module_learning_rates: dict[str, NotNegative] | None = field(default=None)
    gradient_cache_chunk_size: Count | None = field(default=None)
    frozen_modules: list[str] | None = field(default=None)
    encoder_dropout: ShareBelowOne | None = field(default=None)
    stop_at_relative_change: NotNegative | None = field(default=None)
    early_stopping_patience: Count | None = field(default=None)
    learning_rate_decay: Positive | None = field(default=None)
    encoder_cache_tokens: Count | None = field(default=None)
    silhouette_window: Count | None = field(default=None)
    silhouette_clusters: Annotated[int, Range(least=2)] | None = field(default=None)
    start_weight_share: ShareBelowOne = field(default=0.0)
    # A loss that is no number ends the run; the base class would log it as 0.
    logging_nan_inf_filter: bool = field(default=False)

    def __post_init__(self) -> None:
        """Check every value before the base class computes with it.

        Raises:
            EventformersError: a value has another type, or is outside of its range.
        """
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        # The base class takes a path, too, where it says text.
        texts = {name: os.fspath(value) for name, value in values.items() if isinstance(value, os.PathLike)}
        check_types({**values, **texts}, TRAINING_TYPES)
        super().__post_init__()

    @property
    def n_gpu(self) -> int:
        """GPUs of this process: one at most, since a loss compares all rows of its batch.

        The base class would split a batch between all that the machine has.
        """
        return min(1, super().n_gpu)


TRAINING_TYPES: dict[str, Any] = {**get_type_hints(EventTrainingArguments, include_extras=True), **_RANGES}
"""The type of each training setting, with its range."""
