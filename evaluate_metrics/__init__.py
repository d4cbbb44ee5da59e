"""Metrics for `evaluate`, one folder each.

A folder holds `<name>.py` (the `evaluate` module), `<name>_impl.py` (its arithmetic, which needs nothing of
this package), `README.md` (the card) and `requirements.txt`. The Space of a metric also has `SPACE_PAGE` and
a copy of `SHARED_INPUTS`, and needs no eventformers.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import evaluate
from huggingface_hub import RepoCard

from eventformers.errors import UnknownNameError

METRICS: tuple[str, ...] = tuple(
    sorted(file.parent.name for file in Path(__file__).parent.glob("*/*.py") if file.stem == file.parent.name)
)
"""The names that `load_metric` accepts."""

SPACE_PAGE = Path(__file__).parent / "space" / "app.py"
"""The page that the Space of every metric runs, as `app.py` beside the metric's own files."""

SHARED_INPUTS = Path(__file__).parent / "inputs.py"
"""The base of all metrics. The script of a Space imports a copy beside it instead of `INPUTS_IMPORT`."""

INPUTS_IMPORT = "from eventformers.evaluate_metrics.inputs import "
"""How the script of a metric of this package begins the import of `SHARED_INPUTS`."""


def load_metric(name: str, *, keep_in_memory: bool = False) -> evaluate.EvaluationModule:
    """Load a metric of this package, from any working directory and without network access.

    Args:
        name: one of `METRICS`.
        keep_in_memory: keep added batches in memory instead of a file of the `evaluate` cache.

    Raises:
        UnknownNameError: the metric is unknown.
    """
    if name not in METRICS:
        raise UnknownNameError("metric", name, METRICS)
    return evaluate.load(str(Path(__file__).parent / name), keep_in_memory=keep_in_memory)


class MetricEntry(TypedDict):
    """A metric in `list_metrics`."""

    name: str
    description: str


def list_metrics() -> list[MetricEntry]:
    """List the metrics that `load_metric` loads.

    Returns:
        For each its `name` and the `description` on its card.
    """
    cards = {name: Path(__file__).parent / name / "README.md" for name in METRICS}
    return [
        {"name": name, "description": RepoCard.load(path).data.to_dict()["description"]}
        for name, path in cards.items()
    ]
