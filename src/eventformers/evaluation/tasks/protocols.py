"""Evaluation protocols: how the rows of a dataset and the vectors of a model become a metric's inputs.

A protocol takes an `Embed` function and rows, and gives a `ProtocolOutput`. It never sees a model, a file or
a metric, so any function from events and texts to vectors can be scored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import ClassVar, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray

from eventformers.datasets_scripts.events import Event, event_text
from eventformers.datasets_scripts.known_pairs import KnownPairs, pairs_of_texts
from eventformers.errors import EventformersError, shown
from eventformers.inference.commonsense.neighbour_votes import VoteSettings, voted_ranking
from eventformers.inference.encoding.unit_vectors import rounded_cosines, unit_vectors
from eventformers.inference.search.ranking import (
    FilteredRanks,
    RankingQueries,
    rank_by_cosine,
    ranking_queries,
)
from eventformers.strict import StrictSettings, strict_settings

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Row: TypeAlias = Mapping[str, object]
MetricInputs: TypeAlias = Mapping[str, Sequence[object]]
Embed: TypeAlias = Callable[[Sequence[str | Event]], NDArray[np.floating]]
"""Texts and events to vectors, (N, d), in their order. Vectors need not be normalised."""

VOTING_SPLIT = "train"
"""The split whose premises vote where alternatives are re-ranked."""

ENCODER_SETTINGS = ("pooling", "event_order")
"""The settings of every task that decide how its encoder is loaded."""


@strict_settings
@dataclass(frozen=True, kw_only=True)
class TaskSettings(StrictSettings):
    """How a task reads its rows; results record what differs from the defaults.

    Attributes:
        places: the settings that name models and data, whose place on a disk no result records.
        pooling: `cls` or `mean`; overrides the model's own.
        event_order: a key of `EVENT_ORDERS`; overrides the model's own.
    """

    places: ClassVar[tuple[str, ...]] = ()

    pooling: str | None = None
    event_order: str | None = None

    @property
    def chosen(self) -> dict[str, JsonValue]:
        """The settings that are not the default, without those of the encoder."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in ENCODER_SETTINGS and getattr(self, field.name) != field.default
        }

    @property
    def name(self) -> str:
        """What results call the chosen settings; empty for the default ones."""
        told = {name: value for name, value in self.chosen.items() if name not in self.places}
        return "-".join(f"{name}-{value}".lower() for name, value in told.items())

    @property
    def recorded(self) -> dict[str, JsonValue]:
        """All settings as a result records them, without `places` and those of the encoder."""
        left_out = (*ENCODER_SETTINGS, *self.places)
        return {name: value for name, value in vars(self).items() if name not in left_out}


@dataclass(frozen=True)
class ProtocolOutput:
    """What a protocol makes of a dataset.

    Attributes:
        inputs: the metric's keyword arguments.
        predictions: one record per row, in the order of the rows, ready for JSON.
        texts: number of texts in the rows; an event is one.
        distinct_texts: number of texts that were embedded; a repeated text is embedded once.
        parts: more of the metric's keyword arguments by name, such as those of the rows of one direction.
        details: what else a reader of the score must know.
    """

    inputs: MetricInputs
    predictions: list[dict[str, JsonValue]]
    texts: int
    distinct_texts: int
    parts: dict[str, MetricInputs] = field(default_factory=dict)
    details: dict[str, JsonValue] = field(default_factory=dict)


def compare_pairs(embed: Embed, rows: Iterable[Row]) -> ProtocolOutput:
    """Cosines of a similar and a dissimilar pair of events per row.

    A row is right where the similar pair is strictly closer; a tie is wrong (Weber et al. 2018).

    Args:
        embed: events to vectors.
        rows: with the events `similar_a`, `similar_b`, `dissimilar_a`, `dissimilar_b`.

    Returns:
        Inputs `similar` and `dissimilar`; per row both cosines and `correct`.

    Raises:
        EventformersError: no rows, or a vector that has no cosine.
    """
    cosines = _pair_cosines(embed, rows, (("similar_a", "similar_b"), ("dissimilar_a", "dissimilar_b")))
    similar, dissimilar = (column.tolist() for column in cosines.values.T)
    return ProtocolOutput(
        inputs={"similar": similar, "dissimilar": dissimilar},
        predictions=[
            {"similar": near, "dissimilar": far, "correct": near > far}
            for near, far in zip(similar, dissimilar, strict=True)
        ],
        texts=cosines.events,
        distinct_texts=cosines.distinct_events,
    )


def grade_pairs(embed: Embed, rows: Iterable[Row]) -> ProtocolOutput:
    """Cosine of one pair of events per row, beside the human rating of the pair.

    Args:
        embed: events to vectors.
        rows: with the events `event_a`, `event_b` and the number `score`.

    Returns:
        Inputs `predictions` (cosines) and `references` (ratings); per row both.

    Raises:
        EventformersError: no rows, or a vector that has no cosine.
    """
    held = list(rows)
    cosines = _pair_cosines(embed, held, (("event_a", "event_b"),))
    predicted = cosines.values[:, 0].tolist()
    rated = np.asarray([row["score"] for row in held], dtype=np.float64).tolist()
    return ProtocolOutput(
        inputs={"predictions": predicted, "references": rated},
        predictions=[
            {"prediction": cosine, "reference": rating}
            for cosine, rating in zip(predicted, rated, strict=True)
        ],
        texts=cosines.events,
        distinct_texts=cosines.distinct_events,
    )


