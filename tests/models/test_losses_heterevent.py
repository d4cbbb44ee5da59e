"""MulCL's losses against slow versions, at known values, and with padding."""

from __future__ import annotations

import math

import pytest
import slow_chain_losses
import torch
from loss_case import LossCase, VectorLossTests, random_numbers

from eventformers.models import chain_losses, losses

BATCH, SIZE, NEGATIVES, SEGMENTS, VIEWS, NODES, WORDS = 3, 4, 3, 2, 3, 5, 6
TEMPERATURE = 0.3


def _mask(*shape: int, seed: int) -> torch.Tensor:
    """Random, with its first entry of every row true."""
    mask = random_numbers(*shape, seed=seed) > 0
    mask[..., 0] = True
    return mask


_CHAINS = {
    "anchor": random_numbers(BATCH, SIZE, seed=1),
    "positive": random_numbers(BATCH, SIZE, seed=2),
    "corrupted": random_numbers(BATCH, NEGATIVES, SIZE, seed=3),
}
_SEGMENTS = {
    "anchor": random_numbers(BATCH, SIZE, seed=1),
    "segments": random_numbers(BATCH, SEGMENTS, SIZE, seed=4),
    "corrupted": random_numbers(BATCH, SEGMENTS, NEGATIVES, SIZE, seed=5),
}
_GRAPHS = {
    "readout": random_numbers(BATCH, SIZE, seed=6),
    "nodes": random_numbers(BATCH, NODES, SIZE, seed=7),
    "corrupted": random_numbers(BATCH, VIEWS, NODES, SIZE, seed=8),
}
_VIEWS = {"views": random_numbers(BATCH, VIEWS, NODES, SIZE, seed=8)}
_EVENT_WORDS = {
    "queries": random_numbers(BATCH, 2, SIZE, seed=9),
    "vocabulary": random_numbers(WORDS, SIZE, seed=10),
}
_WORDS = torch.tensor([[0, 3, -1], [5, 1, 2], [-1, -1, -1]])
_CONTEXT = {
    "context": random_numbers(BATCH, NODES, SIZE, seed=11),
    "candidates": random_numbers(WORDS, SIZE, seed=12),
}
_NODE_MASK = _mask(BATCH, NODES, seed=13)
_SOME_CONTEXT = _mask(BATCH, NODES, seed=14)
_SOME_CONTEXT[1] = False
_SEGMENT_MASK = torch.tensor([[True, False], [True, True], [False, False]])
_AT = {"temperature": TEMPERATURE}
_TARGET = {"target": torch.tensor([4, 0, 1])}
_NEIGHBOURS = {
    "to_next": random_numbers(BATCH, 4, SIZE, seed=19),
    "to_previous": random_numbers(BATCH, 4, SIZE, seed=20),
    "candidates": random_numbers(WORDS, SIZE, seed=12),
}
_IN_CHAINS = {"events": torch.tensor([[4, 0, 1, 3], [2, 5, -1, -1], [1, -1, -1, -1]])}

CASES = {
    "chain_contrast": LossCase("chain_contrast", _CHAINS, _AT),
    "chain_contrast masked": LossCase(
        "chain_contrast",
        _CHAINS,
        {**_AT, "corrupted_mask": torch.tensor([[True] * 3, [False, True, False], [False] * 3])},
    ),
    "chain_contrast literal": LossCase("chain_contrast", _CHAINS, {**_AT, "literal_ratio": True}),
    "composition_contrast": LossCase("composition_contrast", _SEGMENTS, _AT),
    "composition_contrast masked": LossCase(
        "composition_contrast",
        _SEGMENTS,
        {
            **_AT,
            "segment_mask": _SEGMENT_MASK,
            "corrupted_mask": _mask(BATCH, SEGMENTS, NEGATIVES, seed=15),
        },
    ),
    "composition_contrast literal": LossCase(
        "composition_contrast", _SEGMENTS, {**_AT, "literal_ratio": True}
    ),
    "normal_corrupted_contrast": LossCase("normal_corrupted_contrast", _GRAPHS, _AT),
    "normal_corrupted_contrast masked": LossCase(
        "normal_corrupted_contrast", _GRAPHS, {**_AT, "node_mask": _NODE_MASK}
    ),
    "normal_corrupted_contrast literal": LossCase(
        "normal_corrupted_contrast", _GRAPHS, {**_AT, "literal_ratio": True}
    ),
    "corrupted_corrupted_contrast": LossCase("corrupted_corrupted_contrast", _VIEWS, _AT),
    "corrupted_corrupted_contrast masked": LossCase(
        "corrupted_corrupted_contrast", _VIEWS, {**_AT, "node_mask": _NODE_MASK}
    ),
    "corrupted_corrupted_contrast literal": LossCase(
        "corrupted_corrupted_contrast", _VIEWS, {**_AT, "literal_ratio": True, "node_mask": _NODE_MASK}
    ),
    "word_prediction": LossCase("word_prediction", _EVENT_WORDS, {**_AT, "words": _WORDS}),
    "word_prediction of some": LossCase(
        "word_prediction",
        _EVENT_WORDS,
        {**_AT, "words": _WORDS, "predicts": random_numbers(BATCH, 2, 3, seed=16) > 0},
    ),
    "mean_cosine": LossCase(
        "mean_cosine", {"nodes": _CONTEXT["context"], "candidates": _CONTEXT["candidates"]}, {}
    ),
    "mean_cosine of own candidates": LossCase(
        "mean_cosine",
        {"nodes": _CONTEXT["context"], "candidates": random_numbers(BATCH, 2, SIZE, seed=17)},
        {"node_mask": _SOME_CONTEXT},
    ),
    "event_prediction": LossCase("event_prediction", _CONTEXT, {**_AT, **_TARGET}),
    "event_prediction masked": LossCase(
        "event_prediction",
        _CONTEXT,
        {
            **_AT,
            **_TARGET,
            "context_mask": _SOME_CONTEXT,
            "left_out": _mask(BATCH, WORDS, seed=18),
        },
    ),
    "neighbour_prediction": LossCase("neighbour_prediction", _NEIGHBOURS, {**_AT, **_IN_CHAINS}),
    "neighbour_prediction masked": LossCase(
        "neighbour_prediction",
        _NEIGHBOURS,
        {**_AT, **_IN_CHAINS, "left_out": _mask(BATCH, WORDS, seed=18)},
    ),
}


