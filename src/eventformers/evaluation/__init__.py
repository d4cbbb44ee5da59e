"""Evaluation: models and baselines on tasks, and their results."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventformers.evaluation.core import Scored, evaluate, make_result, measure, score

__all__ = ["Scored", "evaluate", "make_result", "measure", "score"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("eventformers.evaluation.core"), name)
