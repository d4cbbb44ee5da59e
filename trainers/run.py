"""One training run, from a recipe to a trained head."""

from __future__ import annotations

import json
import logging
import random
import re
import shutil
import time
from collections.abc import Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast, get_type_hints

import torch
from huggingface_hub.errors import StrictDataclassError
from peft import PeftModel
from safetensors import SafetensorError
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, get_last_checkpoint, set_seed

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.files import write_text
from eventformers.models.modeling_base import EventPreTrainedModel
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.base import EventTrainer, write_arguments
from eventformers.trainers.early_stopping import SettledLossCallback
from eventformers.trainers.lora import add_lora
from eventformers.trainers.method import Method, load_method
from eventformers.trainers.recipes import Recipe, apply_settings, check_keys, check_types, load_recipe
from eventformers.trainers.weight_averaging import StartWeights

logger = logging.getLogger(__name__)

RUN_FILE = "run.json"
_OURS = {"output_dir", "seed", "data_seed", "use_cpu", "bf16", "fp16", "remove_unused_columns", "report_to"}
_COUNTS = {
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "gradient_accumulation_steps",
    "gradient_cache_chunk_size",
}
_DTYPES = ("float32", "bfloat16", "float16")


@dataclass
class TrainingRun:
    """What a training run leaves behind.

    Args:
        method: the method.
        recipe: the recipe with its overrides.
        seed: the seed.
        model: the trained head; adapters are merged.
        adapter: the head with its adapters, before the merge; None without `lora`.
        tokenizer: the encoder's tokenizer.
        arguments: the training arguments.
        data: what the card tells of the data.
        validation_rows: rows of the validation loss.
        seconds: training time.
        steps: optimizer steps.
        history: the log, one mapping a line.
        truncated: how many texts were cut.
        is_main_process: False in all but one of several processes, which then leave writing to that one.
    """

    method: Method
    recipe: Recipe
    seed: int
    model: EventPreTrainedModel
    adapter: PeftModel | None
    tokenizer: PreTrainedTokenizerBase
    arguments: EventTrainingArguments
    data: dict[str, Any]
    validation_rows: int
    seconds: float
    steps: int
    history: list[dict[str, float]] = field(default_factory=list)
    truncated: int = 0
    is_main_process: bool = True


def accepted_keys(method: Method) -> dict[str, set[str]]:
    """The keys of each section of a method's recipes."""
    return {
        "model": {entry.name for entry in fields(method.config_class)}
        - {entry.name for entry in fields(PreTrainedConfig)}
        - {"text_config"},
        "data": set(method.data_keys),
        "views": set(method.view_keys),
        "training": {entry.name for entry in fields(EventTrainingArguments)} - _OURS,
    }


def resolve_recipe(
    method: Method, recipe: str | None = None, settings: Sequence[str] = (), seed: int | None = None
) -> Recipe:
    """Load a recipe, override single settings, and give it a seed.

    Args:
        method: the method.
        recipe: name or YAML file; None takes the method's default.
        settings: overrides, `key=value`.
        seed: overrides the recipe's; a seed that is missing in both is drawn.

    Returns:
        A recipe with a seed.

    Raises:
        EventformersError: the recipe or a setting is not accepted.
    """
    accepted = accepted_keys(method)
    resolved = load_recipe(method.name, recipe or method.default_recipe)
    check_keys(resolved, accepted)
    resolved = apply_settings(resolved, settings, accepted)
    _check_training(resolved.training)
    if seed is not None:
        resolved.seed = seed
    if resolved.seed is None:
        resolved.seed = random.SystemRandom().randrange(2**31)
    elif not isinstance(resolved.seed, int) or resolved.seed < 0:
        raise EventformersError(f"seed: received {resolved.seed!r}; accepted: an integer of at least 0")
    return resolved


def _check_training(settings: Mapping[str, Any]) -> None:
    check_types(settings, get_type_hints(EventTrainingArguments))
    rates = {"learning_rate": settings.get("learning_rate"), **(settings.get("module_learning_rates") or {})}
    for name, rate in rates.items():
        if rate is not None and (not isinstance(rate, (int, float)) or rate < 0):
            raise EventformersError(f"setting {name}: found {rate!r}; accepted: a number of at least 0")
    for name in _COUNTS & settings.keys():
        if settings[name] is not None and settings[name] < 1:
            raise EventformersError(
                f"setting {name}: found {settings[name]}; accepted: a whole number of 1 or more"
            )


