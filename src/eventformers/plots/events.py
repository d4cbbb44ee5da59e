"""Figure of events by a model's vectors in two dimensions, with the names of their groups."""

from __future__ import annotations

import hashlib
import heapq
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from datasets import Dataset
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from sklearn.cluster import KMeans
from transformers import AutoModelForPreTraining

from eventformers.datasets_scripts.events import Event, event_text
from eventformers.datasets_scripts.loading import load_built
from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.errors import EventformersError, UnknownNameError, counted
from eventformers.evaluation.data import load_data
from eventformers.evaluation.tasks import TASKS
from eventformers.evaluation.tasks.induction import unseen_rows
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.induction.clustering import by_size
from eventformers.inference.induction.induce import NAME_PARTS
from eventformers.inference.induction.mention_distances import distances
from eventformers.inference.induction.mention_encoding import encode_mentions
from eventformers.inference.induction.report import Projection, place_mentions
from eventformers.inference.induction.type_naming import key_terms
from eventformers.loading.encoders import resolve_encoder
from eventformers.loading.models import faults_told, load_whole
from eventformers.markdown import cell, table
from eventformers.plots.figures import COLOURS, MARKERS, one_picture, write_with_table

NEAREST = 5
"""Number of events to list for each group, as in Tables 4 and 8 of SWCC."""

REGIONS = 16
"""Number of groups of a model without prototypes, as many names as a figure holds."""

MOST_EVENTS = 3_000
"""Maximum number of events on a figure, as many as t-SNE places in seconds."""

_BLOCK_DOCUMENTS = 1_000
_PLACED: Mapping[Projection, str] = {
    "tsne": "t-SNE; distances between far points mean little",
    "pca": "the first two principal components",
}

Array = npt.NDArray[np.float32]
Members = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EventGroup:
    """Events of a figure that belong together: those of a prototype, or of a region of the figure.

    Attributes:
        index: its number, from 0: the row of a prototype in the model, or the rank of a region by size.
        name: its most characteristic predicates and objects; "" without events.
        nearest: texts of the events nearest to the prototype, or to the region's centroid, nearest first.
    """

    index: int
    name: str
    size: int
    nearest: list[str]


@takes_malformed
def plot_events(
    run: str | Path,
    output: str | Path,
    *,
    data: str | Path | None = None,
    num_events: int = MOST_EVENTS,
    by: Projection = "tsne",
    beside: str | Path | None = None,
    device: str | None = None,
    malformed: str | None = None,
) -> list[EventGroup]:
    """Draw events by a model's vectors, with named groups, and list the nearest events of each group.

    t-SNE (van der Maaten and Hinton, 2008) places the events so that neighbours stay neighbours. The events
    of a model with prototypes are grouped by the prototype of the highest cosine, as in Figure 4 and Tables 4
    and 8 of SWCC (Gao et al., ACL 2022); those of any other model by region of the figure. Figure 4 itself
    places them by principal components, beside the same events by the vectors of BERT (InfoNCE).

    Args:
        run: folder or Hub id of a model of any method, or of any plain encoder.
        output: the figure, `.png` or `.svg`; the table goes to a file beside it with the suffix `.md`.
        data: folder of raw files, built dataset or Hub id of event chains; None uses the bundled samples.
        num_events: number of distinct events to draw at random; all if there are fewer.
        by: `tsne`, or `pca` for the first two principal components.
        beside: another model, whose vectors place the same events in a second panel on the left, with the
            groups of `run`.

    Returns:
        The groups, by index.

    Raises:
        EventformersError: the suffix is unknown, the number of events is not accepted, the folder has no
            model that encodes texts, the data cannot be loaded or has fewer than four distinct events, or a
            file cannot be written.
    """
    output = Path(output)
    if not 4 <= num_events <= MOST_EVENTS:
        raise EventformersError(f"received {num_events:,} events; accepted: 4 to {MOST_EVENTS:,}")
    with one_picture(output):
        encoder = load_encoder(run, device=device)
        prototypes = load_prototypes(run, encoder)
        documents = load_built(data, "documents")["train"]
        events, distinct = sample_events(documents, num_events, 0)
        if len(events) < 4:
            raise EventformersError(
                f"{data or 'the samples'}: found {len(events)} distinct events; accepted: 4 or more"
            )
        vectors = encoder.encode(events, normalize=True)
        places = place_mentions(vectors, by=by)
        if prototypes is None:
            # The regions of the figure, largest first, with their centroids.
            number = min(REGIONS, len(np.unique(places, axis=0)))
            members = by_size(KMeans(number, n_init=10, random_state=0).fit_predict(places))
            centres = np.stack([vectors[members == region].mean(axis=0) for region in range(number)])
        else:
            members, centres = (vectors @ prototypes.T).argmax(axis=1), prototypes
        groups = describe_groups(events, vectors @ centres.T, members)
        kind = "region" if prototypes is None else "prototype"
        panels = {f"{encoder.name}: {len(events):,} events by {kind}": places}
        if beside is not None:
            other = load_encoder(beside, device=device)
            others = place_mentions(other.encode(events, normalize=True), by=by)
            panels = {f"{other.name}: the same events": others, **panels}
        figure = draw_groups(panels, members, groups)
        rows = [
            [
                str(group.index),
                cell(group.name) or "–",
                f"{group.size:,}",
                f"{group.size / len(events):.1%}",
                "<br>".join(map(cell, group.nearest)) or "–",
            ]
            for group in groups
        ]
        of = f"all {distinct:,}" if len(events) == distinct else f"{len(events):,} of about {distinct:,}"
        text = (
            f"# Events by {kind}: {cell(encoder.name)}\n\n"
            f"The figure shows {of} distinct events, placed by {_PLACED[by]}. "
            f"The table lists the {NEAREST} nearest events of each {kind}, nearest first.\n\n"
            f"{table([kind, 'name', 'events', 'share', 'nearest events'], rows)}\n"
        )
        write_with_table(figure, text, output)
        return groups


