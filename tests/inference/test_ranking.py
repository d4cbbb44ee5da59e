from __future__ import annotations

import numpy as np
import pytest
import torch

from eventformers.errors import EventformersError
from eventformers.inference.search import ranking
from eventformers.inference.search.ranking import (
    FilteredRanks,
    RankingQueries,
    filtered_ranks,
    rank_by_cosine,
    ranking_queries,
)


def slow_ranks(premise_vectors, alternative_vectors, scored, others) -> tuple[list[int], list[int]]:
    """Ranks query by query: every candidate that is not known is scored, sorted, and looked through."""
    best, worst = [], []
    vectors = dict(alternative_vectors)
    for premise, gold in scored:
        left = [
            alternative
            for alternative in vectors
            if alternative == gold or (premise, alternative) not in {*scored, *others}
        ]
        anchor = np.asarray(premise_vectors[premise], dtype=np.float64)
        cosines = {}
        for alternative in left:
            vector = np.asarray(vectors[alternative], dtype=np.float64)
            cosine = sum(anchor * vector) / np.sqrt(sum(anchor * anchor) * sum(vector * vector))
            cosines[alternative] = round(float(cosine), 11)
        descending = sorted(cosines.values(), reverse=True)
        places = [place for place, cosine in enumerate(descending, start=1) if cosine == cosines[gold]]
        best.append(places[0])
        worst.append(places[-1])
    return best, worst


def random_graph(seed: int, *, premises: int, alternatives: int, rows: int, values: int | None):
    """Pairs of a scored split and of the others, and vectors; few `values` make many ties."""
    generator = np.random.default_rng(seed)

    def pairs(number: int) -> list[tuple[str, str]]:
        return [
            (f"p{generator.integers(premises)}", f"a{generator.integers(alternatives)}")
            for _ in range(number)
        ]

    def vectors(names: list[str]) -> dict[str, np.ndarray]:
        shape = (len(names), 3 if values else 24)
        drawn = generator.integers(1, values + 1, shape) if values else generator.normal(size=shape)
        return dict(zip(names, drawn.astype(np.float32), strict=True))

    scored, others = pairs(rows), pairs(3 * rows)
    named = sorted({alternative for _, alternative in scored + others})
    return scored, others, vectors([f"p{index}" for index in range(premises)]), vectors(named)


def rank(scored, others, premise_vectors, alternative_vectors, **settings) -> FilteredRanks:
    queries = ranking_queries(scored, others)
    return rank_by_cosine(
        np.stack([premise_vectors[premise] for premise in queries.premises]),
        np.stack([alternative_vectors[alternative] for alternative in queries.alternatives]),
        queries,
        **settings,
    )


