"""The losses of MulCL's stages, from a batch's events or the texts of its chains, and HeterEvent's outputs.

Each function of a loss takes the training head, because it uses the head's configuration, encoder and layers.
"""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional
from transformers.activations import ACT2FN
from transformers.utils import ModelOutput

from .chain_losses import (
    chain_contrast,
    composition_contrast,
    corrupted_corrupted_contrast,
    event_prediction,
    mean_cosine,
    neighbour_prediction,
    normal_corrupted_contrast,
    word_prediction,
)
from .distributed import apart_from_other_processes, gather_distinct, gather_rows
from .event_graph import (
    build_event_graph,
    draw_kept_edges,
    draw_kept_features,
    nodes_at,
    pad_nodes,
    start_nodes,
)
from .heterevent_layers import PADDING, pool_words
from .layer_weights import dtype_of
from .similarities import masked_mean
from .training_head import check_given

STAGE_INPUTS: dict[str, dict[str, tuple[str, ...]]] = {
    "masked_words": {"stage": ("masked_token_ids",)},
    "sequence": {
        "order_weight": ("order_corrupted",),
        "replacement_weight": ("replacement_corrupted",),
        "composition_weight": ("segments", "corrupted_segments"),
    },
    "graph": {"normal_corrupted_weight": ("view_seeds",), "corrupted_corrupted_weight": ("view_seeds",)},
    "supervised": {"predict_from": ("target_events", "target_position")},
}
"""Maps each stage to the inputs that each non-zero loss weight needs; all but the first also need chains."""


GRAPH_PARTS = 4
"""Number of groups, by size, in which a batch's graphs are contrasted: pairs of nodes need much memory."""


@dataclass
class HeterEventModelOutput(ModelOutput):
    """Output of HeterEvent.

    Args:
        embeddings: node of each event in its chain's graph after the last layer, `(batch, chain_dim)`.
        candidates: vector of each event as a candidate, that is, as a chain of one event without a graph,
            `(batch, chain_dim)`.
        chain_embeddings: state at the chain token of each chain, `(chains, chain_dim)`.
        last_hidden_state: token vectors, `(batch, length, hidden_size)`.
        hidden_states: token vectors of every layer of the encoder, if requested.
        attentions: attention weights of every layer of the encoder, if requested.
    """

    embeddings: torch.FloatTensor | None = None
    candidates: torch.FloatTensor | None = None
    chain_embeddings: torch.FloatTensor | None = None
    last_hidden_state: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class HeterEventForPreTrainingOutput(ModelOutput):
    """Output of the training head: the terms of its stage, each before its weight.

    Args:
        loss: weighted sum of the terms, a scalar; None if only vectors are requested.
        masked_word_loss: cross-entropy of the masked tokens (section III-B1).
        order_loss: Eq. 3.
        replacement_loss: Eq. 4.
        composition_loss: Eq. 5.
        normal_corrupted_loss: Eq. 12.
        corrupted_corrupted_loss: Eq. 13.
        word_loss: Eq. 15.
        event_loss: Eq. 16.
        choice_correct: True if inference would score the left-out event above all wrong choices, `(chains,)`;
            None if no choices are given.
        embeddings: the same as those of `HeterEventModel`, if only vectors are requested; None with a loss,
            whose rows are chains.
        hidden_states: token vectors of every layer of the encoder for the events, if requested.
        attentions: attention weights of every layer, if requested.
    """

    loss: torch.FloatTensor | None = None
    masked_word_loss: torch.FloatTensor | None = None
    order_loss: torch.FloatTensor | None = None
    replacement_loss: torch.FloatTensor | None = None
    composition_loss: torch.FloatTensor | None = None
    normal_corrupted_loss: torch.FloatTensor | None = None
    corrupted_corrupted_loss: torch.FloatTensor | None = None
    word_loss: torch.FloatTensor | None = None
    event_loss: torch.FloatTensor | None = None
    choice_correct: torch.BoolTensor | None = None
    embeddings: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


class EventVectors(NamedTuple):
    """Vectors of the distinct events of a batch, `(E, event_vector_dim)`, and of their words.

    Args:
        words: vectors of the distinct words of each event, `(E, W, chain_dim)`.
        event_words: the distinct words of each event, `(E, W)`; padded with -1.
    """

    events: torch.Tensor
    words: torch.Tensor
    event_words: torch.Tensor


