"""Tasks that ground mentions in a knowledge base of events with a hierarchy."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from typing import ClassVar, Literal, Self, cast

import numpy as np
from scipy.special import expit

from eventformers.errors import EventformersError, shown
from eventformers.evaluate_metrics.hierarchy_recall.hierarchy_recall_impl import RECALL_AT
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks.base import (
    Computing,
    JsonValue,
    MetricInputs,
    Prepared,
    ProtocolOutput,
    Row,
    TaskKind,
    TaskRows,
    TaskSettings,
    read_text,
    threshold_rows,
)
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.event_inputs import digest_of
from eventformers.inference.encoding.vectors import Positions
from eventformers.inference.grounding.encoding import BatchSize, CrossEncoder, EncodedTexts, Side
from eventformers.inference.grounding.hierarchy_discovery import DEPTH, discover_hierarchy
from eventformers.inference.grounding.linking import ChosenThreshold, choose_threshold, link, link_best
from eventformers.inference.grounding.retrieve_rerank import (
    CANDIDATES,
    GroundingModel,
    check_retriever_weight,
    grounding_model,
    retrieve,
    retrieve_and_rerank,
)
from eventformers.inference.search.candidate_index import Candidates, PooledIndex
from eventformers.models.processing_event_grounding import EventText, MentionText
from eventformers.strict import count, setting, strict_settings

PAIRS_AT_ONCE = 16_384
"""Number of pairs of a mention and a candidate that are scored in one call."""

DEVELOPMENT_SPLIT = "validation"
"""The split that the threshold is chosen on."""

DataTask = Literal["multilingual", "crosslingual"]
Domain = Literal["wikipedia", "wikinews"]

SETTINGS_OF_DATA = ("task", "domain", "hierarchies_only")
"""The settings that choose mentions and events; they are passed to the builder."""


@strict_settings
@dataclass(frozen=True)
class GroundingSettings(TaskSettings):
    """The settings of grounding tasks.

    Attributes:
        task: `multilingual`, with the text of an event in the language of the mention, or `crosslingual`,
            with English text. Like `domain`, a setting of the builder for raw files.
        domain: the mentions of `wikipedia` or of `wikinews`.
        hierarchies_only: skip mentions of events without any parent or child, as in the paper. Also a setting
            of the builder.
        reranker: folder or Hub id of a cross-encoder that re-ranks candidates, for linking; None keeps the
            retrieval scores.
        retriever_weight: weight of the retrieval score, which is added to the score of the re-ranker.
        candidates: number of first candidates of a mention to re-rank and link, for linking.
        threshold: minimum probability of a linked candidate; None takes the best of `THRESHOLDS` on the
            validation split.
        depth: number of first candidates of a mention that count as linked to it, for parents.
    """

    places: ClassVar[tuple[str, ...]] = ("reranker",)

    task: DataTask = "multilingual"
    domain: Domain = "wikipedia"
    hierarchies_only: bool = False
    reranker: str | None = setting(None, bool, "a folder or a Hub id")
    retriever_weight: float = setting(0.0, lambda weight: 0 <= weight < math.inf, "a number from 0")
    candidates: int = count(CANDIDATES)
    threshold: float | None = setting(None, lambda share: 0 < share < 1, "a number between 0 and 1")
    depth: int = count(DEPTH)

    @property
    def recorded(self) -> dict[str, JsonValue]:
        """The settings as in `TaskSettings`, without a re-ranker."""
        return {**super().recorded, "reranker": None}

    @property
    def of_data(self) -> dict[str, JsonValue]:
        """The settings of the builder that differ from its defaults."""
        return {name: value for name, value in self.chosen.items() if name in SETTINGS_OF_DATA}


def retrieve_events(model: GroundingModel, data: TaskRows, settings: GroundingSettings) -> ProtocolOutput:
    """Retrieve the first candidates of each mention (Ou et al., 2023, section 6.1).

    Returns:
        Inputs `predictions` (candidates, best first) and `references` (gold events, the atomic one first);
        per mention both with its id and language, and whether its gold events are its first candidates
        (`correct`, and for events with a parent `with_parents_correct`). Parts by language, and
        `with_parents`, the mentions of events with a parent. Details: the numbers of mentions, of events in
        each pool, of gold events outside their mention's pool, of mentions without a gold event in their pool
        or without a pool, and of truncated texts.
    """
    knowledge = _Knowledge(model, data.companions.get("events", ()))
    mentions = _Mentions(data.rows, knowledge)
    number = max(*RECALL_AT, *map(len, mentions.gold))
    candidates = knowledge.search(mentions, number)
    inputs = {"predictions": candidates.ids(knowledge.ids), "references": mentions.gold}
    correct = [set(gold) <= set(found[: len(gold)]) for found, gold in zip(*inputs.values(), strict=True)]
    return ProtocolOutput(
        inputs=inputs,
        predictions=[
            {
                **told,
                "candidates": cast("list[JsonValue]", found[: RECALL_AT[-1]]),
                "correct": is_correct,
                "with_parents_correct": [is_correct] if len(gold) > 1 else [],
            }
            for told, found, gold, is_correct in zip(mentions.told, *inputs.values(), correct, strict=True)
        ],
        texts=len(mentions.texts) + len(knowledge.texts),
        distinct_texts=len(set(mentions.texts)) + len(set(knowledge.texts)),
        parts=_parts(inputs, mentions),
        details=knowledge.details(mentions, candidates),
    )


def link_events(model: GroundingModel, data: TaskRows, settings: GroundingSettings) -> ProtocolOutput:
    """Link each mention to events (Ou et al., 2023, section 6.1 and appendix C.2).

    The first candidates, re-ranked if there is a re-ranker, are linked if their probability reaches the
    threshold. A mention without such a candidate is linked to nothing. If the scored split is the development
    split, the threshold is chosen on the scored mentions, and the details say so.

    Returns:
        Inputs `predictions` (linked events) and `references` (gold events); per mention both with its id,
        language, candidates and their probabilities, and whether it is linked to exactly its gold events, by
        the threshold (`correct`) and for `top_min` (`top_min_correct`). Parts by language and `with_parents`,
        as for `retrieve_events`, and `top_min`, overall and by these parts: as many of the best candidates as
        the mention has gold events. Details: as for `retrieve_events`; the threshold, the split it was chosen
        on and the product of scores of each threshold there; and the percentage of mentions all of whose gold
        events are candidates, an upper bound of strict accuracy.
    """
    knowledge = _Knowledge(model, data.companions.get("events", ()))
    mentions = _Mentions(data.rows, knowledge)
    held: _Mentions | None = None
    chosen_on = "given"
    if settings.threshold is None:
        chosen_on, development = threshold_rows(data, DEVELOPMENT_SPLIT)
        held = mentions if development is None else _Mentions(development, knowledge)
    found = knowledge.scored(mentions, settings)
    chosen: ChosenThreshold | None = None
    if held is not None:
        of_held = found if held is mentions else knowledge.scored(held, settings)
        chosen = choose_threshold(of_held, knowledge.ids, held.gold)
    threshold = cast(float, settings.threshold) if chosen is None else chosen.threshold
    candidates = found.ids(knowledge.ids)
    inputs = {"predictions": link(found, knowledge.ids, threshold), "references": mentions.gold}
    best = {**inputs, "predictions": link_best(found, knowledge.ids, [*map(len, mentions.gold)])}
    reached = [set(gold) <= set(of_one) for gold, of_one in zip(mentions.gold, candidates, strict=True)]
    details = knowledge.details(mentions, found) | {
        "threshold": threshold,
        "threshold_chosen_on": chosen_on,
        "mentions_with_all_gold_events_among_candidates": 100 * sum(reached) / len(reached),
    }
    if chosen is not None:
        details["products"] = {str(one): product for one, product in chosen.products.items()}
    probabilities = np.round(expit(found.scores.astype(np.float64)), 6).tolist()
    return ProtocolOutput(
        inputs=inputs,
        predictions=[
            {
                **told,
                "linked": cast("list[JsonValue]", linked),
                "correct": set(linked) == set(gold),
                "top_min_correct": set(first) == set(gold),
                "candidates": cast("list[JsonValue]", of_one),
                "probabilities": chances[: len(of_one)],
            }
            for told, linked, first, gold, of_one, chances in zip(
                mentions.told,
                inputs["predictions"],
                best["predictions"],
                mentions.gold,
                candidates,
                probabilities,
                strict=True,
            )
        ],
        texts=len(mentions.texts) + len(knowledge.texts),
        distinct_texts=len(set(mentions.texts)) + len(set(knowledge.texts)),
        parts={
            **_parts(inputs, mentions),
            "top_min": best,
            **{f"top_min, {name}": part for name, part in _parts(best, mentions).items()},
        },
        details=details,
    )


def discover_parents(model: GroundingModel, data: TaskRows, settings: GroundingSettings) -> ProtocolOutput:
    """Rank each event's gold parent by the mentions that both share (Ou et al., 2023, section 6.1).

    The candidates are all other events of the knowledge base. A child is an event with a parent in the scored
    split; one that is among no mention's first candidates is a miss at every depth.

    Returns:
        Input `predictions` (ranks); per child its rank, its pessimistic rank if that differs, its gold
        parents, the event that ranks first, and whether a parent does. Parts: `pessimistic`; `mentioned`, the
        children that are gold events of a scored mention; and for each language, the children of its
        mentions, ranked by these mentions alone. Details: as for `retrieve_events`; the numbers of children,
        and of children that no mention is linked to, that tie, or whose parents are not in the knowledge
        base.
    """
    knowledge = _Knowledge(model, data.companions.get("events", ()))
    mentions = _Mentions(data.rows, knowledge)
    parents: defaultdict[str, list[str]] = defaultdict(list)
    for edge in data.companions.get("hierarchy", ()):
        parents[read_text(edge, "child_id")].append(read_text(edge, "parent_id"))
    if not parents:
        raise EventformersError(
            "found no edge from a child to its parent in the scored split; accepted: at least one"
        )
    candidates = knowledge.search(mentions, settings.depth)
    hierarchy = discover_hierarchy(knowledge.ids, candidates.events)
    found = hierarchy.ranks(parents)
    # The best parent of a child comes first, so it is kept when the pairs are read backwards.
    pairs = np.stack(hierarchy.parents()[:2], axis=1)[::-1].tolist()
    first = {knowledge.ids[child]: knowledge.ids[parent] for child, parent in pairs}
    parts: dict[str, MetricInputs] = {"pessimistic": {"predictions": found.pessimistic.tolist()}}
    languages = np.asarray(mentions.languages)
    for name in ("mentioned", *sorted(set(mentions.languages))):
        rows = np.arange(len(languages)) if name == "mentioned" else np.flatnonzero(languages == name)
        gold = {event for row in rows for event in mentions.gold[row]}
        if children := {child: parents[child] for child in parents if child in gold}:
            of_part = discover_hierarchy(knowledge.ids, candidates.events[rows]).ranks(children)
            parts[name] = {"predictions": of_part.ranks.tolist()}
    return ProtocolOutput(
        inputs={"predictions": found.ranks.tolist()},
        predictions=[
            {
                "event_id": child,
                "parents": list(gold),
                # JSON has no infinity.
                "rank": rank if np.isfinite(rank) else None,
                "correct": rank <= 1,
                "first": first.get(child),
                **({"pessimistic_rank": worst} if worst != rank else {}),
            }
            for (child, gold), rank, worst in zip(
                parents.items(), found.ranks.tolist(), found.pessimistic.tolist(), strict=True
            )
        ],
        texts=len(mentions.texts) + len(knowledge.texts),
        distinct_texts=len(set(mentions.texts)) + len(set(knowledge.texts)),
        parts=parts,
        details={
            **knowledge.details(mentions, candidates),
            "children": len(parents),
            "children_unlinked": found.unlinked,
            "children_without_known_parent": found.unknown_parents,
            "children_tied": found.tied,
            "children_mentioned": len(parts.get("mentioned", {}).get("predictions", ())),
        },
    )


class _Knowledge:
    """The events, in one pool or one pool per language, and their index."""

    def __init__(self, model: GroundingModel, rows: Iterable[Row]) -> None:
        held = list(rows)
        self.model = model
        self.texts = [EventText(read_text(row, "title"), str(row.get("description") or "")) for row in held]
        self._row_ids = [read_text(row, "event_id") for row in held]
        self._languages = [read_text(row, "language") for row in held]
        self.in_one_pool = len(set(self._languages)) == 1
        self._place = {
            (self._pool(language), event): place
            for place, (language, event) in enumerate(zip(self._languages, self._row_ids, strict=True))
        }

    @cached_property
    def _index(self) -> PooledIndex:
        # Lazy, so that errors in the mentions are reported before the events are encoded.
        return self.model.index(self._row_ids, self.texts, None if self.in_one_pool else self._languages)

    @property
    def ids(self) -> list[str]:
        """The distinct events."""
        return self._index.event_ids

    def _pool(self, language: str) -> str:
        return "" if self.in_one_pool else language

    def has(self, event: str, language: str) -> bool:
        """Return whether an event is a candidate for mentions in a language."""
        return (self._pool(language), event) in self._place

    def place(self, event: int, language: str) -> int:
        """Return the place in `texts` of a candidate, given its position in `ids`."""
        return self._place[self._pool(language), self.ids[event]]

    def search(self, mentions: _Mentions, number: int) -> Candidates:
        """Find the first candidates of mentions."""
        return retrieve(self.model, self._index, mentions.texts, mentions.languages, number)

    def scored(self, mentions: _Mentions, settings: GroundingSettings) -> Candidates:
        """Find the first candidates of mentions, best first, with logits as scores."""

        def rows(of_mentions: Positions, of_candidates: Positions) -> Positions:
            pairs = zip(of_mentions.tolist(), of_candidates.tolist(), strict=True)
            return np.array([self.place(event, mentions.languages[row]) for row, event in pairs], np.int64)

        found, ranked = retrieve_and_rerank(
            self.model,
            self._index,
            mentions.texts,
            mentions.languages,
            settings.candidates,
            events=self.texts,
            rows=rows,
            retriever_weight=settings.retriever_weight,
            pairs_at_once=PAIRS_AT_ONCE,
        )
        if self.model.score_pairs is not None:
            return ranked
        if self.model.logits is not None:
            return replace(found, scores=self.model.logits(found.scores))
        there = found.scores[found.events >= 0]
        scores = (found.scores - there.mean()) / (there.std() or 1.0)
        return replace(found, scores=scores.astype(np.float32))

    def details(self, mentions: _Mentions, candidates: Candidates) -> dict[str, JsonValue]:
        """Collect the details common to all protocols, without empty ones."""
        told: dict[str, JsonValue] = {
            "mentions": len(mentions.texts),
            "events": len(self.ids),
            "pools": dict(Counter(self._languages)),
            "approximate_recall": dict(candidates.recall),
            "mentions_without_pool": dict(candidates.without_pool),
            "mentions_without_gold_event_in_pool": sum(not known for known in mentions.known),
            "gold_events_outside_pool": sum(map(len, mentions.gold)) - sum(mentions.known),
            "cut": dict(self.model.cut()),
        }
        return {name: value for name, value in told.items() if value}


class _Mentions:
    """Mentions with their texts, languages and gold events, and the number of these in their pools."""

    def __init__(self, rows: Iterable[Row], knowledge: _Knowledge) -> None:
        self.texts: list[MentionText] = []
        self.languages: list[str] = []
        self.gold: list[list[str]] = []
        self.told: list[dict[str, JsonValue]] = []
        for row in rows:
            gold = row.get("event_ids")
            if isinstance(gold, str) or not isinstance(gold, Sequence) or not gold:
                raise EventformersError(
                    f"mention {row.get('mention_id', len(self.texts))} has the gold events {shown(gold)}; "
                    "accepted: at least one id, the atomic event first"
                )
            parts = [read_text(row, name) for name in ("context_left", "mention", "context_right")]
            headings = [str(row.get(name) or "") for name in ("title", "date")]
            self.texts.append(MentionText(*parts, *headings))
            self.languages.append(read_text(row, "language"))
            self.gold.append([*gold])
            self.told.append(
                {
                    "mention_id": str(row.get("mention_id")),
                    "language": self.languages[-1],
                    "event_ids": [*gold],
                }
            )
        self.known = [
            sum(knowledge.has(event, language) for event in gold)
            for gold, language in zip(self.gold, self.languages, strict=True)
        ]
        if not any(self.known):
            raise EventformersError(
                f"none of the {len(self.gold):,} mentions has a gold event among the events of its language "
                f"({', '.join(sorted(set(self.languages)))}); accepted: mentions with the knowledge base "
                "of their gold events"
            )


def _parts(inputs: Mapping[str, Sequence[Sequence[str]]], mentions: _Mentions) -> dict[str, MetricInputs]:
    """Split a metric's inputs by the language of the mentions, sorted; `with_parents` has the mentions with
    several gold events, if there are any."""
    members = {
        language: [own == language for own in mentions.languages]
        for language in sorted(set(mentions.languages))
    }
    with_parents = [len(gold) > 1 for gold in mentions.gold]
    if any(with_parents):
        members["with_parents"] = with_parents
    return {
        part: {name: [*compress(values, chosen)] for name, values in inputs.items()}
        for part, chosen in members.items()
    }


@dataclass(frozen=True)
class Grounding(TaskKind):
    """Kind of task that finds the candidates of mentions among events."""

    Settings = GroundingSettings
    refusal = "does not link mentions; tasks that do"

    settings: GroundingSettings = field(default_factory=GroundingSettings)

    def used(self, settings: GroundingSettings) -> tuple[tuple[str, ...], str]:
        """See `TaskKind`; every task uses the settings of the data."""
        return (*SETTINGS_OF_DATA, *self.uses), ""

    def with_settings(self, task: str, settings: GroundingSettings) -> Self:
        """See `TaskKind`; `retriever_weight` needs a re-ranker."""
        chosen = super().with_settings(task, settings)
        check_retriever_weight(settings.retriever_weight, with_reranker=settings.reranker is not None)
        return chosen

    def prepare(self, model: EventEncoder, session: Session, computing: Computing) -> Prepared:
        """See `TaskKind`."""
        if self.settings.reranker is None:
            return Prepared(remembering_model(model, session, computing.batch_size))
        cross_encoder = session.cross_encoder(
            self.settings.reranker, device=computing.device, dtype=computing.dtype
        )
        encoder = cross_encoder.encoder
        told: JsonValue = {"model": encoder.name, "revision": encoder.revision}
        return Prepared(
            remembering_model(model, session, computing.batch_size, cross_encoder),
            # The name alone does not identify the weights.
            f"reranker-{encoder.name}-{(encoder.revision or 'unknown')[:8]}",
            lambda: {"reranker": told},
        )

    def untrained(self, model: EventEncoder) -> Self:
        """Remove the re-ranker, which the untrained encoder does not have."""
        return replace(self, settings=replace(self.settings, reranker=None, retriever_weight=0.0))

    @property
    def data_settings(self) -> Mapping[str, JsonValue]:
        """The settings that choose mentions and events."""
        return self.settings.of_data

    @property
    def development_split(self) -> str:
        """The split that the threshold is chosen on; empty for a given threshold."""
        return DEVELOPMENT_SPLIT if "threshold" in self.uses and self.settings.threshold is None else ""


def remembering_model(
    encoder: EventEncoder,
    session: Session,
    batch_size: BatchSize,
    cross_encoder: CrossEncoder | None = None,
) -> GroundingModel:
    """Make the scorer of an encoder and, if candidates are reranked, a cross-encoder; the encoder's
    `truncated` becomes the number of all truncated texts."""
    truncated = 0

    def recall(
        side: Side, texts: Sequence[tuple[str, ...]], encode: Callable[[], EncodedTexts]
    ) -> EncodedTexts:
        nonlocal truncated
        encoded = session.recall(encoder, (side, batch_size, digest_of(texts)), encode)
        truncated += encoder.truncated
        encoder.truncated = truncated
        return encoded

    return grounding_model(encoder, cross_encoder, batch_size=batch_size, recall=recall)
