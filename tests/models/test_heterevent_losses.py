"""Losses of HeterEvent's stages by loops, and vectors of its encoder that skip the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from heterevent_inputs import (
    CHAIN_LENGTHS,
    CHAINS,
    EVENT_NAMES,
    SMALL,
    event_inputs,
    heterevent_inputs,
    make_head,
)
from huggingface_hub.errors import StrictDataclassError
from torch.nn.functional import normalize
from transformers import BertForMaskedLM, DistilBertForMaskedLM, RobertaForMaskedLM

from eventformers.models import losses
from eventformers.models.event_graph import build_event_graph, draw_kept_edges, draw_kept_features
from eventformers.models.heterevent_layers import ChainEncoder, SkipProjection, mean_pool
from eventformers.models.heterevent_stages import chains_without
from eventformers.models.losses import chain_contrast
from eventformers.models.modeling_heterevent import HeterEventForPreTraining, HeterEventModel


def _without_padding(chain: torch.Tensor) -> list[int]:
    return [event for event in chain.tolist() if event >= 0]


@pytest.mark.parametrize("stage", ["sequence", "graph"])
def test_a_batch_is_the_mean_of_its_chains(tiny_encoder_without_dropout: Path, stage: str) -> None:
    """Loss and gradient, where every chain runs alone, as wide as it is."""
    inputs = heterevent_inputs(100)
    results = []
    for together in (True, False):
        head = make_head(tiny_encoder_without_dropout, stage=stage)
        if together:
            loss = head(**inputs).loss
        else:
            loss = torch.stack([head(**_alone(inputs, chain)).loss for chain in range(CHAINS)]).mean()
        loss.backward()
        results.append((loss, {name: value.grad for name, value in head.named_parameters()}))
    (loss, gradients), (expected, expected_gradients) = results
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    for name, gradient in gradients.items():
        assert (gradient is None) == (expected_gradients[name] is None)
        if gradient is not None:
            torch.testing.assert_close(gradient, expected_gradients[name], rtol=1e-3, atol=1e-5, msg=name)


def _alone(inputs: dict[str, torch.Tensor], chain: int) -> dict[str, torch.Tensor]:
    of_chains = ("chains", "order_corrupted", "replacement_corrupted", "segments", "corrupted_segments")
    width = CHAIN_LENGTHS[chain]
    return {
        **{name: inputs[name] for name in EVENT_NAMES},
        **{name: inputs[name][chain : chain + 1, ..., :width] for name in of_chains},
        "view_seeds": inputs["view_seeds"][chain : chain + 1],
    }


def test_sequence_losses_by_separate_chains(tiny_encoder_without_dropout: Path) -> None:
    """Eq. 3 to 5 with every chain, segment and corruption through torch's own Bi-GRU alone."""
    head = make_head(tiny_encoder_without_dropout).eval()
    inputs = heterevent_inputs(100)
    events = head.heterevent.encode_events(*(inputs[name] for name in EVENT_NAMES)).events
    encoder = head.heterevent.chain_encoder

    def state(chain: torch.Tensor) -> torch.Tensor:
        rows = [*(events[event] for event in _without_padding(chain)), encoder.chain_token]
        return encoder.gru(torch.stack(rows).unsqueeze(0))[0][0, -1]

    def share(anchor: torch.Tensor, positive: torch.Tensor, rivals: torch.Tensor) -> torch.Tensor:
        there = [chain for chain in rivals if _without_padding(chain)]
        others = torch.stack([positive, *(state(chain) for chain in there)])
        logits = torch.cosine_similarity(anchor, others, dim=-1) / head.config.contrast_temperature
        return -logits.log_softmax(dim=0)[0]

    terms: dict[str, list[torch.Tensor]] = {
        name: [] for name in ("order_loss", "replacement_loss", "composition_loss")
    }
    for row, chain in enumerate(inputs["chains"]):
        anchor = state(chain)
        for kind in ("order", "replacement"):
            terms[f"{kind}_loss"].append(share(anchor, anchor, inputs[f"{kind}_corrupted"][row]))
        segments = [
            share(anchor, state(segment), rivals)
            for segment, rivals in zip(
                inputs["segments"][row], inputs["corrupted_segments"][row], strict=True
            )
            if _without_padding(segment)
        ]
        terms["composition_loss"].append(torch.stack(segments).mean() if segments else torch.tensor(0.0))
    output = head(**inputs)
    for name, values in terms.items():
        torch.testing.assert_close(output[name], torch.stack(values).mean(), rtol=1e-5, atol=1e-5)


