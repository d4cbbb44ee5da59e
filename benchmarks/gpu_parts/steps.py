"""Training steps, forward and backward, beside the direct computation of the same losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import mulcl_step
import swcc_step
import torch
from gpu_parts.measuring import Bench, Clock, Part, Row, Side, Taken, mebibytes_text, take_turns
from swcc_step import Context
from transformers import PreTrainedModel

from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining
from eventformers.models.modeling_heterevent import HeterEventForPreTraining
from eventformers.models.modeling_mico import MicoForPreTraining
from eventformers.models.modeling_swcc import SwccForPreTraining
from eventformers.trainers.gradient_cache import backward_in_chunks

Batch = dict[str, torch.Tensor]
PRECISIONS = ("float32", "bfloat16")
FIRST_WORD = 1_000


def step(
    head: PreTrainedModel,
    batch: Mapping[str, torch.Tensor],
    context: Context,
) -> None:
    """One forward and backward pass."""
    head.zero_grad(set_to_none=True)
    with context():
        loss = head(**batch).loss
    loss.backward()


def in_precisions(
    bench: Bench,
    clock: Clock,
    name: str,
    size: str,
    sides_in: Callable[[Context], Mapping[str, Side]],
    *,
    most_rounds: int | None = None,
    warm_up: int = 1,
) -> list[Row]:
    """Compare the sides of a step in each precision; the last side is the alternative."""
    rows = []
    for precision in PRECISIONS:
        if clock.is_over(f"{name}, {precision}"):
            continue
        sides = sides_in(swcc_step.autocast(bench.device, precision))
        rounds = min(bench.rounds, most_rounds or bench.rounds)
        taken = take_turns(sides, bench.device, rounds, reference=list(sides)[-1], warm_up=warm_up)
        rows += rows_of(name, precision, taken, size)
    return rows


def rows_of(step_name: str, precision: str, taken: Mapping[str, Taken], size: str) -> list[Row]:
    """A row for each side; the last side is the alternative that the speeds refer to."""
    return [
        {
            "step": step_name,
            "batch": size,
            "precision": precision,
            "side": side,
            "ms a step": f"{1e3 * values.seconds:,.1f}",
            "speed": f"{values.ratio:.2f}",
            "MiB": mebibytes_text(values),
        }
        for side, values in taken.items()
    ]


def swcc(bench: Bench, clock: Clock) -> list[Row]:
    """SWCC's views in one pass of the encoder, and in five."""
    number = 8 if bench.small else 256
    options = swcc_step.parse_arguments(
        [f"--batch-size={number}", "--batches=1", f"--encoder={bench.encoder}", f"--seed={bench.seed}"]
    )
    together = SwccForPreTraining.from_encoder(bench.encoder, pooling="mean").to(bench.device)
    apart = swcc_step.five_passes(together)
    (batch,) = swcc_step.make_batches(options, bench.encoder, bench.device)

    def sides(context: Context) -> dict[str, Side]:
        return {
            "views together": partial(step, together, batch, context),
            "five passes": partial(step, apart, batch, context),
        }

    return in_precisions(bench, clock, "SWCC", f"{number} events", sides, warm_up=3)


def mulcl(bench: Bench, clock: Clock, *, stage: str) -> list[Row]:
    """SeqCL or GraCL, and the loop over chains."""
    chains = 2 if bench.small else 32
    sizes = ["--corrupted=2", "--segments=2", "--views=2"] if bench.small else []
    options = mulcl_step.parse_arguments([f"--chains={chains}", f"--seed={bench.seed}", *sizes])
    head = HeterEventForPreTraining.from_encoder(bench.encoder, stage=stage).to(bench.device).eval()
    batch = mulcl_step.make_batch(options, bench.encoder, head, bench.device)
    name = {"sequence": "SeqCL", "graph": "GraCL"}[stage]
    loop = partial(_graph_loop, head, batch)
    if stage == "sequence":
        single = (mulcl_step.one_chain(batch, chain) for chain in range(chains))
        loop = partial(_sequence_loop, head, list(map(mulcl_step.with_every_chain_encoded, single)))

    def sides(context: Context) -> dict[str, Side]:
        return {
            "batch as one": partial(step, head, batch, context),
            "loop over chains": partial(loop, context),
        }

    return in_precisions(bench, clock, name, f"{chains} chains", sides, most_rounds=3)


