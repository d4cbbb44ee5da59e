"""Reranking, linking and parents by scores; scores of pairs are those of a loop."""

from __future__ import annotations

import json
import shutil
from itertools import product
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
from eventformers.inference.grounding.hierarchy_discovery import DiscoveredHierarchy, discover_hierarchy
from eventformers.inference.grounding.linking import (
    THRESHOLDS,
    LinkThreshold,
    choose_threshold,
    link,
    link_best,
)
from eventformers.inference.grounding.retrieve_rerank import (
    Ranked,
    check_retriever_weight,
    rerank,
    softmax_logits,
)
from eventformers.inference.search.candidate_index import Candidates
from eventformers.models.modeling_event_grounding_cross import EventGroundingForSequenceClassification
from eventformers.models.processing_event_grounding import EventText, MentionText

EVENTS = ["landing", "campaign", "war", "siege"]
NOTHING = -np.inf


def candidates(events: list[list[int]], scores: list[list[float]]) -> Candidates:
    return Candidates(np.array(events), np.array(scores, dtype=np.float32), {"fr": 1}, {"en": 0.5})


@pytest.fixture
def retrieved() -> Candidates:
    return candidates([[2, 0, 3], [3, 1, -1], [-1, -1, -1]], [[5, 4, 3], [2, 1, NOTHING], [NOTHING] * 3])


@pytest.mark.parametrize("pairs_at_once", [1, 2, 100])
def test_reranking_orders_by_the_scorer_and_keeps_the_order_of_ties(
    retrieved: Candidates, pairs_at_once: int
) -> None:
    asked = []

    def score(mentions: np.ndarray, events: np.ndarray) -> np.ndarray:
        asked.extend(zip(mentions.tolist(), events.tolist(), strict=True))
        return np.where(mentions == 0, np.array([7, 0, 1, 1])[events], 0)

    found = rerank(retrieved, score, pairs_at_once=pairs_at_once)
    assert asked == [(0, 2), (0, 0), (0, 3), (1, 3), (1, 1)]
    assert found.events.tolist() == [[0, 2, 3], [3, 1, -1], [-1, -1, -1]]
    assert found.scores.tolist() == [[7, 1, 1], [0, 0, NOTHING], [NOTHING] * 3]
    assert (found.without_pool, found.recall) == ({"fr": 1}, {"en": 0.5})


def test_of_many_equal_scores_the_order_stays() -> None:
    events = np.random.default_rng(0).permutation(200)[None]
    found = rerank(Candidates(events, np.zeros((1, 200), dtype=np.float32)), lambda _, event: event % 2)
    assert found.events[0].tolist() == [*events[events % 2 == 1], *events[events % 2 == 0]]


def test_a_candidate_of_the_lowest_score_stays_a_candidate(retrieved: Candidates) -> None:
    found = rerank(retrieved, lambda mentions, events: np.where(events == 3, NOTHING, 0.0))
    assert found.events.tolist() == [[2, 0, 3], [1, 3, -1], [-1, -1, -1]]


def test_logits_of_a_softmax() -> None:
    """The logistic function gives the share of each candidate among those of its mention."""
    scores = np.array([[3.0, 1.0, 0.5], [2.0, NOTHING, NOTHING], [NOTHING] * 3, [900.0, 0.0, -900.0]])
    logits = softmax_logits(scores.astype(np.float32))
    shares = 1 / (1 + np.exp(-logits.astype(np.float64)))
    powers = np.exp(scores[0])
    np.testing.assert_allclose(shares[0], powers / powers.sum(), rtol=1e-5)
    assert logits[0, 1] == pytest.approx(1 - np.log(np.exp(3) + np.exp(0.5)), rel=1e-5)
    assert shares[1].tolist() == pytest.approx([1, 0, 0])
    assert (logits[2] == NOTHING).all()
    assert np.isfinite(logits[3]).all()
    assert (np.diff(logits[3]) < 0).all()


def test_reranking_by_a_scorer_that_learned_by_a_softmax(retrieved: Candidates) -> None:
    def score(mentions: np.ndarray, events: np.ndarray) -> np.ndarray:
        return np.array([7.0, 5.0, 6.0, 5.0])[events]

    found, plain = rerank(retrieved, score, softmax=True), rerank(retrieved, score)
    assert found.events.tolist() == plain.events.tolist() == [[0, 2, 3], [3, 1, -1], [-1, -1, -1]]
    np.testing.assert_array_equal(found.scores, softmax_logits(plain.scores))
    # By a sigmoid all of them would reach it.
    assert link(found, EVENTS, 0.4) == [["landing"], ["siege", "campaign"], []]


