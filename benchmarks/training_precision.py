"""Seconds of a training step in float32 and in bfloat16, for a method's recipe.

    python benchmarks/training_precision.py mico --data CKG

Each round trains the first steps of every stage from the start, once in each precision; the sides take turns.
The time of a step includes drawing and tokenising its batch, and excludes reading the data. The last column
is the time that all steps of a stage would take, for stages whose recipe has a number of steps. Without
`--data`, the script reads the bundled samples.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from side_by_side import machine, make_parser

from eventformers.loading.encoders import resolve_encoder
from eventformers.methods import load_method
from eventformers.trainers.run import resolve_recipe, train_head
from eventformers.trainers.stages import stage_recipes

PRECISIONS = ("float32", "bfloat16")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train in turn and print a table of the stages."""
    parser = make_parser(__doc__, "encoder", "threads", "seed", rounds=2)
    parser.add_argument("method", help="the method's name, such as mico")
    parser.add_argument("--recipe", help="default: the method's default recipe")
    parser.add_argument("--data", help="as for eventformers train")
    parser.add_argument("--steps", type=int, default=20, help="steps of each stage")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    print(machine())

    method, encoder = load_method(options.method), resolve_encoder(options.encoder)
    planned = [
        stage.training.get("max_steps", -1)
        for stage in stage_recipes(resolve_recipe(method, options.recipe, seed=options.seed))
    ]
    short = resolve_recipe(method, options.recipe, [f"training.max_steps={options.steps}"], options.seed)
    seconds: dict[tuple[str, str], list[float]] = {}
    for turn in range(options.rounds):
        for dtype in PRECISIONS[:: -1 if turn % 2 else 1]:
            with tempfile.TemporaryDirectory() as folder:
                run = train_head(
                    short,
                    encoder=encoder,
                    encoder_name=encoder,
                    output=Path(folder),
                    data=options.data,
                    device="cpu",
                    dtype=dtype,
                )
                for stage in run.stages:
                    seconds.setdefault((stage.name, dtype), []).append(stage.seconds / stage.steps)

    print("| stage | precision | seconds a step | speed | all steps, minutes |\n|---|---|---|---|---|")
    for stage, steps in zip(run.stages, planned, strict=True):
        reference = statistics.median(seconds[stage.name, PRECISIONS[0]])
        for dtype in PRECISIONS:
            step = statistics.median(seconds[stage.name, dtype])
            minutes = f"{steps * step / 60:.1f}" if steps > 0 else "?"
            print(f"| {stage.name or 'all'} | {dtype} | {step:.2f} | {reference / step:.2f} | {minutes} |")


if __name__ == "__main__":
    main()
