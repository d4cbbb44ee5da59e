"""Training steps, forward and backward, beside the direct computation of the same losses.

Both sides are the same head with the same weights and batch. Without dropout and in double precision their
gradients must be equal, which is checked before they are timed.
"""

from __future__ import annotations

import copy
import itertools
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from side_by_side import Bench, Clock, Part, Row, Side, take_turns
from transformers import AutoTokenizer, PreTrainedModel

from eventformers.datasets_scripts.base import SAMPLES
from eventformers.datasets_scripts.chain_readers import read_documents
from eventformers.datasets_scripts.loading import load_built
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.models.event_graph import build_event_graph, draw_kept_edges, draw_kept_features
from eventformers.models.losses import corrupted_corrupted_contrast, normal_corrupted_contrast
from eventformers.models.modeling_heterevent import HeterEventForPreTraining
from eventformers.models.modeling_mico import MicoForPreTraining
from eventformers.models.modeling_swcc import SwccForPreTraining
from eventformers.trainers.base import backward_in_chunks
from eventformers.trainers.chain_corruption import CorruptionSettings
from eventformers.trainers.chain_rows import ChainRows, read_chains
from eventformers.trainers.heterevent import HeterEventCollator
from eventformers.trainers.swcc import SwccCollator

Batch = dict[str, torch.Tensor]
Context = Callable[[], AbstractContextManager[object]]
PRECISIONS = ("float32", "bfloat16")
EVENTS = ("input_ids", "attention_mask", "role_masks", "word_index")
"""The inputs of HeterEvent's text encoder."""
LARGEST_DIFFERENCE = 1e-9
"""Of the gradients in double precision, relative to the largest entry of each parameter's gradient."""
SMALLEST_SCALE = 1e-6
"""Of the model's largest gradient: below it stands rounding alone, as for the key bias of an attention."""


def autocast(device: torch.device, precision: str) -> Context:
    """Return the context of a step in a precision; half precisions are mixed, as in training."""
    if precision == "float32":
        return nullcontext
    return partial(torch.autocast, device.type, dtype=getattr(torch, precision))


def step(head: PreTrainedModel, batch: Batch, context: Context) -> None:
    """One forward and backward pass."""
    steps(head, [batch], lambda part: head(**part).loss, context)


def steps(
    head: PreTrainedModel,
    parts: Sequence[Batch],
    loss_of: Callable[[Batch], torch.Tensor],
    context: Context,
) -> None:
    """Forward and backward pass of a batch in parts; gradients add up."""
    head.zero_grad(set_to_none=True)
    for part in parts:
        with context():
            loss = loss_of(part)
        loss.backward()


def check_gradients(ours: PreTrainedModel, theirs: PreTrainedModel, sides: Sequence[Side]) -> None:
    """Run both sides in double precision without dropout; refuse gradients that differ."""
    gradients = []
    for head, side in zip((ours, theirs), sides, strict=True):
        training = head.training
        head.double().eval()
        side()
        gradients.append([value.grad for value in head.parameters() if value.grad is not None])
        head.zero_grad(set_to_none=True)
        head.float().train(training)
    assert len(gradients[0]) == len(gradients[1]) > 0
    floor = SMALLEST_SCALE * max(float(gradient.abs().max()) for gradient in gradients[1])
    difference = max(
        float((own - other).abs().max()) / max(float(other.abs().max()), floor)
        for own, other in zip(*gradients, strict=True)
    )
    assert difference < LARGEST_DIFFERENCE, f"the gradients of the two sides differ by {difference:.1e}"


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
        sides = sides_in(autocast(bench.device, precision))
        rounds = min(bench.rounds, most_rounds or bench.rounds)
        taken = take_turns(sides, rounds, reference=list(sides)[-1], warm_up=warm_up, device=bench.device)
        rows += [
            {
                "step": name,
                "batch": size,
                "precision": precision,
                "side": side,
                "ms a step": f"{1e3 * values.seconds[0]:,.1f}",
                "speed": f"{statistics.median(values.ratios[0]):.2f}",
                "MiB": values.mebibytes,
            }
            for side, values in taken.items()
        ]
    return rows