@pytest.mark.parametrize("pairs_at_once", [1, 2, 100])
def test_reranking_with_the_retrievers_score_beside_it(retrieved: Candidates, pairs_at_once: int) -> None:
    def score(mentions: np.ndarray, events: np.ndarray) -> np.ndarray:
        return np.array([1.0, 3.0, 0.0, 2.0])[events]

    found = rerank(retrieved, score, retriever_weight=2, pairs_at_once=pairs_at_once)
    assert found.events.tolist() == [[2, 0, 3], [3, 1, -1], [-1, -1, -1]]
    assert found.scores.tolist() == [[10, 9, 8], [6, 5, NOTHING], [NOTHING] * 3]
    assert rerank(retrieved, score).events.tolist() == [[3, 0, 2], [1, 3, -1], [-1, -1, -1]]
    shares = rerank(retrieved, score, retriever_weight=2, softmax=True, pairs_at_once=pairs_at_once)
    np.testing.assert_array_equal(shares.scores, softmax_logits(found.scores))


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf"), "much", True, None])
def test_a_weight_is_a_number(weight: object) -> None:
    check_retriever_weight(0)
    check_retriever_weight(2.5)
    with pytest.raises(EventformersError, match=r"retriever_weight: found .*; accepted: a number from 0"):
        check_retriever_weight(weight)  # type: ignore[arg-type]


def test_those_that_reach_the_threshold_are_linked() -> None:
    scored = candidates([[2, 0, 3], [3, 1, -1], [-1, -1, -1]], [[1, 0, -1], [-2, -3, NOTHING], [NOTHING] * 3])
    assert link(scored, EVENTS, 0.5) == [["war", "landing"], [], []]
    assert link(scored, EVENTS, 0.1) == [["war", "landing", "siege"], ["siege"], []]


def test_as_many_as_there_are_gold_events_are_linked(retrieved: Candidates) -> None:
    assert link_best(retrieved, EVENTS, [2, 3, 1]) == [["war", "landing"], ["siege", "campaign"], []]


def test_the_threshold_has_the_highest_product() -> None:
    scored = candidates([[0, 1, 2], [3, 2, 1]], [[3, 2, -1], [3, -1, -9]])
    gold = [["landing", "campaign"], ["siege"]]
    chosen = choose_threshold(scored, EVENTS, gold)
    assert list(chosen.products) == list(THRESHOLDS)
    # At 0.3 to 0.7 all is right, 0.9 loses one event, 0.1 adds two.
    assert [chosen.products[threshold] for threshold in (0.3, 0.5, 0.7)] == pytest.approx([1, 1, 1])
    assert chosen.threshold == 0.7
    assert chosen.products[0.9] == pytest.approx(0.5 * (2 * 1 * 0.75 / 1.75) * (2 * 1 * (2 / 3) / (5 / 3)))
    assert chosen.products[0.1] == 0


def test_where_no_mention_is_right_as_a_whole_the_f1_scores_decide() -> None:
    scored = candidates([[0, 3]], [[0, -3]])
    chosen = choose_threshold(scored, EVENTS, [["landing", "war"]])
    assert set(chosen.products.values()) == {0}
    assert chosen.threshold == 0.5


def test_gold_that_was_no_candidate_counts_as_missed() -> None:
    gold = [["landing", "war"], ["campaign"]]
    chosen = choose_threshold(candidates([[0], [1]], [[3], [3]]), EVENTS, gold)
    # Strict accuracy 1/2; macro recall 3/4 and micro recall 2/3, both with precision 1.
    assert chosen.products[0.5] == pytest.approx(0.5 * (2 * 0.75 / 1.75) * (2 * (2 / 3) / (5 / 3)))


def test_the_first_candidate_is_linked_where_it_reaches_the_threshold() -> None:
    of_index = candidates([[2, 0], [3, 1], [-1, -1]], [[0.7, 0.6], [0.4, 0.3], [NOTHING] * 2])
    scored = Ranked(of_index, of_index)
    for least, linked in ((0.5, [["war"], [], []]), (0.4, [["war"], ["siege"], []])):
        assert LinkThreshold(least, "learned", False).link(scored, EVENTS) == linked
    assert LinkThreshold(None, "none", False).link(scored, EVENTS) == [["war"], ["siege"], []]
    assert LinkThreshold(0.3, "given", False).link(scored, EVENTS) == [
        ["war", "landing"],
        ["siege", "campaign"],
        [],
    ]


