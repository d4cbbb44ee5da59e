"""The end of a training whose validation shows that it has settled, or gets no better."""

from __future__ import annotations

from transformers import (
    EarlyStoppingCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from eventformers.errors import EventformersError
from eventformers.trainers.arguments import EventTrainingArguments


class SettledLossCallback(TrainerCallback):
    """Stops where the validation loss changes by less than a share of the one before.

    MICO's rule (section 4.4): |L_t - L_(t-1)| / L_(t-1) < 0.01. The losses are read from the log, so that a
    resumed run stops where the uninterrupted one does.

    Args:
        relative_change: the share.
    """

    def __init__(self, relative_change: float) -> None:
        self.relative_change = relative_change

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Compare the last two validation losses."""
        losses = [line["eval_loss"] for line in state.log_history if "eval_loss" in line]
        if len(losses) > 1 and abs(losses[-1] - losses[-2]) < self.relative_change * losses[-2]:
            control.should_training_stop = True


def stopping_callbacks(arguments: EventTrainingArguments, has_validation: bool) -> list[TrainerCallback]:
    """The callbacks that end a training early.

    Args:
        arguments: the training arguments.
        has_validation: whether rows are validated on.

    Returns:
        None, one or two callbacks.

    Raises:
        EventformersError: there is nothing to validate on.
    """
    callbacks: list[TrainerCallback] = []
    change, patience = arguments.stop_at_relative_change, arguments.early_stopping_patience
    if change is not None:
        callbacks.append(SettledLossCallback(change))
    if patience is not None:
        callbacks.append(EarlyStoppingCallback(patience))
    if callbacks and not has_validation:
        name = "stop_at_relative_change" if change is not None else "early_stopping_patience"
        raise EventformersError(f"{name} needs a validation loss; accepted: with validation_rows above 0")
    return callbacks
