"""Examples in docs that are generated from the code, so that they stay correct."""

from __future__ import annotations

import torch

from eventformers.methods import load_method
from eventformers.trainers.lora import modules_beside_encoders
from eventformers.trainers.recipes import load_recipe
from eventformers.trainers.stages import stage_recipes


def lora_snippet(method: str) -> str:
    """Write the lines that add low-rank adapters to a model of a method's default recipe, with PEFT alone.

    Args:
        method: the `model_type`.

    Returns:
        A fenced block of Python.

    Raises:
        UnknownNameError: the method is unknown.
    """
    chosen = load_method(method)
    recipe = load_recipe(chosen.recipe_folder, chosen.default_recipe)
    config = chosen.config_class(**stage_recipes(recipe)[-1].model)
    with torch.device("meta"):
        modules = modules_beside_encoders(chosen.head_class(config))
    auto_class = next(
        name for name, place in config.full_auto_map.items() if place.endswith(chosen.head_class.__name__)
    )
    unfreezing = ", freeze_encoder=False" if getattr(config, "freeze_encoder", False) else ""
    lines = [
        "import eventformers",
        "from peft import LoraConfig, get_peft_model",
        f"from transformers import {auto_class}",
        "",
        f'model = {auto_class}.from_pretrained("my-org/my-model"{unfreezing})',
        "adapters = LoraConfig(",
        "    r=8,",
        "    lora_alpha=16,",
        '    target_modules=r".*\\bencoder\\..*\\.(query|value)",',
        *(
            ["    modules_to_save=[", *(f'        "{name}",' for name in modules), "    ],"]
            if modules
            else []
        ),
        ")",
        "model = get_peft_model(model, adapters)",
    ]
    return "\n".join(["```python", *lines, "```"])