def train_head(
    recipe: Recipe,
    *,
    encoder: str,
    encoder_name: str,
    output: Path,
    data: str | None = None,
    lora: bool = False,
    resume: bool = False,
    device: str | None = None,
    dtype: str | None = None,
) -> TrainingRun:
    """Train a method's head as a recipe says.

    Args:
        recipe: what `resolve_recipe` returns.
        encoder: folder or Hub id of the pretrained encoder.
        encoder_name: how the encoder is called in records.
        output: folder of the run; checkpoints go there.
        data: built dataset, folder of raw files, or None for the bundled samples.
        lora: train low-rank adapters instead of the whole encoder.
        resume: go on from the last checkpoint in `output`.
        device: `cpu` or `cuda`; None takes an accelerator where there is one.
        dtype: `bfloat16` or `float16` computes in mixed precision; None in float32.

    Returns:
        The run, with the trained model in evaluation mode.

    Raises:
        EventformersError: a setting is not accepted, there is nothing to resume, or memory ran out.
    """
    method = load_method(recipe.method)
    seed = _required_seed(recipe)
    record = {"encoder": encoder_name, "data": data, "lora": lora, "recipe": asdict(recipe)}
    checkpoint = _checkpoint(record, output) if resume else None
    set_seed(seed)
    model = _build_head(method, encoder, recipe)
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    prepared = method.prepare(recipe, data, tokenizer, model, seed)
    arguments = _arguments(
        recipe, seed, output, device, dtype, has_validation=prepared.validation is not None
    )
    _freeze(model, arguments.frozen_modules or [])
    start = _start_weights(model, arguments.start_weight_share, lora)
    trained = add_lora(model, method.trained_whole, encoder_name) if lora else model
    trainer = EventTrainer(
        model=trained,
        args=arguments,
        train_dataset=prepared.train,
        eval_dataset=prepared.validation,
        data_collator=prepared.collator,
        processing_class=tokenizer,
    )
    if arguments.stop_at_relative_change is not None:
        if not arguments.stop_at_relative_change >= 0:
            raise EventformersError(
                f"setting stop_at_relative_change: found {arguments.stop_at_relative_change}; accepted: a "
                "number of at least 0, or null"
            )
        if prepared.validation is None:
            raise EventformersError(
                "stop_at_relative_change needs a validation loss; accepted: with validation_rows above 0"
            )
        trainer.add_callback(SettledLossCallback(arguments.stop_at_relative_change))
    if checkpoint is None and trainer.is_world_process_zero():
        _remove_earlier_checkpoints(output)
    write_text(output / RUN_FILE, json.dumps(record, indent=2, sort_keys=True) + "\n")
    started = time.monotonic()
    try:
        if checkpoint is not None and _is_finished(Path(checkpoint)):
            # Trainer would do one step more.
            trainer.load_finished(checkpoint)
        else:
            trainer.train(resume_from_checkpoint=checkpoint)
    except torch.OutOfMemoryError as error:
        raise EventformersError(
            f"out of memory with {arguments.per_device_train_batch_size} rows a batch; lower "
            "per_device_train_batch_size, or set gradient_cache_chunk_size to encode that many rows at a time"
        ) from error
    merged = trained.merge_and_unload() if lora else trained
    if start is not None:
        start.average_into(merged.base_model.encoder, arguments.start_weight_share)
    return TrainingRun(
        method=method,
        recipe=recipe,
        seed=seed,
        model=merged.eval(),
        adapter=trained if lora else None,
        tokenizer=tokenizer,
        arguments=arguments,
        data=prepared.description,
        validation_rows=0 if prepared.validation is None else len(cast(Sized, prepared.validation)),
        seconds=time.monotonic() - started,
        steps=trainer.state.global_step,
        history=trainer.state.log_history,
        truncated=prepared.collator.truncated,
        is_main_process=trainer.is_world_process_zero(),
    )


def save_run(run: TrainingRun, folder: Path) -> None:
    """Write a run's model with its code, its tokenizer and its training arguments.

    Args:
        run: the run.
        folder: where the files go.
    """
    if run.adapter is not None:
        run.adapter.save_pretrained(folder / "adapter")
    run.model.save_pretrained(folder)
    run.tokenizer.save_pretrained(folder)
    write_arguments(run.arguments, folder)


def _required_seed(recipe: Recipe) -> int:
    if recipe.seed is None:
        raise EventformersError("the recipe has no seed; resolve_recipe draws one")
    return recipe.seed


def _build_head(method: Method, encoder: str, recipe: Recipe) -> EventPreTrainedModel:
    try:
        return method.head_class.from_encoder(encoder, **recipe.model)
    except (StrictDataclassError, ValueError) as error:
        # A configuration wraps the reason twice: "Validation error for field 'x': TypeError: the reason".
        reason = re.sub(r"^.*?validation error for .*?Error: ", "", " ".join(str(error).split()), flags=re.I)
        raise EventformersError(f"model: {reason}") from error
    except (OSError, SafetensorError) as error:
        raise EventformersError(
            f"cannot load the encoder {encoder!r}: {' '.join(str(error).split())[:300]}"
        ) from error


