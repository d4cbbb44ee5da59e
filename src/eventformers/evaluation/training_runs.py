"""Choose the rows that a training run is scored on, never those that it trains on."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eventformers.datasets_scripts.loading import check_data
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation.data import SAMPLES, DataStore, load_data
from eventformers.evaluation.tasks import get_task
from eventformers.evaluation.tasks.base import Task
from eventformers.methods import load_method
from eventformers.trainers.recipes import Recipe
from eventformers.trainers.stages import stage_recipes

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScoredTasks:
    """The tasks and data that a finished run is scored on.

    Attributes:
        tasks: the tasks; empty if the data has rows for none.
        data: their data; None for the bundled samples.
    """

    tasks: Sequence[Task]
    data: str | Path | None


def plan_evaluation(
    recipe: Recipe,
    data: str | Path | None,
    evaluation_data: str | Path | None,
    tasks: Sequence[str] | None = None,
    store: DataStore | None = None,
) -> ScoredTasks:
    """Choose the tasks and data of a run, and load them, so that errors show before the training.

    Args:
        recipe: the recipe of the run.
        data: the training data; None for the bundled samples.
        evaluation_data: the data to score on: raw files, a built folder, a Hub id or `samples`; None takes
            the held-out splits of `data`.
        tasks: the tasks; None takes those of the recipe that have rows, and logs those without.
        store: caches the loaded data for the scores; None caches nothing.

    Raises:
        DataFormatError: a raw file cannot be read.
        EventformersError: the given tasks or evaluation data have no rows.
    """
    scored = data if evaluation_data is None else None if evaluation_data == SAMPLES else evaluation_data
    check_data(scored)
    method = load_method(recipe.method)
    chosen = [get_task(name) for name in (method.tasks_of(recipe) if tasks is None else tasks)]
    trained_on = evaluation_data is None or (data is not None and str(scored) == str(data))
    if tasks is None and trained_on:
        chosen = [_as_trained(recipe, task) for task in chosen]
    missing: dict[str, EventformersError] = {}
    for task in chosen:
        try:
            load_data(task, scored, None, store)
        except DataFormatError:
            raise
        except EventformersError as error:
            if tasks is not None:
                raise
            missing[task.name] = error
    with_rows = [task for task in chosen if task.name not in missing]
    if not with_rows and missing and evaluation_data is not None:
        raise next(iter(missing.values()))
    if not with_rows and missing:
        logger.warning(
            "not scored: %s has no held-out rows of %s; use --evaluation-data with other data, or samples",
            *("the bundled samples" if data is None else data, ", ".join(missing)),
        )
    elif missing:
        logger.warning("not scored, since the evaluation data has no rows: %s", ", ".join(missing))
    return ScoredTasks(with_rows, scored)


def _as_trained(recipe: Recipe, task: Task) -> Task:
    """Give a task the config and data settings of a run.

    With other settings, a scored split could contain training rows.

    Raises:
        EventformersError: the stages have different data settings, so that no rows are held out of all.
    """
    method = load_method(recipe.method)
    if method.dataset[0] != task.dataset:
        return replace(task, build_settings={})
    found: list[Mapping[str, object]] = []
    for stage in stage_recipes(recipe):
        _, configs, settings = method.training_dataset(stage)
        for config in set(configs) & set(task.other_configs):
            task = replace(task, config=config, other_configs=())
        if settings not in found:
            found.append(settings)
    if len(found) > 1:
        raise EventformersError(
            "the stages of the recipe have different data settings, so no rows are held out of all; "
            "accepted: --evaluation-data with other data, or samples"
        )
    return replace(task, build_settings=found[0], sample_settings=found[0])
