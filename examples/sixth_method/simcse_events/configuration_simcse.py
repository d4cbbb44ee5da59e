"""Configuration of SimCSE (Gao et al., 2021)."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from eventformers.models.configuration_base import POSITIVE, EventConfig, limited


@strict
class SimCseConfig(EventConfig):
    """Configuration of SimCSE: an event and itself under another dropout mask are a positive pair.

    Defaults are the paper's.

    Args:
        pooling: the paper takes [CLS].
        contrastive_temperature: temperature of the contrast (Eq. 4).
    """

    model_type = "simcse"

    pooling: Literal["cls", "mean"] = "cls"
    contrastive_temperature: float | int = limited(0.05, POSITIVE)
