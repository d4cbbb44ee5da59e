"""Tasks that rank the alternatives of premises in commonsense graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from eventformers.datasets_scripts.known_pairs import KnownPairs, pairs_of_texts
from eventformers.errors import EventformersError, shown
from eventformers.evaluation.tasks.base import Computing, Prepared, Task, TaskKind, TaskRows
from eventformers.evaluation.tasks.protocols import (
    Embed,
    MetricInputs,
    ProtocolOutput,
    Row,
    TaskSettings,
    read_text,
)
from eventformers.inference.commonsense.neighbour_votes import VoteSettings, vote_settings, voted_ranking
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.unit_vectors import unit_vectors
from eventformers.inference.search.ranking import (
    FilteredRanks,
    RankingQueries,
    rank_by_cosine,
    ranking_queries,
)
from eventformers.strict import strict_settings

if TYPE_CHECKING:
    from eventformers.evaluation.session import Session

MICO_LENGTH = 64
"""Tokens of a premise or an alternative at most, as MICO's evaluation has it."""


VOTING_SPLIT = "train"
"""The split whose premises vote where alternatives are re-ranked."""


@strict_settings
@dataclass(frozen=True)
class GraphSettings(TaskSettings):
    """How alternatives are ranked.

    Attributes:
        rerank: let the nearest premises of the training split vote; their settings, or True for the defaults.
            The untrained encoder is re-ranked alike.
    """

    places: ClassVar[tuple[str, ...]] = ("rerank",)

    rerank: bool | VoteSettings = False

    @property
    def name(self) -> str:
        """What results call the votes."""
        votes = vote_settings(self.rerank)
        return "" if votes is None else votes.name


@dataclass(frozen=True)
class GraphModel:
    """What is asked for ranks.

    Attributes:
        embed: texts to vectors.
        device: where the ranks are computed; None takes an accelerator where there is one.
    """

    embed: Embed
    device: torch.device | None


@dataclass(frozen=True)
class Graph(TaskKind[GraphModel]):
    """Ranks alternatives among those of all splits."""

    Settings = GraphSettings
    refusal = "has nothing to re-rank; accepted with rerank"
    reads_all_splits = True

    uses: tuple[str, ...] = ("rerank",)
    settings: GraphSettings = field(default_factory=GraphSettings)

    def prepare(self, model: EventEncoder, session: Session, computing: Computing) -> Prepared[GraphModel]:
        """As of `TaskKind`."""
        embed = partial(model.encode, batch_size=computing.batch_size)
        return Prepared(self.of_vectors(embed, model.model.device))

    def of_vectors(self, embed: Embed, device: torch.device | None = None) -> GraphModel:
        """As of `TaskKind`."""
        return GraphModel(embed, device)

    def run(self, asked: GraphModel, data: TaskRows) -> ProtocolOutput:
        """As of `TaskKind`."""
        votes = vote_settings(self.settings.rerank)
        return self.protocol(asked.embed, data.rows, data.other_splits, asked.device, rerank=votes)


def rank_alternatives(
    embed: Embed,
    rows: Iterable[Row],
    other_splits: Mapping[str, Iterable[Row]],
    device: torch.device | None = None,
    *,
    rerank: VoteSettings | None = None,
) -> ProtocolOutput:
    """Filtered rank of each row's alternative among all alternatives of the graph (Su et al. 2022).

    Candidates are the distinct alternatives of all splits. Other ones that any split has for the same premise
    are left out. Ties get their mean rank.

    Args:
        embed: texts to vectors.
        rows: the rows to rank, with the texts `premise`, `alternative` and `direction`.
        other_splits: the rows of the dataset's other splits by name, with `premise` and `alternative`.
        device: where the cosines are computed; None takes an accelerator where there is one.
        rerank: let the premises of the training split vote; None ranks by the cosine alone.

    Returns:
        Input `predictions` (ranks); per row its rank, and the ends of its tie where it has one. Parts for
        each direction and for the optimistic and pessimistic ranks. Details: the number of candidates and of
        premises, known alternatives left out, tied rows, and the settings of the votes.

    Raises:
        EventformersError: no rows, a column is missing, a vector has no cosine, or votes are asked for and
            there is no training split beside the scored one.
    """
    directions: list[str] = []

    def scored() -> Iterator[tuple[str, str]]:
        for row in rows:
            directions.append(read_text(row, "direction"))
            yield read_text(row, "premise"), read_text(row, "alternative")

    others = (
        (read_text(row, "premise"), read_text(row, "alternative"))
        for split in other_splits.values()
        for row in split
    )
    queries = ranking_queries(scored(), others)
    voters = None if rerank is None else _voters(other_splits)
    # One call, so that a text on both sides is embedded once and every cut is counted; alternatives first, so
    # that the vectors of the many need no copy.
    texts = [*queries.alternatives, *queries.premises, *(voters.premises if voters else ())]
    distinct = list(dict.fromkeys(texts))
    vectors = np.asarray(embed(distinct))
    position = {text: index for index, text in enumerate(distinct)}
    alternatives = vectors[: len(queries.alternatives)]
    premises = vectors[[position[text] for text in queries.premises]]
    add_votes = None
    if rerank is not None and voters is not None:
        candidate = {text: index for index, text in enumerate(queries.alternatives)}
        columns = np.asarray([candidate[text] for text in voters.alternatives])
        voted = voted_ranking(
            _unit_float32(premises, queries.premises),
            _unit_float32(vectors[[position[text] for text in voters.premises]], voters.premises),
            voters.offsets,
            columns[voters.positions],
            _unit_float32(alternatives, queries.alternatives),
            rerank,
        )
        premises, add_votes = voted.premises, voted.rerank
    ranks = rank_by_cosine(premises, alternatives, queries, device=device, rerank=add_votes)
    output = ranks_output(ranks, queries, directions, list(other_splits), distinct_texts=len(distinct))
    if rerank is not None:
        output.details["rerank"] = {"votes_of": VOTING_SPLIT, **asdict(rerank)}
    return output