def unchanged(_: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """The cosines as they are: they are made in double precision, as they are for any re-ranking."""
    return scores


@pytest.mark.parametrize("rerank", [None, unchanged], ids=["single first", "double"])
@pytest.mark.parametrize("values", [None, 2, 1])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_loop_that_scores_and_sorts(seed, values, rerank):
    graph = random_graph(seed, premises=5, alternatives=30, rows=40, values=values)
    scored, others, premise_vectors, alternative_vectors = graph
    ranks = rank(*graph, device="cpu", rerank=rerank)
    best, worst = slow_ranks(premise_vectors, alternative_vectors, scored, others)
    assert ranks.optimistic.tolist() == best
    assert ranks.pessimistic.tolist() == worst
    assert ranks.mean.tolist() == [(low + high) / 2 for low, high in zip(best, worst, strict=True)]
    assert ranks.tied == sum(low != high for low, high in zip(best, worst, strict=True))
    assert ranks.tied if values else not ranks.tied


def test_blocks_change_nothing(monkeypatch):
    graph = random_graph(0, premises=40, alternatives=200, rows=300, values=3)
    whole = rank(*graph, device="cpu")
    sizes = set()
    monkeypatch.setattr(ranking, "BLOCK_MEBIBYTES", 1)
    for premises_in_block in (1, 3, 7, 39):
        monkeypatch.setattr(ranking, "_BYTES_PER_SCORE", 2**20 // (200 * premises_in_block))
        blocks = []

        def note(rows, scores, blocks=blocks):
            blocks.append(len(rows))
            return scores

        ranks = rank(*graph, device="cpu", rerank=note)
        sizes.add(max(blocks))
        assert ranks.optimistic.tolist() == whole.optimistic.tolist()
        assert ranks.pessimistic.tolist() == whole.pessimistic.tolist()
        single_first = rank(*graph, device="cpu")
        assert single_first.optimistic.tolist() == whole.optimistic.tolist()
        assert single_first.pessimistic.tolist() == whole.pessimistic.tolist()
    assert len(sizes) == 4


@pytest.mark.parametrize("spread", [1e-3, 1e-5, 1e-7])
def test_double_precision_decides_what_single_precision_cannot(spread):
    """Candidates so near to each other that single precision puts them in another order."""
    generator = np.random.default_rng(0)
    centre = generator.normal(size=64)
    vectors = {f"a{index}": centre + spread * generator.normal(size=64) for index in range(400)}
    premises = {f"p{index}": generator.normal(size=64) for index in range(5)}
    scored = [(premise, f"a{index}") for index in range(0, 400, 40) for premise in premises]
    graph = (scored, [("x", name) for name in vectors], premises, vectors)
    ranks, double = rank(*graph, device="cpu"), rank(*graph, device="cpu", rerank=unchanged)
    assert ranks.mean.tolist() == double.mean.tolist()
    assert len(set(ranks.mean)) > 40


@pytest.mark.parametrize("newer", [False, True])
def test_the_precision_that_a_process_allows_changes_nothing(newer):
    products = torch.backends.mkldnn.matmul
    allowed = products.fp32_precision if newer else torch.get_float32_matmul_precision()
    less = "tf32" if newer else "medium"

    def allow(precision: str) -> None:
        if newer:
            products.fp32_precision = precision
        else:
            torch.set_float32_matmul_precision(precision)

    graph = random_graph(0, premises=5, alternatives=30, rows=40, values=None)
    try:
        allow(less)
        ranks = rank(*graph, device="cpu")
        assert less == (products.fp32_precision if newer else torch.get_float32_matmul_precision())
    finally:
        allow(allowed)
    assert ranks.mean.tolist() == rank(*graph, device="cpu", rerank=unchanged).mean.tolist()


@pytest.mark.parametrize("rerank", [None, unchanged], ids=["single first", "double"])
def test_equal_vectors_tie_whatever_their_place_and_number(rerank):
    """A product in blocks sums in an order that depends on the column; the copies stand everywhere."""
    generator = np.random.default_rng(0)
    vectors = {f"a{index}": generator.normal(size=384).astype(np.float32) for index in range(301)}
    for index in range(0, 301, 50):
        vectors[f"a{index}"] = vectors["a0"] * np.float32(2 ** (index / 50))
    premises = {f"p{index}": generator.normal(size=384).astype(np.float32) for index in range(7)}
    scored = [(premise, "a150") for premise in premises]
    ranks = rank(scored, [("x", name) for name in vectors], premises, vectors, device="cpu", rerank=rerank)
    assert (ranks.pessimistic - ranks.optimistic).tolist() == [6] * 7


def test_every_premise_is_scored_once():
    queries = ranking_queries([("p", "a"), ("q", "a"), ("p", "b"), ("p", "a")], [("p", "c")])
    asked = []

    def score(rows):
        asked.extend(rows.tolist())
        return torch.tensor([[3.0, 2.0, 9.0], [1.0, 2.0, 3.0]])[rows]

    ranks = filtered_ranks(score, queries)
    assert asked == [0, 1]
    assert ranks.mean.tolist() == [1, 3, 1, 1]


def test_known_answers_of_any_split_are_left_out_and_counted():
    queries = ranking_queries(
        [("p", "a"), ("p", "b"), ("q", "a")],
        [("p", "c"), ("p", "c"), ("p", "a"), ("q", "d"), ("r", "e")],
    )
    assert queries.premises == ["p", "q"]
    assert queries.alternatives == ["a", "b", "c", "d", "e"]
    assert queries.removed.tolist() == [2, 2, 1]
    ranks = filtered_ranks(lambda rows: torch.tensor([[1.0, 2, 3, 4, 5], [1, 2, 3, 4, 5]])[rows], queries)
    assert ranks.mean.tolist() == [3, 3, 4]
    assert ranks.tied == 0


def test_a_text_that_is_premise_and_alternative_is_no_known_answer():
    queries = ranking_queries([("p", "a")], [("q", "p")])
    ranks = filtered_ranks(lambda rows: torch.tensor([[1.0, 2.0]])[rows], queries)
    assert ranks.mean.tolist() == [2]


def test_other_scores_may_be_ranked():
    graph = random_graph(1, premises=6, alternatives=30, rows=40, values=None)
    queries = ranking_queries(graph[0], graph[1])

    def reverse(rows: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        assert scores.shape == (len(rows), len(queries.alternatives))
        return -scores

    forward, backward = rank(*graph), rank(*graph, rerank=reverse)
    listed = len(queries.alternatives) - queries.removed
    assert (forward.optimistic + backward.pessimistic).tolist() == (listed + 1).tolist()


def test_candidates_may_be_out_of_the_question():
    queries = ranking_queries([("p", "a")], [("q", "b"), ("q", "c")])
    scores = torch.tensor([[-5.0, -torch.inf, -torch.inf]])
    assert filtered_ranks(lambda rows: scores[rows], queries).pessimistic.tolist() == [1]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 0.0])
def test_a_vector_without_a_direction_is_refused_by_its_text(wrong):
    queries = ranking_queries([("p", "good alternative"), ("p", "bad alternative")])
    vectors = np.ones((2, 4))
    vectors[1] = wrong
    with pytest.raises(EventformersError, match="1 of 2 texts, the first 'bad alternative'"):
        rank_by_cosine(np.ones((1, 4)), vectors, queries)
    with pytest.raises(EventformersError, match="1 of 1 texts, the first 'p'"):
        rank_by_cosine(vectors[1:], np.ones((2, 4)), queries)


def test_scores_that_cannot_be_ranked_are_refused():
    queries = ranking_queries([("p", "a")], [("q", "b")])
    with pytest.raises(EventformersError, match="scores of 1 of 1 premises contain NaN"):
        filtered_ranks(lambda _: torch.tensor([[0.5, float("nan")]]), queries)


def test_queries_are_made_of_arrays_of_positions():
    queries = ranking_queries([("p", "a"), ("q", "b")], [("q", "c"), ("p", "b")])
    assert isinstance(queries, RankingQueries)
    known = list(zip(queries.known_premise.tolist(), queries.known_alternative.tolist(), strict=True))
    assert known == [(0, 0), (0, 1), (1, 1), (1, 2)]
