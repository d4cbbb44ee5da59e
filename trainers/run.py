"""One training run, from a recipe to a trained head."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from peft import PeftConfig
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from eventformers.datasets_scripts import BUILDERS
from eventformers.datasets_scripts.base import setting_names
from eventformers.errors import EventformersError, counted
from eventformers.files import staged_folder, write_text
from eventformers.methods import Method, load_method
from eventformers.models.modeling_base import EventPreTrainedModel
from eventformers.models.text_prompts import clear_call_settings
from eventformers.strict import check_types
from eventformers.trainers.adapters import ADAPTER_FOLDER, LORA, config_values, read_adapters
from eventformers.trainers.arguments import TRAINING_TYPES, EventTrainingArguments
from eventformers.trainers.base import write_arguments
from eventformers.trainers.method import TrainingData
from eventformers.trainers.recipes import Recipe, apply_settings, check_keys, load_recipe, read_settings
from eventformers.trainers.stage_training import StageOptions, StageRun, check_settings, train_stage
from eventformers.trainers.stages import (
    RUN_FILE,
    STAGE_FILE,
    FinishedStage,
    Stage,
    check_resume,
    check_rows,
    check_stages,
    continuous_history,
    plan_stages,
    remove_earlier_run,
    stage_recipes,
)

logger = logging.getLogger(__name__)

_OURS = {
    *("output_dir", "seed", "data_seed", "use_cpu", "bf16", "fp16", "remove_unused_columns"),
    # A token would end up in the records of the run; the login provides one.
    "hub_token",
}


@dataclass
class TrainingRun(StageRun):
    """A finished training run, with the head, the arguments and the data of its last stage.

    Args:
        chosen: sections of the card about the calibration of the trained model: titles and Markdown.
    """

    method: Method
    recipe: Recipe
    seed: int
    stages: list[FinishedStage]
    chosen: dict[str, str]

    @property
    def steps(self) -> int:
        """Number of optimizer steps of all stages."""
        return sum(stage.steps for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Training time of all stages, each since its last resume."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def resumed(self) -> bool:
        """Whether a stage continued from a checkpoint."""
        return any(stage.resumed for stage in self.stages)

    @property
    def truncated(self) -> int | None:
        """Number of truncated texts of all stages; None if that of a stage is unknown."""
        counts = [stage.truncated for stage in self.stages if stage.truncated is not None]
        return sum(counts) if len(counts) == len(self.stages) else None

    @property
    def history(self) -> list[dict[str, float]]:
        """The log of all stages, one mapping for each line; steps and epochs continue."""
        return continuous_history(self.stages)


def accepted_keys(method: Method) -> dict[str, Mapping[str, Any]]:
    """List the keys of each section of a method's recipes, with their types.

    Configuration and builder also check the values.
    """
    inherited = {"text_config", *(entry.name for entry in fields(PreTrainedConfig))}
    return {
        "model": {
            entry.name: entry.type for entry in fields(method.config_class) if entry.name not in inherited
        },
        "data": {
            **({"streaming": bool} if method.training.streams else {}),
            **method.training.data_types,
            # The builder checks its own.
            **dict.fromkeys(setting_names(BUILDERS[method.dataset[0]].BUILDER_CONFIG_CLASS), object),
        },
        "views": method.training.view_types,
        "training": {name: kind for name, kind in TRAINING_TYPES.items() if name not in _OURS},
    }


def resolve_recipe(
    method: Method, recipe: str | None = None, settings: Sequence[str] = (), seed: int | None = None
) -> Recipe:
    """Load a recipe, override single settings, and give it a seed.

    Args:
        method: the method; a recipe may name another model of it.
        recipe: name or YAML file; None takes the method's default.
        settings: overrides, `key=value`.
        seed: overrides the recipe's seed; without either, a random seed is drawn. Of several processes,
            `train_head` takes that of rank 0.

    Raises:
        EventformersError: the recipe or a setting is not accepted.
    """
    resolved = load_recipe(method.recipe_folder, recipe or method.default_recipe)
    folder, method = method.recipe_folder, load_method(resolved.method)
    if method.recipe_folder != folder:
        raise EventformersError(
            f"recipe {resolved.name} belongs to {resolved.method}; accepted: a recipe of {folder}"
        )
    given = {key.rpartition(".")[2] for key in read_settings(settings)}
    given.update(*(part.model for part in stage_recipes(resolved)))
    for name, value in method.config_class.retired.items():
        if name in given:
            raise EventformersError(f"{name} is no longer a setting; its value is always {value}; remove it")
    accepted = accepted_keys(method)
    check_stages(resolved, method.config_class)
    for part in stage_recipes(resolved):
        check_keys(part, accepted)
    resolved = apply_settings(resolved, settings, accepted)
    for part in stage_recipes(resolved):
        for section, types in accepted.items():
            check_types(getattr(part, section), types)
    if seed is not None:
        resolved.seed = seed
    if resolved.seed is None:
        resolved.seed = random.SystemRandom().randrange(2**31)
    check_types({"seed": resolved.seed}, TRAINING_TYPES)
    return resolved


def train_head(
    recipe: Recipe,
    *,
    encoder: str,
    encoder_name: str,
    output: Path,
    data: str | None = None,
    lora: bool = False,
    peft: str | Path | PeftConfig | None = None,
    resume: bool = False,
    device: str | None = None,
    dtype: str | None = None,
    on_ready: Callable[[], object] | None = None,
) -> TrainingRun:
    """Train a method's head with a recipe.

    Args:
        recipe: a recipe from `resolve_recipe`.
        encoder: folder or Hub id of the pretrained encoder.
        output: folder of the run and its checkpoints.
        data: built dataset, folder of raw files, or None for the bundled samples.
        lora: train low-rank adapters instead of the whole encoder.
        peft: configuration of other adapters to train instead; see `read_adapters`.
        resume: continue from the last checkpoint in `output`, or after its last finished stage.
        dtype: `bfloat16` or `float16` for mixed precision; None for float32.
        on_ready: called once before anything is written, after the settings of all stages and the data of the
            first one are accepted.

    Returns:
        The run, with the trained model in evaluation mode.

    Raises:
        EventformersError: a setting is not accepted, there is nothing to resume, or memory ran out.
    """
    if recipe.seed is None:
        raise EventformersError("the recipe has no seed; resolve_recipe draws one")
    if lora and peft is not None:
        raise EventformersError("--lora and --peft; accepted: one of them")
    method = load_method(recipe.method)
    options = StageOptions(
        seed=recipe.seed,
        encoder=encoder,
        encoder_name=encoder_name,
        data=data,
        adapters=LORA if lora else None if peft is None else read_adapters(peft),
        resume=resume,
        device=device,
        dtype=dtype,
    )
    record = {
        "encoder": encoder_name,
        "data": data,
        "lora": lora,
        "peft": None if lora else config_values(options.adapters),
        "dtype": dtype,
        "processes": PartialState().num_processes,
        "recipe": asdict(recipe),
    }
    stages = plan_stages(recipe, output)
    rows = check_resume(record, output, stages) if resume else {}
    for stage in stages:
        # A wrong setting of a late stage must fail before the first stage trains. The check also sets the
        # device of the process, which preparing data uses.
        check_settings(method, stage, options)
    # Each process drew its own seed for a recipe without one.
    agreed = [recipe.seed]
    broadcast_object_list(agreed)
    if agreed != [recipe.seed]:
        recipe.seed = agreed[0]
        options, stages = replace(options, seed=agreed[0]), plan_stages(recipe, output)
        record["recipe"] = asdict(recipe)

    is_noted = False
    finished: list[FinishedStage] = []

    def note_run(description: Mapping[str, Any]) -> None:
        nonlocal is_noted
        stage = stages[len(finished)]
        check_rows(rows, stage, description, output)
        if not is_noted and on_ready is not None:
            on_ready()
        if PartialState().is_main_process:
            if not is_noted and not resume:
                remove_earlier_run(output)
            rows[stage.name] = description.get("rows_fingerprint")
            _write_record({**record, "rows": rows}, output)
        if not is_noted:
            is_noted = True
            _show(_plan_text(stages), stages)
        _show(f"stage {stage.name} ({len(finished) + 1} of {len(stages)})", stages)

    earlier: Path | None = None
    for stage in stages:
        if resume and stage.record is not None:
            finished.append(stage.record)
            earlier = stage.folder
            continue
        trained = train_stage(method, stage, options, earlier=earlier, on_ready=note_run)
        earlier = stage.folder
        finished.append(trained.finished)
        if stage is not stages[-1]:
            if trained.is_main_process:
                with staged_folder(stage.folder, last=(STAGE_FILE,)) as staging:
                    save_run(trained, staging)
                    _write_record({**record, "recipe": asdict(stage.recipe)}, staging)
                    trained.finished.write(staging)
            PartialState().wait_for_everyone()
    chosen: dict[str, str] = {}
    if trained.is_main_process and trained.calibrate is not None:
        values, chosen = trained.calibrate(trained.model)
        if values:
            trained.finished.history.append({"step": trained.finished.steps, **values})
    last = {entry.name: getattr(trained, entry.name) for entry in fields(StageRun)}
    return TrainingRun(**last, method=method, recipe=recipe, seed=recipe.seed, stages=finished, chosen=chosen)


def training_data(
    head: EventPreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    data: str | None = None,
    *,
    recipe: str | None = None,
    settings: Sequence[str] = (),
    seed: int = 0,
) -> TrainingData:
    """Prepare the rows and the collator of a recipe for `transformers.Trainer`.

    The configuration of the head decides what a row needs; the recipe's settings of the model and of training
    are not used. The trainer needs `remove_unused_columns=False`, since the collator reads the rows' columns,
    and `EpochCallback(collator)`, so that each epoch has its own draws. `EventTrainer` has both.

    Args:
        head: the training head.
        tokenizer: the tokenizer of its encoder.
        data: folder of built or raw data; None takes the bundled samples.
        recipe: name or YAML file of a recipe, whose settings of data and views are used; None takes the
            method's default. Of a recipe with stages, the one of the head's configuration.
        settings: overrides, `key=value`.
        seed: seed of all draws.

    Returns:
        `train`, `validation` (None without a held-out split) and `collator`.

    Raises:
        EventformersError: the recipe, a setting or the data are not accepted.
    """
    method = load_method(head.config.model_type)
    resolved = resolve_recipe(method, recipe, settings, seed)
    stage = getattr(head.config, "stage", None)
    parts = {part.model.get("stage", stage): part for part in stage_recipes(resolved)}
    if stage not in parts:
        known = ", ".join(map(str, parts))
        raise EventformersError(
            f"the head has stage={stage}, and recipe {resolved.name} has the stages {known}; "
            "accepted: another recipe, or a head of one of these stages"
        )
    return method.training.prepare(parts[stage], data, tokenizer, head, seed)


def save_run(run: StageRun, folder: Path) -> None:
    """Write the model of a run or a stage with its code, its tokenizer and its training arguments."""
    if run.adapter is not None:
        run.adapter.save(folder / ADAPTER_FOLDER)
    run.model.save_pretrained(folder)
    clear_call_settings(run.tokenizer)
    run.tokenizer.save_pretrained(folder)
    write_arguments(run.arguments, folder)


def _show(text: str, stages: Sequence[Stage]) -> None:
    if len(stages) > 1 and PartialState().is_main_process:
        logger.info("%s", text)


def _plan_text(stages: Sequence[Stage]) -> str:
    """Describe the length of each stage, and their sum if all have a number of steps."""
    steps = [stage.recipe.training.get("max_steps", -1) for stage in stages]
    lengths = []
    for stage, number in zip(stages, steps, strict=True):
        epochs = stage.recipe.training.get("num_train_epochs", EventTrainingArguments.num_train_epochs)
        of_epochs = f"{epochs:g} epoch{'' if epochs == 1 else 's'}"
        lengths.append(f"{stage.name} {counted(number, 'step') if number > 0 else of_epochs}")
    total = f", {sum(steps)} steps in all" if min(steps) > 0 else ""
    return f"{len(stages)} stages{total}: {', '.join(lengths)}"


def _write_record(record: Mapping[str, Any], folder: Path) -> None:
    write_text(folder / RUN_FILE, json.dumps(record, indent=2, sort_keys=True) + "\n")
