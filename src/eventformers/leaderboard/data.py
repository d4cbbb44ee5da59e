"""Selection of one version of the data for each column of a leaderboard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from eventformers.errors import EventformersError
from eventformers.leaderboard.sources import UNKNOWN_DATA, Measurement

COLUMN = ["task", "split", "metric"]
"""The attributes that identify a column of a leaderboard."""

_TOLD_SOURCES = 3


def measurement_table(measurements: Iterable[Measurement]) -> pd.DataFrame:
    """Make a table with a row for each measurement and a column for each attribute."""
    table = pd.DataFrame([{**vars(one), "data": one.data} for one in measurements], dtype=object)
    return table if table.empty else table.astype({"value": float})


def same_data(
    found: pd.DataFrame, fingerprints: Sequence[str] = (), revisions: Sequence[str] = ()
) -> tuple[pd.DataFrame, list[str]]:
    """Choose the measurements of one version of the data for each task and split.

    A result with only a revision has the fingerprint of other results of that revision. If a chosen
    fingerprint or revision occurs in a column, other versions are left out of that column.

    Args:
        found: a table from `measurement_table`.
        fingerprints: first digits of chosen fingerprints; `unknown` for results without one.
        revisions: first digits of chosen revisions.

    Returns:
        The measurements, with one name for their data, and a sentence for each version left out.

    Raises:
        EventformersError: a column has several versions of the data, or a choice matches nothing.
    """
    matched = _matched(found, fingerprints, revisions)
    if missing := [choice for choice in (*fingerprints, *revisions) if choice not in matched]:
        known = {*found.data, *found.dataset_revision.dropna()}
        raise EventformersError(
            f"found no result on data {', '.join(missing)}; accepted: one of {', '.join(sorted(known))}"
        )
    of_fingerprint = found.data.where(found.fingerprint.notna())
    of_revision = of_fingerprint.groupby([found[name] for name in (*COLUMN, "dataset_revision")])
    names = of_fingerprint.fillna(of_revision.transform("last")).fillna(found.data)
    kept: list[pd.DataFrame] = []
    left_out: list[str] = []
    for (task, split, _), own in found.groupby(COLUMN, sort=False):
        versions = dict(list(own.groupby(names, sort=False)))
        chosen = [name for name, one in versions.items() if _matched(one, fingerprints, revisions)]
        shown = chosen or list(versions)
        if len(shown) > 1:
            told = "; ".join(_version_text(name, versions[name]) for name in shown)
            raise EventformersError(
                f"{task} ({split}): found results on different data, which cannot be compared: {told}; "
                "choose one by --fingerprint or --dataset-revision, or pass other folders"
            )
        kept.append(versions[shown[0]].assign(data=shown[0]))
        left_out += [
            f"{task} ({split}): left out, on other data: {_version_text(name, of_version)}"
            for name, of_version in versions.items()
            if name not in shown
        ]
    return pd.concat(kept), left_out


def _matched(found: pd.DataFrame, fingerprints: Sequence[str], revisions: Sequence[str]) -> set[str]:
    """Return the choices that match the data of at least one measurement."""
    known = found.fingerprint.fillna(UNKNOWN_DATA)
    short = tuple(found.data)
    return {
        *(name for name in fingerprints if known.str.startswith(name).any() or name.startswith(short)),
        *(name for name in revisions if found.dataset_revision.fillna("").str.startswith(name).any()),
    }


def _version_text(name: str, found: pd.DataFrame) -> str:
    """Describe a version of the data: its name, its size and its runs."""
    first = found.iloc[0]
    facts = [f"{first.rows:,} rows" if first.rows else "", first.origin or ""]
    told = ", ".join(filter(None, facts))
    label = name if name == UNKNOWN_DATA or name.startswith("revision ") else f"fingerprint {name}"
    sources = list(found.model.unique())
    more = f" and {len(sources) - _TOLD_SOURCES} more" if len(sources) > _TOLD_SOURCES else ""
    return f"{label}{f' ({told})' if told else ''} by {', '.join(sources[:_TOLD_SOURCES])}{more}"
