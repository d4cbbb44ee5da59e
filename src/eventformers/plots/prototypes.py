"""Figure of a model's events in two dimensions by prototype, with each prototype's nearest events."""

from __future__ import annotations

import hashlib
import heapq
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
import numpy.typing as npt
from datasets import Dataset
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from sklearn.decomposition import PCA
from transformers import AutoModelForPreTraining, PreTrainedModel

from eventformers.datasets_scripts.building import load_built
from eventformers.datasets_scripts.events import Event, event_text
from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.errors import EventformersError
from eventformers.files import write_text
from eventformers.inference.encode import load_encoder
from eventformers.loading.models import faults_told, load_whole
from eventformers.model_cards.markdown import cell, table
from eventformers.plots.figures import check_suffix, one_picture, write_figure

NEAREST = 5
"""Number of events to list for each prototype, as in the paper."""

_MARKERS = "os^DvP"
_BLOCK_DOCUMENTS = 1_000

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Prototype:
    """A prototype of a model and its events.

    Attributes:
        index: its row in the model's prototypes, from 0.
        size: number of drawn events that belong to it.
        nearest: texts of the nearest of these events, nearest first.
    """

    index: int
    size: int
    nearest: list[str]


@takes_malformed
def plot_prototypes(
    run: str | Path,
    output: str | Path,
    *,
    data: str | Path | None = None,
    num_events: int = 3000,
    device: str | None = None,
    seed: int = 0,
    malformed: str | None = None,
) -> list[Prototype]:
    """Draw a model's events coloured by prototype, and list each prototype's nearest events in a table.

    Each event belongs to the prototype with the highest cosine. The figure is a principal component analysis
    of the vectors scaled to length 1, where distances depend only on cosines; stars are the prototypes in the
    same plane. After Figure 4, Table 4 and Table 8 of SWCC (Gao et al., ACL 2022), which draw 3,000 events.

    Args:
        run: folder or Hub id of a model with prototypes.
        output: the figure, `.png` or `.svg`; the table goes to a file beside it with the suffix `.md`.
        data: folder of raw files, built dataset or Hub id of event chains; None uses the bundled samples.
        num_events: number of distinct events to draw at random; all if there are fewer.
        device: a torch device; None uses an accelerator if there is one.
        seed: seed of the choice of events.
        malformed: `skip` skips, counts and lists malformed parts of raw files; `error` raises an error for
            the first one; None uses the active policy, by default `error`.

    Returns:
        Every prototype, in the order of the model.

    Raises:
        EventformersError: the suffix is unknown, the folder has no model or one without prototypes, the data
            cannot be loaded or has fewer than three distinct events, or a file cannot be written.
    """
    output = Path(output)
    check_suffix(output)
    if num_events < 3:
        raise EventformersError(f"{num_events} events cannot be drawn in a plane; accepted: 3 or more")
    with one_picture(output):
        encoder = load_encoder(run, device=device)
        prototypes = _load_prototypes(str(run))
        documents = load_built(data, "documents")["train"]
        events, distinct = sample_events(documents, num_events, seed)
        if len(events) < 3:
            raise EventformersError(
                f"{data or 'the samples'}: found {len(events)} distinct events; accepted: 3 or more"
            )
        vectors = encoder.encode(events, normalize=True)
        texts = [event_text(event) for event in events]
        cosines = vectors @ prototypes.T
        members = cosines.argmax(axis=1)
        described = describe_prototypes(cosines, members, texts)
        figure = _draw(vectors, prototypes, members, title=encoder.name)
        try:
            write_figure(figure, output)
            write_text(
                output.with_suffix(".md"), _nearest_table(described, encoder.name, len(events), distinct)
            )
        except OSError as error:
            raise EventformersError(f"cannot write {output}: {error.strerror}") from error
        return described


def sample_events(documents: Dataset, number: int, seed: int) -> tuple[list[Event], int]:
    """Sample distinct events uniformly, whatever their frequency, in memory for `number` events.

    A hash of text and seed gives every event a pseudo-random number, and the smallest numbers win. So
    repetitions and the order of documents have no effect. The number of distinct events is exact up to
    `number`, and beyond that an estimate from the largest of the winning numbers.

    Args:
        documents: rows with a column `events`.
        number: number of events to draw.
        seed: seed of the draw.

    Returns:
        The events, and the number of distinct events.
    """
    key = seed.to_bytes(8, "little", signed=True)
    # A heap of negated draws: its head is the largest draw of the winners.
    winners: list[tuple[int, str, str, str]] = []
    drawn: set[tuple[str, str, str]] = set()
    for event in _events(documents):
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


def describe_prototypes(
    cosines: Array, members: npt.NDArray[np.int64], texts: list[str], nearest: int = NEAREST
) -> list[Prototype]:
    """Compute the size and the nearest events of each prototype.

    Args:
        cosines: cosines of events with prototypes, `(N, M)`.
        members: the prototype of each event, `(N,)`.
        texts: the events' texts.
        nearest: number of texts to list for each prototype.
    """
    described = []
    for index in range(cosines.shape[1]):
        own = np.flatnonzero(members == index)
        order = own[np.argsort(-cosines[own, index], kind="stable")][:nearest]
        described.append(Prototype(index, len(own), [texts[position] for position in order]))
    return described


