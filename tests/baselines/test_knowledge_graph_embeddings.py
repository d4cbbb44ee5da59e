"""ConvE, RotatE and ComplEx: the same order as PyKEEN's own scores, unseen entities, repeatability."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eventformers.baselines import get_baseline
from eventformers.baselines.knowledge_graph_embeddings import (
    METHODS,
    EmbeddingSettings,
    GraphEmbeddings,
    train_embeddings,
)
from eventformers.errors import EventformersError

SEEN, ENTITIES, RELATIONS = 12, 15, 3
SETTINGS = {
    "conve": EmbeddingSettings(dimension=16, epochs=2, batch_size=8, negatives=2, label_smoothing=0.1),
    "rotate": EmbeddingSettings(dimension=8, epochs=2, batch_size=8, negatives=2),
    "complex": EmbeddingSettings(dimension=8, epochs=2, batch_size=8, negatives=2, learning_rate=0.5),
}


def triples() -> np.ndarray:
    """Every one of the first entities is in a triple; the last relation is in none."""
    generator = np.random.default_rng(0)
    heads, tails = generator.permutation(SEEN), generator.permutation(SEEN)
    return np.stack([heads, generator.integers(0, RELATIONS - 1, SEEN), tails], axis=1)


def train(name: str, seed: int = 0, **changes: object) -> GraphEmbeddings:
    settings = EmbeddingSettings(**{**vars(SETTINGS[name]), **changes})  # type: ignore[arg-type]
    return train_embeddings(
        name, triples(), entities=ENTITIES, relations=RELATIONS, settings=settings, seed=seed
    )


@pytest.mark.usefixtures("pykeen")
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("name", METHODS)
def test_the_order_is_that_of_pykeens_scores(name: str, direction: str) -> None:
    trained = train(name)
    entities, relations = np.array([0, 5, 14]), np.array([0, 1, 2])
    ours = trained.scores(entities, relations, direction)
    with torch.inference_mode():
        if direction == "forward":
            batch = torch.tensor(np.stack([entities, relations], axis=1))
            theirs = trained.model.predict_t(batch)
        else:
            batch = torch.tensor(np.stack([relations, entities], axis=1))
            theirs = trained.model.predict_h(batch)
    assert ours.shape == theirs.shape == (3, ENTITIES)
    assert torch.equal(ours.argsort(dim=1), theirs.argsort(dim=1))
    if name != "rotate":
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.usefixtures("pykeen")
@pytest.mark.parametrize("name", METHODS)
def test_unseen_entities_keep_their_initial_vectors(name: str) -> None:
    short, longer = train(name), train(name, epochs=4)
    before, after = (each.model.entity_representations[0](None).detach() for each in (short, longer))
    assert before.shape[0] == ENTITIES
    torch.testing.assert_close(before[SEEN:], after[SEEN:], rtol=0, atol=0)
    assert (before[:SEEN] != after[:SEEN]).reshape(SEEN, -1).any(dim=1).all()


@pytest.mark.usefixtures("pykeen")
@pytest.mark.parametrize("name", METHODS)
def test_a_seed_decides_everything(name: str) -> None:
    first, second, other = (
        train(name, seed=seed).scores(np.arange(3), np.zeros(3, dtype=np.int64), "forward")
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.usefixtures("pykeen")
@pytest.mark.parametrize("name", METHODS)
def test_training_learns_the_triples(name: str) -> None:
    rates = {"conve": 0.01, "rotate": 0.05, "complex": 0.5}
    trained = train(name, epochs=60, negatives=8, learning_rate=rates[name])
    held = triples()
    scores = trained.scores(held[:, 0], held[:, 1], "forward")[:, :SEEN]
    assert len(trained.losses) == 60
    assert (scores.argmax(dim=1).numpy() == held[:, 2]).mean() > 0.9


@pytest.mark.usefixtures("pykeen")
def test_a_batch_larger_than_the_graph_is_cut() -> None:
    assert len(train("conve", batch_size=10_000).losses) == 2


def test_a_missing_pykeen_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EventformersError, match=r'pip install "eventformers\[baselines\]"'):
        get_baseline("conve")(get_baseline("conve").tasks[0])


@pytest.mark.parametrize(
    ("field", "value"),
    [("dimension", 0), ("epochs", 1.5), ("learning_rate", 0.0), ("label_smoothing", 1.0)],
)
def test_a_setting_out_of_range_is_refused(field: str, value: object) -> None:
    with pytest.raises(EventformersError):
        EmbeddingSettings(**{field: value})  # type: ignore[arg-type]
