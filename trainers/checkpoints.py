"""Checkpoints and records of a run, and the checks before a resume."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_pt_utils import safe_globals
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from eventformers.errors import EventformersError, first_line
from eventformers.files import remove_folder
from eventformers.trainers.process_group import is_main_process

RUN_FILE = "run.json"
"""The file with the options of a run, written before its first step."""
STAGES_FOLDER = "stages"
"""The subfolder of a run with the model of each stage but the last."""
STAGE_FILE = "stage.json"
"""The record of a finished stage, the last file written to its folder."""

_UNREADABLE = (
    *(ArithmeticError, AttributeError, EOFError, ImportError, LookupError, RuntimeError, TypeError),
    *(ValueError, AssertionError, OSError, pickle.UnpicklingError, SafetensorError),
)
"""Exceptions that libraries raise for a damaged file or one of another kind."""

Content = TypeVar("Content")

logger = logging.getLogger(__name__)


def run_folders(output: Path) -> list[Path]:
    """List the folders that may hold checkpoints: those of the stages, then the run's own."""
    return [*sorted((output / STAGES_FOLDER).glob("*")), output]


def remove_checkpoints(output: Path) -> None:
    """Remove all checkpoints of a run and of its stages."""
    for folder in run_folders(output):
        for checkpoint in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
            remove_folder(checkpoint)


def remove_earlier_run(output: Path) -> None:
    """Remove checkpoints and stages of an earlier run, so that no later resume uses them."""
    if (output / RUN_FILE).is_file():
        remove_checkpoints(output)
        remove_folder(output / STAGES_FOLDER)


def last_whole_checkpoint(folder: Path) -> str | None:
    """Find the last complete checkpoint of a stage; incomplete ones are removed.

    Args:
        folder: folder of the stage; for the last stage, that of the run.

    Returns:
        The checkpoint's folder; None if there is none.
    """
    if not folder.is_dir():
        return None
    whole = {}
    for checkpoint in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        if not (number := checkpoint.name.removeprefix(f"{PREFIX_CHECKPOINT_DIR}-")).isdecimal():
            continue
        # The trainer's state is the last file written, so it marks a complete checkpoint.
        try:
            json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
            whole[int(number)] = str(checkpoint)
        except (FileNotFoundError, ValueError):
            # Only rank 0 holds the folder's lock.
            if is_main_process():
                remove_folder(checkpoint)
                logger.warning("removed the incomplete checkpoint %s", checkpoint)
    return whole[max(whole)] if whole else None


def can_resume(output: Path) -> bool:
    """Return whether a run has a finished stage or a complete checkpoint.

    Incomplete checkpoints are removed.
    """
    if not (output / RUN_FILE).is_file():
        return False
    return any(
        (folder / STAGE_FILE).is_file() or last_whole_checkpoint(folder) is not None
        for folder in run_folders(output)
    )


def is_finished(checkpoint: Path) -> bool:
    """Return whether a checkpoint has no steps left, after the last step or an early stop."""
    state = read_state(checkpoint)
    control = state.stateful_callbacks.get("TrainerControl", {})
    stopped = control.get("args", {}).get("should_training_stop", False)
    return stopped or state.global_step >= state.max_steps


def recorded_seed(output: Path) -> int | None:
    """Read the seed of the run in a folder; None if there is no run."""
    record = output / RUN_FILE
    if not record.is_file():
        return None
    return read_record(record, lambda content: content["recipe"]["seed"])


def read_record(path: Path, parse: Callable[[Any], Content]) -> Content:
    """Read a record that a run wrote as JSON, and convert its content.

    Raises:
        EventformersError: the file is damaged.
    """
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise EventformersError(
            f"{path} is damaged ({first_line(error)[:200]}), so the run cannot be resumed; run again with "
            "--overwrite"
        ) from error


def read_state(checkpoint: Path) -> TrainerState:
    """Read the trainer's state of a checkpoint.

    Raises:
        EventformersError: the file is damaged.
    """
    with readable(checkpoint, [TRAINER_STATE_NAME]):
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        counts = (state.global_step, state.max_steps)
        if not all(isinstance(count, int) for count in counts) or not isinstance(state.log_history, list):
            raise TypeError("its step counts are not integers, or its log is not a list")
        return state


@contextmanager
def readable(checkpoint: Path, patterns: Sequence[str]) -> Iterator[None]:
    """Raise an error that names the damaged or missing file of a checkpoint, and how to continue.

    Args:
        checkpoint: the checkpoint's folder.
        patterns: glob patterns of the files to read; each must match a file.

    Raises:
        EventformersError: a file is missing, or cannot be read.
    """
    files = [sorted(checkpoint.glob(pattern)) for pattern in patterns]
    way_on = f"remove {checkpoint} to resume from the previous checkpoint, or run again with --overwrite"
    for pattern, found in zip(patterns, files, strict=True):
        if not found:
            raise EventformersError(f"{checkpoint}: found no {pattern}; {way_on}")
    try:
        yield
    except PermissionError:
        raise
    except _UNREADABLE as error:
        paths = [path for found in files for path in found]
        damaged = [path for path in paths if _is_damaged(path)] or paths
        names = " or ".join(map(str, damaged))
        raise EventformersError(f"{names} is damaged ({first_line(error)[:200]}); {way_on}") from error


def _is_damaged(path: Path) -> bool:
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt"):
                return False
        with safe_globals():
            torch.load(path, map_location="cpu", weights_only=True)
    except _UNREADABLE:
        return True
    return False
