"""The losses of the training head against loops over chains, graphs, events and words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from heterevent_inputs import CHAIN_LENGTHS, CHAINS, EVENT_NAMES, heterevent_inputs, make_head
from transformers import BertForMaskedLM, DistilBertForMaskedLM, RobertaForMaskedLM

from eventformers.models import losses
from eventformers.models.event_graph import build_event_graph, draw_kept_edges, draw_kept_features
from eventformers.models.modeling_heterevent import HeterEventForPreTraining


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
