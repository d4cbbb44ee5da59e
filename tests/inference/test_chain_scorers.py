from __future__ import annotations

import numpy as np
import pytest
from chain_rows import event, events

from eventformers.errors import EventformersError
from eventformers.inference.chains.scorers import EncoderChainScorer


class Embedding:
    """Events to random vectors of their own, and every event that was asked for."""

    def __init__(self, dimension: int = 8):
        self.dimension = dimension
        self.asked = []

    def __call__(self, wanted):
        self.asked += [tuple(one.values()) for one in wanted]
        return np.stack([self.vector(one) for one in wanted])

    def vector(self, one):
        seed = sum(ord(character) * 31**place for place, character in enumerate(" ".join(one.values())))
        return np.random.default_rng(seed).normal(size=self.dimension) * (1 + seed % 7)


def cosine(left, right):
    return float(left @ right / np.linalg.norm(left) / np.linalg.norm(right))


CONTEXTS = [events("a b c", "d e -"), events("d e -")]
CHOICES = [events("x y z", "a b c", "u v w"), events("x y z", "p q r")]


def test_the_score_is_the_mean_cosine_with_the_context():
    embed = Embedding()
    scores = EncoderChainScorer(embed).score_choices(CONTEXTS, CHOICES)
    for of_question, context, choices in zip(scores, CONTEXTS, CHOICES, strict=True):
        expected = [
            np.mean([cosine(embed.vector(one), embed.vector(choice)) for one in context])
            for choice in choices
        ]
        assert of_question == pytest.approx(expected)


def test_it_ranks_like_the_cosine_with_the_summed_unit_vectors():
    embed = Embedding()
    context = events(*(f"s{n} v{n} o" for n in range(8)))
    choices = events(*(f"c{n} d{n} e" for n in range(20)))
    (scores,) = EncoderChainScorer(embed).score_choices([context], [choices])
    units = [embed.vector(one) / np.linalg.norm(embed.vector(one)) for one in context]
    summed = [cosine(np.sum(units, axis=0), embed.vector(choice)) for choice in choices]
    assert np.argsort(scores).tolist() == np.argsort(summed).tolist()


@pytest.mark.parametrize("aggregation", ["mean", "last"])
def test_directions_score_the_same_choices_of_all_chains(aggregation):
    scorer = EncoderChainScorer(Embedding(), aggregation=aggregation)
    found, vectors = scorer.directions(CONTEXTS, CHOICES[0])
    expected = scorer.score_choices(CONTEXTS, [CHOICES[0]] * 2)
    np.testing.assert_allclose(found @ vectors.T, np.stack(expected), atol=1e-9)


def test_the_last_event_alone_can_decide():
    embed = Embedding()
    scorer = EncoderChainScorer(embed, aggregation="last")
    (scores,) = scorer.score_choices(CONTEXTS[:1], CHOICES[:1])
    last = embed.vector(CONTEXTS[0][-1])
    assert scores == pytest.approx([cosine(last, embed.vector(choice)) for choice in CHOICES[0]])


def test_transitions_are_cosines_from_0_to_1():
    embed = Embedding()
    (found,) = EncoderChainScorer(embed).similarities([events("a b c", "d e -")], [events("x y z")])
    assert found.shape == (2, 1)
    assert found[1, 0] == pytest.approx(
        (cosine(embed.vector(event("d e -")), embed.vector(event("x y z"))) + 1) / 2
    )
    opposite = EncoderChainScorer(lambda wanted: np.asarray([[1.0, 0.0], [-1.0, 0.0]]))
    assert opposite.similarities([events("a b c")], [events("x y z")])[0].tolist() == [[0.0]]


def test_every_distinct_event_is_asked_for_once():
    embed = Embedding()
    EncoderChainScorer(embed).score_choices(CONTEXTS * 3, CHOICES * 3)
    assert len(embed.asked) == len(set(embed.asked)) == 5


def test_equal_choices_tie_to_the_last_bit():
    (scores,) = EncoderChainScorer(Embedding(384)).score_choices(
        [events(*(f"s{n} v{n} o" for n in range(8)))], [events("x y z", "p q r", "x y z")]
    )
    assert scores[0] == scores[2]


def test_one_choice_is_scored():
    scorer = EncoderChainScorer(Embedding())
    assert scorer.score_choices([], []) == []
    (scores,) = scorer.score_choices([events("a b c")], [events("x y z")])
    assert scores.shape == (1,)


def test_a_vector_without_a_cosine_is_told_by_its_event():
    scorer = EncoderChainScorer(lambda wanted: np.asarray([[1.0, 0.0], [0.0, 0.0]]))
    with pytest.raises(EventformersError, match="the first 'x y z'"):
        scorer.score_choices([events("a b c")], [events("x y z")])
