"""Progress of a training run: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from typing import Any, cast

from tqdm import tqdm
from transformers import ProgressCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

SILENT_SECONDS = 30.0
"""Maximum time without a line while steps are made."""

_LEFT_OUT = ("epoch", "grad_norm", "total_flos", "train_loss", "train_runtime")
_RATES = ("_runtime", "_preparation_time", "_per_second")


def log_text(logs: Mapping[str, Any]) -> str:
    """Format a log line of the trainer: loss, its terms and the learning rate, rounded."""
    return ", ".join(
        f"{name.replace('eval_', 'validation ').replace('_', ' ')} {value:.4g}"
        for name, value in logs.items()
        if name not in _LEFT_OUT and not name.endswith(_RATES)
    )


class ProgressBar(ProgressCallback):
    """Progress bar with the latest losses, instead of one printed mapping for each log line."""

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Show the losses behind the bar."""
        if self.training_bar is not None:
            shown = {name: value for name, value in (logs or {}).items() if name in ("loss", "eval_loss")}
            self.training_bar.set_postfix_str(log_text(shown) or self.training_bar.postfix or "")


class ProgressLines(TrainerCallback):
    """Lines on standard error: the number of steps, each log line with the time left, and the duration."""

    _start: float | None = None
    """When training began; None before and after it."""
    _told: float = -math.inf
    """When the last line was printed."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Print the number of steps."""
        self._start, self._first_step = time.monotonic(), state.global_step
        batch = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        self._print(state, f"training: {_steps(state.max_steps)}, batch size {batch}")

    def on_substep_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Print the step and the time left if nothing was printed for a while."""
        self._tell_place(state, SILENT_SECONDS)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Print the first step, and later ones if nothing was printed for a while."""
        # A step that is logged has its own line.
        if not control.should_log:
            is_first = state.global_step == self._first_step + 1
            self._tell_place(state, 0 if is_first else SILENT_SECONDS)

    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Print that the validation goes on if nothing was printed for a while."""
        if self._start is not None and time.monotonic() - self._told >= SILENT_SECONDS:
            self._print(state, f"step {state.global_step} of {state.max_steps}: validation")

    def _tell_place(self, state: TrainerState, seconds: float) -> None:
        if self._start is not None and time.monotonic() - self._told >= seconds:
            self._print(state, f"step {state.global_step} of {state.max_steps}, {self._time_left(state)}")

    def _time_left(self, state: TrainerState) -> str:
        done = state.global_step - self._first_step
        if not done:
            return "the first step is not finished"
        pace = (time.monotonic() - cast(float, self._start)) / done
        return f"{tqdm.format_interval(pace * (state.max_steps - state.global_step))} left"

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Print a log line, while training with the time left."""
        text = log_text(logs or {})
        if text and self._start is not None:
            text = f"step {state.global_step} of {state.max_steps}: {text}, {self._time_left(state)}"
        if text:
            self._print(state, text)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Print the duration."""
        duration = tqdm.format_interval(time.monotonic() - cast(float, self._start))
        self._print(state, f"trained {_steps(state.global_step)} in {duration}")
        self._start = None

    def _print(self, state: TrainerState, line: str) -> None:
        self._told = time.monotonic()
        if state.is_world_process_zero:
            print(line, file=sys.stderr, flush=True)


def progress_callback() -> TrainerCallback:
    """Make a bar if standard error is a terminal, and lines otherwise."""
    return ProgressBar() if sys.stderr.isatty() else ProgressLines()


def _steps(number: int) -> str:
    return f"{number} step{'' if number == 1 else 's'}"
