"""Vectors of mentions and events: by the towers of a model, and of plain text by any other encoder."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
import torch
from datasets import Dataset
from tiny import save_tiny_bi_encoder

from eventformers.datasets_scripts.building import build_dataset
from eventformers.datasets_scripts.malformed import malformed_parts
from eventformers.errors import DataFormatError, EventformersError
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding.mention_files import TextMention, load_text_mentions
from eventformers.inference.grounding.encoding import (
    GroundingTokeniser,
    encode_texts,
    event_text,
    mention_text,
    score_calibration,
)
from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining
from eventformers.models.processing_event_grounding import EventText, MentionText

MENTIONS = [
    MentionText("the storm ", "flooded", " the city"),
    MentionText("", "strike", "", "union", "2020"),
    MentionText("the storm ", "flooded", " the city"),
]
EVENTS = [EventText("storm", "the storm hit"), EventText("strike"), EventText("", "the election")]
LEFT, RIGHT = " ".join(["man"] * 40), " ".join(["woman"] * 40)
LONG = MentionText(f"{LEFT} ", "the storm", f" {RIGHT}")


@pytest.fixture(scope="module")
def folder(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bi") / "bi-encoder"
    return save_tiny_bi_encoder(tiny_encoder, path, mention_tokens=12, event_tokens=10, score_scale=3)


@pytest.fixture(scope="module")
def model(folder: Path) -> EventEncoder:
    return load_encoder(folder, device="cpu")


@pytest.fixture(scope="module")
def plain(tiny_encoder: Path) -> EventEncoder:
    return load_encoder(tiny_encoder, device="cpu")


@torch.no_grad()
def _slow(model: EventEncoder, side: str, rows: list[list[int]]) -> np.ndarray:
    return np.stack([model.model(torch.tensor([row]), side=side).embeddings[0].numpy() for row in rows])


def test_each_side_is_read_by_its_tower(model: EventEncoder) -> None:
    tokeniser = GroundingTokeniser(model.tokenizer, 12, 10)
    mentions, events = encode_texts(model, "mention", MENTIONS), encode_texts(model, "event", EVENTS)
    rows = tokeniser.mentions(MENTIONS).rows
    np.testing.assert_allclose(mentions.vectors, _slow(model, "mention", rows), atol=1e-5)
    assert not np.allclose(mentions.vectors, _slow(model, "event", rows), atol=1e-2)
    expected = _slow(model, "event", tokeniser.events(EVENTS).rows)
    np.testing.assert_allclose(events.vectors, expected, atol=1e-5)
    assert mentions.cut == events.cut == {}
    assert (mentions.vectors[0] == mentions.vectors[2]).all()


def test_a_plain_encoder_reads_plain_text(plain: EventEncoder) -> None:
    mentions, events = encode_texts(plain, "mention", MENTIONS), encode_texts(plain, "event", EVENTS)
    texts = ["the storm flooded the city", "strike", "the storm flooded the city"]
    assert [mention_text(mention) for mention in MENTIONS] == texts
    np.testing.assert_allclose(mentions.vectors, plain.encode(texts, normalize=True), atol=1e-5)
    texts = ["storm . the storm hit", "strike", "the election"]
    assert [event_text(event) for event in EVENTS] == texts
    np.testing.assert_allclose(events.vectors, plain.encode(texts, normalize=True), atol=1e-5)


@pytest.mark.parametrize(
    ("mention", "kept", "cut"),
    [
        (LONG, ["man"] * 14 + ["the", "storm"] + ["woman"] * 14, {"context"}),
        (LONG._replace(context_left="man "), ["man", "the", "storm"] + ["woman"] * 27, {"context"}),
        (LONG._replace(context_right=" woman"), ["man"] * 27 + ["the", "storm", "woman"], {"context"}),
        (LONG._replace(mention=f"the {RIGHT}"), ["the"] + ["woman"] * 29, {"context", "mention"}),
    ],
)
def test_a_plain_encoder_reads_what_is_around_a_mention(
    plain: EventEncoder, mention: MentionText, kept: list[str], cut: set[str]
) -> None:
    assert plain.max_length == 32
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        encoded = encode_texts(plain, "mention", [MENTIONS[0], mention, mention])
    assert encoded.cut == dict.fromkeys(cut, 2)
    assert plain.truncated == 2
    assert any("2 of 3 texts have more than 32 tokens" in str(one.message) for one in told)
    own = [str(one.message) for one in told if "longer than the limit of 32 tokens" in str(one.message)]
    assert bool(own) == ("mention" in cut)
    expected = plain.encode([" ".join(kept)], normalize=True)
    np.testing.assert_allclose(encoded.vectors[1:2], expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*were truncated")
def test_what_a_model_cuts_is_counted_by_its_part(model: EventEncoder) -> None:
    whole = MentionText("", RIGHT, "")
    with pytest.warns(UserWarning, match=r"2 of 4 mentions are .* longer than the limit of 12 tokens"):
        mentions = encode_texts(model, "mention", [MENTIONS[0], LONG, whole, whole])
    assert mentions.cut == {"context": 1, "mention": 2}
    assert model.truncated == 3
    events = encode_texts(model, "event", [EVENTS[0], EventText("storm", RIGHT), EventText(RIGHT)])
    assert events.cut == {"description": 1, "title": 1}
    # The encoder's own limit stays.
    assert model.max_length == 32


@pytest.mark.parametrize("encoder", ["model", "plain"])
def test_texts_without_a_word_are_refused(encoder: str, request: pytest.FixtureRequest) -> None:
    loaded = request.getfixturevalue(encoder)
    with pytest.raises(EventformersError, match="mention 0: found no text between its contexts"):
        encode_texts(loaded, "mention", [MentionText("the storm", " ", "the city")])
    with pytest.raises(EventformersError, match="event 1: found neither title nor description"):
        encode_texts(loaded, "event", [EVENTS[0], EventText(" ")])
    assert encode_texts(loaded, "mention", []).vectors.shape == (0, 32)


def test_combining_characters_and_other_directions_have_vectors(plain: EventEncoder) -> None:
    texts = [
        MentionText("في ", "حرب", " أكتوبر"),
        MentionText("", "e\u0301", ""),
        MentionText("", "\u200f\u0301", ""),
    ]
    assert np.isfinite(encode_texts(plain, "mention", texts).vectors).all()
    # A mention of which the tokenizer keeps nothing stands where its left context ends.
    long = MentionText(f"{LEFT} ", "\u200f", f" {RIGHT}")
    with pytest.warns(UserWarning, match="were truncated"):
        encoded = encode_texts(plain, "mention", [long])
    expected = plain.encode([" ".join(["man"] * 15 + ["woman"] * 15)], normalize=True)
    np.testing.assert_allclose(encoded.vectors, expected, atol=1e-5)


def test_logits_take_the_scale_of_the_loss(model: EventEncoder, tiny_encoder: Path, tmp_path: Path) -> None:
    assert score_calibration(model) == (3, 0)
    path = save_tiny_bi_encoder(tiny_encoder, tmp_path / "x", learnable_score_scale=True, score_bias=-1.0)
    head = EventGroundingForPreTraining.from_pretrained(path)
    with torch.no_grad():
        head.score_calibration.log_scale.fill_(np.log(5))
        head.score_calibration.bias.fill_(-2.5)
    head.save_pretrained(path)
    learned = load_encoder(path, device="cpu")
    assert score_calibration(learned) == pytest.approx((5, -2.5))
    (path / "model.safetensors").unlink()
    with pytest.raises(EventformersError, match="x: cannot read the learned scale and bias of scores"):
        score_calibration(learned)


TEXT = "A storm hit the city, and the flood came."


def write_lines(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_all_ways_to_write_a_mention_are_one(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"context_left": "A ", "mention": "storm", "context_right": TEXT[7:], "language": "en"},
        {"context_left": "A ", "mention": "storm", "context_right": TEXT[7:], "context_lang": "en"},
        {"text": TEXT, "start_char": 2, "end_char": 7, "language": "en"},
        {"text": TEXT, "start_char": 2, "end_char": 7, "mention": "storm", "language": " en "},
    ]
    expected = MentionText("A ", "storm", TEXT[7:])
    found, counts = load_text_mentions(write_lines(tmp_path / "mine.jsonl", *records))
    assert found == [TextMention(f"mine/{line}", "en", expected) for line in (1, 2, 3, 4)]
    assert counts == {}
    assert found[0].span == (2, 7)
    in_memory, _ = load_text_mentions([*records, TEXT.replace("storm", "[[storm]]")])
    assert [mention.text for mention in in_memory] == [expected] * 5
    assert [mention.mention_id for mention in in_memory] == ["0", "1", "2", "3", "4"]
    assert [mention.language for mention in in_memory] == ["en"] * 4 + [""]


def test_what_is_known_of_the_document_is_read(tmp_path: Path) -> None:
    fields = {"context_left": "", "mention": "fire", "context_right": ""}
    rows = [
        {**fields, "id": 7, "title": "News", "date": "2020"},
        {**fields, "mention_id": "b", "context_title": "News", "context_date": "2020"},
    ]
    found, _ = load_text_mentions(write_lines(tmp_path / "mine.json", *rows))
    assert found == [
        TextMention(name, "", MentionText("", "fire", "", "News", "2020")) for name in ("7", "b")
    ]


def test_brackets_mark_mentions_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "news.txt.gz"
    lines = ["A [[storm]] hit, and the [[flood]] came.", "", "Nothing.", "[[Fire]]"]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    found, counts = load_text_mentions(path)
    whole = "A storm hit, and the flood came."
    assert [mention.mention_id for mention in found] == ["news/1.1", "news/1.2", "news/4"]
    for mention, name in zip(found, ("storm", "flood", "Fire"), strict=True):
        text = mention.text
        assert text.mention == name
        start, end = mention.span
        joined = text.context_left + text.mention + text.context_right
        assert joined == ("Fire" if name == "Fire" else whole)
        assert joined[start:end] == name
    assert counts == {"blank_line": 1, "text_without_mention": 1}


def test_characters_stay_as_they_are() -> None:
    # The last letter of the mention carries two combining marks; Hebrew runs from right to left.
    hebrew, combined = "ב[[מלחמת העולם]] השנייה", "le [[se\u0301isme\u0301\u0323]]\u200d fort"
    found, _ = load_text_mentions([hebrew, combined])
    assert [mention.text for mention in found] == [
        MentionText("ב", "מלחמת העולם", " השנייה"),
        MentionText("le ", "se\u0301isme\u0301\u0323", "\u200d fort"),
    ]
    assert found[1].span == (3, 12)


def test_ids_that_repeat_are_made_distinct() -> None:
    rows = [{"mention": "fire", "id": name} for name in ("a", "a", "a#2", "a", "b")]
    found, counts = load_text_mentions(rows)
    names = [mention.mention_id for mention in found]
    assert names[:2] == ["a", "a#2"]
    assert names[4] == "b"
    assert len(set(names)) == 5
    assert counts == {"mentions_with_repeated_id": 3}


def test_rows_of_a_built_dataset_are_read(tmp_path: Path) -> None:
    folder = build_dataset("event_hierarchies", "mentions", None, tmp_path / "built")
    found, _ = load_text_mentions(folder)
    assert len(found) > 50
    assert {mention.language for mention in found} == {"de", "en", "es", "fr"}
    assert all(mention.text.mention for mention in found)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"mention": " "}, "line 2: found a mention without text"),
        # A zero-width space, a joiner, a mark of direction and a control character.
        ({"mention": "\u200b \u200d\u202e\x01"}, "line 2: found a mention without text"),
        ({"context_left": "a"}, "line 2: found the fields context_left; accepted"),
        ([], "line 2: found JSON that is list; accepted: one JSON object a line with"),
        ({"mention": ["a"]}, 'line 2: found "mention" of type list'),
        ({"text": TEXT}, "line 2: found a mention from None to None"),
        ({"text": TEXT, "start_char": 0, "end_char": 99}, "mention from 0 to 99 in a text of 41 characters"),
        ({"text": TEXT, "start_char": -2, "end_char": 3}, "mention from -2 to 3"),
        ({"text": TEXT, "start_char": 3, "end_char": 3}, "mention from 3 to 3"),
        ({"text": TEXT, "start_char": True, "end_char": 3}, "mention from True to 3"),
        ({"text": TEXT, "start_char": 1, "end_char": 2}, "line 2: found a mention without text"),
        (
            {"text": TEXT, "start_char": 2, "end_char": 7, "mention": "fire"},
            "the mention 'fire', where the text has 'storm'",
        ),
        ({"mention": "\ud800"}, "half of a surrogate pair"),
        ({"mention": "a", "context_lft": "b"}, "the key 'context_lft' .did you mean 'context_left'"),
        ({"mention": "a", "Language": "en"}, "the key 'Language' .did you mean 'language'"),
        ({"text": TEXT, "start_char": "x" * 1000, "end_char": 3}, r"from 'x{199}… \(1,002 characters\) to 3"),
    ],
)
def test_a_wrong_line_is_told(record: object, message: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "mine.jsonl", {"mention": "fire"}, record)
    with pytest.raises(DataFormatError, match=message):
        load_text_mentions(path)
    with pytest.raises(EventformersError, match=r"text 1: found .*; accepted: ") as error:
        load_text_mentions(["[[fire]]", record])  # type: ignore[list-item]
    assert "line" not in str(error.value).split("found")[0]


@pytest.mark.parametrize("text", ["a [[b", "a b]]", "a [[b [[c]] d]]", "[[a]] b]]", "]]a[["])
def test_brackets_that_do_not_match_are_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"[[fire]]\n{text}\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="line 2: found unbalanced brackets"):
        load_text_mentions(tmp_path / "a.txt")


def test_a_file_without_mentions_is_told(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="no such file"):
        load_text_mentions(tmp_path / "no.jsonl")
    (tmp_path / "mine.csv").write_text("text\n", encoding="utf-8")
    with pytest.raises(EventformersError, match=r"suffix '\.csv'"):
        load_text_mentions(tmp_path / "mine.csv")
    (tmp_path / "mine.txt").write_text("a storm\n", encoding="utf-8")
    with pytest.raises(EventformersError, match=r"no line has a mention between \[\[ and \]\]"):
        load_text_mentions(tmp_path / "mine.txt")
    (tmp_path / "blank.txt").write_text("[[ \u200b]]\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match=r"blank\.txt, line 1: found no text between"):
        load_text_mentions(tmp_path / "blank.txt")
    with pytest.raises(EventformersError, match="the texts: found no mention"):
        load_text_mentions([])
    with pytest.raises(EventformersError, match="text 0: found half of a surrogate pair"):
        load_text_mentions(["[[\ud800]]"])


def test_mentions_come_in_frames_and_other_types_are_refused() -> None:
    rows = {"text": [TEXT, TEXT], "start_char": [2, 30], "end_char": [7, 35], "cased": [True, False]}
    for frame in (pandas.DataFrame(rows), Dataset.from_dict(rows), pa.table(rows)):
        found, _ = load_text_mentions(frame)
        assert [mention.text.mention for mention in found] == ["storm", "flood"]
    for wrong in ({"a [[storm]]"}, b"a [[storm]]", 3, {"text": TEXT}):
        with pytest.raises(EventformersError, match=f"found {type(wrong).__name__}; accepted: a file"):
            load_text_mentions(wrong)


def test_many_brackets_are_read_in_linear_time() -> None:
    with pytest.raises(EventformersError, match="unbalanced brackets"):
        load_text_mentions(["[[" * 500_000])


def test_malformed_mentions_can_be_left_out(tmp_path: Path) -> None:
    lines = write_lines(tmp_path / "mine.jsonl", {"mention": "fire"}, {"mention": ["a"]}, {"mention": "war"})
    text = tmp_path / "mine.txt"
    text.write_text("a [[fire]]\n[[\na [[war]]\n", encoding="utf-8")
    for path, whole in ((lines, "row"), (text, "line")):
        with pytest.raises(DataFormatError, match=rf"line 2: .*skip each such {whole} with malformed=.skip"):
            load_text_mentions(path)
        with malformed_parts("skip"), pytest.warns(UserWarning, match="1 malformed part left out"):
            found, counts = load_text_mentions(path)
        assert [mention.text.mention for mention in found] == ["fire", "war"]
        assert counts == {f"malformed_{whole}": 1}
