"""Windows of whole documents, in addition to chains of protagonists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from datasets import Dataset, DatasetDict, concatenate_datasets

from eventformers.datasets_scripts.chains import distinct_events
from eventformers.datasets_scripts.document_splits import RepeatedDocuments
from eventformers.datasets_scripts.event_chains import EventChainsConfig
from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.datasets_scripts.loading import built_report, load_built
from eventformers.errors import EventformersError
from eventformers.trainers.chain_rows import read_chains
from eventformers.trainers.data_reports import Arrays, cached_arrays

_SPLIT = "train"
MOST_REPEATS = 20


def load_training_documents(data: str | None, builder: str, settings: Mapping[str, Any]) -> Dataset:
    """Load the documents of the split train of `chains`, including documents without chains.

    Documents that were built without a split are split like their chains; repeated documents and the contexts
    of cloze files, which give no chains, are dropped.

    Raises:
        EventformersError: built documents belong to another split, or come from other files than the chains;
            or an error of `load_built`.
    """
    documents, of_documents, of_chains = _load(data, builder, {**settings, "document_split": _SPLIT})
    built_with = of_documents.get("settings", {})
    if built_with.get("document_split") == _SPLIT:
        return documents
    files, chain_files = map(_raw_files, (of_documents, of_chains))
    cloze_sources = _cloze_sources(of_documents, of_chains)
    if (
        built_with.get("document_split") is not None
        or not chain_files <= files
        or len(cloze_sources) < len(files - chain_files)
    ):
        raise EventformersError(
            f"{data}, documents: built with document_split={built_with.get('document_split')} or from other "
            f"files than the chains; accepted: built with --set document_split={_SPLIT}, or document_share=0"
        )
    config = EventChainsConfig(**of_chains["settings"])
    repeats = RepeatedDocuments()
    for row in documents:
        if len(row["events"]) >= config.min_chain_length:
            repeats.add(row["document_id"], row["events"])
    return documents.filter(
        lambda row: (
            row["source"] not in cloze_sources
            and config.splits.split_of(row["document_id"]) == _SPLIT
            and not repeats.is_repeat(row["document_id"], row["events"])
        )
    )


def _load(
    data: str | None, builder: str, settings: Mapping[str, Any]
) -> tuple[Dataset, dict[str, Any], dict[str, Any]]:
    """Load the documents of the split train, their build report and that of the chains."""
    documents = cast(DatasetDict, load_built(data, "documents", builder=builder, **settings))[_SPLIT]
    of_documents, of_chains = (
        built_report(data, config, builder=builder, **settings) for config in ("documents", "chains")
    )
    return documents, of_documents, of_chains


def _raw_files(report: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(file["name"], file["sha256"]) for file in report["raw_files"]}


def _cloze_sources(of_documents: Mapping[str, Any], of_chains: Mapping[str, Any]) -> set[str]:
    """Return the sources of the contexts of cloze files, whose files give documents but no chains."""
    names = (name for name, _ in _raw_files(of_documents) - _raw_files(of_chains))
    return {Path(name).stem for name in names if name.endswith(".txt")}


def load_cloze_contexts(data: str | None, builder: str, settings: Mapping[str, Any]) -> Dataset:
    """Load the contexts of the cloze files of Weber et al., one document for each item.

    Held-out events and wrong candidates are not among them.

    Returns:
        The documents; none if the data have no cloze files, or documents that were built with a split.

    Raises:
        EventformersError: an error of `load_built`.
    """
    # Documents that were built with a split have none, and need no warning about their setting.
    settings = {name: value for name, value in settings.items() if name != "document_split"}
    documents, of_documents, of_chains = _load(data, builder, settings)
    sources = sorted(_cloze_sources(of_documents, of_chains))
    return documents.select(np.flatnonzero(np.isin(documents["source"], sources)))


def with_windows(
    chains: Dataset,
    sources: Sequence[tuple[Dataset, float]],
    length: int,
    least: int,
) -> list[tuple[Dataset, float]]:
    """Add windows of documents to chains.

    The windows of a document are consecutive and disjoint and hold its distinct events of all protagonists.

    Args:
        chains: rows with a column `events`.
        sources: documents, rows with a column `events`, and the share of their windows among all rows; the
            rest are chains.

    Returns:
        The chains, then the windows of each source, rows with only the column `events`, each with their
        share. Rows whose share is 0 are left out.
    """
    chains = chains.select_columns(["events"])

    def cut(batch: dict[str, list[list[Event]]]) -> dict[str, list[Sequence[Event]]]:
        windows: list[Sequence[Event]] = []
        for events in map(distinct_events, batch["events"]):
            windows += (events[start : start + length] for start in range(0, len(events), length))
        return {"events": [window for window in windows if len(window) >= least]}

    parts = [(chains, 1 - sum(share for _, share in sources))]
    for documents, share in sources:
        windows = documents.select_columns(["events"]).map(cut, batched=True, features=chains.features)
        parts.append((windows, share))
    return [(rows if share else rows.select([]), share) for rows, share in parts]


def times_of_rows(sizes: Sequence[int], shares: Sequence[float], seed: int) -> list[npt.NDArray[np.int64]]:
    """Return how often each row of each source occurs in an epoch, so that the sources have their shares.

    Every row occurs at least once. Rows of sources that are too few for their share are repeated, at most
    `MOST_REPEATS` times.

    Args:
        sizes: number of rows of each source.
        shares: share of each source among all rows; the shares of sources without rows go to all others.
        seed: seed of which rows occur once more than others.
    """
    total = max((size / share for size, share in zip(sizes, shares, strict=True) if size), default=0)
    draws = np.random.default_rng(seed)
    times = []
    for size, share in zip(sizes, shares, strict=True):
        count = min(max(round(total * share), size), size * MOST_REPEATS)
        whole, more = divmod(count, max(size, 1))
        of_rows = np.full(size, whole)
        of_rows[draws.permutation(size)[:more]] += 1
        times.append(of_rows)
    return times


def read_chains_once(
    chains: Dataset,
    data: str | None,
    builder: str,
    settings: Mapping[str, Any],
    *,
    share: float,
    cloze_share: float,
    length: int,
    seed: int,
) -> Arrays:
    """Read the training chains and the windows of documents, or take them from the cache.

    Args:
        chains: rows with a column `events`.
        data: their raw or built data, which has the documents.
        share: share of windows among all rows; 0 reads no documents.
        cloze_share: share of the contexts of cloze files among the windows, if the data have such files.

    Returns:
        The arrays of `ChainRows`, and `sizes`, the numbers of chains and of windows of each kind of document.
    """
    chains = chains.select_columns(["events"])
    least = EventChainsConfig(**settings).min_chain_length
    decides: list[object] = [dataset_fingerprint(chains), share, MOST_REPEATS]
    if share:
        # What the result of `load_training_documents` depends on.
        documents, *reports = _load(data, builder, {**settings, "document_split": _SPLIT})
        parts = [report.get(part) for report in reports for part in ("settings", "raw_files")]
        decides += [dataset_fingerprint(documents), *parts, length, least, seed]
    sources: list[tuple[Dataset, float]] = []
    if share and cloze_share:
        contexts = load_cloze_contexts(data, builder, settings)
        decides += [dataset_fingerprint(contexts), cloze_share]
        if len(contexts):
            sources.append((contexts, share * cloze_share))

    def read() -> Arrays:
        if share:
            documents = load_training_documents(data, builder, settings)
            sources.append((documents, share - sum(of_contexts for _, of_contexts in sources)))
        rows, shares = zip(*with_windows(chains, sources, length, least), strict=True)
        sizes = [len(part) for part in rows]
        times = np.concatenate(times_of_rows(sizes, shares, seed))
        return {**read_chains(concatenate_datasets(rows)), "times": times, "sizes": np.array(sizes)}

    return cached_arrays("chains_and_windows", decides, read)
