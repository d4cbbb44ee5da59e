"""The end of a training whose validation loss has settled."""

from __future__ import annotations

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


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
