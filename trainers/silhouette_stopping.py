"""Choice of a checkpoint by the silhouette of clusters of mentions of unseen types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from peft import PeftModel
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import silhouette_score
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from eventformers.errors import EventformersError, shown
from eventformers.files import remove_folder
from eventformers.trainers.arguments import EventTrainingArguments

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class UnseenMentions:
    """Mentions of unseen types, without their labels.

    Args:
        batches: inputs of the encoder.
        num_mentions: number of rows of all batches.
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

    Returns:
        The index of the value.
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
    """Callback that logs the silhouette of the unseen mentions for every checkpoint.

    Checkpoints include the log, so a resumed run has the earlier values.

    Args:
        unseen: the mentions.
        num_clusters: number of clusters.
        window: number of checkpoints in a window; see `choose_checkpoint`.
    """

    def __init__(self, unseen: UnseenMentions, num_clusters: int, window: int) -> None:
        self.unseen = unseen
        self.num_clusters = num_clusters
        self.window = window

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure if a checkpoint is saved after this step or epoch."""
        if not control.should_save or state.global_step in _measured(state):
            return
        value = attention_silhouette(*_encode(kwargs["model"], self.unseen.batches), self.num_clusters)
        line = {"silhouette": value, "step": state.global_step, "epoch": state.epoch or 0.0}
        state.log_history.append(line)

    on_epoch_end = on_step_end

    def take_checkpoint(self, folder: Path, state: TrainerState) -> Path:
        """Choose one of the checkpoints in a folder and record it in the log.

        Returns:
            The folder of the chosen checkpoint.
        """
        values = _measured(state)
        chosen = list(values)[choose_checkpoint(list(values.values()), self.window)]
        state.log_history.append({"chosen_step": chosen, "step": state.global_step})
        return folder / f"{PREFIX_CHECKPOINT_DIR}-{chosen}"


def remove_other_checkpoints(chosen: Path, last: int) -> None:
    """Remove all checkpoints but the chosen one and that of the last step, which tells a resume that no step
    is left."""
    kept = {chosen.name, f"{PREFIX_CHECKPOINT_DIR}-{last}"}
    for checkpoint in chosen.parent.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        if checkpoint.name not in kept:
            remove_folder(checkpoint)


def silhouette_callback(
    arguments: EventTrainingArguments, unseen: UnseenMentions | None
) -> SilhouetteCallback | None:
    """Make the callback that measures the checkpoints; None without `silhouette_window`.

    Raises:
        EventformersError: a setting is not accepted, or there is nothing to cluster.
    """
    window, asked = arguments.silhouette_window, arguments.silhouette_clusters
    if window is None:
        return None
    if unseen is None:
        raise EventformersError("silhouette_window needs mentions of unseen types; accepted here: null")
    if arguments.load_best_model_at_end:
        raise EventformersError(
            "silhouette_window and load_best_model_at_end both choose the checkpoint; accepted: only one of "
            "them"
        )
    num_clusters = asked or unseen.num_types
    if num_clusters < 2:
        raise EventformersError(
            f"silhouette_window: found {unseen.num_types} unseen types in the data; accepted: 2 or more, the "
            "setting silhouette_clusters, or silhouette_window=null"
        )
    if unseen.num_mentions <= num_clusters:
        raise EventformersError(
            f"silhouette_window: found {unseen.num_mentions} unseen mentions for {num_clusters} clusters; "
            "accepted: more mentions than clusters, or silhouette_window=null"
        )
    return SilhouetteCallback(unseen, num_clusters, window)


def check_silhouette_settings(settings: Mapping[str, Any]) -> None:
    """Check that the training settings of a recipe keep the checkpoints for `silhouette_window`.

    Raises:
        EventformersError: checkpoints are not saved, or are removed before the choice.
    """
    if settings.get("silhouette_window") is None:
        return
    for name, accepted in (("save_strategy", ("epoch", "steps")), ("save_total_limit", (None,))):
        if settings.get(name, accepted[0]) not in accepted:
            raise EventformersError(
                f"setting {name}: found {shown(settings[name])}; accepted with silhouette_window, which "
                f"chooses among all checkpoints: {' or '.join(str(value or 'null') for value in accepted)}"
            )


def _measured(state: TrainerState) -> dict[int, float]:
    """Return the silhouette of each checkpoint by its step."""
    return {cast(int, line["step"]): line["silhouette"] for line in state.log_history if "silhouette" in line}


def _encode(model: nn.Module, batches: Sequence[Mapping[str, torch.Tensor]]) -> tuple[Matrix, Matrix, Matrix]:
    """Compute queries, keys and encoder vectors of all batches, each `(n, d)`."""
    head = model.get_base_model() if isinstance(model, PeftModel) else model
    encoder = cast(Any, head).base_model
    parts: list[tuple[Matrix, ...]] = []
    with _evaluating(encoder), torch.no_grad():
        for batch in batches:
            output = encoder(**{name: value.to(encoder.device) for name, value in batch.items()})
            vectors = (output.query, output.key, output.embeddings)
            parts.append(tuple(value.float().cpu().numpy() for value in vectors))
    query, key, embeddings = (np.concatenate(part) for part in zip(*parts, strict=True))
    return query, key, embeddings


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)
