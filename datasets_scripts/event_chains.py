"""Documents of events, and which events occur together in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import datasets
import duckdb
import pyarrow as pa
from datasets import List, Value

from eventformers.datasets_scripts import chain_readers, cooccurrence, licenses
from eventformers.datasets_scripts.base import EventDatasetBuilder, JsonValue
from eventformers.datasets_scripts.chain_readers import (
    EventFilter,
    RawDocument,
    is_json_lines,
    read_documents,
)
from eventformers.datasets_scripts.cooccurrence import CooccurrenceCounter
from eventformers.datasets_scripts.events import EVENT_FEATURE, Event
from eventformers.datasets_scripts.licenses import is_open
from eventformers.errors import EventformersError, UnknownNameError

_DOCUMENTS_PER_TABLE = 500
_COUNTING_SETTINGS = frozenset({"min_event_frequency", "min_pair_frequency", "window", "max_co_events"})
_RESOURCE_SETTINGS = frozenset({"memory_limit", "threads", "temporary_directory"})


def _names(value: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """A list of names, also from one text that separates them by commas; sorted, without repeats."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(sorted({part.strip() for part in parts if part.strip()}))


@dataclass
class EventChainsConfig(datasets.BuilderConfig):
    """What is kept of the raw documents, and how co-occurrence is counted.

    The first five decide on both configs, the rest on `cooccurrence` alone.

    Args:
        exclude_source: sources left out.
        open_licenses_only: whether sources that may not be published by anyone are left out
            (`eventformers.datasets_scripts.licenses.OPEN_LICENSES`).
        exclude_predicates: predicates left out: whole, by their first word or by their lemma. The word
            `reporting` stands for `REPORTING_PREDICATES`.
        drop_pronoun_only: whether events go whose arguments are all pronouns.
        predicate_form: `surface`, the predicate's own words, or `lemma`, where the raw file has one.
        min_event_frequency: events with fewer occurrences are left out; SWCC takes 3.
        min_pair_frequency: pairs in fewer documents are left out.
        window: the largest distance of two events in events of their document; None takes whole documents.
            The default takes nearly all news articles whole and keeps the cost of a book linear.
        max_co_events: the most co-events of an event, the most frequent first; None keeps all.
        memory_limit: what counting may hold in memory before it spills to disk.
        threads: threads of counting; None takes all processors.
        temporary_directory: where counting spills to; None takes the system's.
    """

    exclude_source: tuple[str, ...] = ()
    open_licenses_only: bool = False
    exclude_predicates: tuple[str, ...] = ()
    drop_pronoun_only: bool = False
    predicate_form: str = "surface"
    min_event_frequency: int = 1
    min_pair_frequency: int = 1
    window: int | None = 100
    max_co_events: int | None = 64
    memory_limit: str = "2GB"
    threads: int | None = None
    temporary_directory: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.exclude_source = _names(self.exclude_source)
        self.exclude_predicates = _names(self.exclude_predicates)
        if self.predicate_form not in chain_readers.PREDICATE_FORMS:
            raise UnknownNameError("predicate form", str(self.predicate_form), chain_readers.PREDICATE_FORMS)
        for name in ("min_event_frequency", "min_pair_frequency", "window", "max_co_events", "threads"):
            value = getattr(self, name)
            optional = name in ("window", "max_co_events", "threads")
            if value is None and optional:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                accepted = "a whole number of 1 or more" + (" or none" if optional else "")
                raise EventformersError(f"setting {name}: found {value!r}; accepted: {accepted}")
        for name in ("open_licenses_only", "drop_pronoun_only"):
            if not isinstance(getattr(self, name), bool):
                raise EventformersError(
                    f"setting {name}: found {getattr(self, name)!r}; accepted: true or false"
                )
        try:
            cooccurrence.bytes_of(self.memory_limit)
        except ValueError as error:
            raise EventformersError(f"setting memory_limit: {error}") from error


