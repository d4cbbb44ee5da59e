"""What evaluations, trainings and reproductions share: models, encoded texts and data, each loaded once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from eventformers.errors import EventformersError
from eventformers.evaluation.data import DataStore
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding.latest_answer import LatestAnswer
from eventformers.inference.grounding.pair_scoring import CrossEncoder, load_cross_encoder

Encoded = TypeVar("Encoded")


class Session:
    """Holds what is loaded, encoded and fingerprinted, so that several evaluations do it once.

    No result depends on it. Each encoder keeps the vectors of the latest list of inputs
    (`EventEncoder.memory`): tasks on the same rows, one after another, encode them once, and give the same to
    the last bit as apart. Rows that only overlap are encoded again, since the last bits of a vector depend on
    its batch. The vectors of mentions and of events that they are linked to are all kept.

    Models, vectors and data are kept until `release` or the end of the block: for each encoder the vectors
    of one task, by all-MiniLM-L6-v2 1.5 kB for each distinct event, by a HeterEvent of it with four words in
    an event 11 kB; and 4·d bytes for each mention or event under a model with vectors of size d, 12·d under
    one with queries and keys.

    Args:
        data_of: another session, whose data this one uses and adds to; its own models and vectors go with
            it. None starts without data.
        keeps_vectors: whether encoders keep their latest vectors.

    ```python
    with Session() as session:
        results = [evaluate(model, task, data=data, session=session) for task in tasks]
    ```
    """

    def __init__(self, data_of: Session | None = None, *, keeps_vectors: bool = True) -> None:
        self.data: DataStore = DataStore() if data_of is None else data_of.data
        self._keeps_vectors = keeps_vectors
        self._encoders: dict[tuple[str | None, ...], EventEncoder] = {}
        self._cross_encoders: dict[tuple[str | None, ...], CrossEncoder] = {}
        # With the encoder that was given, whose number no other gets as long as it is here.
        self._given: dict[int, tuple[EventEncoder, EventEncoder]] = {}
        self._encoded: dict[tuple[Hashable, ...], tuple[Any, int]] = {}

    def __enter__(self) -> Session:
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
        max_length: int | None = None,
    ) -> EventEncoder:
        """An encoder, loaded at the first call.

        Args:
            model: what `load_encoder` takes, or an encoder, of which a copy comes back and whose weights stay
                as they are until `release`.
            pooling: as for `load_encoder`.
            event_order: as for `load_encoder`.
            device: as for `load_encoder`.
            dtype: as for `load_encoder`.
            max_length: tokens of a text at most; None takes the encoder's own number.

        Raises:
            EventformersError: it cannot be loaded, or settings of loading are given for one that is loaded.
        """
        if isinstance(model, EventEncoder):
            if pooling or event_order or device or dtype:
                raise EventformersError(
                    "the encoder is loaded already; accepted: pooling, event order, device and dtype only "
                    "with the name of a model"
                )
            held = self._given.setdefault(id(model), (model, self._with_memory(model)))[1]
        else:
            asked = (None if model is None else str(model), pooling, event_order, device, dtype)
            if asked not in self._encoders:
                loaded = load_encoder(
                    model, pooling=pooling, event_order=event_order, device=device, dtype=dtype
                )
                self._encoders[asked] = self._with_memory(loaded)
            held = self._encoders[asked]
        # A copy, so that the length holds for this caller alone.
        return replace(held, max_length=min(held.max_length, max_length or held.max_length))

    def _with_memory(self, encoder: EventEncoder) -> EventEncoder:
        return replace(encoder, memory=LatestAnswer()) if self._keeps_vectors else encoder

    def cross_encoder(
        self, name_or_path: str | Path, *, device: str | None = None, dtype: str | None = None
    ) -> CrossEncoder:
        """A cross-encoder, loaded at the first call; arguments and errors as of `load_cross_encoder`."""
        asked = (str(name_or_path), device, dtype)
        if asked not in self._cross_encoders:
            self._cross_encoders[asked] = load_cross_encoder(name_or_path, device=device, dtype=dtype)
        return self._cross_encoders[asked]

    def recall(
        self, encoder: EventEncoder, asked: tuple[Hashable, ...], encode: Callable[[], Encoded]
    ) -> Encoded:
        """What texts were encoded to, or are now; sets the encoder's `truncated`.

        Args:
            encoder: the model; one without a revision, which cannot be told from others, encodes again.
            asked: what else decides the outcome: the texts, and how they are read.
            encode: encodes them.
        """
        if encoder.revision is None:
            return encode()
        key = (
            *(encoder.name, encoder.revision, str(encoder.model.dtype), encoder.model.device.type),
            *(getattr(encoder.model.config, "pooling", None), encoder.max_length),
            *asked,
        )
        if key not in self._encoded:
            self._encoded[key] = (encode(), encoder.truncated)
        encoded, encoder.truncated = self._encoded[key]
        return cast("Encoded", encoded)

    def release(self) -> None:
        """Let go of all models and vectors."""
        self.release_models()
        self._encoded.clear()

    def release_models(self) -> None:
        """Let go of all models with their latest vectors; the vectors of mentions and events stay."""
        for encoder in (*self._encoders.values(), *(copy for _, copy in self._given.values())):
            if self._keeps_vectors and encoder.memory is not None:
                encoder.memory.forget()
        for held in (self._encoders, self._cross_encoders, self._given):
            held.clear()
