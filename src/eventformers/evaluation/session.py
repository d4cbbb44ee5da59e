"""Models, vectors and data shared by evaluations, training runs and reproductions."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from datasets import Dataset, DatasetDict, concatenate_datasets

from eventformers.datasets_scripts.building import build_dataset, build_reports
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.datasets_scripts.loading import find_built, load_built
from eventformers.datasets_scripts.malformed import malformed_policy
from eventformers.errors import EventformersError
from eventformers.inference.encode import EventEncoder, as_encoder
from eventformers.inference.grounding.encoding import CrossEncoder, load_cross_encoder

Outcome = TypeVar("Outcome")
Reading = TypeVar("Reading", bound=Any)
"""A `Task`, which stands above this module."""


@dataclass(frozen=True)
class BuiltData:
    """A built and loaded config of a dataset; `read_report` reads the build report, which may be empty."""

    splits: DatasetDict
    read_report: Callable[[], Mapping[str, object]]
    _fingerprints: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def report(self) -> Mapping[str, object]:
        """The build report, which may be empty."""
        return self.read_report()

    @cached_property
    def all_rows(self) -> Dataset:
        """The rows of all splits."""
        return concatenate_datasets(list(self.splits.values()))

    def fingerprint(self, rows: Dataset | DatasetDict, name: str) -> str:
        """Compute the SHA-256 of rows of this config, once for each name."""
        if name not in self._fingerprints:
            self._fingerprints[name] = dataset_fingerprint(rows)
        return self._fingerprints[name]


class DataStore:
    """A cache of datasets that builds and loads each config once.

    The data must not change while the store is in use. The store keeps errors too, and does not retry.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str | None, ...], BuiltData | EventformersError] = {}

    def load(
        self, data: str | Path | None, dataset: str, config: str, settings: Mapping[str, Any]
    ) -> BuiltData:
        """Load a config of a builder's dataset from raw files, a built folder or a Hub id; None takes the
        samples.

        Raises:
            DataFormatError: a raw file cannot be read.
            EventformersError: the data lacks the config.
        """
        place = None if data is None else str(data)
        key = (place, dataset, config, json.dumps(settings, sort_keys=True, default=str), malformed_policy())
        if key not in self._held:

            def read_report() -> Mapping[str, object]:
                try:
                    built = None if data is None else find_built(Path(data), dataset)
                    if built is not None and (report := build_reports(built).get(config)):
                        return report
                    # The rows are already loaded, so this reads the cache.
                    return build_reports(build_dataset(dataset, config, data, **settings))[config]
                except EventformersError:
                    return {}

            try:
                splits = load_built(data, config, builder=dataset, **settings)
                self._held[key] = BuiltData(splits, read_report)
            except EventformersError as error:
                self._held[key] = error
        held = self._held[key]
        if isinstance(held, EventformersError):
            raise held
        return held


