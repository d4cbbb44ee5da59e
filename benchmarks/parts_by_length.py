"""Speed of a training step on a CPU: texts in parts of similar length, compared with other ways to pad them.

    python benchmarks/parts_by_length.py mico --data CKG --threads 1

The sides run the same batch of a recipe's first stage, forward and backward. Its texts are encoded all padded
to the longest, in six parts of equal size, in one part for each length, or in the parts of least cost, as
training does. Without `--data`, the script reads the bundled samples. On a machine with other load, compare
processor time with `--threads 1`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from unittest import mock

import numpy as np
import torch
from side_by_side import compare, machine, make_parser
from torch import Tensor
from transformers import AutoTokenizer

from eventformers.loading.encoders import resolve_encoder
from eventformers.methods import load_method
from eventformers.models import modeling_base
from eventformers.trainers.run import resolve_recipe
from eventformers.trainers.stages import stage_recipes

LEAST_COST = "parts of least cost"
SPLITS: dict[str, Callable[[Tensor], Sequence[Tensor]]] = {
    "one pass": lambda lengths: [torch.arange(len(lengths))],
    "six equal parts": lambda lengths: lengths.argsort(stable=True).tensor_split(min(6, len(lengths))),
    "a part for each length": partial(modeling_base.parts_by_length, part_cost=0),
    LEAST_COST: modeling_base.parts_by_length,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all sides in turn and print their seconds and ratios."""
    parser = make_parser(__doc__, "encoder", "threads", "seed", rounds=5)
    parser.add_argument("method", help="the method's name, such as mico")
    parser.add_argument("--recipe", help="default: the method's default recipe")
    parser.add_argument("--data", help="as for eventformers train")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    print(machine())

    method, encoder = load_method(options.method), resolve_encoder(options.encoder)
    recipe = stage_recipes(resolve_recipe(method, options.recipe, seed=options.seed))[0]
    head = method.head_class.from_encoder(str(encoder), **recipe.model).train()
    prepared = method.training.prepare(
        recipe, options.data, AutoTokenizer.from_pretrained(encoder), head, options.seed
    )
    size = min(recipe.training.get("per_device_train_batch_size", 8), len(prepared.train))
    drawn = np.random.default_rng(options.seed).choice(len(prepared.train), size, replace=False)
    batch = prepared.collator([prepared.train[int(row)] for row in drawn])
    padded: dict[str, float] = {}

    def step(name: str) -> None:
        positions = tokens = 0

        def split(lengths: Tensor) -> Sequence[Tensor]:
            nonlocal positions, tokens
            parts = SPLITS[name](lengths)
            positions += sum(len(part) * int(lengths[part].max()) for part in parts)
            tokens += int(lengths.sum())
            return parts

        with (
            mock.patch.object(modeling_base, "parts_by_length", split),
            torch.autocast("cpu", torch.bfloat16, enabled=options.dtype == "bfloat16"),
        ):
            loss = head(**batch).loss
        loss.backward()
        head.zero_grad()
        padded[name] = positions / tokens

    sides = {name: partial(step, name) for name in SPLITS}
    for run in sides.values():
        run()
    compare(sides, LEAST_COST, options.rounds)
    for name, ratio in padded.items():
        print(f"  {name}: {ratio:.2f} positions for each token")


if __name__ == "__main__":
    main()
