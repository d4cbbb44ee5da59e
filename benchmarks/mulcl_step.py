"""Speed of MulCL's training steps, compared with the direct computation of the same losses.

    python benchmarks/mulcl_step.py --data ../shared/data/chains --threads 1

SeqCL: a chain has 2 N_c + N_s + N_s N_c corruptions and segments. Ours encodes every distinct event of a
batch once and runs every distinct prefix of all chains once; the other side encodes each corrupted chain with
the text encoder, all chains of an anchor in one batch. GraCL: ours passes messages over one graph that
contains the graphs of all chains and all their corrupted views; the other side computes one graph after
another. There the text encoder does the same work on both sides, so steps are timed with it and from the
event vectors on.

Both sides are the same head with the same weights, batch and losses, without dropout. The losses must be
equal to 1e-5, and to 1e-10 in float64; the script checks this first. A step is forward and backward. Memory
is what a step keeps for the backward pass. The sides take turns. On a machine with other load, compare
processor time with `--threads 1`. Without `--data`, the script reads the bundled samples.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from side_by_side import CLOCKS, machine, make_parser, ratios_of, take_turns
from transformers import AutoTokenizer

from eventformers.datasets_scripts.loading import load_built
from eventformers.loading.encoders import resolve_encoder
from eventformers.models.event_graph import build_event_graph, draw_kept_edges, draw_kept_features
from eventformers.models.heterevent_outputs import EventVectors
from eventformers.models.losses import corrupted_corrupted_contrast, normal_corrupted_contrast
from eventformers.models.modeling_heterevent import HeterEventForPreTraining
from eventformers.trainers.chain_corruption import CorruptionSettings
from eventformers.trainers.chain_rows import ChainRows, read_chains
from eventformers.trainers.heterevent import HeterEventCollator

Batch = dict[str, torch.Tensor]
Step = Callable[[], torch.Tensor]

EVENTS = ("input_ids", "attention_mask", "role_masks", "word_index")
LARGEST_DIFFERENCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def main(arguments: Sequence[str] | None = None) -> None:
    """Check the losses, measure and print."""
    options = parse_arguments(arguments)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    device = torch.device(options.device)
    print(machine(device))
    folder = resolve_encoder(options.encoder)
    for stage, compare in (("sequence", compare_sequence), ("graph", compare_graph)):
        if stage not in options.stages:
            continue
        head = HeterEventForPreTraining.from_encoder(folder, stage=stage).to(device).eval()
        compare(head, make_batch(options, folder, head, device), options, device)


def compare_sequence(
    head: HeterEventForPreTraining, batch: Batch, options: argparse.Namespace, device: torch.device
) -> None:
    """SeqCL, its distinct events encoded once, beside every corrupted chain encoded."""
    encoded = len(batch["input_ids"])
    single = [one_chain(batch, chain) for chain in range(options.chains)]
    apart = [with_every_chain_encoded(part) for part in single]
    others = sum(len(part["input_ids"]) for part in apart)
    print(f"\nSeqCL, {options.chains} chains: {encoded} events encoded beside {others}")

    def ours() -> torch.Tensor:
        return backward(head(**batch).loss)

    def theirs() -> torch.Tensor:
        # Chain by chain, for its memory; the gradient of a mean is the mean of the gradients.
        return torch.stack([backward(head(**part).loss / len(apart)) for part in apart]).sum()

    check(
        head,
        lambda: head(**batch).loss,
        lambda: torch.stack([head(**part).loss for part in apart]).mean(),
    )
    print_memory("ours", lambda: head(**batch).loss, options.chains)
    print_memory("every corrupted chain encoded", lambda: head(**apart[0]).loss, 1)
    compare_steps("SeqCL step", ours, theirs, head, options, device)


def compare_graph(
    head: HeterEventForPreTraining, batch: Batch, options: argparse.Namespace, device: torch.device
) -> None:
    """GraCL over one graph, beside a loop over graphs."""
    chains, seeds = batch["chains"], batch["view_seeds"]
    graph = build_event_graph(chains, head.heterevent.encode_events(*events_of(batch)).event_words)
    degree = (len(graph.edge_type) - len(graph.node_chain)) / len(graph.node_chain)
    print(
        f"\nGraCL, {options.chains} chains with {seeds.shape[1]} views: {len(graph.node_chain)} nodes, "
        f"{degree:.1f} edges at each"
    )

    def ours() -> torch.Tensor:
        return backward(head(**batch).loss)

    def loss_of_loop() -> torch.Tensor:
        return graph_by_graph(head, head.heterevent.encode_events(*events_of(batch)), batch)

    def theirs() -> torch.Tensor:
        return backward(loss_of_loop())

    check(head, lambda: head(**batch).loss, loss_of_loop)
    print_memory("ours", lambda: head(**batch).loss, options.chains)
    compare_steps("GraCL step", ours, theirs, head, options, device)
    with torch.no_grad():
        vectors = head.heterevent.encode_events(*events_of(batch))
    leaf = EventVectors(*(value.clone().requires_grad_(value.is_floating_point()) for value in vectors))
    head.heterevent.encode_events = lambda *_: leaf  # type: ignore[method-assign]
    compare_steps(
        "GraCL step from the event vectors on",
        ours,
        lambda: backward(graph_by_graph(head, leaf, batch)),
        head,
        options,
        device,
    )


def graph_by_graph(head: HeterEventForPreTraining, vectors: EventVectors, batch: Batch) -> torch.Tensor:
    """GraCL's loss with every graph and every corrupted view of it by itself."""
    model, config, losses = head.heterevent, head.config, []
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