def _freeze(model: EventPreTrainedModel, names: Sequence[str]) -> None:
    for name in names:
        found = [parameter for key, parameter in model.named_parameters() if name in key.split(".")]
        if not found:
            modules = {part for key, _ in model.named_parameters() for part in key.split(".")[:-1]}
            raise UnknownNameError("module in frozen_modules:", name, modules)
        for parameter in found:
            parameter.requires_grad_(False)


def _start_weights(model: EventPreTrainedModel, share: float, lora: bool) -> StartWeights | None:
    """The start's weights where the final encoder is to have a share of them."""
    if not 0 <= share < 1:
        raise EventformersError(
            f"setting start_weight_share: found {share}; accepted: a number from 0 to below 1"
        )
    if share and lora:
        raise EventformersError("start_weight_share needs whole weights; accepted: 0 with --lora")
    return StartWeights(model.base_model.encoder) if share else None


def remove_half_checkpoints(output: Path) -> list[Path]:
    """Remove the checkpoints of a run that were cut in mid-write; says which."""
    removed = []
    for checkpoint in output.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        # The trainer's state is the last file of a checkpoint.
        try:
            json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            shutil.rmtree(checkpoint)
            removed.append(checkpoint)
    return removed


def last_whole_checkpoint(output: Path) -> str | None:
    """The last checkpoint of a run; what a kill cut in mid-write is removed first.

    Args:
        output: folder of the run.

    Returns:
        The checkpoint's folder; None where there is none.
    """
    if not output.is_dir():
        return None
    for checkpoint in remove_half_checkpoints(output):
        logger.warning("%s was not written to its end and is removed", checkpoint)
    return get_last_checkpoint(str(output))


def _remove_earlier_checkpoints(output: Path) -> None:
    """Remove what an earlier run in the same folder left, so that no later resume takes it for its own."""
    if (output / RUN_FILE).is_file():
        for checkpoint in output.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
            shutil.rmtree(checkpoint)


def _is_finished(checkpoint: Path) -> bool:
    state = json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
    return state["global_step"] >= state["max_steps"]


def _checkpoint(record: Mapping[str, Any], output: Path) -> str:
    checkpoint = last_whole_checkpoint(output)
    path = output / RUN_FILE
    if checkpoint is None or not path.is_file():
        raise EventformersError(f"{output}: found no checkpoint to resume; run without --resume")
    earlier = json.loads(path.read_text(encoding="utf-8"))
    current = json.loads(json.dumps(record))
    different = [key for key in ("encoder", "lora") if earlier[key] != current[key]]
    different += [
        key for key in ("seed", "model", "data", "views") if earlier["recipe"][key] != current["recipe"][key]
    ]
    if different:
        raise EventformersError(
            f"{output}: the run to resume has another {' and '.join(different)}; pass the settings of "
            f"{path}, or another -o"
        )
    return checkpoint


def _arguments(
    recipe: Recipe, seed: int, output: Path, device: str | None, dtype: str | None, has_validation: bool
) -> EventTrainingArguments:
    settings: dict[str, Any] = {
        "dataloader_drop_last": True,
        "logging_steps": 10,
        "save_total_limit": 2,
        # Each process reads its own part of a stream; batches sent by one process would need equal widths.
        "accelerator_config": {"dispatch_batches": False},
        **recipe.training,
    }
    if has_validation:
        settings.setdefault("eval_strategy", settings.get("save_strategy", "steps"))
        # The best model is chosen among those saved; evaluating more often would be time lost.
        settings.setdefault("eval_steps", settings.get("save_steps"))
        settings.setdefault("load_best_model_at_end", True)
    if dtype not in (None, *_DTYPES):
        raise UnknownNameError("dtype", str(dtype), _DTYPES)
    try:
        return EventTrainingArguments(
            output_dir=str(output),
            seed=seed,
            use_cpu=device == "cpu",
            bf16=dtype == "bfloat16",
            fp16=dtype == "float16",
            remove_unused_columns=False,
            label_names=[],
            report_to="none",
            **settings,
        )
    except (TypeError, ValueError) as error:
        raise EventformersError(
            f"a training setting is not accepted: {' '.join(str(error).split())}"
        ) from error


def recorded_seed(output: Path) -> int | None:
    """The seed of the run in a folder; None where there is no run."""
    record = output / RUN_FILE
    if not record.is_file():
        return None
    return json.loads(record.read_text(encoding="utf-8"))["recipe"]["seed"]
