"""Token vectors that are computed once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from heterevent_inputs import heterevent_inputs

from eventformers.errors import EventformersError
from eventformers.models.modeling_heterevent import HeterEventForPreTraining
from eventformers.trainers.stage_heads import CachedEncoding, cache_encoder


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


@pytest.mark.parametrize("lowers", [False, True], ids=["float32", "bfloat16"])
def test_held_vectors_grow(monkeypatch: pytest.MonkeyPatch, lowers: bool) -> None:
    monkeypatch.setattr("eventformers.trainers.stage_heads._BLOCK_TOKENS", 2)
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
