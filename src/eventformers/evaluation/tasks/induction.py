"""Tasks on mentions of unseen types: cluster them, name the clusters, and link them to frames."""

from __future__ import annotations

import hashlib
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

import numpy as np

from eventformers.errors import EventformersError, shown
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks.base import (
    BatchSize,
    Computing,
    Embed,
    JsonValue,
    Prepared,
    ProtocolOutput,
    Row,
    TaskKind,
    TaskRows,
    TaskSettings,
)
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.event_inputs import digest_of
from eventformers.inference.induction.clustering import (
    AverageLinkage,
    by_size,
    cluster_affinity,
    distances_to_cluster,
)
from eventformers.inference.induction.induce import ClusterMethod
from eventformers.inference.induction.mention_distances import DistanceKind, Labels, MentionVectors, Rho
from eventformers.inference.induction.mention_encoding import (
    WITHOUT_TRIGGERS,
    TriggerInput,
    encode_labels,
    encode_mentions,
    token_factors,
    weighting_rounds_of,
)
from eventformers.inference.induction.type_naming import (
    cluster_centroids,
    defined_frames,
    label_cosines,
    label_ranks,
    majority_type,
    valid_frames,
)
from eventformers.strict import count, strict_settings
from eventformers.trainers.event_type_induction import type_name

EncodeMentions: TypeAlias = Callable[[Sequence[Row], Labels | None], MentionVectors]
"""Maps mentions to their vectors, in the same order, with tokens weighted by earlier clusters, if any."""

Clusters = Literal["true", "predicted"]
"""The clusters to name or link: those of the true types, or those that the model makes."""

ValidFrames = Literal["children", "descendants"]


@strict_settings
@dataclass(frozen=True)
class InductionSettings(TaskSettings):
    """The settings of event type induction.

    Attributes:
        distance: `encoder`, or `cosine` or `dot` of queries and keys; see `mention_distances.distances`.
        manifold: cluster by manifold weights; None does so with average linkage.
        rho: the distance from which the weights of a mention fall: its smallest `positive` one, as printed in
            Appendix H, or its `nearest`, which is 0 for a repeated sentence, as in the released code.
        method: `agglomerative` (average linkage) or `affinity` (affinity propagation).
        num_clusters: number of clusters; None takes the number of unseen types.
        trigger_input: how triggers are read, as for `encode_mentions`; None takes the model's own, or `none`
            for a plain encoder.
        weighting_rounds: how often mentions are clustered again, each time with tokens also weighted by how
            strongly their occurrence depends on the last clusters; None uses the model's own number.
        clusters: `true` or `predicted`, for naming and linking.
        valid_frames: the frames that are correct beside those of a type, for linking: their `children`, as in
            the paper, or all `descendants`, as in the released code.
        clustered_by: the runs of an ensemble, whose mean distances cluster the mentions instead of the
            model's own; empty for no ensemble.
    """

    places: ClassVar[tuple[str, ...]] = ("clustered_by",)

    distance: DistanceKind = "encoder"
    manifold: bool | None = None
    rho: Rho = "positive"
    method: ClusterMethod = "agglomerative"
    num_clusters: int | None = count(None)
    trigger_input: TriggerInput | None = None
    weighting_rounds: int | None = count(None, least=0)
    clusters: Clusters = "true"
    valid_frames: ValidFrames = "children"
    clustered_by: tuple[str | Path | EventEncoder, ...] = ()

    def validate_number(self) -> None:
        """Raise an error if `num_clusters` is set for a method that finds it itself."""
        if self.num_clusters is not None and self.method == "affinity":
            raise EventformersError(
                "num_clusters with method affinity, which finds the number itself; accepted: one of them"
            )

    @property
    def on_manifold(self) -> bool:
        """Whether manifold weights cluster the mentions."""
        return self.method == "agglomerative" if self.manifold is None else self.manifold


@dataclass(frozen=True)
class MentionModel:
    """The scorer of event type induction.

    Attributes:
        embed: maps texts to vectors, for names and definitions of frames.
        clustered_by: the runs of an ensemble, whose mean distances cluster the mentions; empty for the
            model's own distances.
        weighting_rounds: how often the mentions are clustered again.
    """

    embed: Embed
    encode: EncodeMentions
    clustered_by: tuple[EncodeMentions, ...] = ()
    weighting_rounds: int = 0