def test_a_floor_is_for_the_scores_of_the_index() -> None:
    """The candidate that a reranker prefers is linked only if the index gave it the least score."""
    found = candidates([[2, 0], [3, 1], [-1, -1]], [[0.7, 0.6], [0.4, 0.3], [NOTHING] * 2])
    reranked = candidates([[0, 2], [1, 3], [-1, -1]], [[4, 3], [5, -5], [NOTHING] * 2])
    both = Ranked(found, reranked)
    for floor, linked in (
        (None, [["landing", "war"], ["campaign"], []]),
        (0.65, [["war"], [], []]),
        (0.3, [["landing", "war"], ["campaign"], []]),
    ):
        assert LinkThreshold(0.5, "learned", True, floor=floor).link(both, EVENTS) == linked


WAR = ["landing", "siege", "war", "strike", "lone"]
LANDING, SIEGE, WAR_ITSELF, STRIKE, _ = range(5)
CANDIDATES = np.array(
    [
        [LANDING, WAR_ITSELF, -1],
        [WAR_ITSELF, LANDING, SIEGE],
        [SIEGE, WAR_ITSELF, -1],
        [WAR_ITSELF, -1, -1],
        [STRIKE, LANDING, STRIKE],
        [-1, -1, -1],
    ]
)


@pytest.fixture
def hierarchy() -> DiscoveredHierarchy:
    return discover_hierarchy(WAR, CANDIDATES)


def slow_scores(event_ids: list[str], candidates: np.ndarray) -> dict[tuple[str, str], float]:
    """h of all pairs of different events, by sets; none for events without a mention."""
    mentions = {
        event_id: {mention for mention, row in enumerate(candidates.tolist()) if event in row}
        for event, event_id in enumerate(event_ids)
    }
    return {
        (child, parent): len(mentions[child] & mentions[parent]) / len(mentions[child])
        for child, parent in product(event_ids, event_ids)
        if child != parent and mentions[child]
    }


def slow_ranks(
    scores: dict[tuple[str, str], float], event_ids: list[str], child: str, gold: set[str]
) -> tuple[float, float]:
    """The rank of the first gold parent, with ties in the order of the ids and against it."""
    others = [event_id for event_id in event_ids if event_id != child]
    if (child, others[0]) not in scores or not gold & set(others):
        return np.inf, np.inf
    by_id = sorted(others, key=lambda parent: (-scores[child, parent], parent))
    against = sorted(others, key=lambda parent: (-scores[child, parent], parent in gold))
    return tuple(1 + min(order.index(parent) for parent in gold & set(others)) for order in (by_id, against))


def test_scores_by_hand(hierarchy: DiscoveredHierarchy) -> None:
    assert hierarchy.mentions.tolist() == [3, 2, 4, 1, 0]
    found = hierarchy.parents()
    told = [
        (WAR[child], WAR[parent], score, shared)
        for child, parent, score, shared in zip(*(column.tolist() for column in found), strict=True)
    ]
    assert told == [
        ("landing", "war", pytest.approx(2 / 3), 2),
        ("landing", "siege", pytest.approx(1 / 3), 1),
        ("landing", "strike", pytest.approx(1 / 3), 1),
        ("siege", "war", 1.0, 2),
        ("siege", "landing", 0.5, 1),
        ("war", "landing", 0.5, 2),
        ("war", "siege", 0.5, 2),
        ("strike", "landing", 1.0, 1),
    ]


def test_ranks_by_hand(hierarchy: DiscoveredHierarchy) -> None:
    found = hierarchy.ranks(
        {
            "landing": ["strike"],  # ties with siege, whose id is before
            "siege": {"landing", "war"},  # the first of both
            "war": ["lone", "strike"],  # two without a shared mention, behind two with some
            "strike": ["war"],  # level with lone and siege
            "lone": ["war"],  # without a mention
            "elsewhere": ["war"],
            "strike again": ["war"],
        }
    )
    assert found.ranks.tolist() == [3, 1, 3, 4, np.inf, np.inf, np.inf]
    assert found.pessimistic.tolist() == [3, 1, 3, 4, np.inf, np.inf, np.inf]
    assert (found.tied, found.unlinked, found.unknown_parents) == (2, 3, 0)


def test_a_tie_is_put_in_the_order_of_the_ids_or_against_the_gold_parent(
    hierarchy: DiscoveredHierarchy,
) -> None:
    found = hierarchy.ranks({"landing": ["siege"], "strike": ["lone"]})
    assert found.ranks.tolist() == [2, 2]
    assert found.pessimistic.tolist() == [3, 4]
    assert found.tied == 2