class NeighbourPrediction(nn.Linear):
    """Map from an event to the event that follows it, or to the one before (Eq. 16).

    It starts as the identity, so that nodes initially predict by cosine, as in inference.
    """

    def __init__(self, dimension: int):
        super().__init__(dimension, dimension, bias=False)


class MaskedWordHead(nn.Module):
    """Prediction of masked tokens from their vectors, as in BERT, with the encoder's token embeddings."""

    def __init__(self, text_config, embedding_size: int):
        super().__init__()
        self.dense = nn.Linear(text_config.hidden_size, embedding_size)
        self.activation = ACT2FN[getattr(text_config, "hidden_act", None) or "gelu"]
        self.norm = nn.LayerNorm(embedding_size, eps=getattr(text_config, "layer_norm_eps", 1e-12))
        self.bias = nn.Parameter(torch.zeros(text_config.vocab_size))

    def forward(self, hidden: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
        """Logits of the vocabulary, `(N, hidden_size)` and `(V, embedding_size)` to `(N, V)`."""
        return functional.linear(self.norm(self.activation(self.dense(hidden))), embeddings, self.bias)

    @torch.no_grad()
    def start_from(self, name_or_path) -> None:
        """Copy the weights that a checkpoint of a masked language model has for the prediction.

        Args:
            name_or_path: Hub id or folder of the checkpoint. Without such weights nothing is copied.
        """
        from transformers import AutoConfig, AutoModelForMaskedLM

        architectures = AutoConfig.from_pretrained(name_or_path).architectures or ()
        if not any(name.endswith("ForMaskedLM") for name in architectures):
            return
        source = AutoModelForMaskedLM.from_pretrained(name_or_path, dtype=self.bias.dtype)
        prefix = f"{source.base_model_prefix}."
        for name, part in source.named_modules():
            for own in (self.dense, self.norm):
                # Their names differ between architectures, their kinds and shapes do not.
                is_same = type(part) is type(own) and part.weight.shape == own.weight.shape
                if is_same and not name.startswith(prefix):
                    own.load_state_dict(part.state_dict(), strict=False)
        if (bias := getattr(source.get_output_embeddings(), "bias", None)) is not None:
            self.bias.copy_(bias)


def masked_word_terms(
    head, input_ids: torch.Tensor, attention_mask: torch.Tensor, masked_token_ids: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Prediction of masked tokens (section III-B1), the mean over those of all processes.

    The texts of chains, `(C, L)`, have masked tokens; `masked_token_ids` has the token that was at each
    masked place, -100 elsewhere.
    """
    [(hidden, _)] = head.heterevent.encode_together([(input_ids, attention_mask)])
    is_masked = masked_token_ids >= 0
    vectors = hidden[is_masked].to(head.masked_words.bias.dtype)
    # Called as a module, the embeddings include those of adapters.
    vocabulary = torch.arange(len(head.masked_words.bias), device=hidden.device)
    logits = head.masked_words(vectors, head.get_input_embeddings()(vocabulary).to(vectors.dtype))
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    loss = functional.cross_entropy(logits, masked_token_ids[is_masked], reduction="sum")
    # Processes have masked different numbers of tokens.
    total, number = gather_rows(torch.stack([loss, is_masked.sum().to(loss)]).unsqueeze(0)).sum(dim=0)
    return {"masked_word_loss": total / number.clamp(min=1)}


def needed_inputs(config, stage: str, given: dict[str, torch.Tensor | None]) -> dict[str, torch.Tensor]:
    """Select the inputs of a stage: `chains`, but for masked words, and those of the terms whose weight is
    not 0, by name.

    Raises:
        ValueError: the stage is unknown, or an input is missing (None).
    """
    if stage not in STAGE_INPUTS:
        raise ValueError(f"unknown stage {stage!r}; accepted: {', '.join(STAGE_INPUTS)}")
    of_terms = (names for field, names in STAGE_INPUTS[stage].items() if getattr(config, field))
    shared = () if stage == "masked_words" else ("chains",)
    needed = {name: given[name] for name in (*shared, *itertools.chain.from_iterable(of_terms))}
    check_given(f"the stage {stage!r} with these weights needs", needed)
    return needed


def sequence_terms(
    head, vectors: EventVectors, chains: torch.Tensor, corrupted: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """SeqCL (Eq. 3 to 5): all chains, segments and corruptions run through the Bi-GRU together.

    Args:
        chains: `(C, n)`.
        corrupted: `order_corrupted` `(C, N, n)`, `replacement_corrupted` `(C, N, n)`, `segments` `(C, S, n)`
            and `corrupted_segments` `(C, S, N, n)`, those whose weights are not 0.
    """
    config = head.config
    events, shift = vectors.events, 0
    if head.training and head.event_dropout.p:
        # The anchors use one draw of dropout; everything they are compared with uses another.
        events, shift = head.event_dropout(events.repeat(2, 1)), len(events)
    groups = {"anchor": chains, "positive": chains, **corrupted}
    if config.composition_anchor == "rest" and "segments" in corrupted:
        groups["rest"] = chains_without(chains, corrupted["segments"])
    length = max(rows.shape[-1] for rows in groups.values())
    rows = [
        functional.pad(
            chain if name in ("anchor", "rest") else torch.where(chain >= 0, chain + shift, chain),
            (0, length - chain.shape[-1]),
            value=PADDING,
        ).flatten(0, -2)
        for name, chain in groups.items()
    ]
    states = head.heterevent.chain_encoder.chain_states(events, torch.cat(rows))
    view = {
        name: part.unflatten(0, chain.shape[:-1])
        for (name, chain), part in zip(
            groups.items(), states.split([len(part) for part in rows]), strict=True
        )
    }
    present = {name: (chain >= 0).any(dim=-1) for name, chain in groups.items()}
    temperature, literal_ratio = config.contrast_temperature, config.literal_ratio
    terms = {
        f"{name.removesuffix('_corrupted')}_loss": chain_contrast(
            view["anchor"],
            view["positive"],
            view[name],
            temperature,
            present[name],
            literal_ratio=literal_ratio,
        )
        for name in ("order_corrupted", "replacement_corrupted")
        if name in view
    }
    if "segments" in view:
        anchor, segments, rivals = view["anchor"], view["segments"], view["corrupted_segments"]
        there, rivals_there = present["segments"], present["corrupted_segments"]
        if "rest" in view:
            # Each segment gets its own anchor, as if it were the only segment of its chain.
            anchor = view["rest"].flatten(0, 1)
            segments, rivals = (part.flatten(0, 1).unsqueeze(1) for part in (segments, rivals))
            there, rivals_there = (part.flatten(0, 1).unsqueeze(1) for part in (there, rivals_there))
        terms["composition_loss"] = composition_contrast(
            anchor, segments, rivals, temperature, there, rivals_there, literal_ratio=literal_ratio
        )
    return terms


def chains_without(chains: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
    """Remove the events of each segment, `(C, S, m)`, from its chain, `(C, n)`, and keep the order of the
    others.

    The result, `(C, S, n)`, is padded like the chains, and -1 throughout if there is no segment, or nothing
    is left.
    """
    chains = chains.unsqueeze(1).expand(-1, segments.shape[1], -1)
    taken = (chains.unsqueeze(-1) == segments.unsqueeze(-2)).any(dim=-1)
    rest = chains.masked_fill(taken | (segments < 0).all(dim=-1, keepdim=True), PADDING)
    order = (rest < 0).long().argsort(dim=-1, stable=True)
    return rest.gather(-1, order)


def graph_terms(
    head, vectors: EventVectors, chains: torch.Tensor, view_seeds: torch.Tensor
) -> dict[str, torch.Tensor]:
    """GraCL (Eq. 12 and 13): all corrupted views of all graphs, of the chains `(C, n)`, are batched into one
    graph.

    A view depends only on its seed, `(C, G)`, and on the graph.
    """
    config, model = head.config, head.heterevent
    graph = build_event_graph(chains, vectors.event_words)
    states, _ = model.encode_chains(head.event_dropout(vectors.events), chains)
    start = start_nodes(states, chains, vectors.words, graph)
    kept_edges = draw_kept_edges(graph, view_seeds, config.edge_drop)
    kept_features = draw_kept_features(view_seeds, start.shape[1], config.feature_mask)
    # The graph itself comes before its views, as a view from which nothing is dropped.
    kept_edges, kept_features = (
        functional.pad(kept.flatten(1), (0, 0, 1, 0), value=True).unflatten(1, kept.shape[1:])
        for kept in (kept_edges, kept_features)
    )
    copies = len(kept_edges)
    start = (start * kept_features[:, graph.node_chain]).flatten(0, 1)
    every = model.pass_messages(start, graph.repeat(copies), kept_edges.flatten())
    temperature, literal_ratio = config.contrast_temperature, config.literal_ratio
    terms: dict[str, torch.Tensor] = {}
    for padded, node_mask in pad_nodes(every, graph, copies, GRAPH_PARTS):
        whole, views = padded.split([1, copies - 1], dim=1)
        nodes, views = whole.squeeze(1), views.contiguous()
        losses = {}
        if config.normal_corrupted_weight:
            readout = nodes.sum(dim=1)
            if config.readout == "mean":
                readout = readout / node_mask.sum(dim=1, keepdim=True)
            losses["normal_corrupted_loss"] = normal_corrupted_contrast(
                readout.sigmoid(), nodes, views, temperature, node_mask, literal_ratio=literal_ratio
            )
        if config.corrupted_corrupted_weight:
            losses["corrupted_corrupted_loss"] = corrupted_corrupted_contrast(
                views, temperature, node_mask, literal_ratio=literal_ratio
            )
        for name, loss in losses.items():
            terms[name] = terms.get(name, 0) + loss * (len(padded) / len(chains))
    return terms


def supervised_terms(
    head,
    vectors: EventVectors,
    chains: torch.Tensor,
    target_events: torch.Tensor,
    target_position: torch.Tensor,
    tokens: tuple[torch.Tensor, torch.Tensor],
    keys: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None),
    choices: torch.Tensor | None = None,
) -> dict[str, torch.Tensor]:
    """Prediction of a left-out event and of words (Eq. 15 and 16), on the events of all processes.

    Args:
        chains: contexts, without the left-out event, `(C, n)`.
        target_events: row of the left-out event, `(C,)`.
        target_position: number of events of the context before it, `(C,)`.
        tokens: token ids and words of the events, each `(E, L)`.
        keys: a number for each event, `(E,)`, and for each word, `(words,)`; equal events and equal words
            have equal numbers on every process. None treats all as different.
        choices: rows of wrong choices, `(C, k)`, padded with -1.

    Returns:
        The terms by name; with choices also `choice_correct`, `(C,)`.
    """
    config, model = head.config, head.heterevent
    event_keys, word_keys = keys
    graph = build_event_graph(chains, vectors.event_words)
    events = head.event_dropout(vectors.events)
    states, _ = model.encode_chains(events, chains)
    nodes = model.encode_graphs(states, chains, vectors.words, vectors.event_words, graph)
    candidates = model.encode_candidates(events)
    context = nodes_at(nodes, graph.event_nodes)
    terms = {}
    if config.training_level != "events":
        losses = _word_losses(
            head, vectors, chains, target_events, graph, nodes, context, candidates, tokens, word_keys
        )
        terms["word_loss"] = gather_rows(losses).mean()
    if config.training_level != "words":
        losses = _event_losses(head, context, chains, target_events, target_position, candidates, event_keys)
        terms["event_loss"] = gather_rows(losses).mean()
    if choices is not None:
        rivals = torch.cat([target_events.unsqueeze(1), choices], dim=1)
        scores = mean_cosine(context, candidates[rivals.clamp(min=0)], chains >= 0)
        scores = scores.masked_fill(rivals < 0, float("-inf"))
        terms["choice_correct"] = (scores[:, :1] > scores[:, 1:]).all(dim=1)
    return terms


def _event_losses(head, context, chains, target_events, target_position, candidates, event_keys):
    """Eq. 16 for each chain, `(C,)`."""
    temperature = head.config.contrast_temperature
    if event_keys is None:
        event_keys = apart_from_other_processes(torch.arange(len(candidates), device=chains.device))
    rivals, keys = gather_distinct(candidates, event_keys)
    target = torch.searchsorted(keys, event_keys[target_events])
    # An event of the chain could follow it as well as any other event, so none of them is a negative.
    own = torch.searchsorted(keys, event_keys[chains.clamp(min=0)])
    own = torch.where(chains >= 0, own, target.unsqueeze(1))
    left_out = torch.zeros(len(chains), len(rivals), dtype=torch.bool, device=chains.device)
    left_out = left_out.scatter(1, own, value=True).scatter(1, target.unsqueeze(1), value=True)
    if head.next_event is None:
        return event_prediction(context, rivals, target, temperature, chains >= 0, left_out)
    # The left-out event has no node; in its place in the chain, its vector as a candidate replaces one.
    own = own.masked_fill(chains < 0, PADDING)
    whole = _inserted(own.unsqueeze(-1), target.unsqueeze(-1), target_position).squeeze(-1)
    nodes = _inserted(context, candidates[target_events].to(context.dtype), target_position)
    return neighbour_prediction(
        head.next_event(nodes), head.previous_event(nodes), rivals, whole, temperature, left_out
    )


def _inserted(rows: torch.Tensor, row: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """Insert a row into each sequence: `(C, n, D)`, `(C, D)` and `(C,)` to `(C, n + 1, D)`."""
    joined = torch.cat([rows, row.unsqueeze(1)], dim=1)
    places = torch.arange(joined.shape[1], device=rows.device).expand(len(rows), -1)
    position = position.unsqueeze(1)
    places = torch.where(places == position, rows.shape[1], places - (places > position).long())
    return joined.gather(1, places.unsqueeze(-1).expand_as(joined))


def _word_losses(head, vectors, chains, target_events, graph, nodes, context, candidates, tokens, word_keys):
    """Eq. 15 for each chain, `(C,)`.

    The sum of three means: an event's words predicted from its other words, from the event, and, as Algorithm
    3 requires, the left-out event's words from the context.
    """
    temperature = head.config.contrast_temperature
    input_ids, word_index = tokens
    embeddings, _ = pool_words(head.get_input_embeddings()(input_ids), word_index)
    event_words = vectors.event_words
    is_word = event_words >= 0
    own_words = event_words[is_word]
    own_keys = apart_from_other_processes(own_words) if word_keys is None else word_keys[own_words]
    # The vector of a word in the vocabulary is that of its tokens, without context. The encoder may have a
    # lower precision than the layers of the head.
    own_embeddings = embeddings[is_word].to(dtype_of(head.word_output))
    vocabulary, keys = gather_distinct(head.word_output(own_embeddings), own_keys)
    columns = torch.full_like(event_words, PADDING)
    columns[is_word] = torch.searchsorted(keys, own_keys)

    is_event = chains >= 0
    of_context = columns[chains.clamp(min=0)].masked_fill(~is_event.unsqueeze(-1), PADDING)
    of_target = columns[target_events]
    word_nodes = nodes_at(nodes, graph.word_nodes)
    slots = torch.arange(columns.shape[1], device=chains.device)
    pairs = slots.unsqueeze(1) != slots
    if head.config.literal_first:
        pairs = pairs & (slots == 0).unsqueeze(1)
    pairs = pairs & (graph.word_nodes >= 0).unsqueeze(-1)
    from_words = word_prediction(
        word_nodes.flatten(0, 1), vocabulary, of_context.flatten(0, 1), temperature, pairs.flatten(0, 1)
    ).unflatten(0, chains.shape)
    several = (of_context >= 0).sum(dim=-1) > 1
    # The left-out event has no node; its vector as a candidate replaces one.
    events = torch.cat([context, candidates[target_events].unsqueeze(1)], dim=1)
    words = torch.cat([of_context, of_target.unsqueeze(1)], dim=1)
    from_events = word_prediction(
        events.flatten(0, 1).unsqueeze(1), vocabulary, words.flatten(0, 1), temperature
    ).unflatten(0, words.shape[:2])
    from_context = word_prediction(
        context, vocabulary, of_target, temperature, is_event.unsqueeze(-1).expand(-1, -1, words.shape[2])
    )
    return (
        masked_mean(from_words, several, dims=(1,))
        + masked_mean(from_events, (words >= 0).any(dim=-1), dims=(1,))
        + from_context
    )