def _events(documents: Dataset) -> Iterable[Event]:
    for start in range(0, len(documents), _BLOCK_DOCUMENTS):
        for events in documents[start : start + _BLOCK_DOCUMENTS]["events"]:
            yield from events


def _load_prototypes(run: str) -> Array:
    """Load the model's prototypes, scaled to length 1, `(M, d)`."""
    with faults_told(run):
        try:
            head = load_whole(AutoModelForPreTraining, run)
        except (OSError, ValueError) as error:
            raise EventformersError(_without_prototypes(run)) from error
    layer = getattr(head, "prototypes", None)
    if layer is None:
        raise EventformersError(_without_prototypes(run))
    _warn_untrained(head, run)
    prototypes = layer.weight.detach().float().cpu().numpy()
    return prototypes / np.maximum(np.linalg.norm(prototypes, axis=1, keepdims=True), 1e-12)


def _without_prototypes(run: str) -> str:
    return (
        f"{run}: the model has no prototypes; accepted: a model of a method that "
        "has them, with its training head, as `eventformers train` writes it"
    )


def _warn_untrained(head: PreTrainedModel, run: str) -> None:
    if getattr(head.config, "cluster_weight", 1) == 0:
        warnings.warn(
            f"{run} was trained with cluster_weight=0: its prototypes are random directions", stacklevel=3
        )


def _draw(vectors: Array, prototypes: Array, members: npt.NDArray[np.int64], title: str) -> Figure:
    """Scatter events and prototypes on the first two principal components of the events."""
    analysis = PCA(n_components=2, svd_solver="full")
    points = analysis.fit_transform(vectors)
    stars = analysis.transform(prototypes)
    colours = matplotlib.color_sequences["petroff10"]
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    axes = figure.add_subplot()
    size = float(np.clip(30_000 / len(points), 5, 40))
    # The largest group is drawn first, so that the small ones stay visible.
    for index in np.argsort(-np.bincount(members, minlength=len(prototypes)), kind="stable"):
        own = points[members == index]
        axes.scatter(
            own[:, 0],
            own[:, 1],
            s=size,
            color=colours[index % len(colours)],
            marker=_marker(int(index), len(colours)),
            alpha=0.65,
            linewidths=0,
            rasterized=True,
        )
    for index, (x, y) in enumerate(stars):
        _draw_star(axes, x, y, index, colours[index % len(colours)])
    shares = np.bincount(members, minlength=len(prototypes)) / len(members)
    _draw_legend(figure, axes, shares, colours)
    for axis, ratio, name in zip(
        (axes.xaxis, axes.yaxis), analysis.explained_variance_ratio_, ("first", "second"), strict=True
    ):
        axis.set_label_text(f"{name} principal component ({ratio:.1%} of the variance)")
    axes.set_title(f"{title}: {len(points):,} events by prototype")
    axes.spines[["top", "right"]].set_visible(False)
    # Distances have the same meaning along both components.
    axes.set_aspect("equal", adjustable="datalim")
    return figure


def _draw_star(axes: Axes, x: float, y: float, index: int, colour: tuple[float, float, float]) -> None:
    axes.plot(x, y, "*", markersize=17, color=colour, markeredgecolor="black", markeredgewidth=1.2, zorder=3)
    label = axes.annotate(
        str(index), (x, y), xytext=(7, 7), textcoords="offset points", fontweight="bold", zorder=4
    )
    label.set_path_effects([withStroke(linewidth=3, foreground="white")])


def _draw_legend(
    figure: Figure, axes: Axes, shares: npt.NDArray[np.float64], colours: list[tuple[float, float, float]]
) -> None:
    # Empty plots give the legend opaque marks of a fixed size.
    handles = [
        axes.plot(
            [],
            [],
            _marker(index, len(colours)),
            color=colours[index % len(colours)],
            markersize=8,
            label=f"{index}  ({share:.1%})",
        )[0]
        for index, share in enumerate(shares)
    ]
    handles += axes.plot(
        [], [], "*", color="white", markeredgecolor="black", markersize=13, label="prototype"
    )
    figure.legend(
        handles=handles,
        loc="outside right upper",
        title="prototype (share)",
        frameon=False,
        ncols=1 + len(shares) // 25,
    )


def _marker(index: int, colours: int) -> str:
    """Marker of a prototype: colours repeat, so the shape distinguishes those with equal colours."""
    return _MARKERS[index // colours % len(_MARKERS)]


def _nearest_table(prototypes: list[Prototype], name: str, drawn: int, distinct: int) -> str:
    rows = [
        [
            str(prototype.index),
            f"{prototype.size:,}",
            f"{prototype.size / drawn:.1%}",
            "<br>".join(map(cell, prototype.nearest)) or "–",
        ]
        for prototype in prototypes
    ]
    of = f"all {drawn:,}" if drawn == distinct else f"{drawn:,} of about {distinct:,}"
    return (
        f"# Events by prototype: {cell(name)}\n\n"
        f"Each event belongs to the prototype with the highest cosine. The figure shows {of} distinct "
        f"events; the table lists the {NEAREST} nearest of each prototype, nearest first.\n\n"
        f"{table(['prototype', 'events', 'share', 'nearest events'], rows)}\n"
    )
