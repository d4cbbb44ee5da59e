"""Every method trained on the bundled samples, from data to scores."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
from gpu_parts.measuring import Bench, Clock, Part, Row

from eventformers.evaluation.results import TaskResult
from eventformers.markdown import number
from eventformers.methods import all_methods
from eventformers.training import train


def train_method(bench: Bench, clock: Clock, *, name: str) -> list[Row]:
    """Train, save, score beside the untrained encoder, and write the card."""
    on_cuda = bench.device.type == "cuda"
    if on_cuda:
        torch.cuda.reset_peak_memory_stats(bench.device)
    method = all_methods()[name]
    recipe = "demo" if method.recipes_of is None else method.default_recipe
    # A further model of a method reranks what the method's own model retrieves.
    retriever = (
        [] if method.recipes_of is None else [f"retriever={bench.scratch / f'run-{method.recipes_of}'}"]
    )
    started = time.perf_counter()
    finished = train(
        name,
        bench.scratch / f"run-{name}",
        recipe=recipe,
        encoder=bench.encoder,
        settings=[*(["max_steps=2"] if bench.small else []), *retriever],
        tasks=() if bench.small else None,
        device=str(bench.device),
        dtype="bfloat16",
    )
    taken = time.perf_counter() - started
    steps = sum(stage.steps for stage in finished.run.stages)
    in_training = sum(stage.seconds for stage in finished.run.stages)
    return [
        {
            "method": method.title,
            "recipe": recipe,
            "steps": steps,
            "steps a second": f"{steps / in_training:.1f}",
            "seconds in all": f"{taken:.0f}",
            "MiB": f"{torch.cuda.max_memory_allocated(bench.device) / 2**20:,.0f}" if on_cuda else "",
            "scores (untrained)": "; ".join(
                f"`{result.task}` {value_text(result.main_value)} ({value_text(untrained(result))})"
                for result in finished.results
            ),
        }
    ]


def untrained(result: TaskResult) -> float | None:
    """The main score of the untrained encoder on the same rows."""
    return None if result.baseline is None else result.baseline.main_value


def value_text(value: float | None) -> str:
    """A score as the cards write it."""
    return "undefined" if value is None else number(round(value, 3))


def _measurements() -> dict[str, Callable[[Bench, Clock], list[Row]]]:
    return {name: partial(train_method, name=name) for name in all_methods()}


PART = Part(
    title="Training on the bundled samples",
    share=2.5,
    measurements=_measurements(),
    note=(
        "The recipe `demo` fits a method's default recipe to the samples. Training is in mixed precision "
        "with bfloat16. The time includes reading the data, saving, scoring and the card."
    ),
)