class TestLosses(VectorLossTests):
    cases = CASES
    equations = chain_losses
    slow = slow_chain_losses


# One graph


def test_one_graph_is_a_batch_of_one() -> None:
    """The form of Eq. 12 and 13 for one graph: no leading dimension."""
    of_graphs = [
        losses.normal_corrupted_contrast(*(value[c] for value in _GRAPHS.values()), TEMPERATURE)
        for c in range(BATCH)
    ]
    torch.testing.assert_close(CASES["normal_corrupted_contrast"](), torch.stack(of_graphs).mean())
    of_graphs = [losses.corrupted_corrupted_contrast(_VIEWS["views"][c], TEMPERATURE) for c in range(BATCH)]
    torch.testing.assert_close(CASES["corrupted_corrupted_contrast"](), torch.stack(of_graphs).mean())


@pytest.mark.parametrize("name", ["normal_corrupted_contrast", "corrupted_corrupted_contrast"])
def test_padding_of_a_graph_changes_nothing(name: str) -> None:
    """A padded node counts neither in a sum nor in a mean, whatever it holds; it gets no gradient."""
    tensors = {**(_GRAPHS if name.startswith("normal") else _VIEWS)}
    padded = {
        key: value
        if key == "readout"
        else torch.cat([value, 1e3 * random_numbers(*value.shape, seed=19)], dim=-2)
        for key, value in tensors.items()
    }
    leaves = {key: value.clone().requires_grad_() for key, value in padded.items()}
    node_mask = (torch.arange(2 * NODES) < NODES).expand(BATCH, -1)
    loss = getattr(losses, name)(**leaves, temperature=TEMPERATURE, node_mask=node_mask)
    torch.testing.assert_close(loss, CASES[name]())
    loss.backward()
    for key, leaf in leaves.items():
        if key != "readout":
            assert (leaf.grad[..., NODES:, :] == 0).all(), key
            assert (leaf.grad[..., :NODES, :] != 0).any(), key


# Known values


def _equal(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, SIZE, dtype=torch.float64)


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_equal_similarities(temperature: float) -> None:
    """Logs of counts, whatever the temperature: 9 for Eq. 12 with 8 views."""
    count = 24
    value = losses.chain_contrast(_equal(2), _equal(2), _equal(2, count), temperature)
    assert value.item() == pytest.approx(math.log(count + 1))
    value = losses.composition_contrast(_equal(2), _equal(2, 8), _equal(2, 8, count), temperature)
    assert value.item() == pytest.approx(math.log(count + 1))
    value = losses.normal_corrupted_contrast(_equal(), _equal(NODES), _equal(8, NODES), temperature)
    assert value.item() == pytest.approx(math.log(9))
    value = losses.corrupted_corrupted_contrast(_equal(8, NODES), temperature)
    assert value.item() == pytest.approx(math.log(2 * NODES - 1))
    value = losses.word_prediction(_equal(1, 1), _equal(WORDS), torch.tensor([[1, 4]]), temperature)
    assert value.item() == pytest.approx(math.log(WORDS - 1))
    value = losses.event_prediction(_equal(1, 3), _equal(WORDS), torch.tensor([1]), temperature)
    assert value.item() == pytest.approx(math.log(WORDS))
    # Four factors of three events.
    value = losses.neighbour_prediction(
        _equal(1, 3), _equal(1, 3), _equal(WORDS), torch.tensor([[1, 0, 2]]), temperature
    )
    assert value.item() == pytest.approx(4 / 3 * math.log(WORDS))


def test_literal_positive_keeps_the_loss_valid() -> None:
    """Without dropout the positive is the anchor: a constant, and the gradient comes from the corruptions."""
    anchor = _CHAINS["anchor"].clone().requires_grad_()
    loss = losses.chain_contrast(anchor, anchor, _CHAINS["corrupted"], TEMPERATURE)
    loss.backward()
    assert 0 < loss < math.log(NEGATIVES + 1)
    assert (anchor.grad != 0).any()


def test_nothing_to_be_told_apart_is_no_loss() -> None:
    absent = torch.zeros(BATCH, NEGATIVES, dtype=torch.bool)
    assert losses.chain_contrast(**_CHAINS, temperature=TEMPERATURE, corrupted_mask=absent).item() == 0
    absent = torch.zeros(BATCH, SEGMENTS, dtype=torch.bool)
    assert losses.composition_contrast(**_SEGMENTS, temperature=TEMPERATURE, segment_mask=absent).item() == 0
    assert losses.corrupted_corrupted_contrast(_VIEWS["views"][..., :1, :], TEMPERATURE).item() == 0


def test_one_view_has_no_pair() -> None:
    with pytest.raises(ValueError, match="found 1 corrupted view"):
        losses.corrupted_corrupted_contrast(_VIEWS["views"][:, :1], TEMPERATURE)
