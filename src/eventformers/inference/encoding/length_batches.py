"""Batches of texts of one length: nothing is padded, so nothing is computed that is thrown away."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def equal_length_batches(
    lengths: Sequence[int], *, max_tokens: int | None = None, max_rows: int | None = None
) -> list[npt.NDArray[np.int64]]:
    """Split texts into batches in which all have the same number of tokens.

    Args:
        lengths: number of tokens of each text.
        max_tokens: tokens of a batch at most; a single longer text still makes a batch.
        max_rows: texts of a batch at most.

    Returns:
        The positions of the texts of each batch; longest first, so that no worker starts on a long batch
        when the others are done.
    """
    counts = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-counts, kind="stable")
    edges = np.flatnonzero(np.diff(counts[order])) + 1
    batches: list[npt.NDArray[np.int64]] = []
    for group in np.split(order, edges):
        if not len(group):
            continue
        rows = len(group) if max_rows is None else max_rows
        if max_tokens is not None:
            rows = min(rows, max(1, max_tokens // max(1, int(counts[group[0]]))))
        batches.extend(group[start : start + rows] for start in range(0, len(group), rows))
    return batches
