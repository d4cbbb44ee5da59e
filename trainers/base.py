"""The trainer of every method, on `transformers.Trainer`."""

from __future__ import annotations

import copy
import inspect
import json
import logging
import math
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import CommitInfo, HfApi
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from torch.random import fork_rng
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback
from transformers.trainer import OPTIMIZER_NAME, SCALER_NAME, SCHEDULER_NAME, TRAINING_ARGS_NAME
from transformers.trainer_utils import EvalLoopOutput, HubStrategy, has_length

from eventformers import __version__
from eventformers.datasets_scripts.loading import limit_requests
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.files import write_text
from eventformers.trainers.adapters import kind_of, merged
from eventformers.trainers.arguments import EventTrainingArguments, setting_faults
from eventformers.trainers.callbacks import ProgressLines, progress_callback
from eventformers.trainers.stages import read_state, readable

ARGUMENTS_FILE = "training_args.json"
PUSH_SIGNATURE = "Pushed by eventformers"
"""The signature in every commit of this package; a later push replaces only files of such commits."""

logger = logging.getLogger(__name__)


class EpochCallback(TrainerCallback):
    """Passes the epoch to a collator of this suite, whose draws then differ between epochs.

    `EventTrainer` adds it; `transformers.Trainer` needs it in `callbacks`.

    Args:
        collator: the collator of the trainer.
    """

    def __init__(self, collator: Any) -> None:
        self.collator = collator

    def on_epoch_begin(self, args, state, control, **kwargs):
        self.collator.epoch = int(state.epoch or 0)


class _Intervals(TrainerCallback):
    """Applies the intervals of the arguments to a resumed run, whose state has those of its checkpoint."""

    def on_train_begin(self, args, state, control, **kwargs):
        state.compute_steps(args, state.max_steps)


