"""Vectors of mentions: of sentences, of the tokens of triggers, and with queries and keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BertTokenizerFast

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.induction.mention_encoding import encode_labels, encode_mentions, has_trigger
from eventformers.models.mention_tokens import TRIGGER_MARKERS
from eventformers.models.mention_tokens import Mention as TokenisedMention
from eventformers.models.modeling_event_type_induction import EventTypeInductionModel
from eventformers.models.processing_event_type_induction import EventTypeInductionProcessor
from eventformers.trainers.method import add_marker_tokens


def mention(text: str, trigger: str = "") -> dict[str, Any]:
    start = text.index(trigger) if trigger else -1
    return {"text": text, "trigger_start": start, "trigger_end": start + len(trigger) if trigger else -1}


MENTIONS = [
    mention("the police arrested a thief", "arrested"),
    mention("the court sentenced the man and fined a firm", "fined"),
    mention("the court sentenced the man and fined a firm", "sentenced"),
    mention("a storm destroyed the bridge"),
    mention("the police arrested a thief", "arrested"),
]


def trained(encoder: Path, trigger_input: str) -> EventEncoder:
    torch.manual_seed(0)
    model = EventTypeInductionModel.from_encoder(encoder, trigger_input=trigger_input)
    tokenizer = BertTokenizerFast.from_pretrained(encoder)
    if "marked" in trigger_input:
        add_marker_tokens(tokenizer, model, TRIGGER_MARKERS)
    return EventEncoder(model.eval(), tokenizer, name="trained", max_length=32)


@pytest.fixture(scope="module")
def plain(tiny_encoder: Path) -> EventEncoder:
    return load_encoder(tiny_encoder, device="cpu")


def test_plain_encoder_reads_the_sentence(plain: EventEncoder) -> None:
    vectors = encode_mentions(plain, MENTIONS)
    assert vectors.query is None
    assert vectors.key is None
    expected = plain.encode([row["text"] for row in MENTIONS])
    np.testing.assert_array_equal(vectors.embeddings, expected)
    np.testing.assert_array_equal(vectors.embeddings[1], vectors.embeddings[2])


def test_plain_encoder_averages_the_tokens_of_the_trigger(plain: EventEncoder, tiny_encoder: Path) -> None:
    with pytest.warns(UserWarning, match="1 of 5 mentions have no trigger"):
        vectors = encode_mentions(plain, MENTIONS, trigger_input="span").embeddings
    model, tokenizer = AutoModel.from_pretrained(tiny_encoder), AutoTokenizer.from_pretrained(tiny_encoder)
    for row, vector in zip(MENTIONS, vectors, strict=True):
        encoded = tokenizer(row["text"], return_tensors="pt", return_offsets_mapping=True)
        first, last = encoded.pop("offset_mapping")[0].T
        with torch.inference_mode():
            hidden = model.eval()(**encoded).last_hidden_state[0]
        inside = (first >= row["trigger_start"]) & (last <= row["trigger_end"]) & (last > first)
        expected = hidden[inside].mean(0) if has_trigger(row) else hidden.mean(0)
        np.testing.assert_allclose(vector, expected.numpy(), atol=1e-5)
    np.testing.assert_array_equal(vectors[0], vectors[4])
    assert not np.allclose(vectors[1], vectors[2])


@pytest.mark.filterwarnings("ignore:1 of 5 mentions have no trigger")
def test_plain_encoder_reads_each_sentence_once(plain: EventEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [
        encode_mentions(plain, [row], trigger_input="span" if has_trigger(row) else "none").embeddings[0]
        for row in MENTIONS
    ]
    read: list[int] = []
    batches = EventEncoder._batches

    def counted(encoder: EventEncoder, lengths: list[int], *arguments: Any, **options: Any) -> Any:
        read.extend(lengths)
        return batches(encoder, lengths, *arguments, **options)

    monkeypatch.setattr(EventEncoder, "_batches", counted)
    vectors = encode_mentions(plain, MENTIONS, trigger_input="span").embeddings
    assert len(read) == 3
    np.testing.assert_allclose(vectors, np.stack(alone), atol=1e-5)


@pytest.mark.filterwarnings("ignore:1 of 5 mentions have no trigger")
@pytest.mark.parametrize("trigger_input", ["none", "span", "marked", "marked_span"])
def test_model_reads_triggers_as_in_training(trigger_input: str, tiny_encoder: Path) -> None:
    encoder = trained(tiny_encoder, trigger_input)
    vectors = encode_mentions(encoder, MENTIONS)
    reads = trigger_input != "none"
    inputs = EventTypeInductionProcessor(encoder.tokenizer, trigger_input=trigger_input).mentions(
        [
            TokenisedMention(row["text"], *((row["trigger_start"], row["trigger_end"]) if reads else ()))
            for row in MENTIONS
        ]
    )
    with torch.inference_mode():
        expected = encoder.model(
            input_ids=inputs.input_ids,
            attention_mask=inputs.attention_mask,
            trigger_mask=inputs.trigger_mask,
        )
    for part in ("embeddings", "query", "key"):
        np.testing.assert_allclose(getattr(vectors, part), expected[part].numpy(), atol=1e-5)
    assert np.allclose(vectors.embeddings[1], vectors.embeddings[2]) != reads


def test_found_triggers_are_told_by_their_characters(tiny_encoder: Path) -> None:
    """The word that holds the token which the model chose; a trigger that is given plays no part."""
    encoder = trained(tiny_encoder, "found")
    vectors = encode_mentions(encoder, MENTIONS)
    for row, span, vector in zip(MENTIONS, vectors.triggers, vectors.embeddings, strict=True):
        encoded = encoder.tokenizer(row["text"], return_tensors="pt")
        with torch.inference_mode():
            output = encoder.model(**encoded)
        [[_, place]] = output.found_triggers.nonzero().tolist()
        word = encoded.token_to_word(place)
        assert tuple(span) == tuple(encoded.word_to_chars(word))
        assert row["text"][slice(*span)] in row["text"].split()
        np.testing.assert_allclose(vector, output.embeddings[0].numpy(), atol=1e-5)
    assert vectors.rows(np.array([1, 2])).triggers.tolist() == vectors.triggers[1:3].tolist()
    assert encode_mentions(trained(tiny_encoder, "span"), MENTIONS[:1]).triggers is None


@pytest.mark.filterwarnings("ignore:1 of 5 mentions have no trigger")
def test_given_triggers_can_be_read_by_a_model_that_finds_them(tiny_encoder: Path) -> None:
    told = encode_mentions(trained(tiny_encoder, "found"), MENTIONS, trigger_input="span")
    assert told.triggers is None
    expected = encode_mentions(trained(tiny_encoder, "span"), MENTIONS).embeddings
    np.testing.assert_allclose(told.embeddings, expected, atol=1e-6)


def test_labels_are_read_whole(plain: EventEncoder, tiny_encoder: Path) -> None:
    labels = ["the police arrested a thief", "a storm"]
    expected = trained(tiny_encoder, "none").encode(labels)
    for trigger_input in ("none", "span", "found"):
        found = encode_labels(trained(tiny_encoder, trigger_input), labels)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(encode_labels(plain, labels), plain.encode(labels))


def test_triggers_that_are_cut_off_are_told(plain: EventEncoder) -> None:
    long = mention("the man said " * 20 + "fire", "fire")
    with (
        pytest.warns(UserWarning, match="were truncated"),
        pytest.warns(UserWarning, match="1 triggers are beyond the first 32 tokens"),
    ):
        vectors = encode_mentions(plain, [long], trigger_input="span")
    assert np.isfinite(vectors.embeddings).all()


def test_no_mentions_give_no_vectors(plain: EventEncoder) -> None:
    for trigger_input in ("none", "span"):
        found = encode_mentions(plain, [], trigger_input=trigger_input)  # type: ignore[arg-type]
        assert found.embeddings.shape == (0, 32)


def test_wrong_input_is_told(plain: EventEncoder, tiny_heterevent: Path, tiny_encoder: Path) -> None:
    with pytest.raises(UnknownNameError, match="Accepted: none, span"):
        encode_mentions(plain, MENTIONS, trigger_input="marked")
    with pytest.raises(EventformersError, match="item 0: found a text without any word"):
        encode_mentions(plain, [mention(" ")], trigger_input="span")
    with pytest.raises(EventformersError, match="has its own pooling"):
        encode_mentions(load_encoder(tiny_heterevent), MENTIONS, trigger_input="span")
    with pytest.raises(EventformersError, match="was trained with 'none'"):
        encode_mentions(trained(tiny_encoder, "none"), MENTIONS, trigger_input="span")
