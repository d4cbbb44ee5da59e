"""Events in retrieved chains: the index equals a loop over all chains, the vector a pass over each."""

from __future__ import annotations

import numpy as np
import pytest
from chain_rows import event, events

from eventformers.datasets_scripts.building import build_dataset
from eventformers.errors import EventformersError
from eventformers.evaluation import evaluate
from eventformers.evaluation.results import load_results
from eventformers.inference.chains import scorers as virtual_context
from eventformers.inference.chains.scorers import (
    ChainIndex,
    ContextEncoder,
    context_encoder,
    encode_states,
    words_of,
)
from eventformers.inference.encode import load_encoder

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