def test_a_parent_that_is_no_event_is_counted(hierarchy: DiscoveredHierarchy) -> None:
    found = hierarchy.ranks({"landing": ["elsewhere"], "siege": ["elsewhere", "war"]})
    assert found.ranks.tolist() == [np.inf, 1]
    assert (found.unlinked, found.unknown_parents) == (0, 1)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_loop_over_pairs_of_sets(seed: int) -> None:
    draw = np.random.default_rng(seed)
    event_ids = [f"Q{number}" for number in draw.permutation(40)]
    candidates = draw.integers(-1, 30, size=(60, 4))
    found = discover_hierarchy(event_ids, candidates)
    scores = slow_scores(event_ids, candidates)
    parents = found.parents()
    told = {
        (event_ids[child], event_ids[parent]): score
        for child, parent, score in zip(parents.children, parents.parents, parents.scores, strict=True)
    }
    assert told == {pair: score for pair, score in scores.items() if score}
    gold = {
        child: set(draw.choice([one for one in event_ids if one != child], draw.integers(1, 4)))
        for child in event_ids
    }
    ranks = found.ranks(gold)
    slow = [slow_ranks(scores, event_ids, child, parents) for child, parents in gold.items()]
    assert ranks.ranks.tolist() == [rank for rank, _ in slow]
    assert ranks.pessimistic.tolist() == [rank for _, rank in slow]
    assert ranks.unlinked == np.isinf(ranks.ranks).sum() == 40 - len({child for child, _ in scores})


def test_no_mention_finds_nothing() -> None:
    found = discover_hierarchy(["a", "b"], np.empty((0, 4), dtype=np.int64))
    assert not len(found.parents().children)
    assert found.ranks({"a": ["b"]}).unlinked == 1


MENTIONS = [
    MentionText("the storm", "flooded", "the city"),
    MentionText("", "strike", "", "union", "2020"),
    MentionText("the police said the man and the woman and the judge", "fire", "burned the house"),
    MentionText("the storm", "flooded", "the city"),
]
ENTRIES = [
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
def slow_logits(cross_encoder: CrossEncoder, pairs: np.ndarray) -> Vectors:
    """One pair after another."""
    scores = []
    for mention, event in pairs.tolist():
        [left] = cross_encoder.tokeniser.mentions([MENTIONS[mention]]).rows
        [right] = cross_encoder.tokeniser.events([ENTRIES[event]]).rows
        inputs = torch.tensor([cross_encoder.tokeniser.pair(left, right)])
        scores.append(cross_encoder.encoder.model(inputs).logits.item())
    return np.array(scores, dtype=np.float32)


@pytest.mark.parametrize("batch_size", ["auto", 1, 3])
def test_scores_are_those_of_a_loop(cross_encoder: CrossEncoder, batch_size: int) -> None:
    scores = PairScores(cross_encoder, MENTIONS, ENTRIES, batch_size=batch_size)(PAIRS[:, 0], PAIRS[:, 1])
    expected = slow_logits(cross_encoder, PAIRS)
    assert scores.dtype == np.float32
    assert scores.shape == (len(PAIRS),)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    # All pairs differ but those of the two mentions that are equal, and the pair that stands twice.
    assert len(np.unique(scores)) == len({(mention % 3, event) for mention, event in PAIRS.tolist()})


def test_no_pair_is_no_score(cross_encoder: CrossEncoder) -> None:
    nothing = np.empty(0, dtype=np.int64)
    assert PairScores(cross_encoder, MENTIONS, ENTRIES)(nothing, nothing).shape == (0,)


def test_scores_order_candidates(cross_encoder: CrossEncoder) -> None:
    events = np.array([[0, 1, 2], [2, 1, -1], [1, 0, 2], [-1, -1, -1]])
    candidates = Candidates(events, np.where(events < 0, -np.inf, 0).astype(np.float32))
    found = rerank(candidates, PairScores(cross_encoder, MENTIONS, ENTRIES))
    for mention, (given, kept) in enumerate(zip(events, found.events, strict=True)):
        known = given[given >= 0]
        scores = slow_logits(cross_encoder, np.array([(mention, event) for event in known]).reshape(-1, 2))
        assert kept[: len(known)].tolist() == known[np.argsort(-scores)].tolist()


def test_what_is_cut_is_counted_once(cross_encoder: CrossEncoder) -> None:
    score = PairScores(cross_encoder, MENTIONS, ENTRIES)
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
    scores = PairScores(lower, MENTIONS, ENTRIES)(PAIRS[:, 0], PAIRS[:, 1])
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, slow_logits(cross_encoder, PAIRS), atol=0.1)


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
    scores = PairScores(reranker, MENTIONS[:2], ENTRIES)(PAIRS[:, 0] % 2, PAIRS[:, 1])
    texts = [(mention_text(MENTIONS[m % 2]), event_text(ENTRIES[e])) for m, e in PAIRS.tolist()]
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
        PairScores(broken, MENTIONS, ENTRIES)(PAIRS[:, 0], PAIRS[:, 1])
