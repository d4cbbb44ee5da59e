"""Every method on a decoder-only encoder and on ModernBERT: train, save, load elsewhere, encode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel
from short_runs import short_run
from tiny import save_tiny_qwen3
from transformers import AutoModel, AutoModelForPreTraining, AutoProcessor, AutoTokenizer

import eventformers
from eventformers import SwccForPreTraining
from eventformers.errors import EventformersError
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.models import processing_events
from eventformers.models.sentence_transformers_files import write_sentence_transformers_files
from eventformers.models.text_prompts import tokenise_after
from eventformers.trainers.adapters import ADAPTER_FOLDER, add_adapters, merged
from eventformers.trainers.run import TrainingRun, save_run

TEXTS = ["police arrested thief", "the storm", "the company bought the bank of the river in the city"]
PROMPTS = {"event": "read: ", "query": "find: ", "document": "keep: "}
STEPS = (
    "max_steps=2",
    "per_device_train_batch_size=4",
    "save_strategy='no'",
    "encoder_dropout=0.1",
    "logging_steps=1",
)
SETTINGS = {
    "swcc": ("shared_word_weight=0",),
    "mico": ("config=conceptnet_inductive_pairs", "validation_rows=0"),
    "heterevent": (
        *("event_dim=16", "chain_dim=16", "num_incoming_events=2", "document_share=0"),
        *("supervised.max_steps=2", "supervised.validation_rows=0", "early_stopping_patience=null"),
    ),
    "event_type_induction": ("num_seen=6", "num_unseen=6", "max_seq_length=24", "trigger_input=none"),
    "event_grounding": ("max_mentions=12", "mention_tokens=20", "event_tokens=12"),
}
KINDS = {"mico": {"query", "document", "event"}, "event_grounding": set()}
"""The kinds of texts that collators read, where it is not `event`; event grounding adds tokens, not texts."""
OF_QWEN3 = {"swcc": ("mlm_weight=0",)}


def train(
    method: str, encoder: Path, folder: Path, settings: tuple[str, ...] = (), **options: Any
) -> TrainingRun:
    """Train for two steps in each stage, and save what a run saves for other libraries."""
    chosen = [*STEPS, *SETTINGS.get(method, ()), *settings]
    run = short_run(method, encoder, folder, *chosen, seed=5, **options)
    save_run(run, folder)
    model = AutoModel.from_pretrained(folder)
    write_sentence_transformers_files(model, folder, run.tokenizer)
    return run


@pytest.mark.process
def test_adapters_over_half_precision_that_read_words(tiny_encoder: Path, tmp_path: Path) -> None:
    encoder = tmp_path / "encoder"
    AutoModel.from_pretrained(tiny_encoder, dtype=torch.bfloat16).save_pretrained(encoder)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(encoder)
    run = train("heterevent", encoder, tmp_path / "run", ("event_skip=true",), lora=True)
    assert all(np.isfinite(line["loss"]) for line in run.history if "loss" in line)


@pytest.mark.process
@pytest.mark.parametrize("kind", ["qwen3", "modernbert"])
@pytest.mark.parametrize("method", SETTINGS)
def test_train_save_and_encode(
    method: str,
    kind: str,
    tiny_qwen3: Path,
    tiny_modernbert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = tiny_qwen3 if kind == "qwen3" else tiny_modernbert
    own = OF_QWEN3.get(method, ()) if kind == "qwen3" else ()
    prompts = "prompts={" + ", ".join(f"{name}: '{text}'" for name, text in PROMPTS.items()) + "}"
    read: set[str] = set()
    monkeypatch.setattr(
        processing_events,
        "tokenise_after",
        lambda prompt, *rest, **settings: read.add(prompt) or tokenise_after(prompt, *rest, **settings),
    )
    run = train(method, encoder, tmp_path, (*own, prompts))
    assert {PROMPTS[kind] for kind in KINDS.get(method, {"event"})} == read - {""}
    assert run.model.config.pooling == ("lasttoken" if kind == "qwen3" else "mean")
    losses = [line["loss"] for line in run.history if "loss" in line]
    assert losses
    assert np.isfinite(losses).all()
    model = AutoModel.from_pretrained(tmp_path).eval()
    assert model.config.prompts == PROMPTS
    vectors = eventformers.encode(tmp_path, TEXTS, device="cpu")
    one_by_one = [eventformers.encode(tmp_path, text, device="cpu") for text in TEXTS]
    np.testing.assert_allclose(vectors, np.stack(one_by_one), rtol=0, atol=1e-5)
    # The prompt and the padding side are those of the saved processor.
    batch = AutoProcessor.from_pretrained(tmp_path).tokenise(TEXTS, **_settings(method))
    assert int(batch["attention_mask"][1, 0]) == (kind != "qwen3")
    if method == "heterevent":
        return
    with torch.no_grad():
        found = model(**batch).embeddings.numpy()
    np.testing.assert_allclose(found, vectors, rtol=0, atol=1e-5)
    _check_sentence_transformer(method, tmp_path, vectors)


def _settings(method: str) -> dict[str, Any]:
    # Without its own kind, an event grounder reads a text alone as the mention tower does.
    return {"kind": "event"} if method == "event_grounding" else {}


def _check_sentence_transformer(method: str, folder: Path, vectors: np.ndarray) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(model.encode(TEXTS), vectors, rtol=0, atol=1e-5)
    queries = eventformers.encode(folder, TEXTS, prompt_name="query", device="cpu")
    assert np.abs(queries - vectors).max() > 1e-3
    np.testing.assert_allclose(model.encode_query(TEXTS), queries, rtol=0, atol=1e-5)
    if method == "event_grounding":
        alone = sentence_transformers.SentenceTransformer(str(folder / "mention"), device="cpu")
        np.testing.assert_allclose(alone.encode(TEXTS), queries, rtol=0, atol=1e-5)


def test_the_loss_of_masked_tokens_needs_a_mask_token(tiny_qwen3: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"qwen3 encoder has no mask token.*--set mlm_weight=0"):
        train("swcc", tiny_qwen3, tmp_path)


def test_a_chosen_pooling_stays(tiny_qwen3: Path, tmp_path: Path) -> None:
    run = train("swcc", tiny_qwen3, tmp_path, ("mlm_weight=0", "pooling=mean"))
    assert run.model.config.pooling == "mean"


def test_equal_dropout_views_are_told(
    tiny_modernbert: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train("swcc", tiny_modernbert, tmp_path, ("encoder_dropout=0",))
    assert "encoder has no dropout" in caplog.text


# Adapters over a base in half precision


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_qwen3(tmp_path_factory.mktemp("half") / "qwen3", dtype=torch.bfloat16)


def test_adapters_are_in_full_precision_over_a_base_in_half(half: Path) -> None:
    head = SwccForPreTraining.from_encoder(str(half), dtype="auto", mlm_weight=0.0, projection_dim=8)
    assert {parameter.dtype for parameter in head.parameters()} == {torch.bfloat16}
    adapted = add_adapters(head, "tiny")
    dtypes = {parameter.requires_grad: parameter.dtype for parameter in adapted.parameters()}
    assert dtypes == {False: torch.bfloat16, True: torch.float32}
    ids = torch.tensor([[7, 8, 9], [10, 11, 0]])
    output = adapted(
        input_ids=ids,
        attention_mask=(ids != 0).long(),
        co_event_input_ids=ids,
        **{"co_event_attention_mask": (ids != 0).long(), "co_event_weight": torch.ones(2)},
    )
    output.loss.backward()
    assert output.embeddings.dtype == torch.float32
    layer = head.swcc.encoder.layers[0].self_attn.q_proj
    with torch.no_grad():
        layer.lora_B["default"].weight.normal_()
        delta = layer.scaling["default"] * layer.lora_B["default"].weight @ layer.lora_A["default"].weight
        expected = (layer.base_layer.weight.float() + delta).bfloat16()
    final = merged(adapted)
    assert {parameter.dtype for parameter in final.parameters()} == {torch.bfloat16}
    assert torch.equal(final.swcc.encoder.layers[0].self_attn.q_proj.weight, expected)
    assert final.swcc(ids).embeddings.dtype == torch.bfloat16


@pytest.mark.process
def test_a_run_with_adapters_keeps_half_precision(half: Path, tmp_path: Path) -> None:
    run = train("swcc", half, tmp_path, ("mlm_weight=0", "projection_dim=8", "learning_rate=0.05"), lora=True)
    head = AutoModelForPreTraining.from_pretrained(tmp_path)
    assert head.dtype == torch.bfloat16
    for name, value in run.model.state_dict().items():
        assert torch.equal(value, head.state_dict()[name]), name
    encoder = load_encoder(tmp_path, device="cpu")
    assert encoder.model.dtype == torch.bfloat16
    assert run.adapter is not None
    assert {value.dtype for value in run.adapter.weights.values()} == {torch.float32}
    # The adapters on a fresh base in float32 are the same model, up to the precision of the base.
    base = SwccForPreTraining.from_encoder(str(half), mlm_weight=0.0, projection_dim=8)
    fresh = PeftModel.from_pretrained(base, tmp_path / ADAPTER_FOLDER).merge_and_unload().eval()
    plain = EventEncoder(fresh.swcc, encoder.tokenizer)
    found, expected = encoder.encode(TEXTS, normalize=True), plain.encode(TEXTS, normalize=True)
    np.testing.assert_allclose((found * expected).sum(axis=1), 1, rtol=0, atol=1e-3)
