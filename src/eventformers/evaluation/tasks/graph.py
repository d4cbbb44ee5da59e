"""Tasks that rank the alternatives of premises in commonsense graphs, and questions of multiple choice."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import torch

from eventformers.evaluation.tasks.base import Computing, Prepared, Task, TaskKind, TaskRows
from eventformers.evaluation.tasks.protocols import (
    Embed,
    ProtocolOutput,
    TaskSettings,
    choose_alternatives,
    rank_alternatives,
)
from eventformers.inference.commonsense.neighbour_votes import VoteSettings, vote_settings
from eventformers.inference.encode import EventEncoder
from eventformers.strict import strict_settings

if TYPE_CHECKING:
    from eventformers.evaluation.session import Session

MICO_LENGTH = 64
"""Tokens of a premise or an alternative at most, as MICO's evaluation has it."""


@strict_settings
@dataclass(frozen=True)
class GraphSettings(TaskSettings):
    """How alternatives are ranked.

    Attributes:
        rerank: let the nearest premises of the training split vote; their settings, or True for the defaults.
            The untrained encoder is re-ranked alike.
    """

    places: ClassVar[tuple[str, ...]] = ("rerank",)

    rerank: bool | VoteSettings = False

    @property
    def name(self) -> str:
        """What results call the votes."""
        votes = vote_settings(self.rerank)
        return "" if votes is None else votes.name


@dataclass(frozen=True)
class GraphModel:
    """What is asked for ranks.

    Attributes:
        embed: texts to vectors.
        device: where the ranks are computed; None takes an accelerator where there is one.
    """

    embed: Embed
    device: torch.device | None


@dataclass(frozen=True)
class Graph(TaskKind[GraphModel]):
    """Ranks alternatives among those of all splits."""

    Settings = GraphSettings
    refusal = "has nothing to re-rank; accepted with rerank"
    reads_all_splits = True

    uses: tuple[str, ...] = ("rerank",)
    settings: GraphSettings = field(default_factory=GraphSettings)

    def prepare(self, model: EventEncoder, session: Session, computing: Computing) -> Prepared[GraphModel]:
        """As of `TaskKind`."""
        embed = partial(model.encode, batch_size=computing.batch_size)
        return Prepared(self.of_vectors(embed, model.model.device))

    def of_vectors(self, embed: Embed, device: torch.device | None = None) -> GraphModel:
        """As of `TaskKind`."""
        return GraphModel(embed, device)

    def run(self, asked: GraphModel, data: TaskRows) -> ProtocolOutput:
        """As of `TaskKind`."""
        votes = vote_settings(self.settings.rerank)
        return self.protocol(asked.embed, data.rows, data.other_splits, asked.device, rerank=votes)


@dataclass(frozen=True)
class Questions(TaskKind[Embed]):
    """Asks for the vectors of premises and their few alternatives."""

    Settings = TaskSettings
    refusal = "is no question"

    def prepare(self, model: EventEncoder, session: Session, computing: Computing) -> Prepared[Embed]:
        """As of `TaskKind`."""
        return Prepared(partial(model.encode, batch_size=computing.batch_size))

    def of_vectors(self, embed: Embed, device: torch.device | None = None) -> Embed:
        """As of `TaskKind`."""
        return embed


