"""Speed of one SWCC training step: its five views in one encoder pass, compared with five passes.

    python benchmarks/swcc_step.py --events ../shared/data/chains/events.jsonl.gz --threads 1

The other side is the direct implementation: the encoder reads anchor, two dropout views, co-event and masked
event one after another, each padded to its own width. Both sides are the same head with the same weights,
batches and losses, and without dropout their gradients must be equal; the script checks this first, in
float64. A step is forward and backward; the optimizer does the same work on both sides. The sides take turns,
so other load affects both. On a machine with other load, compare processor time with `--threads 1`. Without
`--events`, the script reads the bundled samples.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import heapq
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import torch
from side_by_side import machine, make_parser, print_ratios, print_seconds, take_turns
from transformers import AutoTokenizer

from eventformers.datasets_scripts.base import SAMPLES
from eventformers.datasets_scripts.chain_readers import read_documents
from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.loading.encoders import resolve_encoder
from eventformers.models.modeling_swcc import SwccForPreTraining
from eventformers.trainers.swcc import SwccCollator

Batch = dict[str, torch.Tensor]
Pair = tuple[Event, Event]
Context = Callable[[], contextlib.AbstractContextManager[object]]
Groups = Sequence[tuple[torch.Tensor, torch.Tensor]]

TOGETHER, APART = "views together", "five passes"
LARGEST_DIFFERENCE = 1e-9
"""Of the gradients in float64, relative to the largest entry of each parameter's gradient."""
SMALLEST_SCALE = 1e-6
"""Of the model's largest gradient: below it stands rounding alone, as for the key bias of an attention."""
WINDOW = 100


def main(arguments: Sequence[str] | None = None) -> None:
    """Check the gradients, measure and print."""
    options = parse_arguments(arguments)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    device = torch.device(options.device)
    folder = resolve_encoder(options.encoder)
    together = SwccForPreTraining.from_encoder(folder, pooling=options.pooling).to(device)
    apart = five_passes(together)
    batches = make_batches(options, folder, device)
    print(f"{machine(device)}, {options.dtype}")
    tokens = statistics.mean(tokens_of_views(batch) for batch in batches)
    print(f"{len(batches)} batches of {options.batch_size} events; {tokens:,.0f} tokens in the views of one")

    difference = largest_gradient_difference(together, apart, batches[0])
    print(f"largest relative difference of the gradients without dropout, in float64: {difference:.1e}")
    assert difference < LARGEST_DIFFERENCE, "the gradients of the two sides differ"

    compare({TOGETHER: together, APART: apart}, batches, device, options)


def five_passes(head: SwccForPreTraining) -> SwccForPreTraining:
    """A copy of the head, with the same weights, that encodes view after view."""
    other = copy.deepcopy(head)

    def encode_apart(groups: Groups) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [
            (other.swcc.encoder(input_ids=ids, attention_mask=mask).last_hidden_state, mask)
            for ids, mask in groups
        ]

    other.swcc.encode_together = encode_apart
    return other


def largest_gradient_difference(
    together: SwccForPreTraining, apart: SwccForPreTraining, batch: Batch
) -> float:
    """Difference of the gradients with dropout off, relative to the largest entry of each parameter's."""
    gradients = []
    for head in (together, apart):
        head.double().eval()
        head(**batch).loss.backward()
        gradients.append([value.grad for value in head.parameters() if value.grad is not None])
        head.zero_grad()
        head.float().train()
    assert len(gradients[0]) == len(gradients[1]) > 0
    floor = SMALLEST_SCALE * max(float(gradient.abs().max()) for gradient in gradients[1])
    return max(
        float((ours - theirs).abs().max()) / max(float(theirs.abs().max()), floor)
        for ours, theirs in zip(*gradients, strict=True)
    )


def compare(
    heads: dict[str, SwccForPreTraining],
    batches: list[Batch],
    device: torch.device,
    options: argparse.Namespace,
) -> None:
    """Time both sides in turn and print seconds a step, ratios and, on an accelerator, memory."""
    context = autocast(device, options.dtype)

    def steps(head: SwccForPreTraining, coming: Iterator[Batch], number: int = options.steps) -> None:
        for batch in islice(coming, number):
            with context():
                loss = head(**batch).loss
            loss.backward()
            head.zero_grad(set_to_none=True)

    for head in heads.values():
        steps(head, iter(batches), options.warm_up)
    sides = {name: partial(steps, head, cycle(batches)) for name, head in heads.items()}
    scales = dict.fromkeys(sides, 1 / options.steps)
    costs, _ = take_turns(sides, options.rounds, scales=scales, device=device)
    print_seconds(costs, " a step")
    print_ratios(costs, APART, TOGETHER)


def autocast(device: torch.device, precision: str) -> Context:
    """Return the context of a step in a precision; half precisions are mixed, as in training."""
    if precision == "float32":
        return contextlib.nullcontext
    return partial(torch.autocast, device.type, dtype=getattr(torch, precision))


def make_batches(options: argparse.Namespace, folder: str, device: torch.device) -> list[Batch]:
    """Batches of the views, from pairs of events of one document drawn at random."""
    draw = random.Random(options.seed)  # noqa: S311 - no secret depends on it
    number = options.batches * options.batch_size
    pairs = heapq.nsmallest(number, pairs_of_documents(options.events, draw), key=lambda _: draw.random())
    if len(pairs) < number:
        raise SystemExit(f"found {len(pairs)} events with a co-event; accepted: at least {number}")
    collator = SwccCollator(
        AutoTokenizer.from_pretrained(folder),
        event_order="subject_predicate_object",
        frequency_normalization="constant",
        frequency_minimum=1,
        frequency_maximum=1,
        seed=options.seed,
    )
    rows = [
        {"row": place, "event": event, "co_events": [co_event], "frequencies": [1]}
        for place, (event, co_event) in enumerate(pairs)
    ]
    return [
        {
            name: tensor.to(device)
            for name, tensor in collator(rows[start : start + options.batch_size]).items()
        }
        for start in range(0, number, options.batch_size)
    ]


def pairs_of_documents(path: Path | None, draw: random.Random) -> Iterator[Pair]:
    """Every event of every document, with another one that stands near it."""
    for document in read_documents([path or SAMPLES / "chains" / "events.jsonl"], SkippedRows()):
        events = [raw.event for raw in document.events]
        for place, event in enumerate(events):
            others = range(max(0, place - WINDOW), min(len(events), place + WINDOW + 1))
            other = draw.choice(others)
            if other != place:
                yield event, events[other]


def tokens_of_views(batch: Batch) -> int:
    """Tokens that are no padding: anchor, two dropout views, masked event and co-event."""
    return 4 * int(batch["attention_mask"].sum()) + int(batch["co_event_attention_mask"].sum())


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__, "encoder", "device", "threads", "seed", rounds=8, warm_up=2)
    parser.add_argument("--events", type=Path, help="JSON lines of documents; default: the bundled samples")
    parser.add_argument("--pooling", choices=("cls", "mean"), default="mean")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--batches", type=int, default=8, help="different batches, of different widths")
    parser.add_argument("--steps", type=int, default=4, help="steps of each side in a round")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
