"""Checks for data with fewer rows than a batch."""

from __future__ import annotations

import logging
from collections.abc import Sized

from eventformers.errors import EventformersError
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.method import TrainingData

logger = logging.getLogger(__name__)


def fit_batch_size(arguments: EventTrainingArguments, data: TrainingData) -> None:
    """Lower the batch size to the number of rows if there are fewer, and log it.

    Args:
        arguments: the training arguments; `per_device_train_batch_size` changes.
        data: the training data. The batch size stays for a stream with an unknown number of rows.

    Raises:
        EventformersError: the loss needs more rows, there are fewer rows than processes, or a stream has no
            `max_steps`.
    """
    train = data.train
    if not isinstance(train, Sized) and arguments.max_steps < 1:
        raise EventformersError(
            "streaming=true needs max_steps, since a stream has no last row; accepted: max_steps of 1 or "
            "more, or streaming=false"
        )
    rows = len(train) if isinstance(train, Sized) else data.description.get("rows")
    if rows is None:
        return
    if rows < data.least_rows:
        raise EventformersError(
            f"found {rows} training row{'' if rows == 1 else 's'}; accepted: {data.least_rows} or more, "
            "since the loss contrasts each row with others"
        )
    processes = arguments.world_size
    if rows < processes:
        raise EventformersError(
            f"found {rows} training rows for {processes} processes; accepted: at least one row for each; add "
            "data or start fewer processes"
        )
    fitting = rows // processes
    if arguments.per_device_train_batch_size > fitting:
        if arguments.process_index == 0:
            logger.warning(
                "training data has %d rows but the batch size is %d; lowering it to %d",
                *(rows, processes * arguments.per_device_train_batch_size, processes * fitting),
            )
        arguments.per_device_train_batch_size = fitting


def check_steps(steps: int) -> None:
    """Check that a training run had at least one step.

    Args:
        steps: number of optimizer steps.

    Raises:
        EventformersError: there was no step.
    """
    if not steps:
        raise EventformersError(
            "the training run had no steps, so there is no model to write; accepted: data for at least one "
            "batch, and max_steps or num_train_epochs above 0"
        )
