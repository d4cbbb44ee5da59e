"""Corruptions of chains."""

from __future__ import annotations

import numpy as np
import pytest

from eventformers.trainers.chain_corruption import (
    Codes,
    CorruptionSettings,
    change_order,
    corrupt_chains,
    draw_segments,
    replace_events,
)

WIDTH = 9
SETTINGS = CorruptionSettings(num_corrupted=40, num_segments=8)
LENGTHS = (9, 5, 3)


def chain(*events: int) -> list[int]:
    return [*events, *[-1] * (WIDTH - len(events))]


def draws_of(*rows: int) -> list[np.random.Generator]:
    return [np.random.default_rng((3, 0, row)) for row in rows]


def corrupt(chains: Codes, **kinds: bool) -> dict[str, Codes]:
    others = np.arange(1000, 1006).reshape(1, -1).repeat(len(chains), 0)
    return corrupt_chains(chains, others, draws_of(*range(len(chains))), SETTINGS, **kinds)


@pytest.fixture
def chains() -> Codes:
    return np.array([chain(*range(100 * row, 100 * row + length)) for row, length in enumerate(LENGTHS)])


def events(row: Codes) -> list[int]:
    """The events of a row, whose padding stands at its end alone."""
    count = int((row >= 0).sum())
    assert (row[:count] >= 0).all()
    return row[:count].tolist()


def test_order_keeps_the_events_and_changes_their_places(chains: Codes) -> None:
    corrupted = corrupt(chains)["order_corrupted"]
    for row, length in enumerate(LENGTHS):
        original = events(chains[row])
        moved = set()
        for found in corrupted[row]:
            assert sorted(events(found)) == original
            moved.add(int((found[:length] != chains[row][:length]).sum()))
        assert min(moved) == 2
        assert max(moved) <= length
        # Binomial(3, 0.2) and above: two of three mostly, seldom all.
        assert len(moved) > 1


def test_number_of_moved_events_is_binomial() -> None:
    """At least 2, and m of them for m successes of n."""
    count, length = 4000, 9
    draws = np.random.default_rng(0).random((count, 2, length))
    corrupted = change_order(np.arange(length)[None], draws, 0.2)
    moved = (corrupted != np.arange(length)).sum(-1)
    successes = (draws[:, 0] < 0.2).sum(-1)
    assert np.array_equal(moved, successes.clip(min=2))
    # Every place moves as often as every other.
    share = (corrupted != np.arange(length)).mean(0)
    assert np.allclose(share, share.mean(), atol=0.03)


def test_replacement_takes_events_from_elsewhere(chains: Codes) -> None:
    corrupted = corrupt(chains)["replacement_corrupted"]
    for row, length in enumerate(LENGTHS):
        for found in corrupted[row]:
            new = found[:length] != chains[row][:length]
            assert new.any()
            assert (found[:length][new] >= 1000).all()
            assert (found[length:] == -1).all()


def test_share_of_replaced_events() -> None:
    """Of no success the least likely is replaced: 0.2 n + P(none) of n."""
    draws = np.random.default_rng(0).random((4000, 2, 9))
    found = replace_events(np.arange(9)[None], np.array([[50, 51]]), draws, 0.2)
    assert (found >= 50).mean() == pytest.approx(0.2 + 0.8**9 / 9, abs=0.01)
    assert {50, 51} <= set(found.ravel().tolist())


def test_segments_are_contiguous_and_shorter_than_the_chain(chains: Codes) -> None:
    segments = draw_segments(chains, np.random.default_rng(0).random((3, 500, 2)))
    for row, length in enumerate(LENGTHS):
        found = [events(segment) for segment in segments[row]]
        assert {len(segment) for segment in found} == set(range(2, length))
        original = events(chains[row])
        for segment in found:
            start = original.index(segment[0])
            assert original[start : start + len(segment)] == segment
        assert {segment[0] for segment in found} == set(original[:-1])


