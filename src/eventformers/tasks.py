"""The evaluation tasks: dataset, protocol and metric under one name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.inference.neighbour_votes import VoteSettings
from eventformers.protocols import (
    GraphProtocol,
    Protocol,
    choose_alternatives,
    compare_pairs,
    grade_pairs,
    rank_alternatives,
)

MICO_LENGTH = 64
"""Tokens of a premise or an alternative at most, as MICO's evaluation has it."""


@dataclass(frozen=True)
class Task:
    """One evaluation task.

    Attributes:
        name: its name in `TASKS`, on the command line and in the paths of results.
        title: its name in tables and cards.
        dataset: the dataset builder, in snake_case.
        config: the builder's config.
        splits: the splits that can be scored; of those that the data has, the first is the usual one.
        protocol: makes the metric's inputs from rows and vectors.
        metric: a name that `load_metric` takes.
        main_score: the key of the metric's scores that stands for the task.
        description: what the score means, in one sentence.
        paper_reference: where the task was published.
        published_scores: main scores from papers, by model.
        published_split: the split that the published scores were measured on.
        max_length: tokens of a text at most; None leaves it to the encoder.
        ranks_in_graph: whether the protocol looks at the dataset's other splits, too.
    """

    name: str
    title: str
    dataset: str
    config: str
    splits: tuple[str, ...]
    protocol: Protocol | GraphProtocol
    metric: str
    main_score: str
    description: str
    paper_reference: str
    published_scores: Mapping[str, float] = field(default_factory=dict)
    published_split: str = "test"
    max_length: int | None = None
    ranks_in_graph: bool = False

    def choose_split(self, found: Iterable[str], wanted: str | None = None) -> str:
        """The split to score: the one that is wanted, or else the usual one.

        Args:
            found: the splits that the data has.
            wanted: one of them; None takes the first of `splits` that is there.

        Raises:
            EventformersError: the data lacks it.
        """
        names = list(found)
        for split in (wanted,) if wanted is not None else self.splits:
            if split in names:
                return split
        accepted = f"{wanted!r}, which was asked for" if wanted is not None else " or ".join(self.splits)
        raise EventformersError(
            f"{self.config}: found the splits {', '.join(names)}; accepted: data with {accepted}"
        )


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="hard_similarity",
            title="Hard similarity (original)",
            dataset="event_similarity",
            config="hard",
            splits=("test",),
            protocol=compare_pairs,
            metric="hard_similarity",
            main_score="accuracy",
            description="Percentage of rows in which the pair of events that means the same is closer than "
            "the pair that shares words; a tie is wrong.",
            paper_reference="Weber et al., AAAI 2018",
            published_scores={
                "BERT-base, margin loss (Gao et al. 2022)": 43.5,
                "BERT-base, InfoNCE (Gao et al. 2022)": 72.1,
                "SWCC, BERT-base (Gao et al. 2022)": 80.9,
            },
        ),
        Task(
            name="hard_similarity_extended",
            title="Hard similarity (extended)",
            dataset="event_similarity",
            config="hard_extended",
            splits=("test",),
            protocol=compare_pairs,
            metric="hard_similarity",
            main_score="accuracy",
            description="The question of hard_similarity on the extended set, where both pairs of a row "
            "share one event.",
            paper_reference="Ding et al., EMNLP 2019",
            published_scores={
                "BERT-base, margin loss (Gao et al. 2022)": 51.4,
                "BERT-base, InfoNCE (Gao et al. 2022)": 63.4,
                "SWCC, BERT-base (Gao et al. 2022)": 72.1,
            },
        ),
        Task(
            name="transitive_similarity",
            title="Transitive sentence similarity",
            dataset="event_similarity",
            config="transitive",
            splits=("test",),
            protocol=grade_pairs,
            metric="transitive_similarity",
            main_score="spearman",
            description="Spearman's rank correlation between the cosines of pairs of transitive sentences "
            "and their human ratings.",
            paper_reference="Kartsaklis and Sadrzadeh, QPL 2014",
            published_scores={
                "BERT-base, margin loss (Gao et al. 2022)": 0.67,
                "BERT-base, InfoNCE (Gao et al. 2022)": 0.75,
                "SWCC, BERT-base (Gao et al. 2022)": 0.82,
            },
        ),
        Task(
            name="conceptnet_completion",
            title="ConceptNet completion (inductive)",
            dataset="commonsense_graphs",
            config="conceptnet_inductive_pairs",
            splits=("test", "validation"),
            protocol=rank_alternatives,
            metric="ranking",
            main_score="mrr",
            description="Mean reciprocal rank, in percent, of the right alternative of a premise among all "
            "alternatives of the graph, other known ones left out, over both directions.",
            paper_reference="Wang et al., IJCNN 2021",
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
            ranks_in_graph=True,
        ),
        Task(
            name="atomic_completion",
            title="ATOMIC completion (inductive)",
            dataset="commonsense_graphs",
            config="atomic_inductive_pairs",
            splits=("test", "validation"),
            protocol=rank_alternatives,
            metric="ranking",
            main_score="mrr",
            description="The question of conceptnet_completion on ATOMIC, whose alternatives are what an "
            "event leads to, and events without their subject.",
            paper_reference="Wang et al., IJCNN 2021",
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
            ranks_in_graph=True,
        ),
        Task(
            name="copa",
            title="COPA",
            dataset="commonsense_qa",
            config="copa",
            splits=("test", "validation"),
            protocol=choose_alternatives,
            metric="mcnc",
            main_score="accuracy",
            description="Percentage of questions with two choices whose right cause or effect is nearest to "
            "the sentence, without training on questions.",
            paper_reference="Roemmele et al., AAAI Spring Symposium 2011",
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
            protocol=choose_alternatives,
            metric="mcnc",
            main_score="accuracy",
            description="Percentage of questions with three answers whose right one is nearest to the social "
            "situation, without training on questions.",
            paper_reference="Sap et al., EMNLP 2019",
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
            protocol=choose_alternatives,
            metric="mcnc",
            main_score="accuracy",
            description="Percentage of questions with five answers whose right one is nearest to the "
            "question, without training on questions.",
            paper_reference="Talmor et al., NAACL 2019",
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
}
"""The tasks by name."""


def reranked(task: Task, votes: VoteSettings) -> Task:
    """The task with its alternatives re-ranked by the votes of training premises.

    Raises:
        EventformersError: the task does not rank in a graph.
    """
    if task.protocol is not rank_alternatives:
        able = ", ".join(name for name, one in TASKS.items() if one.protocol is rank_alternatives)
        raise EventformersError(f"{task.name} has nothing to re-rank; accepted with rerank: {able}")
    return replace(task, protocol=partial(rank_alternatives, rerank=votes))


def get_task(name: str) -> Task:
    """The task of that name.

    Raises:
        UnknownNameError: there is no such task.
    """
    if name not in TASKS:
        raise UnknownNameError("task", name, TASKS)
    return TASKS[name]
