"""Parts of a batch, of rows of similar length."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from eventformers.models.modeling_base import parts_by_length


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
