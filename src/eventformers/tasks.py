"""The evaluation tasks: dataset, protocol and metric under one name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eventformers.errors import UnknownNameError
from eventformers.protocols import Protocol, compare_pairs, grade_pairs


@dataclass(frozen=True)
class Task:
    """One evaluation task.

    Attributes:
        name: its name in `TASKS`, on the command line and in the paths of results.
        title: its name in tables and cards.
        dataset: the dataset builder, in snake_case.
        config: the builder's config.
        split: the split that is scored.
        protocol: makes the metric's inputs from rows and vectors.
        metric: a name that `load_metric` takes.
        main_score: the key of the metric's scores that stands for the task.
        description: what the score means, in one sentence.
        paper_reference: where the task was published.
        published_scores: main scores from papers, by model.
    """

    name: str
    title: str
    dataset: str
    config: str
    split: str
    protocol: Protocol
    metric: str
    main_score: str
    description: str
    paper_reference: str
    published_scores: Mapping[str, float] = field(default_factory=dict)


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="hard_similarity",
            title="Hard similarity (original)",
            dataset="event_similarity",
            config="hard",
            split="test",
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
            split="test",
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
            split="test",
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
    )
}
"""The tasks by name."""


def get_task(name: str) -> Task:
    """The task of that name.

    Raises:
        UnknownNameError: there is no such task.
    """
    if name not in TASKS:
        raise UnknownNameError("task", name, TASKS)
    return TASKS[name]
