"""Every loss against a slow version in plain Python, known values, its gradient, and hostile numbers."""

from __future__ import annotations

import math
from itertools import cycle

import pytest
import slow_losses
import torch
from loss_case import LossCase, VectorLossTests, random_numbers
from slow_losses import slow_sinkhorn

from eventformers.models import commonsense_losses, event_losses, losses

BATCH, SIZE, NEGATIVES, PROTOTYPES, ALTERNATIVES = 5, 4, 3, 6, 3


def _mask(*shape: int, seed: int) -> torch.Tensor:
    return random_numbers(*shape, seed=seed) > 0


_ANCHOR, _POSITIVE, _OTHER = (random_numbers(BATCH, SIZE, seed=seed) for seed in (1, 2, 3))
_VIEWS = {"view_1": _POSITIVE, "view_2": _OTHER}
_NEGATIVES = random_numbers(BATCH, NEGATIVES, SIZE, seed=4)
_CENTRES = random_numbers(PROTOTYPES, SIZE, seed=5)
_ALTERNATIVES = {
    "premise": _ANCHOR,
    "alternatives": random_numbers(BATCH, ALTERNATIVES, SIZE, seed=4),
}

CASES = {
    "info_nce-in-batch": LossCase(
        "info_nce", {"anchor": _ANCHOR, "positive": _POSITIVE}, {"temperature": 0.3}
    ),
    "info_nce-own-negatives": LossCase(
        "info_nce",
        {
            "anchor": _ANCHOR,
            "positive": _POSITIVE,
            "negatives": _NEGATIVES,
        },
        {"temperature": 0.3},
    ),
    "info_nce-common-negatives": LossCase(
        "info_nce",
        {"anchor": _ANCHOR, "positive": _POSITIVE, "negatives": random_numbers(NEGATIVES, SIZE, seed=4)},
        {"temperature": 0.3},
    ),
    "shared_word_contrast": LossCase(
        "shared_word_contrast",
        {
            "anchor": _ANCHOR,
            "positive": _POSITIVE,
            "negatives": _NEGATIVES,
        },
        {"temperature": 0.3},
    ),
    "shared_word_contrast-weighted": LossCase(
        "shared_word_contrast",
        {
            "anchor": _ANCHOR,
            "positive": _POSITIVE,
            "negatives": _NEGATIVES,
            "weight": random_numbers(BATCH, seed=6).abs(),
        },
        {"temperature": 0.3},
    ),
    "feature_distillation": LossCase(
        "feature_distillation",
        {"vectors": _ANCHOR, "targets": _POSITIVE},
        {"mask": torch.tensor([True, False] * (BATCH // 2) + [True] * (BATCH % 2))},
    ),
    "feature_distillation-all": LossCase(
        "feature_distillation", {"vectors": _ANCHOR, "targets": _POSITIVE}, {"mask": None}
    ),
    "margin_contrast": LossCase(
        "margin_contrast",
        {"anchor": _ANCHOR, "positive": _POSITIVE, "negative": _OTHER},
        {"margin": 0.4},
    ),
    "weakly_supervised_contrastive": LossCase(
        "weakly_supervised_contrastive",
        {
            "anchor": _ANCHOR,
            **_VIEWS,
            "co_event": random_numbers(BATCH, SIZE, seed=4),
            "co_event_weight": random_numbers(BATCH, seed=6).abs(),
        },
        {"temperature": 0.3},
    ),
    "multi_alternative_contrast": LossCase(
        "multi_alternative_contrast",
        _ALTERNATIVES,
        {"temperature": 0.3},
    ),
    "multi_alternative_contrast-one-alternative": LossCase(
        "multi_alternative_contrast",
        {"premise": _ANCHOR, "alternatives": _POSITIVE.unsqueeze(1)},
        {"temperature": 0.3},
    ),
    "multi_alternative_contrast-released-code": LossCase(
        "multi_alternative_contrast",
        _ALTERNATIVES,
        {"temperature": 0.3, "own_alternatives": "zero_logit"},
    ),
    "multi_alternative_contrast-chosen": LossCase(
        "multi_alternative_contrast",
        _ALTERNATIVES,
        {"temperature": 0.3, "chosen": torch.tensor([0, 1, 2, 1, 0])},
    ),
    "multi_alternative_contrast-known": LossCase(
        "multi_alternative_contrast",
        _ALTERNATIVES,
        {"temperature": 0.3, "known_positives": _mask(BATCH, BATCH, ALTERNATIVES, seed=9)},
    ),
    "sinkhorn": LossCase(
        "sinkhorn",
        {"scores": random_numbers(BATCH, PROTOTYPES, seed=7)},
        {"num_iterations": 3, "epsilon": 0.5},
    ),
    "cluster_prediction": LossCase(
        "cluster_prediction",
        {**_VIEWS, "prototypes": _CENTRES},
        {"temperature": 0.3, "num_iterations": 3, "epsilon": 0.5},
    ),
    "prototype_entropy": LossCase(
        "prototype_entropy",
        {"vectors": _ANCHOR, "prototypes": _CENTRES},
        {"temperature": 0.3},
    ),
}

every_case = pytest.mark.parametrize("name", CASES)

COMMONSENSE = {name: case for name, case in CASES.items() if hasattr(commonsense_losses, case.function)}
OTHERS = {name: case for name, case in CASES.items() if name not in COMMONSENSE}


class TestCommonsenseLosses(VectorLossTests):
    cases = COMMONSENSE
    equations = commonsense_losses
    slow = slow_losses


class TestEventLosses(VectorLossTests):
    cases = OTHERS
    equations = event_losses
    slow = slow_losses

    def test_gradient_equals_finite_differences(
        self, case: LossCase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if case.function == "sinkhorn":
            assert not case(scores=case.tensors["scores"].clone().requires_grad_()).requires_grad
            return
        # The assignments carry no gradient, so finite differences must hold them still.
        assignments = cycle(
            [losses.sinkhorn(random_numbers(BATCH, PROTOTYPES, seed=seed)) for seed in (8, 9)]
        )
        monkeypatch.setattr(event_losses, "sinkhorn", lambda *_args: next(assignments))
        super().test_gradient_equals_finite_differences(case)


def test_assignments_carry_no_gradient() -> None:
    view_1 = _POSITIVE.clone().requires_grad_()
    losses.cluster_prediction(view_1, _OTHER, _CENTRES, 0.3, 3, 0.5).backward()
    logits = (
        torch.nn.functional.normalize(view_1, dim=-1)
        @ torch.nn.functional.normalize(_CENTRES, dim=-1).T
        / 0.3
    )
    other_logits = (
        torch.nn.functional.normalize(_OTHER, dim=-1)
        @ torch.nn.functional.normalize(_CENTRES, dim=-1).T
        / 0.3
    )
    target = torch.tensor(slow_sinkhorn(other_logits.tolist(), 3, 0.5), dtype=torch.float64)
    expected = torch.nn.functional.cross_entropy(logits, target)
    torch.testing.assert_close(view_1.grad, torch.autograd.grad(expected, view_1)[0])


@every_case
def test_length_of_vectors_does_not_matter(name: str) -> None:
    """Similarity is the cosine; scores, weights and temperatures are numbers, not vectors."""
    case = CASES[name]
    numbers = ("scores", "weight", "temperature")
    vectors = {key: value for key, value in case.tensors.items() if not key.endswith(numbers)}
    longer = {key: value * (2.0 + index) for index, (key, value) in enumerate(vectors.items())}
    torch.testing.assert_close(case(**longer), case(), rtol=1e-10, atol=1e-12)


def test_info_nce_at_equal_scores() -> None:
    """Log of the number of candidates, whatever the temperature."""
    equal = torch.ones(BATCH, SIZE, dtype=torch.float64)
    for temperature in (0.05, 1.0):
        assert losses.info_nce(equal, equal, temperature).item() == pytest.approx(math.log(BATCH), rel=1e-6)
        for shape in ((NEGATIVES, SIZE), (BATCH, NEGATIVES, SIZE)):
            negatives = equal.new_ones(shape)
            value = losses.info_nce(equal, equal, temperature, negatives=negatives).item()
            assert value == pytest.approx(math.log(1 + NEGATIVES), rel=1e-6)


def test_shared_word_contrast_at_equal_similarity() -> None:
    same = torch.ones(BATCH, SIZE, dtype=torch.float64)
    negatives = same.unsqueeze(1).expand(BATCH, NEGATIVES, SIZE)
    value = losses.shared_word_contrast(same, same, negatives, 0.1).item()
    assert value == pytest.approx(math.log(1 + (BATCH - 1) + BATCH * NEGATIVES))


def test_distillation_at_known_values() -> None:
    """0 for equal directions, 2 at a right angle and 4 for opposite ones, whatever the lengths."""
    vectors = torch.tensor([[3.0, 0.0], [0.5, 0.0], [2.0, 0.0]])
    targets = torch.tensor([[1.0, 0.0], [0.0, 7.0], [-1.0, 0.0]])
    for mask, expected in (
        ((1, 0, 0), 0.0),
        ((0, 1, 0), 2.0),
        ((0, 0, 1), 4.0),
        ((1, 1, 1), 2.0),
        ((0, 0, 0), 0.0),
    ):
        found = losses.feature_distillation(vectors, targets, torch.tensor(mask, dtype=torch.bool))
        assert found.item() == pytest.approx(expected, abs=1e-6)


def test_margin_is_zero_from_the_margin_on() -> None:
    anchor, positive = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0]])
    negative = torch.tensor([[0.0, 1.0]])
    assert losses.margin_contrast(anchor, positive, negative, 1.0).item() == 0.0
    assert losses.margin_contrast(anchor, positive, negative, 1.25).item() == pytest.approx(0.25)


def test_sinkhorn_gives_rows_of_one_and_equal_columns() -> None:
    scores = random_numbers(40, PROTOTYPES, seed=11)
    few, many = (losses.sinkhorn(scores, iterations, 0.5) for iterations in (3, 200))
    for assignment in (few, many):
        torch.testing.assert_close(assignment.sum(dim=1), torch.ones(40, dtype=torch.float64))
    torch.testing.assert_close(many.sum(dim=0), torch.full((PROTOTYPES,), 40 / PROTOTYPES).double())


def test_sinkhorn_does_not_overflow_half_precision() -> None:
    """Cosine 1 at temperature 0.3 and regularisation 0.05 is exp(66.7), beyond float16."""
    scores = (torch.eye(PROTOTYPES) / 0.3).half()
    assignment = losses.sinkhorn(scores)
    torch.testing.assert_close(assignment, torch.eye(PROTOTYPES))


def test_cluster_prediction_without_any_preference() -> None:
    """Both directions, each the log of the number of prototypes."""
    views = torch.ones(BATCH, SIZE)
    value = losses.cluster_prediction(views, views, torch.ones(PROTOTYPES, SIZE), 0.3).item()
    assert value == pytest.approx(2 * math.log(PROTOTYPES), rel=1e-5)


def test_prototype_entropy_at_its_bounds() -> None:
    uniform = losses.prototype_entropy(torch.ones(BATCH, SIZE), torch.ones(PROTOTYPES, SIZE), 0.3)
    assert uniform.item() == pytest.approx(math.log(PROTOTYPES), rel=1e-6)
    certain = losses.prototype_entropy(torch.eye(SIZE), torch.eye(SIZE), 1e-3)
    assert certain.item() == pytest.approx(0.0, abs=1e-6)
