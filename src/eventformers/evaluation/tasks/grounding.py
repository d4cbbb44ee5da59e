"""The tasks on mentions of events in a knowledge base with a hierarchy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from eventformers.evaluation.tasks.base import Task
from eventformers.evaluation.tasks.grounding_protocols import (
    DEVELOPMENT_SPLIT,
    GroundingSettings,
    discover_parents,
    link_events,
    retrieve_events,
)
from eventformers.evaluation.tasks.protocols import ProtocolOutput

_DEFAULT = GroundingSettings()


def _task(
    name: str,
    title: str,
    protocol: Callable[..., ProtocolOutput],
    metric: str,
    main_score: str,
    description: str,
    published: dict[str, float],
    companions_by_split: tuple[str, ...] = (),
    development_split: str = "",
) -> Task:
    return Task(
        name=name,
        title=title,
        dataset="event_hierarchies",
        config="mentions",
        splits=("test", "validation"),
        protocol=partial(protocol, settings=_DEFAULT),
        metric=metric,
        main_score=main_score,
        description=description,
        paper_reference="Ou et al., AAAI 2023",
        published_scores={f"{model} (Ou et al. 2023)": score for model, score in published.items()},
        # Table 1: the mentions of Wikipedia.
        published_rows=91_928,
        grounding_settings=_DEFAULT,
        companions=("events",),
        companions_by_split=companions_by_split,
        development_split=development_split,
    )


GROUNDING_TASKS: tuple[Task, ...] = (
    _task(
        "event_retrieval",
        "Retrieval of events",
        retrieve_events,
        "hierarchy_recall",
        "recall_at_min",
        "Percentage of mentions whose event and all its ancestors are the first candidates, as many as there "
        "are of them.",
        {
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
        "event_linking",
        "Linking to events",
        link_events,
        "event_linking",
        "strict_accuracy",
        "Percentage of mentions linked to exactly their event and its ancestors, of their first candidates "
        "those whose probability reaches a threshold.",
        {
            "bi-encoder, multilingual": 37.6,
            "HP, multilingual": 39.2,
            "HJL, multilingual": 40.2,
            "HP and HJL, multilingual": 39.9,
            "bi-encoder, crosslingual": 11.9,
            "HP, crosslingual": 10.9,
            "HJL, crosslingual": 12.0,
            "HP and HJL, crosslingual": 13.1,
        },
        development_split=DEVELOPMENT_SPLIT,
    ),
    _task(
        "parent_discovery",
        "Discovery of parents",
        discover_parents,
        "ranking",
        "hits_at_1",
        "Percentage of events whose parent comes first by the share of the mentions linked to the event that "
        "are linked to the parent as well.",
        {"HP, multilingual": 45.1, "HP, crosslingual": 37.4},
        companions_by_split=("hierarchy",),
    ),
)
"""Events and ancestors of mentions, and parents of events, among all events of the knowledge base."""