def choose_alternatives(embed: Embed, rows: Iterable[Row]) -> ProtocolOutput:
    """Cosine of a premise with each of its alternatives: zero-shot multiple choice.

    Args:
        embed: texts to vectors.
        rows: with the texts `premise` and `alternatives` (two or more), and `label`, the index of the right
            one.

    Returns:
        Inputs `predictions` (cosines) and `references` (labels); per row both, and whether the first of the
        nearest alternatives is right.

    Raises:
        EventformersError: no rows, a row without two alternatives or with a label that none has, or a vector
            that has no cosine.
    """
    distinct: dict[str, int] = {}
    premises, alternatives, labels = [], [], []
    for number, row in enumerate(rows):
        texts, label = read_question(row, number)
        premise, *choices = (distinct.setdefault(text, len(distinct)) for text in texts)
        premises.append(premise)
        alternatives.append(choices)
        labels.append(label)
    if not premises:
        raise EventformersError("the dataset has no rows; accepted: at least one")
    vectors = unit_vectors(embed(list(distinct)), list(distinct))
    cosines = [
        rounded_cosines(vectors[choices] @ vectors[premise]).tolist()
        for premise, choices in zip(premises, alternatives, strict=True)
    ]
    return choices_output(cosines, labels, distinct_texts=len(distinct))


def choices_output(
    scores: Sequence[list[float]], labels: Sequence[int], *, distinct_texts: int
) -> ProtocolOutput:
    """What a multiple-choice protocol gives, by any scores.

    Args:
        scores: the scores of each question's alternatives.
        labels: index of the right one.
        distinct_texts: number of texts that the model read.
    """
    return ProtocolOutput(
        inputs={"predictions": scores, "references": labels},
        predictions=[
            {"scores": list(of_row), "label": label, "correct": of_row.index(max(of_row)) == label}
            for of_row, label in zip(scores, labels, strict=True)
        ],
        texts=len(scores) + sum(map(len, scores)),
        distinct_texts=distinct_texts,
    )


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
            directions.append(_text(row, "direction"))
            yield _text(row, "premise"), _text(row, "alternative")

    others = (
        (_text(row, "premise"), _text(row, "alternative")) for split in other_splits.values() for row in split
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
    pairs = [(_text(row, "premise"), _text(row, "alternative")) for row in other_splits[VOTING_SPLIT]]
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


@dataclass(frozen=True)
class _PairCosines:
    """Cosines, (rows, pairs), and how many events they took."""

    values: NDArray[np.float64]
    events: int
    distinct_events: int


def _pair_cosines(embed: Embed, rows: Iterable[Row], pairs: Sequence[tuple[str, str]]) -> _PairCosines:
    """The cosine of every pair of columns in every row; each distinct event is embedded once."""
    position: dict[tuple[str, str, str], int] = {}
    distinct: list[Event] = []
    chosen: list[int] = []
    for row in rows:
        for column in (column for pair in pairs for column in pair):
            event = read_event(row.get(column), row, column)
            key = (event["subject"], event["predicate"], event["object"])
            if key not in position:
                position[key] = len(distinct)
                distinct.append(event)
            chosen.append(position[key])
    if not chosen:
        raise EventformersError("the dataset has no rows; accepted: at least one")
    vectors = unit_vectors(embed(distinct), [event_text(event) for event in distinct])
    ends = np.asarray(chosen).reshape(-1, len(pairs), 2)
    cosines = np.einsum("rpd,rpd->rp", vectors[ends[..., 0]], vectors[ends[..., 1]])
    return _PairCosines(rounded_cosines(cosines), len(chosen), len(distinct))


def read_event(value: object, row: Row, column: str) -> Event:
    """An event in a row.

    Args:
        value: the event.
        row: the row, to tell its columns in an error.
        column: the column that holds it.

    Raises:
        EventformersError: it is no event.
    """
    if not isinstance(value, Mapping) or not {"subject", "predicate", "object"} <= value.keys():
        raise EventformersError(
            f"found columns {', '.join(map(str, row))}; accepted: an event with subject, predicate and "
            f"object in the column {shown(column)}"
        )
    return {"subject": value["subject"], "predicate": value["predicate"], "object": value["object"]}


def _text(row: Row, column: str) -> str:
    """The text in a column of a row."""
    text = row.get(column)
    if not isinstance(text, str):
        raise EventformersError(
            f"found columns {', '.join(map(str, row))}; accepted: a text in the column {shown(column)}"
        )
    return text


def read_question(row: Row, number: int) -> tuple[list[str], int]:
    """The premise before its alternatives, and the index of the right one.

    Args:
        row: with the texts `premise` and `alternatives`, and `label`.
        number: the row's number, for an error.

    Raises:
        EventformersError: it has no two alternatives, or a label that none has.
    """
    premise, alternatives, label = _text(row, "premise"), row.get("alternatives"), row.get("label")
    if not isinstance(alternatives, Sequence) or len(alternatives) < 2:
        raise EventformersError(
            f"row {number} ({shown(premise)}) has the alternatives {shown(alternatives)}; accepted: two or "
            "more"
        )
    if not isinstance(label, int) or not 0 <= label < len(alternatives):
        raise EventformersError(
            f"row {number} ({shown(premise)}) has the label {shown(label)}; accepted: the index of an "
            f"alternative, 0 to {len(alternatives) - 1}"
        )
    return [premise, *cast("Sequence[str]", alternatives)], label
