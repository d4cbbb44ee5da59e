"""Shared parts of the losses: cosines of all pairs, masked means, and full precision.

Half precision inputs are converted to float32 and autocast is disabled inside: similarities divided by small
temperatures need that precision.
"""

import functools
from collections.abc import Callable

import torch
from torch.nn import functional

SHORTEST = 1e-12
"""Minimum length of a vector in a division, as in `functional.normalize`."""


def in_full_precision(loss: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Decorate a function of tensors to run in at least float32, under autocast too."""

    def raised(value):
        is_half = isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)
        return value.float() if is_half else value

    @functools.wraps(loss)
    def wrapper(*args, **kwargs) -> torch.Tensor:
        values = (*args, *kwargs.values())
        device = next(value.device for value in values if isinstance(value, torch.Tensor))
        with torch.autocast(device.type, enabled=False):
            return loss(
                *(raised(value) for value in args),
                **{name: raised(value) for name, value in kwargs.items()},
            )

    return wrapper


def cosine(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Cosines of all pairs: `(..., n, d)` and `(..., m, d)` to `(..., n, m)`."""
    return functional.normalize(left, dim=-1) @ functional.normalize(right, dim=-1).transpose(-1, -2)


def unit(rows: torch.Tensor) -> torch.Tensor:
    """Scale rows to length 1, `(..., d)`; a row of zeros is unchanged.

    The result is that of `functional.normalize`, which takes twice as long: it divides every entry.
    """
    return rows * torch.linalg.vector_norm(rows, dim=-1, keepdim=True).clamp(min=SHORTEST).reciprocal()


def cosine_with_one(vector: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Cosines of one vector with many rows: `(..., d)` and `(..., n, d)` to `(..., n)`.

    The products are divided by the lengths, which avoids a second copy of the rows.
    """
    products = (rows @ unit(vector).unsqueeze(-1)).squeeze(-1)
    return products / torch.linalg.vector_norm(rows, dim=-1).clamp(min=SHORTEST)


def cosine_among(rows: torch.Tensor) -> torch.Tensor:
    """Cosines of all pairs of rows: `(..., n, d)` to `(..., n, n)`."""
    return _ProductsAmong.apply(unit(rows))


class _ProductsAmong(torch.autograd.Function):
    """`rows @ rows.T` whose gradient takes one product; autograd would compute two."""

    @staticmethod
    def forward(ctx, rows: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(rows)
        return rows @ rows.transpose(-1, -2)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        (rows,) = ctx.saved_tensors
        return (gradient + gradient.transpose(-1, -2)) @ rows


def rows_as_classes(logits: torch.Tensor) -> torch.Tensor:
    """Cross-entropy by row, where the correct class of row i is column i: `(B, B)` to `(B,)`."""
    return functional.cross_entropy(
        logits, torch.arange(logits.shape[0], device=logits.device), reduction="none"
    )


def without(logits: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Set logits to minus infinity where the mask is true."""
    return logits if mask is None else logits.masked_fill(mask, float("-inf"))


def masked_mean(values: torch.Tensor, mask: torch.Tensor | None, dims: tuple[int, ...]) -> torch.Tensor:
    """Mean over dimensions of the entries whose mask is true; 0 if there are none."""
    if mask is None:
        return values.mean(dim=dims)
    # Selected instead of multiplied: a masked value may be infinite.
    kept = torch.where(mask, values, torch.zeros_like(values))
    return kept.sum(dim=dims) / mask.expand_as(values).sum(dim=dims).clamp(min=1)


def far_below(logits: torch.Tensor) -> float:
    """A finite logit whose softmax weight is 0 beside any ordinary logit, and not NaN among its own kind."""
    return torch.finfo(logits.dtype).min / 4