def induce_types(model: MentionModel, data: TaskRows, settings: InductionSettings) -> ProtocolOutput:
    """Cluster the mentions of unseen types (Edwards and Ji, section 4).

    Args:
        data: rows of `EventTypes`, config `mentions` or `ace2005`.

    Returns:
        Inputs `predictions` (clusters) and `references` (types); per clustered mention both with its id.
        Details: the numbers of mentions, types and distinct sentences, of mentions without a type, which are
        skipped, and of the neighbours of a mention if not all pairs counted (`AverageLinkage`).
    """
    unseen = _unseen_mentions(data.rows)
    clusters, _ = _predicted(model, unseen, settings)
    return ProtocolOutput(
        inputs={"predictions": clusters.tolist(), "references": unseen.types},
        predictions=[
            {"mention_id": str(row.get("mention_id")), "cluster": cluster, "event_type": name}
            for row, cluster, name in zip(unseen.rows, clusters.tolist(), unseen.types, strict=True)
        ],
        texts=len(unseen.rows),
        distinct_texts=len({row["text"] for row in unseen.rows}),
        details=unseen.details,
    )


def name_types(model: MentionModel, data: TaskRows, settings: InductionSettings) -> ProtocolOutput:
    """Rank the names of the unseen types for each cluster (Edwards and Ji, section 2.2.1).

    The correct name of a cluster is that of its most frequent type. A centroid is the mean of the mentions'
    encoder vectors. Rows are as for `induce_types`.

    Returns:
        Input `predictions` (ranks); per cluster its type, size, purity and rank, and the name that ranks
        first. Details: as for `induce_types`; the mean purity of the clusters and the share of types that are
        the most frequent of a cluster, in percent; and the number of candidates.
    """
    found = _clusters_with_types(model, _unseen_mentions(data.rows), settings)
    names = found.unseen.names
    texts = [type_name(name) for name in names]
    return _ranked(model, found, range(len(found.types)), names, texts, [{name} for name in found.types])


def link_types(model: MentionModel, data: TaskRows, settings: InductionSettings) -> ProtocolOutput:
    """Rank frames, the companion rows of the config `frames`, for each cluster by their definitions (Edwards
    and Ji, section 2.2.2).

    The correct frames of a cluster are those that the mentions of its most frequent type state, and the
    frames that inherit from these; the best of their ranks counts. A cluster whose type states no frame is
    skipped. If none of a type's frames has a definition, the rank is infinite.

    Returns:
        As for `name_types`, with frames for names. Details also count the frames without a definition, and
        the skipped clusters.
    """
    known = list(data.companions["frames"])
    linked = defined_frames(known)
    found = _clusters_with_types(model, _unseen_mentions(data.rows), settings)
    mapped: defaultdict[str, set[str]] = defaultdict(set)
    for row, name in zip(found.unseen.rows, found.unseen.types, strict=True):
        mapped[name].update(cast("Sequence[str]", row.get("frames") or ()))
    judged = [place for place, name in enumerate(found.types) if mapped[name]]
    if not judged:
        raise EventformersError("no unseen type states a frame; accepted: mentions with frames of their type")
    inheriting: Mapping[str, set[str]] = linked.descendants
    if settings.valid_frames == "children":
        children: defaultdict[str, set[str]] = defaultdict(set)
        for row in known:
            for parent in cast("Sequence[str]", row["parents"]):
                children[parent].add(str(row["name"]))
        inheriting = children
    valid = [valid_frames(mapped[found.types[place]], inheriting) for place in judged]
    output = _ranked(model, found, judged, linked.names, linked.definitions, valid)
    output.details["frames_without_definition"] = linked.left_out
    output.details["clusters_without_frames"] = len(found.types) - len(judged)
    return output


@dataclass(frozen=True)
class _Unseen:
    """The mentions of unseen types, with the types of each and all of them in alphabetical order."""

    rows: list[Row]
    types: list[str]
    names: list[str]
    details: dict[str, JsonValue]


@dataclass(frozen=True)
class _TypedClusters:
    """Clusters with their centroids, `(clusters, d)`, most frequent types, sizes and purities in percent."""

    unseen: _Unseen
    centroids: Any
    types: list[str]
    sizes: list[int]
    purities: list[float]


def unseen_rows(rows: Iterable[Row]) -> list[Row]:
    """Select the scored mentions: those of unseen types whose type is known."""
    return [row for row in rows if not row["seen"] and row["event_type"]]


def _unseen_mentions(rows: Iterable[Row]) -> _Unseen:
    held = list(rows)
    for column in ("text", "event_type", "seen"):
        if held and column not in held[0]:
            raise EventformersError(
                f"found columns {', '.join(map(str, held[0]))}; accepted: mentions with the column "
                f"{shown(column)}"
            )
    typed = unseen_rows(held)
    if not typed:
        raise EventformersError(
            f"found no mention of an unseen type among {len(held):,}; accepted: at least one; set num_seen "
            "or seen_types below the number of types"
        )
    types = [str(row["event_type"]) for row in typed]
    names = sorted(set(types))
    details: dict[str, JsonValue] = {
        "mentions": len(typed),
        "unseen_types": len(names),
        "distinct_sentences": len({row["text"] for row in typed}),
        "mentions_without_type": sum(not row["seen"] for row in held) - len(typed),
    }
    return _Unseen(typed, types, names, details)


