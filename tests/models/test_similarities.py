"""Cosines of all pairs, of one vector with many, and of rows among themselves."""

from __future__ import annotations

import torch

from eventformers.models.similarities import cosine, cosine_among, cosine_with_one, unit


def _rows(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_unit() -> None:
    rows = _rows(4, 3)
    rows[1] = 0
    torch.testing.assert_close(unit(rows), torch.nn.functional.normalize(rows, dim=-1))


def test_cosine_with_one() -> None:
    rows, vectors = _rows(2, 5, 3), _rows(2, 3)
    expected = torch.cosine_similarity(vectors.unsqueeze(1), rows, dim=-1)
    torch.testing.assert_close(cosine_with_one(vectors, rows), expected)
    assert not cosine_with_one(vectors, torch.zeros_like(rows)).any()


def test_cosine_among() -> None:
    """Values, and first and second derivatives by differences."""
    rows = _rows(2, 4, 3).requires_grad_()
    torch.testing.assert_close(cosine_among(rows), cosine(rows, rows))
    assert torch.autograd.gradcheck(cosine_among, rows)
    assert torch.autograd.gradgradcheck(cosine_among, rows)


def test_cosine_among_needs_one_product_for_its_gradient() -> None:
    rows = _rows(6, 3).requires_grad_()
    with torch.profiler.profile() as profile:
        cosine_among(rows).square().sum().backward()
    products = [event.count for event in profile.key_averages() if event.key == "aten::mm"]
    assert products == [2]
