"""Training arguments that transformers does not have."""

from __future__ import annotations

from dataclasses import dataclass, field

from transformers import TrainingArguments


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

    module_learning_rates: dict[str, float] | None = field(default=None)
    gradient_cache_chunk_size: int | None = field(default=None)
    frozen_modules: list[str] | None = field(default=None)
    encoder_dropout: float | None = field(default=None)
    stop_at_relative_change: float | None = field(default=None)
    early_stopping_patience: int | None = field(default=None)
    learning_rate_decay: float | None = field(default=None)
    encoder_cache_tokens: int | None = field(default=None)
    silhouette_window: int | None = field(default=None)
    silhouette_clusters: int | None = field(default=None)
    start_weight_share: float = field(default=0.0)
    # A loss that is no number ends the run; the base class would log it as 0.
    logging_nan_inf_filter: bool = field(default=False)