def _predicted(
    model: MentionModel, unseen: _Unseen, settings: InductionSettings
) -> tuple[Labels, Labels | None]:
    """Cluster mentions by the model or its ensemble, once and in each round; also return the clusters that
    weighted the tokens, if any.

    The details tell the number of rounds, and if not all pairs counted.
    """
    clusters: Labels | None = None
    reading: dict[str, Any] = {"manifold": settings.on_manifold, "rho": settings.rho}
    for _ in range(model.weighting_rounds + 1):
        earlier = clusters
        # The generator holds no more than two matrices at a time.
        runs = (encode(unseen.rows, earlier) for encode in model.clustered_by or (model.encode,))
        if settings.method == "affinity":
            clusters = cluster_affinity(-distances_to_cluster(runs, settings.distance, **reading))
            continue
        tree = AverageLinkage.of_mentions(runs, settings.distance, **reading)
        if tree.num_neighbours is not None:
            unseen.details["num_neighbours"] = tree.num_neighbours
        clusters = tree.cut(settings.num_clusters or len(unseen.names))
    if model.weighting_rounds:
        unseen.details["weighting_rounds"] = model.weighting_rounds
    return cast("Labels", clusters), earlier


def _clusters_with_types(model: MentionModel, unseen: _Unseen, settings: InductionSettings) -> _TypedClusters:
    earlier: Labels | None = None
    if settings.clusters == "true":
        clusters = by_size(np.searchsorted(unseen.names, unseen.types))
    else:
        clusters, earlier = _predicted(model, unseen, settings)
    vectors = model.encode(unseen.rows, earlier)
    members: list[list[str]] = [[] for _ in range(int(clusters.max()) + 1)]
    for cluster, name in zip(clusters, unseen.types, strict=True):
        members[cluster].append(name)
    majorities = [majority_type(of_cluster) for of_cluster in members]
    return _TypedClusters(
        unseen=unseen,
        centroids=cluster_centroids(vectors.embeddings, clusters),
        types=[name for name, _ in majorities],
        sizes=[len(of_cluster) for of_cluster in members],
        purities=[
            100 * count / len(of_cluster) for (_, count), of_cluster in zip(majorities, members, strict=True)
        ],
    )


def _ranked(
    model: MentionModel,
    found: _TypedClusters,
    places: Sequence[int],
    names: Sequence[str],
    texts: Sequence[str],
    valid: Sequence[set[str]],
) -> ProtocolOutput:
    """Rank labels by their texts for the clusters at some places, each with its valid labels."""
    vectors = np.asarray(model.embed(texts), dtype=np.float32)
    cosines = label_cosines(found.centroids[list(places)], vectors, names)
    ranks = label_ranks(cosines, names, valid)
    details = {
        **found.unseen.details,
        "clusters": len(found.types),
        "purity": float(np.mean(found.purities)),
        "type_representation": 100 * len(set(found.types)) / len(found.unseen.names),
        "candidates": len(names),
    }
    return ProtocolOutput(
        inputs={"predictions": list(ranks)},
        predictions=[
            {
                "cluster": place,
                "event_type": found.types[place],
                "size": found.sizes[place],
                "purity": round(found.purities[place], 2),
                # JSON has no infinity.
                "rank": rank if np.isfinite(rank) else None,
                "first": names[first],
            }
            for place, rank, first in zip(places, ranks, cosines.argmax(axis=1), strict=True)
        ],
        texts=len(found.unseen.rows) + len(texts),
        distinct_texts=cast(int, found.unseen.details["distinct_sentences"]) + len(texts),
        details=details,
    )


_MAKING_CLUSTERS = (
    "distance",
    "manifold",
    "rho",
    "method",
    "num_clusters",
    "weighting_rounds",
    "clustered_by",
)


