"""Encoders of today and tokens that mark triggers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from event_grounding_inputs import event_grounding_inputs
from event_type_induction_inputs import event_type_induction_inputs
from fresh_process import run_fresh
from peft import PeftModel
from short_runs import short_run
from tiny import save_tiny_qwen3
from transformers import (
    AutoModel,
    AutoModelForPreTraining,
    AutoProcessor,
    AutoTokenizer,
    PreTrainedTokenizerBase,
)

import eventformers
from eventformers import SwccForPreTraining
from eventformers.errors import EventformersError
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.models import processing_events
from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining
from eventformers.models.modeling_event_type_induction import (
    EventTypeInductionForPreTraining,
    EventTypeInductionModel,
)
from eventformers.models.processing_event_type_induction import (
    TRIGGER_MARKERS,
    EventTypeInductionProcessor,
    Mention,
)
from eventformers.models.sentence_transformers_files import write_sentence_transformers_files
from eventformers.models.text_prompts import tokenise_after
from eventformers.trainers.adapters import ADAPTER_FOLDER, add_adapters, merged
from eventformers.trainers.method import add_marker_tokens
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


MARKERS = {"[OPEN]": "storm city", "[CLOSE]": "goal"}
MENTIONS = [Mention("the storm flooded the city", 10, 17), Mention("police arrested a thief", 7, 15)]


@pytest.fixture
def tokenizer(tiny_encoder: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(tiny_encoder)


@pytest.fixture
def head(tiny_encoder: Path) -> EventTypeInductionForPreTraining:
    torch.manual_seed(0)
    return EventTypeInductionForPreTraining.from_encoder(str(tiny_encoder), trigger_input="marked")


def _vectors(model: Any) -> torch.Tensor:
    return model.get_input_embeddings().weight.detach().clone()


def _inputs(tokenizer: PreTrainedTokenizerBase) -> dict[str, torch.Tensor]:
    """Inputs whose mentions are marked in both views."""
    texts = EventTypeInductionProcessor(tokenizer, trigger_input="marked").mentions(MENTIONS * 3)
    inputs = event_type_induction_inputs(100, 32)
    for prefix in ("", "augmented_"):
        for name in ("input_ids", "attention_mask", "trigger_mask"):
            inputs[f"{prefix}{name}"] = texts[name]
    return inputs


def _train_adapters(head: Any, inputs: dict[str, torch.Tensor], folder: Path) -> Any:
    """Train adapters on a head that is saved as `base`; the merged head as it is loaded again."""
    model = add_adapters(head, str(folder / "base"))
    optimizer = torch.optim.SGD([value for value in model.parameters() if value.requires_grad], lr=1.0)
    for _ in range(2):
        optimizer.zero_grad()
        model(**inputs).loss.backward()
        optimizer.step()
    output = model.eval()(**inputs)
    model.save_pretrained(folder / "adapter")
    again = PeftModel.from_pretrained(type(head).from_pretrained(folder / "base"), folder / "adapter").eval()
    merged = model.merge_and_unload()
    merged.save_pretrained(folder / "merged")
    reloaded = type(head).from_pretrained(folder / "merged")
    for other in (again, merged, reloaded):
        found = other(**inputs)
        torch.testing.assert_close(found.loss, output.loss, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found.embeddings, output.embeddings, rtol=1e-4, atol=1e-5)
    return reloaded


def test_starts(head: EventTypeInductionForPreTraining, tokenizer: PreTrainedTokenizerBase) -> None:
    before = _vectors(head)
    words = {word: tokenizer.convert_tokens_to_ids(word) for word in ("storm", "city", "goal")}
    ids = add_marker_tokens(tokenizer, head, MARKERS)
    assert ids == [len(before), len(before) + 1] == head.config.added_token_ids
    after = _vectors(head)
    assert torch.equal(after[: len(before)], before)
    torch.testing.assert_close(after[ids[0]], (before[words["storm"]] + before[words["city"]]) / 2)
    torch.testing.assert_close(after[ids[1]], before[words["goal"]])
    assert head.config.encoder_config.vocab_size == len(after) == len(tokenizer)


def test_no_text_splits_them(
    head: EventTypeInductionForPreTraining, tokenizer: PreTrainedTokenizerBase
) -> None:
    ids = add_marker_tokens(tokenizer, head, MARKERS)
    plain = tokenizer("the storm flooded the city")["input_ids"]
    marked = tokenizer("the storm [OPEN] flooded [CLOSE] the city")["input_ids"]
    assert [place for place in marked if place not in ids] == plain
    assert tokenizer.decode(marked, skip_special_tokens=True) == "the storm flooded the city"


def test_a_second_call_keeps_what_was_learned(
    head: EventTypeInductionForPreTraining, tokenizer: PreTrainedTokenizerBase, tiny_encoder: Path
) -> None:
    ids = add_marker_tokens(tokenizer, head, MARKERS)
    with torch.no_grad():
        head.get_input_embeddings().weight[ids] += 1
    learned = _vectors(head)
    for other in (tokenizer, AutoTokenizer.from_pretrained(tiny_encoder)):
        assert add_marker_tokens(other, head, MARKERS) == ids
        assert torch.equal(_vectors(head), learned)


def test_a_table_with_room_is_not_enlarged(
    head: EventTypeInductionForPreTraining, tokenizer: PreTrainedTokenizerBase
) -> None:
    head.resize_token_embeddings(len(tokenizer) + 64)
    ids = add_marker_tokens(tokenizer, head, MARKERS)
    vectors = _vectors(head)
    assert len(vectors) == len(tokenizer) + 62
    torch.testing.assert_close(vectors[ids[1]], vectors[tokenizer.convert_tokens_to_ids("goal")])


def test_markers_of_a_saved_model_are_taken_over(
    head: EventTypeInductionForPreTraining, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    """Another model that starts from the encoder of this one, with its tokenizer."""
    ids = add_marker_tokens(tokenizer, head, MARKERS)
    with torch.no_grad():
        head.get_input_embeddings().weight[ids] += 1
    head.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again = EventTypeInductionModel.from_encoder(str(tmp_path))
    assert add_marker_tokens(AutoTokenizer.from_pretrained(tmp_path), again, MARKERS) == ids
    assert torch.equal(_vectors(again), _vectors(head))
    assert again.config.added_token_ids == ids


def test_they_learn_and_survive_in_a_fresh_process(
    head: EventTypeInductionForPreTraining, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    ids = add_marker_tokens(tokenizer, head, TRIGGER_MARKERS)
    before = _vectors(head)
    inputs = _inputs(tokenizer)
    head.train()(**inputs).loss.backward()
    torch.optim.SGD(head.parameters(), lr=1.0).step()
    assert (_vectors(head)[ids] != before[ids]).any(dim=1).all()
    head.eval()
    folder = tmp_path / "model"
    head.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    start, end = TRIGGER_MARKERS
    request = {
        "name": "marked",
        "folder": str(folder),
        "auto_classes": ["AutoModel", "AutoModelForPreTraining"],
        "text": f"the storm {start} flooded {end} the city",
        "input_ids": inputs["input_ids"].tolist(),
        "attention_mask": inputs["attention_mask"].tolist(),
    }
    expected = head.base_model(inputs["input_ids"], inputs["attention_mask"]).embeddings
    for scenario in ("package_last", "remote_code"):
        answer = run_fresh(scenario, [request], tmp_path / scenario, "libraries")["marked"]
        length = int(inputs["attention_mask"][0].sum())
        assert answer["tokens"] == inputs["input_ids"][0, :length].tolist()
        for loaded in answer["models"].values():
            torch.testing.assert_close(torch.tensor(loaded["embeddings"]), expected)


def test_lora_trains_them_and_saves_them(
    head: EventTypeInductionForPreTraining, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    ids = add_marker_tokens(tokenizer, head, TRIGGER_MARKERS)
    head.save_pretrained(tmp_path / "base")
    before = _vectors(head)
    inputs = _inputs(tokenizer)
    changed = (_vectors(_train_adapters(head, inputs, tmp_path)) != before).any(dim=1)
    assert changed.nonzero().flatten().tolist() == ids


@pytest.mark.parametrize("share_towers", [False, True])
def test_each_tower_learns_its_own(
    tokenizer: PreTrainedTokenizerBase, tiny_encoder: Path, tmp_path: Path, share_towers: bool
) -> None:
    """Under LoRA, too: they start alike, differ by their training, and are saved with the adapters."""
    torch.manual_seed(0)
    head = EventGroundingForPreTraining.from_encoder(
        str(tiny_encoder), share_towers=share_towers, score_scale=0.1
    )
    ids = add_marker_tokens(tokenizer, head, MARKERS)
    starts = [encoder.get_input_embeddings().weight.detach().clone() for encoder in head.text_encoders()]
    assert len(starts) == (1 if share_towers else 2)
    assert all(torch.equal(start, starts[0]) for start in starts)
    assert add_marker_tokens(tokenizer, head, MARKERS) == ids
    head.save_pretrained(tmp_path / "base")
    inputs = event_grounding_inputs(100)
    # One marker in the mentions, the other in the events.
    inputs["input_ids"][:, 1] = ids[0]
    inputs["event_input_ids"][..., 1] = ids[1]
    reloaded = _train_adapters(head, inputs, tmp_path)
    changed = [
        (encoder.get_input_embeddings().weight != start).any(dim=1).nonzero().flatten().tolist()
        for encoder, start in zip(reloaded.text_encoders(), starts, strict=True)
    ]
    assert changed == ([ids] if share_towers else [ids[:1], ids[1:]])


def test_lora_without_markers_trains_no_embedding(head: EventTypeInductionForPreTraining) -> None:
    model = add_adapters(head, "tiny")
    assert not [
        name for name, value in model.named_parameters() if "embeddings" in name and value.requires_grad
    ]
