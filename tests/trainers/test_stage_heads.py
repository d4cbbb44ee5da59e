"""Heads of stages: dropout, the cache of a frozen encoder, and shares of the initial weights."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from heterevent_inputs import heterevent_inputs
from short_runs import short_run
from torch import nn
from transformers import AutoModel, BertConfig, BertModel, ModernBertConfig, ModernBertModel

from eventformers import SwccForPreTraining
from eventformers.errors import EventformersError
from eventformers.loading.encoders import resolve_encoder
from eventformers.models.modeling_heterevent import HeterEventForPreTraining
from eventformers.trainers.adapters import add_adapters, average_with_start
from eventformers.trainers.run import TrainingRun
from eventformers.trainers.stage_heads import (
    CachedEncoding,
    average_into,
    cache_encoder,
    encoder_weights,
    set_dropout,
)

_SIZES = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
_IDS = torch.tensor([[2, 7, 9, 4, 3]])
ENCODERS = {
    "bert": lambda share: BertModel(
        BertConfig(
            **_SIZES, intermediate_size=32, hidden_dropout_prob=share, attention_probs_dropout_prob=share
        )
    ),
    "modernbert": lambda share: ModernBertModel(
        ModernBertConfig(
            **_SIZES,
            intermediate_size=32,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            cls_token_id=1,
            sep_token_id=2,
            embedding_dropout=share,
            attention_dropout=share,
            mlp_dropout=share,
        )
    ),
}


def _is_random(encoder: nn.Module) -> bool:
    encoder.train()
    first, second = (encoder(input_ids=_IDS).last_hidden_state for _ in range(2))
    return not torch.equal(first, second)


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_all_of_it(name: str, attention: str) -> None:
    """That of attention, too, with both ways to compute it."""
    torch.manual_seed(0)
    encoder = ENCODERS[name](0.3)
    encoder.set_attn_implementation(attention)
    assert _is_random(encoder)
    set_dropout([encoder], 0.0)
    assert not _is_random(encoder)
    set_dropout([encoder], 0.5)
    assert _is_random(encoder)
    as_built = ENCODERS[name](0.5)
    as_built.load_state_dict(encoder.state_dict())
    torch.manual_seed(1)
    expected = as_built.train()(input_ids=_IDS).last_hidden_state
    torch.manual_seed(1)
    torch.testing.assert_close(encoder(input_ids=_IDS).last_hidden_state, expected)


def test_what_is_refused() -> None:
    without = nn.Linear(2, 2)
    set_dropout([without], 0.0)
    with pytest.raises(EventformersError, match=r"Linear has no dropout; accepted: 0 or null"):
        set_dropout([nn.Dropout(), without], 0.1)


def _run_with_dropout(encoder: Path, output: Path, *settings: str, data: str | None = None) -> TrainingRun:
    quick = Path(__file__).with_name("quick_event_grounding.yaml")
    return short_run(
        "event_grounding", encoder, output, "max_steps=1", *settings, recipe=quick, seed=3, data=data
    )


def test_a_share_is_refused_before_data_are_read(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"setting encoder_dropout: found 1\.5"):
        _run_with_dropout(tiny_encoder, tmp_path, "encoder_dropout=1.5", data=str(tmp_path / "nowhere"))


def test_a_run(tiny_encoder: Path, tmp_path: Path) -> None:
    """Both towers; the configuration keeps the encoder's own dropout."""
    model = _run_with_dropout(tiny_encoder, tmp_path, "encoder_dropout=0.25", "share_towers=false").model
    for encoder in model.text_encoders():
        assert {module.p for module in encoder.modules() if isinstance(module, nn.Dropout)} == {0.25}
    assert len(model.text_encoders()) == 2
    own = AutoModel.from_pretrained(tiny_encoder).config.hidden_dropout_prob
    assert model.config.encoder_config.hidden_dropout_prob == own != 0.25


