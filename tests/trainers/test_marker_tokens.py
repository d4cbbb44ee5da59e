"""Tokens that mark a part of a text: where they start, that they learn, and that they are saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from event_grounding_inputs import event_grounding_inputs
from event_type_induction_inputs import event_type_induction_inputs
from fresh_process import run_fresh
from peft import PeftModel
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from eventformers.models.mention_tokens import TRIGGER_MARKERS, Mention
from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining
from eventformers.models.modeling_event_type_induction import (
    EventTypeInductionForPreTraining,
    EventTypeInductionModel,
)
from eventformers.models.processing_event_type_induction import EventTypeInductionProcessor
from eventformers.trainers.adapters import add_adapters
from eventformers.trainers.method import add_marker_tokens

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
