"""What is made of vectors on the device: as on the processor."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from case_files import TESTS, load_test_file
from event_files import write_edges, write_events
from graphs import pairs_of
from tiny import WORDS, save_tiny_bi_encoder, save_tiny_cross_encoder
from transformers import pipeline

from eventformers import encode, next_event
from eventformers.inference.commonsense.complete import complete
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.grounding.ground import ground
from eventformers.inference.grounding.knowledge_base import load_knowledge_base
from eventformers.inference.induction.mention_encoding import encode_mentions

pytestmark = pytest.mark.cuda

TOLERANCE = 1e-5
"""Of float32; scores are sums of a few dozen numbers near 1."""


def both(device: str, function: Callable[[str], Any]) -> tuple[Any, Any]:
    """What a function gives on the device, and on the processor."""
    return function(device), function("cpu")


def test_next_event(tiny_heterevent: Path, device: str) -> None:
    chain = ["police | arrested | thief", "court | sentenced | thief"]
    candidates = ["judge | fired | officer", "storm | destroyed | bridge", "thief | fell |", "won"]
    found, expected = both(
        device, lambda device: next_event(tiny_heterevent, chain, candidates=candidates, device=device)
    )
    assert [one.text for one in found.candidates] == [one.text for one in expected.candidates]
    for one, other in zip(found.candidates, expected.candidates, strict=True):
        assert one.score == pytest.approx(other.score, abs=TOLERANCE)


def test_complete(tiny_encoder: Path, device: str, tmp_path: Path) -> None:
    def run(device: str) -> dict[str, float]:
        found = complete(
            tiny_encoder,
            "storm, Causes",
            data=pairs_of(),
            config="conceptnet",
            index=tmp_path / device,
            top=100,
            rerank=True,
            device=device,
            overwrite=True,
        )
        return {one.text: one.score for one in found.alternatives}

    found, expected = both(device, run)
    assert found == pytest.approx(expected, abs=TOLERANCE)


def test_ground(tiny_encoder: Path, device: str, tmp_path: Path) -> None:
    """With candidates of a bi-encoder whose towers differ, scored again by a cross-encoder."""
    data = load_test_file(TESTS / "inference" / "test_text_grounding.py")
    known = load_knowledge_base(write_edges(write_events(tmp_path / "kb", data.EVENTS), data.EDGES))
    sizes = {"mention_tokens": 16, "event_tokens": 10}
    retriever = save_tiny_bi_encoder(tiny_encoder, tmp_path / "bi", pooling="mean", **sizes)
    reranker = save_tiny_cross_encoder(tiny_encoder, tmp_path / "cross", **sizes)
    for settings in ({}, {"reranker": reranker, "retriever_weight": 0.5}):
        found, expected = both(
            device,
            lambda device, settings=settings: ground(
                retriever, data.TEXTS, known, candidates=8, device=device, **settings
            ),
        )
        for one, other in zip(found.mentions, expected.mentions, strict=True):
            scores = {event.event_id: event.score for event in other.candidates}
            assert {event.event_id: event.score for event in one.candidates} == pytest.approx(
                scores, abs=TOLERANCE
            )


@pytest.mark.parametrize("trigger_input", ["none", "marked_span"])
def test_mentions(tiny_encoder: Path, device: str, trigger_input: str) -> None:
    data = load_test_file(TESTS / "inference" / "test_mention_encoding.py")

    def run(device: str) -> Any:
        encoder = data.trained(tiny_encoder, trigger_input)
        encoder.model.to(device)
        return encode_mentions(encoder, data.MENTIONS)

    found, expected = both(device, run)
    for name in ("embeddings", "query", "key"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=TOLERANCE, atol=TOLERANCE, err_msg=name
        )


def test_ranks(device: str) -> None:
    """Ties included; scores that another function has changed are ranked on the device, too."""
    data = load_test_file(TESTS / "inference" / "test_ranking.py")
    graph = data.random_graph(3, premises=40, alternatives=200, rows=300, values=4)
    for settings in ({}, {"rerank": lambda rows, scores: scores + rows.unsqueeze(1) / 64}):
        found, expected = both(
            device, lambda device, settings=settings: data.rank(*graph, device=device, **settings)
        )
        assert found.optimistic.tolist() == expected.optimistic.tolist()
        assert found.pessimistic.tolist() == expected.pessimistic.tolist()


QUESTION = {"context": ["police chased thief", "thief fell"], "choices": ["thief ran", "rain fell"]}
RAIN = {"subject": "rain", "predicate": "fell", "object": ""}
PIPELINES = {
    "event-embedding": lambda pipe: pipe(["police arrested thief", RAIN]),
    "next-event": lambda pipe: [one["score"] for one in pipe(QUESTION)],
}


@pytest.mark.parametrize("task", PIPELINES)
def test_pipelines(task: str, tiny_heterevent: Path, device: str) -> None:
    """Of a model that reads roles and chains, whose pipelines compute the most on the device."""

    def run(device: str) -> Any:
        return PIPELINES[task](pipeline(task, model=str(tiny_heterevent), device=device))

    np.testing.assert_allclose(*both(device, run), rtol=TOLERANCE, atol=TOLERANCE)


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
