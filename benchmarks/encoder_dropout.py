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
import os
import platform
import statistics
import time
from collections.abc import Sequence

import torch
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
    machine = platform.processor() or platform.machine()
    print(
        f"{machine}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, torch {torch.__version__}; "
        f"{len(batches)} batches of {options.batch_size} mentions"
    )
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in heads}
    optimizers = {name: torch.optim.AdamW(head.parameters(), lr=1e-5) for name, head in heads.items()}
    for turn in range(options.rounds + 1):
        # Who goes first changes, so that neither side always finds the caches warm.
        for name in sorted(heads, reverse=bool(turn % 2)):
            started = time.perf_counter(), time.process_time()
            for batch in batches:
                heads[name](**batch).loss.backward()
                optimizers[name].step()
                optimizers[name].zero_grad()
            taken = time.perf_counter() - started[0], time.process_time() - started[1]
            # The first round warms up.
            if turn:
                seconds[name].append((taken[0] / len(batches), taken[1] / len(batches)))
    for name, rounds in seconds.items():
        wall, processor = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"  {name:18}{wall:8.2f} s a step{processor:8.2f} s of processor")
    for kind, clock in (("time", 0), ("processor time", 1)):
        ratios = [own[clock] / none[clock] for own, none in zip(seconds[OWN], seconds[NONE], strict=True)]
        print(
            f"  {kind} of {OWN} / {NONE}: median {statistics.median(ratios):.2f} ({min(ratios):.2f} to "
            f"{max(ratios):.2f} over {options.rounds} rounds)"
        )


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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", help="folder or Hub id; default: the packaged all-MiniLM-L6-v2")
    parser.add_argument("--longest", type=int, default=112, help="maximum number of tokens of a text")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