def sample_events(documents: Dataset, number: int, seed: int) -> tuple[list[Event], int]:
    """Sample distinct events uniformly, whatever their frequency, in memory for `number` events.

    A hash of text and seed gives every event a pseudo-random number, and the smallest numbers win. So
    repetitions and the order of documents have no effect. The number of distinct events is exact up to
    `number`, and beyond that an estimate from the largest of the winning numbers.

    Args:
        documents: rows with a column `events`.

    Returns:
        The events, and the number of distinct events.
    """
    key = seed.to_bytes(8, "little", signed=True)
    # A heap of negated draws: its head is the largest draw of the winners.
    winners: list[tuple[int, str, str, str]] = []
    drawn: set[tuple[str, str, str]] = set()
    blocks = (
        documents[start : start + _BLOCK_DOCUMENTS]["events"]
        for start in range(0, len(documents), _BLOCK_DOCUMENTS)
    )
    for event in (event for block in blocks for of_document in block for event in of_document):
        roles = (event["subject"], event["predicate"], event["object"])
        if roles in drawn:
            continue
        text = "\t".join(roles).encode()
        draw = int.from_bytes(hashlib.blake2b(text, digest_size=8, key=key).digest(), "little")
        if len(winners) < number:
            heapq.heappush(winners, (-draw, *roles))
            drawn.add(roles)
        elif -winners[0][0] > draw:
            drawn.remove(heapq.heapreplace(winners, (-draw, *roles))[1:])
            drawn.add(roles)
    distinct = len(winners)
    if winners and distinct == number:
        distinct = max(number, round((number - 1) * 2**64 / max(-winners[0][0], 1)))
    chosen = sorted(winners, reverse=True)
    return [Event(subject=one[1], predicate=one[2], object=one[3]) for one in chosen], distinct


def describe_groups(events: Sequence[Event], cosines: Array, members: Members) -> list[EventGroup]:
    """Return the name, size and nearest events of each group.

    Args:
        cosines: their cosines with the centre of each group, `(events, groups)`.
        members: the group of each event, `(events,)`.
    """
    terms = key_terms([(event["predicate"], event["object"]) for event in events], members, NAME_PARTS)
    described = []
    for index in range(cosines.shape[1]):
        name = ", ".join(term.label for term in terms[index]) if index < len(terms) else ""
        own = np.flatnonzero(members == index)
        order = own[np.argsort(-cosines[own, index], kind="stable")][:NEAREST]
        nearest = [event_text(events[position]) for position in order]
        described.append(EventGroup(index, name, len(own), nearest))
    return described


def load_prototypes(run: str | Path, encoder: EventEncoder) -> Array | None:
    """Load the prototypes of a model's training head, scaled to length 1, `(M, d)`; None if it has none.

    Args:
        run: folder or Hub id of the model.
    """
    config = encoder.model.config
    heads = [name for name in config.architectures or () if name.endswith("ForPreTraining")]
    if not (heads and hasattr(config, "num_prototypes")):
        return None
    with faults_told(str(run)):
        head = load_whole(AutoModelForPreTraining, resolve_encoder(run))
    layer = getattr(head, "prototypes", None)
    if layer is None:
        return None
    if getattr(head.config, "cluster_weight", 1) == 0:
        warnings.warn(
            f"{run} was trained with cluster_weight=0: its prototypes are random directions", stacklevel=2
        )
    prototypes = layer.weight.detach().float().cpu().numpy()
    return prototypes / np.maximum(np.linalg.norm(prototypes, axis=1, keepdims=True), 1e-12)


