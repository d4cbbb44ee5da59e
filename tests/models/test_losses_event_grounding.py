"""Losses of hierarchical event grounding against slow versions, at known values, and with hostile numbers."""

from __future__ import annotations

import math

import pytest
import slow_losses
import torch
from loss_case import LossCase, LossTests, random_numbers

from eventformers.models import grounding_losses
from eventformers.models.losses import (
    candidate_contrast,
    candidate_loss,
    first_places,
    gold_pairs,
    hierarchy_loss,
    hierarchy_score,
    linking_contrast,
    linking_loss,
)

SIZE, MENTIONS, EVENTS = 4, 3, 5
IDS = torch.tensor([7, 2, 7, 0, 5])
GOLD_IDS = torch.tensor([[7, 5, -1], [2, -1, -1], [0, 2, 9]])
GOLD = torch.tensor(
    [[True, False, True, False, True], [False, True, False, False, False], [False, True, False, True, False]]
)


_SCORES = {"scores": 2 * random_numbers(MENTIONS, EVENTS, seed=1)}
_VECTORS = {
    "mentions": random_numbers(MENTIONS, SIZE, seed=2),
    "events": random_numbers(EVENTS, SIZE, seed=3),
}
_COMPLEX = {
    "parents_real": random_numbers(MENTIONS, SIZE, seed=4),
    "parents_imag": random_numbers(MENTIONS, SIZE, seed=5),
    "children_real": random_numbers(EVENTS, SIZE, seed=6),
    "children_imag": random_numbers(EVENTS, SIZE, seed=7),
    "relation": random_numbers(SIZE, seed=8),
}
PRESENT = torch.ones_like(GOLD)
DISTINCT = first_places(IDS)
PRESENT[0, 0] = PRESENT[2, 2:] = False
CASES = {
    "candidate_loss": LossCase("candidate_loss", _SCORES, {"gold": GOLD}),
    "candidate_loss-absent": LossCase("candidate_loss", _SCORES, {"gold": GOLD, "present": PRESENT}),
    "linking_loss": LossCase("linking_loss", _VECTORS, {"gold": GOLD}),
    "linking_loss-scaled": LossCase(
        "linking_loss",
        {
            **_VECTORS,
            "scale": torch.tensor(0.3, dtype=torch.float64),
            "bias": torch.tensor(-1.5, dtype=torch.float64),
        },
        {"gold": GOLD},
    ),
    "linking_loss-normalised": LossCase(
        "linking_loss",
        {**_VECTORS, "scale": torch.tensor(7.0, dtype=torch.float64)},
        {"gold": GOLD, "normalise": True},
    ),
    "candidate_contrast": LossCase("candidate_contrast", _SCORES, {"gold": GOLD, "present": PRESENT}),
    "linking_contrast": LossCase("linking_contrast", _VECTORS, {"gold": GOLD, "distinct": DISTINCT}),
    "linking_contrast-normalised": LossCase(
        "linking_contrast",
        {**_VECTORS, "scale": torch.tensor(7.0, dtype=torch.float64)},
        {"gold": GOLD, "distinct": DISTINCT, "normalise": True},
    ),
    "linking_contrast-all-gold": LossCase(
        "linking_contrast", _VECTORS, {"gold": torch.ones_like(GOLD), "distinct": DISTINCT}
    ),
    "linking_contrast-none-gold": LossCase(
        "linking_contrast", _VECTORS, {"gold": torch.zeros_like(GOLD), "distinct": DISTINCT}
    ),
    "hierarchy_score": LossCase("hierarchy_score", _COMPLEX),
    "hierarchy_score-full": LossCase(
        "hierarchy_score", {**_COMPLEX, "relation_real": random_numbers(SIZE, seed=9)}
    ),
    "hierarchy_loss": LossCase("hierarchy_loss", _SCORES, {"is_child": GOLD}),
}


class TestLosses(LossTests):
    cases = CASES
    equations = grounding_losses
    slow = slow_losses
    without_numbers = frozenset({"gold_pairs", "first_places"})


def test_every_gold_event_of_the_batch_is_a_positive() -> None:
    """Event 7 stands in the batch twice, and event 2 is gold of two mentions."""
    assert torch.equal(gold_pairs(IDS, GOLD_IDS), GOLD)
    assert slow_losses.slow_gold_pairs(IDS.tolist(), GOLD_IDS.tolist()) == GOLD.tolist()


