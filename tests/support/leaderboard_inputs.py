"""Measurements and result files for leaderboards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from eventformers.evaluation.results import BaselineRecord, DatasetRecord, TaskResult, write_result
from eventformers.evaluation.tasks import TASKS
from eventformers.leaderboard.sources import BaselineScore, Measurement

SETTINGS: dict[str, Any] = {"pooling": "mean", "event_order": "subject_predicate_object", "device": "cpu"}


def measured(task: str = "hard_similarity", model: str = "mine", value: float | None = 50.0, **changes: Any):
    """A measurement with all that a result file tells; `seed` and `model` also make its revision."""
    one = Measurement(
        task=task,
        split=TASKS[task].splits[0],
        metric=TASKS[task].main_score,
        model=model,
        value=value,
        source=f"{model}/results",
        revision=f"{model}-{changes.get('seed', 1)}",
        rows=115,
        origin="local",
        fingerprint="f" * 64,
        seed=1,
        baseline=BaselineScore("start", "s" * 40, 11.3, "mean"),
        texts=300,
        seconds=2.0,
        device="cpu",
        created="2026-01-15T10:30:00+00:00",
    )
    return replace(one, **changes)


def make_result(task: str = "hard_similarity", **changes: Any) -> TaskResult:
    """A result of a run, as an evaluation makes it."""
    chosen = TASKS[task]
    split = chosen.splits[0]
    result = TaskResult(
        task=task,
        model="mine-seed-1",
        model_revision="a" * 64,
        variant="",
        main_score=chosen.main_score,
        main_value=80.0,
        scores={chosen.main_score: 80.0},
        undefined={},
        baseline=BaselineRecord("start", "b" * 40, 11.304, {chosen.main_score: 11.304}, SETTINGS),
        baseline_missing=None,
        dataset=DatasetRecord(chosen.dataset, chosen.config, split, 115, "f" * 64, "local", None, None, []),
        settings=SETTINGS,
        truncated=0,
        seed=1,
        timing={"seconds": 2.0, "distinct_texts": 300, "shared_texts": 0},
        versions={},
        git_commit=None,
        created="2026-01-15T10:30:00+00:00",
        predictions=[],
        parameters=22_713_216,
    )
    return replace(result, **changes)


def write_seeds(folder: Path, task: str, values: list[float], name: str = "mine") -> None:
    """The results of runs with the seeds 1, 2, and so on, each in a folder of its own."""
    for seed, value in enumerate(values, start=1):
        result = make_result(
            task,
            model=f"{name}-seed-{seed}",
            model_revision=f"{seed}" * 64,
            seed=seed,
            main_value=value,
        )
        write_result(result, folder / f"{name}-{seed}")
