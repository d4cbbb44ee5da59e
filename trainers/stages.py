"""The stages of a run: their settings, folders, checkpoints and records, and the checks before a resume.

A recipe without stages runs one stage. Every stage but the last writes its model to a folder of its own, with
configuration, code and tokenizer; the next stage starts from there. The last stage trains in the folder of
the run.
"""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

import torch
from safetensors import SafetensorError, safe_open
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_pt_utils import safe_globals
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from eventformers.errors import EventformersError, UnknownNameError, first_line, shown
from eventformers.files import remove_folder, write_text
from eventformers.models.configuration_base import EventConfig
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.process_group import is_main_process
from eventformers.trainers.recipes import SECTIONS, Recipe

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


def remove_checkpoints(output: Path, keeping: Collection[Path] = ()) -> None:
    """Remove all checkpoints of a run and of its stages, except some."""
    for folder in run_folders(output):
        for checkpoint in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
            if checkpoint not in keeping:
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


LOG_FILE = "training_log.json"
"""The file with the records of all stages, beside a finished run's model."""
SILHOUETTE = "silhouette"
"""The silhouette that chooses a checkpoint, in such a log; others end with their number of clusters."""

_KEPT_BY_A_RESUME = ("seed", "model", "data", "views")
_FREE_AT_A_RESUME = (
    *("dataloader_num_workers", "dataloader_pin_memory", "dataloader_prefetch_factor", "ddp_", "deepspeed"),
    *("disable_tqdm", "eval_accumulation_steps", "fsdp", "gradient_cache_", "gradient_checkpointing"),
    *("hub_", "log_", "logging_", "per_device_eval_", "push_to_hub", "report_to", "run_name", "save_"),
    "torch_",
)
"""Beginnings of the names of training settings that do not change which weights result, beyond rounding, and
that a resumed run applies."""
_BATCH = "per_device_train_batch_size"


@dataclass(frozen=True)
class Stage:
    """One stage of a run.

    Args:
        name: its name; empty if the run has only one stage.
        recipe: its settings: the recipe's with the overrides of the stage.
        folder: folder of its checkpoints and its model.
    """

    name: str
    recipe: Recipe
    folder: Path

    @property
    def record(self) -> FinishedStage | None:
        """The record of the stage; None if it has not finished or is the last one."""
        path = self.folder / STAGE_FILE
        return read_record(path, lambda content: FinishedStage(**content)) if path.is_file() else None


@dataclass(frozen=True)
class FinishedStage:
    """The record of a finished stage.

    Args:
        name: its name; empty if the run has only one stage.
        steps: number of optimizer steps.
        seconds: training time, since the last resume.
        truncated: number of truncated texts; None if it is unknown, after a resume or with worker processes.
        history: the log, one mapping for each line.
        resumed: whether the stage continued from a checkpoint.
    """

    name: str
    steps: int
    seconds: float
    truncated: int | None = 0
    history: list[dict[str, float]] = field(default_factory=list)
    resumed: bool = False

    def write(self, folder: Path) -> None:
        """Write the file that `Stage.record` reads."""
        write_text(folder / STAGE_FILE, json.dumps(asdict(self), indent=2) + "\n")


def write_log(stages: Sequence[FinishedStage], folder: Path) -> None:
    """Write the file that `read_log` reads."""
    write_text(folder / LOG_FILE, json.dumps([asdict(stage) for stage in stages], indent=2) + "\n")