class Session:
    """A cache of models, vectors and data that several evaluations share.

    A session changes no result. Each encoder keeps the vectors of its latest list of inputs
    (`EventEncoder.memory`), so consecutive tasks on the same rows encode them once, with identical scores.
    Rows that only overlap are encoded again, since the last bits of a vector depend on its batch. The session
    keeps all vectors of mentions and of the events that they are linked to. With `in_turn`, encoders keep
    nothing that the next task cannot use.

    Models, vectors and data stay until `release` or the end of the block. For each encoder these are the
    vectors of one task: 1.5 kB for each distinct event with all-MiniLM-L6-v2. With a HeterEvent on it, these
    are 3 kB for tasks of several steps, and 10 kB for contexts if an event has four words. Each mention or
    event adds 4·d bytes with vectors of size d, or 12·d bytes with queries and keys.

    Args:
        data_of: another session, whose data and outcomes of `once` this one uses and adds to; models and
            vectors are not shared. None starts without data.
        keeps_vectors: whether encoders keep their latest vectors.

    ```python
    with Session() as session:
        results = [evaluate(model, task, data=data, session=session) for task in tasks]
    ```
    """

    def __init__(self, data_of: Session | None = None, *, keeps_vectors: bool = True) -> None:
        self.data: DataStore = DataStore() if data_of is None else data_of.data
        self._outcomes: list[tuple[object, Any]] = [] if data_of is None else data_of._outcomes
        self._keeps_vectors = keeps_vectors
        self._reuses_latest = True
        self._encoders: dict[tuple[str | None, ...], EventEncoder] = {}
        self._cross_encoders: dict[tuple[str | None, ...], CrossEncoder] = {}
        # Keeping the given encoder alive ensures that no other object gets its id.
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
        """Return an encoder; load it on the first call.

        Args:
            model: a model as for `load_encoder`, or a loaded encoder. Of a loaded encoder this returns a
                copy; its weights must not change until `release`.
            pooling: as for `load_encoder`.
            event_order: as for `load_encoder`.
            device: as for `load_encoder`.
            dtype: as for `load_encoder`.
            max_length: maximum number of tokens of a text; None takes the encoder's own.

        Raises:
            EventformersError: the encoder cannot be loaded, or is loaded already and comes with settings of
                loading.
        """
        settings = {"pooling": pooling, "event_order": event_order, "device": device, "dtype": dtype}
        asked = (None if model is None else str(model), *settings.values())
        if isinstance(model, EventEncoder):
            given = as_encoder(model, **settings)
            held = self._given.setdefault(id(model), (model, self._with_memory(given)))[1]
        else:
            if asked not in self._encoders:
                self._encoders[asked] = self._with_memory(as_encoder(model, **settings))
            held = self._encoders[asked]
        # A copy, so that the length and the memory affect only this caller.
        return replace(
            held,
            max_length=min(held.max_length, max_length or held.max_length),
            memory=held.memory if self._reuses_latest else None,
        )

    def in_turn(self, tasks: Sequence[Reading]) -> Iterator[Reading]:
        """Yield tasks in their order, and keep the vectors of a task only if they can be used again.

        While a task is evaluated, encoders keep their vectors only if the task before or after it can read
        the same rows.

        Args:
            tasks: all tasks, each to be evaluated with this session before the next one is taken.
        """
        try:
            for position, task in enumerate(tasks):
                beside = (*tasks[max(0, position - 1) : position], *tasks[position + 1 : position + 2])
                self._reuses_latest = any(task.may_share_rows(other) for other in beside)
                if not self._reuses_latest:
                    self._forget_latest()
                yield task
        finally:
            self._reuses_latest = True

    def _with_memory(self, encoder: EventEncoder) -> EventEncoder:
        return replace(encoder, memory={}) if self._keeps_vectors else encoder

    def cross_encoder(
        self, name_or_path: str | Path, *, device: str | None = None, dtype: str | None = None
    ) -> CrossEncoder:
        """Return a cross-encoder; load it on the first call. Arguments as for `load_cross_encoder`."""
        asked = (str(name_or_path), device, dtype)
        if asked not in self._cross_encoders:
            self._cross_encoders[asked] = load_cross_encoder(name_or_path, device=device, dtype=dtype)
        return self._cross_encoders[asked]

    def recall(
        self, encoder: EventEncoder, asked: tuple[Hashable, ...], encode: Callable[[], Outcome]
    ) -> Outcome:
        """Return the cached outcome of `encode`, or call it; set the encoder's `truncated`.

        Args:
            encoder: the encoder. Without a revision it has no key, so nothing is cached.
            asked: the rest of the key: the texts and how they are read.
            encode: encodes the texts.
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
        return cast("Outcome", encoded)

    def once(self, asked: object, compute: Callable[[], Outcome]) -> Outcome:
        """Return the outcome of an earlier call with equal `asked`, or call `compute`.

        Outcomes stay after `release`, so they must be small, such as the scores of an untrained encoder.

        Args:
            asked: everything that decides the outcome.
            compute: computes it.
        """
        for earlier, outcome in self._outcomes:
            if earlier == asked:
                return cast("Outcome", outcome)
        outcome = compute()
        self._outcomes.append((asked, outcome))
        return outcome

    def release(self) -> None:
        """Release all models and vectors."""
        self.release_models()
        self._encoded.clear()

    def release_models(self) -> None:
        """Release all models and their latest vectors; keep the vectors of mentions and events."""
        self._forget_latest()
        for held in (self._encoders, self._cross_encoders, self._given):
            held.clear()

    def _forget_latest(self) -> None:
        for encoder in (*self._encoders.values(), *(copy for _, copy in self._given.values())):
            if self._keeps_vectors and encoder.memory is not None:
                encoder.memory.clear()
