"""Scores of chains: one pass over events gives what one pass over each chain gives; virtual contexts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from chain_rows import event, events

from eventformers import HeterEventForMultipleChoice
from eventformers.datasets_scripts.building import build_dataset
from eventformers.errors import EventformersError
from eventformers.evaluation import evaluate
from eventformers.evaluation.results import load_results
from eventformers.evaluation.tasks.base import TaskRows
from eventformers.evaluation.tasks.chains import ChainSettings, choose_next_event
from eventformers.inference import encode
from eventformers.inference.chains import scorers as chain_vectors
from eventformers.inference.chains import scorers as virtual_context
from eventformers.inference.chains.scorers import (
    ChainIndex,
    ContextEncoder,
    EncoderChainScorer,
    ModelChainScorer,
    chain_scorer,
    context_encoder,
    encode_states,
    words_of,
)
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.models.processing_heterevent import HeterEventProcessor

CONTEXTS = [
    events("police arrested thief", "judge sentenced thief", "thief - bank", "man robbed bank"),
    events("storm flooded city"),
    events("police arrested thief", "storm flooded city", "mayor visited city"),
]
CHOICES = [
    events("thief escaped -", "mayor visited city", "storm hit road"),
    events("mayor visited city", "police arrested thief"),
    events("city repaired bridge", "- rose price", "storm flooded city", "team won -"),
]


@pytest.fixture(scope="module")
def encoder(tiny_heterevent) -> EventEncoder:
    return load_encoder(tiny_heterevent, device="cpu")


def passed(encoder: EventEncoder, chain, **options):
    """What the model gives for one chain alone, in one padded pass."""
    batch = HeterEventProcessor(encoder.tokenizer, encoder.event_order).events(chain)
    with torch.no_grad():
        return encoder.model.eval()(**batch, **options)


def cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return (left / np.linalg.norm(left, axis=1, keepdims=True)) @ (
        right / np.linalg.norm(right, axis=1, keepdims=True)
    ).T


def nodes(encoder: EventEncoder, chain) -> np.ndarray:
    return passed(encoder, chain, chain_index=torch.zeros(len(chain), dtype=torch.long)).embeddings.numpy()


def candidates(encoder: EventEncoder, of_question) -> np.ndarray:
    return passed(encoder, of_question).candidates.numpy()


@pytest.mark.parametrize("block", [1, 4, 4096])
def test_scores_are_those_of_a_pass_over_each_chain(encoder, monkeypatch, block):
    monkeypatch.setattr(chain_vectors, "BLOCK_EVENTS", block)
    scores = ModelChainScorer(encoder).score_choices(CONTEXTS, CHOICES)
    last = ModelChainScorer(encoder, aggregation="last").score_choices(CONTEXTS, CHOICES)
    for of_question, of_last, context, choices in zip(scores, last, CONTEXTS, CHOICES, strict=True):
        expected = cosines(nodes(encoder, context), candidates(encoder, choices))
        np.testing.assert_allclose(of_question, expected.mean(axis=0), atol=1e-5)
        np.testing.assert_allclose(of_last, expected[-1], atol=1e-5)


@pytest.mark.parametrize("aggregation", ["mean", "last"])
def test_directions_score_the_same_choices_of_all_chains(encoder, aggregation):
    scorer = ModelChainScorer(encoder, aggregation=aggregation)
    found, vectors = scorer.directions(CONTEXTS, CHOICES[2])
    expected = scorer.score_choices(CONTEXTS, [CHOICES[2]] * len(CONTEXTS))
    np.testing.assert_allclose(found @ vectors.T, np.stack(expected), atol=1e-6)


def test_scores_are_the_logits_of_the_multiple_choice_head(encoder, tiny_heterevent):
    head = HeterEventForMultipleChoice.from_pretrained(tiny_heterevent).eval()
    for context, choices in zip(CONTEXTS, CHOICES, strict=True):
        batch = HeterEventProcessor(encoder.tokenizer).events([*context, *choices])
        chains, asked = torch.arange(len(context) + len(choices)).split([len(context), len(choices)])
        with torch.no_grad():
            logits = head(**batch, chains=chains[None], choices=asked[None]).logits[0].numpy()
        (scores,) = ModelChainScorer(encoder).score_choices([context], [choices])
        np.testing.assert_allclose(scores, logits * head.config.contrast_temperature, atol=1e-5)


def test_transitions_go_from_an_event_in_its_own_graph_to_a_candidate(encoder):
    found = ModelChainScorer(encoder).similarities(CONTEXTS, CHOICES)
    for matrix, sources, targets in zip(found, CONTEXTS, CHOICES, strict=True):
        alone = np.concatenate([nodes(encoder, [source]) for source in sources])
        expected = (cosines(alone, candidates(encoder, targets)) + 1) / 2
        np.testing.assert_allclose(matrix, expected, atol=1e-5)


def test_every_distinct_event_is_encoded_once(encoder, monkeypatch):
    sizes = []
    pass_through = encode.EventEncoder.pass_distinct

    def counting(self, rows, inputs, apply, **options):
        def counted(model, tensors, positions):
            sizes.append(len(tensors["input_ids"]))
            return apply(model, tensors, positions)

        pass_through(self, rows, inputs, counted, **options)

    monkeypatch.setattr(encode.EventEncoder, "pass_distinct", counting)
    monkeypatch.setattr(encode, "BLOCK_TEXTS", 3)
    distinct = {tuple(one.values()) for group in (*CONTEXTS, *CHOICES) for one in group}
    several = ModelChainScorer(encoder).score_choices(CONTEXTS * 2, CHOICES * 2)
    assert sum(sizes) == len(distinct)
    for left, right in zip(several[:3], several[3:], strict=True):
        assert np.array_equal(left, right)


def test_a_memory_changes_no_score(encoder):
    remembering = ModelChainScorer(replace(encoder, memory={}))
    fresh = ModelChainScorer(encoder)
    remembered = []
    distinct = len({tuple(one.values()) for group in (*CONTEXTS, *CHOICES) for one in group})
    # The same events in the same order, as chains of their own and as whole ones.
    for ask in ("similarities", "similarities", "score_choices", "score_choices", "similarities"):
        found, expected = (getattr(scorer, ask)(CONTEXTS, CHOICES) for scorer in (remembering, fresh))
        assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))
        remembered.append(remembering.encoder.remembered)
    assert remembered == [0, distinct, 0, distinct, 0]
    assert fresh.encoder.remembered == 0


def test_a_question_does_not_depend_on_the_others(encoder):
    together = ModelChainScorer(encoder).score_choices(CONTEXTS, CHOICES)
    for number, of_question in enumerate(together):
        (alone,) = ModelChainScorer(encoder).score_choices([CONTEXTS[number]], [CHOICES[number]])
        np.testing.assert_allclose(of_question, alone, atol=1e-5)


def test_the_order_and_the_graph_of_the_context_count(encoder):
    context, choices = CONTEXTS[0], CHOICES[0]
    scorer = ModelChainScorer(encoder)
    forwards, backwards = scorer.score_choices([context, context[::-1]], [choices] * 2)
    assert not np.allclose(forwards, backwards, atol=1e-4)
    states = encode_states(encoder, context)
    chain = np.arange(len(context))
    one, three = (states.nodes([chain], num_layers=depth)[0] for depth in (1, 3))
    assert not np.allclose(one, three, atol=1e-3)
    with pytest.raises(EventformersError, match="num_layers is 4; accepted: 1 to 3"):
        states.nodes([chain], num_layers=4)


def test_equal_events_and_chains_of_one_are_defined(encoder):
    same = events(*["storm flooded city"] * 4)
    (scores,) = ModelChainScorer(encoder).score_choices([same], [[same[0]]])
    assert scores.shape == (1,)
    assert np.isfinite(scores).all()
    assert ModelChainScorer(encoder).score_choices([], []) == []


def test_an_event_without_a_word_and_a_model_without_chains_are_refused(encoder, tiny_encoder):
    with pytest.raises(EventformersError, match="without any word"):
        ModelChainScorer(encoder).score_choices([[event("- - -")]], [CHOICES[0]])


def test_long_events_are_cut_and_counted(encoder):
    long = {"subject": "the man " * 20, "predicate": "visited", "object": "city"}
    with pytest.warns(UserWarning, match="1 of 3 texts have more than 32 tokens"):
        ModelChainScorer(encoder).score_choices([[long]], [CHOICES[1]])
    assert encoder.truncated == 1


def test_the_scorer_goes_with_the_model(encoder, tiny_encoder):
    assert isinstance(chain_scorer(encoder, aggregation="last"), ModelChainScorer)
    plain = chain_scorer(load_encoder(tiny_encoder))
    assert isinstance(plain, EncoderChainScorer)
    rows = [{"context": CONTEXTS[0], "choices": CHOICES[0], "label": 0}]
    assert len(choose_next_event(plain, TaskRows(rows), ChainSettings()).inputs["predictions"][0]) == 3


def test_an_event_is_read_by_its_roles(encoder):
    roles = [event("police arrested thief"), event("thief arrested police"), event("- police arrested")]
    vectors = encoder.encode([*roles, "police arrested"])
    for one, vector in zip(roles, vectors, strict=False):
        np.testing.assert_allclose(vector, nodes(encoder, [one])[0], atol=1e-5)
    # The text of the third event is that of the string, but the string is all predicate.
    assert not np.allclose(vectors[2], vectors[3], atol=1e-3)
    as_predicate = {"subject": "", "predicate": "police arrested", "object": ""}
    assert np.array_equal(encoder.encode(as_predicate), encoder.encode("police arrested"))


def test_the_order_of_roles_reaches_the_tokens(tiny_heterevent):
    encoder = load_encoder(tiny_heterevent, event_order="predicate_first", device="cpu")
    one = event("police arrested thief")
    np.testing.assert_allclose(encoder.encode(one), nodes(encoder, [one])[0], atol=1e-5)
    other = load_encoder(tiny_heterevent, device="cpu").encode(one)
    assert not np.allclose(encoder.encode(one), other, atol=1e-4)


def test_a_pooling_is_refused_where_nothing_is_pooled(tiny_heterevent):
    with pytest.raises(EventformersError, match="a heterevent model pools the tokens of each role"):
        load_encoder(tiny_heterevent, pooling="cls")


def test_packed_and_threaded_passes_change_nothing(encoder, monkeypatch):
    several = [event(f"man{number} visited city") for number in range(60)]
    expected = encoder.encode(several)
    monkeypatch.setattr(encode, "PACKING_PAYS_FROM_TEXTS", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        np.testing.assert_allclose(encoder.encode(several, batch_size=4), expected, atol=1e-5)
        states = encode_states(encoder, several, batch_size=4)
    finally:
        torch.set_num_threads(before)
    alone = states.nodes([np.asarray([number]) for number in range(60)])
    np.testing.assert_allclose(np.concatenate(alone), expected, atol=1e-5)


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


SHORT_CONTEXTS = [events("a b c", "d e -"), events("d e -")]
SHORT_CHOICES = [events("x y z", "a b c", "u v w"), events("x y z", "p q r")]


def test_the_score_is_the_mean_cosine_with_the_context():
    embed = Embedding()
    scores = EncoderChainScorer(embed).score_choices(SHORT_CONTEXTS, SHORT_CHOICES)
    for of_question, context, choices in zip(scores, SHORT_CONTEXTS, SHORT_CHOICES, strict=True):
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
def test_directions_of_single_events(aggregation):
    scorer = EncoderChainScorer(Embedding(), aggregation=aggregation)
    found, vectors = scorer.directions(SHORT_CONTEXTS, SHORT_CHOICES[0])
    expected = scorer.score_choices(SHORT_CONTEXTS, [SHORT_CHOICES[0]] * 2)
    np.testing.assert_allclose(found @ vectors.T, np.stack(expected), atol=1e-9)


def test_the_last_event_alone_can_decide():
    embed = Embedding()
    scorer = EncoderChainScorer(embed, aggregation="last")
    (scores,) = scorer.score_choices(SHORT_CONTEXTS[:1], SHORT_CHOICES[:1])
    last = embed.vector(SHORT_CONTEXTS[0][-1])
    assert scores == pytest.approx([cosine(last, embed.vector(choice)) for choice in SHORT_CHOICES[0]])


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
    EncoderChainScorer(embed).score_choices(SHORT_CONTEXTS * 3, SHORT_CHOICES * 3)
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


CHAINS = [
    events("police arrested thief", "judge sentenced thief", "thief - bank"),
    events("storm flooded city", "mayor visited city"),
    events("team won -", "player scored goal", "team visited mayor", "fans saw team"),
]


def match(one, chain) -> float:
    wanted = set(words_of(one))
    return float(np.mean([len(wanted & set(words_of(other))) / len(wanted) for other in chain]))


@pytest.mark.parametrize("block", [1, 2, 256])
def test_the_index_matches_like_a_loop_over_all_chains(monkeypatch, block):
    monkeypatch.setattr(virtual_context, "BLOCK_QUERIES", block)
    generator = np.random.default_rng(0)
    words = ["a", "b", "c", "d", "e", "f", "g", "h"]
    drawn = [event(" ".join(generator.choice(words, 3))) for _ in range(90)]
    chains = [drawn[start : start + 1 + start % 5] for start in range(0, 80, 4)]
    asked = [*drawn[80:], event("a x y"), event("A - B")]
    index = ChainIndex(chains)
    for one, (positions, matches) in zip(asked, index.nearest(asked, 4), strict=True):
        by_loop = sorted((-round(match(one, chain), 12), place) for place, chain in enumerate(chains))
        expected = [(place, -score) for score, place in by_loop if score][:4]
        assert positions.tolist() == [place for place, _ in expected]
        assert matches == pytest.approx([score for _, score in expected])


def test_an_event_that_shares_no_word_has_no_context():
    ((positions, matches),) = ChainIndex(CHAINS).nearest([event("x y z")], 10)
    assert len(positions) == len(matches) == 0


def test_long_chains_make_several_contexts(monkeypatch):
    monkeypatch.setattr(virtual_context, "MAX_EVENTS", 4)
    chain = [event(f"s{number} v o{number}") for number in range(11)]
    index = ChainIndex([chain])
    assert [len(context) for context in index.contexts] == [4, 4, 3]
    assert index.nearest([event("s9 - -")], 3)[0][0].tolist() == [2]


@pytest.mark.parametrize("block", [1, 256])
def test_the_vector_is_the_weighted_mean_over_contexts(tiny_heterevent, monkeypatch, block):
    monkeypatch.setattr(virtual_context, "BLOCK_QUERIES", block)
    encoder = load_encoder(tiny_heterevent, device="cpu")
    contexts = ContextEncoder(encoder, ChainIndex(CHAINS), retrieved=2, num_layers=1)
    asked = [event("thief visited city"), event("x y z"), event("thief visited city"), "Mayor won"]
    vectors = contexts.encode(asked)
    assert contexts.without_context == 1
    for item, vector in zip(asked, vectors, strict=True):
        one = {"subject": "", "predicate": item, "object": ""} if isinstance(item, str) else item
        best = sorted(range(3), key=lambda place: -match(one, CHAINS[place]))[:2]
        best = [place for place in best if match(one, CHAINS[place])]
        nodes = []
        for chain in [CHAINS[place] for place in best] or [[]]:
            states = encode_states(encoder, [*chain, one])
            nodes.append(states.nodes([np.arange(len(chain) + 1)], num_layers=1)[0][-1])
        weights = np.exp([match(one, CHAINS[place]) for place in best] or [0.0])
        np.testing.assert_allclose(vector, weights / weights.sum() @ np.stack(nodes), atol=1e-5)
    assert np.array_equal(vectors[0], vectors[2])
    assert not np.allclose(vectors[0], encoder.encode(asked[0]), atol=1e-3)


def test_a_model_of_single_events_has_no_use_for_contexts(tiny_encoder):
    with pytest.raises(EventformersError, match="reads single events"):
        context_encoder(load_encoder(tiny_encoder), "nowhere")


@pytest.mark.process
def test_similarity_in_contexts_is_a_variant_of_the_result(tiny_heterevent, tiny_encoder, tmp_path):
    folder = build_dataset("event_chains", "chains", output=tmp_path / "chains")
    options = {"output": tmp_path / "out", "baseline": tiny_encoder}
    context = {"virtual_context": folder}
    for settings in ({}, context, {**context, "retrieved": 3}):
        evaluate(tiny_heterevent, "transitive_similarity", settings=settings, **options)
    found = {result.variant: result for result in load_results(tmp_path / "out")}
    assert set(found) == {"", "virtual-context", "virtual-context-retrieved-3"}
    told = found["virtual-context"].settings["virtual_context"]
    assert told["retrieved"] == 10
    assert told["num_layers"] == 1
    assert told["contexts"] > 0
    assert 0 <= told["events_without_context"] <= found["virtual-context"].timing["distinct_texts"]
    assert found["virtual-context"].predictions != found[""].predictions
    # The untrained encoder reads no chains, and is scored as it is.
    assert found["virtual-context"].baseline.scores == found[""].baseline.scores
    with pytest.raises(EventformersError, match="copa does not compare events; tasks that do: hard_sim"):
        evaluate(tiny_heterevent, "copa", settings={"virtual_context": folder})
