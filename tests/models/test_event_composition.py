"""Pooling of roles and words, and the composition of events, against loops over tokens and entries."""

from __future__ import annotations

import pytest
import torch
from heterevent_inputs import event_inputs

from eventformers.models.heterevent_layers import (
    EventComposition,
    LowRankComposition,
    TensorComposition,
    pool_roles,
    pool_words,
    predicate_alone,
    words_of_tokens,
)
from eventformers.models.pooling import content_mask

SIZE, RANK = 3, 2
INPUTS = event_inputs(60)
ROLE_MASKS, WORDS = INPUTS["role_masks"], INPUTS["word_index"]
EVENTS, LENGTH = WORDS.shape


def _random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


TOKENS = _random(EVENTS, LENGTH, SIZE, seed=1)


def test_roles_are_pooled_by_maximum_and_mean() -> None:
    roles, present = pool_roles(TOKENS, ROLE_MASKS)
    assert present.any()
    assert not present.all()
    for event in range(EVENTS):
        for role in range(3):
            chosen = TOKENS[event][ROLE_MASKS[event, role]]
            assert bool(present[event, role]) == (len(chosen) > 0)
            expected = (
                torch.cat([chosen.max(dim=0).values, chosen.mean(dim=0)])
                if len(chosen)
                else torch.zeros(2 * SIZE, dtype=torch.float64)
            )
            torch.testing.assert_close(roles[event, role], expected)


def test_words_are_pooled_in_the_order_of_their_first_token() -> None:
    vectors, words = pool_words(TOKENS, WORDS)
    widest = 0
    for event in range(EVENTS):
        order = list(dict.fromkeys(word for word in WORDS[event].tolist() if word >= 0))
        widest = max(widest, len(order))
        assert words[event].tolist() == order + [-1] * (words.shape[1] - len(order))
        for slot, word in enumerate(order):
            torch.testing.assert_close(vectors[event, slot], TOKENS[event][WORDS[event] == word].mean(dim=0))
        assert (vectors[event, len(order) :] == 0).all()
    assert words.shape[1] == widest


def test_no_event_has_a_word() -> None:
    vectors, words = pool_words(TOKENS, torch.full_like(WORDS, -1))
    assert words.tolist() == [[-1]] * EVENTS
    assert (vectors == 0).all()


def test_what_stands_between_the_special_tokens() -> None:
    mask = torch.tensor([[1, 1, 1, 1, 0], [0, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]])
    expected = torch.zeros_like(mask)
    expected[0, 1:3], expected[1, 2:4] = 1, 1
    assert torch.equal(content_mask(mask).long(), expected)
    assert torch.equal(predicate_alone(mask)[:, 1].long(), expected)
    assert not predicate_alone(mask)[:, [0, 2]].any()
    words = words_of_tokens(torch.arange(25).view(5, 5), mask)
    assert words[words >= 0].tolist() == [1, 2, 7, 8]


def _tensor_of(composition: TensorComposition | LowRankComposition) -> torch.Tensor:
    """The tensor T, entry by entry."""
    if isinstance(composition, TensorComposition):
        return composition.tensor
    slices = []
    for i in range(SIZE):
        one = torch.diag(composition.diagonal.weight[i])
        for r in range(RANK):
            row = i * RANK + r
            one = one + torch.outer(composition.left.weight[row], composition.right.weight[row])
        slices.append(one)
    return torch.stack(slices)


@pytest.mark.parametrize("kind", ["tensor", "low_rank"])
def test_events_are_composed_as_printed(kind: str) -> None:
    """Eq. 1 by sums over all entries, with the learned vector where a role is absent."""
    torch.manual_seed(0)
    hidden_size = 4
    composition = EventComposition(hidden_size, SIZE, kind, RANK).double()
    with torch.no_grad():
        for parameter in composition.parameters():
            parameter.normal_()
    hidden = _random(EVENTS, LENGTH, hidden_size, seed=2)
    found = composition(hidden, ROLE_MASKS)
    projected = hidden @ composition.token_projection.weight.T + composition.token_projection.bias
    tensor = _tensor_of(composition.interaction)
    for event in range(EVENTS):
        roles = []
        for role in range(3):
            chosen = projected[event][ROLE_MASKS[event, role]]
            absent = (composition.absent_role,)
            roles.append(torch.cat([*chosen.max(dim=0)[:1], chosen.mean(dim=0)] if len(chosen) else absent))
        subject, predicate, object_ = roles
        expected = sum(
            weight.weight @ _by_entries(tensor, argument, predicate)
            for weight, argument in (
                (composition.subject_weight, subject),
                (composition.object_weight, object_),
            )
        )
        torch.testing.assert_close(found[event], expected)


def _by_entries(tensor: torch.Tensor, argument: torch.Tensor, predicate: torch.Tensor) -> torch.Tensor:
    """Entry i is the sum over j and k of `T_ijk a_j p_k`."""
    size, width, _ = tensor.shape
    return torch.stack(
        [
            sum(tensor[i, j, k] * argument[j] * predicate[k] for j in range(width) for k in range(width))
            for i in range(size)
        ]
    )


def test_low_rank_needs_less() -> None:
    sizes = [
        sum(value.numel() for value in EventComposition(768, 128, kind, 10).interaction.parameters())
        for kind in ("tensor", "low_rank")
    ]
    assert sizes == [128 * 256 * 256, 128 * 256 + 2 * 128 * 10 * 256]
