"""Early stopping by the validation loss or the chosen metric."""

from __future__ import annotations

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import IntervalStrategy

from eventformers.errors import EventformersError
from eventformers.trainers.arguments import EventTrainingArguments


class SettledLossCallback(TrainerCallback):
    """Callback that stops when the relative change of the validation loss is small.

    MICO's rule (section 4.4): |L_t - L_(t-1)| / L_(t-1) < 0.01. The losses are read from the log, so a
    resumed run stops at the same step as an uninterrupted one.

    Args:
        relative_change: the threshold.
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


class PatienceCallback(TrainerCallback):
    """Callback that stops when `metric_for_best_model` has not improved for some validations.

    The values are read from the log, so a resumed run stops at the same step as an uninterrupted one, which
    `transformers.EarlyStoppingCallback` does not by default.

    Args:
        patience: the number of validations.
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Count the validations since the best one."""
        name = f"eval_{(args.metric_for_best_model or 'loss').removeprefix('eval_')}"
        values = [line[name] for line in state.log_history if name in line]
        best = max if args.greater_is_better else min
        if values and len(values) - 1 - values.index(best(values)) >= self.patience:
            control.should_training_stop = True


def stopping_callbacks(arguments: EventTrainingArguments, has_validation: bool) -> list[TrainerCallback]:
    """Make the callbacks for early stopping, which needs validation rows.

    Returns:
        Up to two callbacks.

    Raises:
        EventformersError: early stopping is requested without validation rows.
    """
    callbacks: list[TrainerCallback] = []
    change, patience = arguments.stop_at_relative_change, arguments.early_stopping_patience
    if change is not None:
        callbacks.append(SettledLossCallback(change))
    if patience is not None:
        callbacks.append(PatienceCallback(patience))
    if callbacks and not (has_validation and arguments.eval_strategy != IntervalStrategy.NO):
        name = "stop_at_relative_change" if change is not None else "early_stopping_patience"
        raise EventformersError(
            f"{name} needs a validation loss; accepted: validation_rows above 0, and no eval_strategy=no"
        )
    return callbacks
