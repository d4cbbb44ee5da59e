"""Losses of event type induction against slow versions, at known values, and with hostile numbers."""

from __future__ import annotations

import math

import pytest
import slow_losses
import torch
from loss_case import LossCase, LossTests, random_numbers

from eventformers.models import type_losses
from eventformers.models.losses import (
    log_absence,
    masked_pair_loss,
    noisy_or_loss,
    pair_targets,
    type_alignment,
)
from eventformers.models.modeling_event_type_induction import batch_attention

SIZE = 4
TYPES = torch.tensor([0, 2, -1, 0, -1, 2])
SEEN = TYPES >= 0
BATCH = len(TYPES)


_PAIR = {"query": 2 * random_numbers(BATCH, SIZE, seed=1), "key": 2 * random_numbers(BATCH, SIZE, seed=2)}
_ALIGNED = {"clustered": random_numbers(BATCH, SIZE, seed=3), "targets": random_numbers(BATCH, SIZE, seed=4)}
_AT = {"type_ids": TYPES, "margin": 0.5}
_TOKENS = torch.tensor([[True, True, False], [False, True, True], [True, False, False]])
_TOLD = torch.tensor([[True, False], [False, False], [True, True]])
_ABSENCE = -random_numbers(3, 2, seed=7).exp()
CASES = {
    "masked_pair_loss": LossCase("masked_pair_loss", _PAIR, _AT),
    "masked_pair_loss-wide-margin": LossCase("masked_pair_loss", _PAIR, {**_AT, "margin": 0.9}),
    "masked_pair_loss-no-margin": LossCase("masked_pair_loss", _PAIR, {**_AT, "margin": 0}),
    "masked_pair_loss-printed-diagonal": LossCase(
        "masked_pair_loss", _PAIR, {**_AT, "unseen_diagonal": False}
    ),
    "masked_pair_loss-bias": LossCase(
        "masked_pair_loss", {**_PAIR, "bias": torch.tensor(-1.5, dtype=torch.float64)}, _AT
    ),
    "masked_pair_loss-all-seen": LossCase("masked_pair_loss", _PAIR, {**_AT, "type_ids": TYPES.clamp(min=0)}),
    "masked_pair_loss-none-seen": LossCase(
        "masked_pair_loss", _PAIR, {**_AT, "type_ids": torch.full_like(TYPES, -1)}
    ),
    "frame_contrast": LossCase(
        "frame_contrast",
        {"examples": random_numbers(BATCH, SIZE, seed=8), "definitions": random_numbers(BATCH, SIZE, seed=9)},
        {"frame_ids": torch.tensor([3, 1, 3, 0, 7, 1]), "temperature": 0.5},
    ),
    "type_alignment": LossCase("type_alignment", _ALIGNED, {"seen": SEEN}),
    "log_absence": LossCase(
        "log_absence", {"scores": 3 * random_numbers(3, 3, 3, seed=6)}, {"token_mask": _TOKENS}
    ),
    "noisy_or_loss": LossCase("noisy_or_loss", {"absence": _ABSENCE}, {"present": _TOLD}),
}


class TestLosses(LossTests):
    cases = CASES
    equations = type_losses
    slow = slow_losses
    without_numbers = frozenset({"pair_targets"})


@pytest.mark.parametrize("unseen_diagonal", [True, False])
def test_pair_targets_equal_the_slow_version(unseen_diagonal: bool) -> None:
    found = pair_targets(TYPES, unseen_diagonal=unseen_diagonal)
    expected = slow_losses.slow_pair_targets(TYPES.tolist(), unseen_diagonal)
    assert [part.tolist() for part in found] == expected


def test_batch_attention_equals_the_slow_version() -> None:
    values = {**_PAIR, "embeddings": random_numbers(BATCH, SIZE, seed=5)}
    expected = slow_losses.slow_batch_attention(**{name: rows.tolist() for name, rows in values.items()})
    torch.testing.assert_close(
        batch_attention(**values), torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-12
    )


