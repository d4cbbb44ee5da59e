"""Graph completion by entities: filtered ranks of knowledge graph embeddings under the common protocol.

The protocol ranks texts: candidates are the distinct alternatives of all splits, and the known answers of a
premise are those of its text (`eventformers.inference.search.ranking`). An embedding ranks entities. So this
module maps each query to its entity and relation, and each candidate to its entities.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset

from eventformers.baselines.base import (
    Baseline,
    BaselineTask,
    ReadyBaseline,
    require_library,
    settings_revision,
)
from eventformers.baselines.knowledge_graph_embeddings import (
    METHODS,
    EmbeddingSettings,
    GraphEmbeddings,
    Ids,
    train_embeddings,
)
from eventformers.datasets_scripts.loading import load_built
from eventformers.datasets_scripts.relation_templates import DIRECTIONS
from eventformers.errors import EventformersError, shown
from eventformers.evaluation.tasks.base import JsonValue, MetricInputs, ProtocolOutput
from eventformers.evaluation.tasks.graph import Graph, ranks_output
from eventformers.inference.search.ranking import (
    FilteredRanks,
    RankingQueries,
    filtered_ranks,
    ranking_queries,
)
from eventformers.loading.models import find_device

TRAINING_SPLIT = "train"
_PAIRS = "_pairs"


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
        EventformersError: there is no training split, or it has no rows.
    """
    if TRAINING_SPLIT not in splits or not len(splits[TRAINING_SPLIT]):
        raise EventformersError(
            f"the graph has the splits {', '.join(splits)}; accepted: a split {shown(TRAINING_SPLIT)} with "
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
        queries: the queries; their premises are distinct by text, entity, relation and direction, because two
            of them may have the same text, for example the two directions of a symmetric template.
        entity: the known entity of each premise, (P,).
        relation: the relation of each premise, (P,).
        is_forward: True if the query asks for the tail, (P,).
        candidate: with `member`, the distinct pairs of a candidate and one of its entities, in the order of
            the candidates.
        answer: the entity that is the correct answer of each row, (N,).
    """

    queries: RankingQueries
    entity: Ids
    relation: Ids
    is_forward: npt.NDArray[np.bool_]
    candidate: Ids
    member: Ids
    answer: Ids


def entity_queries(graph: NumberedGraph, pairs: Mapping[str, Dataset], split: str) -> EntityQueries:
    """Map the pairs of a split to entities.

    Args:
        pairs: the pairs of the same triples by split, two rows for each: forward, then reverse.

    Raises:
        EventformersError: the pairs do not belong to the triples.
    """
    texts = {name: (rows["premise"], rows["alternative"]) for name, rows in pairs.items()}
    for name, rows in pairs.items():
        directions = list(rows["direction"])
        if name not in graph.triples or directions != list(DIRECTIONS) * len(graph.triples[name]):
            found = len(graph.triples.get(name, ()))
            raise EventformersError(
                f"the split {shown(name)} has {found:,} triples and {len(rows):,} pairs; accepted: for each "
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


@dataclass(frozen=True)
class GraphBaseline(Baseline):
    """A knowledge graph embedding, trained on a graph's training triples, that ranks a split.

    The parts of a result are the rows whose two entities are in the training split (`both_seen`), those whose
    known entity is not (`unseen_query`), and those whose answer is not (`unseen_answer`).
    """

    kind = Graph

    def prepare(
        self, opened: BaselineTask, *, settings: EmbeddingSettings | None = None, seed: int = 42
    ) -> ReadyBaseline:
        """See `Baseline`; the data need triples and pairs.

        Args:
            settings: training settings; None uses the method's own (`knowledge_graph_embeddings.METHODS`).
            seed: seed of the training. The default is that of MICO's experiments.

        Raises:
            EventformersError: PyKEEN is not installed, the data have no training triples, or the loss became
                infinite.
        """
        require_library("PyKEEN", "knowledge graph embeddings")
        task, method = opened.task, METHODS[self.name]
        triples = load_built(opened.data, task.config.removesuffix(_PAIRS), builder=task.dataset)
        graph = number_graph(triples)
        asked = entity_queries(graph, opened.scored_data.splits, opened.record.split)
        settings, device = settings or method.defaults, find_device(opened.device)
        recorded: dict[str, JsonValue] = {
            "method": self.name,
            **asdict(settings),
            "device": device.type,
            "pykeen": version("pykeen"),
        }
        revision = settings_revision(recorded, str(seed), opened.record.fingerprint)
        opened.check_place(method.model, revision)
        started = time.perf_counter()
        embeddings = train_embeddings(
            self.name,
            graph.triples[TRAINING_SPLIT],
            entities=graph.entities,
            relations=graph.relations,
            settings=settings,
            device=device,
            seed=seed,
            show_progress=opened.show_progress,
        )

        def run() -> ProtocolOutput:
            ranks = rank_by_embeddings(embeddings, asked)
            output = ranks_output(
                ranks,
                asked.queries,
                list(opened.scored_data.rows["direction"]),
                list(opened.scored_data.other_splits),
                distinct_texts=graph.entities,
            )
            # The ranks of the rows by whether training saw their two entities.
            unseen_query = asked.entity[asked.queries.premise] >= graph.seen_entities
            unseen_answer = asked.answer >= graph.seen_entities
            groups = {
                "both_seen": ~unseen_query & ~unseen_answer,
                "unseen_query": unseen_query,
                "unseen_answer": unseen_answer,
            }
            parts: dict[str, MetricInputs] = {
                name: {"predictions": ranks.mean[rows].tolist()}
                for name, rows in groups.items()
                if rows.any()
            }
            details: dict[str, JsonValue] = {f"rows_{name}": int(rows.sum()) for name, rows in groups.items()}
            details |= {
                "entities": graph.entities,
                "unseen_entities": graph.entities - graph.seen_entities,
                "unseen_relations": graph.relations - graph.seen_relations,
                "training_losses": [*embeddings.losses],
            }
            return replace(output, parts=output.parts | parts, details=output.details | details)

        seconds = time.perf_counter() - started
        return ReadyBaseline(method.model, revision, run, recorded, load_seconds=seconds, seed=seed)


def rank_by_embeddings(embeddings: GraphEmbeddings, asked: EntityQueries) -> FilteredRanks:
    """Compute the filtered ranks of a knowledge graph embedding.

    Raises:
        EventformersError: a score is NaN or infinite.
    """
    device = embeddings.model.device
    # Rank of an entity among those of its candidate: the first entities are gathered, the others
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

    return filtered_ranks(score, asked.queries, device=device)


def _split_premises(queries: RankingQueries, asked: Ids) -> tuple[RankingQueries, Ids]:
    """Split premises by text and by the row of numbers in `(N, 3)`; return these numbers, too."""
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