def _sequence_loop(
    head: HeterEventForPreTraining,
    parts: list[Batch],
    context: Context,
) -> None:
    head.zero_grad(set_to_none=True)
    for part in parts:
        with context():
            loss = head(**part).loss / len(parts)
        loss.backward()


def _graph_loop(
    head: HeterEventForPreTraining,
    batch: Batch,
    context: Context,
) -> None:
    head.zero_grad(set_to_none=True)
    with context():
        vectors = head.heterevent.encode_events(*mulcl_step.events_of(batch))
        loss = mulcl_step.graph_by_graph(head, vectors, batch)
    loss.backward()


def mico(bench: Bench, clock: Clock) -> list[Row]:
    """MICO with a large batch: in chunks by GradCache, and whole."""
    rows_of_batch, chunk = (8, 4) if bench.small else (4_096, 256)
    head = MicoForPreTraining.from_encoder(bench.encoder).to(bench.device)
    alternatives = 2
    vocabulary = head.config.encoder_config.vocab_size
    ids = torch.arange(rows_of_batch * alternatives, device=bench.device).view(rows_of_batch, alternatives)
    batch = {
        **random_texts(bench, "", (rows_of_batch,), 16, vocabulary),
        **random_texts(bench, "alternative_", (rows_of_batch, alternatives), 12, vocabulary),
        **random_texts(bench, "entity_", (rows_of_batch,), 6, vocabulary),
        "alternative_ids": ids,
        "known_alternative_ids": ids.sort(dim=1).values,
        "entity_ids": torch.full((rows_of_batch,), -1, device=bench.device),
        "positive_index": torch.zeros(rows_of_batch, dtype=torch.long, device=bench.device),
    }

    def in_chunks(context: Context) -> None:
        head.zero_grad(set_to_none=True)
        backward_in_chunks(head, batch, chunk, torch.Tensor.backward, context)

    def sides(context: Context) -> dict[str, Side]:
        return {
            f"GradCache, chunks of {chunk}": partial(in_chunks, context),
            "whole batch": partial(step, head, batch, context),
        }

    size = f"{rows_of_batch:,} premises, {alternatives} alternatives"
    return in_precisions(bench, clock, "MICO", size, sides)


def grounding(bench: Bench, clock: Clock) -> list[Row]:
    """Linking with mentions and events of the paper's lengths."""
    number = 4 if bench.small else 256
    head = EventGroundingForPreTraining.from_encoder(bench.encoder, stage="linking").to(bench.device)
    vocabulary = head.config.encoder_config.vocab_size
    ids = torch.arange(number, device=bench.device).view(number, 1)
    batch = {
        **random_texts(bench, "", (number,), 16 if bench.small else 128, vocabulary),
        **random_texts(bench, "event_", (number, 1), 16 if bench.small else 128, vocabulary),
        "event_ids": ids,
        "gold_event_ids": ids,
    }
    sides: dict[str, Side] = {
        precision: partial(step, head, batch, swcc_step.autocast(bench.device, precision))
        for precision in PRECISIONS
    }
    taken = take_turns(sides, bench.device, bench.rounds, reference="float32", warm_up=2)
    return [
        row
        for precision, values in taken.items()
        for row in rows_of("grounding, linking", precision, {"batch as one": values}, f"{number} mentions")
    ]


def random_texts(bench: Bench, prefix: str, shape: tuple[int, ...], length: int, vocabulary: int) -> Batch:
    """Token ids without padding, and their mask."""
    generator = torch.Generator().manual_seed(bench.seed + length)
    first = min(FIRST_WORD, vocabulary // 2)
    ids = torch.randint(first, vocabulary, (*shape, length), generator=generator).to(bench.device)
    return {f"{prefix}input_ids": ids, f"{prefix}attention_mask": torch.ones_like(ids)}


PART = Part(
    title="Training steps",
    share=1.2,
    measurements={
        "SWCC": swcc,
        "SeqCL": partial(mulcl, stage="sequence"),
        "GraCL": partial(mulcl, stage="graph"),
        "MICO": mico,
        "grounding": grounding,
    },
    note=(
        "A step is a forward and a backward pass with the encoder of the benchmark. `speed` compares with "
        "the last side of the same step and precision, for grounding with float32. MiB is the peak memory of "
        "a step, gradients included and weights excluded."
    ),
)
