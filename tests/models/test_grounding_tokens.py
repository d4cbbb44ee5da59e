"""Mentions and events to tokens: their shape, their budgets, and the report of truncation."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from eventformers.errors import EventformersError
from eventformers.inference.grounding.encoding import GroundingTokeniser
from eventformers.models.grounding_tokens import TAGS, EventText, MentionText
from eventformers.models.modeling_event_grounding import EventGroundingModel
from eventformers.trainers.method import add_marker_tokens

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