class EventTrainer(Trainer):
    """Trains a head that returns `loss` and one field for each loss term.

    Compared with `transformers.Trainer`: it logs every loss term by name, supports learning rates for single
    modules, encodes large batches in chunks, shows progress as a bar or as plain lines, writes no pickled
    file beside the model, and pushes complete repositories.
    """

    args: EventTrainingArguments

    def __init__(
        self,
        *args: Any,
        data_report: Mapping[str, Any] | None = None,
        card_fields: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Create the trainer.

        Args:
            *args: arguments of `transformers.Trainer`.
            data_report: report of the training data from `built_report`, for the card of a push.
            card_fields: further fields of `ModelCard`, for the card of a push.
            **kwargs: arguments of `transformers.Trainer`.
        """
        self._term_sums: dict[str, torch.Tensor] = {}
        self._term_counts: dict[str, int] = defaultdict(int)
        super().__init__(*args, **kwargs)
        self.data_report, self.card_fields = data_report, card_fields or {}
        self._has_warned_of_states = False
        self._validated: dict[str, list[torch.Tensor]] = defaultdict(list)
        # A notebook's own progress table stays.
        if self.pop_callback(ProgressCallback):
            self.add_callback(progress_callback())
        elif self.pop_callback(PrinterCallback):
            self.add_callback(ProgressLines())
        if hasattr(self.data_collator, "epoch"):
            self.add_callback(EpochCallback(self.data_collator))
        self.add_callback(_Intervals())

    def call_model_init(self, trial=None):
        """Make the model of a run or trial, which does not log the loss terms of an earlier one."""
        self._term_sums.clear()
        self._term_counts.clear()
        return super().call_model_init(trial)

    def get_eval_dataloader(self, eval_dataset=None):
        """Create a loader of all validation rows, even if incomplete training batches are dropped."""
        drop_last = self.args.dataloader_drop_last
        self.args.dataloader_drop_last = False
        try:
            return super().get_eval_dataloader(eval_dataset)
        finally:
            self.args.dataloader_drop_last = drop_last

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """Run the head and collect its loss terms for the next log line."""
        output = model(**inputs)
        if model.training:
            self._remember_terms(output)
        else:
            for name, value in output.items():
                if name.endswith("_correct"):
                    gathered = self.accelerator.gather_for_metrics(value)
                    self._validated[name].append(gathered.float().cpu())
        return (output.loss, output) if return_outputs else output.loss

    def _remember_terms(self, output: Any) -> None:
        for name, value in output.items():
            if name.endswith("_loss"):
                self._term_sums[name] = self._term_sums.get(name, 0.0) + value.detach().float()
                self._term_counts[name] += 1

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """Validate; each output field `x_correct`, one bool for each row, becomes the metric `x_accuracy`."""
        self._validated.clear()
        output = super().evaluation_loop(*args, **kwargs)
        prefix = kwargs.get("metric_key_prefix", "eval")
        for name, parts in self._validated.items():
            key = f"{prefix}_{name.removesuffix('_correct')}_accuracy"
            output.metrics[key] = torch.cat(parts).mean().item()
        return output

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, with the mean of every loss term since the last training log line.

        Raises:
            EventformersError: a training loss is NaN or infinite, or is 0 at every step.
        """
        if "loss" in logs:
            for name, total in self._term_sums.items():
                logs[name] = (total / self._term_counts[name]).item()
            self._term_sums.clear()
            self._term_counts.clear()
        super().log(logs, start_time)
        if logs.get("train_loss") == 0:
            raise EventformersError(
                "the training loss is 0 at every step, so the model learned nothing; accepted: more rows "
                "that differ"
            )
        for name in ("loss", "train_loss"):
            if not math.isfinite(logs.get(name, 0.0)):
                raise EventformersError(
                    f"the training loss is {logs[name]} at step {self.state.global_step}; accepted: a finite "
                    "loss. Lower learning_rate, or train in float32, and start again with --overwrite"
                )

    def training_step(self, model, inputs, num_items_in_batch=None):
        """Run one step, in chunks if `gradient_cache_chunk_size` is set."""
        chunk_size = self.args.gradient_cache_chunk_size
        if chunk_size is None:
            return super().training_step(model, inputs, num_items_in_batch)
        model.train()
        head = self.accelerator.unwrap_model(model)
        steps = self.current_gradient_accumulation_steps
        before = {
            parameter: None if parameter.grad is None else parameter.grad.clone()
            for parameter in head.parameters()
            if parameter.requires_grad and self.accelerator.num_processes > 1
        }
        # float16 on an accelerator scales the loss; the optimizer unscales the gradients.
        scaler = self.accelerator.scaler
        output = backward_in_chunks(
            head,
            self._prepare_inputs(inputs),
            chunk_size,
            backward=lambda loss: (loss if scaler is None else scaler.scale(loss)).backward(),
            autocast=self.accelerator.autocast,
            scale=1 / steps,
        )
        # DDP does not see gradients of chunks: the new part of each is averaged over processes.
        for parameter, earlier in before.items():
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            new = gradient if earlier is None else gradient - earlier
            torch.distributed.all_reduce(new)
            new = new / self.accelerator.num_processes
            parameter.grad = new if earlier is None else earlier + new
        self._remember_terms(output)
        return output.loss / steps

    def _determine_best_metric(self, metrics, trial):
        with setting_faults():
            return super()._determine_best_metric(metrics, trial)

    def _get_train_sampler(self, train_dataset=None):
        with setting_faults():
            return super()._get_train_sampler(train_dataset)

    def create_optimizer(self, model=None):
        """Create the optimizer, with a parameter group for each learning rate."""
        rates = self.args.module_learning_rates
        if getattr(self, "optimizer", None) is not None or not rates:
            with setting_faults():
                return super().create_optimizer(model)
        trained = self.model if model is None else model
        decayed = set(self.get_decay_parameter_names(trained))
        groups: dict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
        matched: set[str] = set()
        for name, parameter in trained.named_parameters():
            if not parameter.requires_grad:
                continue
            parts = name.split(".")
            prefix = next((key for key in rates if key in parts), None)
            if prefix is not None:
                matched.add(prefix)
            rate = self.args.learning_rate if prefix is None else rates[prefix]
            groups[rate, self.args.weight_decay if name in decayed else 0.0].append(parameter)
        # A module that the configuration leaves out, such as the head of a loss with weight 0, is None.
        left_out = {
            name for name in rates for module in trained.modules() if getattr(module, name, trained) is None
        }
        if unmatched := set(rates) - matched - left_out:
            modules = {part for name, _ in trained.named_parameters() for part in name.split(".")[:-1]}
            raise UnknownNameError("module in module_learning_rates:", ", ".join(sorted(unmatched)), modules)
        with setting_faults():
            optimizer_class, settings = self.get_optimizer_cls_and_kwargs(self.args, trained)
        optimizer = optimizer_class(
            [
                {"params": parameters, "lr": rate, "weight_decay": decay}
                for (rate, decay), parameters in groups.items()
            ],
            **settings,
        )
        self.optimizer = optimizer
        return optimizer

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> LRScheduler:
        """Create the scheduler; `learning_rate_decay` makes it an exponential one."""
        decay = self.args.learning_rate_decay
        if decay is None or getattr(self, "lr_scheduler", None) is not None:
            with setting_faults():
                return super().create_scheduler(num_training_steps, optimizer)
        if not has_length(self.train_dataset):
            raise EventformersError(
                "learning_rate_decay needs the length of an epoch, which streamed data do not have; accepted "
                "with streaming=true: null"
            )
        batches = len(self.get_train_dataloader())
        steps = max(1, math.ceil(batches / self.args.gradient_accumulation_steps))
        chosen = self.optimizer if optimizer is None else optimizer
        self.lr_scheduler = LambdaLR(chosen, lambda step: decay ** (step / steps))
        # The base class saves and loads the scheduler's state only if this is set.
        self._created_lr_scheduler = True
        return self.lr_scheduler

    def load_finished(self, checkpoint: str) -> None:
        """Load the weights and the log of a checkpoint that has no steps left.

        Args:
            checkpoint: the checkpoint's folder. With `load_best_model_at_end`, the weights are those of the
                best checkpoint, if its folder still exists.
        """
        self.state = read_state(Path(checkpoint))
        best = self.state.best_model_checkpoint
        if self.args.load_best_model_at_end and best is not None:
            # The recorded path may be outdated: the run's folder may have moved.
            beside = Path(checkpoint).with_name(Path(best).name)
            checkpoint = str(beside) if beside.is_dir() else checkpoint
        self._load_from_checkpoint(checkpoint)

    def load_weights(self, checkpoint: Path) -> None:
        """Load only the weights of a checkpoint."""
        self._load_from_checkpoint(str(checkpoint))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        with readable(Path(resume_from_checkpoint), ["*.safetensors"]):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            with readable(Path(checkpoint), [OPTIMIZER_NAME, SCHEDULER_NAME]):
                super()._load_optimizer_and_scheduler(checkpoint)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            with readable(Path(checkpoint), ["rng_state*.pth"]):
                super()._load_rng_state(checkpoint)

    def _load_scaler(self, checkpoint: str | None) -> None:
        if checkpoint is not None and (Path(checkpoint) / SCALER_NAME).exists():
            with readable(Path(checkpoint), [SCALER_NAME]):
                super()._load_scaler(checkpoint)

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        super()._save(output_dir, state_dict)
        folder = Path(output_dir or self.args.output_dir)
        (folder / TRAINING_ARGS_NAME).unlink(missing_ok=True)
        if self.args.should_save:
            write_arguments(self.args, folder)

    def create_model_card(  # type: ignore[override]
        self, language: str = "en", license: str | None = None, model_name: str | None = None
    ) -> None:
        """Write the card of the current model to the output folder; a card written by hand stays.

        Args:
            language: language code of the texts.
            license: the Hub's name for the licence of the weights; None states that none was chosen.
            model_name: name of the model; None takes the repository's name or the folder's.
        """
        if self.is_world_process_zero():
            self._write_card(Path(self.args.output_dir), language=language, license=license, name=model_name)

    def push_to_hub(
        self,
        commit_message: str | None = "End of training",
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        private: bool | None = None,
        **card: Any,
    ) -> CommitInfo | Future[CommitInfo] | None:
        """Upload the model as a complete repository: weights, code, tokenizer and card.

        Adapters are merged; `model.push_to_hub` uploads only the adapters.

        Args:
            commit_message: title of the commit.
            blocking: False uploads in the background.
            token: access token; None takes `hub_token`, or the login.
            revision: the branch; None takes `hub_revision`.
            private: make a new repository private; None takes `hub_private_repo`.
            **card: arguments of `create_model_card`.

        Returns:
            The commit, or its future with `blocking=False`; None on all ranks but 0.
        """
        self.callback_handler.on_push_begin(self.args, self.state, self.control)
        if self.hub_model_id is None:
            self.init_hf_repo(token=token, private=private)
        if not self.is_world_process_zero():
            return None
        folder = Path(tempfile.mkdtemp(prefix="eventformers-push-"))
        limit_requests()
        api = HfApi(token=token or self.args.hub_token)

        def upload() -> CommitInfo:
            try:
                return api.upload_folder(
                    repo_id=self.hub_model_id,
                    folder_path=folder,
                    commit_message=commit_message,
                    commit_description=f"{PUSH_SIGNATURE} {__version__}",
                    revision=revision or self.args.hub_revision,
                )
            finally:
                shutil.rmtree(folder)

        try:
            model = self.accelerator.unwrap_model(self.model)
            if isinstance(model, PeftModel):
                # Training continues with separate adapters.
                model = merged(copy.deepcopy(model))
            model.save_pretrained(folder)
            if self.processing_class is not None:
                self.processing_class.save_pretrained(folder)
            write_arguments(self.args, folder)
            self._write_card(folder, name=card.pop("model_name", None), **card)
        except BaseException:
            shutil.rmtree(folder)
            raise
        return upload() if blocking else api.run_as_future(upload)

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """Upload the model after a save, except with the strategy `end`; a failed push logs a warning."""
        strategy = self.args.hub_strategy
        if not self.is_world_process_zero() or strategy == HubStrategy.END:
            return
        if strategy != HubStrategy.EVERY_SAVE and not self._has_warned_of_states:
            self._has_warned_of_states = True
            logger.warning(
                "hub_strategy=%s pushes only the model, at every save; the optimizer state is pickled and "
                "stays in %s",
                strategy.value,
                self.args.output_dir,
            )
        try:
            self.push_to_hub(f"Training in progress, step {self.state.global_step}")
        except Exception as error:
            logger.warning(
                "cannot push the model of step %d; training continues: %s",
                self.state.global_step,
                " ".join(str(error).split()),
            )

    def _write_card(self, folder: Path, *, name: str | None, **fields: Any) -> None:
        from eventformers.model_cards import ModelCard, TrainedOn, write_card

        model = self.accelerator.unwrap_model(self.model)
        head = model.get_base_model() if isinstance(model, PeftModel) else model
        layers = [module for module in head.modules() if isinstance(module, BaseTunerLayer)]
        beside = {"original_module", *(name for layer in layers for name in layer.adapter_layer_names)}
        validation = self.eval_dataset
        held_out = len(validation) if validation is not None and has_length(validation) else 0
        card = ModelCard(
            name=name or self.hub_model_id or Path(self.args.output_dir).absolute().name,
            method=head.config.model_type,
            config=head.config.to_dict(),
            trained_on=(
                TrainedOn.from_report(self.data_report, validation_rows=held_out)
                if self.data_report
                else None
            ),
            training_arguments=self.args.to_dict(),
            seed=self.args.seed,
            adapters=kind_of(model.peft_config["default"]) if isinstance(model, PeftModel) else "",
            steps=self.state.global_step,
            history=self.state.log_history,
            parameters=sum(
                parameter.numel()
                for name, parameter in head.base_model.named_parameters()
                # Adapters are merged, and of a module that trains whole PEFT keeps the original beside it.
                if not any(part in name for part in beside)
            ),
            **{**self.card_fields, **fields},
        )
        write_card(folder, card, run_usage=False)


def write_arguments(arguments: EventTrainingArguments, folder: Path) -> None:
    """Write training arguments as `training_args.json`, without folders, tokens and the run's name."""
    values = {
        name: value
        for name, value in arguments.to_sanitized_dict().items()
        if not name.endswith(("_dir", "_token")) and name != "run_name"
    }
    values["module_learning_rates"] = arguments.module_learning_rates
    write_text(folder / ARGUMENTS_FILE, json.dumps(values, indent=2, sort_keys=True) + "\n")


def backward_in_chunks(
    head: nn.Module,
    inputs: Mapping[str, torch.Tensor],
    chunk_size: int,
    backward: Callable[[torch.Tensor], None],
    autocast: Callable[[], AbstractContextManager] = nullcontext,
    scale: float = 1.0,
) -> Any:
    """Compute the gradient of `head(**inputs).loss`, encoding `chunk_size` rows at a time.

    The views are encoded without a graph, and the loss is computed on all of them. Each chunk is then encoded
    again, with the same dropout masks, to pass the gradient of its vectors to the encoder. This takes one
    more forward pass than `head(**inputs).loss.backward()`.

    Args:
        head: a training head with `encode_views` and `losses_from_views`.
        inputs: its inputs, batch first.
        backward: called instead of `Tensor.backward`.
        autocast: makes the context in which the head runs.
        scale: factor of the loss before the backward pass.

    Returns:
        The head's output, with detached losses.
    """
    encoder_inputs = set(inspect.signature(head.encode_views).parameters)
    views_inputs = {name: value for name, value in inputs.items() if name in encoder_inputs}
    shared_inputs = encoder_inputs & set(inspect.signature(head.losses_from_views).parameters)
    loss_inputs = {
        name: value for name, value in inputs.items() if name not in encoder_inputs or name in shared_inputs
    }
    chunks = [
        {name: tensor[start : start + chunk_size] for name, tensor in views_inputs.items()}
        for start in range(0, len(next(iter(views_inputs.values()))), chunk_size)
    ]
    device = next(head.parameters()).device
    states, parts = [], []
    for chunk in chunks:
        # The random state of the CPU and of the accelerator determines the dropout masks.
        of_accelerator = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        states.append((torch.get_rng_state(), of_accelerator))
        with torch.no_grad(), autocast():
            parts.append(head.encode_views(**chunk))
    views = {name: torch.cat([part[name] for part in parts]).requires_grad_() for name in parts[0]}
    with autocast():
        output = head.losses_from_views(views, **loss_inputs)
    backward(output.loss * scale)
    start = 0
    for chunk, (of_cpu, of_accelerator) in zip(chunks, states, strict=True):
        rows = len(next(iter(chunk.values())))
        with fork_rng(devices=[] if of_accelerator is None else [device]), autocast():
            torch.set_rng_state(of_cpu)
            if of_accelerator is not None:
                torch.cuda.set_rng_state(of_accelerator, device)
            part = head.encode_views(**chunk)
        surrogate = sum(
            (part[name] * view.grad[start : start + rows]).sum()
            for name, view in views.items()
            if view.grad is not None
        )
        if isinstance(surrogate, torch.Tensor) and surrogate.requires_grad:
            surrogate.backward()
        start += rows
    return type(output)(**{name: value.detach() for name, value in output.items()})