class Counting:
    """An encoder of 3 entries a token, which counts the rows that it is asked for."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(
        self, groups: list[tuple[torch.Tensor, torch.Tensor]]
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        [(ids, mask)] = groups
        self.rows += len(ids)
        place = torch.arange(ids.shape[1]).expand_as(ids)
        return [(torch.stack([ids, place, ids.sum(1, keepdim=True).expand_as(ids)], -1).float(), mask)]


IDS = torch.tensor([[5, 6, 0, 0], [7, 0, 0, 0], [5, 6, 8, 9], [5, 6, 0, 0]])
MASK = (IDS > 0).long()


def expected(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    [(hidden, _)] = Counting()([(ids, mask)])
    return hidden.masked_fill(mask.unsqueeze(-1) == 0, 0)


@pytest.mark.parametrize("max_tokens", [100, 7, 3, 1], ids=["all", "exactly", "some", "none"])
def test_vectors_are_those_of_the_encoder(max_tokens: int) -> None:
    encoder = Counting()
    cached = CachedEncoding(encoder, max_tokens, 3)
    for _ in range(3):
        [(hidden, mask), (second, _)] = cached([(IDS, MASK), (IDS[1:2, :2], MASK[1:2, :2])])
        assert torch.equal(hidden, expected(IDS, MASK))
        assert torch.equal(second, expected(IDS[1:2], MASK[1:2]))
        assert torch.equal(mask, MASK)
    # Five rows at first; later those that were not held.
    assert encoder.rows == {100: 5, 7: 5, 3: 7, 1: 15}[max_tokens]


def test_texts_are_known_in_another_width() -> None:
    encoder = Counting()
    cached = CachedEncoding(encoder, 100, 3)
    cached([(IDS, MASK)])
    [(hidden, _)] = cached([(IDS[:2, :2], MASK[:2, :2])])
    assert encoder.rows == 4
    assert torch.equal(hidden, expected(IDS, MASK)[:2, :2])


def test_a_text_has_the_same_vectors_before_and_after_it_is_cached() -> None:
    """Also where half precision rounds them, with room in the cache and without."""

    def thirds(groups: Any) -> Any:
        return [(ids.unsqueeze(-1).expand(*ids.shape, 3) / 3, mask) for ids, mask in groups]

    for max_tokens in (100, 3):
        cached = CachedEncoding(thirds, max_tokens, 3)
        [(first, _)], [(second, _)] = (cached([(IDS, MASK)]) for _ in range(2))
        assert torch.equal(first, second)


@pytest.mark.parametrize("lowers", [False, True], ids=["float32", "bfloat16"])
def test_held_vectors_grow(lowers: bool) -> None:
    cached = CachedEncoding(Counting(), 100, 3)
    with torch.autocast("cpu", torch.bfloat16, enabled=lowers):
        for row in range(len(IDS)):
            cached([(IDS[row : row + 1], MASK[row : row + 1])])
        [(hidden, _)] = cached([(IDS, MASK)])
    assert torch.equal(hidden, expected(IDS, MASK))


def test_losses_with_and_without(tiny_encoder: Path) -> None:
    torch.manual_seed(0)
    head = HeterEventForPreTraining.from_encoder(
        str(tiny_encoder), event_dim=16, chain_dim=16, freeze_encoder=True, event_dropout=0.0
    )
    inputs = heterevent_inputs(head.config.encoder_config.vocab_size)
    plain = {stage: head(**inputs, stage=stage).loss for stage in ("sequence", "graph", "supervised")}
    cache_encoder(head, 1000)
    for _ in range(2):
        for stage, loss in plain.items():
            torch.testing.assert_close(head(**inputs, stage=stage).loss, loss, rtol=2e-3, atol=1e-3)
    assert "encode_together" not in head.state_dict()


def test_an_encoder_that_trains(tiny_encoder: Path) -> None:
    head = HeterEventForPreTraining.from_encoder(str(tiny_encoder), event_dim=16, chain_dim=16)
    with pytest.raises(EventformersError, match="freeze_encoder=true"):
        cache_encoder(head, 100)


QUICK = ("max_steps=2", "per_device_train_batch_size=4", "frozen_modules=null", "warmup_steps=0")


@pytest.mark.parametrize("share", [-0.5, 0.0, 0.25, 1.0])
def test_moves_between_start_and_end_or_beyond(share: float) -> None:
    encoder = nn.Linear(3, 2)
    model: Any = SimpleNamespace(text_encoders=lambda: [encoder])
    start = encoder_weights(model)
    before = encoder.weight.detach().clone()
    with torch.no_grad():
        encoder.weight.add_(4.0)
    average_into(model, start, share)
    torch.testing.assert_close(encoder.weight, before + 4.0 * (1 - share))


def _run_with_share(encoder: Path, output: Path, *settings: str, lora: bool = False) -> TrainingRun:
    return short_run("mico", encoder, output, *QUICK, *settings, seed=3, lora=lora)


@pytest.mark.parametrize("lora", [False, True], ids=["whole", "lora"])
def test_a_run_saves_the_average(tiny_encoder: Path, tmp_path: Path, lora: bool) -> None:
    start = AutoModel.from_pretrained(resolve_encoder(str(tiny_encoder))).state_dict()
    runs = [
        _run_with_share(tiny_encoder, tmp_path / str(share), f"start_weight_share={share}", lora=lora)
        for share in (0.0, 0.5)
    ]
    end, half = (run.model.base_model.encoder.state_dict() for run in runs)
    for name, value in half.items():
        torch.testing.assert_close(value, (start[name] + end[name]) / 2, msg=name)
    assert any(not torch.equal(end[name], value) for name, value in start.items() if name in end)


def test_refused_settings(tiny_encoder: Path, tmp_path: Path) -> None:
    for share in ("1.0", "-1.5"):
        with pytest.raises(EventformersError, match=rf"start_weight_share: found {share}; accepted"):
            _run_with_share(tiny_encoder, tmp_path, f"start_weight_share={share}")


def test_learned_tokens_are_averaged_under_lora(tiny_encoder: Path) -> None:
    head = SwccForPreTraining.from_encoder(str(tiny_encoder), added_token_ids=[7, 9])
    table = head.get_input_embeddings().weight.detach().clone()
    model = add_adapters(head, "tiny")
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "trainable_tokens_delta" in name:
                value.add_(4.0)
    average_with_start(model, 0.25)
    merged = model.merge_and_unload().get_input_embeddings().weight
    expected = table.clone()
    expected[[7, 9]] += 3.0
    torch.testing.assert_close(merged, expected)
