"""Batches of one length: every text once, within the bounds."""

from __future__ import annotations

import numpy as np

from eventformers.inference.encoding.batches import equal_length_batches

LENGTHS = [3, 5, 3, 4, 5, 5, 3, 9, 3]


def test_every_text_once_longest_first() -> None:
    batches = equal_length_batches(LENGTHS, max_tokens=10)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(LENGTHS)))
    lengths = [{LENGTHS[position] for position in batch} for batch in batches]
    assert all(len(distinct) == 1 for distinct in lengths)
    order = [distinct.pop() for distinct in lengths]
    assert order == sorted(order, reverse=True)
    assert [batch.tolist() for batch in batches] == [[7], [1, 4], [5], [3], [0, 2, 6], [8]]


def test_bounds() -> None:
    assert max(map(len, equal_length_batches(LENGTHS, max_rows=2))) == 2
    assert max(map(len, equal_length_batches(LENGTHS, max_tokens=6))) == 2
    assert len(equal_length_batches([50], max_tokens=10)) == 1
    assert equal_length_batches([], max_tokens=10) == []


def test_small_batches_take_shorter_texts() -> None:
    batches = equal_length_batches(LENGTHS, fill_tokens=15)
    assert [batch.tolist() for batch in batches] == [[7], [1, 4, 5], [3, 0, 2], [6, 8]]
    assert [len(batch) for batch in equal_length_batches(LENGTHS, fill_tokens=100, max_rows=4)] == [4, 4, 1]
    assert [len(batch) for batch in equal_length_batches(LENGTHS, fill_tokens=100, max_tokens=18)] == [
        2,
        3,
        4,
    ]
