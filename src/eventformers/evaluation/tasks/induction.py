"""Tasks on mentions of unseen types: cluster them, name the clusters, and link them to frames."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, cast

import numpy as np
import torch

from eventformers.errors import EventformersError
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks.base import BatchSize, Computing, Prepared, Task, TaskKind, TaskRows
from eventformers.evaluation.tasks.induction_protocols import (
    EncodeMentions,
    InductionSettings,
    MentionModel,
    induce_types,
    link_types,
    name_types,
    unseen_rows,
)
from eventformers.evaluation.tasks.protocols import Embed, JsonValue, ProtocolOutput, Row
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.event_inputs import digest_of
from eventformers.inference.induction.mention_distances import Labels, MentionVectors
from eventformers.inference.induction.mention_encoding import (
    WITHOUT_TRIGGERS,
    encode_labels,
    encode_mentions,
    token_factors,
    weighting_rounds_of,
)

_MAKING_CLUSTERS = ("distance", "manifold", "method", "num_clusters", "weighting_rounds", "clustered_by")


@dataclass(frozen=True)
class Induction(TaskKind[MentionModel]):
    """Kind of task that clusters mentions, or names or links the clusters."""

    Settings = InductionSettings
    refusal = "does not cluster mentions; tasks that do"

    settings: InductionSettings = field(default_factory=InductionSettings)

    def used(self, settings: InductionSettings) -> tuple[tuple[str, ...], str]:
        """See `TaskKind`; clustering settings apply only if the model makes the clusters."""
        if "clusters" not in self.uses or settings.clusters == "predicted":
            return ("trigger_input", *_MAKING_CLUSTERS, *self.uses), ""
        return ("trigger_input", *self.uses), "; and settings of clustering, with clusters=predicted"

    def prepare(self, model: EventEncoder, session: Session, computing: Computing) -> Prepared[MentionModel]:
        """See `TaskKind`.

        Raises:
            EventformersError: a run of the ensemble cannot be loaded or has no revision, or the ensemble that
                clusters for the scored model does not contain it.
        """
        runs = self._runs(model, session, computing)
        asked = mention_model(model, self.settings, session, computing.batch_size, runs)
        if not runs:
            return Prepared(asked)
        told: list[JsonValue] = [{"model": run.name, "revision": run.revision} for run in runs]
        digest = hashlib.sha256(" ".join(sorted(str(run.revision) for run in runs)).encode()).hexdigest()
        return Prepared(asked, f"ensemble-{len(runs)}-{digest[:8]}", lambda: {"clustered_by": told})

    def _runs(self, model: EventEncoder, session: Session, computing: Computing) -> list[EventEncoder]:
        runs = []
        for one in self.settings.clustered_by:
            loaded = isinstance(one, EventEncoder)
            device, dtype = (None, None) if loaded else (computing.device, computing.dtype)
            runs.append(session.encoder(one, device=device, dtype=dtype))
        if unknown := [run.name for run in runs if run.revision is None]:
            raise EventformersError(
                f"runs without a revision: {', '.join(unknown)}; accepted: models loaded by load_encoder"
            )
        names_clusters = "clusters" in self.uses
        if runs and not names_clusters and model.revision not in {run.revision for run in runs}:
            raise EventformersError(
                f"the ensemble ({', '.join(run.name for run in runs)}) does not contain the scored model "
                f"{model.name}; accepted: an ensemble with it"
            )
        return runs

    def of_vectors(self, embed: Embed, device: torch.device | None = None) -> MentionModel:
        """See `TaskKind`; a mention's vector is that of its sentence.

        Raises:
            EventformersError: rounds of weighting are asked for.
        """
        if self.settings.weighting_rounds:
            raise EventformersError(
                f"weighting_rounds is {self.settings.weighting_rounds} with vectors of texts, whose tokens "
                "cannot be weighted; accepted: 0, or a model"
            )

        def encode(mentions: Sequence[Row], clusters: Labels | None) -> MentionVectors:
            return MentionVectors(np.asarray(embed([str(row["text"]) for row in mentions]), dtype=np.float32))

        return MentionModel(embed, encode)

    def run(self, asked: MentionModel, data: TaskRows) -> ProtocolOutput:
        """See `TaskKind`."""
        frames = [row for held in data.companions.values() for row in held]
        return self.protocol(asked, data.rows, frames, settings=self.settings)

    def untrained(self, model: EventEncoder) -> Self:
        """Adapt the settings: the untrained encoder has no queries and keys.

        It reads the trigger tokens if the model reads triggers in any way.
        """
        own = getattr(model.model.config, "trigger_input", None)
        reads = self.settings.trigger_input if own is None else "none" if own in WITHOUT_TRIGGERS else "span"
        return replace(
            self,
            settings=replace(
                self.settings,
                distance="encoder",
                trigger_input=reads,
                weighting_rounds=None,
                clustered_by=(),
            ),
        )

    @property
    def untrained_may_fail(self) -> bool:
        """True for affinity propagation, which does not converge on every model's distances."""
        return self.settings.method == "affinity"

    def count(self, rows: Sized) -> int:
        """Count the mentions of unseen types."""
        return len(unseen_rows(cast("Sequence[Row]", rows)))


