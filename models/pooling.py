"""Pooling of token vectors into one vector for each text."""

import torch


def cls_pool(last_hidden_state: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
    """Take the first token's vector, `(batch, length, hidden_size)` to `(batch, hidden_size)`, whatever the
    mask."""
    return last_hidden_state[:, 0]


def mean_pool(last_hidden_state: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
    """Average the vectors of the tokens that are not padding, `(batch, length, hidden_size)` to `(batch,
    hidden_size)`.

    A mask, `(batch, length)`, has 0 for padding; None if nothing is padded. A row without tokens gives zeros.
    """
    if attention_mask is None:
        return last_hidden_state.mean(dim=1)
    mask = attention_mask.unsqueeze(-1).to(last_hidden_state.dtype)
    return (last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)


def last_token_pool(
    last_hidden_state: torch.Tensor, attention_mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Take the vector of the last token that is not padding, whichever side the padding is on; see
    `mean_pool`."""
    if attention_mask is None:
        return last_hidden_state[:, -1]
    places = torch.arange(attention_mask.shape[1], device=attention_mask.device)
    last = (attention_mask.long() * places).amax(dim=1)
    return last_hidden_state.gather(
        1, last.view(-1, 1, 1).expand(-1, 1, last_hidden_state.shape[-1])
    ).squeeze(1)


def content_mask(attention_mask: torch.Tensor, special_ends: bool = True) -> torch.Tensor:
    """Mask of the tokens of each text, `(batch, length)`, that are not special.

    Args:
        special_ends: whether the first and last token of each text are special, as for encoders. The texts of
            decoder-only encoders need not have such tokens, so all of their tokens count.
    """
    is_token = attention_mask.bool()
    if not special_ends:
        return is_token
    number = is_token.cumsum(dim=1)
    return is_token & (number > 1) & (number < number[:, -1:])


POOLINGS = {"cls": cls_pool, "mean": mean_pool, "lasttoken": last_token_pool}
"""The poolings by the names that sentence-transformers has for them."""
