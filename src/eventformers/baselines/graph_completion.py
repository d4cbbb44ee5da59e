"""Graph completion by entities: the filtered ranks of knowledge graph embeddings under the common protocol.

The protocol ranks texts: candidates are the distinct alternatives of all splits, and the known answers of a
premise are those of its text (`eventformers.inference.ranking`). An embedding knows entities. So each query
is brought back to its entity and relation, and each candidate to the entities that it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from datasets import Dataset

from eventformers.baselines.knowledge_graph_embeddings import GraphEmbeddings, Ids
from eventformers.datasets_scripts.relation_templates import DIRECTIONS
from eventformers.errors import EventformersError
from eventformers.inference.ranking import (
    FilteredRanks,
    RankingQueries,
    Scorer,
    filtered_ranks,
    ranking_queries,
)

TRAINING_SPLIT = "train"


@dataclass(frozen=True)
class NumberedGraph:
    """A graph's triples as numbers.

    Attributes:
        triples: ids of head, relation and tail by split, `(triples, 3)`.
        entities: number of entities; those of the training split come first.
        seen_entities: number of entities in the training split.
        relations: number of relations; those of the training split come first.
        seen_relations: number of relations in the training split.
    """

    triples: dict[str, Ids]
    entities: int
    seen_entities: int
    relations: int
    seen_relations: int


def number_graph(splits: Mapping[str, Dataset]) -> NumberedGraph:
    """Number the entities and relations of a graph: an entity is a text, as head or as tail.

    Args:
        splits: triples by split, with the columns `head`, `relation` and `tail`.

    Raises:
        EventformersError: there is no training split, or it has no row.
    """
    if TRAINING_SPLIT not in splits or not len(splits[TRAINING_SPLIT]):
        raise EventformersError(
            f"the graph has the splits {', '.join(splits)}; accepted: a split {TRAINING_SPLIT!r} with "
            "triples to train on"
        )
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}

    def numbered(split: Dataset) -> Ids:
        columns = [
            [numbers.setdefault(text, len(numbers)) for text in split[name]]
            for name, numbers in (("head", entities), ("relation", relations), ("tail", entities))
        ]
        return np.asarray(columns, dtype=np.int64).T.reshape(-1, 3)

    triples = {TRAINING_SPLIT: numbered(splits[TRAINING_SPLIT])}
    seen_entities, seen_relations = len(entities), len(relations)
    triples |= {name: numbered(split) for name, split in splits.items() if name != TRAINING_SPLIT}
    return NumberedGraph(triples, len(entities), seen_entities, len(relations), seen_relations)


@dataclass(frozen=True)
class EntityQueries:
    """The rows of a split as queries for entities.

    Attributes:
        queries: what is ranked; its premises are distinct by text, entity, relation and direction, because
            two of them may have one text, as the two directions of a symmetric template do.
        entity: the known entity of each premise, (P,).
        relation: the relation of each premise, (P,).
        is_forward: whether the tail is asked for, (P,).
        candidate: with `member` the distinct pairs of a candidate and an entity that it stands for, in the
            order of the candidates.
        member: the entities of these pairs.
        answer: the entity that is the right answer of each row, (N,).
    """

    queries: RankingQueries
    entity: Ids
    relation: Ids
    is_forward: np.ndarray
    candidate: Ids
    member: Ids
    answer: Ids


def entity_queries(graph: NumberedGraph, pairs: Mapping[str, Dataset], split: str) -> EntityQueries:
    """Bring the pairs of a split back to entities.

    Args:
        graph: the numbered triples.
        pairs: the pairs of the same triples by split, two rows for each: forward, then reverse.
        split: the split to rank.

    Raises:
        EventformersError: the pairs are not those of the triples.
    """
    texts = {name: (rows["premise"], rows["alternative"]) for name, rows in pairs.items()}
    for name, rows in pairs.items():
        directions = list(rows["direction"])
        if name not in graph.triples or directions != list(DIRECTIONS) * len(graph.triples[name]):
            found = len(graph.triples.get(name, ()))
            raise EventformersError(
                f"the split {name!r} has {found:,} triples and {len(rows):,} pairs; accepted: for each "
                "triple a forward and a reverse pair, built from the same files"
            )
    queries = ranking_queries(
        zip(*texts[split], strict=True),
        (pair for name in pairs if name != split for pair in zip(*texts[name], strict=True)),
    )
    position = {text: index for index, text in enumerate(queries.alternatives)}
    candidates = np.concatenate([[position[text] for text in texts[name][1]] for name in pairs])
    # Forward asks for the tail, reverse for the head.
    answers = np.concatenate([graph.triples[name][:, [2, 0]].reshape(-1) for name in pairs])
    members = np.unique(np.stack([candidates, answers], axis=1), axis=0)
    triples = graph.triples[split]
    asked = np.stack(
        [
            triples[:, [0, 2]].reshape(-1),
            np.repeat(triples[:, 1], 2),
            np.tile([1, 0], len(triples)),
        ],
        axis=1,
    )
    by_entity, keys = _split_premises(queries, asked)
    return EntityQueries(
        queries=by_entity,
        entity=keys[:, 0],
        relation=keys[:, 1],
        is_forward=keys[:, 2] == 1,
        candidate=members[:, 0],
        member=members[:, 1],
        answer=triples[:, [2, 0]].reshape(-1),
    )


def rank_by_embeddings(embeddings: GraphEmbeddings, asked: EntityQueries) -> FilteredRanks:
    """Filtered ranks by a knowledge graph embedding.

    Args:
        embeddings: the trained embedding.
        asked: the queries.

    Raises:
        EventformersError: a score is NaN or infinite.
    """
    device = embeddings.model.device
    return filtered_ranks(_scorer(embeddings, asked), asked.queries, device=device)


def _scorer(embeddings: GraphEmbeddings, asked: EntityQueries) -> Scorer:
    device = embeddings.model.device
    # How many entities of its candidate stand before an entity: the first ones are gathered, the others
    # compared with them round by round.
    order = np.arange(len(asked.candidate)) - np.searchsorted(asked.candidate, asked.candidate)
    rounds = [
        tuple(torch.from_numpy(part[order == number]).to(device) for part in (asked.candidate, asked.member))
        for number in range(int(order.max()) + 1)
    ]

    def score(rows: torch.Tensor) -> torch.Tensor:
        premises = rows.cpu().numpy()
        entities = torch.empty(
            (len(premises), embeddings.model.num_entities), dtype=torch.float32, device=device
        )
        for direction in DIRECTIONS:
            chosen = np.flatnonzero(asked.is_forward[premises] == (direction == "forward"))
            of_direction = premises[chosen]
            entities[torch.from_numpy(chosen).to(device)] = embeddings.scores(
                asked.entity[of_direction], asked.relation[of_direction], direction
            )
        best = entities[:, rounds[0][1]]
        for candidate, member in rounds[1:]:
            best[:, candidate] = torch.maximum(best[:, candidate], entities[:, member])
        return best

    return score


def _split_premises(queries: RankingQueries, asked: Ids) -> tuple[RankingQueries, Ids]:
    """One premise for each text and each row of numbers that asks it, `(N, 3)`; with these numbers."""
    keys, premise = np.unique(
        np.concatenate([queries.premise[:, None], asked], axis=1), axis=0, return_inverse=True
    )
    of_text = keys[:, 0]
    starts = np.searchsorted(queries.known_premise, of_text)
    counts = np.searchsorted(queries.known_premise, of_text, side="right") - starts
    taken = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    split = RankingQueries(
        premises=[queries.premises[text] for text in of_text],
        alternatives=queries.alternatives,
        premise=premise.reshape(-1),
        gold=queries.gold,
        known_premise=np.repeat(np.arange(len(keys)), counts),
        known_alternative=queries.known_alternative[taken],
    )
    return split, keys[:, 1:]
