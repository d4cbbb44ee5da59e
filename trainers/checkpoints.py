"""What a run leaves for a later one to go on from."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, get_last_checkpoint

RUN_FILE = "run.json"
"""Tells what a run was asked for; in its folder from its first step on."""
STAGES_FOLDER = "stages"
"""Holds, in a run's folder, the model after each stage but the last."""
STAGE_FILE = "stage.json"
"""Tells how a finished stage went; the last file that is written into its folder."""

logger = logging.getLogger(__name__)


def run_folders(output: Path) -> list[Path]:
    """The folders of a run that may hold checkpoints: those of its stages, and its own."""
    return [*sorted((output / STAGES_FOLDER).glob("*")), output]


def remove_checkpoints(output: Path) -> None:
    """Remove all checkpoints of a run, those of its stages included."""
    for folder in run_folders(output):
        for checkpoint in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
            shutil.rmtree(checkpoint)


def remove_earlier_run(output: Path) -> None:
    """Remove what an earlier run in the same folder left, so that no later resume takes it for its own."""
    if (output / RUN_FILE).is_file():
        remove_checkpoints(output)
        shutil.rmtree(output / STAGES_FOLDER, ignore_errors=True)


def last_whole_checkpoint(folder: Path) -> str | None:
    """The last checkpoint of a stage; what a kill cut in mid-write is removed first.

    Args:
        folder: folder of the stage; that of the run, for its last one.

    Returns:
        The checkpoint's folder; None where there is none.
    """
    if not folder.is_dir():
        return None
    for checkpoint in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        # The trainer's state is the last file of a checkpoint.
        try:
            json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            shutil.rmtree(checkpoint)
            logger.warning("%s was not written to its end and is removed", checkpoint)
    return get_last_checkpoint(str(folder))


def can_resume(output: Path) -> bool:
    """Whether a run left anything to go on from: a finished stage, or a whole checkpoint.

    Checkpoints that were cut in mid-write are removed.

    Args:
        output: folder of the run.
    """
    if not (output / RUN_FILE).is_file():
        return False
    return any(
        (folder / STAGE_FILE).is_file() or last_whole_checkpoint(folder) is not None
        for folder in run_folders(output)
    )


def is_finished(checkpoint: Path) -> bool:
    """Whether no step is left after a checkpoint, be it the last one or an early end."""
    state = json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
    control = state.get("stateful_callbacks", {}).get("TrainerControl", {})
    stopped = control.get("args", {}).get("should_training_stop", False)
    return stopped or state["global_step"] >= state["max_steps"]


def recorded_seed(output: Path) -> int | None:
    """The seed of the run in a folder; None where there is no run."""
    record = output / RUN_FILE
    if not record.is_file():
        return None
    return json.loads(record.read_text(encoding="utf-8"))["recipe"]["seed"]
