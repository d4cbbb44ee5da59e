"""Low-rank adapters for a head (PEFT)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import torch
from accelerate.utils.operations import convert_to_fp32
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from peft.tuners.trainable_tokens import TrainableTokensLayer
from peft.utils.constants import SAFETENSORS_WEIGHTS_NAME, TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import PreTrainedConfig

from eventformers.errors import EventformersError
from eventformers.files import write_text
from eventformers.methods import load_method
from eventformers.models.modeling_base import EventPreTrainedModel

_TARGETS = {
    **TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING,
    # One layer for query, key and value.
    "modernbert": ["Wqkv"],
}
"""Layers of the attention that get adapters, by the type of the encoder."""

ADAPTER_FOLDER = "adapter"
"""The subfolder with the unmerged adapters of a model."""

_CARD = """---
library_name: peft
{base_model}tags:
- eventformers
- {method}
- lora
---
# Adapters of {class_name}

Low-rank adapters of rank {rank} for the attention of the encoder{whole}. To load them on their encoder:

```python
from {package} import {class_name}
from peft import PeftModel

base = {class_name}.from_encoder({arguments})
{resize}model = PeftModel.from_pretrained(base, "{folder}")
```

The card of the model with merged adapters describes the training data and their licences.
"""


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


def add_lora(head: EventPreTrainedModel, encoder_name: str, rank: int = 8) -> PeftModel:
    """Freeze a head's encoder and add low-rank adapters to its attention.

    Of the token embeddings, only those of `added_token_ids` train; they are saved with the adapters. Modules
    outside the encoder train without adapters: PEFT would otherwise freeze them with their random weights.

    The encoder keeps its dtype. Everything that trains is in float32, and so is the output of the encoder,
    since half precision loses small updates; see `merged`.

    Args:
        encoder_name: base model in the adapter's configuration; only the name of a folder is recorded.

    Raises:
        EventformersError: PEFT has no target modules for this kind of encoder.
    """
    model_type = head.config.encoder_config.model_type
    targets = _TARGETS.get(model_type)
    if targets is None:
        known = ", ".join(sorted(_TARGETS))
        raise EventformersError(
            f"--lora: PEFT has no target modules for a {model_type} encoder; accepted: {known}"
        )
    head.name_or_path = Path(encoder_name).name if Path(encoder_name).is_dir() else encoder_name
    tables = [encoder.get_input_embeddings() for encoder in head.text_encoders()]
    names = [name for name, module in head.named_modules() if any(module is table for table in tables)]
    added = head.config.added_token_ids
    settings = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules=rf".*\bencoder\..*\.({'|'.join(targets)})",
        modules_to_save=modules_beside_encoders(head),
        trainable_token_indices=None if added is None else dict.fromkeys(names, added),
    )
    adapted = get_peft_model(head, settings)
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
        model: the head with adapters, after training.
        share: share of the initial weights, as in `StartWeights.average_into`.
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
    """Trained adapters and the modules trained without adapters, separate from their model.

    Args:
        weights: the weights as PEFT saves them.
        config: configuration of the head.
    """

    settings: LoraConfig
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
        settings = cast(LoraConfig, replace(model.peft_config["default"], inference_mode=True))
        return cls(settings, weights, type(head).__name__, head.config)

    def after(self, earlier: Path) -> Adapter:
        """Combine these adapters with those of the previous stage into one for the original encoder.

        The sum of two low-rank products is one product of the sum of their ranks. Modules trained without
        adapters already include the previous stage.

        Args:
            earlier: folder of the adapters of the previous stage, as `save` writes it.
        """
        before = load_file(earlier / SAFETENSORS_WEIGHTS_NAME)
        rank = LoraConfig.from_pretrained(earlier).r
        joined = dict(self.weights)
        for name, value in self.weights.items():
            if ".lora_A." in name:
                joined[name] = torch.cat([before[name], value])
            elif ".lora_B." in name:
                joined[name] = torch.cat([before[name], value], dim=1)
        # PEFT scales the product by alpha / rank, so alpha must grow with the rank.
        scale = self.settings.lora_alpha // self.settings.r
        ranks = self.settings.r + rank
        settings = replace(self.settings, r=ranks, lora_alpha=scale * ranks)
        return replace(self, settings=settings, weights=joined)

    def save(self, folder: Path) -> None:
        """Write the adapters in PEFT's format, with a card.

        Args:
            folder: folder to write to; created if absent.
        """
        folder.mkdir(parents=True, exist_ok=True)
        save_file(dict(self.weights), folder / SAFETENSORS_WEIGHTS_NAME, metadata={"format": "pt"})
        self.settings.save_pretrained(folder)
        write_text(folder / "README.md", self._card(folder.name))

    def _card(self, folder: str) -> str:
        encoder = self.settings.base_model_name_or_path or ""
        modules = ", ".join(f"`{name}`" for name in self.settings.modules_to_save or ())
        changed = "".join(f", {name}={value!r}" for name, value in _changed_fields(self.config).items())
        added = self.config.added_token_ids is not None
        vocabulary = self.config.encoder_config.vocab_size
        method = load_method(self.config.model_type)
        home = method.classes[method.head].rpartition(".")[0]
        return _CARD.format(
            # The Hub rejects a base model that is not a repository id.
            base_model=f"base_model: {encoder}\n" if encoder.count("/") == 1 else "",
            method=method.name,
            package="eventformers" if home.startswith("eventformers.") else home,
            class_name=self.head_class,
            rank=self.settings.r,
            whole=f", and {modules}, trained without adapters" if modules else "",
            arguments=f'"{encoder}"{changed}',
            resize=f"base.resize_token_embeddings({vocabulary}, mean_resizing=False)\n" if added else "",
            folder=folder,
        )


def _changed_fields(config: Any) -> dict[str, Any]:
    """Return the pooling, and the method's own fields of a configuration that differ from their defaults.

    Without a pooling, `from_encoder` takes that of the encoder's own files.
    """
    shared = {entry.name for entry in fields(PreTrainedConfig)} | {"text_config"}
    # A configuration resets the attention of its `text_config`, which the model still uses.
    plain = type(config)(text_config=deepcopy(config.text_config), pooling=config.pooling)
    return {
        entry.name: getattr(config, entry.name)
        for entry in fields(config)
        if entry.name == "pooling"
        or (entry.name not in shared and getattr(config, entry.name) != getattr(plain, entry.name))
    }
