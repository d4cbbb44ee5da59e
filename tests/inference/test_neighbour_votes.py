"""Votes of neighbours, against a plain double loop."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eventformers.errors import EventformersError
from eventformers.inference.neighbour_votes import VoteSettings, neighbour_votes


def test_votes_equal_a_plain_loop() -> None:
    draw = np.random.default_rng(0)
    lists = [[0, 3], [1], [], [2, 3, 4], [0]]
    offsets = np.cumsum([0, *map(len, lists)])
    known = np.array([alternative for one in lists for alternative in one])
    neighbours = np.array([[0, 1, 2], [3, 0, 4], [2, 2, 2]])
    cosines = draw.uniform(-1, 1, neighbours.shape).astype(np.float32)
    settings = VoteSettings(neighbours=3, temperature=0.3, weight=2.0)
    expected = np.zeros((3, 6))
    for query in range(3):
        for cosine, premise in zip(cosines[query], neighbours[query], strict=True):
            for alternative in lists[premise]:
                expected[query, alternative] += 2 * math.exp((cosine - 1) / 0.3)
    votes = neighbour_votes(cosines, neighbours, offsets, known, 6, settings)
    np.testing.assert_allclose(votes.toarray(), expected, rtol=1e-5)


@pytest.mark.parametrize("wrong", [{"neighbours": 0}, {"temperature": 0.0}, {"weight": -1.0}])
def test_settings_out_of_range(wrong: dict[str, float]) -> None:
    with pytest.raises(EventformersError, match="accepted: neighbours of 1 or more"):
        VoteSettings(**wrong)  # type: ignore[arg-type]
