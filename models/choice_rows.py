"""The inputs of a multiple-choice model whose rows hold several texts each, split into their texts."""

from typing import NamedTuple

import torch

ABSENT = -1
"""Padding: a row has no further text."""


class SplitRows(NamedTuple):
    """The texts of N rows, each between its own special tokens, `(S, W)`.

    Args:
        texts: indices of the texts of each row, in their order, `(N, n)`; padded with -1 at the end.
        counts: number of texts of each row, `(N,)`; 0 for a row of padding only.
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    texts: torch.Tensor
    counts: torch.Tensor


def split_rows(input_ids: torch.Tensor, attention_mask: torch.Tensor) -> SplitRows:
    """Split rows such as `[CLS] premise [SEP] alternative [SEP]`, `(N, L)`, into their texts.

    The first token of a row opens every text, and the last one, which also separates the texts, closes it. A
    text therefore has the tokens that it has alone.
    """
    is_token = attention_mask.bool()
    places = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
    first = is_token.int().argmax(dim=1, keepdim=True)
    last = places.masked_fill(~is_token, 0).amax(dim=1, keepdim=True)
    opening, closing = input_ids.gather(1, first), input_ids.gather(1, last)
    is_content = is_token & (input_ids != closing) & (places > first)
    is_start = is_content & ~is_content.roll(1, dims=1)
    row_of_text, start_of_text = is_start.nonzero(as_tuple=True)
    counts = is_start.sum(dim=1)
    text = (is_start.flatten().cumsum(0) - 1).view_as(input_ids)[is_content]
    lengths = text.bincount(minlength=len(row_of_text)).unsqueeze(1)
    columns = torch.arange(int(lengths.max()) + 2 if len(lengths) else 2, device=input_ids.device)
    found = input_ids.new_zeros(len(row_of_text), len(columns))
    found[:, 0] = opening[row_of_text, 0]
    found[text, places[is_content] - start_of_text[text] + 1] = input_ids[is_content]
    found.scatter_(1, lengths + 1, closing[row_of_text])
    ranks = torch.arange(max(int(counts.max()), 1), device=input_ids.device)
    texts = (counts.cumsum(0) - counts).unsqueeze(1) + ranks
    return SplitRows(
        found,
        (columns < lengths + 2).to(attention_mask.dtype),
        texts.masked_fill(ranks >= counts.unsqueeze(1), ABSENT),
        counts,
    )
