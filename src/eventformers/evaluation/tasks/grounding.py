"""Tasks that ground mentions in a knowledge base of events with a hierarchy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np
import torch

from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks.base import Computing, Prepared, Task, TaskKind, TaskRows
from eventformers.evaluation.tasks.grounding_protocols import (
    DEVELOPMENT_SPLIT,
    SETTINGS_OF_DATA,
    GroundingSettings,
    discover_parents,
    link_events,
    retrieve_events,
)
from eventformers.evaluation.tasks.protocols import Embed, JsonValue, ProtocolOutput
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.event_inputs import digest_of
from eventformers.inference.encoding.vectors import Vectors, unit_vectors
from eventformers.inference.grounding.encoding import (
    BatchSize,
    EncodedTexts,
    Side,
    event_text,
    mention_text,
)
from eventformers.inference.grounding.pair_scoring import CrossEncoder
from eventformers.inference.grounding.retrieve_rerank import (
    GroundingModel,
    check_retriever_weight,
    grounding_model,
)


@dataclass(frozen=True)
class Grounding(TaskKind[GroundingModel]):
    """Kind of task that finds the candidates of mentions among events."""

    Settings = GroundingSettings
    refusal = "does not link mentions; tasks that do"

    settings: GroundingSettings = field(default_factory=GroundingSettings)

    def used(self, settings: GroundingSettings) -> tuple[tuple[str, ...], str]:
        """See `TaskKind`; every task uses the settings of the data."""
        return (*SETTINGS_OF_DATA, *self.uses), ""

    def with_settings(self, task: str, settings: GroundingSettings) -> Self:
        """See `TaskKind`.

        Raises:
            EventformersError: see `TaskKind`; or `retriever_weight` is set without a re-ranker.
        """
        chosen = super().with_settings(task, settings)
        check_retriever_weight(settings.retriever_weight, with_reranker=settings.reranker is not None)
        return chosen

    def prepare(
        self, model: EventEncoder, session: Session, computing: Computing
    ) -> Prepared[GroundingModel]:
        """See `TaskKind`.

        Raises:
            EventformersError: the re-ranker cannot be loaded, or is not a cross-encoder.
        """
        if self.settings.reranker is None:
            return Prepared(remembering_model(model, session, computing.batch_size))
        cross_encoder = session.cross_encoder(
            self.settings.reranker, device=computing.device, dtype=computing.dtype
        )
        encoder = cross_encoder.encoder
        told: JsonValue = {"model": encoder.name, "revision": encoder.revision}
        return Prepared(
            remembering_model(model, session, computing.batch_size, cross_encoder),
            # The name alone does not identify the weights.
            f"reranker-{encoder.name}-{(encoder.revision or 'unknown')[:8]}",
            lambda: {"reranker": told},
        )

    def of_vectors(self, embed: Embed, device: torch.device | None = None) -> GroundingModel:
        """See `TaskKind`; the function receives mentions with their contexts, and titles with
        descriptions."""

        def vectors(texts: list[str]) -> Vectors:
            return unit_vectors(embed(texts), texts).astype(np.float32)

        return GroundingModel(
            lambda mentions: vectors([mention_text(mention) for mention in mentions]),
            lambda events: vectors([event_text(event) for event in events]),
        )

    def run(self, asked: GroundingModel, data: TaskRows) -> ProtocolOutput:
        """See `TaskKind`."""
        return self.protocol(asked, data, settings=self.settings)

    def untrained(self, model: EventEncoder) -> Self:
        """Remove the re-ranker, which the untrained encoder does not have."""
        return replace(self, settings=replace(self.settings, reranker=None, retriever_weight=0.0))

    @property
    def data_settings(self) -> Mapping[str, JsonValue]:
        """The settings that choose mentions and events."""
        return self.settings.of_data

    @property
    def development_split(self) -> str:
        """The split that the threshold is chosen on; empty for a given threshold."""
        return DEVELOPMENT_SPLIT if "threshold" in self.uses and self.settings.threshold is None else ""


def remembering_model(
    encoder: EventEncoder,
    session: Session,
    batch_size: BatchSize,
    cross_encoder: CrossEncoder | None = None,
) -> GroundingModel:
    """Make the scorer of an encoder; set its `truncated` to the number of all truncated texts.

    Args:
        encoder: the model.
        session: keeps the vectors of mentions and events.
        batch_size: as for `encode_texts`.
        cross_encoder: reranks the candidates; None keeps the scores of the retriever.
    """
    truncated = 0

    def recall(
        side: Side, texts: Sequence[tuple[str, ...]], encode: Callable[[], EncodedTexts]
    ) -> EncodedTexts:
        nonlocal truncated
        encoded = session.recall(encoder, (side, batch_size, digest_of(texts)), encode)
        truncated += encoder.truncated
        encoder.truncated = truncated
        return encoded

    return grounding_model(encoder, cross_encoder, batch_size=batch_size, recall=recall)


_task = partial(
    Task,
    dataset="event_hierarchies",
    config="mentions",
    splits=("test", "validation"),
    paper_reference="Ou et al., AAAI 2023",
    published_source=" (Ou et al. 2023)",
    # Table 1: the mentions of Wikipedia.
    published_rows=91_928,
    companions=("events",),
)

GROUNDING_TASKS: tuple[Task, ...] = (
    _task(
        name="event_retrieval",
        title="Retrieval of events",
        kind=Grounding(retrieve_events),
        metric="hierarchy_recall",
        main_score="recall_at_min",
        cluster_column="event_ids",
        description="Percentage of mentions for which the event and all its ancestors are the first "
        "candidates, counting as many candidates as these.",
        published={
            "bi-encoder, multilingual": 54.8,
            "HP, multilingual": 58.1,
            "HJL, multilingual": 51.4,
            "HP and HJL, multilingual": 55.2,
            "bi-encoder, crosslingual": 32.8,
            "HP, crosslingual": 37.0,
            "HJL, crosslingual": 33.3,
            "HP and HJL, crosslingual": 38.8,
        },
    ),
    _task(
        name="event_linking",
        title="Linking to events",
        kind=Grounding(link_events, ("reranker", "retriever_weight", "candidates", "threshold")),
        metric="event_linking",
        main_score="strict_accuracy",
        cluster_column="event_ids",
        description="Percentage of mentions linked to exactly their event and its ancestors, where the "
        "first candidates whose probability reaches a threshold are linked.",
        published={
            "bi-encoder, multilingual": 37.6,
            "HP, multilingual": 39.2,
            "HJL, multilingual": 40.2,
            "HP and HJL, multilingual": 39.9,
            "bi-encoder, crosslingual": 11.9,
            "HP, crosslingual": 10.9,
            "HJL, crosslingual": 12.0,
            "HP and HJL, crosslingual": 13.1,
        },
    ),
    _task(
        name="parent_discovery",
        title="Discovery of parents",
        kind=Grounding(discover_parents, ("depth",)),
        metric="ranking",
        main_score="hits_at_1",
        description="Percentage of events whose parent ranks first by the share of the event's mentions "
        "that are also linked to the parent.",
        published={"HP, multilingual": 45.1, "HP, crosslingual": 37.4},
        companions_by_split=("hierarchy",),
    ),
)
"""Events and ancestors of mentions, and parents of events, among all events of the knowledge base."""
