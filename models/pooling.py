"""Pooling of token vectors into one vector for each text."""

import torch


def cls_pool(last_hidden_state: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
    """Take the first token's vector.

    Args:
        last_hidden_state: token vectors, `(batch, length, hidden_size)`.
        attention_mask: ignored; present so that all poolings have the same signature.

    Returns:
        `(batch, hidden_size)`.
    """
    return last_hidden_state[:, 0]


def mean_pool(last_hidden_state: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
    """Average the vectors of the tokens that are not padding.

    Args:
        last_hidden_state: token vectors, `(batch, length, hidden_size)`.
        attention_mask: `(batch, length)`, 1 for a token and 0 for padding; None if nothing is padded.

    Returns:
        `(batch, hidden_size)`; a row without tokens gives zeros.
    """
    if attention_mask is None:
        return last_hidden_state.mean(dim=1)
    mask = attention_mask.unsqueeze(-1).to(last_hidden_state.dtype)
    return (last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)


def content_mask(attention_mask: torch.Tensor) -> torch.Tensor:
    """Mask of the tokens between the first and last token of each text, which are special tokens.

    Args:
        attention_mask: `(batch, length)`.

    Returns:
        `(batch, length)`, bool.
    """
    is_token = attention_mask.bool()
    number = is_token.cumsum(dim=1)
    return is_token & (number > 1) & (number < number[:, -1:])


def content_mean_pool(last_hidden_state: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """Average the vectors of the tokens that are neither padding nor the special tokens at both ends.

    Args:
        last_hidden_state: token vectors, `(batch, length, hidden_size)`.
        attention_mask: `(batch, length)`, 1 for a token and 0 for padding.

    Returns:
        `(batch, hidden_size)`; a row without such tokens gives zeros.
    """
    return mean_pool(last_hidden_state, content_mask(attention_mask))


POOLINGS = {"cls": cls_pool, "mean": mean_pool}
