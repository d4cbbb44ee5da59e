"""The models of evaluations: loading and sharing them, and what a training recorded beside its weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from eventformers.errors import EventformersError
from eventformers.evaluation.tasks import Task
from eventformers.evaluation.tasks.protocols import JsonValue
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding.latest_answer import LatestAnswer
from eventformers.loading.encoders import PACKAGED_ENCODER, resolve_encoder

TRAINING_RECORD = "run.json"
"""The file beside a trained model's weights that tells its start encoder and its recipe with the seed."""


class SharedEncoders:
    """Encoders that several evaluations share: none is loaded twice, and no list of events encoded twice.

    Each encoder keeps what the latest list of inputs was encoded to (`EventEncoder.memory`): tasks that read
    the same rows one after another, such as those with several steps, encode them once, and get to the last
    bit what they get apart. Rows that only overlap are encoded anew, since a vector's last bits depend on its
    batch.

    All is kept until the block ends, beside the loaded models: for each encoder the vectors of one task, by
    all-MiniLM-L6-v2 1.5 kB for each distinct event, by a HeterEvent of it with four words in an event 11 kB.

    ```python
    with SharedEncoders() as shared:
        results = [evaluate(model, task, data=data, shared=shared) for task in tasks]
    ```
    """

    def __init__(self) -> None:
        self._loaded: dict[tuple[str | None, ...], EventEncoder] = {}
        # With the encoder that was given, whose number no other gets as long as it is here.
        self._given: dict[int, tuple[EventEncoder, EventEncoder]] = {}

    def __enter__(self) -> SharedEncoders:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def encoder(
        self,
        model: str | Path | EventEncoder | None,
        *,
        pooling: str | None = None,
        event_order: str | None = None,
        device: str | None = None,
        dtype: str | None = None,
    ) -> EventEncoder:
        """An encoder with a memory: a copy of the one that is given, or one that is loaded at the first call.

        Args:
            model: an encoder, whose weights stay as they are until `release`, or what `load_encoder` takes.
            pooling: as for `load_encoder`; for an encoder that is given, this and the others are not read.
            event_order: as for `load_encoder`.
            device: as for `load_encoder`.
            dtype: as for `load_encoder`.

        Raises:
            EventformersError: it cannot be loaded.
        """
        if isinstance(model, EventEncoder):
            if id(model) not in self._given:
                self._given[id(model)] = (model, replace(model, memory=LatestAnswer()))
            return self._given[id(model)][1]
        asked = (None if model is None else str(model), pooling, event_order, device, dtype)
        if asked not in self._loaded:
            loaded = load_encoder(model, pooling=pooling, event_order=event_order, device=device, dtype=dtype)
            self._loaded[asked] = replace(loaded, memory=LatestAnswer())
        return self._loaded[asked]

    def release(self) -> None:
        """Let go of all encoders and of all that they keep."""
        for encoder in (*self._loaded.values(), *(shared for _, shared in self._given.values())):
            if encoder.memory is not None:
                encoder.memory.forget()
        self._loaded.clear()
        self._given.clear()


def task_encoder(
    task: Task,
    model: str | Path | EventEncoder | None,
    pooling: str | None,
    event_order: str | None,
    device: str | None,
    dtype: str | None,
    shared: SharedEncoders | None = None,
) -> EventEncoder:
    """The encoder that a task is scored with: loaded where a name is given, cut to the task's length.

    Args:
        task: the task.
        model: an encoder, or what `load_encoder` takes.
        pooling: as for `load_encoder`.
        event_order: as for `load_encoder`.
        device: as for `load_encoder`.
        dtype: as for `load_encoder`.
        shared: encoders of this and other evaluations, which it is taken from; None takes it for itself.

    Raises:
        EventformersError: it cannot be loaded, or settings of loading are given for one that is loaded.
    """
    if isinstance(model, EventEncoder) and (pooling or event_order or device or dtype):
        raise EventformersError(
            "the encoder is loaded already; accepted: pooling, event order, device and dtype only with "
            "the name of a model"
        )
    if shared is not None:
        encoder = shared.encoder(model, pooling=pooling, event_order=event_order, device=device, dtype=dtype)
    elif isinstance(model, EventEncoder):
        encoder = model
    else:
        encoder = load_encoder(model, pooling=pooling, event_order=event_order, device=device, dtype=dtype)
    # A copy, so that the encoder of the caller keeps its own length.
    return replace(encoder, max_length=min(encoder.max_length, task.max_length or encoder.max_length))


def encoder_settings(encoder: EventEncoder, batch_size: int | Literal["auto"]) -> dict[str, JsonValue]:
    """What an encoder runs under, for a result."""
    return {
        "pooling": encoder.model.config.pooling if hasattr(encoder.model, "pool") else None,
        "event_order": encoder.event_order,
        "dtype": str(encoder.model.dtype).removeprefix("torch."),
        "device": encoder.model.device.type,
        "batch_size": batch_size,
        "max_length": encoder.max_length,
    }


def start_encoder(recorded: str) -> str | None:
    """What `load_encoder` takes for a recorded start encoder: the package goes before the Hub."""
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
    """What the training wrote beside the weights of a folder or of a Hub repository; None without it."""
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
        raise EventformersError(f"{path}: no JSON: {error}; accepted: a training record") from error
    return content if isinstance(content, dict) else None


def training_seed(training: Mapping[str, object] | None) -> int | None:
    recipe = training.get("recipe") if training else None
    seed = recipe.get("seed") if isinstance(recipe, Mapping) else None
    return seed if isinstance(seed, int) else None
