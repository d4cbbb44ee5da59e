"""Encoding on the device: as on the processor, in half precision, and from several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import WORDS

from eventformers import encode
from eventformers.inference.encode import EventEncoder, load_encoder

pytestmark = pytest.mark.cuda

EVENTS = [
    {"subject": subject, "predicate": predicate, "object": object_}
    for subject in WORDS[3:9]
    for predicate in WORDS[42:52]
    for object_ in (*WORDS[9:13], "spokeswoman of the city", "")
]
MODELS = ("tiny_encoder", "tiny_heterevent")
FLOAT32_TOLERANCE = 1e-5
# A number of 1 is rounded to 2^-9 after each of some dozen operations of the two layers; errors add up as a
# random walk.
BFLOAT16_TOLERANCE, BFLOAT16_COSINE = 0.05, 0.999

every_model = pytest.mark.parametrize("model", MODELS)


@pytest.fixture
def folder(request: pytest.FixtureRequest, model: str) -> Path:
    return request.getfixturevalue(model)


def own_stream(device: str) -> AbstractContextManager[object]:
    """A CUDA stream of its own, or nothing on the processor."""
    return torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else nullcontext()


@every_model
def test_float32_equals_the_processor(folder: Path, device: str) -> None:
    expected = encode(folder, EVENTS, device="cpu")
    found = encode(folder, EVENTS, device=device)
    np.testing.assert_allclose(found, expected, rtol=FLOAT32_TOLERANCE, atol=FLOAT32_TOLERANCE)


@every_model
@pytest.mark.parametrize("batch_size", [1, 7])
def test_batch_size_changes_nothing(folder: Path, device: str, batch_size: int) -> None:
    encoder = load_encoder(folder, device=device)
    np.testing.assert_allclose(
        encoder.encode(EVENTS[:60], batch_size=batch_size),
        encoder.encode(EVENTS[:60]),
        rtol=FLOAT32_TOLERANCE,
        atol=FLOAT32_TOLERANCE,
    )


@every_model
def test_bfloat16_is_near_float32(folder: Path, device: str) -> None:
    expected = encode(folder, EVENTS, device="cpu", normalize=True)
    found = encode(folder, EVENTS, device=device, dtype="bfloat16", normalize=True)
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() < BFLOAT16_TOLERANCE
    assert (found * expected).sum(axis=1).min() > BFLOAT16_COSINE


@every_model
def test_two_threads_with_a_stream_each(folder: Path, device: str) -> None:
    """Two threads share one model; each gets the vectors that it gets alone."""
    encoder = load_encoder(folder, device=device)
    halves = (EVENTS[::2], EVENTS[1::2])
    expected = [encoder.encode(half) for half in halves]
    if device == "cuda":
        # The weights were copied in the stream of this thread.
        torch.cuda.synchronize()

    def encode_often(half: list[dict[str, str]]) -> list[np.ndarray]:
        with own_stream(device):
            return [encoder.encode(half, batch_size=16) for _ in range(5)]

    with ThreadPoolExecutor(2) as pool:
        for vectors, alone in zip(pool.map(encode_often, halves), expected, strict=True):
            for one in vectors:
                np.testing.assert_allclose(one, alone, rtol=FLOAT32_TOLERANCE, atol=FLOAT32_TOLERANCE)


@every_model
def test_the_number_of_threads_stays(folder: Path, device: str) -> None:
    encoder: EventEncoder = load_encoder(folder, device=device)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        encoder.encode(EVENTS[:20])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
