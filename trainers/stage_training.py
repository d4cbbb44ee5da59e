"""Training of one stage: data, training arguments, steps and final weights."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from peft import PeftConfig, PeftModel
from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers.integrations import get_available_reporting_integrations
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, set_seed

from eventformers.datasets_scripts.licenses import UNSPECIFIED, is_open
from eventformers.errors import EventformersError, UnknownNameError, counted
from eventformers.loading.models import faults_told, load_config, load_tokenizer
from eventformers.methods import Method
from eventformers.models.modeling_base import EventPreTrainedModel
from eventformers.trainers.adapters import (
    ADAPTER_FOLDER,
    Adapter,
    add_adapters,
    average_with_start,
    is_plain_lora,
    kind_of,
    merged,
)
from eventformers.trainers.arguments import EventTrainingArguments, setting_faults
from eventformers.trainers.base import EventTrainer
from eventformers.trainers.callbacks import (
    silhouette_callback,
    stopping_callbacks,
)
from eventformers.trainers.method import Calibration, TrainingData, check_text_length
from eventformers.trainers.recipes import Recipe
from eventformers.trainers.stage_heads import (
    Weights,
    accepted_fields,
    add_change,
    average_into,
    build_head,
    cache_encoder,
    continue_head,
    encoder_weights,
    freeze,
    head_fields,
    set_dropout,
)
from eventformers.trainers.stages import (
    FinishedStage,
    Stage,
    is_finished,
    last_whole_checkpoint,
    remove_checkpoints,
)

logger = logging.getLogger(__name__)

_DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class StageOptions:
    """The seed and the arguments of `train_head` that are the same for all stages of a run."""

    seed: int
    encoder: str
    encoder_name: str
    data: str | None
    adapters: PeftConfig | None
    resume: bool
    device: str | None
    dtype: str | None


@dataclass
class StageRun:
    """A trained stage with what is saved beside its head.

    Args:
        model: the trained head with merged adapters.
        adapter: the adapters, including those of earlier stages; None without adapters, or if those of
            several stages have no sum.
        adapter_kind: the kind of adapters that were trained, as PEFT writes it; "" without any.
        validation_rows: number of rows of the validation loss.
        is_main_process: True on rank 0; only rank 0 writes.
        calibrate: see `TrainingData`.
    """

    model: EventPreTrainedModel
    adapter: Adapter | None
    adapter_kind: str
    tokenizer: PreTrainedTokenizerBase
    arguments: EventTrainingArguments
    data: dict[str, Any]
    validation_rows: int
    is_main_process: bool
    finished: FinishedStage
    calibrate: Callable[[Any], Calibration] | None


def check_settings(method: Method, stage: Stage, options: StageOptions) -> None:
    """Check the configuration and the training arguments of a stage.

    Raises:
        EventformersError: a setting is not accepted.
    """
    with accepted_fields():
        method.config_class(**stage.recipe.model)
    has_validation = stage.recipe.data.get("validation_rows", 0) != 0
    arguments = _make_arguments(stage.recipe, stage.folder, options, has_validation)
    if stage.recipe.data.get("streaming", False) and arguments.max_steps < 1:
        raise EventformersError(
            "streaming=true needs max_steps, since a stream has no last row; accepted: max_steps of 1 or "
            "more, or streaming=false"
        )


def train_stage(
    method: Method,
    stage: Stage,
    options: StageOptions,
    *,
    earlier: Path | None,
    on_ready: Callable[[Mapping[str, Any]], None],
) -> StageRun:
    """Train one stage.

    Args:
        earlier: folder of the previous stage, whose head this stage starts from, or adds its change to; None
            for the first stage.
        on_ready: called with the description of the data right before the first step, after settings and data
            are accepted.

    Returns:
        The stage, with the trained model in evaluation mode.

    Raises:
        EventformersError: a setting is not accepted, or memory ran out.
    """
    recipe = stage.recipe
    checkpoint = last_whole_checkpoint(stage.folder) if options.resume else None
    model, tokenizer, prepared, arguments = _prepare_stage(method, stage, options, earlier)
    change: Weights = {}
    if earlier and arguments.from_encoder:
        before, after = model, continue_head(method, earlier, {}, torch.float32)
        own = encoder_weights(before)
        change = {name: value - own[name] for name, value in encoder_weights(after).items()}
    fit_batch_size(arguments, prepared)
    by_silhouette = silhouette_callback(arguments, prepared.unseen)
    trained, start = _make_trainable(model, arguments, options)
    callbacks = stopping_callbacks(arguments, prepared.validation is not None)
    with setting_faults():
        trainer = EventTrainer(
            model=trained,
            args=arguments,
            train_dataset=prepared.train,
            eval_dataset=prepared.validation,
            data_collator=prepared.collator,
            processing_class=tokenizer,
            callbacks=callbacks if by_silhouette is None else [*callbacks, by_silhouette],
            data_report=prepared.description,
            card_fields={
                "base_model": options.encoder_name,
                "recipe": recipe.name,
                "recipe_description": recipe.description,
                "changed_settings": recipe.changed,
                "views": recipe.views,
            },
        )
    on_ready(prepared.description)
    started = time.monotonic()
    _run_steps(trainer, checkpoint)
    # Counted by each process for its own rows, and in a copy of the collator by workers.
    for note, number in getattr(prepared.collator, "notes", {}).items():
        logger.warning("%d %s, as rows were read over all epochs", number, note)
    if by_silhouette is not None:
        chosen = by_silhouette.take_checkpoint(stage.folder, trainer.state)
        trainer.load_weights(chosen)
        # Other processes may still be reading a checkpoint.
        trainer.accelerator.wait_for_everyone()
        if trainer.is_world_process_zero():
            # The checkpoint of the last step tells a resume that no step is left.
            last = chosen.with_name(f"{PREFIX_CHECKPOINT_DIR}-{trainer.state.global_step}")
            remove_checkpoints(stage.folder, keeping=(chosen, last))
    # Mixed precision wraps `forward`; without the wrapper, the trained model computes like the saved one.
    trained = trainer.accelerator.unwrap_model(trained, keep_fp32_wrapper=False)
    final, adapter = _finish_weights(trained, start, arguments, earlier)
    add_change(final, change)
    return StageRun(
        model=final.eval(),
        adapter=adapter,
        adapter_kind=kind_of(options.adapters) if options.adapters else "",
        tokenizer=tokenizer,
        arguments=arguments,
        data=prepared.description,
        validation_rows=0 if prepared.validation is None else len(cast(Sized, prepared.validation)),
        finished=FinishedStage(
            name=stage.name,
            steps=trainer.state.global_step,
            seconds=time.monotonic() - started,
            # Workers count in their own copy of the collator.
            truncated=None if checkpoint or arguments.dataloader_num_workers else prepared.collator.truncated,
            history=trainer.state.log_history,
            resumed=checkpoint is not None,
        ),
        is_main_process=trainer.is_world_process_zero(),
        calibrate=prepared.calibrate,
    )


def _prepare_stage(
    method: Method, stage: Stage, options: StageOptions, earlier: Path | None
) -> tuple[EventPreTrainedModel, PreTrainedTokenizerBase, TrainingData, EventTrainingArguments]:
    """Make the untrained head, its tokenizer, the training data and the training arguments."""
    recipe = stage.recipe
    set_seed(options.seed)
    fields = head_fields(recipe, options.encoder)
    # With adapters the encoder itself does not train, so it keeps the dtype of its weights.
    dtype = "auto" if options.adapters else torch.float32
    if earlier is None or recipe.training.get("from_encoder"):
        model = build_head(method, options.encoder, fields, dtype)
    else:
        model = continue_head(method, earlier, fields, dtype)
    # Preparing data can take minutes, so a wrong setting must fail before.
    if (dropout := recipe.training.get("encoder_dropout")) is not None:
        set_dropout(model.text_encoders(), dropout)
    with faults_told(options.encoder):
        tokenizer = load_tokenizer(options.encoder, load_config(options.encoder))
    data = method.training.prepare(recipe, options.data, tokenizer, model, options.seed)
    arguments = _make_arguments(recipe, stage.folder, options, data.validation is not None)
    if (longest := getattr(data.collator, "max_seq_length", None)) is not None:
        check_text_length(model.config, tokenizer, longest)
    if arguments.push_to_hub:
        check_publishable(data.description)
    if arguments.gradient_cache_chunk_size is not None and not hasattr(model, "encode_views"):
        raise EventformersError(
            f"gradient_cache_chunk_size: {method.title} cannot encode a batch in chunks; accepted: null; "
            "lower per_device_train_batch_size to save memory"
        )
    if options.adapters and getattr(model.config, "freeze_encoder", False):
        raise EventformersError(
            "--lora adapts the encoder, but freeze_encoder=true freezes it; accepted: --lora with "
            "freeze_encoder=false and encoder_cache_tokens=null, or a run without --lora"
        )
    if options.adapters and arguments.start_weight_share and not is_plain_lora(options.adapters):
        raise EventformersError(
            f"start_weight_share={arguments.start_weight_share} averages weights, which "
            f"{kind_of(options.adapters)} does not add to; accepted: start_weight_share=0, or --lora"
        )
    return model, tokenizer, data, arguments


def _make_trainable(
    model: EventPreTrainedModel, arguments: EventTrainingArguments, options: StageOptions
) -> tuple[EventPreTrainedModel | PeftModel, Weights | None]:
    """Freeze modules, and add the encoder cache and the adapters.

    Without adapters, also return the initial weights if the final encoder is to have a share of them.
    """
    frozen = arguments.frozen_modules or []
    freeze(model, frozen)
    if arguments.encoder_cache_tokens is not None:
        cache_encoder(model, arguments.encoder_cache_tokens)
    if options.adapters is None:
        return model, encoder_weights(model) if arguments.start_weight_share else None
    adapted = add_adapters(model, options.encoder_name, options.adapters)
    # PEFT unfreezes the modules that it trains without adapters.
    freeze(adapted, frozen)
    return adapted, None


def _run_steps(trainer: EventTrainer, checkpoint: str | None) -> None:
    """Train to the last step, starting from a checkpoint if there is one."""
    try:
        if checkpoint is not None and is_finished(Path(checkpoint)):
            # Trainer would run one more step.
            trainer.load_finished(checkpoint)
        else:
            trainer.train(resume_from_checkpoint=checkpoint)
    except torch.OutOfMemoryError as error:
        raise EventformersError(
            f"out of memory with batches of {trainer.args.per_device_train_batch_size} rows; lower "
            "per_device_train_batch_size, or set gradient_cache_chunk_size to encode that many rows at a time"
        ) from error
    if not trainer.state.global_step:
        raise EventformersError(
            "the training run had no steps, so there is no model to write; accepted: data for at least one "
            "batch, and max_steps or num_train_epochs above 0"
        )


def _finish_weights(
    trained: EventPreTrainedModel | PeftModel,
    start: Weights | None,
    arguments: EventTrainingArguments,
    earlier: Path | None,
) -> tuple[EventPreTrainedModel, Adapter | None]:
    """Average with the initial weights if the settings say so, and merge adapters.

    Return the head, and its adapters including those of earlier stages.
    """
    if not isinstance(trained, PeftModel):
        if start is not None:
            average_into(trained, start, arguments.start_weight_share)
        return trained, None
    average_with_start(trained, arguments.start_weight_share)
    adapter = Adapter.of(trained)
    encoders = nn.ModuleList(trained.get_base_model().text_encoders())
    trains_whole = any(
        value.requires_grad and "lora_" not in name for name, value in encoders.named_parameters()
    )
    is_sum = is_plain_lora(adapter.settings) and not (arguments.from_encoder and trains_whole)
    if earlier is not None and not is_sum:
        logger.warning(
            "%s adapters of several stages have no sum: the merged model is saved, and no adapter/",
            kind_of(adapter.settings),
        )
        return merged(trained), None
    if earlier is not None:
        with faults_told(str(earlier / ADAPTER_FOLDER)):
            adapter = adapter.after(earlier / ADAPTER_FOLDER)
    return merged(trained), adapter


def fit_batch_size(arguments: EventTrainingArguments, data: TrainingData) -> None:
    """Lower the batch size to the number of rows if there are fewer, and log it.

    Args:
        arguments: the training arguments; `per_device_train_batch_size` changes.
        data: the training data. The batch size stays for a stream with an unknown number of rows.

    Raises:
        EventformersError: the loss needs more rows, or there are fewer rows than processes.
    """
    train = data.train
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
                "training data has %s but the batch size is %d; lowering it to %d",
                *(
                    counted(rows, "row"),
                    processes * arguments.per_device_train_batch_size,
                    processes * fitting,
                ),
            )
        arguments.per_device_train_batch_size = fitting


def check_publishable(report: Mapping[str, Any]) -> None:
    """Check that the licences of the training data allow pushes during training.

    Raises:
        EventformersError: a licence is not open, or is unknown.
    """
    sources = report.get("sources", {}).values()
    closed = {str(source.get("license", UNSPECIFIED)) for source in sources}
    closed = {name for name in closed or {UNSPECIFIED} if not is_open(name)}
    if closed:
        raise EventformersError(
            f"push_to_hub: the licences of the training data are not all open: {', '.join(sorted(closed))}; "
            "accepted: push_to_hub=false; run `eventformers push RUN --accept-licenses` afterwards if you "
            "may publish the model"
        )


def _make_arguments(
    recipe: Recipe, folder: Path, options: StageOptions, has_validation: bool
) -> EventTrainingArguments:
    """Make the training arguments of a stage."""
    chooses_later = recipe.training.get("silhouette_window") is not None
    settings: dict[str, Any] = {
        "dataloader_drop_last": True,
        "logging_steps": 10,
        "report_to": "none",
        "save_total_limit": None if chooses_later else 2,
        # With activation checkpointing, the Trainer would expect that every weight is used in every batch.
        "ddp_find_unused_parameters": True,
        **({"save_strategy": "epoch"} if chooses_later else {}),
        # Each process reads its own part of a stream: batches sent by one process would need equal widths.
        "accelerator_config": {"dispatch_batches": False},
        **recipe.training,
    }
    if settings.get("push_to_hub") and not settings.get("hub_model_id"):
        raise EventformersError(
            "push_to_hub: found no hub_model_id; accepted: push_to_hub=true with hub_model_id=OWNER/NAME"
        )
    if has_validation:
        saved = settings.get("save_strategy", "steps")
        settings.setdefault("eval_strategy", "steps" if saved == "best" else saved)
        # The best model is chosen among the saved ones, so other steps need no evaluation.
        settings.setdefault("eval_steps", settings.get("save_steps"))
        settings.setdefault("load_best_model_at_end", True)
    if options.dtype not in (None, *_DTYPES):
        raise UnknownNameError("dtype", options.dtype, _DTYPES)
    # The arguments of DeepSpeed change how every later model of the process loads.
    launched = {name: os.environ.get(f"ACCELERATE_USE_{name.upper()}", "") for name in ("fsdp", "deepspeed")}
    asked = [f"ACCELERATE_USE_{name.upper()}" for name, on in launched.items() if on.lower() in ("true", "1")]
    if asked := [*asked, *(name for name in launched if settings.get(name))]:
        raise EventformersError(
            f"{', '.join(asked)}: train cannot save or resume a model whose weights or optimizer are "
            "sharded; accepted: several processes without FSDP and DeepSpeed, with activation_checkpointing "
            "or gradient_cache_chunk_size where memory is short"
        )
    if options.device is not None and torch.device(options.device).index:
        raise EventformersError(
            f"device: found {options.device}; accepted: cpu or cuda, and for another than the first GPU the "
            "environment variable CUDA_VISIBLE_DEVICES"
        )
    # Without a device, an accelerator is preferred.
    on_cpu = options.device is not None and torch.device(options.device).type == "cpu"
    with setting_faults():
        arguments = EventTrainingArguments(
            output_dir=str(folder),
            seed=options.seed,
            use_cpu=on_cpu if options.device else not torch.accelerator.is_available(),
            bf16=options.dtype == "bfloat16",
            fp16=options.dtype == "float16",
            **settings,
        )
    if missing := set(arguments.report_to) - set(get_available_reporting_integrations()):
        raise EventformersError(
            f"report_to: found {', '.join(sorted(missing))}, which is not installed or not known; accepted: "
            "none, or an installed integration of Trainer, such as tensorboard, wandb or trackio"
        )
    return arguments
