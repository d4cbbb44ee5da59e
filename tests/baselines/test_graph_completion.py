"""Baselines of graphs: their embeddings, and completion by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict

from eventformers.baselines import BASELINES, EmbeddingSettings, get_baseline
from eventformers.baselines.graph_completion import (
    EntityQueries,
    entity_queries,
    number_graph,
    rank_by_embeddings,
)
from eventformers.baselines.knowledge_graph_embeddings import METHODS, GraphEmbeddings, train_embeddings
from eventformers.datasets_scripts.relation_templates import DIRECTIONS, relation_templates
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.results import read_result

# RelatedTo reads alike in both directions, so premises of two directions have one text.
CONCEPTNET = {
    "train": [
        ("dog", "RelatedTo", "cat"),
        ("cat", "RelatedTo", "dog"),
        ("dog", "IsA", "animal"),
        ("dog", "IsA", "pet"),
        ("mouse", "RelatedTo", "cat"),
    ],
    "validation": [("dog", "RelatedTo", "wolf"), ("cat", "IsA", "pet"), ("wolf", "PartOf", "pack")],
    "test": [("dog", "IsA", "mammal")],
}
# Two heads are one alternative without their first words, and one of them is a tail, too.
ATOMIC = {
    "train": [
        ("John leaves home", "xWant", "to sleep"),
        ("Tom leaves home", "xNeed", "leaves home"),
        ("John runs", "xWant", "to sleep"),
    ],
    "validation": [("John leaves home", "xNeed", "leaves home"), ("Tom runs", "xWant", "to rest")],
}


def datasets_of(graph: str, raw: dict[str, list[tuple[str, str, str]]]) -> tuple[DatasetDict, DatasetDict]:
    templates = relation_templates(graph)
    triples, pairs = DatasetDict(), DatasetDict()
    for name, rows in raw.items():
        triples[name] = Dataset.from_list(
            [dict(zip(("head", "relation", "tail"), row, strict=True)) for row in rows]
        )
        pairs[name] = Dataset.from_list(
            [
                {"premise": premise, "alternative": alternative, "direction": way}
                for row in rows
                for way in DIRECTIONS
                for premise, alternative in [templates.pair(*row, way)]
            ]
        )
    return triples, pairs


@dataclass
class TableOfScores:
    """Stands in for a trained embedding: a fixed random score for every query and entity."""

    entities: int
    relations: int

    def __post_init__(self) -> None:
        generator = np.random.default_rng(5)
        # Few values, so that there are ties.
        self.table = generator.integers(0, 6, (2, self.relations, self.entities, self.entities)) / 8
        self.model = SimpleNamespace(device=torch.device("cpu"), num_entities=self.entities)

    def scores(self, entities: np.ndarray, relations: np.ndarray, direction: str) -> torch.Tensor:
        return torch.from_numpy(self.table[DIRECTIONS.index(direction), relations, entities]).float()


def slow_ranks(graph: str, raw: dict[str, list[tuple[str, str, str]]], table: TableOfScores) -> list[float]:
    """Query by query, over dictionaries of texts."""
    templates = relation_templates(graph)
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    known: dict[str, set[str]] = {}
    members: dict[str, set[str]] = {}
    for head, relation, tail in (row for rows in raw.values() for row in rows):
        relations.setdefault(relation, len(relations))
        for direction, answer in (("forward", tail), ("reverse", head)):
            premise, alternative = templates.pair(head, relation, tail, direction)
            known.setdefault(premise, set()).add(alternative)
            members.setdefault(alternative, set()).add(answer)
    # Heads of a split are numbered before its tails.
    for rows in raw.values():
        for end in (0, 2):
            for row in rows:
                entities.setdefault(row[end], len(entities))
    ranks = []
    for head, relation, tail in raw["validation"]:
        for way, direction in enumerate(DIRECTIONS):
            premise, gold = templates.pair(head, relation, tail, direction)
            scores = table.table[way, relations[relation], entities[head if way == 0 else tail]]
            best = {text: max(scores[entities[one]] for one in ones) for text, ones in members.items()}
            others = [best[text] for text in best if text not in known[premise]]
            above = sum(score > best[gold] for score in others)
            level = sum(score == best[gold] for score in others)
            ranks.append(1 + above + level / 2)
    return ranks


@pytest.mark.parametrize(("graph", "raw"), [("conceptnet", CONCEPTNET), ("atomic", ATOMIC)])
def test_ranks_equal_a_slow_loop(graph: str, raw: dict[str, list[tuple[str, str, str]]]) -> None:
    triples, pairs = datasets_of(graph, raw)
    numbered = number_graph(triples)
    table = TableOfScores(numbered.entities, numbered.relations)
    asked = entity_queries(numbered, pairs, "validation")
    ranks = rank_by_embeddings(table, asked)  # type: ignore[arg-type]
    assert ranks.mean.tolist() == slow_ranks(graph, raw, table)
    assert ranks.tied > 0


def test_one_premise_of_two_directions_is_two_queries() -> None:
    triples, pairs = datasets_of("conceptnet", CONCEPTNET)
    asked = _asked(triples, pairs, "train")
    same = [index for index, text in enumerate(asked.queries.premises) if text == "dog is related to"]
    assert sorted(asked.is_forward[same].tolist()) == [False, True]


def test_a_candidate_stands_for_all_its_entities() -> None:
    triples, pairs = datasets_of("atomic", ATOMIC)
    asked = _asked(triples, pairs, "validation")
    position = asked.queries.alternatives.index("leaves home")
    assert (asked.candidate == position).sum() == 3


def test_training_entities_and_relations_come_first() -> None:
    graph = number_graph(datasets_of("conceptnet", CONCEPTNET)[0])
    assert (graph.seen_entities, graph.entities) == (5, 8)
    assert (graph.seen_relations, graph.relations) == (2, 3)
    assert graph.triples["train"][:, [0, 2]].max() == 4
    assert graph.triples["validation"].shape == (3, 3)


def test_pairs_of_other_triples_are_refused() -> None:
    triples, pairs = datasets_of("conceptnet", CONCEPTNET)
    pairs["train"] = pairs["train"].select(range(9))
    with pytest.raises(EventformersError, match="a forward and a reverse pair"):
        _asked(triples, pairs, "validation")


def test_a_graph_without_training_triples_is_refused() -> None:
    triples, _ = datasets_of("conceptnet", CONCEPTNET)
    del triples["train"]
    with pytest.raises(EventformersError, match="a split 'train'"):
        number_graph(triples)


@pytest.mark.usefixtures("pykeen")
@pytest.mark.parametrize("name", ["conve", "rotate", "complex"])
def test_a_baseline_gives_a_result_like_a_model(name: str, tmp_path: Path) -> None:
    settings = EmbeddingSettings(dimension=16, epochs=1, batch_size=512, negatives=1)
    result = get_baseline(name)(
        "conceptnet_completion", split="validation", settings=settings, device="cpu", output=tmp_path
    )
    assert len(result.predictions) == result.dataset.rows > 0
    assert result.main_value == result.scores["mrr"] > 0
    assert result.details["candidates"] >= result.details["entities"] - 1
    seen = result.details["rows_both_seen"]
    assert 0 <= seen <= result.dataset.rows
    assert {"forward", "reverse", "optimistic"} <= result.parts.keys()
    assert result.baseline is None
    assert "baseline itself" in str(result.baseline_missing)
    (path,) = tmp_path.rglob("conceptnet_completion.json")
    assert read_result(path) == result


@pytest.mark.parametrize(
    "call",
    [
        lambda: get_baseline("rotate")("copa"),
        lambda: get_baseline("masked_lm")("conceptnet_completion", model="none"),
    ],
)
def test_a_task_of_another_kind_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(EventformersError, match="accepted: "):
        call()


def test_an_unknown_baseline_lists_the_known_ones() -> None:
    assert {"masked_lm", "ppmi", "random", "rotate"} <= BASELINES.keys()
    with pytest.raises(UnknownNameError, match="masked_lm"):
        get_baseline("transe")


def _asked(triples: DatasetDict, pairs: DatasetDict, split: str) -> EntityQueries:
    return entity_queries(number_graph(triples), pairs, split)


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
