"""Corruptions of event chains, as index tensors (MulCL, Eq. 3 to 5).

A chain is a row of event numbers, padded with -1. A corrupted chain is another such row, so an event's vector
is computed once for all corruptions. An impossible corruption, such as another order of a single event, is a
row of -1.

All functions take their random numbers as an argument, one row for each chain, so draws for a chain do not
depend on the rest of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eventformers.datasets_scripts.known_pairs import Codes
from eventformers.strict import Count, Share

Uniforms = npt.NDArray[np.float64]

LEAST_EVENTS = 3
"""Minimum number of events of a chain with every kind of corruption: a segment of two must be shorter."""


def change_order(chains: Codes, draws: Uniforms, probability: float) -> Codes:
    """Change the order of m ~ Binomial(n, probability) events of a chain, at least 2.

    The m events, drawn uniformly, are permuted along a random cycle, so each of them moves. If all of them
    are equal, two different events are exchanged instead.

    Args:
        chains: `(..., n)`.
        draws: `(..., 2, n)`.
        probability: share of the events that move.

    Returns:
        `(..., n)`; all -1 for a chain with fewer than two different events.
    """
    chains = np.broadcast_to(chains, draws.shape[:-2] + chains.shape[-1:])
    valid = chains >= 0
    count = valid.sum(-1, keepdims=True)
    moved = ((draws[..., 0, :] < probability) & valid).sum(-1, keepdims=True)
    moved = np.minimum(np.maximum(moved, 2), count)
    # The positions in random order, padding last; the first m of them form the cycle.
    circle = np.argsort(np.where(valid, draws[..., 1, :], np.inf), axis=-1, kind="stable")
    step = np.arange(chains.shape[-1])
    following = np.where(step < moved, np.where(step == moved - 1, 0, step + 1), step)
    changed = np.empty_like(chains)
    taken = np.take_along_axis(chains, np.take_along_axis(circle, following, -1), -1)
    np.put_along_axis(changed, circle, taken, -1)
    unchanged = (changed == chains).all(-1)
    if unchanged.any():
        equal = chains[unchanged]
        # The first event is exchanged with the first different one.
        differs = (equal != equal[:, :1]) & (equal >= 0)
        place, rows = differs.argmax(-1), np.arange(len(equal))
        exchanged = equal.copy()
        exchanged[rows, 0], exchanged[rows, place] = equal[rows, place], equal[rows, 0]
        exchanged[~differs.any(-1)] = -1
        changed[unchanged] = exchanged
    return changed


def replace_events(
    chains: Codes, others: Codes, draws: Uniforms, probability: float, *, only_one: bool = False
) -> Codes:
    """Substitute each event of a chain with a given probability, at least one.

    Args:
        chains: `(..., n)`.
        others: `(..., P)`, events to substitute, none of which is in the chain.
        draws: `(..., 2, n)`.
        only_one: substitute exactly one event, drawn uniformly.

    Returns:
        `(..., n)`; all -1 for a chain without events.
    """
    shape = draws.shape[:-2]
    chains = np.broadcast_to(chains, shape + chains.shape[-1:])
    others = np.broadcast_to(others, shape + others.shape[-1:])
    valid = chains >= 0
    chance = np.where(valid, draws[..., 0, :], np.inf)
    lowest = np.arange(chains.shape[-1]) == chance.argmin(-1)[..., None]
    chosen = lowest if only_one else lowest | (chance < probability)
    incoming = np.take_along_axis(others, (draws[..., 1, :] * others.shape[-1]).astype(np.int64), -1)
    return np.where(chosen & valid, incoming, chains)


def draw_segments(chains: Codes, draws: Uniforms, least: int = 2) -> Codes:
    """Draw segments of a chain: the length uniformly in [least, n - 1], then the start uniformly.

    Args:
        chains: `(B, n)`.
        draws: `(B, S, 2)`.
        least: minimum number of events of a segment; fewer for shorter chains.

    Returns:
        `(B, S, n)`; all -1 for a chain with fewer than three events.
    """
    count = (chains >= 0).sum(-1)[:, None]
    shortest = np.minimum(least, count - 1)
    length = shortest + (draws[..., 0] * (count - shortest)).astype(np.int64)
    start = (draws[..., 1] * (count - length + 1)).astype(np.int64)
    step = np.arange(chains.shape[-1])
    inside = (step < length[..., None]) & (count >= LEAST_EVENTS)[..., None]
    places = np.minimum(start[..., None] + step, chains.shape[-1] - 1).clip(min=0)
    return np.where(inside, np.take_along_axis(chains[:, None], places, -1), -1)


def corrupt_segments(
    segments: Codes, others: Codes, draws: Uniforms, probability: float, order_share: float = 0.5
) -> Codes:
    """Corrupt segments by another order or by substituting one event.

    Args:
        segments: `(B, S, n)`.
        others: `(B, P)`, events to substitute, none of which is in the chain.
        draws: `(B, S, N, 5, n)`.
        probability: share of the events that move in another order.
        order_share: share of the corruptions by another order.

    Returns:
        `(B, S, N, n)`; a segment without another order gets a substitution; all -1 for an empty segment.
    """
    segments = segments[:, :, None]
    ordered = change_order(segments, draws[..., 0:2, :], probability)
    substituted = replace_events(
        segments, others[:, None, None], draws[..., 2:4, :], probability, only_one=True
    )
    by_order = (draws[..., 4, 0] < order_share) & (ordered >= 0).any(-1)
    return np.where(by_order[..., None], ordered, substituted)


@dataclass(frozen=True)
class CorruptionSettings:
    """Settings of the corruption of chains.

    Args:
        num_corrupted: number of corruptions of each kind for a chain, and for each of its segments (N_c).
        num_segments: number of segments of a chain (N_s).
        corruption_probability: probability of each event to move, or to be substituted.
        min_segment_length: minimum number of events of a segment.
        segment_order_share: share of a segment's corruptions by another order; the others substitute.
    """

    num_corrupted: Count = 24
    num_segments: Count = 8
    corruption_probability: Share = 0.2
    min_segment_length: Count = 2
    segment_order_share: Share = 0.5


def corrupt_chains(
    chains: Codes,
    others: Codes,
    generators: Sequence[np.random.Generator],
    settings: CorruptionSettings,
    *,
    order: bool = True,
    replacement: bool = True,
    composition: bool = True,
) -> dict[str, Codes]:
    """Corrupt chains in every requested way.

    Args:
        chains: `(B, n)`; n is the same in every batch, since a chain draws numbers for n events.
        others: `(B, P)`, events to substitute in each chain, none of which is in it.
        settings: number and strength of the corruptions.
        order: make corruptions by another order (Eq. 3).
        replacement: make corruptions by substitution (Eq. 4).
        composition: make segments and their corruptions (Eq. 5).

    Returns:
        The requested ones of `order_corrupted` `(B, N, n)`, `replacement_corrupted` `(B, N, n)`, and
        `segments` `(B, S, n)` with `corrupted_segments` `(B, S, N, n)`.
    """

    def uniform(*shape: int) -> Uniforms:
        return np.stack([generator.random(shape) for generator in generators])

    count, width = settings.num_corrupted, chains.shape[1]
    probability = settings.corruption_probability
    # All numbers are drawn even if unused, so that leaving out a kind does not change the others.
    for_order = uniform(count, 2, width)
    for_replacement = uniform(count, 2, width)
    for_segments = uniform(settings.num_segments, 2)
    for_corrupted = uniform(settings.num_segments, count, 5, width)
    corrupted = {}
    if order:
        corrupted["order_corrupted"] = change_order(chains[:, None], for_order, probability)
    if replacement:
        corrupted["replacement_corrupted"] = replace_events(
            chains[:, None], others[:, None], for_replacement, probability
        )
    if composition:
        segments = draw_segments(chains, for_segments, settings.min_segment_length)
        corrupted["segments"] = segments
        corrupted["corrupted_segments"] = corrupt_segments(
            segments, others, for_corrupted, probability, settings.segment_order_share
        )
    return corrupted