def swcc(bench: Bench, clock: Clock) -> list[Row]:
    """SWCC's views in one pass of the encoder, and in five."""
    number = 8 if bench.small else 256
    together = SwccForPreTraining.from_encoder(bench.encoder, pooling="mean").to(bench.device)
    apart = five_passes(together)
    batch = pairs_of_events(bench, number)

    def sides(context: Context) -> dict[str, Side]:
        return {
            "views together": partial(step, together, batch, context),
            "five passes": partial(step, apart, batch, context),
        }

    check_gradients(together, apart, [*sides(nullcontext).values()])
    return in_precisions(bench, clock, "SWCC", f"{number} events", sides, warm_up=3)


def five_passes(head: SwccForPreTraining) -> SwccForPreTraining:
    """A copy of the head, with the same weights, that encodes view after view."""
    other = copy.deepcopy(head)
    encoder = other.swcc.encoder
    other.swcc.encode_together = lambda groups: [  # type: ignore[method-assign]
        (encoder(input_ids=ids, attention_mask=mask).last_hidden_state, mask) for ids, mask in groups
    ]
    return other


def pairs_of_events(bench: Bench, number: int) -> Batch:
    """A batch of events of the samples, each with its next one, drawn at random."""
    documents = read_documents([SAMPLES / "chains" / "events.jsonl"], SkippedRows())
    pairs = [pair for document in documents for pair in itertools.pairwise(document.events)]
    collator = SwccCollator(
        AutoTokenizer.from_pretrained(bench.encoder),
        event_order="subject_predicate_object",
        frequency_normalization="constant",
        frequency_minimum=1,
        frequency_maximum=1,
        seed=bench.seed,
    )
    drawn = random.Random(bench.seed).sample(pairs, number)  # noqa: S311 - no secret depends on it
    batch = collator(
        [
            {"row": row, "event": first.event, "co_events": [second.event], "frequencies": [1]}
            for row, (first, second) in enumerate(drawn)
        ]
    )
    return {name: tensor.to(bench.device) for name, tensor in batch.items()}


def mulcl(bench: Bench, clock: Clock, *, stage: str) -> list[Row]:
    """SeqCL or GraCL, and the loop over chains.

    SeqCL encodes every distinct event of a batch once; its loop encodes every corrupted chain. GraCL passes
    messages over one graph of all chains and views; its loop computes one graph after another.
    """
    chains = 2 if bench.small else 32
    head = HeterEventForPreTraining.from_encoder(bench.encoder, stage=stage).to(bench.device).eval()
    batch = batch_of_chains(bench, head, chains)
    if stage == "sequence":
        parts = [with_every_chain_encoded(batch, chain) for chain in range(chains)]
        loop = partial(steps, head, parts, lambda part: head(**part).loss / chains)
    else:
        loop = partial(steps, head, [batch], partial(graph_by_graph, head))

    def sides(context: Context) -> dict[str, Side]:
        return {
            "batch as one": partial(step, head, batch, context),
            "loop over chains": partial(loop, context),
        }

    check_gradients(head, head, [*sides(nullcontext).values()])
    name = {"sequence": "SeqCL", "graph": "GraCL"}[stage]
    return in_precisions(bench, clock, name, f"{chains} chains", sides, most_rounds=3)


def batch_of_chains(bench: Bench, head: HeterEventForPreTraining, number: int) -> Batch:
    """A batch of chains of the samples, drawn at random, with what the head's stage needs."""
    rows = ChainRows(read_chains(load_built(None, "chains", builder="event_chains")["train"]), 9)
    collator = HeterEventCollator(
        AutoTokenizer.from_pretrained(bench.encoder),
        rows,
        head.config,
        bench.seed,
        max_chain_length=9,
        corruption=CorruptionSettings(2, 2) if bench.small else CorruptionSettings(24, 8),
        num_views=2 if bench.small else 8,
    )
    drawn = torch.randperm(len(rows), generator=torch.Generator().manual_seed(bench.seed))[:number]
    batch = collator([rows[row] for row in drawn.tolist()])
    return {name: value.to(bench.device) for name, value in batch.items()}


