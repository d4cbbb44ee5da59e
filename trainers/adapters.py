"""Adapters of PEFT for a head: low-rank ones, or any others that can be merged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import torch
from accelerate.utils.operations import convert_to_fp32
from peft import (
    LoraConfig,
    PeftConfig,
    PeftModel,
    get_peft_model,
    get_peft_model_state_dict,
)
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING, PEFT_TYPE_TO_TUNER_MAPPING
from peft.tuners.lora import LoraLayer
from peft.tuners.trainable_tokens import TrainableTokensLayer
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils.constants import (
    CONFIG_NAME,
    SAFETENSORS_WEIGHTS_NAME,
    TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD_MODULES_MAPPING,
    TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING,
)
from peft.utils.other import ModulesToSaveWrapper
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import PreTrainedConfig

from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.errors import EventformersError, shown
from eventformers.files import write_text
from eventformers.methods import load_method
from eventformers.models.modeling_base import EventPreTrainedModel

_MORE_TARGETS = {"modernbert": ["Wqkv"]}
"""Layers that get adapters, by the type of the encoder, where PEFT knows none."""

_ACCEPTED = (
    'a configuration of PEFT, such as {"peft_type": "IA3"}, of adapters that train like other weights and '
    "can be merged"
)

_FREE_FIELDS = ("r", "lora_alpha", "lora_dropout", "target_modules", "modules_to_save", "inference_mode")
"""Fields of a configuration of LoRA with which the sum of adapters of several stages is again one of them."""

_STARTS = (True, False, "gaussian", "orthogonal")

LORA = LoraConfig(r=8, lora_alpha=16)
"""The adapters of `--lora`."""

ADAPTER_FOLDER = "adapter"
"""The subfolder with the unmerged adapters of a model."""


def modules_beside_encoders(head: EventPreTrainedModel) -> list[str]:
    """List the full names of the outermost modules of a head that hold no part of a pretrained encoder.

    PEFT cannot train a list of modules, so the entries of a list are named instead.
    """
    encoders = [id(encoder) for encoder in head.text_encoders()]

    def found(module: nn.Module, prefix: str) -> Iterator[str]:
        for name, child in module.named_children():
            if id(child) in encoders:
                continue
            holds_encoder = any(id(part) in encoders for part in child.modules())
            if holds_encoder or isinstance(child, (nn.ModuleList, nn.ModuleDict)):
                yield from found(child, f"{prefix}{name}.")
            elif child.state_dict():
                yield f"{prefix}{name}"

    return list(found(head, ""))


def read_adapters(peft: str | Path | PeftConfig) -> PeftConfig:
    """Read the configuration of adapters from a JSON file, or from a folder with `adapter_config.json`.

    Raises:
        EventformersError: it is none of PEFT, adapters of its kind cannot train as part of a head, or they
            start by changing the encoder.
    """
    accepted = sorted(
        kind.value
        for kind, tuner in PEFT_TYPE_TO_TUNER_MAPPING.items()
        # Prompts adapt no layers; others change their ranks by calls between steps.
        if "target_modules" in PEFT_TYPE_TO_CONFIG_MAPPING[kind].__dataclass_fields__
        and not hasattr(tuner, "update_and_allocate")
    )
    if isinstance(peft, PeftConfig):
        kind = kind_of(peft)
    else:
        path = Path(peft).expanduser()
        path = path / CONFIG_NAME if path.is_dir() else path
        values = read_json_object(path, _ACCEPTED)
        kind = values.get("peft_type")  # type: ignore[assignment]
    if kind not in accepted:
        found = "no peft_type" if kind is None else f"peft_type {shown(kind)}"
        raise EventformersError(
            f"--peft: found {found}; accepted, since they train like other weights: {', '.join(accepted)}"
        )
    if isinstance(peft, PeftConfig):
        config = peft
    else:
        try:
            config = PEFT_TYPE_TO_CONFIG_MAPPING[kind](**values)
        except (TypeError, ValueError) as error:
            raise EventformersError(f"{path}: {error}; accepted: {_ACCEPTED}") from error
    start = getattr(config, "init_lora_weights", True)
    if start not in _STARTS:
        raise EventformersError(
            f"init_lora_weights={shown(start)} changes the weights of the encoder, which the saved adapters "
            f"would then not fit; accepted: {', '.join(map(repr, _STARTS))}"
        )
    return config


def kind_of(config: PeftConfig) -> str:
    """Return the kind of adapters, as PEFT writes it: `LORA`, `IA3`."""
    return str(getattr(config.peft_type, "value", config.peft_type) or "")


def config_values(config: PeftConfig | None) -> dict[str, Any] | None:
    """Return a configuration as JSON values, by which a resumed run compares it."""
    return None if config is None else json.loads(json.dumps(config.to_dict(), default=sorted))


def is_plain_lora(config: PeftConfig) -> bool:
    """True for low-rank adapters whose effect is the product of their matrices."""
    if not isinstance(config, LoraConfig):
        return False
    given, plain = config.to_dict(), LoraConfig().to_dict()
    free = (*_FREE_FIELDS, "trainable_token_indices", "base_model_name_or_path", "task_type")
    return all(given[name] == plain[name] for name in plain if name not in free)


def _find_targets(config: PeftConfig, model_type: str) -> None:
    """Fill in the layers to adapt of an encoder: those that PEFT knows for its type."""
    kind = kind_of(config)
    known = getattr(PEFT_TYPE_TO_TUNER_MAPPING[config.peft_type], "target_module_mapping", {})
    if kind == "IA3":
        known = TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING
        feedforward = TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD_MODULES_MAPPING.get(model_type, ())
        config.feedforward_modules = config.feedforward_modules or set(feedforward)
    known = {**_MORE_TARGETS, **known}
    if model_type not in known:
        raise EventformersError(
            f"{kind}: PEFT has no target modules for a {model_type} encoder; accepted: "
            f"{', '.join(sorted(known))}, or target_modules in the file of --peft"
        )
    config.target_modules = rf".*\bencoder\..*\.({'|'.join(known[model_type])})"


def add_adapters(head: EventPreTrainedModel, encoder_name: str, config: PeftConfig = LORA) -> PeftModel:
    """Freeze a head's encoder and add adapters to it.

    Of the token embeddings, only those of `added_token_ids` train; they are saved with the adapters. Modules
    outside the encoder train without adapters: PEFT would otherwise freeze them with their random weights.

    The encoder keeps its dtype. Everything that trains is in float32, and so is the output of the encoder,
    since half precision loses small updates; see `merged`.

    Args:
        encoder_name: base model in the adapter's configuration; only the name of a folder is recorded.
        config: the kind of adapters, with their settings. Modules in `modules_to_save` train besides.

    Raises:
        EventformersError: PEFT does not accept the configuration for this encoder, the adapters cannot be
            merged, or they cannot train added tokens.
    """
    config = deepcopy(config)
    # Saved adapters have it set, and would not train.
    config.inference_mode = False
    if config.target_modules is None:
        _find_targets(config, head.config.encoder_config.model_type)
    config.modules_to_save = sorted({*(config.modules_to_save or ()), *modules_beside_encoders(head)})
    head.name_or_path = Path(encoder_name).name if Path(encoder_name).is_dir() else encoder_name
    tables = [encoder.get_input_embeddings() for encoder in head.text_encoders()]
    names = [name for name, module in head.named_modules() if any(module is table for table in tables)]
    if (added := head.config.added_token_ids) is not None:
        if not hasattr(config, "trainable_token_indices"):
            raise EventformersError(
                f"--peft: {kind_of(config)} cannot train the tokens that this method adds; accepted: LORA"
            )
        config.trainable_token_indices = dict.fromkeys(names, added)
    try:
        adapted = get_peft_model(head, config)
        layer = next(module for module in adapted.modules() if isinstance(module, BaseTunerLayer))
        deepcopy(layer).merge()
    # PEFT does not check the types of settings.
    except (AttributeError, NotImplementedError, StopIteration, TypeError, ValueError, re.error) as error:
        told = str(error) or "its adapters cannot be merged"
        raise EventformersError(f"--peft: {kind_of(config)}: {told}; accepted: {_ACCEPTED}") from error
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    for encoder in head.text_encoders():
        if encoder.dtype != torch.float32:
            encoder.register_forward_hook(_to_full_precision)
    return adapted


def _to_full_precision(encoder: nn.Module, arguments: Any, output: Any) -> Any:
    """Convert the output of an encoder in half precision for the head, which is in float32."""
    return convert_to_fp32(output)


def merged(model: PeftModel) -> EventPreTrainedModel:
    """Merge trained adapters into a head, which gets the dtype of its encoder."""
    # Most kinds of adapters can only replace modules with a `weight` of their own.
    for name, module in list(model.named_modules()):
        if isinstance(module, ModulesToSaveWrapper):
            model.set_submodule(name, module.modules_to_save[module.active_adapter])
    head = cast(EventPreTrainedModel, model.merge_and_unload())
    for encoder in head.text_encoders():
        for number, hook in list(encoder._forward_hooks.items()):
            if hook is _to_full_precision:
                del encoder._forward_hooks[number]
    return head.to(head.text_encoders()[0].dtype)


@torch.no_grad()
def average_with_start(model: PeftModel, share: float) -> None:
    """Average the trained encoders with their initial weights.

    Args:
        share: share of the initial weights, as in `average_into`.
    """
    for module in model.modules():
        if isinstance(module, LoraLayer):
            for matrix in module.lora_B.values():
                matrix.weight.mul_(1 - share)
        elif isinstance(module, TrainableTokensLayer):
            for name, vectors in module.trainable_tokens_delta.items():
                vectors.lerp_(module.trainable_tokens_original[name].to(vectors), share)


@dataclass(frozen=True)
class Adapter:
    """Trained adapters and the modules trained without adapters, separate from their model."""

    settings: PeftConfig
    weights: Mapping[str, torch.Tensor]
    head_class: str
    config: PreTrainedConfig

    @classmethod
    def of(cls, model: PeftModel) -> Adapter:
        """Copy the adapters of a model; call this before merging, which removes them."""
        head = model.get_base_model()
        weights = {
            name: value.detach().cpu().clone().contiguous()
            for name, value in get_peft_model_state_dict(model).items()
        }
        settings = deepcopy(model.peft_config["default"])
        settings.inference_mode = True
        return cls(settings, weights, type(head).__name__, head.config)

    def after(self, earlier: Path) -> Adapter:
        """Combine plain low-rank adapters with those of the previous stage into one for the original encoder.

        The sum of two low-rank products is one product of the sum of their ranks. Modules trained without
        adapters already include the previous stage.

        Args:
            earlier: folder of the adapters of the previous stage, as `save` writes it.
        """
        settings = cast(LoraConfig, deepcopy(self.settings))
        before = load_file(earlier / SAFETENSORS_WEIGHTS_NAME)
        rank = LoraConfig.from_pretrained(earlier).r
        joined = dict(self.weights)
        for name, value in self.weights.items():
            if ".lora_A." in name:
                joined[name] = torch.cat([before[name], value])
            elif ".lora_B." in name:
                joined[name] = torch.cat([before[name], value], dim=1)
        # PEFT scales the product by alpha / rank, so alpha must grow with the rank.
        ranks = settings.r + rank
        settings.lora_alpha, settings.r = settings.lora_alpha * ranks // settings.r, ranks
        return replace(self, settings=settings, weights=joined)

    def save(self, folder: Path) -> None:
        """Write the adapters in PEFT's format, with a card."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file(dict(self.weights), folder / SAFETENSORS_WEIGHTS_NAME, metadata={"format": "pt"})
        self.settings.save_pretrained(folder)
        write_text(folder / "README.md", self._card(folder.name))

    def _card(self, folder: str) -> str:
        encoder = self.settings.base_model_name_or_path or ""
        modules = ", ".join(f"`{name}`" for name in self.settings.modules_to_save or ())
        # Without a pooling, `from_encoder` takes that of the encoder's own files.
        shared = {entry.name for entry in fields(PreTrainedConfig)} | {"text_config"}
        # A configuration resets the attention of its `text_config`, which the model still uses.
        plain = type(self.config)(text_config=deepcopy(self.config.text_config), pooling=self.config.pooling)
        changed = "".join(
            f", {entry.name}={getattr(self.config, entry.name)!r}"
            for entry in fields(self.config)
            if entry.name == "pooling"
            or (entry.name not in shared and getattr(self.config, entry.name) != getattr(plain, entry.name))
        )
        added = self.config.added_token_ids is not None
        vocabulary = self.config.encoder_config.vocab_size
        method = load_method(self.config.model_type)
        home = method.classes[method.head].rpartition(".")[0]
        return (
            Path(__file__)
            .with_name("adapter_card.md")
            .read_text(encoding="utf-8")
            .format(
                # The Hub rejects a base model that is not a repository id.
                base_model=f"base_model: {encoder}\n" if encoder.count("/") == 1 else "",
                method=method.name,
                package="eventformers" if home.startswith("eventformers.") else home,
                class_name=self.head_class,
                tag=kind_of(self.settings).lower(),
                kind=(
                    f"Low-rank adapters of rank {self.settings.r} for the attention"
                    if is_plain_lora(self.settings)
                    else f"{kind_of(self.settings)} adapters"
                ),
                whole=f", and {modules}, trained without adapters" if modules else "",
                arguments=f'resolve_encoder("{encoder}"){changed}',
                resize=f"base.resize_token_embeddings({vocabulary}, mean_resizing=False)\n" if added else "",
                folder=folder,
            )
        )
