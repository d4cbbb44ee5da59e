"""Parts of all models: how new layers start, cosines, and parts of a batch by length."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from torch import nn

from eventformers.models.modeling_base import parts_by_length, start_wide
from eventformers.models.similarities import cosine, cosine_among, cosine_with_one, unit


@pytest.mark.parametrize("width", [4, 400])
def test_starts_by_the_width_of_the_input(width: int) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(width, 300)
    with torch.no_grad():
        layer.weight.fill_(5)
        layer.bias.fill_(5)
        start_wide(layer)
    for value in (layer.weight, layer.bias):
        assert value.abs().max() <= width**-0.5
        # The standard deviation of equal shares up to a bound.
        assert value.std().item() == pytest.approx((3 * width) ** -0.5, rel=0.1)


def test_what_was_loaded_stays() -> None:
    layer = nn.Linear(3, 2)
    layer.weight._is_hf_initialized = True  # type: ignore[attr-defined]
    weight, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    with torch.no_grad():
        start_wide(layer)
    assert torch.equal(layer.weight, weight)
    assert not torch.equal(layer.bias, bias)


def _rows(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_unit() -> None:
    rows = _rows(4, 3)
    rows[1] = 0
    torch.testing.assert_close(unit(rows), torch.nn.functional.normalize(rows, dim=-1))


def test_cosine_with_one() -> None:
    rows, vectors = _rows(2, 5, 3), _rows(2, 3)
    expected = torch.cosine_similarity(vectors.unsqueeze(1), rows, dim=-1)
    torch.testing.assert_close(cosine_with_one(vectors, rows), expected)
    assert not cosine_with_one(vectors, torch.zeros_like(rows)).any()


def test_cosine_among() -> None:
    """Values, and first and second derivatives by differences."""
    rows = _rows(2, 4, 3).requires_grad_()
    torch.testing.assert_close(cosine_among(rows), cosine(rows, rows))
    assert torch.autograd.gradcheck(cosine_among, rows)
    assert torch.autograd.gradgradcheck(cosine_among, rows)


def test_cosine_among_needs_one_product_for_its_gradient() -> None:
    rows = _rows(6, 3).requires_grad_()
    with torch.profiler.profile() as profile:
        cosine_among(rows).square().sum().backward()
    products = [event.count for event in profile.key_averages() if event.key == "aten::mm"]
    assert products == [2]


def cost(lengths: list[list[int]], part_cost: int) -> int:
    return sum(part_cost + len(part) * max(part) for part in lengths)


def least_cost(lengths: list[int], part_cost: int) -> int:
    """The cost of the best of all ways to cut the sorted lengths."""
    lengths = sorted(lengths)
    places = range(1, len(lengths))
    cuts = (chosen for size in range(len(lengths)) for chosen in combinations(places, size))
    return min(
        cost([lengths[a:b] for a, b in zip((0, *cut), (*cut, len(lengths)), strict=True)], part_cost)
        for cut in cuts
    )


@pytest.mark.parametrize("part_cost", [0, 1, 3, 8, 100])
@pytest.mark.parametrize("lengths", [[4], [7, 1, 7, 2, 1], [3, 3, 3], [9, 8, 1, 2, 3, 30, 31, 5, 5]])
def test_parts_have_the_least_cost(lengths: list[int], part_cost: int) -> None:
    parts = [part.tolist() for part in parts_by_length(torch.tensor(lengths), part_cost)]
    assert sorted(row for part in parts for row in part) == list(range(len(lengths)))
    assert [lengths[row] for part in parts for row in part] == sorted(lengths)
    assert cost([[lengths[row] for row in part] for part in parts], part_cost) == least_cost(
        lengths, part_cost
    )


def test_rows_of_one_length_stay_together() -> None:
    parts = parts_by_length(torch.tensor([5, 2, 5, 2]), part_cost=0)
    assert [part.tolist() for part in parts] == [[1, 3], [0, 2]]
