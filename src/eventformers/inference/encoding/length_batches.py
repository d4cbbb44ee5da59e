"""Batches of texts of one length, or of similar lengths where one length does not fill an accelerator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def equal_length_batches(
    lengths: Sequence[int],
    *,
    max_tokens: int | None = None,
    max_rows: int | None = None,
    fill_tokens: int = 0,
) -> list[npt.NDArray[np.int64]]:
    """Split texts into batches of equal length in tokens, so that nothing is padded.

    Args:
        lengths: number of tokens of each text.
        max_tokens: maximum number of tokens in a batch; a single longer text still makes a batch.
        max_rows: maximum number of texts in a batch.
        fill_tokens: a batch of fewer tokens, padding included, also takes shorter texts.

    Returns:
        The positions of the texts in each batch; the longest first, so that no worker starts a long batch
        when the others are done.
    """
    counts = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-counts, kind="stable")
    ordered = -counts[order]
    batches: list[npt.NDArray[np.int64]] = []
    start = 0
    while start < len(order):
        longest = max(1, -int(ordered[start]))
        rows = int(np.searchsorted(ordered, ordered[start], side="right")) - start
        rows = max(rows, fill_tokens // longest)
        if max_rows is not None:
            rows = min(rows, max_rows)
        if max_tokens is not None:
            rows = min(rows, max(1, max_tokens // longest))
        batches.append(order[start : start + rows])
        start += rows
    return batches