class EventChains(EventDatasetBuilder):
    """Events of documents in their order (`documents`), and for every event those that share documents with
    it (`cooccurrence`).

    Raw files: `*.jsonl` or `*.jsonl.gz` with one document a line, and the narrative cloze files of Weber et
    al. 2018 (`*mcnc*.txt`), of which only the context events are read.
    """

    NAME = "event_chains"
    TITLE = "Event chains"
    SUMMARY = (
        "Events (subject, predicate, object) of documents in their order, and for every distinct event the"
        " events that occur in the same documents with the number of those documents."
    )
    CITATION = (
        "Gao et al.: Improving Event Representation via Simultaneous Weakly Supervised Contrastive Learning"
        " and Clustering, ACL 2022 (co-occurrence as supervision)."
    )
    SPLITS = ("train",)
    SAMPLES_FOLDER = "chains"
    RAW_FILES: ClassVar[dict[str, str]] = dict.fromkeys(
        ("documents", "cooccurrence"), "*.jsonl, *.jsonl.gz or *mcnc*.txt"
    )
    MODULES: ClassVar[tuple[ModuleType, ...]] = (chain_readers, cooccurrence, licenses)
    UNDECIDING_SETTINGS: ClassVar[dict[str, frozenset[str]]] = {
        "documents": _COUNTING_SETTINGS | _RESOURCE_SETTINGS,
        "cooccurrence": _RESOURCE_SETTINGS,
    }
    BUILDER_CONFIG_CLASS = EventChainsConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        EventChainsConfig(name="documents"),
        EventChainsConfig(name="cooccurrence"),
    ]
    DEFAULT_CONFIG_NAME = "documents"

    @classmethod
    def find_raw_files(cls, config_name: str, paths: list[Path]) -> dict[str, list[Path]]:
        """JSON lines and narrative cloze files straight in the folders; files given by themselves as they
        are."""
        found: list[Path] = []
        for path in paths:
            if path.is_dir():
                inside = sorted(path.iterdir())
                found += [item for item in inside if item.is_file() and _is_raw_name(item)]
            else:
                found.append(path)
        return {"train": list(dict.fromkeys(found))} if found else {}

    @classmethod
    def features(cls, config_name: str) -> datasets.Features:
        """The columns of a config."""
        if config_name == "documents":
            texts = dict.fromkeys(("document_id", "source", "license"), Value("string"))
            return datasets.Features({**texts, "events": List(EVENT_FEATURE)})
        return datasets.Features(
            {
                "event": EVENT_FEATURE,
                "co_events": List(EVENT_FEATURE),
                "frequencies": List(Value("int32")),
            }
        )

    def tables(self) -> Iterator[pa.Table]:
        """The rows as tables; fills `self.report` on the way.

        Raises:
            DataFormatError: a line of a raw file cannot be read.
            EventformersError: counting found too little memory or disk.
        """
        if self.config.name == "documents":
            yield from self._document_tables()
            return
        settings = {name: getattr(self.config, name) for name in _COUNTING_SETTINGS | _RESOURCE_SETTINGS}
        try:
            with CooccurrenceCounter(**settings) as counter:
                for _, kept in self._documents():
                    counter.add(kept)
                yield from counter.tables()
                self.report.statistics.update(dataclasses.asdict(counter.statistics))
        except duckdb.Error as error:
            reason = str(error).split("\n", 1)[0]
            raise EventformersError(
                f"counting co-occurrence with memory_limit={self.config.memory_limit} failed: {reason};"
                " a higher memory_limit, a smaller window or another temporary_directory may help"
            ) from error

    def _document_tables(self) -> Iterator[pa.Table]:
        schema = self.features("documents").arrow_schema
        rows: list[dict[str, str | list[Event]]] = []
        for document, kept in self._documents():
            rows.append(
                {
                    "document_id": document.document_id,
                    "source": document.source,
                    "license": document.license,
                    "events": kept,
                }
            )
            if len(rows) == _DOCUMENTS_PER_TABLE:
                yield pa.Table.from_pylist(rows, schema=schema)
                rows = []
        if rows:
            yield pa.Table.from_pylist(rows, schema=schema)

    def _documents(self) -> Iterator[tuple[RawDocument, list[Event]]]:
        """The documents that are kept, with the events that are kept of each."""
        config, report = self.config, self.report
        excluded = {name.lower() for name in config.exclude_predicates}
        if "reporting" in excluded:
            excluded |= set(chain_readers.REPORTING_PREDICATES)
        event_filter = EventFilter(frozenset(excluded), config.drop_pronoun_only)
        sources: set[str] = set()
        longest = 0
        for document in read_documents(self.raw_files, report.skipped, config.predicate_form):
            sources.add(document.source)
            report.read["documents"] += 1
            report.read["events"] += len(document.events)
            if not document.events:
                report.skipped["document_without_events"] += 1
                continue
            if document.source in config.exclude_source:
                report.skipped["document_of_excluded_source"] += 1
                continue
            if config.open_licenses_only and not is_open(document.license):
                report.skipped["document_without_open_license"] += 1
                continue
            kept = event_filter.apply(document, report.skipped)
            if not kept:
                report.skipped["document_without_kept_events"] += 1
                continue
            longest = max(longest, len(kept))
            report.add_source(document.source, document.license, documents=1, events=len(kept))
            yield document, kept
        for name in config.exclude_source:
            if name not in sources:
                raise UnknownNameError("source in exclude_source", name, sources)
        statistics: dict[str, JsonValue] = {"longest_document_events": longest}
        report.statistics.update(statistics)


def _is_raw_name(path: Path) -> bool:
    return is_json_lines(path) or ("mcnc" in path.name and path.suffix == ".txt")