def draw_groups(
    panels: Mapping[str, npt.NDArray[np.float64]], members: Members, groups: Sequence[EventGroup]
) -> Figure:
    """Scatter events, and write the name of each group at its middle.

    Args:
        panels: the places of the events in each panel, `(n, 2)`, by its title; from left to right.
        members: the group of each event, `(n,)`.
    """
    figure = Figure(figsize=(11 * len(panels), 8), layout="constrained")
    for number, (title, places) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(1, len(panels), number)
        size = float(np.clip(30_000 / len(places), 5, 40))
        # The largest group is drawn first, so that the small ones stay visible.
        for group in sorted(groups, key=lambda group: -group.size):
            own, colour = places[members == group.index], COLOURS[group.index % len(COLOURS)]
            # Colours repeat, so the shape distinguishes groups with equal colours.
            marker = MARKERS[group.index // len(COLOURS) % len(MARKERS)]
            points = {"s": size, "color": colour, "marker": marker, "alpha": 0.65, "linewidths": 0}
            axes.scatter(own[:, 0], own[:, 1], rasterized=True, **points)
            if len(own):
                # In a darker shade of the colour, at the median of the events.
                x, y = np.median(own, axis=0).tolist()
                label = axes.text(x, y, group.name, ha="center", va="center", parse_math=False)
                label.set(color=tuple(0.55 * part for part in colour), fontsize=9, fontweight="bold")
                label.set_path_effects([withStroke(linewidth=3, foreground="white")])
        axes.set_axis_off()
        # Distances have the same meaning along both axes.
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_title(title, parse_math=False)
    return figure


_FEWEST = 4


@takes_malformed
def plot_mentions(
    run: str | Path,
    output: str | Path,
    *,
    data: str | Path | None = None,
    types: Sequence[str] = (),
    device: str | None = None,
    malformed: str | None = None,
) -> dict[str, int]:
    """Draw the mentions of unseen types by UMAP of 1 - cos(Q_i, K_j), of queries and keys.

    As in Figures 5 and 6 of Edwards and Ji. Each type has a colour.

    Args:
        run: folder or Hub id of a model of event type induction.
        output: the figure, `.png` or `.svg`; the numbers of mentions go to a file beside it with the suffix
            `.md`.
        data: raw files, built dataset or Hub id of mentions; None uses the bundled samples.
        types: the types to draw; empty for all unseen types.

    Returns:
        The number of mentions of each drawn type.

    Raises:
        UnknownNameError: the data have no unseen type of a name.
        EventformersError: the suffix is unknown, UMAP is not installed, the model has no queries and keys,
            the data cannot be loaded or have fewer than four such mentions, or a file cannot be written.
    """
    try:
        # Takes seconds to import, as it compiles functions.
        from umap import UMAP
    except ModuleNotFoundError as error:
        raise EventformersError(
            'the figure needs UMAP; install it with `pip install "eventformers[figures]"`'
        ) from error
    output = Path(output)
    with one_picture(output):
        encoder = load_encoder(run, device=device)
        rows = unseen_rows(load_data(TASKS["type_induction"], data, None).rows)
        known = sorted({str(row["event_type"]) for row in rows})
        for name in types:
            if name not in known:
                raise UnknownNameError("unseen type", name, known)
        names = sorted(set(types)) or known
        rows = [row for row in rows if row["event_type"] in names]
        if len(rows) < _FEWEST:
            raise EventformersError(
                f"found {counted(len(rows), 'mention')} of unseen types; accepted: {_FEWEST} or more, by "
                "num_seen or seen_types of the built data"
            )
        found = distances(encode_mentions(encoder, rows), "cosine")
        # UMAP takes the nearest entry of a row as the mention itself.
        np.fill_diagonal(found, 0)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="using precomputed metric")
            places = UMAP(
                n_neighbors=min(15, len(rows) - 1), metric="precomputed", random_state=0, n_jobs=1
            ).fit_transform(found)
        members = np.searchsorted(names, [str(row["event_type"]) for row in rows])
        counts = dict(zip(names, np.bincount(members, minlength=len(names)).tolist(), strict=True))
        groups = [EventGroup(place, name, size, []) for place, (name, size) in enumerate(counts.items())]
        title = f"{encoder.name}: {len(rows):,} mentions of {len(names)} unseen types"
        lines = [[cell(name), f"{size:,}"] for name, size in counts.items()]
        text = (
            f"# Mentions by type: {cell(encoder.name)}\n\nThe mentions are placed by UMAP of 1 - cosine of "
            "queries and keys; distances between far points mean little.\n\n"
            f"{table(['type', 'mentions'], lines)}\n"
        )
        write_with_table(draw_groups({title: np.asarray(places)}, members, groups), text, output)
        return counts
