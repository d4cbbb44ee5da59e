"""Model settings for results, and the training record beside a model's weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from eventformers.errors import EventformersError
from eventformers.evaluation.tasks.base import BatchSize
from eventformers.evaluation.tasks.protocols import JsonValue
from eventformers.inference.encode import EventEncoder
from eventformers.loading.encoders import PACKAGED_ENCODER, resolve_encoder

TRAINING_RECORD = "run.json"
"""The file beside a trained model's weights with its start encoder, recipe and seed."""


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


def training_record(
    model: str | Path | EventEncoder | None, revision: str | None
) -> Mapping[str, object] | None:
    """Read the training record of a folder or Hub repository; None if it has none."""
    if model is None or isinstance(model, EventEncoder):
        return None
    folder = Path(model).expanduser()
    if folder.is_dir():
        path = folder / TRAINING_RECORD
    else:
        try:
            path = Path(hf_hub_download(str(model), TRAINING_RECORD, revision=revision))
        except (HfHubHTTPError, HFValidationError, OSError):
            return None
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise EventformersError(f"{path}: invalid JSON: {error}; accepted: a training record") from error
    return content if isinstance(content, dict) else None


def training_seed(training: Mapping[str, object] | None) -> int | None:
    recipe = training.get("recipe") if training else None
    seed = recipe.get("seed") if isinstance(recipe, Mapping) else None
    return seed if isinstance(seed, int) else None
