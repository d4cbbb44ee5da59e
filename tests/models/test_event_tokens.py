"""Roles and words of the tokens of events."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from eventformers.datasets_scripts.events import Event, EventOrder
from eventformers.errors import EventformersError
from eventformers.models.configuration_swcc import SwccConfig
from eventformers.models.event_items import ROLES
from eventformers.models.processing_events import num_truncated
from eventformers.models.processing_heterevent import HeterEventProcessor
from eventformers.trainers.method import check_text_length

EVENTS: list[Event] = [
    {"subject": "the police officer", "predicate": "arrested", "object": "a thief"},
    {"subject": "", "predicate": "flooded over", "object": ""},
    {"subject": "Storm", "predicate": "destroyed", "object": ""},
    {"subject": "", "predicate": "hit", "object": "the storm"},
]


def byte_level(folder: Path, *, trim_offsets: bool) -> PreTrainedTokenizerBase:
    """A byte-level tokenizer, whose tokens hold the blank before their word."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = [" ".join(event.values()) for event in EVENTS] * 20
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<s>", "</s>", "<pad>"], initial_alphabet=["Ġ"], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 1), ("<s>", 0), trim_offsets=trim_offsets, add_prefix_space=False
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>")  # noqa: S106


@pytest.fixture(params=["word_piece", "byte_level", "byte_level_with_blanks", "padded_in_front"])
def tokenizer(request: pytest.FixtureRequest, tiny_encoder: Path, tmp_path: Path) -> PreTrainedTokenizerBase:
    if request.param.startswith("byte_level"):
        return byte_level(tmp_path, trim_offsets=request.param == "byte_level")
    loaded = AutoTokenizer.from_pretrained(tiny_encoder)
    if request.param == "padded_in_front":
        loaded.padding_side = "left"
    return loaded


@pytest.mark.parametrize("order", ["subject_predicate_object", "predicate_first"])
def test_a_role_holds_its_own_tokens(tokenizer: PreTrainedTokenizerBase, order: EventOrder) -> None:
    batch = HeterEventProcessor(tokenizer, order).events(EVENTS)
    assert num_truncated(batch) == 0
    for row, event in enumerate(EVENTS):
        for place, role in enumerate(ROLES):
            inside = batch["input_ids"][row][batch["role_masks"][row, place]]
            text = tokenizer.decode(inside).replace(" ", "").lower()
            assert text == event[role].replace(" ", "").lower()
    assert not bool((batch["role_masks"].sum(1) > 1).any())
    outside = (batch["attention_mask"] == 0)[:, None] & batch["role_masks"]
    assert not bool(outside.any())


def test_a_word_has_one_number(tokenizer: PreTrainedTokenizerBase) -> None:
    batch = HeterEventProcessor(tokenizer).events(EVENTS)
    words = batch["word_index"]
    assert torch.equal(words >= 0, batch["role_masks"].any(1))
    # the police officer arrested a thief / flooded over / storm destroyed / hit the storm
    order = [list(dict.fromkeys(row[row >= 0].tolist())) for row in words]
    assert order == [[0, 1, 2, 3, 4, 5], [6, 7], [8, 9], [10, 0, 8]]


def test_what_is_cut_is_counted_and_has_no_role(tiny_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    # Letters of "over" are tokens of their own.
    batch = HeterEventProcessor(tokenizer).events(EVENTS, max_length=5)
    assert num_truncated(batch) == 2
    assert batch["input_ids"].shape[1] == 5
    assert batch["role_masks"][0].any(1).tolist() == [True, False, False]


def test_event_without_a_word(tiny_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    empty: Event = {"subject": "", "predicate": " ", "object": ""}
    with pytest.raises(ValueError, match=r"found an event without any word; accepted: at least one word"):
        HeterEventProcessor(tokenizer)([EVENTS[0], empty])


def test_the_positions_of_robertas_begin_after_the_padding(tiny_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    tokenizer.model_max_length = 30
    of_bert = {"model_type": "bert", "max_position_embeddings": 32}
    config = SwccConfig(text_config={**of_bert, "model_type": "roberta", "pad_token_id": 1})
    check_text_length(config, tokenizer, 30)
    with pytest.raises(EventformersError, match="found 31; accepted: 30 or less"):
        check_text_length(config, tokenizer, 31)
    # Another encoder may read more than its tokenizer says.
    check_text_length(SwccConfig(text_config=of_bert), tokenizer, 32)
    with pytest.raises(EventformersError, match="found 33; accepted: 32 or less"):
        check_text_length(SwccConfig(text_config=of_bert), tokenizer, 33)
