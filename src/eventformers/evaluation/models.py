"""Model settings for results, and the start of a model's training from the files beside its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eventformers.datasets_scripts.dataset_card import read_front_matter
from eventformers.errors import EventformersError
from eventformers.evaluation.tasks.base import BatchSize
from eventformers.evaluation.tasks.protocols import JsonValue
from eventformers.inference.encode import EventEncoder
from eventformers.loading.encoders import PACKAGED_ENCODER, resolve_encoder
from eventformers.loading.model_files import find_file, read_object

_RUN_FILE = "run.json"
_ARGUMENTS_FILE = "training_args.json"
_CARD_FILE = "README.md"


@dataclass(frozen=True)
class TrainingStart:
    """What the training of a model started from.

    Attributes:
        encoder: Hub id or folder of the start encoder; None if unknown.
        seed: the seed of the run; None if unknown.
    """

    encoder: str | None
    seed: int | None


def encoder_settings(encoder: EventEncoder, batch_size: BatchSize) -> dict[str, JsonValue]:
    """Collect the settings of an encoder for a result."""
    return {
        "pooling": encoder.model.config.pooling if hasattr(encoder.model, "pool") else None,
        "event_order": encoder.event_order,
        "dtype": str(encoder.model.dtype).removeprefix("torch."),
        "device": encoder.model.device.type,
        "batch_size": batch_size,
        "max_length": encoder.max_length,
    }


def start_encoder(recorded: str) -> str | None:
    """Return the argument of `load_encoder` for a recorded start encoder; prefer the package to the Hub."""
    if recorded != PACKAGED_ENCODER:
        return recorded
    try:
        resolve_encoder(None)
    except EventformersError:
        return recorded
    return None


def read_training_start(
    model: str | Path | EventEncoder | None, revision: str | None
) -> TrainingStart | None:
    """Read the start of a trained model from its folder or Hub repository; None for a plain encoder.

    A run's folder has `run.json`, which is not pushed, since it names local folders. A repository has the
    start encoder as `base_model` of its card, and the seed in its training arguments.

    Args:
        model: folder or Hub id; None or a loaded encoder returns None.
        revision: commit of a Hub id; None uses the latest.

    Raises:
        EventformersError: a file cannot be read.
    """
    if model is None or isinstance(model, EventEncoder):
        return None
    source = str(Path(model).expanduser()) if Path(model).expanduser().is_dir() else str(model)
    if record := read_object(source, _RUN_FILE, revision):
        recipe = record.get("recipe")
        seed = recipe.get("seed") if isinstance(recipe, Mapping) else None
        return TrainingStart(_text(record.get("encoder")), seed if isinstance(seed, int) else None)
    # Only our training writes this file. Cards of plain encoders may name a base model, too.
    if not (arguments := read_object(source, _ARGUMENTS_FILE, revision)):
        return None
    card, seed = find_file(source, _CARD_FILE, revision), arguments.get("seed")
    base = read_front_matter(card).get("base_model") if card else None
    return TrainingStart(_text(base), seed if isinstance(seed, int) else None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
