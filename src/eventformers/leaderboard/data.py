"""Which measurements of a leaderboard are of the same data, and the refusal to mix others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from eventformers.errors import EventformersError
from eventformers.leaderboard.sources import UNKNOWN_DATA, Measurement

COLUMN = ["task", "split", "metric"]
"""What makes a column of a leaderboard."""

_TOLD_SOURCES = 3


def measurement_table(measurements: Iterable[Measurement]) -> pd.DataFrame:
    """Make a table with the attributes of a measurement in each row, in columns of their names."""
    table = pd.DataFrame([{**vars(one), "data": one.data} for one in measurements], dtype=object)
    return table if table.empty else table.astype({"value": float})


def same_data(
    found: pd.DataFrame, fingerprints: Sequence[str] = (), revisions: Sequence[str] = ()
) -> tuple[pd.DataFrame, list[str]]:
    """Choose the measurements of one version of the data for each task and split.

    A result that tells the revision alone is of the data whose fingerprint another result of that revision
    tells. Where a fingerprint or a revision is chosen that a column has, its others are left out.

    Args:
        found: a table as of `measurement_table`.
        fingerprints: first digits of chosen fingerprints; `unknown` for results that tell none.
        revisions: first digits of chosen revisions.

    Returns:
        The measurements, under one name of their data, and a sentence for each version that is left out.

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
                f"{task} ({split}) was measured on different data, which no column can compare: {told}; "
                "choose one by --fingerprint or --dataset-revision, or give other folders"
            )
        kept.append(versions[shown[0]].assign(data=shown[0]))
        left_out += [
            f"{task} ({split}): left out, on other data: {_version_text(name, of_version)}"
            for name, of_version in versions.items()
            if name not in shown
        ]
    return pd.concat(kept), left_out


def _matched(found: pd.DataFrame, fingerprints: Sequence[str], revisions: Sequence[str]) -> set[str]:
    """Those of the choices that are of the data of some of the measurements."""
    known = found.fingerprint.fillna(UNKNOWN_DATA)
    short = tuple(found.data)
    return {
        *(name for name in fingerprints if known.str.startswith(name).any() or name.startswith(short)),
        *(name for name in revisions if found.dataset_revision.fillna("").str.startswith(name).any()),
    }


def _version_text(name: str, found: pd.DataFrame) -> str:
    """A version of the data, its size, and which runs have it."""
    first = found.iloc[0]
    facts = [f"{first.rows:,} rows" if first.rows else "", first.origin or ""]
    told = ", ".join(filter(None, facts))
    label = name if name == UNKNOWN_DATA or name.startswith("revision ") else f"fingerprint {name}"
    sources = list(found.model.unique())
    more = f" and {len(sources) - _TOLD_SOURCES} more" if len(sources) > _TOLD_SOURCES else ""
    return f"{label}{f' ({told})' if told else ''} by {', '.join(sources[:_TOLD_SOURCES])}{more}"
