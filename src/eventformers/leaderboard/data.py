"""Which measurements of a leaderboard are of the same data, and the refusal to mix others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eventformers.errors import EventformersError
from eventformers.leaderboard.sources import UNKNOWN_DATA, Measurement

_TOLD_SOURCES = 3


def same_data(
    measurements: Sequence[Measurement], fingerprints: Sequence[str] = (), revisions: Sequence[str] = ()
) -> tuple[list[Measurement], list[str]]:
    """The measurements of one version of the data for each task and split.

    A result that tells the revision alone is of the data whose fingerprint another result of that revision
    tells. Where a fingerprint or a revision is chosen that a column has, its others are left out.

    Args:
        measurements: the measurements.
        fingerprints: first digits of chosen fingerprints; `unknown` for results that tell none.
        revisions: first digits of chosen revisions.

    Returns:
        The measurements, and a sentence for each column some of which are left out.

    Raises:
        EventformersError: a column has several versions of the data, or a choice matches nothing.
    """
    columns: dict[tuple[str, str, str], list[Measurement]] = {}
    for one in measurements:
        columns.setdefault((one.task, one.split, one.metric), []).append(one)
    _check_choices(measurements, fingerprints, revisions)
    kept: list[Measurement] = []
    left_out: list[str] = []
    for (task, split, _), own in columns.items():
        versions = _versions(own)
        chosen = [name for name, one in versions.items() if _choices(one, fingerprints, revisions)]
        shown = {name: versions[name] for name in chosen or versions}
        if len(shown) > 1:
            told = "; ".join(_version_text(name, of_version) for name, of_version in shown.items())
            raise EventformersError(
                f"{task} ({split}) was measured on different data, which no column can compare: {told}; "
                "choose one by --fingerprint or --dataset-revision, or give other folders"
            )
        kept += [one for of_version in shown.values() for one in of_version]
        left_out += [
            f"{task} ({split}): left out, on other data: {_version_text(name, of_version)}"
            for name, of_version in versions.items()
            if name not in shown
        ]
    return kept, left_out


def _check_choices(
    measurements: Sequence[Measurement], fingerprints: Sequence[str], revisions: Sequence[str]
) -> None:
    """Refuse a choice that is of no data."""
    matched = _choices(measurements, fingerprints, revisions)
    missing = [choice for choice in (*fingerprints, *revisions) if choice not in matched]
    if missing:
        known = {one.data for one in measurements}
        known |= {one.dataset_revision for one in measurements if one.dataset_revision}
        raise EventformersError(
            f"found no result on data {', '.join(missing)}; accepted: one of {', '.join(sorted(known))}"
        )


def _versions(measurements: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    """The measurements of a column by the short names of their data."""
    by_revision = {one.dataset_revision: one.data for one in measurements if one.fingerprint}
    versions: dict[str, list[Measurement]] = {}
    for one in measurements:
        known = by_revision.get(one.dataset_revision) if one.dataset_revision else None
        versions.setdefault(one.data if one.fingerprint else known or one.data, []).append(one)
    return versions


def _choices(
    measurements: Iterable[Measurement], fingerprints: Sequence[str], revisions: Sequence[str]
) -> set[str]:
    """Those of the choices that are of the data of some of the measurements."""
    found: set[str] = set()
    for one in measurements:
        fingerprint, revision = one.fingerprint or UNKNOWN_DATA, one.dataset_revision or ""
        found |= {name for name in fingerprints if fingerprint.startswith(name) or name.startswith(one.data)}
        found |= {name for name in revisions if revision.startswith(name)}
    return found


def _version_text(name: str, measurements: Sequence[Measurement]) -> str:
    """A version of the data, its size, and which runs have it."""
    first = measurements[0]
    facts = [f"{first.rows:,} rows" if first.rows else "", first.origin or ""]
    told = ", ".join(filter(None, facts))
    label = name if name == UNKNOWN_DATA or name.startswith("revision ") else f"fingerprint {name}"
    sources = list(dict.fromkeys(one.model for one in measurements))
    more = f" and {len(sources) - _TOLD_SOURCES} more" if len(sources) > _TOLD_SOURCES else ""
    return f"{label}{f' ({told})' if told else ''} by {', '.join(sources[:_TOLD_SOURCES])}{more}"