def test_contrast_of_two_equal_scores() -> None:
    """A gold candidate as good as the only wrong one costs log 2; an absent one costs nothing."""
    scores = torch.tensor([[1.0, 1.0, -math.inf], [0.0, 9.0, 2.0]], requires_grad=True)
    gold = torch.tensor([[True, False, False], [False, False, False]])
    loss = candidate_contrast(scores, gold, scores > -math.inf)
    assert loss.item() == pytest.approx(math.log(2))
    loss.backward()
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad, torch.tensor([[-0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]))


def test_an_event_counts_once() -> None:
    """Event 7 stands in the batch twice; its second place changes nothing."""
    assert DISTINCT.tolist() == [
        event not in IDS.tolist()[:place] for place, event in enumerate(IDS.tolist())
    ]
    assert first_places(torch.tensor([4, 4, 4])).tolist() == [True, False, False]
    once = linking_contrast(_VECTORS["mentions"], _VECTORS["events"], GOLD, DISTINCT)
    kept = linking_contrast(
        _VECTORS["mentions"], _VECTORS["events"][DISTINCT], GOLD[:, DISTINCT], DISTINCT[DISTINCT]
    )
    torch.testing.assert_close(once, kept)


def test_scores_of_zero() -> None:
    """At sigmoid 1/2 every pair costs log 2: a mean for linking, a sum for a parent."""
    zeros = torch.zeros(MENTIONS, EVENTS, dtype=torch.float64)
    assert candidate_loss(zeros, GOLD).item() == pytest.approx(math.log(2))
    assert linking_loss(zeros[:, :2], zeros[:1, :2], GOLD[:, :1]).item() == pytest.approx(math.log(2))
    assert hierarchy_loss(zeros, GOLD).item() == pytest.approx(EVENTS * math.log(2))


def test_absent_candidates_play_no_part() -> None:
    hostile = _SCORES["scores"].masked_fill(~PRESENT, float("-inf")).requires_grad_()
    value = candidate_loss(hostile, GOLD, present=PRESENT)
    value.backward()
    torch.testing.assert_close(value.detach(), CASES["candidate_loss-absent"]())
    assert hostile.grad is not None
    assert torch.isfinite(hostile.grad).all()
    assert not hostile.grad[~PRESENT].any()


def test_nothing_gold_and_nothing_there() -> None:
    none = torch.zeros_like(GOLD)
    assert torch.isfinite(candidate_loss(_SCORES["scores"], none))
    assert candidate_loss(_SCORES["scores"], GOLD, present=none).item() == 0.0


def test_known_score() -> None:
    """One dimension: parent 2 + 3i, child 5 + 7i, relation 11i."""
    parts = [torch.tensor([[value]]) for value in (2.0, 3.0, 5.0, 7.0)]
    relation = torch.tensor([11.0])
    assert hierarchy_score(*parts, relation).item() == 11 * (3 * 5 - 2 * 7)
    both = hierarchy_score(*parts, relation, torch.tensor([13.0]))
    assert both.item() == 11 * (3 * 5 - 2 * 7) + 13 * (2 * 5 + 3 * 7)


def test_score_is_antisymmetric() -> None:
    """Parent and child exchanged turn the sign; an event with itself has 0."""
    parents, children = (
        (_COMPLEX[f"{side}_real"], _COMPLEX[f"{side}_imag"]) for side in ("parents", "children")
    )
    relation = _COMPLEX["relation"]
    torch.testing.assert_close(
        hierarchy_score(*parents, *children, relation), -hierarchy_score(*children, *parents, relation).T
    )
    among = hierarchy_score(*children, *children, relation)
    torch.testing.assert_close(among.diagonal(), torch.zeros(EVENTS, dtype=torch.float64))


def test_large_scores_stay_finite() -> None:
    scores = torch.full((MENTIONS, EVENTS), 1e4, requires_grad=True)
    for sign in (1, -1):
        for loss in (candidate_loss, hierarchy_loss):
            value = loss(sign * scores, GOLD)
            value.backward()
            assert torch.isfinite(value)
            assert torch.isfinite(scores.grad).all()
