"""The tasks that compare pairs of events."""

from __future__ import annotations

from eventformers.evaluation.tasks.base import Task
from eventformers.evaluation.tasks.protocols import compare_pairs, grade_pairs

SIMILARITY_TASKS: tuple[Task, ...] = (
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
        protocol=compare_pairs,
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
        protocol=grade_pairs,
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
