"""Tasks that rank the alternatives of premises in commonsense graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from eventformers.datasets_scripts.known_pairs import KnownPairs, pairs_of_texts
from eventformers.errors import EventformersError, shown
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks.base import (
    Computing,
    Embed,
    MetricInputs,
    Prepared,
    ProtocolOutput,
    Row,
    TaskKind,
    TaskRows,
    TaskSettings,
    choices_output,
    read_text,
)
from eventformers.inference.commonsense.alternative_index import VOTES, voted_ranking
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import return_memory, rounded_cosines, unit_vectors
from eventformers.inference.search.ranking import (
    FilteredRanks,
    RankingQueries,
    rank_by_cosine,
    ranking_queries,
)
from eventformers.strict import strict_settings

VOTING_SPLIT = "train"
"""The split whose premises vote in re-ranking."""


@strict_settings
@dataclass(frozen=True)
class GraphSettings(TaskSettings):
    """The settings of graph tasks.

    Attributes:
        rerank: re-rank by votes of the nearest premises of the training split. This also re-ranks the
            untrained encoder.
    """

    places: ClassVar[tuple[str, ...]] = ("rerank",)

    rerank: bool = False

    @property
    def name(self) -> str:
        """The name of the votes in results."""
        return "reranked" if self.rerank else ""


@dataclass(frozen=True)
class PremiseModel:
    """The scorer of premises and their alternatives, with the device that computes ranks, None for the usual
    one, and the prompts before premises (`query`) and alternatives (`document`)."""

    embed: Embed
    device: torch.device | None = None
    prompt: Callable[[str], str] = lambda kind: ""


@dataclass(frozen=True)
class Premises(TaskKind):
    """Kind of task that compares premises with alternatives."""

    def prepare(self, model: EventEncoder, session: Session, computing: Computing) -> Prepared:
        """See `TaskKind`."""
        embed = partial(model.encode, batch_size=computing.batch_size, prompt_name=None)
        return Prepared(PremiseModel(embed, model.model.device, model.prompt))


@dataclass(frozen=True)
class Graph(Premises):
    """Kind of task that ranks alternatives among those of all splits."""

    Settings = GraphSettings
    refusal = "does not rank alternatives; tasks that do"
    reads_all_splits = True

    uses: tuple[str, ...] = ("rerank",)
    settings: GraphSettings = field(default_factory=GraphSettings)


def rank_alternatives(model: PremiseModel, data: TaskRows, settings: GraphSettings) -> ProtocolOutput:
    """Compute the filtered rank of each row's alternative among all of the graph (Su et al. 2022).

    Candidates are the distinct alternatives of all splits. Other alternatives that any split has for the same
    premise are removed. Ties get their mean rank.

    Args:
        data: the rows to rank, with the texts `premise`, `alternative` and `direction`, and those of the
            dataset's other splits, with `premise` and `alternative`.

    Returns:
        Input `predictions` (ranks); per row its rank, and the bounds of its tie if it has one. Parts for each
        direction and for the optimistic and pessimistic ranks. Details: the numbers of candidates, premises,
        removed known alternatives and tied rows, and the settings of the votes.
    """
    directions: list[str] = []

    def scored() -> Iterator[tuple[str, str]]:
        for row in data.rows:
            directions.append(read_text(row, "direction"))
            yield read_text(row, "premise"), read_text(row, "alternative")

    others = (
        (read_text(row, "premise"), read_text(row, "alternative"))
        for split in data.other_splits.values()
        for row in split
    )
    queries = ranking_queries(scored(), others)
    voters: KnownPairs | None = None
    if settings.rerank:
        if VOTING_SPLIT not in data.other_splits:
            raise EventformersError(
                f"re-ranking needs the votes of the split {shown(VOTING_SPLIT)}; found beside the scored "
                f"split: {', '.join(data.other_splits) or 'none'}; accepted: data with this split, and "
                "another split to score"
            )
        known = list(data.other_splits[VOTING_SPLIT])
        voters = pairs_of_texts(
            *([read_text(row, name) for row in known] for name in ("premise", "alternative"))
        )
    # One call, so that a text on both sides is embedded once and every truncation is counted; alternatives
    # first, so that their many vectors need no copy.
    asks, answers = model.prompt("query"), model.prompt("document")
    texts = [
        *(answers + text for text in queries.alternatives),
        *(asks + text for text in (*queries.premises, *(voters.premises if voters else ()))),
    ]
    distinct = list(dict.fromkeys(texts))
    vectors = np.asarray(model.embed(distinct))
    # Encoding leaves many small free blocks; ranking needs large ones.
    return_memory()
    position = {text: index for index, text in enumerate(distinct)}
    alternatives = vectors[: len(queries.alternatives)]
    premises = vectors[[position[asks + text] for text in queries.premises]]
    add_votes = None
    if voters is not None:
        candidate = {text: index for index, text in enumerate(queries.alternatives)}
        columns = np.asarray([candidate[text] for text in voters.alternatives])
        premises, add_votes = voted_ranking(
            _unit_float32(premises, queries.premises),
            _unit_float32(vectors[[position[asks + text] for text in voters.premises]], voters.premises),
            voters.offsets,
            columns[voters.positions],
            _unit_float32(alternatives, queries.alternatives),
            VOTES,
        )
    ranks = rank_by_cosine(premises, alternatives, queries, device=model.device, rerank=add_votes)
    output = ranks_output(ranks, queries, directions, list(data.other_splits), distinct_texts=len(distinct))
    if settings.rerank:
        output.details["rerank"] = {"votes_of": VOTING_SPLIT, **VOTES._asdict()}
    return output


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
    """Make the output of a protocol from filtered ranks, the names of the other splits that candidates come
    from, and the number of texts that the model read."""
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


@dataclass(frozen=True)
class Questions(Premises):
    """Kind of task that compares premises with their few alternatives."""

    Settings = TaskSettings
    refusal = "does not ask questions; tasks that do"


def choose_alternatives(model: PremiseModel, data: TaskRows, settings: TaskSettings) -> ProtocolOutput:
    """Compute the cosine of a premise with each of its alternatives: zero-shot multiple choice.

    Args:
        data: rows as for `read_question`.

    Returns:
        Inputs `predictions` (cosines) and `references` (labels); per row both, and whether the first of the
        nearest alternatives is correct.
    """
    questions = [read_question(row, number) for number, row in enumerate(data.rows)]
    asks, answers = model.prompt("query"), model.prompt("document")
    questions = [
        ([asks + premise, *(answers + text for text in choices)], label)
        for (premise, *choices), label in questions
    ]
    distinct = list(dict.fromkeys(text for texts, _ in questions for text in texts))
    vectors = unit_vectors(model.embed(distinct), distinct)
    place = {text: number for number, text in enumerate(distinct)}
    cosines = [
        rounded_cosines(vectors[[place[text] for text in choices]] @ vectors[place[premise]]).tolist()
        for (premise, *choices), _ in questions
    ]
    return choices_output(cosines, [label for _, label in questions], distinct_texts=len(distinct))


def read_question(row: Row, number: int) -> tuple[list[str], int]:
    """Read the `premise` and its `alternatives`, two or more texts, and `label`, the index of the correct
    one."""
    premise, alternatives, label = read_text(row, "premise"), row.get("alternatives"), row.get("label")
    if not isinstance(alternatives, Sequence) or len(alternatives) < 2:
        raise EventformersError(
            f"row {number} ({shown(premise)}) has the alternatives {shown(alternatives)}; accepted: at least "
            "two"
        )
    if not isinstance(label, int) or not 0 <= label < len(alternatives):
        raise EventformersError(
            f"row {number} ({shown(premise)}) has the label {shown(label)}; accepted: the index of an "
            f"alternative, 0 to {len(alternatives) - 1}"
        )
    return [premise, *cast("Sequence[str]", alternatives)], label
