"""Callbacks of a training run: progress, early stopping, and the choice of a checkpoint by silhouettes."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from peft import PeftModel
from safetensors.numpy import load_file, save_file
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import silhouette_score
from sklearn.preprocessing import normalize
from torch import nn
from tqdm import tqdm
from transformers import ProgressCallback, TrainerCallback, TrainerState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, IntervalStrategy

from eventformers.errors import EventformersError, counted
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.stages import SILHOUETTE

SILENT_SECONDS = 30.0
"""Maximum time without a line while steps are made."""

_VECTORS = "vectors"
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

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
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

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Print the number of steps."""
        self._start, self._first_step = time.monotonic(), state.global_step
        batch = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        self._print(state, f"training: {counted(state.max_steps, 'step')}, batch size {batch}")

    def on_substep_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Print the step and the time left if nothing was printed for a while."""
        self._tell_place(state, SILENT_SECONDS)

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Print the first step, and later ones if nothing was printed for a while."""
        # A step that is logged has its own line.
        if not control.should_log:
            is_first = state.global_step == self._first_step + 1
            self._tell_place(state, 0 if is_first else SILENT_SECONDS)

    def on_prediction_step(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
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

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Print a log line, while training with the time left."""
        text = log_text(logs or {})
        if text and self._start is not None:
            text = f"step {state.global_step} of {state.max_steps}: {text}, {self._time_left(state)}"
        if text:
            self._print(state, text)

    def on_train_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Print the duration."""
        duration = tqdm.format_interval(time.monotonic() - cast(float, self._start))
        self._print(state, f"trained {counted(state.global_step, 'step')} in {duration}")
        self._start = None

    def _print(self, state: TrainerState, line: str) -> None:
        self._told = time.monotonic()
        if state.is_world_process_zero:
            print(line, file=sys.stderr, flush=True)


def progress_callback() -> TrainerCallback:
    """Make a bar if standard error is a terminal, and lines otherwise."""
    return ProgressBar() if sys.stderr.isatty() else ProgressLines()


class StoppingCallback(TrainerCallback):
    """Callback that stops when the validation loss has settled, or the best value is too long ago.

    The values are read from the log, so a resumed run stops at the same step as an uninterrupted one, which
    `transformers.EarlyStoppingCallback` does not by default.

    Args:
        relative_change: stop when |L_t - L_(t-1)| / L_(t-1) is below it, as MICO does at 0.01 (section 4.4).
        patience: stop when `metric_for_best_model` has not improved for this many validations.
    """

    def __init__(self, relative_change: float | None = None, patience: int | None = None) -> None:
        self.relative_change, self.patience = relative_change, patience

    def on_evaluate(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Compare the last two validation losses, and count the validations since the best one."""
        if self.relative_change is not None:
            losses = [line["eval_loss"] for line in state.log_history if "eval_loss" in line]
            if len(losses) > 1 and abs(losses[-1] - losses[-2]) < self.relative_change * losses[-2]:
                control.should_training_stop = True
        if self.patience is not None:
            name = f"eval_{(args.metric_for_best_model or 'loss').removeprefix('eval_')}"
            values = [line[name] for line in state.log_history if name in line]
            best = max if args.greater_is_better else min
            if values and len(values) - 1 - values.index(best(values)) >= self.patience:
                control.should_training_stop = True


def stopping_callbacks(arguments: EventTrainingArguments, has_validation: bool) -> list[TrainerCallback]:
    """Make the callbacks for early stopping, which needs validation rows.

    Raises:
        EventformersError: early stopping is requested without validation rows.
    """
    change, patience = arguments.stop_at_relative_change, arguments.early_stopping_patience
    if change is None and patience is None:
        return []
    if not has_validation or arguments.eval_strategy == IntervalStrategy.NO:
        name = "stop_at_relative_change" if change is not None else "early_stopping_patience"
        raise EventformersError(
            f"{name} needs a validation loss; accepted: validation_rows above 0, and no eval_strategy=no"
        )
    return [StoppingCallback(change, patience)]


Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class UnseenMentions:
    """Mentions of unseen types, without their labels.

    Args:
        num_types: number of unseen types; 0 if unknown.
    """

    batches: Sequence[Mapping[str, torch.Tensor]]
    num_mentions: int
    num_types: int


def choose_checkpoint(silhouettes: Sequence[float], window: int) -> int:
    """Choose the best value within the best window (section 3.6 and Appendix F).

    The best window is the complete window with the highest mean. On ties, the first window and the first
    value win.

    Args:
        silhouettes: one value for each checkpoint, at least one.
        window: number of values in a window; fewer values form one window.
    """
    values = np.asarray(silhouettes, dtype=np.float64)
    width = min(window, len(values))
    means = np.convolve(values, np.full(width, 1 / width), mode="valid")
    # Rounding can separate equal means.
    start = int(np.argmax(means >= means.max() - 1e-12))
    return start + int(np.argmax(values[start : start + width]))


def attention_silhouette(query: Matrix, key: Matrix, embeddings: Matrix, num_clusters: int) -> float:
    """Measure how well clusters of the learned attention fit the encoder's vectors (section 3.6).

    Clusters come from average linkage on the symmetrised 1 - QK^T; the result is the mean cosine silhouette
    of the encoder's vectors.

    Args:
        query: `(n, d)`.
        key: `(n, d)`.
        embeddings: `(n, d)`, none of them zero.
        num_clusters: from 2 to n - 1.

    Returns:
        A value in [-1, 1].
    """
    scores = query @ key.T
    distances = 1 - (scores + scores.T) / 2
    # scikit-learn rejects negative distances, and the shift does not change the clusters.
    distances -= distances.min()
    clustering = AgglomerativeClustering(n_clusters=num_clusters, metric="precomputed", linkage="average")
    return float(silhouette_score(embeddings, clustering.fit_predict(distances), metric="cosine"))


class SilhouetteCallback(TrainerCallback):
    """Callback that logs the silhouette of the unseen mentions for every checkpoint (Appendix F).

    It also logs how far their vectors have moved since the first step, 1 - cosine: mean and standard
    deviation (Appendix A). Checkpoints include the log and the first vectors, for a resumed run.

    Args:
        window: number of checkpoints in a window; see `choose_checkpoint`.
        curves: further numbers of clusters whose silhouettes are logged (Figure 7).
    """

    def __init__(
        self, unseen: UnseenMentions, num_clusters: int, window: int, curves: Sequence[int] = ()
    ) -> None:
        self.unseen = unseen
        self.num_clusters = num_clusters
        self.window = window
        self.curves = curves
        self.first: Matrix | None = None

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Keep the vectors before the first step, or read those of the checkpoint that a run resumes from."""
        if state.global_step == 0:
            self.first = normalize(_encode(kwargs["model"], self.unseen.batches)[2])
        elif (kept := _first_vectors(args, state)).exists():
            self.first = load_file(kept)[_VECTORS]

    def on_save(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Keep the first vectors with the checkpoint."""
        if self.first is not None and state.is_world_process_zero:
            save_file({_VECTORS: self.first}, _first_vectors(args, state))

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Measure if a checkpoint is saved after this step or epoch."""
        if not control.should_save or state.global_step in _measured(state):
            return
        query, key, embeddings = _encode(kwargs["model"], self.unseen.batches)
        line = {"step": state.global_step, "epoch": state.epoch or 0.0}
        for number in (self.num_clusters, *self.curves):
            name = SILHOUETTE if number == self.num_clusters else f"{SILHOUETTE}_{number}"
            line[name] = attention_silhouette(query, key, embeddings, number)
        if self.first is not None:
            moved = 1 - np.vecdot(self.first, normalize(embeddings))
            line |= {"vectors_moved": float(moved.mean()), "vectors_moved_std": float(moved.std())}
        state.log_history.append(line)

    on_epoch_end = on_step_end

    def take_checkpoint(self, folder: Path, state: TrainerState) -> Path:
        """Choose one of the checkpoints in a folder and record it in the log."""
        values = _measured(state)
        chosen = list(values)[choose_checkpoint(list(values.values()), self.window)]
        state.log_history.append(
            {"chosen_step": chosen, "silhouette_window": self.window, "step": state.global_step}
        )
        return folder / f"{PREFIX_CHECKPOINT_DIR}-{chosen}"


def _first_vectors(args: Any, state: TrainerState) -> Path:
    checkpoint = f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
    return Path(args.output_dir) / checkpoint / "first_vectors.safetensors"


def silhouette_callback(
    arguments: EventTrainingArguments, unseen: UnseenMentions | None
) -> SilhouetteCallback | None:
    """Make the callback that measures the checkpoints; None without `silhouette_window`.

    Raises:
        EventformersError: a setting is invalid, or no mention can be clustered.
    """
    window = arguments.silhouette_window
    if window is None:
        return None
    if unseen is None:
        raise EventformersError("silhouette_window needs mentions of unseen types; accepted here: null")
    if arguments.load_best_model_at_end:
        raise EventformersError(
            "silhouette_window and load_best_model_at_end both choose the checkpoint; accepted: only one of "
            "them"
        )
    num_clusters = unseen.num_types
    if num_clusters < 2:
        raise EventformersError(
            f"silhouette_window: found {num_clusters} unseen types in the data; accepted: 2 or more, or "
            "silhouette_window=null"
        )
    curves = arguments.silhouette_curves or []
    most = max([num_clusters, *curves])
    if unseen.num_mentions <= most:
        raise EventformersError(
            f"silhouette_window: found {unseen.num_mentions} unseen mentions for {most} clusters; "
            "accepted: more mentions than clusters, or silhouette_window=null"
        )
    return SilhouetteCallback(unseen, num_clusters, window, curves)


def _measured(state: TrainerState) -> dict[int, float]:
    """Return the silhouette of each checkpoint by its step."""
    return {cast(int, line["step"]): line[SILHOUETTE] for line in state.log_history if SILHOUETTE in line}


def _encode(model: nn.Module, batches: Sequence[Mapping[str, torch.Tensor]]) -> tuple[Matrix, Matrix, Matrix]:
    """Compute queries, keys and encoder vectors of all batches, each `(n, d)`."""
    head = model.get_base_model() if isinstance(model, PeftModel) else model
    encoder = cast(Any, head).base_model
    parts: list[tuple[Matrix, ...]] = []
    was_training = encoder.training
    encoder.eval()
    with torch.no_grad():
        for batch in batches:
            output = encoder(**{name: value.to(encoder.device) for name, value in batch.items()})
            vectors = (output.query, output.key, output.embeddings)
            parts.append(tuple(value.float().cpu().numpy() for value in vectors))
    encoder.train(was_training)
    query, key, embeddings = (np.concatenate(part) for part in zip(*parts, strict=True))
    return query, key, embeddings