def one_chain(batch: Batch, chain: int) -> Batch:
    """The batch of one chain with its corruptions; all events stay."""
    return {name: value if name in EVENTS else value[chain : chain + 1] for name, value in batch.items()}


def with_every_chain_encoded(batch: Batch) -> Batch:
    """The same batch, where each event of each chain is a row of its own for the text encoder."""
    rows: list[torch.Tensor] = []
    spread = {}
    start = 0
    for name, chains in batch.items():
        if name not in EVENTS:
            events = chains[chains >= 0]
            numbers = torch.arange(start, start + len(events), device=chains.device)
            spread[name] = chains.masked_scatter(chains >= 0, numbers)
            rows.append(events)
            start += len(events)
    every = torch.cat(rows)
    return {**{name: batch[name][every] for name in EVENTS}, **spread}


def events_of(batch: Batch) -> Iterator[torch.Tensor]:
    """The inputs of the text encoder."""
    return (batch[name] for name in EVENTS)


def backward(loss: torch.Tensor) -> torch.Tensor:
    """Run the backward pass and give the loss."""
    loss.backward()
    return loss.detach()


def check(head: HeterEventForPreTraining, ours: Step, theirs: Step) -> None:
    """Refuse sides whose losses differ."""
    for dtype, largest in LARGEST_DIFFERENCE.items():
        head.to(dtype)
        with torch.no_grad():
            difference = abs(float(ours()) - float(theirs()))
        print(f"  difference of the losses in {dtype}: {difference:.1e}")
        assert difference < largest, "the losses of the two sides differ"
    head.float()


def print_memory(name: str, forward: Step, chains: int) -> None:
    """Print what a forward pass keeps for the backward pass."""
    kept: dict[int, int] = {}
    held = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, torch.nn.Parameter):
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
            held.append(storage)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    print(f"  kept for the backward pass, {name}: {sum(kept.values()) / chains / 2**20:,.1f} MiB a chain")


def compare_steps(
    name: str,
    ours: Step,
    theirs: Step,
    head: HeterEventForPreTraining,
    options: argparse.Namespace,
    device: torch.device,
) -> None:
    """Time both sides and print their ratios."""

    def step(side: Step) -> None:
        head.zero_grad(set_to_none=True)
        side()

    sides = {"ours": partial(step, ours), "theirs": partial(step, theirs)}
    costs, _ = take_turns(sides, options.rounds, warm_up=options.warm_up, device=device)
    for clock, kind in enumerate(CLOCKS):
        ratios = ratios_of(costs, "theirs", "ours", clock)
        a_chain = statistics.median(own[clock] for own in costs["ours"]) / options.chains
        print(
            f"  {name}, {kind}: {a_chain * 1e3:,.1f} ms a chain; the other side takes "
            f"{statistics.median(ratios):.1f} times as long ({min(ratios):.1f} to {max(ratios):.1f} over "
            f"{options.rounds} rounds)"
        )


def make_batch(
    options: argparse.Namespace, folder: str, head: HeterEventForPreTraining, device: torch.device
) -> Batch:
    """A batch of chains, drawn at random, with what the head's stage needs."""
    chains = load_built(options.data, "chains", builder="event_chains")["train"]
    rows = ChainRows(read_chains(chains), options.chain_length)
    if len(rows) < options.chains:
        raise SystemExit(f"found {len(rows)} chains; accepted: at least {options.chains}")
    collator = HeterEventCollator(
        AutoTokenizer.from_pretrained(folder),
        rows,
        head.config,
        options.seed,
        max_chain_length=options.chain_length,
        corruption=CorruptionSettings(options.corrupted, options.segments),
        num_views=options.views,
    )
    drawn = torch.randperm(len(rows), generator=torch.Generator().manual_seed(options.seed))
    batch = collator([rows[int(row)] for row in drawn[: options.chains]])
    return {name: value.to(device) for name, value in batch.items()}


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__, "encoder", "device", "threads", "seed", rounds=3, warm_up=1)
    parser.add_argument("--data", help="raw or built chains; default: the bundled samples")
    parser.add_argument("--stages", nargs="+", choices=("sequence", "graph"), default=["sequence", "graph"])
    parser.add_argument("--chains", type=int, default=16, help="chains of a batch")
    parser.add_argument("--chain-length", type=int, default=9, help="maximum number of events of a chain")
    parser.add_argument("--corrupted", type=int, default=24, help="corruptions of each kind, N_c")
    parser.add_argument("--segments", type=int, default=8, help="segments of a chain, N_s")
    parser.add_argument("--views", type=int, default=8, help="corrupted views of a graph, N_g")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
