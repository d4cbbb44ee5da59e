"""Mentions to tensors: which tokens are the trigger's, marked or not, cut or not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from eventformers.models.mention_tokens import TRIGGER_MARKERS, Mention, mark_trigger
from eventformers.models.modeling_event_type_induction import EventTypeInductionModel
from eventformers.models.processing_event_type_induction import EventTypeInductionProcessor
from eventformers.models.processing_events import num_truncated
from eventformers.trainers.method import add_marker_tokens

START, END = TRIGGER_MARKERS
FLOODED = Mention("the storm flooded the city", 10, 17)
OVERESTIMATED = Mention("police overestimated it", 7, 20)
"""The tiny tokenizer splits this trigger."""
WITHOUT = Mention("the storm")


@pytest.fixture
def tokenizer(tiny_encoder: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(tiny_encoder)


@pytest.fixture
def marking(tiny_encoder: Path, tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    add_marker_tokens(tokenizer, EventTypeInductionModel.from_encoder(str(tiny_encoder)), TRIGGER_MARKERS)
    return tokenizer


def _of_trigger(tokenizer: PreTrainedTokenizerBase, ids: torch.Tensor, mask: torch.Tensor) -> str:
    return tokenizer.decode(ids[mask]).replace(" ##", "").replace("##", "")


def test_marked_text() -> None:
    marked = mark_trigger(FLOODED)
    assert marked.text == f"the storm {START} flooded {END} the city"
    assert marked.text[marked.trigger_start : marked.trigger_end] == "flooded"
    assert mark_trigger(WITHOUT) == WITHOUT


@pytest.mark.parametrize("text", ["flooded", "x flooded", "flooded x"])
def test_a_trigger_at_the_ends(text: str) -> None:
    start = text.index("flooded")
    marked = mark_trigger(Mention(text, start, start + 7))
    assert marked.text == text.replace("flooded", f"{START} flooded {END}")
    assert marked.text[marked.trigger_start : marked.trigger_end] == "flooded"


@pytest.mark.parametrize("marks_trigger", [False, True])
def test_tokens_of_the_trigger(marking: PreTrainedTokenizerBase, marks_trigger: bool) -> None:
    processor = EventTypeInductionProcessor(marking, trigger_input="marked" if marks_trigger else "span")
    found = processor.mentions([FLOODED, OVERESTIMATED, WITHOUT])
    assert _of_trigger(marking, found.input_ids[0], found.trigger_mask[0]) == "flooded"
    assert _of_trigger(marking, found.input_ids[1], found.trigger_mask[1]) == "overestimated"
    assert found.trigger_mask[1].sum() > 1
    assert not found.trigger_mask[2].any()
    assert not (found.trigger_mask & (found.attention_mask == 0)).any()
    ids = marking.convert_tokens_to_ids([START, END])
    around = [[token for token in row if token in ids] for row in found.input_ids.tolist()]
    assert around == [ids if marks_trigger else [], ids if marks_trigger else [], []]
    assert num_truncated(found) == 0


def test_an_empty_trigger_is_none(tokenizer: PreTrainedTokenizerBase) -> None:
    found = EventTypeInductionProcessor(tokenizer).mentions([Mention("the storm", 4, 4)])
    assert not found.trigger_mask.any()


def test_what_is_cut_is_counted(tokenizer: PreTrainedTokenizerBase) -> None:
    mentions = [FLOODED, WITHOUT, Mention(FLOODED.text, 4, 9)]
    found = EventTypeInductionProcessor(tokenizer).mentions(mentions, max_length=4)
    assert found.input_ids.shape == (3, 4)
    assert num_truncated(found) == 2
    assert found.trigger_mask.any(dim=1).tolist() == [False, False, True]


def test_a_tokenizer_without_markers_is_refused(tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(ValueError, match=r"lacks \[TRIGGER_START\] and \[TRIGGER_END\].*accepted"):
        EventTypeInductionProcessor(tokenizer, trigger_input="marked").mentions([FLOODED])