def _voters(other_splits: Mapping[str, Iterable[Row]]) -> KnownPairs:
    """The pairs whose premises vote: those of the training split alone."""
    if VOTING_SPLIT not in other_splits:
        raise EventformersError(
            f"re-ranking takes its votes from the split {shown(VOTING_SPLIT)}; found beside the scored one: "
            f"{', '.join(other_splits) or 'none'}; accepted: another scored split of data that has it"
        )
    pairs = [(read_text(row, "premise"), read_text(row, "alternative")) for row in other_splits[VOTING_SPLIT]]
    return pairs_of_texts((premise for premise, _ in pairs), (alternative for _, alternative in pairs))


def _unit_float32(vectors: NDArray[np.floating], texts: Sequence[str]) -> NDArray[np.float32]:
    return unit_vectors(vectors, texts).astype(np.float32)


def ranks_output(
    ranks: FilteredRanks,
    queries: RankingQueries,
    directions: Sequence[str],
    other_splits: Sequence[str],
    *,
    distinct_texts: int,
) -> ProtocolOutput:
    """What a protocol of filtered ranks gives, by any scores.

    Args:
        ranks: the ranks of the rows.
        queries: what was ranked.
        directions: the direction of each row.
        other_splits: the names of the splits, beside the scored one, that the candidates come from.
        distinct_texts: number of texts that the model read.
    """
    mean, best, worst = (values.tolist() for values in (ranks.mean, ranks.optimistic, ranks.pessimistic))
    parts: dict[str, MetricInputs] = {
        direction: {
            "predictions": [rank for rank, other in zip(mean, directions, strict=True) if other == direction]
        }
        for direction in sorted(set(directions))
    }
    parts |= {"optimistic": {"predictions": best}, "pessimistic": {"predictions": worst}}
    return ProtocolOutput(
        inputs={"predictions": mean},
        predictions=[
            {"rank": low} if low == high else {"rank": rank, "from": low, "to": high}
            for rank, low, high in zip(mean, best, worst, strict=True)
        ],
        texts=len(directions) + len(queries.alternatives),
        distinct_texts=distinct_texts,
        parts=parts,
        details={
            "candidates": len(queries.alternatives),
            "candidates_from": ", ".join(["the scored split", *other_splits]),
            "premises": len(queries.premises),
            "known_alternatives_left_out": int(queries.removed.sum()),
            "tied_rows": ranks.tied,
        },
    )


def _task(graph: str, title: str, description: str, published_rows: int, published: dict[str, float]) -> Task:
    return Task(
        name=f"{graph}_completion",
        title=title,
        dataset="commonsense_graphs",
        config=f"{graph}_inductive_pairs",
        other_configs=(f"{graph}_pairs",),
        splits=("test", "validation"),
        kind=Graph(rank_alternatives),
        metric="ranking",
        main_score="mrr",
        description=description,
        paper_reference="Wang et al., IJCNN 2021",
        published_rows=published_rows,
        published_scores={f"{model}, test (Su et al. 2022)": score for model, score in published.items()},
        max_length=MICO_LENGTH,
    )


GRAPH_TASKS: tuple[Task, ...] = (
    _task(
        "conceptnet",
        "ConceptNet completion (inductive)",
        "Mean reciprocal rank, in percent, of the right alternative of a premise among all alternatives of "
        "the graph, other known ones left out, over both directions.",
        19_592,
        {
            "ConvE": 0.21,
            "RotatE": 0.32,
            "Malaviya et al. 2020": 12.29,
            "InductivE": 18.15,
            "MICO, BERT-base": 9.00,
            "MICO, RoBERTa-base": 9.08,
            "MICO, RoBERTa-large": 10.92,
        },
    ),
    _task(
        "atomic",
        "ATOMIC completion (inductive)",
        "The question of conceptnet_completion on ATOMIC, whose alternatives are what an event leads to, and "
        "events without their subject.",
        48_972,
        {
            "ConvE": 0.08,
            "RotatE": 0.10,
            "Malaviya et al. 2020": 0.02,
            "InductivE": 2.51,
            "MICO, BERT-base": 7.07,
            "MICO, RoBERTa-base": 7.52,
            "MICO, RoBERTa-large": 8.13,
        },
    ),
)
"""Filtered ranks of alternatives in a graph."""
