"""Figure of mentions of unseen types by a model's queries and keys (Edwards and Ji, Appendix D)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.data import load_data
from eventformers.evaluation.tasks import TASKS
from eventformers.evaluation.tasks.induction import unseen_rows
from eventformers.inference.encode import load_encoder
from eventformers.inference.induction.mention_distances import distances
from eventformers.inference.induction.mention_encoding import encode_mentions
from eventformers.markdown import cell, table
from eventformers.plots.events import EventGroup, draw_groups
from eventformers.plots.figures import check_suffix, one_picture, write_with_table

_FEWEST = 4


@takes_malformed
def plot_mentions(
    run: str | Path,
    output: str | Path,
    *,
    data: str | Path | None = None,
    types: Sequence[str] = (),
    device: str | None = None,
    seed: int = 0,
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
        malformed: `skip` skips, counts and lists malformed parts of raw files; `error` raises an error for
            the first one; None uses the active policy, by default `error`.

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
    check_suffix(output)
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
                f"found {len(rows)} mentions of unseen types; accepted: {_FEWEST} or more"
            )
        found = distances(encode_mentions(encoder, rows), "cosine")
        # UMAP takes the nearest entry of a row as the mention itself.
        np.fill_diagonal(found, 0)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="using precomputed metric")
            places = UMAP(
                n_neighbors=min(15, len(rows) - 1), metric="precomputed", random_state=seed, n_jobs=1
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
