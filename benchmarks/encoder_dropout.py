"""Speed of a training step of event grounding with the encoder's own dropout, compared with a step without.

    python benchmarks/encoder_dropout.py --threads 1

The batches are mentions of the bundled samples with their events, the stage is linking, and a step is
forward, backward and the optimizer. Both sides are one head with the same weights; only its dropout changes
(`encoder_dropout`). Without dropout, attention may be computed in one kernel; with dropout, a CPU stores its
weights for every pair of tokens. The sides take turns, so other load affects both; compare processor time
with `--threads 1`.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence
from functools import partial

import torch
from side_by_side import machine, make_parser, print_ratios, print_seconds, take_turns
from transformers import AutoTokenizer

from eventformers.loading.encoders import resolve_encoder
from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining
from eventformers.trainers.encoder_dropout import set_dropout
from eventformers.trainers.event_grounding import METHOD
from eventformers.trainers.run import resolve_recipe

Batch = dict[str, torch.Tensor]

OWN, NONE = "its own dropout", "encoder_dropout 0"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parse_arguments(arguments)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    heads, batches = prepare(options)
    print(f"{machine()}; {len(batches)} batches of {options.batch_size} mentions")
    sides = {
        name: partial(steps, head, torch.optim.AdamW(head.parameters(), lr=1e-5), batches)
        for name, head in heads.items()
    }
    scales = dict.fromkeys(sides, 1 / len(batches))
    costs, _ = take_turns(sides, options.rounds, scales=scales, warm_up=1)
    print_seconds(costs, " a step")
    print_ratios(costs, OWN, NONE)


def steps(head: EventGroundingForPreTraining, optimizer: torch.optim.Optimizer, batches: list[Batch]) -> None:
    """Train on each batch once."""
    for batch in batches:
        head(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def prepare(options: argparse.Namespace) -> tuple[dict[str, EventGroundingForPreTraining], list[Batch]]:
    """A head for each side, and batches of the samples."""
    folder = resolve_encoder(options.encoder)
    longest = [f"{name}={options.longest}" for name in ("mention_tokens", "event_tokens")]
    settings = ["model.stage=linking", *longest]
    recipe = resolve_recipe(METHOD, "demo", settings, options.seed)
    head = METHOD.head_class.from_encoder(folder, **{**recipe.model, "stage": "linking"})
    prepared = METHOD.training.prepare(
        recipe, None, AutoTokenizer.from_pretrained(folder), head, options.seed
    )
    number = options.batches * options.batch_size
    if len(prepared.train) < number:
        raise SystemExit(f"found {len(prepared.train)} pairs; accepted: at least {number}")
    rows = [prepared.train[place] for place in range(number)]
    batches = [
        prepared.collator(rows[start : start + options.batch_size])
        for start in range(0, number, options.batch_size)
    ]
    without = copy.deepcopy(head)
    set_dropout(without.text_encoders(), 0.0)
    return {OWN: head.train(), NONE: without.train()}, batches


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__, "encoder", "threads", "seed", rounds=5)
    parser.add_argument("--longest", type=int, default=112, help="maximum number of tokens of a text")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--batches", type=int, default=2)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
