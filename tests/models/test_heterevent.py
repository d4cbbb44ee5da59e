"""HeterEvent's models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from heterevent_inputs import CHAINS, SMALL, event_inputs, heterevent_inputs, make_head
from huggingface_hub.errors import StrictDataclassError
from method_case import MethodCase, Variant, count_rows
from transformers import PreTrainedModel

from eventformers.models.configuration_heterevent import HeterEventConfig
from eventformers.models.event_graph import build_event_graph
from eventformers.models.heterevent_layers import words_of_tokens
from eventformers.models.modeling_heterevent import (
    HeterEventForMultipleChoice,
    HeterEventForPreTraining,
    HeterEventModel,
)

SEQUENCE_TERMS = ("order_loss", "replacement_loss", "composition_loss")
GRAPH_TERMS = ("normal_corrupted_loss", "corrupted_corrupted_loss")
# What the chain token's state does not reach; the backward half starts at the token, from a state of zeros.
BEYOND_SEQUENCE = (
    "heterevent.graph_layers",
    "heterevent.word_projection",
    "heterevent.chain_encoder.gru.weight_hh_l0_reverse",
    "word_output",
)


class TestHeterEvent(MethodCase):
    config_class = HeterEventConfig
    model_class = HeterEventModel
    head_class = HeterEventForPreTraining
    modules_to_save = (
        "composition",
        "chain_encoder",
        "word_projection",
        "graph_layers.0",
        "graph_layers.1",
        "next_event",
        "previous_event",
        "word_output",
    )
    narrow = {"chain_dim": 8}  # noqa: RUF012
    poolings = ("mean",)
    embeds_with_loss = False
    requires = ("torch_geometric",)
    variants = {  # noqa: RUF012
        "everything": Variant(
            {
                **SMALL,
                "stage": "supervised",
                "predict_from": "neighbours",
                "value_projection": True,
                "edge_type_bias": True,
            },
            ("word_loss", "event_loss"),
        ),
        "sequence": Variant({**SMALL, "stage": "sequence"}, SEQUENCE_TERMS, BEYOND_SEQUENCE),
        "without_order": Variant({**SMALL, "order_weight": 0}, SEQUENCE_TERMS[1:], BEYOND_SEQUENCE),
        "without_replacement": Variant(
            {**SMALL, "replacement_weight": 0.0}, SEQUENCE_TERMS[::2], BEYOND_SEQUENCE
        ),
        "without_composition": Variant(
            {**SMALL, "composition_weight": 0}, SEQUENCE_TERMS[:2], BEYOND_SEQUENCE
        ),
        "graph": Variant({**SMALL, "stage": "graph"}, GRAPH_TERMS, ("word_output",)),
        "without_normal_corrupted": Variant(
            {**SMALL, "stage": "graph", "normal_corrupted_weight": 0}, GRAPH_TERMS[1:], ("word_output",)
        ),
        "without_corrupted_corrupted": Variant(
            {**SMALL, "stage": "graph", "corrupted_corrupted_weight": 0, "readout": "sum"},
            GRAPH_TERMS[:1],
            ("word_output",),
        ),
        "supervised": Variant({**SMALL, "stage": "supervised"}, ("word_loss", "event_loss")),
        "words": Variant(
            {**SMALL, "stage": "supervised", "training_level": "words", "literal_first": True},
            ("word_loss",),
        ),
        "events": Variant({**SMALL, "stage": "supervised", "training_level": "events"}, ("event_loss",)),
        "low_rank": Variant({**SMALL, "composition": "low_rank"}, SEQUENCE_TERMS, BEYOND_SEQUENCE),
        "literal_ratio": Variant(
            {**SMALL, "stage": "graph", "literal_ratio": True}, GRAPH_TERMS, ("word_output",)
        ),
    }
    required_inputs = {  # noqa: RUF012
        "chains": "chains",
        "target_events": "target_events",
        "target_position": "target_position",
    }
    invalid_fields = (
        ("pooling", "max"),
        ("event_dim", 0),
        ("event_dim", 2.5),
        ("chain_dim", 7),
        ("chain_dim", 0),
        ("projection_dim", 12),
        ("composition", "matrix"),
        ("composition_rank", 0),
        ("event_dropout", 1),
        ("event_dropout", -0.1),
        ("num_graph_layers", 0),
        ("value_projection", 1),
        ("edge_type_bias", 1),
        ("readout", "max"),
        ("stage", "all"),
        ("contrast_temperature", 0),
        ("contrast_temperature", float("nan")),
        ("order_weight", -0.1),
        ("replacement_weight", float("nan")),
        ("composition_weight", -1),
        ("normal_corrupted_weight", -1),
        ("corrupted_corrupted_weight", "high"),
        ("edge_drop", 1),
        ("feature_mask", float("nan")),
        ("literal_ratio", 1),
        ("training_level", "both"),
        ("predict_from", "last"),
        ("literal_first", 1),
        ("freeze_encoder", "yes"),
    )

    def head_inputs(self, model: PreTrainedModel) -> dict[str, torch.Tensor]:
        return heterevent_inputs(60 if model.config.encoder_config.vocab_size < 100 else 100)

    def loss_weights(self, config: Any) -> dict[str, float]:
        return {
            **{
                name: getattr(config, name.replace("_loss", "_weight"))
                for name in SEQUENCE_TERMS + GRAPH_TERMS
            },
            "word_loss": 1.0,
            "event_loss": 1.0,
        }

    def vector_of_text(self, model: PreTrainedModel, hidden: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Its event node in the graph of its own, whose tokens but the first and last are the predicate."""
        return _node_of_one_event(model, hidden, ids)

    def test_defaults_are_the_papers(self) -> None:
        config = HeterEventConfig()
        weights = (config.order_weight, config.replacement_weight, config.composition_weight)
        assert weights == (0.4, 0.4, 0.2)
        assert (config.normal_corrupted_weight, config.corrupted_corrupted_weight) == (0.7, 0.3)
        assert (config.num_graph_layers, config.composition, config.readout) == (3, "tensor", "mean")
        assert (config.value_projection, config.edge_type_bias) == (False, False)
        assert (config.event_dim, config.chain_dim, config.projection_dim) == (128, 256, 256)

    @pytest.mark.parametrize(
        "fields",
        [
            {"order_weight": 0, "replacement_weight": 0, "composition_weight": 0},
            {"stage": "graph", "normal_corrupted_weight": 0, "corrupted_corrupted_weight": 0},
        ],
    )
    def test_a_stage_needs_a_term(self, fields: dict[str, Any]) -> None:
        with pytest.raises(StrictDataclassError, match="are all 0"):
            HeterEventConfig(**fields)


