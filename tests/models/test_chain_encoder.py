"""The chain encoder against torch's own Bi-GRU, chain by chain and without padding."""

from __future__ import annotations

import pytest
import torch

from eventformers.models.chain_encoder import ChainEncoder

EVENTS, SIZE, CHAIN_SIZE = 6, 5, 8
CHAINS = torch.tensor(
    [
        [0, 1, 2, 3],
        [0, 1, 3, 2],
        [0, 1, -1, -1],
        [4, -1, -1, -1],
        [0, 1, 2, 3],
        [5, 5, 5, -1],
        [-1, -1, -1, -1],
    ]
)


@pytest.fixture
def encoder() -> ChainEncoder:
    torch.manual_seed(0)
    encoder = ChainEncoder(SIZE, CHAIN_SIZE).double()
    with torch.no_grad():
        encoder.chain_token.normal_()
    return encoder


@pytest.fixture
def events() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(EVENTS, SIZE, generator=generator, dtype=torch.float64)


def _by_torch(encoder: ChainEncoder, events: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """States of events `(C, n, D)` and of the chain token `(C, D)`, a chain at a time."""
    states, of_token = [], []
    for chain in CHAINS:
        rows = [events[event] for event in chain.tolist() if event >= 0]
        output, _ = encoder.gru(torch.stack([*rows, encoder.chain_token]).unsqueeze(0))
        padding = torch.zeros(CHAINS.shape[1] - len(rows), CHAIN_SIZE, dtype=torch.float64)
        states.append(torch.cat([output[0, :-1], padding]))
        of_token.append(output[0, -1])
    return torch.stack(states), torch.stack(of_token)


def test_equals_torch(encoder: ChainEncoder, events: torch.Tensor) -> None:
    """Values and the gradient of every weight and event."""
    draw = torch.Generator().manual_seed(2)
    weights = [
        torch.randn(*CHAINS.shape, CHAIN_SIZE, generator=draw, dtype=torch.float64),
        torch.randn(len(CHAINS), CHAIN_SIZE, generator=draw, dtype=torch.float64),
    ]
    results = []
    for run in (encoder, lambda leaf, _: _by_torch(encoder, leaf)):
        leaf = events.clone().requires_grad_()
        values = run(leaf, CHAINS)
        loss = sum((weight * value).sum() for weight, value in zip(weights, values, strict=True))
        results.append([*values, *torch.autograd.grad(loss, [leaf, *encoder.parameters()])])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
        assert (expected != 0).any()


def test_chain_states_alone(encoder: ChainEncoder, events: torch.Tensor) -> None:
    """The same state at the chain token, for any leading dimensions, without the backward half's run."""
    _, expected = encoder(events, CHAINS)
    found = encoder.chain_states(events, CHAINS.expand(2, 3, *CHAINS.shape))
    torch.testing.assert_close(found, expected.expand(2, 3, *expected.shape))


def test_every_prefix_runs_once(
    encoder: ChainEncoder, events: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eventformers.models import chain_encoder

    rows = []
    cell = chain_encoder._gru_cell

    def counted(inputs: torch.Tensor, *arguments: torch.Tensor) -> torch.Tensor:
        rows.append(len(inputs))
        return cell(inputs, *arguments)

    monkeypatch.setattr(chain_encoder, "_gru_cell", counted)
    encoder.chain_states(events, CHAINS)
    prefixes = {
        tuple(sequence[:length])
        for chain in CHAINS.tolist()
        for sequence in [[*(event for event in chain if event >= 0), "token"]]
        for length in range(1, len(sequence) + 1)
    }
    # And one row for the backward half of all chains.
    assert sum(rows) == len(prefixes) + 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dtypes(encoder: ChainEncoder, events: torch.Tensor, dtype: torch.dtype) -> None:
    expected, _ = encoder(events, CHAINS)
    states, _ = encoder.to(dtype)(events.to(dtype), CHAINS)
    assert states.dtype == dtype
    torch.testing.assert_close(states.double(), expected, rtol=0.1, atol=0.05)


def test_autocast_leaves_it_as_it_is(encoder: ChainEncoder, events: torch.Tensor) -> None:
    encoder, events = encoder.float(), events.float()
    expected, _ = encoder(events, CHAINS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states, _ = encoder(events, CHAINS)
    assert torch.equal(states, expected)
