"""The evaluation tasks by name, and variants of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import cast

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.tasks.base import Task
from eventformers.evaluation.tasks.chain_protocols import ChainSettings
from eventformers.evaluation.tasks.chains import CHAIN_TASKS
from eventformers.evaluation.tasks.graph import COMMONSENSE_TASKS
from eventformers.evaluation.tasks.grounding import GROUNDING_TASKS
from eventformers.evaluation.tasks.grounding_protocols import SETTINGS_OF_DATA, GroundingSettings
from eventformers.evaluation.tasks.induction import INDUCTION_TASKS
from eventformers.evaluation.tasks.induction_protocols import InductionSettings
from eventformers.evaluation.tasks.pairs import SIMILARITY_TASKS
from eventformers.evaluation.tasks.protocols import ProtocolOutput, rank_alternatives
from eventformers.inference.commonsense.neighbour_votes import VoteSettings
from eventformers.inference.grounding.linking import check_retriever_weight

__all__ = [
    "TASKS",
    "Task",
    "check_compares_events",
    "get_task",
    "reranked",
    "with_chain_settings",
    "with_grounding_settings",
    "with_induction_settings",
]

TASKS: dict[str, Task] = {
    task.name: task
    for task in (*SIMILARITY_TASKS, *COMMONSENSE_TASKS, *CHAIN_TASKS, *INDUCTION_TASKS, *GROUNDING_TASKS)
}
"""The tasks by name."""

_GROUNDING_SETTINGS = {
    "event_linking": ("reranker", "retriever_weight", "candidates", "threshold"),
    "parent_discovery": ("depth",),
}
"""The settings of how mentions are linked that each task has a use for."""


def reranked(task: Task, votes: VoteSettings) -> Task:
    """The task with its alternatives re-ranked by the votes of training premises.

    Raises:
        EventformersError: the task does not rank in a graph.
    """
    if task.protocol is not rank_alternatives:
        able = ", ".join(name for name, one in TASKS.items() if one.protocol is rank_alternatives)
        raise EventformersError(f"{task.name} has nothing to re-rank; accepted with rerank: {able}")
    return replace(task, protocol=partial(rank_alternatives, rerank=votes))


def with_chain_settings(task: Task, settings: ChainSettings) -> Task:
    """The task with chains read in another way.

    Raises:
        EventformersError: the task reads no chains, or has no use for a setting.
    """
    if not task.reads_chains:
        able = ", ".join(name for name, one in TASKS.items() if one.reads_chains)
        raise EventformersError(f"{task.name} reads no chains; accepted with settings of chains: {able}")
    decoder = task.protocol.keywords["decoder"] if isinstance(task.protocol, partial) else None
    used = ["aggregation"] if decoder is None else ["compat"]
    if decoder == "sky":
        used += ["sky", "aggregation"]
    for name in settings.chosen:
        if name not in used:
            raise EventformersError(f"{task.name} has no use for {name}; accepted: {', '.join(used)}")
    if isinstance(task.protocol, partial):
        task = replace(task, protocol=partial(task.protocol, settings=settings))
    return replace(task, chain_settings=settings)


def with_induction_settings(task: Task, settings: InductionSettings) -> Task:
    """The task with mentions read and clustered in another way.

    Raises:
        EventformersError: the task clusters no mentions, or has no use for a setting.
    """
    if task.induction_settings is None:
        able = ", ".join(one.name for one in INDUCTION_TASKS)
        raise EventformersError(f"{task.name} clusters no mentions; accepted with such settings: {able}")
    used = ["trigger_input"]
    if task.name == "type_induction" or settings.clusters == "predicted":
        used += ["distance", "manifold", "method", "num_clusters"]
    if task.name != "type_induction":
        used.append("clusters")
    if task.companions:
        used.append("valid_frames")
    unused = [name for name in settings.chosen if name not in used]
    if unused:
        more = "" if "distance" in used else "; and what makes clusters, with clusters=predicted"
        raise EventformersError(
            f"{task.name} has no use for {', '.join(unused)}; accepted: {', '.join(used)}{more}"
        )
    protocol = cast("partial[ProtocolOutput]", task.protocol)
    return replace(task, protocol=partial(protocol.func, settings=settings), induction_settings=settings)


def with_grounding_settings(task: Task, settings: GroundingSettings) -> Task:
    """The task with other mentions, or mentions linked in another way.

    Raises:
        EventformersError: the task links no mentions, or has no use for a setting.
    """
    if task.grounding_settings is None:
        able = ", ".join(one.name for one in GROUNDING_TASKS)
        raise EventformersError(f"{task.name} links no mentions; accepted with such settings: {able}")
    used = [*SETTINGS_OF_DATA, *_GROUNDING_SETTINGS.get(task.name, ())]
    unused = [name for name in settings.chosen if name not in used]
    if unused:
        raise EventformersError(
            f"{task.name} has no use for {', '.join(unused)}; accepted: {', '.join(used)}"
        )
    check_retriever_weight(settings.retriever_weight, with_reranker=settings.reranker is not None)
    protocol = cast("partial[ProtocolOutput]", task.protocol)
    return replace(
        task,
        protocol=partial(protocol.func, settings=settings),
        grounding_settings=settings,
        development_split="" if settings.threshold is not None else task.development_split,
    )


def check_compares_events(task: Task) -> None:
    """Refuse contexts for a task that does not compare single events.

    Raises:
        EventformersError: it does not.
    """
    if task not in SIMILARITY_TASKS:
        able = ", ".join(one.name for one in SIMILARITY_TASKS)
        raise EventformersError(f"{task.name} compares no events; accepted with contexts: {able}")


def get_task(name: str | Task) -> Task:
    """The task of that name; a task itself, which may be a variant, is returned as it is.

    Raises:
        UnknownNameError: there is no such task.
    """
    if isinstance(name, Task):
        return name
    if name not in TASKS:
        raise UnknownNameError("task", name, TASKS)
    return TASKS[name]