def read_log(folder: Path) -> list[FinishedStage]:
    """Read the records of a finished run's stages.

    Raises:
        EventformersError: the folder has no readable log.
    """
    path = folder / LOG_FILE
    try:
        return [FinishedStage(**stage) for stage in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise EventformersError(
            f"{folder}: found no readable {LOG_FILE}; accepted: the folder of a finished run, as "
            "`eventformers train` writes it"
        ) from error


def stage_recipes(recipe: Recipe) -> list[Recipe]:
    """Make a recipe for each stage of a recipe, in order; a recipe without stages is returned unchanged.

    The configuration's field `stage` is the stage's key `stage`, or else its name.
    """
    if not recipe.stages:
        return [recipe]
    recipes = []
    for stage in recipe.stages:
        sections = {name: {**getattr(recipe, name), **stage.get(name, {})} for name in SECTIONS}
        sections["model"]["stage"] = stage.get("stage", stage["name"])
        overridden: dict[str, Any] = {"stages": [], **sections}
        recipes.append(replace(recipe, **overridden))
    return recipes


def check_stages(recipe: Recipe, config_class: type[EventConfig]) -> None:
    """Check that a method has the stages of a recipe; its configuration class lists them.

    Raises:
        EventformersError: the method has no stages.
        UnknownNameError: it has no stage of this name.
    """
    known = [name for entry in fields(config_class) if entry.name == "stage" for name in get_args(entry.type)]
    for stage in recipe.stages:
        if not known:
            raise EventformersError(
                f"stages: found {shown(stage['name'])}, but {recipe.method} has only one stage; accepted: a "
                "recipe without stages"
            )
        if (asked := stage.get("stage", stage["name"])) not in known:
            raise UnknownNameError(f"stage of {recipe.method}", asked, known)


def plan_stages(recipe: Recipe, output: Path) -> list[Stage]:
    """List the stages of a run, in order; `output` is the folder of the run."""
    recipes = stage_recipes(recipe)
    names = [stage["name"] for stage in recipe.stages] or [""]
    folders = [output / STAGES_FOLDER / f"{number}-{name}" for number, name in enumerate(names[:-1], start=1)]
    return [Stage(*parts) for parts in zip(names, recipes, [*folders, output], strict=True)]


def check_resume(record: Mapping[str, Any], output: Path, stages: Sequence[Stage]) -> dict[str, str | None]:
    """Check that a folder holds a run to resume, with the settings of the requested one.

    The settings of a stage that has not started may change.

    Returns:
        The fingerprint of the training rows of each stage by its name, for `check_rows`.

    Raises:
        EventformersError: there is no checkpoint, or it belongs to a run with other settings.
    """
    if not can_resume(output):
        raise EventformersError(f"{output}: found no checkpoint to resume; run without --resume")
    path = output / RUN_FILE
    # Earlier versions do not record the last three.
    usual = {**{key: record[key] for key in ("dtype", "processes")}, "peft": None}

    def of_record(earlier: Mapping[str, Any]) -> tuple[list[Stage], dict[str, str | None], int, list[str]]:
        known = {**usual, **earlier}
        different = [key for key in ("encoder", "lora", "peft", "dtype") if known[key] != record[key]]
        planned = plan_stages(Recipe(**known["recipe"]), output)
        return planned, dict(known.get("rows", {})), int(known["processes"]), different

    planned, rows, processes, different = read_record(path, of_record)
    before = {stage.folder: stage for stage in planned}
    for stage in stages:
        is_finished = stage.record is not None
        if not is_finished and last_whole_checkpoint(stage.folder) is None:
            continue
        if stage.folder not in before or before[stage.folder].name != stage.name:
            different.append("stages")
            continue
        was, now = (json.loads(json.dumps(asdict(each.recipe))) for each in (before[stage.folder], stage))
        different += [key for key in _KEPT_BY_A_RESUME if was[key] != now[key]]
        for training, number in ((was["training"], processes), (now["training"], record["processes"])):
            # More processes may share the batch of all: losses gather its rows.
            training[_BATCH] = (
                training.get(_BATCH, EventTrainingArguments.per_device_train_batch_size) * number
            )
        deciding = (key for key in was["training"] | now["training"] if not key.startswith(_FREE_AT_A_RESUME))
        different += [
            f"training.{key}" for key in deciding if was["training"].get(key) != now["training"].get(key)
        ]
    if different:
        raise EventformersError(
            f"{output}: the run to resume has other settings: {', '.join(dict.fromkeys(different))}; pass "
            f"the settings of {path}, or another -o"
        )
    return rows


def check_rows(
    rows: Mapping[str, str | None], stage: Stage, description: Mapping[str, Any], output: Path
) -> None:
    """Check that a stage continues with the rows that it started with.

    Args:
        rows: what `check_resume` returned; without a fingerprint of the stage, nothing is checked.

    Raises:
        EventformersError: the rows, or a file that is read beside them, have changed since the checkpoint.
    """
    before, now = rows.get(stage.name), description.get("rows_fingerprint")
    if None in (before, now) or before == now or last_whole_checkpoint(stage.folder) is None:
        return
    raise EventformersError(
        f"{output}: the run to resume was trained on other rows (fingerprint {str(before)[:12]}) than these "
        f"(fingerprint {str(now)[:12]}); restore the data, or pass another -o"
    )


def continuous_history(stages: Sequence[FinishedStage]) -> list[dict[str, float]]:
    """Join the logs of all stages; steps and epochs continue from stage to stage."""
    lines: list[dict[str, float]] = []
    steps, epochs = 0, 0.0
    for stage in stages:
        for line in stage.history:
            counted = {"step": line["step"] + steps} if "step" in line else {}
            if "epoch" in line:
                counted["epoch"] = line["epoch"] + epochs
            lines.append({**line, **counted})
        steps += stage.steps
        epochs += max((line.get("epoch", 0.0) for line in stage.history), default=0.0)
    return lines
