"""The tasks on mentions of unseen types: to cluster them, to name clusters, and to link them to frames."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from eventformers.evaluation.tasks.base import Task
from eventformers.evaluation.tasks.induction_protocols import (
    InductionSettings,
    induce_types,
    link_types,
    name_types,
)
from eventformers.evaluation.tasks.protocols import ProtocolOutput

_REFERENCE = "Edwards and Ji, EACL 2023"
_DEFAULT = InductionSettings()


def _task(
    name: str,
    title: str,
    protocol: Callable[..., ProtocolOutput],
    metric: str,
    main_score: str,
    description: str,
    paper_reference: str,
    published: dict[str, float],
    companions: tuple[str, ...] = (),
) -> Task:
    return Task(
        name=name,
        title=title,
        dataset="event_types",
        config="mentions",
        # All mentions train, and labels of unseen types never do.
        splits=("train",),
        protocol=partial(protocol, settings=_DEFAULT),
        metric=metric,
        main_score=main_score,
        description=description,
        paper_reference=paper_reference,
        published_scores={
            f"{model}, ACE 2005 (Edwards and Ji 2023)": score for model, score in published.items()
        },
        published_split="train",
        # Mentions of the 23 unseen types of ACE 2005.
        published_rows=1_300,
        induction_settings=_DEFAULT,
        other_configs=("ace2005",),
        companions=companions,
        # As the recipe demo has it.
        sample_settings={"num_seen": 6, "num_unseen": 6},
    )


INDUCTION_TASKS: tuple[Task, ...] = (
    _task(
        "type_induction",
        "Event type induction",
        induce_types,
        "clustering_nmi",
        "nmi",
        "Normalized mutual information, in percent, of clusters of the mentions of unseen types with their "
        "types, with as many clusters as types.",
        "Huang and Ji, EMNLP 2020",
        {
            "SS-VQ-VAE": 40.88,
            "paraphrase-MiniLM-L12, untrained": 50.71,
            "batch attention, manifold": 60.28,
            "batch attention, manifold, ensemble": 63.56,
        },
    ),
    _task(
        "type_naming",
        "Names of event types",
        name_types,
        "ranking",
        "mrr",
        "Mean reciprocal rank, in percent, of the name of each unseen type among those of all, by the "
        "centroid of its mentions.",
        _REFERENCE,
        {"paraphrase-MiniLM-L12, untrained": 75.8, "batch attention, true clusters": 80.0},
    ),
    _task(
        "frame_linking",
        "Frames of event types",
        link_types,
        "ranking",
        "mrr",
        "Mean reciprocal rank, in percent, of the best right frame of each unseen type among all frames, by "
        "their definitions and the centroid of its mentions.",
        _REFERENCE,
        {"paraphrase-MiniLM-L12, untrained": 37.4, "batch attention, true clusters": 53.9},
        companions=("frames",),
    ),
)
"""Clusters of mentions, and names and frames for them; scores on other mentions cannot be compared."""
