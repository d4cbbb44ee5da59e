"""The training data of a recipe, for a trainer of one's own."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from eventformers.errors import EventformersError
from eventformers.methods import load_method
from eventformers.models.modeling_base import EventPreTrainedModel
from eventformers.trainers.method import TrainingData
from eventformers.trainers.run import resolve_recipe
from eventformers.trainers.stages import stage_recipes


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