COMMONSENSE_TASKS: tuple[Task, ...] = (
    Task(
        name="conceptnet_completion",
        title="ConceptNet completion (inductive)",
        dataset="commonsense_graphs",
        config="conceptnet_inductive_pairs",
        other_configs=("conceptnet_pairs",),
        splits=("test", "validation"),
        kind=Graph(rank_alternatives),
        metric="ranking",
        main_score="mrr",
        description="Mean reciprocal rank, in percent, of the right alternative of a premise among all "
        "alternatives of the graph, other known ones left out, over both directions.",
        paper_reference="Wang et al., IJCNN 2021",
        published_rows=19_592,
        published_scores={
            "ConvE, test (Su et al. 2022)": 0.21,
            "RotatE, test (Su et al. 2022)": 0.32,
            "Malaviya et al. 2020, test (Su et al. 2022)": 12.29,
            "InductivE, test (Su et al. 2022)": 18.15,
            "MICO, BERT-base, test (Su et al. 2022)": 9.00,
            "MICO, RoBERTa-base, test (Su et al. 2022)": 9.08,
            "MICO, RoBERTa-large, test (Su et al. 2022)": 10.92,
        },
        max_length=MICO_LENGTH,
    ),
    Task(
        name="atomic_completion",
        title="ATOMIC completion (inductive)",
        dataset="commonsense_graphs",
        config="atomic_inductive_pairs",
        other_configs=("atomic_pairs",),
        splits=("test", "validation"),
        kind=Graph(rank_alternatives),
        metric="ranking",
        main_score="mrr",
        description="The question of conceptnet_completion on ATOMIC, whose alternatives are what an "
        "event leads to, and events without their subject.",
        paper_reference="Wang et al., IJCNN 2021",
        published_rows=48_972,
        published_scores={
            "ConvE, test (Su et al. 2022)": 0.08,
            "RotatE, test (Su et al. 2022)": 0.10,
            "Malaviya et al. 2020, test (Su et al. 2022)": 0.02,
            "InductivE, test (Su et al. 2022)": 2.51,
            "MICO, BERT-base, test (Su et al. 2022)": 7.07,
            "MICO, RoBERTa-base, test (Su et al. 2022)": 7.52,
            "MICO, RoBERTa-large, test (Su et al. 2022)": 8.13,
        },
        max_length=MICO_LENGTH,
    ),
    Task(
        name="copa",
        title="COPA",
        dataset="commonsense_qa",
        config="copa",
        splits=("test", "validation"),
        kind=Questions(choose_alternatives),
        metric="mcnc",
        main_score="accuracy",
        description="Percentage of questions with two choices whose right cause or effect is nearest to "
        "the sentence, without training on questions.",
        paper_reference="Roemmele et al., AAAI Spring Symposium 2011",
        published_rows=500,
        published_scores={
            "RoBERTa-large, language model, dev (Su et al. 2022)": 54.8,
            "GPT2-large, language model, dev (Su et al. 2022)": 62.4,
            "self-talk, dev (Su et al. 2022)": 66.0,
            "MICO, RoBERTa-large, ConceptNet, dev (Su et al. 2022)": 73.2,
            "MICO, RoBERTa-large, ATOMIC, dev (Su et al. 2022)": 79.4,
        },
        published_split="validation",
        max_length=MICO_LENGTH,
    ),
    Task(
        name="siqa",
        title="Social IQA",
        dataset="commonsense_qa",
        config="siqa",
        splits=("test", "validation"),
        kind=Questions(choose_alternatives),
        metric="mcnc",
        main_score="accuracy",
        description="Percentage of questions with three answers whose right one is nearest to the social "
        "situation, without training on questions.",
        paper_reference="Sap et al., EMNLP 2019",
        published_rows=1_954,
        published_scores={
            "RoBERTa-large, language model, dev (Su et al. 2022)": 39.8,
            "GPT2-large, language model, dev (Su et al. 2022)": 42.8,
            "self-talk, dev (Su et al. 2022)": 46.2,
            "COMET-DynaGen, dev (Su et al. 2022)": 50.1,
            "MICO, RoBERTa-large, ConceptNet, dev (Su et al. 2022)": 44.6,
            "MICO, RoBERTa-large, ATOMIC, dev (Su et al. 2022)": 56.0,
        },
        published_split="validation",
        max_length=MICO_LENGTH,
    ),
    Task(
        name="csqa",
        title="CommonsenseQA",
        dataset="commonsense_qa",
        config="csqa",
        splits=("test", "validation"),
        kind=Questions(choose_alternatives),
        metric="mcnc",
        main_score="accuracy",
        description="Percentage of questions with five answers whose right one is nearest to the "
        "question, without training on questions.",
        paper_reference="Talmor et al., NAACL 2019",
        published_rows=1_221,
        published_scores={
            "RoBERTa-large, language model, dev (Su et al. 2022)": 31.3,
            "GPT2-large, language model, dev (Su et al. 2022)": 40.4,
            "self-talk, dev (Su et al. 2022)": 32.4,
            "Dou and Peng, ALBERT-xxlarge, dev (Su et al. 2022)": 50.9,
            "MICO, RoBERTa-large, ATOMIC, dev (Su et al. 2022)": 44.2,
            "MICO, RoBERTa-large, ConceptNet, dev (Su et al. 2022)": 51.0,
        },
        published_split="validation",
        max_length=MICO_LENGTH,
    ),
)
"""Filtered ranks of alternatives in a graph, and zero-shot multiple choice."""
