"""The tasks on narrative chains: which event comes next, and which events lie between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from eventformers.evaluation.tasks.base import Computing, Prepared, Task, TaskKind, TaskRows
from eventformers.evaluation.tasks.chain_protocols import (
    ChainSettings,
    Decoder,
    choose_next_event,
    follow_steps,
)
from eventformers.evaluation.tasks.protocols import Embed, ProtocolOutput
from eventformers.inference.chains.model_scorer import chain_scorer
from eventformers.inference.chains.scorers import ChainScorer, EncoderChainScorer
from eventformers.inference.encode import EventEncoder

if TYPE_CHECKING:
    from eventformers.evaluation.session import Session


@dataclass(frozen=True)
class Chains(TaskKind[ChainScorer]):
    """Asks a scorer of chains, since a model may read a chain as a whole.

    Attributes:
        decoder: how several steps are chosen; None for one step.
    """

    Settings = ChainSettings
    refusal = "reads no chains; accepted with settings of chains"

    uses: tuple[str, ...] = ("aggregation",)
    settings: ChainSettings = field(default_factory=ChainSettings)
    decoder: Decoder | None = None

    def prepare(self, model: EventEncoder, session: Session, computing: Computing) -> Prepared[ChainScorer]:
        """As of `TaskKind`."""
        aggregation = self.settings.aggregation
        return Prepared(chain_scorer(model, aggregation=aggregation, batch_size=computing.batch_size))

    def of_vectors(self, embed: Embed, device: torch.device | None = None) -> ChainScorer:
        """As of `TaskKind`."""
        return EncoderChainScorer(embed, aggregation=self.settings.aggregation)

    def run(self, asked: ChainScorer, data: TaskRows) -> ProtocolOutput:
        """As of `TaskKind`."""
        if self.decoder is None:
            return self.protocol(asked, data.rows)
        return self.protocol(asked, data.rows, decoder=self.decoder, settings=self.settings)


_PUBLISHED_TASKS = ("mcnc", "mcns_v", "multistep_base", "multistep_sky", "mcne_v")
PUBLISHED_INFERENCE: dict[str, tuple[float, ...]] = {
    "Event-comp": (46.3, 29.9, 27.8, 38.4, 32.5),
    "Role-factor tensor": (48.8, 28.6, 28.3, 39.6, 32.5),
    "EventTransE": (63.7, 59.5, 51.2, 64.5, 60.9),
    "SAM-Net": (54.3, 46.2, 43.2, 50.4, 49.2),
    "FEEL": (51.6, 41.6, 38.5, 46.0, 44.8),
    "IntSent": (56.4, 44.7, 42.2, 49.6, 48.5),
    "UniFA-S": (66.3, 64.0, 55.4, 67.2, 64.5),
    "HeterEvent [W]": (62.6, 58.7, 48.9, 63.2, 59.1),
    "HeterEvent [E]": (63.5, 59.8, 50.7, 65.4, 60.8),
    "HeterEvent [W+E]": (64.4, 60.3, 51.3, 65.7, 61.7),
    "MulCL [W]": (64.9, 61.7, 52.8, 65.9, 62.1),
    "MulCL [E]": (65.8, 63.2, 54.5, 67.2, 63.3),
    "MulCL [W+E]": (66.8, 64.4, 55.0, 67.5, 65.3),
}
"""Table I of Zheng et al. (TNNLS 2022), BERT-base, chains from the New York Times part of Gigaword."""


def _published(task: str) -> dict[str, float]:
    column = _PUBLISHED_TASKS.index(task)
    return {f"{model} (Zheng et al. 2022)": scores[column] for model, scores in PUBLISHED_INFERENCE.items()}


def _steps_task(name: str, title: str, decoder: Decoder, description: str) -> Task:
    return Task(
        name=name,
        title=title,
        dataset="event_chains",
        config="multistep",
        splits=("test", "validation"),
        kind=Chains(
            follow_steps,
            uses=("compat", "sky", "aggregation") if decoder == "sky" else ("compat",),
            decoder=decoder,
        ),
        metric="multistep_inference",
        main_score="accuracy",
        description=description,
        paper_reference="Lee and Goldwasser, AAAI 2018",
        published_scores=_published(name),
        published_rows=2_000,
        published_data=False,
    )


CHAIN_TASKS: tuple[Task, ...] = (
    Task(
        name="mcnc",
        title="Multiple-choice narrative cloze",
        dataset="event_chains",
        config="mcnc",
        splits=("test", "validation"),
        kind=Chains(choose_next_event),
        metric="mcnc",
        main_score="accuracy",
        description="Percentage of chains of eight events whose ninth is chosen over four random events with "
        "an argument of the chain.",
        paper_reference="Granroth-Wilding and Clark, AAAI 2016",
        published_scores=_published("mcnc"),
        published_rows=2_000,
        published_data=False,
    ),
    _steps_task(
        "mcns_v",
        "Narrative sequence (MCNS-V)",
        "mcns_v",
        "Percentage of steps, all but the last, whose event is among five the one on the likeliest path from "
        "the first event of the chain.",
    ),
    _steps_task(
        "mcne_v",
        "Narrative explanation (MCNE-V)",
        "mcne_v",
        "The question of mcns_v with the last event of the chain given, too.",
    ),
    _steps_task(
        "multistep_base",
        "Multistep inference, greedy (Base)",
        "base",
        "The question of mcns_v, each step chosen greedily after the step chosen before.",
    ),
    _steps_task(
        "multistep_sky",
        "Multistep inference, informed (Sky)",
        "sky",
        "The question of mcns_v, each step taken with the right events of all others given: an upper bound.",
    ),
    Task(
        name="variable_mcnc",
        title="Narrative cloze of documents",
        dataset="event_chains",
        config="variable_mcnc",
        splits=("test", "validation"),
        kind=Chains(choose_next_event),
        metric="mcnc",
        main_score="accuracy",
        description="Percentage of documents whose left-out event is chosen over random events "
        "with words of the document; the number of choices varies.",
        paper_reference="Weber et al., AAAI 2018",
    ),
    Task(
        name="coherent_mcnc",
        title="Coherent narrative cloze",
        dataset="event_chains",
        config="coherent_mcnc",
        splits=("test", "validation"),
        kind=Chains(choose_next_event),
        metric="mcnc",
        main_score="accuracy",
        description="The question of variable_mcnc with six choices, on documents found coherent by people.",
        paper_reference="Weber et al., AAAI 2018",
    ),
)
"""Narrative cloze with one and with several steps; scores of differently built sets cannot be compared."""
