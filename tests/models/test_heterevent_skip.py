"""What HeterEvent has beyond the paper.

The encoder's own vectors beside the tensor, a gate that starts closed, segments against the rest of a chain.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from heterevent_inputs import SMALL, event_inputs, heterevent_inputs, make_head
from huggingface_hub.errors import StrictDataclassError
from torch.nn.functional import normalize

from eventformers.models.chain_encoder import ChainEncoder
from eventformers.models.event_composition import SkipProjection, mean_pool
from eventformers.models.heterevent_stages import chains_without
from eventformers.models.losses import chain_contrast
from eventformers.models.modeling_heterevent import HeterEventForPreTraining, HeterEventModel

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
