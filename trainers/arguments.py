"""Training arguments beyond those of transformers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, get_type_hints

from transformers import TrainingArguments
from transformers.trainer_utils import SaveStrategy, SchedulerType

from eventformers.errors import EventformersError
from eventformers.strict import Count, NotNegative, Number, Positive, Range, ShareBelowOne, check_types

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
"""The ranges of fields that the base class does not check."""


@dataclass
class EventTrainingArguments(TrainingArguments):
    """`TrainingArguments` for the heads of this suite.

    Args:
        module_learning_rates: learning rates of single modules, by name, such as `{"prototypes": 5e-4}`;
            other parameters use `learning_rate`.
        gradient_cache_chunk_size: number of rows to encode at a time; the loss and its exact gradient are
            still those of the whole batch (GradCache, Gao et al., 2021). Memory grows with the chunk instead
            of the batch; the cost is one more forward pass. None encodes the batch at once.
        frozen_modules: names of modules whose parameters do not train.
        encoder_dropout: dropout of the text encoders during training; None keeps their own. On a CPU, 0 is
            also faster: attention with dropout materialises all its weights.
        stop_at_relative_change: stop when the relative change of the validation loss is below this; None
            trains to the last step.
        early_stopping_patience: stop when `metric_for_best_model` has not improved for this many validations;
            None trains to the last step.
        learning_rate_decay: factor of every learning rate for each epoch, applied gradually at each step;
            None takes the schedule of `lr_scheduler_type`.
        encoder_cache_tokens: maximum number of tokens of a frozen encoder whose vectors are cached, so that
            each text is encoded once; None disables the cache.
        silhouette_window: choose the best checkpoint within the best window of this many, by the silhouette
            of the mentions of unseen types (`SilhouetteCallback`). All checkpoints are kept until
            the choice. None takes the final weights.
        silhouette_curves: further numbers of clusters whose silhouettes are logged; they choose nothing.
        from_encoder: start a later stage from the run's encoder, and at its end add the change of the
            encoder's weights by the stages before to its own; each has the scale of its own
            `start_weight_share`. Other weights, such as a head's, are of this stage alone. The first stage
            has no other start.
        start_weight_share: share of the initial weights in the final encoder, whose weights are the average
            of initial and trained weights (Wortsman et al., 2022); 0 takes only the trained weights. A
            negative share goes beyond them (task vectors, Ilharco et al., 2023): -0.5 scales the change of
            the weights by 1.5.
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
    silhouette_curves: list[Annotated[int, Range(least=2)]] | None = field(default=None)
    from_encoder: bool = field(default=False)
    start_weight_share: Annotated[float, Range(least=-1, below=1)] = field(default=0.0)
    # The base class draws no bar if its own log shows only errors, as for commands.
    disable_tqdm: bool = field(default=False)
    # A NaN loss must stop the run; the base class would log it as 0.
    logging_nan_inf_filter: bool = field(default=False)
    # The collators read the columns of a row, and the heads make their own labels.
    remove_unused_columns: bool | None = field(default=False)
    label_names: list[str] | None = field(default_factory=list)

    def __post_init__(self) -> None:
        """Check every value before the base class uses it.

        Raises:
            EventformersError: a value has the wrong type, is outside its range, or has no effect.
        """
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        # The base class also accepts paths in its text fields.
        texts = {name: os.fspath(value) for name, value in values.items() if isinstance(value, os.PathLike)}
        check_types({**values, **texts}, TRAINING_TYPES)
        super().__post_init__()
        if self.dataloader_persistent_workers:
            raise EventformersError(
                "dataloader_persistent_workers is true, but such workers would repeat the draws of the first "
                "epoch; accepted: false"
            )
        if self.label_smoothing_factor:
            raise EventformersError(
                f"label_smoothing_factor is {self.label_smoothing_factor}, which no loss of the heads uses; "
                "accepted: 0"
            )
        if self.train_sampling_strategy == "group_by_length":
            raise EventformersError(
                "train_sampling_strategy is 'group_by_length', but a row has no tokens before its views are "
                "drawn; accepted: 'random'. Each batch is encoded in parts of similar length"
            )
        strategies = (SaveStrategy.EPOCH, SaveStrategy.STEPS)
        if self.silhouette_window is not None and (
            self.save_total_limit is not None or self.save_strategy not in strategies
        ):
            raise EventformersError(
                f"found save_strategy {self.save_strategy.value} and save_total_limit "
                f"{self.save_total_limit}; accepted with silhouette_window, which chooses among all "
                "checkpoints: epoch or steps, and null"
            )
        schedule = (self.lr_scheduler_type, self.warmup_steps)
        if self.learning_rate_decay is not None and schedule != (SchedulerType.LINEAR, 0):
            raise EventformersError(
                "learning_rate_decay makes the schedule, without lr_scheduler_type and warmup_steps; "
                "accepted: learning_rate_decay=null with these"
            )

    @property
    def n_gpu(self) -> int:
        """Number of GPUs of this process: at most one, since a loss compares all rows of its batch.

        The base class would split a batch across all GPUs of the machine.
        """
        return min(1, super().n_gpu)


@contextmanager
def setting_faults() -> Iterator[None]:
    """Turn an error of transformers on a training setting into one line."""
    try:
        yield
    except (ImportError, KeyError, TypeError, ValueError) as error:
        text = error.args[0] if isinstance(error, KeyError) else error
        raise EventformersError(
            f"a training setting is not accepted: {' '.join(str(text).split())}"
        ) from error


TRAINING_TYPES: dict[str, Any] = {**get_type_hints(EventTrainingArguments, include_extras=True), **_RANGES}
"""The type of each training setting, with its range."""
