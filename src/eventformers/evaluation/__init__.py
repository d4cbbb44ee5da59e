"""Evaluation: models and baselines on tasks, and their results."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventformers.evaluation.core import Scored, evaluate, make_result, measure
    from eventformers.evaluation.session import Session

__all__ = ["Scored", "Session", "evaluate", "make_result", "measure"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "session" if name == "Session" else "core"
    return getattr(importlib.import_module(f"eventformers.evaluation.{home}"), name)