def test_which_pairs_count() -> None:
    """Two mentions of one seen type, one of another, two unseen."""
    targets, known = pair_targets(torch.tensor([7, 7, 3, -1, -1]))
    assert targets.int().tolist() == [
        [1, 1, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1],
    ]
    assert (~known).nonzero().tolist() == [[3, 4], [4, 3]]


def test_scores_of_zero() -> None:
    """At sigmoid 1/2 every known pair costs log 2, unless the margin is above."""
    zeros = torch.zeros(5, SIZE, dtype=torch.float64)
    types = torch.tensor([7, 7, 3, -1, -1])
    at_half = masked_pair_loss(zeros, zeros, types, 0.5).item()
    assert at_half == pytest.approx(math.log(2) * 23 / 25)
    above = masked_pair_loss(zeros, zeros, types, 0.51).item()
    assert above == pytest.approx(math.log(2) * 7 / 25)


def test_nothing_kept_costs_nothing() -> None:
    types = torch.full_like(TYPES, -1)
    value = masked_pair_loss(**_PAIR, type_ids=types, margin=0.5, unseen_diagonal=False)
    assert value.item() == 0.0


def test_large_scores_stay_finite() -> None:
    query = torch.full((BATCH, SIZE), 100.0, requires_grad=True)
    for sign in (1, -1):
        value = masked_pair_loss(query, sign * query, TYPES, 0.0)
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(query.grad).all()


def test_alignment_at_its_bounds() -> None:
    vectors = _ALIGNED["clustered"]
    assert type_alignment(vectors, 3 * vectors, SEEN).item() == pytest.approx(0.0, abs=1e-12)
    assert type_alignment(vectors, -vectors, SEEN).item() == pytest.approx(2 * 4 / 6)
    assert type_alignment(vectors, -vectors, torch.zeros_like(SEEN)).item() == 0.0


def test_alignment_does_not_read_targets_of_unseen_rows() -> None:
    targets = _ALIGNED["targets"].clone()
    targets[~SEEN] = float("nan")
    clustered = _ALIGNED["clustered"].clone().requires_grad_()
    type_alignment(clustered, targets, SEEN).backward()
    torch.testing.assert_close(
        type_alignment(_ALIGNED["clustered"], targets, SEEN), CASES["type_alignment"]()
    )
    assert clustered.grad is not None
    assert torch.isfinite(clustered.grad).all()


def test_absence_of_two_tokens() -> None:
    """Each of two tokens is equally likely to carry the one class or nothing: a quarter is left."""
    absence = log_absence(torch.zeros(1, 3, 2), torch.tensor([[True, True, False]]))
    assert absence.item() == pytest.approx(math.log(0.25))
    assert noisy_or_loss(absence, torch.tensor([[True]])).item() == pytest.approx(-math.log(0.75))
    assert noisy_or_loss(absence, torch.tensor([[False]])).item() == pytest.approx(-math.log(0.25))


@pytest.mark.parametrize("score", [60.0, -60.0])
@pytest.mark.parametrize("told", [True, False])
def test_certain_tokens_stay_finite(score: float, told: bool) -> None:
    """A sentence without a token, too, whether or not it is said to tell of something."""
    scores = torch.tensor([[[score, 0.0]], [[score, 0.0]]], requires_grad=True)
    absence = log_absence(scores, torch.tensor([[True], [False]]))
    value = noisy_or_loss(absence, torch.full((2, 1), told))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(scores.grad).all()


def test_an_improbable_class_that_is_told_has_a_gradient() -> None:
    scores = torch.tensor([[[-30.0, 0.0]]], requires_grad=True)
    noisy_or_loss(log_absence(scores, torch.tensor([[True]])), torch.tensor([[True]])).backward()
    assert scores.grad[0, 0, 0].item() == pytest.approx(-1.0, rel=1e-3)