def test_corrupted_segments(chains: Codes) -> None:
    """Half of them in another order, half with one event substituted."""
    corruptions = corrupt(chains)
    by_order = []
    for segments, corrupted in zip(corruptions["segments"], corruptions["corrupted_segments"], strict=True):
        for segment, alternatives in zip(segments, corrupted, strict=True):
            for found in alternatives:
                new = (found != segment) & (found >= 1000)
                by_order.append(not new.any())
                if new.any():
                    assert new.sum() == 1
                    assert (found != segment).sum() == 1
                else:
                    assert sorted(events(found)) == sorted(events(segment))
                    assert not np.array_equal(found, segment)
    assert np.mean(by_order) == pytest.approx(0.5, abs=0.06)


def test_short_chains() -> None:
    """One event has no order and no segment, two have an order; all can be substituted."""
    found = corrupt(np.array([chain(7), chain(7, 8)]))
    assert (found["order_corrupted"][0] == -1).all()
    assert (found["order_corrupted"][1] == chain(8, 7)).all()
    assert (found["replacement_corrupted"][0, :, 0] >= 1000).all()
    assert (found["replacement_corrupted"][..., 2:] == -1).all()
    assert (found["segments"] == -1).all()
    assert (found["corrupted_segments"] == -1).all()


def test_equal_events() -> None:
    """Another order that reads the same is none."""
    found = corrupt(np.array([chain(4, 4, 4, 4), chain(4, 4, 5, 4)]))
    assert (found["order_corrupted"][0] == -1).all()
    assert not (found["order_corrupted"][1] == chain(4, 4, 5, 4)).all(-1).any()
    assert all(sorted(events(row)) == [4, 4, 4, 5] for row in found["order_corrupted"][1])
    # A segment of equal events is corrupted by substitution alone.
    assert ((found["corrupted_segments"][0] >= 1000).sum(-1) == 1).all()
    changed = found["corrupted_segments"][1] != found["segments"][1][:, None]
    assert changed.any(-1).all()


def test_draws_depend_on_the_row_alone(chains: Codes) -> None:
    others = np.arange(1000, 1006).reshape(1, -1)
    whole = corrupt(chains)
    for row in range(len(chains)):
        alone = corrupt_chains(chains[row : row + 1], others, draws_of(row), SETTINGS)
        assert alone.keys() == whole.keys()
        for name, value in alone.items():
            assert np.array_equal(whole[name][row], value[0]), name


def test_leaving_out_a_kind_leaves_the_others(chains: Codes) -> None:
    whole = corrupt(chains)
    for left_out in ("order", "replacement", "composition"):
        part = corrupt(chains, **{left_out: False})
        for name, value in part.items():
            assert np.array_equal(whole[name], value), name
        assert len(part) == len(whole) - (2 if left_out == "composition" else 1)


def test_segments_of_one_event(chains: Codes) -> None:
    segments = draw_segments(chains, np.random.default_rng(0).random((3, 500, 2)), 1)
    for row, length in enumerate(LENGTHS):
        found = [events(segment) for segment in segments[row]]
        assert {len(segment) for segment in found} == set(range(1, length))
        assert {segment[0] for segment in found} == set(events(chains[row]))


def test_segments_of_a_chain_that_has_no_longer_ones() -> None:
    """A chain of three events has segments of two, however many are asked for."""
    segments = draw_segments(np.array([chain(7, 8, 9)]), np.random.default_rng(0).random((1, 20, 2)), 5)
    assert {tuple(events(segment)) for segment in segments[0]} == {(7, 8), (8, 9)}


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_share_of_segments_in_another_order(share: float) -> None:
    settings = CorruptionSettings(num_corrupted=40, num_segments=8, segment_order_share=share)
    chains = np.arange(27).reshape(3, 9)
    found = corrupt_chains(chains, np.full((3, 2), 1000), draws_of(0, 1, 2), settings)
    assert (found["corrupted_segments"] < 1000).all(-1).mean() == pytest.approx(share, abs=0.06)