def mention_model(
    encoder: EventEncoder,
    settings: InductionSettings,
    session: Session,
    batch_size: BatchSize,
    runs: Sequence[EventEncoder] = (),
) -> MentionModel:
    """Make the scorer of event type induction.

    Args:
        encoder: the model.
        settings: how mentions are read.
        session: caches their vectors.
        batch_size: as for `encode_mentions`.
        runs: the ensemble whose mean distances cluster mentions; empty for the model's own distances.
    """

    def encode_by(one: EventEncoder, reading: InductionSettings) -> EncodeMentions:
        def encode(mentions: Sequence[Row], clusters: Labels | None) -> MentionVectors:
            _warn_of_seen_types(one, mentions)
            rows = cast("Sequence[dict[str, Any]]", mentions)
            told = ((row["text"], row["trigger_start"], row["trigger_end"]) for row in rows)

            def compute() -> MentionVectors:
                return encode_mentions(
                    *(one, rows),
                    trigger_input=reading.trigger_input,
                    token_factors=token_factors(one, reading.trigger_input, rows, clusters),
                    batch_size=batch_size,
                )

            weighted_by = digest_of(() if clusters is None else clusters.tolist())
            asked = reading.trigger_input, batch_size, digest_of(told), weighted_by
            return session.recall(one, asked, compute)

        return encode

    def reading_of(run: EventEncoder) -> InductionSettings:
        # Each model reads triggers as it was trained to, whatever the scored model does.
        own = hasattr(run.model.config, "trigger_input")
        return replace(settings, trigger_input=None) if own else settings

    readings = [reading_of(run) for run in runs] or [settings]
    told = [reading.trigger_input for reading in readings]
    return MentionModel(
        embed=lambda texts: encode_labels(encoder, list(map(str, texts)), batch_size=batch_size),
        encode=encode_by(encoder, settings),
        clustered_by=tuple(map(encode_by, runs, readings)),
        weighting_rounds=weighting_rounds_of(runs or [encoder], told, settings.weighting_rounds),
    )


def _warn_of_seen_types(encoder: EventEncoder, mentions: Sequence[Row]) -> None:
    """Warn of types that are scored as unseen although the model was trained on their labels."""
    trained = set(getattr(encoder.model.config, "trained_types", None) or ())
    known = sorted(trained & {str(row["event_type"]) for row in mentions})
    if known:
        warnings.warn(
            f"{encoder.name} was trained on labels of {len(known)} types that are scored as unseen "
            f"({', '.join(known[:5])}), so part of its score is on training data; train and evaluate with "
            "the same num_seen or seen_types",
            stacklevel=2,
        )


_REFERENCE = "Edwards and Ji, EACL 2023"


_task = partial(
    Task,
    dataset="event_types",
    config="mentions",
    # All mentions are training data; only the labels of unseen types are held out.
    splits=("train",),
    published_source=", ACE 2005 (Edwards and Ji 2023)",
    published_split="train",
    # Mentions of the 23 unseen types of ACE 2005.
    published_rows=1_300,
    other_configs=("ace2005",),
    # The same split of types as in the recipe demo.
    sample_settings={"num_seen": 6, "num_unseen": 6},
)

INDUCTION_TASKS: tuple[Task, ...] = (
    _task(
        name="type_induction",
        title="Event type induction",
        kind=Induction(induce_types),
        metric="clustering_nmi",
        main_score="nmi",
        description="Normalized mutual information, in percent, between the types of the mentions of unseen "
        "types and their clusters, as many as there are types.",
        paper_reference="Huang and Ji, EMNLP 2020",
        published={
            "SS-VQ-VAE": 40.88,
            "paraphrase-MiniLM-L12, untrained": 50.71,
            "batch attention, manifold": 60.28,
            "batch attention, manifold, ensemble": 63.56,
        },
    ),
    _task(
        name="type_naming",
        title="Names of event types",
        kind=Induction(name_types, ("clusters",)),
        metric="ranking",
        main_score="mrr",
        description="Mean reciprocal rank, in percent, of the name of each unseen type among the names of "
        "all, by the centroid of its mentions.",
        paper_reference=_REFERENCE,
        published={"paraphrase-MiniLM-L12, untrained": 75.8, "batch attention, true clusters": 80.0},
    ),
    _task(
        name="frame_linking",
        title="Frames of event types",
        kind=Induction(link_types, ("clusters", "valid_frames")),
        metric="ranking",
        main_score="mrr",
        description="Mean reciprocal rank, in percent, of the best correct frame of each unseen type among "
        "all frames, by their definitions and the centroid of its mentions.",
        paper_reference=_REFERENCE,
        published={"paraphrase-MiniLM-L12, untrained": 37.4, "batch attention, true clusters": 53.9},
        companions=("frames",),
    ),
)
"""Clustering of mentions, and names and frames of clusters. Scores on other mentions are not comparable."""
