"""Induction of event types from mentions: clusters, their names, frames and examples."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.datasets_scripts.reading.lines import read_lines
from eventformers.errors import EventformersError, UnknownNameError, shown
from eventformers.files import require_file
from eventformers.inference.encode import EventEncoder, as_encoder
from eventformers.inference.encoding.event_reader import ACCEPTED_CONTAINERS, all_columns, values_in
from eventformers.inference.encoding.mention_files import Mentions, load_mentions
from eventformers.inference.encoding.vectors import unit_vectors
from eventformers.inference.induction.clustering import (
    AverageLinkage,
    check_matrix,
    choose_num_clusters,
    cluster_affinity,
    distances_to_cluster,
)
from eventformers.inference.induction.mention_distances import DistanceKind, Labels, Matrix, MentionVectors
from eventformers.inference.induction.mention_encoding import (
    TriggerInput,
    encode_labels,
    encode_mentions,
    has_trigger,
    token_factors,
    weighting_rounds_of,
)
from eventformers.inference.induction.type_naming import (
    ScoredLabel,
    cluster_centroids,
    key_terms,
    load_frames,
    majority_type,
    name_clusters,
    weaknesses,
    words_of,
)

ACCEPTED_NAMES = f"a file with a name on each line, or names: {ACCEPTED_CONTAINERS}"

ClusterMethod = Literal["agglomerative", "affinity"]
CLUSTER_METHODS: tuple[ClusterMethod, ...] = ("agglomerative", "affinity")

Model = str | Path | EventEncoder | None
"""A folder or Hub id, None for the packaged all-MiniLM-L6-v2, or a loaded encoder."""

NAME_PARTS = 3
"""Number of terms in the name of a cluster."""

_FEW_MENTIONS = 100
"""Number of mentions below which one type for most of them is nothing to warn of."""


@dataclass(frozen=True)
class InducedType:
    """A cluster of mentions as an event type.

    Attributes:
        number: its number, 0 for the largest cluster.
        name: the best given name, otherwise its key triggers, otherwise its key words (`key_terms`).
        name_source: the source of the name: `names`, `triggers` or `words`.
        size: number of its mentions.
        labels: the candidates for its name, best first.
        frames: the nearest frames, nearest first; empty if no frames were given.
        majority_type: the most frequent known type among its mentions; "" if none is known.
        purity: the percentage of mentions with a known type that have the majority type; None if none is
            known.
        labelled: number of mentions with a known type.
        examples: positions of the mentions nearest to its centroid, nearest first, each text once.
        weak: why it is weak as a type (`weaknesses`); "" if it is not.
    """

    number: int
    name: str
    name_source: str
    size: int
    labels: tuple[ScoredLabel, ...]
    frames: tuple[ScoredLabel, ...]
    majority_type: str
    purity: float | None
    labelled: int
    examples: tuple[int, ...]
    weak: str


@dataclass(frozen=True)
class Induction:
    """Result of `induce`.

    Attributes:
        types: the clusters, largest first.
        mentions: the mentions, as `load_mentions` returns them.
        cluster: the cluster of each mention, `(n,)`.
        cosine: the cosine of each mention with the centroid of its cluster, `(n,)`.
        vectors: encoder vectors at length 1, `(n, d)`; the vectors of several models are concatenated, so
            that a cosine is the mean of theirs.
        silhouettes: the mean silhouette of each tried number of clusters; empty if the number was given.
        settings: the models with their revisions and trigger inputs, and the clustering settings;
            `num_neighbours` is None if all pairs of mentions counted (`AverageLinkage`).
        counts: numbers of mentions, of those skipped, repaired or incomplete, and of weak types.
    """

    types: tuple[InducedType, ...]
    mentions: tuple[dict[str, Any], ...]
    cluster: Labels
    cosine: NDArray[np.float64]
    vectors: Matrix = field(repr=False)
    silhouettes: dict[int, float]
    settings: dict[str, Any]
    counts: dict[str, int]

    @property
    def purity(self) -> float | None:
        """Mean purity, in percent, of the clusters with known types; None if no type is known."""
        known = [found.purity for found in self.types if found.purity is not None]
        return float(np.mean(known)) if known else None

    def type_rows(self) -> list[dict[str, Any]]:
        """Return the clusters as JSON-serialisable values, with the ids and texts of their examples."""
        return [
            {
                **asdict(found),
                "labels": [label._asdict() for label in found.labels],
                "frames": [frame._asdict() for frame in found.frames],
                "examples": [
                    {name: self.mentions[place][name] for name in ("mention_id", "text", "trigger")}
                    for place in found.examples
                ],
            }
            for found in self.types
        ]


@takes_malformed
def induce(
    model: Model | Sequence[Model],
    mentions: Mentions,
    *,
    num_clusters: int | None = None,
    method: ClusterMethod = "agglomerative",
    distance: DistanceKind = "encoder",
    manifold: bool | None = None,
    names: str | Path | Sequence[str] | None = None,
    frames: str | Path | None = None,
    trigger_input: TriggerInput | None = None,
    weighting_rounds: int | None = None,
    top: int = 5,
    examples: int = 5,
    batch_size: int | Literal["auto"] = "auto",
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    show_progress: bool = False,
    malformed: str | None = None,
) -> Induction:
    """Find event types among mentions: cluster them, name the clusters and link them to frames.

    Types that the mentions state are used only for purity. For arguments that are not listed see `encode`.

    Args:
        model: a model of event type induction or any plain encoder; several form an ensemble, whose distances
            are averaged.
        mentions: a file, a folder, such as one of `extract` or `explore`, or mentions; see `load_mentions`.
        num_clusters: number of clusters; None uses the number with the highest silhouette
            (`choose_num_clusters`).
        method: `agglomerative` (average linkage), or `affinity` (affinity propagation), which finds the
            number of clusters.
        distance: `encoder`, or `cosine` or `dot` of queries and keys; see `distances`.
        manifold: cluster by manifold weights (`manifold_weights`) or by distances; None uses weights for
            average linkage, unless more than half of at least 100 mentions fall into one type.
        names: candidate names: a file with one a line, or a list. None names clusters by their key triggers,
            or without triggers by their key words (`key_terms`).
        frames: frames to link to: raw files, a built folder or a Hub id of `EventTypes`, config `frames`.
        trigger_input: see `encode_mentions`; None uses the model's own, and for a plain encoder `span` for
            mentions with a trigger.
        weighting_rounds: how often mentions are clustered again, each time with tokens also weighted by how
            strongly their occurrence depends on the last clusters; None uses the model's own number.
        top: number of names and frames for each cluster.
        examples: number of mentions for each cluster, those nearest to its centroid.
        malformed: `skip` skips, counts and lists malformed parts of raw files; `error` raises for the first
            one; None uses the active policy, by default `error`.

    Returns:
        `types`, the clusters, largest first; `mentions` with the `cluster` of each and its `cosine` with the
        centroid; `vectors`, `(n, d)`, `silhouettes`, `settings` and `counts`.

    Raises:
        DataFormatError: a line of a file cannot be read.
        EventformersError: there are fewer mentions than clusters, a number is below 1, a number of clusters
            is given with `affinity`, the model, names or frames cannot be loaded, or an error of
            `encode_mentions`; or there are too many mentions for `affinity` or for the memory.
        UnknownNameError: an unknown method, distance or `trigger_input`.
    """
    if method not in CLUSTER_METHODS:
        raise UnknownNameError("way to cluster", method, CLUSTER_METHODS)
    if method == "affinity" and num_clusters is not None:
        raise EventformersError(
            "affinity propagation finds the number of clusters itself; accepted: no number, or agglomerative"
        )
    for name, value in (("num_clusters", num_clusters), ("top", top), ("examples", examples)):
        if value is not None and value < 1:
            raise EventformersError(f"{name} is {value}; accepted: 1 or more")
    if weighting_rounds is not None and weighting_rounds < 0:
        raise EventformersError(f"weighting_rounds is {weighting_rounds}; accepted: 0 or more")
    rows, counts = load_mentions(mentions)
    if num_clusters is not None and num_clusters > len(rows):
        raise EventformersError(
            f"{num_clusters} clusters of {len(rows)} mentions; accepted: 1 to {len(rows)}"
        )
    if method == "affinity":
        check_matrix(len(rows))
    given = _read_names(names)
    linked = None if frames is None else load_frames(frames)
    models: Sequence[Model] = model if isinstance(model, (list, tuple)) else [model]  # type: ignore[list-item]
    encoders = [as_encoder(one, device=device, dtype=dtype) for one in models]
    if not encoders:
        raise EventformersError("the list of models is empty; accepted: at least one")
    progress: dict[str, Any] = {"batch_size": batch_size, "show_progress": show_progress}
    chosen = [trigger_input or usual_trigger_input(encoder, rows) for encoder in encoders]
    rounds = weighting_rounds_of(encoders, chosen, weighting_rounds)
    on_manifold = method == "agglomerative" if manifold is None else manifold
    earlier: Labels | None = None
    console = Console(stderr=True, quiet=not show_progress)
    for number in range(1, rounds + 2):
        if rounds:
            console.print(f"clustering {number} of {rounds + 1}", highlight=False)
        runs = [
            encode_mentions(
                *(encoder, rows),
                trigger_input=reading,
                token_factors=token_factors(encoder, reading, rows, earlier),
                **progress,
            )
            for encoder, reading in zip(encoders, chosen, strict=True)
        ]
        vectors = _joint(run.embeddings for run in runs)
        cluster, silhouettes, num_neighbours = _clustered(
            runs, vectors, method, distance, on_manifold, num_clusters, show_progress
        )
        if manifold is None and on_manifold and (largest := _size_of_one_type(cluster)):
            warnings.warn(
                f"by manifold weights, {largest:,} of {len(cluster):,} mentions are in one type; they are "
                "clustered by distances instead; manifold=True (--manifold) keeps the weights",
                stacklevel=2,
            )
            on_manifold = False
            cluster, silhouettes, num_neighbours = _clustered(
                runs, vectors, method, distance, on_manifold, num_clusters, show_progress
            )
        earlier = cluster
    if largest := _size_of_one_type(cluster):
        way = "manifold=False (--no-manifold) or a larger" if on_manifold else "a larger"
        warnings.warn(
            f"{largest:,} of {len(cluster):,} mentions are in one type; {way} num_clusters (--num-clusters) "
            "gives finer types",
            stacklevel=2,
        )
    rows, counts["triggers_found"] = _with_found_triggers(rows, runs)
    del runs
    centroids = cluster_centroids(vectors, cluster)
    cosine = np.einsum("nd,nd->n", vectors, centroids[cluster])

    def embed(texts: Sequence[str]) -> Matrix:
        return _joint(encode_labels(encoder, texts, **progress) for encoder in encoders)

    triggers = [row["trigger"] for row in rows]
    by_trigger = key_terms([row.get("terms") or [row["trigger"]] for row in rows], cluster, top)
    by_word = key_terms([words_of(row["text"]) for row in rows], cluster, top)
    weak = weaknesses(triggers, [row["document_id"] for row in rows], cluster)
    named: list[tuple[ScoredLabel, ...]] = [()] * len(centroids)
    framed = named
    if given:
        named = name_clusters(centroids, given, embed(given), top)
    if linked:
        framed = name_clusters(centroids, linked.names, embed(linked.definitions), top)
    counts["mentions"] = len(rows)
    counts["mentions_without_trigger"] = sum(not has_trigger(row) for row in rows)
    counts["weak_types"] = sum(map(bool, weak))
    if linked:
        counts["frames_without_definition"] = linked.left_out
    return Induction(
        types=tuple(
            _induced(
                number, rows, cluster, cosine, (named, by_trigger, by_word), framed[number], examples, reason
            )
            for number, reason in enumerate(weak)
        ),
        mentions=tuple(rows),
        cluster=cluster,
        cosine=cosine,
        vectors=vectors,
        silhouettes=silhouettes,
        settings={
            "models": [
                {"name": encoder.name, "revision": encoder.revision, "trigger_input": reading}
                for encoder, reading in zip(encoders, chosen, strict=True)
            ],
            "method": method,
            "distance": distance,
            "manifold": on_manifold,
            "weighting_rounds": rounds,
            "num_clusters": len(centroids),
            "num_neighbours": num_neighbours,
        },
        counts={name: count for name, count in counts.items() if count},
    )


def _size_of_one_type(cluster: Labels) -> int:
    """Return the size of a cluster with more than half of many mentions, or 0."""
    largest = int(np.bincount(cluster).max())
    return largest if len(cluster) >= _FEW_MENTIONS and largest > len(cluster) / 2 else 0


def _clustered(
    runs: Sequence[MentionVectors],
    vectors: Matrix,
    method: ClusterMethod,
    distance: DistanceKind,
    on_manifold: bool,
    num_clusters: int | None,
    show_progress: bool,
) -> tuple[Labels, dict[int, float], int | None]:
    """Cluster the mentions; also return the silhouettes of the tried numbers of clusters, and the number of
    neighbours of each mention, None if all are."""
    try:
        if method == "affinity":
            return cluster_affinity(-distances_to_cluster(runs, distance, manifold=on_manifold)), {}, None
        tree = AverageLinkage.of_mentions(runs, distance, manifold=on_manifold, show_progress=show_progress)
        silhouettes: dict[int, float] = {}
        if num_clusters is None:
            num_clusters, silhouettes = choose_num_clusters(
                tree, MentionVectors(vectors), show_progress=show_progress
            )
        return tree.cut(num_clusters), silhouettes, tree.num_neighbours
    except MemoryError as error:
        raise EventformersError(
            f"out of memory for clustering {len(vectors):,} mentions; pass fewer, or use explore, which "
            "clusters a sample"
        ) from error


def usual_trigger_input(encoder: EventEncoder, rows: Iterable[dict[str, Any]]) -> TriggerInput:
    """Return the model's own trigger input, or `span` instead of `found` if all triggers are given.

    For a plain encoder, return `span` if it can read a trigger and at least one is given.
    """
    own = getattr(encoder.model.config, "trigger_input", None)
    if own == "found" and all(map(has_trigger, rows)):
        return "span"
    if own is not None:
        return own  # type: ignore[no-any-return]
    return "span" if hasattr(encoder.model, "pool") and any(map(has_trigger, rows)) else "none"


def _with_found_triggers(
    rows: list[dict[str, Any]], runs: Sequence[MentionVectors]
) -> tuple[list[dict[str, Any]], int]:
    """Add found triggers, from the first model that finds them, to mentions without one; also return how
    many."""
    spans = next((run.triggers for run in runs if run.triggers is not None), None)
    if spans is None:
        return rows, 0
    filled, number = [], 0
    for row, (start, end) in zip(rows, spans.tolist(), strict=True):
        is_new = not has_trigger(row) and start < end
        number += is_new
        found = {"trigger": row["text"][start:end], "trigger_start": start, "trigger_end": end}
        filled.append({**row, **found} if is_new else row)
    return filled, number


def _read_names(names: str | Path | Sequence[str] | None) -> list[str]:
    """Read distinct names from a file or a list, at least one unless it is None."""
    if names is None:
        return []
    if isinstance(names, (str, Path)):
        path = Path(names).expanduser()
        require_file(path, "a file with a name on each line")
        names = [line for _, line in read_lines(path)]
    else:
        names = list(values_in(names, all_columns, ACCEPTED_NAMES))  # type: ignore[arg-type]
        if wrong := [name for name in names if not isinstance(name, str)]:
            raise EventformersError(f"the names: found {shown(wrong[0])}; accepted: a text for each")
    found = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not found:
        raise EventformersError("the names are empty; accepted: at least one name")
    return found


def _joint(parts: Iterable[Matrix]) -> Matrix:
    """Normalise the vectors of several models, concatenate them, and normalise the result."""
    units = [unit_vectors(part, [f"text {place}" for place in range(len(part))]) for part in parts]
    return (np.concatenate(units, axis=1) / np.sqrt(len(units))).astype(np.float32)


def _induced(
    number: int,
    rows: Sequence[dict[str, Any]],
    cluster: Labels,
    cosine: NDArray[np.float64],
    sources: tuple[Sequence[tuple[ScoredLabel, ...]], ...],
    frames: tuple[ScoredLabel, ...],
    examples: int,
    weak: str,
) -> InducedType:
    """Describe one cluster; `sources` are the given names, triggers and words of all clusters."""
    members = np.flatnonzero(cluster == number)
    source, labels = next(
        (
            (name, found[number])
            for name, found in zip(("names", "triggers", "words"), sources, strict=True)
            if found[number]
        ),
        ("words", ()),
    )
    parts = labels[:1] if source == "names" else labels[:NAME_PARTS]
    types = [rows[place]["event_type"] for place in members.tolist()]
    known = [event_type for event_type in types if event_type]
    majority, count = majority_type(known)
    nearest: dict[str, int] = {}
    for place in members[np.argsort(-cosine[members], kind="stable")]:
        nearest.setdefault(rows[place]["text"], int(place))
    return InducedType(
        number=number,
        name=", ".join(label.label for label in parts) or f"cluster {number}",
        name_source=source,
        size=len(members),
        labels=labels,
        frames=frames,
        majority_type=majority,
        purity=100 * count / len(known) if known else None,
        labelled=len(known),
        examples=tuple(list(nearest.values())[:examples]),
        weak=weak,
    )