@dataclass(frozen=True)
class Induction(TaskKind):
    """Kind of task that clusters mentions, or names or links the clusters."""

    Settings = InductionSettings
    refusal = "does not cluster mentions; tasks that do"

    settings: InductionSettings = field(default_factory=InductionSettings)

    def used(self, settings: InductionSettings) -> tuple[tuple[str, ...], str]:
        """See `TaskKind`; clustering settings apply only if the model makes the clusters."""
        if "clusters" not in self.uses or settings.clusters == "predicted":
            return ("trigger_input", *_MAKING_CLUSTERS, *self.uses), ""
        return ("trigger_input", *self.uses), "; and settings of clustering, with clusters=predicted"

    def prepare(self, model: EventEncoder, session: Session, computing: Computing) -> Prepared:
        """See `TaskKind`."""
        runs = []
        for one in self.settings.clustered_by:
            loaded = isinstance(one, EventEncoder)
            device, dtype = (None, None) if loaded else (computing.device, computing.dtype)
            runs.append(session.encoder(one, device=device, dtype=dtype))
        if unknown := [run.name for run in runs if run.revision is None]:
            raise EventformersError(
                f"runs without a revision: {', '.join(unknown)}; accepted: models loaded by load_encoder"
            )
        if runs and "clusters" not in self.uses and model.revision not in {run.revision for run in runs}:
            raise EventformersError(
                f"the ensemble ({', '.join(run.name for run in runs)}) does not contain the scored model "
                f"{model.name}; accepted: an ensemble with it"
            )
        asked = mention_model(model, self.settings, session, computing.batch_size, runs)
        if not runs:
            return Prepared(asked)
        told: list[JsonValue] = [{"model": run.name, "revision": run.revision} for run in runs]
        digest = hashlib.sha256(" ".join(sorted(str(run.revision) for run in runs)).encode()).hexdigest()
        return Prepared(asked, f"ensemble-{len(runs)}-{digest[:8]}", lambda: {"clustered_by": told})

    def untrained(self, model: EventEncoder) -> Self:
        """Adapt the settings: the untrained encoder has no queries and keys.

        It reads the trigger tokens if the model reads triggers in any way.
        """
        own = getattr(model.model.config, "trigger_input", None)
        reads = self.settings.trigger_input if own is None else "none" if own in WITHOUT_TRIGGERS else "span"
        return replace(
            self,
            settings=replace(
                self.settings,
                distance="encoder",
                trigger_input=reads,
                weighting_rounds=None,
                clustered_by=(),
            ),
        )

    @property
    def untrained_may_fail(self) -> bool:
        """True for affinity propagation, which does not converge on every model's distances."""
        return self.settings.method == "affinity"

    def count(self, rows: Sized) -> int:
        """Count the mentions of unseen types."""
        return len(unseen_rows(cast("Sequence[Row]", rows)))


def mention_model(
    encoder: EventEncoder,
    settings: InductionSettings,
    session: Session,
    batch_size: BatchSize,
    runs: Sequence[EventEncoder] = (),
) -> MentionModel:
    """Make the scorer of event type induction; `runs` are the ensemble whose mean distances cluster
    mentions."""

    def encode_by(one: EventEncoder, reading: InductionSettings) -> EncodeMentions:
        def encode(mentions: Sequence[Row], clusters: Labels | None) -> MentionVectors:
            rows = cast("Sequence[dict[str, Any]]", mentions)
            trained = set(getattr(one.model.config, "trained_types", None) or ())
            if known := sorted(trained & {str(row["event_type"]) for row in rows}):
                warnings.warn(
                    f"{one.name} was trained on labels of {len(known)} types that are scored as unseen "
                    f"({', '.join(known[:5])}), so part of its score is on training data; train and evaluate "
                    "with the same num_seen or seen_types",
                    stacklevel=2,
                )
            told = ((row["text"], row["trigger_start"], row["trigger_end"]) for row in rows)

            def compute() -> MentionVectors:
                return encode_mentions(
                    *(one, rows),
                    trigger_input=reading.trigger_input,
                    token_factors=token_factors(one, reading.trigger_input, rows, clusters),
                    batch_size=batch_size,
                )

            weighted_by = digest_of(() if clusters is None else clusters.tolist())
            asked = reading.trigger_input, batch_size, digest_of(told), weighted_by
            return session.recall(one, asked, compute)

        return encode

    def reading_of(run: EventEncoder) -> InductionSettings:
        # Each model reads triggers as it was trained to, whatever the scored model does.
        own = hasattr(run.model.config, "trigger_input")
        return replace(settings, trigger_input=None) if own else settings

    readings = [reading_of(run) for run in runs] or [settings]
    told = [reading.trigger_input for reading in readings]
    return MentionModel(
        embed=lambda texts: encode_labels(encoder, list(map(str, texts)), batch_size=batch_size),
        encode=encode_by(encoder, settings),
        clustered_by=tuple(map(encode_by, runs, readings)),
        weighting_rounds=weighting_rounds_of(runs or [encoder], told, settings.weighting_rounds),
    )
