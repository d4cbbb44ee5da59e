"""Encoding of mentions, and clustering in rounds."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from transformers import AutoModel, AutoTokenizer, BertTokenizerFast

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks.base import TaskRows
from eventformers.evaluation.tasks.induction import InductionSettings, induce_types, mention_model
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding.batches import equal_length_batches
from eventformers.inference.induction.induce import induce
from eventformers.inference.induction.mention_encoding import (
    cluster_dependence,
    encode_labels,
    encode_mentions,
    has_trigger,
    token_factors,
)
from eventformers.inference.induction.report import load_fitted_types, write_induction
from eventformers.models.modeling_event_type_induction import EventTypeInductionModel
from eventformers.models.processing_event_type_induction import TRIGGER_MARKERS, EventTypeInductionProcessor
from eventformers.models.processing_event_type_induction import Mention as TokenisedMention
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

    def counted(lengths: list[int], **options: Any) -> Any:
        read.extend(lengths)
        return equal_length_batches(lengths, **options)

    monkeypatch.setattr("eventformers.inference.encode.equal_length_batches", counted)
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


VERBS = ("arrested", "flooded", "sold")
OBJECTS = ("the house", "the man", "a car", "the bank")
TEXTS = [f"the firm {verb} {what}" for verb in VERBS for what in OBJECTS]
WEIGHTED_MENTIONS = [{"text": text, "trigger_start": -1, "trigger_end": -1} for text in TEXTS]
BY_VERB = np.repeat(np.arange(3), 4)
BY_OBJECT = np.tile(np.arange(4), 3)


@pytest.fixture
def folder(tiny_encoder: Path, tmp_path: Path) -> Path:
    """A model that averages tokens and clusters again once."""
    torch.manual_seed(0)
    model = EventTypeInductionModel.from_encoder(
        str(tiny_encoder), trigger_input="found", pooling="mean", found_exponent=0.25, weighting_rounds=1
    )
    model.save_pretrained(tmp_path / "model")
    load_encoder(tiny_encoder).tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def encoder(folder: Path) -> EventEncoder:
    return load_encoder(folder, device="cpu")


def factors_by_word(encoder: EventEncoder, clusters: np.ndarray) -> dict[str, float]:
    found = token_factors(encoder, None, WEIGHTED_MENTIONS, clusters)
    assert found is not None
    words = {word for text in TEXTS for word in text.split()}
    tokens = {word: encoder.tokenizer.encode(word, add_special_tokens=False) for word in words}
    return {word: float(found[ids[0]]) for word, ids in tokens.items() if len(ids) == 1}


def slow_dependence(rows: list[set[int]], labels: list[int], token: int) -> float:
    total = 0.0
    for cluster, size in Counter(labels).items():
        inside = sum(token in row for row, label in zip(rows, labels, strict=True) if label == cluster)
        everywhere = sum(token in row for row in rows)
        table = [(inside, everywhere * size), (size - inside, (len(rows) - everywhere) * size)]
        table += [
            (everywhere - inside, everywhere * (len(rows) - size)),
            (len(rows) - size - everywhere + inside, (len(rows) - everywhere) * (len(rows) - size)),
        ]
        g2 = 2 * sum(count * math.log(count * len(rows) / product) for count, product in table if count)
        total += g2 if inside * len(rows) > everywhere * size else 0
    return total


def test_dependence_of_random_tokens() -> None:
    generator = np.random.default_rng(5)
    present = generator.random((40, 15)) < 0.3
    labels = generator.integers(0, 4, 40)
    found = cluster_dependence(csr_array(present.astype(float)), labels)
    rows = [set(np.flatnonzero(row).tolist()) for row in present]
    expected = [slow_dependence(rows, labels.tolist(), token) for token in range(15)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_dependence_of_a_token_that_a_cluster_has_alone() -> None:
    present = csr_array(np.array([[1, 1], [1, 1], [0, 1], [0, 1]], dtype=float))
    # 2 (2 ln 2 + 2 ln 2) for the token of the first cluster; nothing for one that is everywhere.
    found = cluster_dependence(present, np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(found, [8 * math.log(2), 0.0], atol=1e-12)


def test_words_of_a_cluster_weigh_more(encoder: EventEncoder) -> None:
    by_verb = factors_by_word(encoder, BY_VERB)
    assert by_verb["flooded"] > 10 * by_verb["firm"] > 0
    assert by_verb["house"] == by_verb["firm"]
    by_object = factors_by_word(encoder, BY_OBJECT)
    assert by_object["house"] > 10 * by_object["flooded"]


def test_one_cluster_weighs_all_words_alike(encoder: EventEncoder) -> None:
    assert set(factors_by_word(encoder, np.zeros(12, dtype=int)).values()) == {1.0}


def test_no_factors_where_nothing_is_averaged(encoder: EventEncoder, tiny_encoder: Path) -> None:
    assert token_factors(encoder, None, WEIGHTED_MENTIONS, None) is None
    assert token_factors(encoder, "span", WEIGHTED_MENTIONS, BY_VERB) is None
    assert token_factors(load_encoder(tiny_encoder, device="cpu"), None, WEIGHTED_MENTIONS, BY_VERB) is None


def test_vectors_follow_the_factors(encoder: EventEncoder) -> None:
    plain = encode_mentions(encoder, WEIGHTED_MENTIONS).embeddings
    alike = np.full(len(encoder.tokenizer), 3.0, dtype=np.float32)
    same = encode_mentions(encoder, WEIGHTED_MENTIONS, token_factors=alike).embeddings
    np.testing.assert_allclose(same, plain, atol=1e-5)
    verbs = encoder.tokenizer.convert_tokens_to_ids(list(VERBS))
    strong = np.full(len(encoder.tokenizer), 1e-6, dtype=np.float32)
    strong[verbs] = 1e6
    found = encode_mentions(encoder, WEIGHTED_MENTIONS, token_factors=strong).embeddings
    tokens = encoder.tokenizer(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        hidden = encoder.model(input_ids=tokens["input_ids"]).last_hidden_state[0]
    verb = hidden[tokens["input_ids"][0] == verbs[0]][0]
    np.testing.assert_allclose(found[0], torch.nn.functional.normalize(verb, dim=0).numpy(), atol=1e-4)


def test_induce_clusters_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = induce(folder, TEXTS, num_clusters=3, device="cpu", show_progress=True)
    assert own.settings["weighting_rounds"] == 1
    shown = capsys.readouterr().err
    assert shown.index("clustering 1 of 2") < shown.index("clustering 2 of 2")
    once = induce(folder, TEXTS, num_clusters=3, weighting_rounds=0, device="cpu", show_progress=True)
    assert "of 1" not in capsys.readouterr().err
    assert once.settings["weighting_rounds"] == 0
    encoder = load_encoder(folder, device="cpu")
    np.testing.assert_allclose(
        once.vectors, encode_mentions(encoder, WEIGHTED_MENTIONS).embeddings, atol=1e-5
    )
    factors = token_factors(encoder, None, WEIGHTED_MENTIONS, once.cluster)
    again = encode_mentions(encoder, WEIGHTED_MENTIONS, token_factors=factors).embeddings
    np.testing.assert_allclose(own.vectors, again, atol=1e-5)
    assert np.abs(own.vectors - once.vectors).max() > 0.01


def test_new_mentions_are_read_with_the_weights_of_the_clusters(folder: Path, tmp_path: Path) -> None:
    found = induce(folder, TEXTS, num_clusters=3, device="cpu")
    write_induction(found, tmp_path / "types")
    encoder = load_encoder(folder, device="cpu")
    fitted = load_fitted_types(tmp_path / "types", encoder)
    factors = token_factors(encoder, None, WEIGHTED_MENTIONS, found.cluster)
    np.testing.assert_array_equal(fitted.token_factors, factors)
    types, cosines = fitted.assign(WEIGHTED_MENTIONS)
    vectors = encode_mentions(encoder, WEIGHTED_MENTIONS, token_factors=factors).embeddings
    np.testing.assert_allclose(cosines, (vectors @ fitted.centroids.T).max(axis=1), atol=1e-5)
    assert (types == found.cluster).mean() > 0.5


def rows_of_two_types() -> list[dict[str, object]]:
    return [
        {**mention, "event_type": VERBS[cluster], "seen": False, "mention_id": str(place)}
        for place, (mention, cluster) in enumerate(zip(WEIGHTED_MENTIONS, BY_VERB.tolist(), strict=True))
    ]


@pytest.mark.parametrize("runs", [0, 2])
def test_tasks_cluster_again(encoder: EventEncoder, runs: int) -> None:
    def clusters(**settings: int) -> tuple[list[int], dict[str, object]]:
        chosen = InductionSettings(**settings)
        asked = mention_model(encoder, chosen, Session(), "auto", [encoder] * runs)
        output = induce_types(asked, TaskRows(rows_of_two_types()), chosen)
        return output.inputs["predictions"], output.details

    own, details = clusters()
    assert details["weighting_rounds"] == 1
    once, plain = clusters(weighting_rounds=0)
    assert "weighting_rounds" not in plain
    factors = token_factors(encoder, None, WEIGHTED_MENTIONS, np.array(once))
    vectors = encode_mentions(encoder, WEIGHTED_MENTIONS, token_factors=factors)
    asked = mention_model(encoder, InductionSettings(), Session(), "auto")
    weighted = asked.__class__(asked.embed, lambda rows, clusters: vectors)
    expected = induce_types(weighted, TaskRows(rows_of_two_types()), InductionSettings())
    assert own == expected.inputs["predictions"]


def test_errors(folder: Path, encoder: EventEncoder, tiny_encoder: Path) -> None:
    with pytest.raises(EventformersError, match=r"weighting_rounds is 1 with .*, which does not average"):
        induce(tiny_encoder, TEXTS, num_clusters=2, weighting_rounds=1, device="cpu")
    with pytest.raises(EventformersError, match="weighting_rounds is -1; accepted: 0 or more"):
        induce(folder, TEXTS, num_clusters=2, weighting_rounds=-1, device="cpu")
    with pytest.raises(EventformersError, match=r"weighting_rounds.*0 or more"):
        InductionSettings(weighting_rounds=-1)


def test_the_number_of_rounds_is_saved(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["weighting_rounds"] == 1
