"""Vectors of mentions and events: by the towers of a model, and of plain text by any other encoder."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import save_tiny_bi_encoder

from eventformers.errors import EventformersError
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.grounding.encoding import (
    GroundingTokeniser,
    encode_texts,
    event_text,
    mention_text,
    score_calibration,
)
from eventformers.models.grounding_tokens import EventText, MentionText
from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining

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
