"""Baselines that learn: networks and vectors of events from chains."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from forked import run_python
from planted_chains import planted_chains, planted_questions

from eventformers.baselines.chain_baselines import chain_training
from eventformers.baselines.event_networks import (
    NETWORKS,
    ChainTable,
    CoherenceScorer,
    EventComp,
    NetworkSettings,
    PredicateTensor,
    RoleFactorTensor,
    RoleVectors,
    TrainedNetwork,
    train_network,
    word_table,
)
from eventformers.baselines.word_vectors import (
    WordVectors,
    WordVectorSettings,
    event_words,
    train_word_vectors,
)
from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError

CHAINS, _ = planted_chains()
SETTINGS = NetworkSettings(
    dimension=8, epochs=4, chains_per_step=8, corrupted=2, learning_rate=1e-2, window=3, dropout=0.0
)


def random_vectors(dimension: int = 6) -> WordVectors:
    """A vector for every word of the planted chains, without training."""
    words = sorted({word for chain in CHAINS for event in chain for word in event_words(event)})
    values = np.random.default_rng(0).normal(size=(len(words), dimension)).astype(np.float32)
    return WordVectors({word: row for row, word in enumerate(words)}, values)


def train(name: str, seed: int = 0, **changes: object) -> TrainedNetwork:
    settings = replace(SETTINGS, **changes)  # type: ignore[arg-type]
    return train_network(name, CHAINS, random_vectors(), settings, seed=seed)


def table() -> torch.Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", NETWORKS)
def test_planted_stories_are_learnt(name: str) -> None:
    contexts, choices, labels = planted_questions()
    # The pair network starts from nothing, where a cosine begins at equal words.
    longer = {"epochs": 60, "chains_per_step": 32} if name == "event_comp" else {"epochs": 8}
    trained = train(name, **longer, chain_argument=0.0)
    scores = trained.scorer().score_choices(contexts, choices)
    right = [int(np.argmax(of_row)) == label for of_row, label in zip(scores, labels, strict=True)]
    assert np.mean(right) > 0.9
    assert trained.losses[-1] < trained.losses[0]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_seed_decides_everything(name: str) -> None:
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first, second, other = (train(name, seed, epochs=1, dropout=0.2) for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), state)
    events = CHAINS[0]
    assert np.array_equal(first.embed(events), second.embed(events))
    assert not np.array_equal(first.embed(events), other.embed(events))


def test_role_factor_is_the_sum_over_three_indices() -> None:
    network, roles = RoleFactorTensor(table(), 4, 0.0), torch.randn(2, 3, 3)
    tensor = network.tensor.weight.view(4, 3, 3)
    for event, vector in zip(roles, network.compose(roles), strict=True):
        subject, predicate, object_ = event
        factors = [torch.einsum("ijk,j,k->i", tensor, one, predicate) for one in (subject, object_)]
        expected = network.subject.weight @ factors[0] + network.object.weight @ factors[1]
        torch.testing.assert_close(vector, expected)


def test_predicate_tensor_is_the_sum_over_its_own_tensor() -> None:
    network, roles = PredicateTensor(table(), 4, 0.0), torch.randn(2, 3, 3)
    outer, inner = network.tensor.weight.view(4, 3, 3), network.predicate.weight.view(3, 3, 3)
    for event, vector in zip(roles, network.compose(roles), strict=True):
        subject, predicate, object_ = event
        of_predicate = outer * torch.einsum("jka,a->jk", inner, predicate)
        torch.testing.assert_close(vector, torch.einsum("ijk,j,k->i", of_predicate, subject, object_))


def test_the_margin_loss_is_a_hinge_on_cosines() -> None:
    network = RoleFactorTensor(table(), 2, 0.0)
    context, event = torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0]])
    corrupted = torch.tensor([[[4.0, 3.0], [-1.0, 0.0]]])
    # Cosines 0.6 against 0.8 and -1.
    assert network.loss(context, event, corrupted, 0.5).item() == pytest.approx((0.5 + 0.8 - 0.6) / 2)


def test_coherence_loss_is_cross_entropy() -> None:
    network = EventComp(table(), 4, 0.0)
    context, event, corrupted = torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 2, 4)

    def logits(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return network.coherence_logits(network.first_of_pair(first), network.second_of_pair(second))

    expected = torch.nn.functional.binary_cross_entropy_with_logits
    right = expected(logits(context, event), torch.ones(3))
    wrong = expected(logits(context.unsqueeze(1).expand(3, 2, 4), corrupted), torch.zeros(3, 2))
    torch.testing.assert_close(network.loss(context, event, corrupted, 0.0), right + wrong)


def test_roles_are_means_of_their_words_and_absent_ones_have_a_vector() -> None:
    roles = RoleVectors(table())
    words = torch.tensor([[[1, 2], [3, -1], [-1, -1]]])
    (subject, predicate, object_) = roles(words)[0]
    torch.testing.assert_close(subject, table()[[1, 2]].mean(dim=0))
    torch.testing.assert_close(predicate, table()[3])
    torch.testing.assert_close(object_, roles.absent[2])


def test_words_are_numbered_by_role() -> None:
    event: Event = {"subject": "Old king", "predicate": "ride", "object": ""}
    assert word_table([event], {"king": 1, "ride": 2}).tolist() == [[[0, 1], [2, -1], [-1, -1]]]


def test_pairs_stay_within_the_window_and_the_chain() -> None:
    chains = [CHAINS[0][:3], CHAINS[1][:2]]
    numbered = ChainTable.of_chains(chains, random_vectors().index)
    rows, earlier, later = numbered.pairs(torch.tensor([1, 0]), 2)
    assert rows.tolist() == [3, 4, 0, 1, 2]
    found = sorted(zip(rows[earlier].tolist(), rows[later].tolist(), strict=True))
    assert found == [(0, 1), (0, 2), (1, 2), (3, 4)]
    _, earlier, later = numbered.pairs(torch.tensor([1, 0]), 1)
    assert len(earlier) == len(later) == 3


def test_corrupted_events_get_an_argument_of_the_chain() -> None:
    index = {word: row + 1 for word, row in random_vectors().index.items()}
    numbered = ChainTable.of_chains(CHAINS, index)
    rows = torch.arange(40)

    def corrupt(share: float) -> torch.Tensor:
        settings = replace(SETTINGS, corrupted=50, chain_argument=share)
        return numbered.corrupt(rows, settings, torch.Generator().manual_seed(0))

    plain, replaced = corrupt(0.0), corrupt(1.0)
    assert plain.shape == (40, 50, *numbered.words.shape[1:])
    known = {tuple(event.flatten().tolist()) for event in numbered.words}
    assert all(tuple(event.flatten().tolist()) in known for event in plain.flatten(0, 1))
    for row, events in zip(rows.tolist(), replaced, strict=True):
        of_chain = numbered.words[numbered.chain == numbered.chain[row]][:, [0, 2], 0]
        arguments = set(of_chain[of_chain >= 0].tolist())
        changed = (events != plain[row]).any(dim=2)
        assert not changed[:, 1].any()
        assert (changed.sum(dim=1) <= 1).all()
        assert set(events[:, [0, 2], 0][changed[:, [0, 2]]].tolist()) <= arguments
    assert (replaced != plain).any(dim=(2, 3)).float().mean() > 0.6


def test_coherence_of_many_questions_is_that_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = train("event_comp", epochs=1).scorer()
    assert isinstance(scorer, CoherenceScorer)
    contexts, choices, _ = planted_questions()
    together = scorer.similarities(contexts, choices)
    assert together[0].shape == (2, 3)
    assert ((together[0] >= 0) & (together[0] <= 1)).all()
    monkeypatch.setattr("eventformers.baselines.event_networks._PAIRS_PER_BLOCK", 5)
    in_blocks = scorer.similarities(contexts, choices)
    for number, (one, other) in enumerate(zip(together, in_blocks, strict=True)):
        np.testing.assert_allclose(one, other, rtol=1e-5)
        alone = scorer.similarities(contexts[number : number + 1], choices[number : number + 1])
        np.testing.assert_allclose(one, alone[0], rtol=1e-5)
    assert scorer.similarities([], []) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dimension", 0),
        ("epochs", 1.5),
        ("learning_rate", 0.0),
        ("margin", -1.0),
        ("weight_decay", -0.1),
        ("chain_argument", 1.1),
        ("dropout", 1.0),
    ],
)
def test_a_setting_out_of_range_is_refused(field: str, value: float) -> None:
    with pytest.raises(EventformersError, match=f"{field}: found"):
        replace(SETTINGS, **{field: value})  # type: ignore[arg-type]


def test_chains_of_one_event_are_refused() -> None:
    with pytest.raises(EventformersError, match="no chain of two events"):
        train_network("event_comp", [CHAINS[0][:1]], random_vectors(), SETTINGS)


def test_a_loss_that_is_not_finite_is_told() -> None:
    with pytest.raises(EventformersError, match="lower the learning rate"):
        train("role_factor_tensor", learning_rate=1e20)


WORD_SETTINGS = WordVectorSettings(dimension=12, epochs=100)
needs_gensim = pytest.mark.skipif(
    importlib.util.find_spec("gensim") is None, reason="gensim is not installed: it is the extra `baselines`"
)


def event(subject: str, predicate: str, object_: str = "") -> Event:
    return {"subject": subject, "predicate": predicate, "object": object_}


@needs_gensim
def test_words_of_planted_stories_are_learnt() -> None:
    chains, _ = planted_chains()
    scorer = train_word_vectors(chains, WORD_SETTINGS, seed=1).scorer()
    contexts, choices, labels = planted_questions()
    scores = scorer.score_choices(contexts, choices)
    right = [int(np.argmax(of_row)) == label for of_row, label in zip(scores, labels, strict=True)]
    assert np.mean(right) > 0.9


@needs_gensim
def test_a_seed_decides_everything_in_any_process(tmp_path: Path) -> None:
    script = (
        "print(hash('word'))\n"
        "from planted_chains import planted_chains\n"
        "from eventformers.baselines.word_vectors import WordVectorSettings, train_word_vectors\n"
        "chains, _ = planted_chains()\n"
        "trained = train_word_vectors(chains, WordVectorSettings(dimension=12, epochs=5), seed=1)\n"
        "print(list(trained.index), trained.vectors.tobytes().hex())\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = run_python(["-c", script], cwd=tmp_path, env=environment, server="package")
    hashed, other = done.stdout.splitlines()
    assert int(hashed) != hash("word")
    chains, _ = planted_chains()
    settings = WordVectorSettings(dimension=12, epochs=5)
    trained = train_word_vectors(chains, settings, seed=1)
    assert other == f"{list(trained.index)} {trained.vectors.tobytes().hex()}"
    again = train_word_vectors(chains, settings, seed=2)
    assert not np.array_equal(trained.vectors, again.vectors)


def test_an_event_is_the_sum_of_its_known_words() -> None:
    vectors = WordVectors({"a": 0, "b": 1}, np.array([[1.0, 0.0], [0.0, 3.0]], dtype=np.float32))
    embedded = vectors.embed([event("A", "b new"), event("b", "b"), event("new", "word")])
    assert embedded.tolist() == [[1, 3], [0, 6], [0.5, 1.5]]


@needs_gensim
def test_words_that_are_too_rare_are_told() -> None:
    with pytest.raises(EventformersError, match="no word of the 1 chains occurs 5 times"):
        train_word_vectors([[event("a", "b")]], WordVectorSettings(min_count=5))


def test_a_missing_gensim_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EventformersError, match=r'pip install "eventformers\[baselines\]"'):
        chain_training("word2vec")


@pytest.mark.parametrize("field", ["dimension", "window", "epochs", "negatives", "min_count"])
def test_a_setting_of_words_out_of_range_is_refused(field: str) -> None:
    with pytest.raises(EventformersError, match=f"{field}: found 0"):
        WordVectorSettings(**{field: 0})
