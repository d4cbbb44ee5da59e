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
from eventformers.models.losses import info_nce, multi_alternative_contrast

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


PREMISES, CHOICES, DIMENSION = 4, 3, 8
TEMPERATURE = 0.3


def _random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


PREMISE = _random(PREMISES, DIMENSION, seed=1)
ALTERNATIVE = _random(PREMISES, CHOICES, DIMENSION, seed=2)
EQUAL = torch.ones(PREMISES, DIMENSION, dtype=torch.float64)
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
    assert value == pytest.approx(math.log(1 + count * (PREMISES - 1)))


def test_the_positive_is_the_least_similar_alternative() -> None:
    """Eq. 5."""
    hardest = OWN_COSINES.argmin(dim=1)
    assert len(set(hardest.tolist())) > 1
    value = multi_alternative_contrast(PREMISE, ALTERNATIVE, TEMPERATURE)
    torch.testing.assert_close(
        value, multi_alternative_contrast(PREMISE, ALTERNATIVE, TEMPERATURE, chosen=hardest)
    )
    for place in range(CHOICES):
        chosen = torch.full((PREMISES,), place)
        assert value > multi_alternative_contrast(PREMISE, ALTERNATIVE, TEMPERATURE, chosen=chosen)


def test_other_alternatives_of_a_row_are_neither_positive_nor_negative() -> None:
    """Eq. 6: of a single row nothing is left to be told apart."""
    assert multi_alternative_contrast(PREMISE[:1], ALTERNATIVE[:1], TEMPERATURE).item() == 0.0
    chosen = torch.zeros(PREMISES, dtype=torch.long)
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
    known = torch.ones(PREMISES, PREMISES, CHOICES, dtype=torch.bool)
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
        -math.log(share[row, 0] / (share[row, 0] + share.sum() - share[row].sum())) for row in range(PREMISES)
    ]
    assert value.item() == pytest.approx(sum(expected) / PREMISES)


def test_frequency_does_not_change_which_alternative_is_hardest() -> None:
    alternatives = ALTERNATIVE.clone().requires_grad_()
    rare = torch.where(OWN_COSINES.amax(dim=1, keepdim=True) == OWN_COSINES, 9.0, 0.0)
    others = torch.eye(PREMISES, dtype=torch.bool).unsqueeze(-1).expand(-1, -1, CHOICES).logical_not()
    loss = multi_alternative_contrast(
        PREMISE, alternatives, TEMPERATURE, others, own_alternatives="zero_logit", log_frequency=rare
    )
    reached = torch.autograd.grad(loss, alternatives)[0].abs().sum(dim=-1) > 0
    assert reached.nonzero()[:, 1].tolist() == OWN_COSINES.argmin(dim=1).tolist()
