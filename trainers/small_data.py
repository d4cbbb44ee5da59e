"""Batches of data that have fewer rows than a batch."""

from __future__ import annotations

import logging
from collections.abc import Sized

from eventformers.errors import EventformersError
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.method import TrainingData

logger = logging.getLogger(__name__)


def fitting_batch_size(arguments: EventTrainingArguments, data: TrainingData) -> int:
    """Return the batch size of a device, lowered if the data have fewer rows than a batch.

    Args:
        arguments: the training arguments.
        data: the training data; a stream that does not know its number of rows lowers nothing.

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
        return arguments.per_device_train_batch_size
    if rows < data.least_rows:
        raise EventformersError(
            f"found {rows} row{'' if rows == 1 else 's'} to train on; accepted: {data.least_rows} or more, "
            "since each row is contrasted with others"
        )
    devices = _devices(arguments)
    if rows < devices:
        raise EventformersError(
            f"found {rows} rows to train on with {devices} processes; accepted: a row or more for each, or "
            "fewer processes"
        )
    return min(arguments.per_device_train_batch_size, rows // devices)


def fit_batch_size(arguments: EventTrainingArguments, data: TrainingData) -> None:
    """Set `per_device_train_batch_size` to the `fitting_batch_size`, and log it if that is lower.

    Raises:
        EventformersError: as of `fitting_batch_size`.
    """
    fitting, asked = fitting_batch_size(arguments, data), arguments.per_device_train_batch_size
    if fitting < asked:
        if arguments.process_index == 0:
            devices = _devices(arguments)
            rows = len(data.train) if isinstance(data.train, Sized) else data.description["rows"]
            logger.warning(
                "the training data have %d rows, and a batch %d; batches of %d are trained on",
                *(rows, devices * asked, devices * fitting),
            )
        arguments.per_device_train_batch_size = fitting


def _devices(arguments: EventTrainingArguments) -> int:
    return arguments.world_size * max(1, arguments.n_gpu)


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