def test_graph_losses_by_separate_graphs(tiny_encoder_without_dropout: Path) -> None:
    """Eq. 11 to 13 with every graph and every corrupted view of it through the layers alone."""
    head = make_head(tiny_encoder_without_dropout, stage="graph", edge_drop=0.4).eval()
    model, temperature = head.heterevent, head.config.contrast_temperature
    inputs = heterevent_inputs(100)
    vectors = model.encode_events(*(inputs[name] for name in EVENT_NAMES))
    normal, corrupted = [], []
    for row in range(CHAINS):
        chain = torch.tensor([_without_padding(inputs["chains"][row])])
        seeds = inputs["view_seeds"][row : row + 1]
        graph = build_event_graph(chain, vectors.event_words)
        states, _ = model.encode_chains(vectors.events, chain)
        nodes = model.encode_graphs(states, chain, vectors.words, vectors.event_words)
        views = torch.stack(
            [
                model.encode_graphs(
                    states,
                    chain,
                    vectors.words,
                    vectors.event_words,
                    kept_edges=kept_edges,
                    kept_features=kept_features,
                )
                for kept_edges, kept_features in zip(
                    draw_kept_edges(graph, seeds, 0.4),
                    draw_kept_features(seeds, head.config.chain_dim, head.config.feature_mask),
                    strict=True,
                )
            ]
        )
        assert not torch.allclose(views[0], views[1])
        readout = nodes.mean(dim=0).sigmoid()
        normal.append(losses.normal_corrupted_contrast(readout, nodes, views, temperature))
        corrupted.append(losses.corrupted_corrupted_contrast(views, temperature))
    output = head(**inputs)
    torch.testing.assert_close(output.normal_corrupted_loss, torch.stack(normal).mean(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        output.corrupted_corrupted_loss, torch.stack(corrupted).mean(), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("predict_from", ["mean", "neighbours"])
@pytest.mark.parametrize("equal_events", [False, True])
def test_event_loss_by_loops(
    tiny_encoder_without_dropout: Path, predict_from: str, equal_events: bool
) -> None:
    """Eq. 16 over plain lists of events, where equal events are one and a chain's own no negatives."""
    head = make_head(
        tiny_encoder_without_dropout, stage="supervised", training_level="events", predict_from=predict_from
    ).eval()
    model, temperature = head.heterevent, head.config.contrast_temperature
    inputs = heterevent_inputs(100)
    if equal_events:
        for name in EVENT_NAMES:
            inputs[name][9], inputs[name][3] = inputs[name][2], inputs[name][8]
        inputs["event_keys"][9], inputs["event_keys"][3] = inputs["event_keys"][2], inputs["event_keys"][8]
    keys = inputs["event_keys"].tolist()
    vectors = model.encode_events(*(inputs[name] for name in EVENT_NAMES))
    candidates = model.encode_candidates(vectors.events)
    chain_losses = []
    for row in range(CHAINS):
        chain = _without_padding(inputs["chains"][row])
        target, place = int(inputs["target_events"][row]), int(inputs["target_position"][row])
        nodes = model.encode_graphs(
            model.encode_chains(vectors.events, torch.tensor([chain]))[0],
            torch.tensor([chain]),
            vectors.words,
            vectors.event_words,
        )[: len(chain)]
        known = {keys[event] for event in chain} | {keys[target]}
        rivals = {keys[event]: event for event in range(len(keys)) if keys[event] not in known}
        others = candidates[[target, *rivals.values()]]

        def loss(queries: torch.Tensor, others: torch.Tensor = others) -> torch.Tensor:
            cosines = torch.cosine_similarity(queries.unsqueeze(1), others, dim=-1).mean(dim=0)
            return -(cosines / temperature).log_softmax(dim=0)[0]

        if predict_from == "mean":
            chain_losses.append(loss(nodes))
        else:
            whole = [*chain[:place], target, *chain[place:]]
            queries = torch.cat([nodes[:place], candidates[target : target + 1], nodes[place:]])
            parts = []
            for before in range(len(chain)):
                for layer, query, predicted in (
                    (head.next_event, before, before + 1),
                    (head.previous_event, before + 1, before),
                ):
                    others = candidates[[whole[predicted], *rivals.values()]]
                    parts.append(loss(layer(queries[query : query + 1]), others))
            chain_losses.append(sum(parts) / len(whole))
    torch.testing.assert_close(
        head(**inputs).event_loss, torch.stack(chain_losses).mean(), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("literal_first", [False, True])
def test_word_loss_by_loops(tiny_encoder_without_dropout: Path, literal_first: bool) -> None:
    """Eq. 15 over plain lists of words."""
    head = make_head(
        tiny_encoder_without_dropout,
        stage="supervised",
        training_level="words",
        literal_first=literal_first,
    ).eval()
    model, temperature = head.heterevent, head.config.contrast_temperature
    inputs = heterevent_inputs(100)
    # Tokens of a word are the same wherever it stands.
    inputs["input_ids"] = torch.where(
        inputs["word_index"] >= 0, inputs["word_index"] + 20, inputs["input_ids"]
    )
    words_of = [
        list(dict.fromkeys(word for word in row if word >= 0)) for row in inputs["word_index"].tolist()
    ]
    table = head.get_input_embeddings().weight
    present = sorted({word for row in words_of for word in row})
    vocabulary = {word: head.word_output(table[word + 20]) for word in present}
    vectors = model.encode_events(*(inputs[name] for name in EVENT_NAMES))
    candidates = model.encode_candidates(vectors.events)

    def loss(query: torch.Tensor, word: int, own: list[int]) -> torch.Tensor:
        rivals = [vocabulary[other] for other in present if other not in own]
        others = torch.stack([vocabulary[word], *rivals])
        return -(torch.cosine_similarity(query, others, dim=-1) / temperature).log_softmax(dim=0)[0]

    def mean(values: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack(values).mean() if values else torch.tensor(0.0)

    chain_losses = []
    for row in range(CHAINS):
        chain = _without_padding(inputs["chains"][row])
        target = int(inputs["target_events"][row])
        graph = build_event_graph(torch.tensor([chain]), vectors.event_words)
        nodes = model.encode_graphs(
            model.encode_chains(vectors.events, torch.tensor([chain]))[0],
            torch.tensor([chain]),
            vectors.words,
            vectors.event_words,
        )
        node_of = {word: node for node, word in enumerate(graph.node_word.tolist()) if word >= 0}
        from_words, from_events = [], []
        for place, event in enumerate(chain):
            own = words_of[event]
            tellers = own[:1] if literal_first else own
            pairs = [
                loss(nodes[node_of[teller]], word, own)
                for teller in tellers
                for word in own
                if word != teller
            ]
            if pairs:
                from_words.append(mean(pairs))
            if own:
                from_events.append(mean([loss(nodes[place], word, own) for word in own]))
        own = words_of[target]
        if own:
            from_events.append(mean([loss(candidates[target], word, own) for word in own]))
        from_context = mean([loss(nodes[place], word, own) for place in range(len(chain)) for word in own])
        chain_losses.append(mean(from_words) + mean(from_events) + from_context)
    torch.testing.assert_close(
        head(**inputs).word_loss, torch.stack(chain_losses).mean(), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("family", [BertForMaskedLM, RobertaForMaskedLM, DistilBertForMaskedLM])
def test_masked_words_start_from_the_masked_language_model(family: Any, tmp_path: Path) -> None:
    """The loss is that of the checkpoint, also in double precision, and without its head a new one."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 20}
    if family is DistilBertForMaskedLM:
        sizes = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 20}
    source = family(family.config_class(vocab_size=50, pad_token_id=0, **sizes)).eval()
    for name, parameter in source.named_parameters():
        torch.nn.init.normal_(parameter, mean=float("norm.weight" in name.lower()), std=0.5)
    source.save_pretrained(tmp_path / "masked")
    source.base_model.save_pretrained(tmp_path / "bare")
    input_ids = torch.randint(5, 50, (3, 7))
    mask = (torch.arange(7) < torch.tensor([[7], [4], [5]])).long()
    labels = torch.where(torch.rand(3, 7) < 0.4, torch.randint(5, 50, (3, 7)), -100).masked_fill(
        mask == 0, -100
    )
    inputs = {"input_ids": input_ids, "attention_mask": mask}
    fields: dict[str, Any] = {"stage": "masked_words", "event_dim": 4, "chain_dim": 8}
    head = HeterEventForPreTraining.from_encoder(str(tmp_path / "masked"), **fields).eval().double()
    source = source.double()
    found = head(**inputs, masked_token_ids=labels)
    torch.testing.assert_close(found.loss, source(**inputs, labels=labels).loss)
    torch.testing.assert_close(found.masked_word_loss, found.loss)
    logits = source(**inputs).logits
    slow = [
        -logits[row, place].log_softmax(dim=0)[label]
        for row in range(3)
        for place, label in enumerate(labels[row].tolist())
        if label >= 0
    ]
    torch.testing.assert_close(found.loss, torch.stack(slow).mean())
    # Nothing to predict is no loss.
    assert head(**inputs, masked_token_ids=torch.full_like(labels, -100)).loss.item() == 0
    bare = HeterEventForPreTraining.from_encoder(str(tmp_path / "bare"), **fields)
    assert bare.masked_words.bias.eq(0).all()
    later = HeterEventForPreTraining.from_encoder(str(tmp_path / "masked"))
    with pytest.raises(ValueError, match="no layer for masked words"):
        later(**inputs, masked_token_ids=labels, stage="masked_words")


SIZE, CHAIN_SIZE = 5, 8


def _cosines(vectors: torch.Tensor) -> torch.Tensor:
    units = normalize(vectors.detach(), dim=-1)
    return units @ units.T


@pytest.fixture
def skipping(tiny_encoder_without_dropout: Path) -> HeterEventModel:
    torch.manual_seed(0)
    size = HeterEventModel.from_encoder(str(tiny_encoder_without_dropout), **SMALL).config
    fields = {**SMALL, "chain_dim": size.encoder_config.hidden_size, "event_skip": True, "gate_bias": -12.0}
    model = HeterEventModel.from_encoder(str(tiny_encoder_without_dropout), **fields).eval()
    assert model.chain_encoder.state_weight.item() == pytest.approx(0.1)
    model.chain_encoder.state_weight.data.fill_(1e-4)
    return model


def test_cosines_start_as_those_of_the_encoder(skipping: HeterEventModel) -> None:
    inputs = event_inputs(skipping.config.encoder_config.vocab_size)
    output = skipping(**inputs)
    expected = _cosines(mean_pool(output.last_hidden_state, inputs["attention_mask"]))
    for vectors in (output.candidates, output.embeddings, output.chain_embeddings):
        torch.testing.assert_close(_cosines(vectors), expected, atol=2e-3, rtol=0)


def test_an_open_gate_moves_the_nodes(skipping: HeterEventModel) -> None:
    for layer in skipping.graph_layers:
        layer.gate_bias.data.fill_(12.0)
    inputs = event_inputs(skipping.config.encoder_config.vocab_size)
    expected = _cosines(skipping(**inputs).candidates)
    assert (_cosines(skipping(**inputs).embeddings) - expected).abs().max() > 0.05


def test_starts_are_kept_with_the_weights(skipping: HeterEventModel, tmp_path: Path) -> None:
    with torch.no_grad():
        skipping.chain_encoder.state_weight.fill_(0.25)
        skipping.graph_layers[0].gate_bias.fill_(-1.5)
        skipping.event_skip.weight.mul_(2)
    skipping.save_pretrained(tmp_path)
    loaded = HeterEventModel.from_pretrained(tmp_path)
    assert loaded.chain_encoder.state_weight.item() == 0.25
    assert loaded.graph_layers[0].gate_bias.unique().item() == -1.5
    torch.testing.assert_close(loaded.event_skip.weight, skipping.event_skip.weight)


def test_another_size_starts_orthogonal(tiny_encoder: Path) -> None:
    model = HeterEventModel.from_encoder(str(tiny_encoder), **SMALL, event_skip=True)
    weight = model.event_skip.weight.detach()
    torch.testing.assert_close(weight @ weight.T, torch.eye(len(weight)), atol=1e-5, rtol=0)


def test_skipped_vectors_have_the_scale_of_states() -> None:
    projection = SkipProjection(6, 4)
    with torch.no_grad():
        projection.weight.normal_()
    vectors = projection(torch.randn(3, 6) * 100)
    torch.testing.assert_close(vectors.pow(2).mean(dim=-1), torch.ones(3))
    assert projection(torch.zeros(1, 6)).abs().max() == 0
    assert projection.to(torch.bfloat16)(torch.randn(3, 6).bfloat16()).dtype == torch.bfloat16


def test_skipped_vectors_join_the_states_of_a_chain() -> None:
    torch.manual_seed(0)
    encoder, plain = ChainEncoder(SIZE, CHAIN_SIZE, skip=True), ChainEncoder(SIZE, CHAIN_SIZE)
    with torch.no_grad():
        encoder.chain_token.normal_()
        encoder.state_weight.fill_(0.3)
    plain.load_state_dict({k: v for k, v in encoder.state_dict().items() if k != "state_weight"})
    composed, skipped = torch.randn(4, SIZE), torch.randn(4, CHAIN_SIZE)
    chains = torch.tensor([[0, 1, 2], [3, 0, -1], [-1, -1, -1]])
    states, of_chains = encoder(torch.cat([composed, skipped], dim=-1), chains)
    plain_states, plain_chains = plain(composed, chains)
    for row, events in enumerate(([0, 1, 2], [3, 0], [])):
        for place, event in enumerate(events):
            torch.testing.assert_close(
                states[row, place], 0.3 * plain_states[row, place] + skipped[event], atol=1e-6, rtol=1e-5
            )
        mean = skipped[events].mean(dim=0) if events else torch.zeros(CHAIN_SIZE)
        torch.testing.assert_close(of_chains[row], 0.3 * plain_chains[row] + mean, atol=1e-6, rtol=1e-5)
    assert states[1, 2].abs().max() == 0
    again = encoder.chain_states(torch.cat([composed, skipped], dim=-1), chains.unsqueeze(1))
    torch.testing.assert_close(again.squeeze(1), of_chains, atol=1e-6, rtol=1e-5)


def test_the_rest_of_a_chain() -> None:
    chains = torch.tensor([[4, 7, 2, 9], [3, 1, 5, -1]])
    segments = torch.tensor([[[7, 2, -1, -1], [9, -1, -1, -1]], [[3, 1, -1, -1], [-1, -1, -1, -1]]])
    rest = chains_without(chains, segments)
    assert rest.tolist() == [[[4, 9, -1, -1], [4, 7, 2, -1]], [[5, -1, -1, -1], [-1, -1, -1, -1]]]


def test_segments_against_the_rest_of_their_chain(tiny_encoder_without_dropout: Path) -> None:
    """Each segment is a positive of the chain without it, and its corruptions are the negatives."""
    head = make_head(
        tiny_encoder_without_dropout, stage="sequence", composition_anchor="rest", event_skip=True
    )
    inputs = heterevent_inputs(head.config.encoder_config.vocab_size)
    inputs["segments"] = torch.where(inputs["segments"] >= 0, inputs["chains"][:, None, :1], -1)
    inputs["segments"][..., 1:] = -1
    names = ("input_ids", "attention_mask", "role_masks", "word_index")
    encoder = head.heterevent
    with torch.no_grad():
        loss = head(**inputs).composition_loss
        events = encoder.encode_events(*(inputs[name] for name in names)).events
        expected = []
        for chain, segments, corrupted in zip(
            inputs["chains"], inputs["segments"], inputs["corrupted_segments"], strict=True
        ):
            of_chain = []
            for segment, rivals in zip(segments, corrupted, strict=True):
                if (segment < 0).all():
                    continue
                rivals = rivals[(rivals >= 0).any(dim=-1)]
                rest = chain[1:].unsqueeze(0)
                anchor = encoder.encode_chains(events, rest)[1]
                positive = encoder.encode_chains(events, segment.unsqueeze(0))[1]
                negatives = encoder.encode_chains(events, rivals)[1].unsqueeze(0)
                of_chain.append(chain_contrast(anchor, positive, negatives, head.config.contrast_temperature))
            expected += of_chain or []
    # Every segment counts as a chain of its own, an absent one as 0.
    torch.testing.assert_close(loss, torch.stack(expected).sum() / inputs["segments"].shape[:2].numel())


def test_a_stage_without_any_weight_is_refused() -> None:
    with pytest.raises(StrictDataclassError, match="word_weight, event_weight"):
        HeterEventForPreTraining.config_class(stage="supervised", word_weight=0.0, event_weight=0.0)
