"""Models of texts under `torch.compile`: one graph for any number of texts of any length.

The backend `eager` runs what was captured as it is, so that no compiler is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from method_case import random_texts

import eventformers

MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    # MICO is the same module.
    "swcc": (eventformers.SwccModel, {"pooling": "mean", "projection_dim": 7}),
    "event_type_induction": (eventformers.EventTypeInductionModel, {}),
    "event_grounding": (eventformers.EventGroundingModel, {"normalise": True}),
}


@pytest.mark.process
@pytest.mark.parametrize("name", MODELS)
def test_one_graph(tiny_encoder: Path, name: str) -> None:
    model_class, fields = MODELS[name]
    model = model_class.from_encoder(str(tiny_encoder), **fields).eval()
    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    try:
        compiled = torch.compile(model, backend=keep, fullgraph=True, dynamic=True)
        for rows, length in ((3, 8), (2, 5)):
            input_ids, attention_mask = random_texts(
                rows, length, model.config.encoder_config.vocab_size, seed=rows
            )
            texts = {"input_ids": input_ids, "attention_mask": attention_mask}
            with torch.inference_mode():
                vectors, expected = compiled(**texts).embeddings, model(**texts).embeddings
            torch.testing.assert_close(vectors, expected, rtol=0, atol=1e-5)
    finally:
        torch.compiler.reset()
    assert len(graphs) == 1
