"""Filters of `EventChains` on the documents and events of raw files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from eventformers.datasets_scripts.base import BuildReport
from eventformers.datasets_scripts.chain_readers import (
    REPORTING_PREDICATES,
    EventFilter,
    RawDocument,
    read_documents,
)
from eventformers.datasets_scripts.chain_settings import EventChainsConfig
from eventformers.datasets_scripts.document_splits import DocumentSplits
from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.licenses import is_open
from eventformers.errors import UnknownNameError


def document_splits_of(config: EventChainsConfig) -> DocumentSplits:
    """The splits that the settings request."""
    return DocumentSplits(config.validation_share, config.test_share, config.split_seed)


def kept_documents(
    raw_files: Sequence[Path],
    config: EventChainsConfig,
    report: BuildReport,
    split: str | None = None,
    counts_lines: bool = True,
) -> Iterator[tuple[RawDocument, list[Event]]]:
    """Yield the kept documents and chains, each with its kept events.

    Args:
        raw_files: the files, read in order.
        config: the filters and the shares of the splits.
        report: counts of what is read and skipped; added to.
        split: the split whose documents are read; None reads all documents.
        counts_lines: count lines that contain no document.

    Raises:
        DataFormatError: a line of a raw file cannot be read.
        UnknownNameError: no document has a source that a setting excludes.
    """
    excluded = {name.lower() for name in config.exclude_predicates}
    if "reporting" in excluded:
        excluded |= set(REPORTING_PREDICATES)
    event_filter = EventFilter(frozenset(excluded), config.drop_pronoun_only)
    splits = document_splits_of(config)
    skipped = report.skipped
    sources: set[str] = set()
    longest = 0

    def keep(document_id: str, source: str) -> bool:
        sources.add(source)
        return split is None or splits.split_of(document_id) == split

    skipped_lines = skipped if counts_lines else skipped.uncounted()
    for document in read_documents(raw_files, skipped, config.predicate_form, keep, skipped_lines):
        report.read["chains" if document.chain_id else "documents"] += 1
        report.read["events"] += len(document.events)
        if not document.events:
            skipped["document_without_events"] += 1
            continue
        if document.source in config.exclude_source:
            skipped["document_of_excluded_source"] += 1
            continue
        if config.open_licenses_only and not is_open(document.license):
            skipped["document_without_open_license"] += 1
            continue
        kept = event_filter.apply(document, skipped)
        if not kept:
            skipped["document_without_kept_events"] += 1
            continue
        longest = max(longest, len(kept))
        yield document, kept
    for name in config.exclude_source:
        if name not in sources:
            raise UnknownNameError("source in exclude_source", name, sources)
    report.statistics["longest_document_events"] = longest
