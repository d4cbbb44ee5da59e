"""A model that reads chains: encoding events once gives what one pass over each chain gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from chain_rows import event, events

from eventformers import HeterEventForMultipleChoice
from eventformers.errors import EventformersError
from eventformers.evaluation.tasks.base import TaskRows
from eventformers.evaluation.tasks.chains import ChainSettings, choose_next_event
from eventformers.inference import encode
from eventformers.inference.chains import scorers as chain_vectors
from eventformers.inference.chains.scorers import (
    EncoderChainScorer,
    ModelChainScorer,
    chain_scorer,
    encode_states,
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
