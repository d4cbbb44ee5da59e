"""What tests of models share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny import save_tiny_bi_encoder, save_tiny_cross_encoder
from transformers import AutoTokenizer

import eventformers
from eventformers.models.processing_event_type_induction import TRIGGER_MARKERS
from eventformers.trainers.method import add_marker_tokens


@pytest.fixture(scope="session")
def folders(
    tiny_encoder: Path, tiny_heterevent: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A saved model of each method with its tokenizer."""
    root, saved = tmp_path_factory.mktemp("models"), {"heterevent": tiny_heterevent}
    torch.manual_seed(0)
    for name, model_class, fields in (
        ("swcc", eventformers.SwccModel, {"event_order": "predicate_first", "pooling": "mean"}),
        ("mico", eventformers.MicoModel, {"pooling": "mean"}),
        ("event_type_induction", eventformers.EventTypeInductionModel, {"trigger_input": "marked_span"}),
    ):
        saved[name] = root / name
        model = model_class.from_encoder(str(tiny_encoder), **fields)
        tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
        if name == "event_type_induction":
            add_marker_tokens(tokenizer, model, TRIGGER_MARKERS)
        model.save_pretrained(saved[name])
        tokenizer.save_pretrained(saved[name])
    saved["event_grounding"] = save_tiny_bi_encoder(tiny_encoder, root / "bi")
    saved["event_grounding_cross"] = save_tiny_cross_encoder(tiny_encoder, root / "cross")
    return saved
