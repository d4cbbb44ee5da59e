"""MICO's contrast at known values, and what each of its options may change."""

from __future__ import annotations

import math

import pytest
import torch

from eventformers.models.losses import info_nce, multi_alternative_contrast

BATCH, ALTERNATIVES, SIZE = 4, 3, 8
TEMPERATURE = 0.3


def _random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


PREMISE = _random(BATCH, SIZE, seed=1)
ALTERNATIVE = _random(BATCH, ALTERNATIVES, SIZE, seed=2)
EQUAL = torch.ones(BATCH, SIZE, dtype=torch.float64)
OWN_COSINES = torch.nn.functional.cosine_similarity(PREMISE.unsqueeze(1), ALTERNATIVE, dim=-1)


def test_one_alternative_is_info_nce() -> None:
    """Eq. 4."""
    torch.testing.assert_close(
        multi_alternative_contrast(PREMISE, ALTERNATIVE[:, :1], TEMPERATURE),
        info_nce(PREMISE, ALTERNATIVE[:, 0], TEMPERATURE),
    )


@pytest.mark.parametrize("temperature", [0.07, 1.0])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_equal_scores(count: int, temperature: float) -> None:
    """Log of one positive and the alternatives of the other rows, whatever the temperature."""
    alternatives = EQUAL.unsqueeze(1).expand(-1, count, -1)
    value = multi_alternative_contrast(EQUAL, alternatives, temperature).item()
    assert value == pytest.approx(math.log(1 + count * (BATCH - 1)))


def test_the_positive_is_the_least_similar_alternative() -> None:
    """Eq. 5."""
    hardest = OWN_COSINES.argmin(dim=1)
    assert len(set(hardest.tolist())) > 1
    value = multi_alternative_contrast(PREMISE, ALTERNATIVE, TEMPERATURE)
    torch.testing.assert_close(
        value, multi_alternative_contrast(PREMISE, ALTERNATIVE, TEMPERATURE, chosen=hardest)
    )
    for place in range(ALTERNATIVES):
        chosen = torch.full((BATCH,), place)
        assert value > multi_alternative_contrast(PREMISE, ALTERNATIVE, TEMPERATURE, chosen=chosen)


def test_other_alternatives_of_a_row_are_neither_positive_nor_negative() -> None:
    """Eq. 6: of a single row nothing is left to be told apart."""
    assert multi_alternative_contrast(PREMISE[:1], ALTERNATIVE[:1], TEMPERATURE).item() == 0.0
    chosen = torch.zeros(BATCH, dtype=torch.long)
    moved = ALTERNATIVE.clone()
    # Row 0 meets its own others nowhere, and so does not see them turn round.
    moved[0, 1:] = -moved[0, 1:]
    torch.testing.assert_close(
        _gradient_of_first_premise(moved, chosen), _gradient_of_first_premise(ALTERNATIVE, chosen)
    )


def _gradient_of_first_premise(alternatives: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    premise = PREMISE.clone().requires_grad_()
    multi_alternative_contrast(premise, alternatives, TEMPERATURE, chosen=chosen).backward()
    assert premise.grad is not None
    return premise.grad[0]


def test_zero_logits_of_the_released_code_add_one_each() -> None:
    cosines = [
        [float(torch.nn.functional.cosine_similarity(PREMISE[i], ALTERNATIVE[j, o], dim=0)) for o in (0, 1)]
        for i in range(2)
        for j in range(2)
    ]
    total = 0.0
    for i in range(2):
        positive = math.exp(min(cosines[2 * i + i]) / TEMPERATURE)
        others = sum(math.exp(value / TEMPERATURE) for value in cosines[2 * i + 1 - i])
        total -= math.log(positive / (positive + others + 1.0)) / 2
    value = multi_alternative_contrast(
        PREMISE[:2], ALTERNATIVE[:2, :2], TEMPERATURE, own_alternatives="zero_logit"
    )
    assert value.item() == pytest.approx(total)
    # One premise with k alternatives: its positive against k - 1 logits of 0.
    single = multi_alternative_contrast(
        EQUAL[:1], EQUAL[:1].unsqueeze(1).expand(-1, 4, -1), 1.0, own_alternatives="zero_logit"
    )
    assert single.item() == pytest.approx(-math.log(math.e / (math.e + 3)))


def test_where_everything_is_known_nothing_is_to_be_learned() -> None:
    premise = PREMISE.clone().requires_grad_()
    known = torch.ones(BATCH, BATCH, ALTERNATIVES, dtype=torch.bool)
    loss = multi_alternative_contrast(premise, ALTERNATIVE, TEMPERATURE, known)
    loss.backward()
    assert loss.item() == 0.0
    assert premise.grad is not None
    assert (premise.grad == 0).all()


def test_frequency_is_taken_off_every_logit() -> None:
    """Of equal cosines, the share of an alternative in the softmax is one over its frequency."""
    frequency = torch.tensor([[1.0, 2.0], [4.0, 8.0], [1.0, 16.0], [2.0, 2.0]], dtype=torch.float64)
    alternatives = EQUAL.unsqueeze(1).expand(-1, 2, -1)
    value = multi_alternative_contrast(EQUAL, alternatives, 0.5, log_frequency=frequency.log())
    share = 1 / frequency
    expected = [
        -math.log(share[row, 0] / (share[row, 0] + share.sum() - share[row].sum())) for row in range(BATCH)
    ]
    assert value.item() == pytest.approx(sum(expected) / BATCH)


def test_frequency_does_not_change_which_alternative_is_hardest() -> None:
    alternatives = ALTERNATIVE.clone().requires_grad_()
    rare = torch.where(OWN_COSINES.amax(dim=1, keepdim=True) == OWN_COSINES, 9.0, 0.0)
    others = torch.eye(BATCH, dtype=torch.bool).unsqueeze(-1).expand(-1, -1, ALTERNATIVES).logical_not()
    loss = multi_alternative_contrast(
        PREMISE, alternatives, TEMPERATURE, others, own_alternatives="zero_logit", log_frequency=rare
    )
    reached = torch.autograd.grad(loss, alternatives)[0].abs().sum(dim=-1) > 0
    assert reached.nonzero()[:, 1].tolist() == OWN_COSINES.argmin(dim=1).tolist()
