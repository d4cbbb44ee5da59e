"""The models of evaluations on mentions: their vectors, each encoded once, and ensembles."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from eventformers.errors import EventformersError
from eventformers.evaluation.models import SharedEncoders, task_encoder
from eventformers.evaluation.tasks import Task
from eventformers.evaluation.tasks.induction_protocols import EncodeMentions, InductionSettings, MentionModel
from eventformers.evaluation.tasks.protocols import JsonValue, Row
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.latest_answer import digest_of
from eventformers.inference.induction.mention_distances import MentionVectors
from eventformers.inference.induction.mention_encoding import WITHOUT_TRIGGERS, encode_labels, encode_mentions

Model = str | Path | EventEncoder
Encoded = TypeVar("Encoded")


class MentionMemory:
    """Keeps the vectors of mentions, and of events that they are linked to, under each model, so that many
    ways to cluster or link them encode them once.

    A text takes 4·d bytes under a model with vectors of size d, a mention 12·d under one with queries and
    keys. All is kept as long as this is.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, ...], tuple[Any, int]] = {}

    def recall(
        self, encoder: EventEncoder, asked: tuple[Hashable, ...], encode: Callable[[], Encoded]
    ) -> Encoded:
        """What texts were encoded to, or are now; sets the encoder's `truncated`.

        Args:
            encoder: the model; one without a revision, which nothing tells from others, encodes anew.
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
        if key not in self._known:
            self._known[key] = (encode(), encoder.truncated)
        encoded, encoder.truncated = self._known[key]
        return cast("Encoded", encoded)

    def vectors(
        self,
        encoder: EventEncoder,
        mentions: Sequence[Row],
        settings: InductionSettings,
        batch_size: int | Literal["auto"],
    ) -> MentionVectors:
        """The vectors of mentions, as `encode_mentions` gives them; sets the encoder's `truncated`."""
        rows = cast("Sequence[dict[str, Any]]", mentions)
        encode = partial(
            encode_mentions, encoder, rows, trigger_input=settings.trigger_input, batch_size=batch_size
        )
        told = ((row["text"], row["trigger_start"], row["trigger_end"]) for row in rows)
        return self.recall(encoder, (settings.trigger_input, batch_size, digest_of(told)), encode)


def mention_model(
    encoder: EventEncoder,
    settings: InductionSettings,
    memory: MentionMemory,
    batch_size: int | Literal["auto"],
    runs: Sequence[EventEncoder] = (),
) -> MentionModel:
    """What a protocol of event type induction asks.

    Args:
        encoder: the model.
        settings: how mentions are read.
        memory: keeps their vectors.
        batch_size: as for `encode_mentions`.
        runs: the models by whose mean distances mentions are clustered; none takes the model's own.
    """

    def encode_by(one: EventEncoder, reading: InductionSettings) -> EncodeMentions:
        def encode(mentions: Sequence[Row]) -> MentionVectors:
            _tell_seen_types(one, mentions)
            return memory.vectors(one, mentions, reading, batch_size)

        return encode

    def reading_of(run: EventEncoder) -> InductionSettings:
        # Each model reads triggers as it was trained to, whatever the scored one does.
        own = hasattr(run.model.config, "trigger_input")
        return replace(settings, trigger_input=None) if own else settings

    return MentionModel(
        embed=lambda texts: encode_labels(encoder, list(map(str, texts)), batch_size=batch_size),
        encode=encode_by(encoder, settings),
        clustered_by=tuple(encode_by(run, reading_of(run)) for run in runs),
    )


def _tell_seen_types(encoder: EventEncoder, mentions: Sequence[Row]) -> None:
    """Warn of types that are scored as unseen although the model was trained on their labels."""
    trained = set(getattr(encoder.model.config, "trained_types", None) or ())
    known = sorted(trained & {str(row["event_type"]) for row in mentions})
    if known:
        warnings.warn(
            f"{encoder.name} was trained on labels of {len(known)} types that are scored as unseen "
            f"({', '.join(known[:5])}): its score is partly one of training; train and evaluate with the "
            "same num_seen or seen_types",
            stacklevel=2,
        )


def ensemble_runs(
    task: Task,
    models: Sequence[Model],
    encoder: EventEncoder,
    device: str | None,
    dtype: str | None,
    shared: SharedEncoders | None,
) -> list[EventEncoder]:
    """Load the runs of an ensemble.

    Args:
        task: the task.
        models: folders or Hub ids, or encoders that are loaded.
        encoder: the model that is scored.
        device: as for `load_encoder`.
        dtype: as for `load_encoder`.
        shared: encoders that other evaluations share.

    Raises:
        EventformersError: the task makes no clusters, or a task of clusters alone is scored by an ensemble
            that its model is none of; or a run cannot be loaded, or has no revision.
    """
    settings = task.induction_settings
    if settings is None or (task.name != "type_induction" and settings.clusters == "true"):
        raise EventformersError(
            f"{task.name} makes no clusters; accepted with an ensemble: type_induction, and type_naming and "
            "frame_linking with clusters=predicted"
        )
    runs = []
    for one in models:
        place = (None, None) if isinstance(one, EventEncoder) else (device, dtype)
        runs.append(task_encoder(task, one, None, None, *place, shared))
    unknown = [run.name for run in runs if run.revision is None]
    if unknown:
        raise EventformersError(
            f"runs without a revision: {', '.join(unknown)}; accepted: models that load_encoder loaded"
        )
    if task.name == "type_induction" and encoder.revision not in {run.revision for run in runs}:
        raise EventformersError(
            f"the ensemble ({', '.join(run.name for run in runs)}) does not hold the scored model "
            f"{encoder.name}; accepted: it as one of the runs"
        )
    return runs


def ensemble_name(runs: Sequence[EventEncoder]) -> str:
    """What results call an ensemble: the number of its runs, and a digest of which they are."""
    digest = hashlib.sha256(" ".join(sorted(str(run.revision) for run in runs)).encode()).hexdigest()
    return f"ensemble-{len(runs)}-{digest[:8]}"


def ensemble_record(runs: Sequence[EventEncoder]) -> JsonValue:
    """The runs of an ensemble, for the settings of a result."""
    return [{"model": run.name, "revision": run.revision} for run in runs]


def untrained_settings(settings: InductionSettings, encoder: EventEncoder) -> InductionSettings:
    """How the untrained encoder is read beside a model: by its vectors, which are all it has, and by the
    tokens of triggers where the model reads triggers.

    Args:
        settings: those of the model.
        encoder: the model.
    """
    own = getattr(encoder.model.config, "trigger_input", None)
    reads = settings.trigger_input if own is None else "none" if own in WITHOUT_TRIGGERS else "span"
    return replace(settings, distance="encoder", trigger_input=reads)
