"""Tasks that compare pairs of events, alone or at the end of chains that share their words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import torch

from eventformers.errors import EventformersError
from eventformers.evaluation.tasks.base import Computing, Prepared, Task, TaskKind
from eventformers.evaluation.tasks.protocols import (
    Embed,
    JsonValue,
    TaskSettings,
    compare_pairs,
    grade_pairs,
)
from eventformers.inference.chains.virtual_context import ContextEncoder, VirtualContext, context_encoder
from eventformers.inference.encode import EventEncoder
from eventformers.strict import count, strict_settings

if TYPE_CHECKING:
    from eventformers.evaluation.session import Session

_CONTEXT = VirtualContext(None)


@strict_settings
@dataclass(frozen=True)
class PairSettings(TaskSettings):
    """How events are read.

    Attributes:
        virtual_context: the data of the training chains that each event is read at the end of, for a model
            that reads chains; None reads events alone.
        retrieved: contexts of an event at most.
        num_layers: graph layers that read them.
    """

    places: ClassVar[tuple[str, ...]] = ("virtual_context", "retrieved", "num_layers")

    virtual_context: str | Path | VirtualContext | None = None
    retrieved: int = count(_CONTEXT.retrieved)
    num_layers: int = count(_CONTEXT.num_layers)

    def validate_context(self) -> None:
        """Refuse settings of contexts without their data.

        Raises:
            EventformersError: there are no contexts.
        """
        if self.virtual_context is None and self.chosen:
            raise EventformersError(
                f"{', '.join(self.chosen)}: a setting of contexts, of which there are none; accepted: it "
                "with --virtual-context"
            )

    @property
    def context(self) -> VirtualContext | None:
        """The contexts of events; None where they are read alone."""
        given = self.virtual_context
        if given is None or isinstance(given, VirtualContext):
            return given
        return VirtualContext(given, self.retrieved, self.num_layers)

    @property
    def name(self) -> str:
        """What results call the contexts."""
        return "" if self.context is None else self.context.name


@dataclass(frozen=True)
class Pairs(TaskKind[Embed]):
    """Asks for the vectors of events."""

    Settings = PairSettings
    refusal = "compares no events; accepted with contexts"

    uses: tuple[str, ...] = PairSettings.places
    settings: PairSettings = field(default_factory=PairSettings)

    def prepare(self, model: EventEncoder, session: Session, computing: Computing) -> Prepared[Embed]:
        """As of `TaskKind`.

        Raises:
            DataFormatError: a raw file of the contexts cannot be read.
            EventformersError: the data have no training chains, or the model reads no chains.
        """
        context = self.settings.context
        if context is None:
            return Prepared(partial(model.encode, batch_size=computing.batch_size))
        reader = context_encoder(model, context)
        embed = partial(reader.encode, batch_size=computing.batch_size)
        return Prepared(embed, record=partial(_context_record, reader))

    def of_vectors(self, embed: Embed, device: torch.device | None = None) -> Embed:
        """As of `TaskKind`."""
        return embed

    def untrained(self, model: EventEncoder) -> Self:
        """The untrained encoder reads events alone."""
        return replace(self, settings=PairSettings())


def _context_record(reader: ContextEncoder) -> Mapping[str, JsonValue]:
    return {
        "virtual_context": {
            "retrieved": reader.retrieved,
            "num_layers": reader.num_layers,
            "contexts": len(reader.index.contexts),
            "events_without_context": reader.without_context,
        }
    }


SIMILARITY_TASKS: tuple[Task, ...] = (
    Task(
        name="hard_similarity",
        title="Hard similarity (original)",
        dataset="event_similarity",
        config="hard",
        splits=("test",),
        kind=Pairs(compare_pairs),
        metric="hard_similarity",
        main_score="accuracy",
        description="Percentage of rows in which the pair of events that means the same is closer than "
        "the pair that shares words; a tie is wrong.",
        paper_reference="Weber et al., AAAI 2018",
        published_rows=115,
        published_scores={
            "BERT-base, margin loss (Gao et al. 2022)": 43.5,
            "BERT-base, InfoNCE (Gao et al. 2022)": 72.1,
            "SWCC, BERT-base (Gao et al. 2022)": 80.9,
            "HeterEvent [W+E], BERT-base (Zheng et al. 2022)": 76.6,
            "MulCL [W+E], BERT-base (Zheng et al. 2022)": 78.3,
        },
    ),
    Task(
        name="hard_similarity_extended",
        title="Hard similarity (extended)",
        dataset="event_similarity",
        config="hard_extended",
        splits=("test",),
        kind=Pairs(compare_pairs),
        metric="hard_similarity",
        main_score="accuracy",
        description="The question of hard_similarity on the extended set, where both pairs of a row "
        "share one event.",
        paper_reference="Ding et al., EMNLP 2019",
        published_rows=1_000,
        published_scores={
            "BERT-base, margin loss (Gao et al. 2022)": 51.4,
            "BERT-base, InfoNCE (Gao et al. 2022)": 63.4,
            "SWCC, BERT-base (Gao et al. 2022)": 72.1,
            "HeterEvent [W+E], BERT-base (Zheng et al. 2022)": 62.3,
            "MulCL [W+E], BERT-base (Zheng et al. 2022)": 64.3,
        },
    ),
    Task(
        name="transitive_similarity",
        title="Transitive sentence similarity",
        dataset="event_similarity",
        config="transitive",
        splits=("test",),
        kind=Pairs(grade_pairs),
        metric="transitive_similarity",
        main_score="spearman",
        description="Spearman's rank correlation between the cosines of pairs of transitive sentences "
        "and their human ratings.",
        paper_reference="Kartsaklis and Sadrzadeh, QPL 2014",
        published_rows=108,
        published_scores={
            "BERT-base, margin loss (Gao et al. 2022)": 0.67,
            "BERT-base, InfoNCE (Gao et al. 2022)": 0.75,
            "SWCC, BERT-base (Gao et al. 2022)": 0.82,
            "HeterEvent [W+E], BERT-base (Zheng et al. 2022)": 0.73,
            "MulCL [W+E], BERT-base (Zheng et al. 2022)": 0.76,
        },
    ),
)
"""Hard similarity and graded similarity of transitive sentences."""