def with_every_chain_encoded(batch: Batch, place: int) -> Batch:
    """One chain and its corruptions, where each event of each is a row of its own for the text encoder."""
    rows: list[torch.Tensor] = []
    spread = {}
    start = 0
    for name, of_batch in batch.items():
        if name not in EVENTS:
            chains = of_batch[place : place + 1]
            events = chains[chains >= 0]
            numbers = torch.arange(start, start + len(events), device=chains.device)
            spread[name] = chains.masked_scatter(chains >= 0, numbers)
            rows.append(events)
            start += len(events)
    every = torch.cat(rows)
    return {**{name: batch[name][every] for name in EVENTS}, **spread}


def graph_by_graph(head: HeterEventForPreTraining, batch: Batch) -> torch.Tensor:
    """GraCL's loss with every graph and every corrupted view of it by itself."""
    model, config, losses = head.heterevent, head.config, []
    vectors = model.encode_events(*(batch[name] for name in EVENTS))
    for chain, seeds in zip(batch["chains"], batch["view_seeds"], strict=True):
        own = chain[chain >= 0].unsqueeze(0)
        states, _ = model.encode_chains(vectors.events, own)
        graph = build_event_graph(own, vectors.event_words)
        parts = (states, own, vectors.words, vectors.event_words, graph)
        nodes = model.encode_graphs(*parts)
        kept_edges = draw_kept_edges(graph, seeds.unsqueeze(0), config.edge_drop)
        kept_features = draw_kept_features(seeds.unsqueeze(0), nodes.shape[1], config.feature_mask)
        views = torch.stack(
            [
                model.encode_graphs(*parts, kept_edges=edges, kept_features=features)
                for edges, features in zip(kept_edges, kept_features, strict=True)
            ]
        )
        temperature = config.contrast_temperature
        normal = normal_corrupted_contrast(nodes.mean(dim=0).sigmoid(), nodes, views, temperature)
        corrupted = corrupted_corrupted_contrast(views, temperature)
        losses.append(config.normal_corrupted_weight * normal + config.corrupted_corrupted_weight * corrupted)
    return torch.stack(losses).mean()


def mico(bench: Bench, clock: Clock) -> list[Row]:
    """MICO with a large batch: in chunks by GradCache, and whole."""
    rows_of_batch, chunk = (8, 4) if bench.small else (4_096, 256)
    head = MicoForPreTraining.from_encoder(bench.encoder).to(bench.device)
    alternatives = 2
    vocabulary = head.config.encoder_config.vocab_size
    ids = torch.arange(rows_of_batch * alternatives, device=bench.device).view(rows_of_batch, alternatives)
    batch = {
        **random_texts(bench, "", (rows_of_batch, 16), vocabulary),
        **random_texts(bench, "alternative_", (rows_of_batch, alternatives, 12), vocabulary),
        "alternative_ids": ids,
        "known_alternative_ids": ids.sort(dim=1).values,
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


def random_texts(bench: Bench, prefix: str, shape: tuple[int, ...], vocabulary: int) -> Batch:
    """Token ids without padding, and their mask."""
    generator = torch.Generator().manual_seed(bench.seed + shape[-1])
    ids = torch.randint(vocabulary // 2, vocabulary, shape, generator=generator).to(bench.device)
    return {f"{prefix}input_ids": ids, f"{prefix}attention_mask": torch.ones_like(ids)}


PART = Part(
    title="Training steps",
    share=1.2,
    measurements={
        "SWCC": swcc,
        "SeqCL": partial(mulcl, stage="sequence"),
        "GraCL": partial(mulcl, stage="graph"),
        "MICO": mico,
    },
    note=(
        "A step is a forward and a backward pass with the encoder of the benchmark. `speed` compares with "
        "the last side of the same step and precision. MiB is the peak memory of "
        "a step, gradients included and weights excluded."
    ),
)
