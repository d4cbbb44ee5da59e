"""Tokens of events, mentions and their budgets."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from eventformers.datasets_scripts.events import Event, EventOrder
from eventformers.errors import EventformersError
from eventformers.inference.grounding.encoding import GroundingTokeniser
from eventformers.models.configuration_swcc import SwccConfig
from eventformers.models.event_items import ROLES
from eventformers.models.modeling_event_grounding import EventGroundingModel
from eventformers.models.modeling_event_type_induction import EventTypeInductionModel
from eventformers.models.processing_event_grounding import TAGS, EventText, MentionText
from eventformers.models.processing_event_type_induction import (
    TRIGGER_MARKERS,
    EventTypeInductionProcessor,
    Mention,
    mark_trigger,
)
from eventformers.models.processing_events import num_truncated
from eventformers.models.processing_heterevent import HeterEventProcessor
from eventformers.trainers.method import add_marker_tokens, check_text_length

LEFT = "the man said the storm hit the city and"
RIGHT = "flooded the bridge the road the house he said"
MENTION = MentionText("the storm ", "flooded", " the city")
DATED = MentionText("the storm", "flooded", "the city", "storm fire", "2020")
"""The tiny tokenizer makes a token of each digit."""


@pytest.fixture(scope="module")
def made(tiny_encoder: Path) -> PreTrainedTokenizerBase:
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    add_marker_tokens(tokenizer, EventGroundingModel.from_encoder(str(tiny_encoder)), TAGS)
    return tokenizer


@pytest.fixture
def tokenizer(made: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    return deepcopy(made)


def _read(tokenizer: PreTrainedTokenizerBase, row: list[int]) -> str:
    return " ".join(tokenizer.convert_ids_to_tokens(row))


def test_a_mention_reads_as_its_text(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenise = GroundingTokeniser(tokenizer)
    found = tokenise.mentions([MENTION, DATED])
    assert found.rows == [
        tokenizer("the storm [ENT_START] flooded [ENT_END] the city")["input_ids"],
        tokenizer("storm fire [SEP] 2020 [SEP] the storm [ENT_START] flooded [ENT_END] the city")[
            "input_ids"
        ],
    ]
    assert found.cut == {}


def test_an_event_reads_as_its_text(tokenizer: PreTrainedTokenizerBase) -> None:
    found = GroundingTokeniser(tokenizer).events(
        [EventText("storm city", "the storm hit"), EventText("fire")]
    )
    assert [_read(tokenizer, row) for row in found.rows] == [
        "[CLS] storm city [ENT_TITLE] the storm hit [SEP]",
        "[CLS] fire [ENT_TITLE] [SEP]",
    ]
    assert found.cut == {}


def test_a_pair_is_one_text(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenise = GroundingTokeniser(tokenizer)
    [mention], [event] = (
        tokenise.mentions([MENTION]).rows,
        tokenise.events([EventText("storm", "the city")]).rows,
    )
    assert _read(tokenizer, tokenise.pair(mention, event)) == (
        "[CLS] the storm [ENT_START] flooded [ENT_END] the city [SEP] storm [ENT_TITLE] the city [SEP]"
    )


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        # Each side has more than its half: the odd token goes to the right.
        ("a b c d e", "f g h i j", "d e [ENT_START] fire [ENT_END] f g h"),
        # What one side does not need, the other gets.
        ("a", "f g h i j", "a [ENT_START] fire [ENT_END] f g h i"),
        ("a b c d e", "f", "b c d e [ENT_START] fire [ENT_END] f"),
        ("", "f g h i j k", "[ENT_START] fire [ENT_END] f g h i j"),
        ("a b c d e f", "", "b c d e f [ENT_START] fire [ENT_END]"),
        ("a b", "f g h", "a b [ENT_START] fire [ENT_END] f g h"),
    ],
)
def test_both_sides_share_the_budget(
    tokenizer: PreTrainedTokenizerBase, left: str, right: str, expected: str
) -> None:
    found = GroundingTokeniser(tokenizer, mention_tokens=10).mentions([MentionText(left, "fire", right)])
    assert _read(tokenizer, found.rows[0]) == f"[CLS] {expected} [SEP]"
    assert bool(found.cut) == (len(f"{left} {right}".split()) > 5)


@pytest.mark.parametrize("budget", range(5, 40))
def test_the_budget_is_kept_and_used(tokenizer: PreTrainedTokenizerBase, budget: int) -> None:
    """With a heading and without: no token too many, and none left unused while something is cut."""
    texts = [
        MentionText(LEFT, "the fire", RIGHT, title, date)
        for title in ("", "storm", "the storm hit the city")
        for date in ("", "2020", "2020 01 01")
    ]
    for reads in (True, False):
        found = GroundingTokeniser(tokenizer, mention_tokens=budget, read_heading=reads).mentions(texts)
        cut = {position for positions in found.cut.values() for position in positions}
        for position, row in enumerate(found.rows):
            assert len(row) <= budget
            assert row.count(tokenizer.convert_tokens_to_ids("[ENT_START]")) == 1
            if position in cut and "heading" not in found.cut:
                assert len(row) == budget


def test_a_mention_is_cut_last_and_told(tokenizer: PreTrainedTokenizerBase) -> None:
    long = MentionText("a b", "the storm flooded the city", "c d", "fire", "")
    tokenise = GroundingTokeniser(tokenizer, mention_tokens=9)
    found = tokenise.mentions([MENTION, long])
    assert _read(tokenizer, found.rows[1]) == "[CLS] [ENT_START] the storm flooded the city [ENT_END] [SEP]"
    assert found.cut == {"heading": [1], "context": [1]}
    found = GroundingTokeniser(tokenizer, mention_tokens=8).mentions([MENTION, long])
    assert _read(tokenizer, found.rows[1]) == "[CLS] [ENT_START] the storm flooded the [ENT_END] [SEP]"
    assert found.cut == {"mention": [1], "heading": [1], "context": [0, 1]}


@pytest.mark.parametrize(
    ("budget", "heading", "is_cut"),
    [
        (60, "storm fire [SEP] 2 ##0 ##2 ##0 [SEP] ", False),
        # 18 tokens beside the mention, of which the heading may have 9.
        (23, "storm fire [SEP] 2 ##0 ##2 ##0 [SEP] ", False),
        (20, "storm [SEP] 2 ##0 ##2 ##0 [SEP] ", True),
        (16, "2 ##0 ##2 ##0 [SEP] ", True),
        (14, "storm fire [SEP] ", True),
    ],
)
def test_a_heading_leaves_the_context_its_half(
    tokenizer: PreTrainedTokenizerBase, budget: int, heading: str, is_cut: bool
) -> None:
    text = MentionText(LEFT, "fire", RIGHT, "storm fire", "2020")
    found = GroundingTokeniser(tokenizer, mention_tokens=budget).mentions([text])
    assert _read(tokenizer, found.rows[0]).startswith(
        f"[CLS] {heading}the" if not is_cut and budget == 60 else f"[CLS] {heading}"
    )
    assert ("heading" in found.cut) == is_cut


def test_a_heading_may_have_what_the_context_does_not_need(tokenizer: PreTrainedTokenizerBase) -> None:
    text = MentionText("", "fire", "", "the storm hit the city", "")
    found = GroundingTokeniser(tokenizer, mention_tokens=11).mentions([text])
    assert (
        _read(tokenizer, found.rows[0])
        == "[CLS] the storm hit the city [SEP] [ENT_START] fire [ENT_END] [SEP]"
    )
    assert found.cut == {}


def test_headings_can_be_left_out(tokenizer: PreTrainedTokenizerBase) -> None:
    found = GroundingTokeniser(tokenizer, read_heading=False).mentions([DATED])
    assert _read(tokenizer, found.rows[0]) == "[CLS] the storm [ENT_START] flooded [ENT_END] the city [SEP]"
    assert found.cut == {}


def test_events_are_cut_at_the_end(tokenizer: PreTrainedTokenizerBase) -> None:
    events = [
        EventText("storm", "the city"),
        EventText("storm", "the city fire"),
        EventText("a b c d e", "f"),
    ]
    found = GroundingTokeniser(tokenizer, event_tokens=6).events(events)
    assert [_read(tokenizer, row) for row in found.rows] == [
        "[CLS] storm [ENT_TITLE] the city [SEP]",
        "[CLS] storm [ENT_TITLE] the city [SEP]",
        "[CLS] a b c [ENT_TITLE] [SEP]",
    ]
    assert found.cut == {"title": [2], "description": [1, 2]}


def test_tags_in_a_text_are_words(tokenizer: PreTrainedTokenizerBase) -> None:
    """Otherwise a text could say where the mention is."""
    tokenise = GroundingTokeniser(tokenizer)
    [row] = tokenise.mentions([MentionText("[ENT_START] storm [SEP]", "fire", "[ENT_END]")]).rows
    tags = [tokenizer.convert_tokens_to_ids(tag) for tag in TAGS]
    assert [token for token in row if token in tags] == tags[:2]
    assert row.count(tokenizer.sep_token_id) == 1
    [row] = tokenise.events([EventText("[ENT_TITLE] fire", "[ENT_TITLE]")]).rows
    assert [token for token in row if token in tags] == tags[2:]


def test_scripts_from_right_to_left_and_combining_characters(tokenizer: PreTrainedTokenizerBase) -> None:
    """The order of the tokens is that of the text, whatever the direction; no mention is lost."""
    arabic = MentionText("وقعت ", "معركة العلمين", " في مصر")
    combined = MentionText("la", "re\u0301volution", "")
    tokenise = GroundingTokeniser(tokenizer)
    rows = tokenise.mentions([arabic, combined]).rows
    start, end = (tokenizer.convert_tokens_to_ids(tag) for tag in list(TAGS)[:2])
    for row, text in zip(rows, (arabic, combined), strict=True):
        alone = tokenizer(text.mention, add_special_tokens=False)["input_ids"]
        assert row[row.index(start) + 1 : row.index(end)] == alone
        assert alone


def test_what_has_no_text_is_refused(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenise = GroundingTokeniser(tokenizer)
    with pytest.raises(EventformersError, match=r"mention 1: found no text.*accepted"):
        tokenise.mentions([MENTION, MentionText("the", " ", "fire")])
    with pytest.raises(EventformersError, match=r"event 0: found neither title nor description.*accepted"):
        tokenise.events([EventText(" ", "")])
    assert tokenise.mentions([]) == tokenise.events([]) == ([], {})


def test_rows_of_the_dataset() -> None:
    row = {"context_left": "a ", "mention": "b", "context_right": "", "title": None, "mention_id": "1"}
    assert MentionText.from_row(row) == MentionText("a ", "b", "")
    assert MentionText.from_row({**row, "title": "t", "date": "2020"}) == MentionText(
        "a ", "b", "", "t", "2020"
    )
    assert EventText.from_row({"event_id": "Q1", "title": "t", "description": None}) == EventText("t")


def test_padding(tokenizer: PreTrainedTokenizerBase) -> None:
    """A row without tokens is a candidate that is none."""
    found = GroundingTokeniser(tokenizer).pad([[2, 7, 3], [], [2, 3]])
    assert found["input_ids"].tolist() == [[2, 7, 3], [0, 0, 0], [2, 3, 0]]
    assert found["attention_mask"].tolist() == [[1, 1, 1], [0, 0, 0], [1, 1, 0]]
    assert found["input_ids"].dtype == torch.long


def test_tokenizers_that_cannot_serve(tokenizer: PreTrainedTokenizerBase, tiny_encoder: Path) -> None:
    with pytest.raises(EventformersError, match=r"lacks \[ENT_START\].*mark mentions and titles; accepted"):
        GroundingTokeniser(AutoTokenizer.from_pretrained(tiny_encoder))
    for name, budget in (("mention_tokens", 4), ("event_tokens", 3)):
        with pytest.raises(EventformersError, match=f"setting {name}: found {budget}; accepted"):
            GroundingTokeniser(tokenizer, **{name: budget})
    tokenizer.sep_token = None
    with pytest.raises(EventformersError, match=r"no token that separates texts.*accepted"):
        GroundingTokeniser(tokenizer)


START, END = TRIGGER_MARKERS
FLOODED = Mention("the storm flooded the city", 10, 17)
OVERESTIMATED = Mention("police overestimated it", 7, 20)
"""The tiny tokenizer splits this trigger."""
WITHOUT = Mention("the storm")


@pytest.fixture
def marking_tokenizer(tiny_encoder: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(tiny_encoder)


@pytest.fixture
def marking(tiny_encoder: Path, marking_tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    add_marker_tokens(
        marking_tokenizer, EventTypeInductionModel.from_encoder(str(tiny_encoder)), TRIGGER_MARKERS
    )
    return marking_tokenizer


def _of_trigger(marking_tokenizer: PreTrainedTokenizerBase, ids: torch.Tensor, mask: torch.Tensor) -> str:
    return marking_tokenizer.decode(ids[mask]).replace(" ##", "").replace("##", "")


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


def test_an_empty_trigger_is_none(marking_tokenizer: PreTrainedTokenizerBase) -> None:
    found = EventTypeInductionProcessor(marking_tokenizer).mentions([Mention("the storm", 4, 4)])
    assert not found.trigger_mask.any()


def test_what_is_cut_is_counted(marking_tokenizer: PreTrainedTokenizerBase) -> None:
    mentions = [FLOODED, WITHOUT, Mention(FLOODED.text, 4, 9)]
    found = EventTypeInductionProcessor(marking_tokenizer).mentions(mentions, max_length=4)
    assert found.input_ids.shape == (3, 4)
    assert num_truncated(found) == 2
    assert found.trigger_mask.any(dim=1).tolist() == [False, False, True]


def test_a_tokenizer_without_markers_is_refused(marking_tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(ValueError, match=r"lacks \[TRIGGER_START\] and \[TRIGGER_END\].*accepted"):
        EventTypeInductionProcessor(marking_tokenizer, trigger_input="marked").mentions([FLOODED])


EVENTS: list[Event] = [
    {"subject": "the police officer", "predicate": "arrested", "object": "a thief"},
    {"subject": "", "predicate": "flooded over", "object": ""},
    {"subject": "Storm", "predicate": "destroyed", "object": ""},
    {"subject": "", "predicate": "hit", "object": "the storm"},
]


def byte_level(folder: Path, *, trim_offsets: bool) -> PreTrainedTokenizerBase:
    """A byte-level tokenizer, whose tokens hold the blank before their word."""
    tokenizer_of_kind = Tokenizer(models.BPE())
    tokenizer_of_kind.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer_of_kind.decoder = decoders.ByteLevel()
    texts = [" ".join(event.values()) for event in EVENTS] * 20
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<s>", "</s>", "<pad>"], initial_alphabet=["Ġ"], show_progress=False
    )
    tokenizer_of_kind.train_from_iterator(texts, trainer)
    tokenizer_of_kind.post_processor = processors.RobertaProcessing(
        ("</s>", 1), ("<s>", 0), trim_offsets=trim_offsets, add_prefix_space=False
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer_of_kind, pad_token="<pad>")  # noqa: S106


@pytest.fixture(params=["word_piece", "byte_level", "byte_level_with_blanks", "padded_in_front"])
def tokenizer_of_kind(
    request: pytest.FixtureRequest, tiny_encoder: Path, tmp_path: Path
) -> PreTrainedTokenizerBase:
    if request.param.startswith("byte_level"):
        return byte_level(tmp_path, trim_offsets=request.param == "byte_level")
    loaded = AutoTokenizer.from_pretrained(tiny_encoder)
    if request.param == "padded_in_front":
        loaded.padding_side = "left"
    return loaded


@pytest.mark.parametrize("order", ["subject_predicate_object", "predicate_first"])
def test_a_role_holds_its_own_tokens(tokenizer_of_kind: PreTrainedTokenizerBase, order: EventOrder) -> None:
    batch = HeterEventProcessor(tokenizer_of_kind, order).events(EVENTS)
    assert num_truncated(batch) == 0
    for row, event in enumerate(EVENTS):
        for place, role in enumerate(ROLES):
            inside = batch["input_ids"][row][batch["role_masks"][row, place]]
            text = tokenizer_of_kind.decode(inside).replace(" ", "").lower()
            assert text == event[role].replace(" ", "").lower()
    assert not bool((batch["role_masks"].sum(1) > 1).any())
    outside = (batch["attention_mask"] == 0)[:, None] & batch["role_masks"]
    assert not bool(outside.any())


def test_a_word_has_one_number(tokenizer_of_kind: PreTrainedTokenizerBase) -> None:
    batch = HeterEventProcessor(tokenizer_of_kind).events(EVENTS)
    words = batch["word_index"]
    assert torch.equal(words >= 0, batch["role_masks"].any(1))
    # the police officer arrested a thief / flooded over / storm destroyed / hit the storm
    order = [list(dict.fromkeys(row[row >= 0].tolist())) for row in words]
    assert order == [[0, 1, 2, 3, 4, 5], [6, 7], [8, 9], [10, 0, 8]]


def test_what_is_cut_is_counted_and_has_no_role(tiny_encoder: Path) -> None:
    tokenizer_of_kind = AutoTokenizer.from_pretrained(tiny_encoder)
    # Letters of "over" are tokens of their own.
    batch = HeterEventProcessor(tokenizer_of_kind).events(EVENTS, max_length=5)
    assert num_truncated(batch) == 2
    assert batch["input_ids"].shape[1] == 5
    assert batch["role_masks"][0].any(1).tolist() == [True, False, False]


def test_event_without_a_word(tiny_encoder: Path) -> None:
    tokenizer_of_kind = AutoTokenizer.from_pretrained(tiny_encoder)
    empty: Event = {"subject": "", "predicate": " ", "object": ""}
    with pytest.raises(ValueError, match=r"found an event without any word; accepted: at least one word"):
        HeterEventProcessor(tokenizer_of_kind)([EVENTS[0], empty])


def test_the_positions_of_robertas_begin_after_the_padding(tiny_encoder: Path) -> None:
    tokenizer_of_kind = AutoTokenizer.from_pretrained(tiny_encoder)
    tokenizer_of_kind.model_max_length = 30
    of_bert = {"model_type": "bert", "max_position_embeddings": 32}
    config = SwccConfig(text_config={**of_bert, "model_type": "roberta", "pad_token_id": 1})
    check_text_length(config, tokenizer_of_kind, 30)
    with pytest.raises(EventformersError, match="found 31; accepted: 30 or less"):
        check_text_length(config, tokenizer_of_kind, 31)
    # Another encoder may read more than its tokenizer says.
    check_text_length(SwccConfig(text_config=of_bert), tokenizer_of_kind, 32)
    with pytest.raises(EventformersError, match="found 33; accepted: 32 or less"):
        check_text_length(SwccConfig(text_config=of_bert), tokenizer_of_kind, 33)