def _node_of_one_event(model: HeterEventModel, hidden: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    composition, encoder = model.composition, model.chain_encoder
    content = hidden[1:-1]
    projected = composition.token_projection(content)
    predicate = torch.cat([projected.max(dim=0).values, projected.mean(dim=0)])
    absent = composition.absent_role
    composed = torch.einsum("ijk,j,k->i", composition.interaction.tensor, absent, predicate)
    event = composition.subject_weight(composed) + composition.object_weight(composed)
    states, _ = encoder.gru(torch.stack([event, encoder.chain_token]).unsqueeze(0))
    words = [content[ids[1:-1] == word].mean(dim=0) for word in dict.fromkeys(ids[1:-1].tolist())]
    nodes = torch.stack([states[0, 0], *(model.word_projection(word) for word in words)])
    # One event and its words: everything is joined with everything.
    for layer in model.graph_layers:
        projected_nodes = layer.attention_projection(nodes)
        pairs = torch.cat(
            [
                projected_nodes.unsqueeze(1).expand(-1, len(nodes), -1),
                projected_nodes.unsqueeze(0).expand(len(nodes), -1, -1),
            ],
            dim=-1,
        )
        attention = torch.nn.functional.leaky_relu(layer.attention(pairs).squeeze(-1), 0.2).softmax(dim=1)
        u = (attention @ nodes).sigmoid() + nodes
        gate = layer.gate(torch.cat([u, nodes], dim=-1)).sigmoid()
        nodes = gate * u.tanh() + (1 - gate) * nodes
    return nodes[0]


# The encoder


def test_vectors_of_a_chain_do_not_depend_on_the_batch(tiny_encoder_without_dropout: Path) -> None:
    model = make_head(tiny_encoder_without_dropout).eval().heterevent.double()
    inputs = event_inputs(100)
    chain_index = torch.tensor([3, 1, 1, 3, 7, 3, 1, 0, 0, 0, 2, 2, 4, 5])
    together = model(**inputs, chain_index=chain_index)
    assert together.chain_embeddings.shape == (7, SMALL["chain_dim"])
    for place, chain in enumerate(sorted(set(chain_index.tolist()))):
        rows = chain_index == chain
        alone = model(**{name: value[rows] for name, value in inputs.items()}, chain_index=chain_index[rows])
        for name in ("embeddings", "candidates"):
            torch.testing.assert_close(together[name][rows], alone[name], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(
            together.chain_embeddings[place], alone.chain_embeddings[0], rtol=1e-5, atol=1e-5
        )


def test_forward_is_made_of_its_parts(tiny_encoder_without_dropout: Path) -> None:
    model = make_head(tiny_encoder_without_dropout).eval().heterevent.double()
    inputs = event_inputs(100)
    chains = torch.tensor([[2, 5, 9, -1], [0, 1, 3, 4]])
    rows = chains[chains >= 0]
    output = model(
        **{name: value[rows] for name, value in inputs.items()},
        chain_index=torch.tensor([0, 0, 0, 1, 1, 1, 1]),
    )
    vectors = model.encode_events(**inputs)
    states, chain_states = model.encode_chains(vectors.events, chains)
    graph = build_event_graph(chains, vectors.event_words)
    nodes = model.encode_graphs(states, chains, vectors.words, vectors.event_words, graph)
    torch.testing.assert_close(output.embeddings, nodes[graph.event_nodes[chains >= 0]], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(output.chain_embeddings, chain_states, rtol=1e-5, atol=1e-5)
    candidates = model.encode_candidates(vectors.events)[rows]
    torch.testing.assert_close(output.candidates, candidates, rtol=1e-5, atol=1e-5)


def test_an_event_without_words(tiny_encoder: Path) -> None:
    """Three absent roles, and a graph of one node: the same vector for every such event."""
    model = make_head(tiny_encoder).eval().heterevent
    output = model(torch.tensor([[2, 3], [2, 9]]), torch.ones(2, 2, dtype=torch.long))
    assert torch.isfinite(output.embeddings).all()
    torch.testing.assert_close(output.embeddings[0], output.embeddings[1])


def test_all_events_equal(tiny_encoder: Path) -> None:
    """A chain of one event said again and again has one set of words, and finite losses in every stage."""
    head = make_head(tiny_encoder)
    inputs = heterevent_inputs(100)
    inputs["chains"] = inputs["chains"].clamp(max=0)
    for stage in ("sequence", "graph", "supervised"):
        assert torch.isfinite(head(**inputs, stage=stage).loss), stage


def test_chains_of_one_event(tiny_encoder: Path) -> None:
    """No other order and no segment: these terms are 0, or what is left of them, and the rest is finite."""
    head = make_head(tiny_encoder)
    inputs = heterevent_inputs(100)
    for name in ("chains", "order_corrupted", "replacement_corrupted", "segments", "corrupted_segments"):
        inputs[name] = inputs[name][..., :1]
    for name in ("order_corrupted", "segments", "corrupted_segments"):
        inputs[name] = torch.full_like(inputs[name], -1)
    inputs["target_position"] = torch.ones(CHAINS, dtype=torch.long)
    output = head(**inputs, stage="sequence")
    assert output.order_loss == 0
    assert output.composition_loss == 0
    assert output.replacement_loss > 0
    for stage in ("graph", "supervised"):
        assert torch.isfinite(head(**inputs, stage=stage).loss), stage
    # The left-out event was the whole chain: nothing is known of it.
    inputs["chains"] = torch.full_like(inputs["chains"], -1)
    assert head(**inputs, stage="supervised").event_loss == 0
    for stage in ("sequence", "graph"):
        with pytest.raises(ValueError, match="a chain has no event"):
            head(**inputs, stage=stage)


def test_fewer_layers(tiny_encoder: Path) -> None:
    """A model of two layers run with one is the model of its first layer."""
    model = make_head(tiny_encoder).eval().heterevent
    vectors = model.encode_events(**event_inputs(100))
    chains = torch.tensor([[0, 2, 3]])
    states, _ = model.encode_chains(vectors.events, chains)
    graph_inputs = (states, chains, vectors.words, vectors.event_words)
    one = model.encode_graphs(*graph_inputs, num_layers=1)
    torch.testing.assert_close(
        model.encode_graphs(*graph_inputs, num_layers=2), model.encode_graphs(*graph_inputs)
    )
    assert not torch.allclose(one, model.encode_graphs(*graph_inputs))
    del model.graph_layers[1]
    model.config.num_graph_layers = 1
    torch.testing.assert_close(model.encode_graphs(*graph_inputs), one)
    for number in (0, 2):
        with pytest.raises(ValueError, match="accepted: 1 to 1"):
            model.encode_graphs(*graph_inputs, num_layers=number)


def test_unknown_stage(tiny_encoder: Path) -> None:
    with pytest.raises(
        ValueError, match="unknown stage 'all'; accepted: masked_words, sequence, graph, supervised"
    ):
        make_head(tiny_encoder)(**heterevent_inputs(100), stage="all")


@pytest.mark.parametrize(
    ("stage", "weight", "name"),
    [
        ("sequence", "order_weight", "order_corrupted"),
        ("sequence", "replacement_weight", "replacement_corrupted"),
        ("sequence", "composition_weight", "segments"),
        ("sequence", "composition_weight", "corrupted_segments"),
        ("graph", None, "view_seeds"),
    ],
)
def test_inputs_of_a_term(tiny_encoder: Path, stage: str, weight: str | None, name: str) -> None:
    """A term needs its inputs, and one that is switched off does not."""
    inputs = heterevent_inputs(100)
    del inputs[name]
    with pytest.raises(ValueError, match=rf"missing: .*\b{name}\b"):
        make_head(tiny_encoder, stage=stage)(**inputs)
    if weight is not None:
        assert torch.isfinite(make_head(tiny_encoder, stage=stage, **{weight: 0})(**inputs).loss)


# Options


def test_every_event_is_encoded_once(tiny_encoder: Path) -> None:
    inputs = heterevent_inputs(100)
    for stage in ("sequence", "graph", "supervised"):
        head = make_head(tiny_encoder, stage=stage)
        rows = count_rows(head.heterevent.encoder)
        head(**inputs)
        assert sum(rows) == len(inputs["input_ids"])


def test_dropout_makes_two_views(tiny_encoder_without_dropout: Path) -> None:
    """In evaluation the positive is the anchor itself; in training another draw of dropout."""
    head = make_head(tiny_encoder_without_dropout, event_dropout=0.3)
    inputs = heterevent_inputs(100)
    found = {}
    for training in (False, True):
        head.train(training)
        seen = []
        original = head.heterevent.chain_encoder.chain_states

        def kept(
            events: torch.Tensor, chains: torch.Tensor, seen: list[Any] = seen, original: Any = original
        ) -> Any:
            states = original(events, chains)
            seen.append(states)
            return states

        head.heterevent.chain_encoder.chain_states = kept
        head(**inputs)
        head.heterevent.chain_encoder.chain_states = original
        found[training] = seen[0][: 2 * CHAINS].unflatten(0, (2, CHAINS))
    anchor, positive = found[False]
    assert torch.equal(anchor, positive)
    anchor, positive = found[True]
    assert (torch.cosine_similarity(anchor, positive, dim=-1) < 0.999).all()


def test_every_option_changes_its_loss(tiny_encoder: Path) -> None:
    inputs = heterevent_inputs(100)
    for stage, options in {
        "sequence": [{}, {"composition": "low_rank"}, {"contrast_temperature": 0.5}, {"literal_ratio": True}],
        "graph": [
            {},
            {"readout": "sum"},
            {"edge_drop": 0.5},
            {"feature_mask": 0.5},
            {"value_projection": True},
            {"edge_type_bias": True},
            {"literal_ratio": True},
        ],
        "supervised": [{}, {"predict_from": "neighbours"}, {"literal_first": True}],
    }.items():
        values = [
            round(_noisy(make_head(tiny_encoder, stage=stage, **fields)).eval()(**inputs).loss.item(), 5)
            for fields in options
        ]
        assert len(set(values)) == len(options), (stage, values)


def _noisy(head: HeterEventForPreTraining) -> HeterEventForPreTraining:
    """Move what starts at 0 or at the identity."""
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            if name.endswith("edge_type_bias.weight"):
                parameter.copy_(torch.arange(4.0).unsqueeze(1))
    return head


def test_frozen_encoder(tiny_encoder: Path) -> None:
    """No gradient and no dropout in the encoder, whose pass is then the same every time; the rest learns."""
    head = make_head(tiny_encoder, freeze_encoder=True, stage="supervised").train()
    assert not any(module.training for module in head.heterevent.encoder.modules())
    assert head.training
    assert head.heterevent.graph_layers.training
    inputs = heterevent_inputs(100)
    first, second = (head(**inputs).loss for _ in range(2))
    assert torch.equal(first, second)
    first.backward()
    for name, parameter in head.named_parameters():
        of_encoder = ".encoder." in name
        assert parameter.requires_grad != of_encoder, name
        assert (parameter.grad is None) == of_encoder, name
    assert not head.heterevent(inputs["input_ids"]).last_hidden_state.requires_grad


def test_frozen_encoder_is_loaded_frozen(tiny_encoder: Path, tmp_path: Path) -> None:
    make_head(tiny_encoder, freeze_encoder=True).save_pretrained(tmp_path)
    loaded = HeterEventForPreTraining.from_pretrained(tmp_path).train()
    assert not any(parameter.requires_grad for parameter in loaded.heterevent.encoder.parameters())
    assert not loaded.heterevent.encoder.training
    thawed = HeterEventForPreTraining.from_pretrained(tmp_path, freeze_encoder=False).train()
    assert all(parameter.requires_grad for parameter in thawed.parameters())
    assert thawed.heterevent.encoder.training


def test_one_stage_goes_on_from_another(tiny_encoder: Path, tmp_path: Path) -> None:
    """Each stage is a checkpoint that the next one, and the choice, start from."""
    head = make_head(tiny_encoder)
    head.save_pretrained(tmp_path)
    for fields in ({"stage": "graph"}, {"stage": "supervised", "predict_from": "neighbours"}):
        loaded, report = HeterEventForPreTraining.from_pretrained(
            tmp_path, output_loading_info=True, **fields
        )
        assert loaded.config.stage == fields["stage"]
        new = {"next_event.weight", "previous_event.weight"} if "predict_from" in fields else set()
        assert set(report["missing_keys"]) == new
        for name, value in head.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], value), name
    if new:
        assert torch.equal(loaded.next_event.weight, torch.eye(SMALL["chain_dim"]))
    _, report = HeterEventForMultipleChoice.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]


def test_the_first_and_last_tokens_of_a_decoder_are_words(tiny_qwen3: Path) -> None:
    head = make_head(tiny_qwen3, stage="supervised").eval()
    inputs = heterevent_inputs(head.config.encoder_config.vocab_size)
    mask = inputs["attention_mask"]
    # Numbers of words are then token ids.
    del inputs["word_index"], inputs["word_keys"]
    of_tokens = words_of_tokens(inputs["input_ids"], mask, special_ends=False)
    expected = head(**inputs, word_index=of_tokens).word_loss
    torch.testing.assert_close(head(**inputs).word_loss, expected)
