"""Batches of data that have fewer rows than a batch."""

from __future__ import annotations

import logging
from collections.abc import Sized

from eventformers.errors import EventformersError
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.method import TrainingData

logger = logging.getLogger(__name__)


def fit_batch_size(arguments: EventTrainingArguments, data: TrainingData) -> None:
    """Lower the batch size to what the data have where they are fewer than a batch, and log it.

    Args:
        arguments: the training arguments; `per_device_train_batch_size` changes.
        data: the training data. Of a stream that tells nothing of its rows the batch size stays.

    Raises:
        EventformersError: the loss needs more rows, there is none for each process, or a stream has no end.
    """
    train = data.train
    if not isinstance(train, Sized) and arguments.max_steps < 1:
        raise EventformersError(
            "streaming=true knows no end of the rows; accepted: with max_steps of 1 or more, or "
            "streaming=false"
        )
    rows = len(train) if isinstance(train, Sized) else data.description.get("rows")
    if rows is None:
        return
    if rows < data.least_rows:
        raise EventformersError(
            f"found {rows} row{'' if rows == 1 else 's'} to train on; accepted: {data.least_rows} or more, "
            "since each row is contrasted with others"
        )
    processes = arguments.world_size
    if rows < processes:
        raise EventformersError(
            f"found {rows} rows to train on with {processes} processes; accepted: a row or more for each, or "
            "fewer processes"
        )
    fitting = rows // processes
    if arguments.per_device_train_batch_size > fitting:
        if arguments.process_index == 0:
            logger.warning(
                "the training data have %d rows, and a batch %d; batches of %d are trained on",
                *(rows, processes * arguments.per_device_train_batch_size, processes * fitting),
            )
        arguments.per_device_train_batch_size = fitting


def check_steps(steps: int) -> None:
    """Refuse a training run that trained nothing.

    Args:
        steps: its optimizer steps.

    Raises:
        EventformersError: there is none.
    """
    if not steps:
        raise EventformersError(
            "the training run had no step, so that no model is written; accepted: data with a batch of rows "
            "or more, and max_steps or num_train_epochs above 0"
        )
