"""Scores of pairs equal those of a slow loop in any order; truncated and wrong pairs are reported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import save_tiny_cross_encoder
from tokenizers import processors
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, BertTokenizerFast

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.grounding.encoding import (
    CrossEncoder,
    PairScores,
    event_text,
    load_cross_encoder,
    mention_text,
)
from eventformers.inference.grounding.retrieve_rerank import rerank
from eventformers.inference.search.candidate_index import Candidates
from eventformers.models.grounding_tokens import EventText, MentionText
from eventformers.models.modeling_event_grounding_cross import EventGroundingForSequenceClassification

MENTIONS = [
    MentionText("the storm", "flooded", "the city"),
    MentionText("", "strike", "", "union", "2020"),
    MentionText("the police said the man and the woman and the judge", "fire", "burned the house"),
    MentionText("the storm", "flooded", "the city"),
]
EVENTS = [
    EventText("storm", "the storm hit the city and the bridge and the road and the house"),
    EventText("strike"),
    EventText("", "the election"),
]
PAIRS = np.array([(mention, event) for event in (2, 0, 1) for mention in (3, 0, 2, 1)] + [(2, 0)])


@pytest.fixture(scope="module")
def folder(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cross") / "cross-encoder"
    return save_tiny_cross_encoder(tiny_encoder, path, mention_tokens=16, event_tokens=10)


@pytest.fixture(scope="module")
def cross_encoder(folder: Path) -> CrossEncoder:
    return load_cross_encoder(folder, device="cpu")


@torch.no_grad()
def slow_scores(cross_encoder: CrossEncoder, pairs: np.ndarray) -> Vectors:
    """One pair after another."""
    scores = []
    for mention, event in pairs.tolist():
        [left] = cross_encoder.tokeniser.mentions([MENTIONS[mention]]).rows
        [right] = cross_encoder.tokeniser.events([EVENTS[event]]).rows
        inputs = torch.tensor([cross_encoder.tokeniser.pair(left, right)])
        scores.append(cross_encoder.encoder.model(inputs).logits.item())
    return np.array(scores, dtype=np.float32)


@pytest.mark.parametrize("batch_size", ["auto", 1, 3])
def test_scores_are_those_of_a_loop(cross_encoder: CrossEncoder, batch_size: int) -> None:
    scores = PairScores(cross_encoder, MENTIONS, EVENTS, batch_size=batch_size)(PAIRS[:, 0], PAIRS[:, 1])
    expected = slow_scores(cross_encoder, PAIRS)
    assert scores.dtype == np.float32
    assert scores.shape == (len(PAIRS),)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    # All pairs differ but those of the two mentions that are equal, and the pair that stands twice.
    assert len(np.unique(scores)) == len({(mention % 3, event) for mention, event in PAIRS.tolist()})


def test_no_pair_is_no_score(cross_encoder: CrossEncoder) -> None:
    nothing = np.empty(0, dtype=np.int64)
    assert PairScores(cross_encoder, MENTIONS, EVENTS)(nothing, nothing).shape == (0,)


def test_scores_order_candidates(cross_encoder: CrossEncoder) -> None:
    events = np.array([[0, 1, 2], [2, 1, -1], [1, 0, 2], [-1, -1, -1]])
    candidates = Candidates(events, np.where(events < 0, -np.inf, 0).astype(np.float32))
    found = rerank(candidates, PairScores(cross_encoder, MENTIONS, EVENTS))
    for mention, (given, kept) in enumerate(zip(events, found.events, strict=True)):
        known = given[given >= 0]
        scores = slow_scores(cross_encoder, np.array([(mention, event) for event in known]).reshape(-1, 2))
        assert kept[: len(known)].tolist() == known[np.argsort(-scores)].tolist()


def test_what_is_cut_is_counted_once(cross_encoder: CrossEncoder) -> None:
    score = PairScores(cross_encoder, MENTIONS, EVENTS)
    assert score.cut == {}
    for pairs in (PAIRS[-1:], PAIRS, PAIRS):
        score(pairs[:, 0], pairs[:, 1])
        assert score.cut == {"context": 1, "description": 1}


def test_it_knows_its_name_and_revision(cross_encoder: CrossEncoder) -> None:
    assert cross_encoder.encoder.name == "cross-encoder"
    assert len(cross_encoder.encoder.revision or "") == 64
    assert (cross_encoder.tokeniser.mention_tokens, cross_encoder.tokeniser.event_tokens) == (16, 10)


def test_lower_precision_gives_full_logits(folder: Path, cross_encoder: CrossEncoder) -> None:
    lower = load_cross_encoder(folder, device="cpu", dtype="bfloat16")
    scores = PairScores(lower, MENTIONS, EVENTS)(PAIRS[:, 0], PAIRS[:, 1])
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, slow_scores(cross_encoder, PAIRS), atol=0.1)


def test_what_is_no_cross_encoder_is_refused(folder: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="the type bert, which does not score pairs"):
        load_cross_encoder(tiny_encoder)
    with pytest.raises(EventformersError, match="not a model folder"):
        load_cross_encoder(tmp_path)
    with pytest.raises(UnknownNameError, match="float32"):
        load_cross_encoder(folder, dtype="float")
    model = EventGroundingForSequenceClassification.from_pretrained(folder)
    model.event_grounding_cross.save_pretrained(tmp_path / "body")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "body")
    with pytest.raises(EventformersError, match="weights are missing, among them prediction_head"):
        load_cross_encoder(tmp_path / "body")


def test_a_configuration_that_is_refused_is_told(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "changed")
    path = tmp_path / "changed" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"mention_tokens": 2}))
    with pytest.raises(EventformersError, match=r"cannot load .*: mention_tokens is 2; accepted: an integer"):
        load_cross_encoder(tmp_path / "changed")


def _save_plain(encoder: Path, folder: Path, separators: int, labels: int = 1) -> Path:
    """A cross-encoder as sentence-transformers saves it, whose pairs have one or two separating tokens."""
    torch.manual_seed(0)
    tokenizer = BertTokenizerFast.from_pretrained(encoder)
    sizes = {
        "vocab_size": len(tokenizer),
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    config = BertConfig(**sizes, intermediate_size=16, num_labels=labels, initializer_range=0.3)
    if separators == 2:
        ends = [("[CLS]", tokenizer.cls_token_id), ("[SEP]", tokenizer.sep_token_id)]
        pair = "[CLS] $A [SEP] [SEP] $B [SEP]"
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair=pair, special_tokens=ends
        )
        tokenizer.model_input_names = ["input_ids", "attention_mask"]
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("separators", [1, 2])
def test_scores_of_a_cross_encoder_of_another_library(
    tiny_encoder: Path, tmp_path: Path, separators: int
) -> None:
    others = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    folder = _save_plain(tiny_encoder, tmp_path / "plain", separators)
    reranker = load_cross_encoder(folder, device="cpu")
    scores = PairScores(reranker, MENTIONS[:2], EVENTS)(PAIRS[:, 0] % 2, PAIRS[:, 1])
    texts = [(mention_text(MENTIONS[m % 2]), event_text(EVENTS[e])) for m, e in PAIRS.tolist()]
    expected = others.CrossEncoder(str(folder), device="cpu").predict(
        texts, activation_fn=torch.nn.Identity()
    )
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
    assert (reranker.retriever_weight, reranker.learned_by_softmax) == (0.0, False)


def test_long_pairs_of_another_library_keep_the_mention(tiny_encoder: Path, tmp_path: Path) -> None:
    reranker = load_cross_encoder(_save_plain(tiny_encoder, tmp_path / "plain", 1), device="cpu")
    tokenizer, words = reranker.encoder.tokenizer, "the man said it " * 20
    scorer = PairScores(
        reranker, [MentionText(words, "flooded", words)], [EventText("storm", f"{words}bridge")]
    )
    rows, _ = scorer._inputs.token_rows([(0, 0)])
    text = tokenizer.decode(rows[0][1:])
    assert len(rows[0]) - 1 <= reranker.encoder.max_length
    assert "flooded" in text
    assert "bridge" not in text
    scorer(np.array([0]), np.array([0]))
    assert scorer.cut == {"context": 1, "description": 1}


def test_a_classifier_of_several_labels_is_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="with 3 labels, which does not score pairs"):
        load_cross_encoder(_save_plain(tiny_encoder, tmp_path / "plain", 1, labels=3))


def test_scores_that_are_not_finite_are_told(folder: Path) -> None:
    broken = load_cross_encoder(folder, device="cpu")
    for parameter in broken.encoder.model.parameters():
        parameter.data.fill_(float("nan"))
    with pytest.raises(EventformersError, match="'cross-encoder' computes numbers that are not finite"):
        PairScores(broken, MENTIONS, EVENTS)(PAIRS[:, 0], PAIRS[:, 1])
