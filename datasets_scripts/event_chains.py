"""Documents of events: what occurs together in them, their chains, and questions about these."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import datasets
import duckdb
import pyarrow as pa
from datasets import List, Value

from eventformers.datasets_scripts import (
    chain_readers,
    chain_settings,
    cloze_readers,
    cooccurrence,
    document_splits,
    licenses,
    narrative_cloze,
    protagonist_chains,
    tuple_reader,
)
from eventformers.datasets_scripts.base import BuildReport, EventDatasetBuilder, JsonValue
from eventformers.datasets_scripts.chain_readers import (
    EventFilter,
    RawDocument,
    RawFileKind,
    raw_file_kind,
    read_documents,
)
from eventformers.datasets_scripts.chain_settings import (
    CHAIN_SETTINGS,
    COUNTING_SETTINGS,
    FILTER_SETTINGS,
    QUESTION_SETTINGS,
    RESOURCE_SETTINGS,
    EventChainsConfig,
)
from eventformers.datasets_scripts.cloze_readers import checked_question, read_cloze_items
from eventformers.datasets_scripts.cooccurrence import CooccurrenceCounter
from eventformers.datasets_scripts.document_splits import (
    SPLITS,
    DocumentSplits,
    RepeatedDocuments,
    SeededDraws,
)
from eventformers.datasets_scripts.events import EVENT_FEATURE, Event
from eventformers.datasets_scripts.licenses import is_open, license_of_source
from eventformers.datasets_scripts.narrative_cloze import (
    CLOZE_EVENTS,
    STEP_EVENTS,
    EventPool,
    argument_texts,
    draw_choices,
    draw_steps,
    place_held_out,
    window_starts,
)
from eventformers.datasets_scripts.protagonist_chains import Chain, document_chains, event_key
from eventformers.errors import EventformersError, UnknownNameError

_QUESTION_EVENTS = {"mcnc": CLOZE_EVENTS, "multistep": STEP_EVENTS}
"""Events that a question of each config is made of."""
_SPLIT_CONFIGS = ("chains", *_QUESTION_EVENTS)
_CLOZE_CONFIGS = ("variable_mcnc", "coherent_mcnc")

Row = Mapping[str, object]


class EventChains(EventDatasetBuilder):
    """Events of documents, and what is made of them.

    - `documents`: the events of each document in their order.
    - `cooccurrence`: for every event those that share documents with it.
    - `chains`: the distinct events of each protagonist in their order
      (`protagonist_chains.document_chains`).
    - `mcnc`: narrative cloze. The first eight events of a chain, and the ninth among four distractors
      (`narrative_cloze.draw_choices`).
    - `multistep`: the first event of a chain, and for each of the next four the choices alike.
    - `variable_mcnc`, `coherent_mcnc`: the narrative cloze files of Weber et al. 2018 with all the wrong
      candidates that they give; no filter touches them.

    `chains`, `mcnc` and `multistep` have the splits train, validation and test, and agree about the documents
    of each. Distractors are drawn from the events of the documents of the same split. Of documents with the
    same events, at least `min_chain_length`, one stays, so that no text is in two splits.

    Raw files: `*.jsonl` or `*.jsonl.gz` with one document or one chain a line; the narrative cloze files of
    Weber et al. 2018 (`*mcnc*.txt`), of which `documents` and `cooccurrence` read the context events only,
    and `chains`, `mcnc` and `multistep` nothing; and text files of HAQAE, one chain of tuples a line. Where a
    folder has files of chains, its files of documents are not searched for chains a second time.
    """

    NAME = "event_chains"
    TITLE = "Event chains"
    SUMMARY = (
        "Events (subject, predicate, object) of documents in their order; for every distinct event the events"
        " that occur in the same documents with the number of those documents; chains of events about one"
        " protagonist; and questions what happens next in them, with one step and with several."
    )
    CITATION = (
        "Gao et al.: Improving Event Representation via Simultaneous Weakly Supervised Contrastive Learning"
        " and Clustering, ACL 2022 (co-occurrence as supervision). Lee, Goldwasser: Multi-Relational Script"
        " Learning for Discourse Relations, ACL 2019 (narrative cloze with one and several steps). Weber,"
        " Balasubramanian, Chambers: Event Representations with Tensor-Based Compositions, AAAI 2018"
        " (narrative cloze with a variable number of choices)."
    )
    SPLITS = SPLITS
    SAMPLES_FOLDER = "chains"
    RAW_FILES: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("documents", "cooccurrence"), "*.jsonl, *.jsonl.gz or *mcnc*.txt"),
        **dict.fromkeys(_SPLIT_CONFIGS, "*.jsonl, *.jsonl.gz or *.txt with tuples separated by <TUP>"),
        "variable_mcnc": "*mcnc*.txt",
        "coherent_mcnc": "*cmcnc*.txt",
    }
    MODULES: ClassVar[tuple[ModuleType, ...]] = (
        chain_readers,
        chain_settings,
        cloze_readers,
        cooccurrence,
        document_splits,
        licenses,
        narrative_cloze,
        protagonist_chains,
        tuple_reader,
    )
    UNDECIDING_SETTINGS: ClassVar[dict[str, frozenset[str]]] = {
        "documents": COUNTING_SETTINGS | RESOURCE_SETTINGS | CHAIN_SETTINGS | QUESTION_SETTINGS,
        "cooccurrence": RESOURCE_SETTINGS | CHAIN_SETTINGS | QUESTION_SETTINGS,
        "chains": COUNTING_SETTINGS | RESOURCE_SETTINGS | QUESTION_SETTINGS,
        **dict.fromkeys(_QUESTION_EVENTS, COUNTING_SETTINGS | RESOURCE_SETTINGS),
        **dict.fromkeys(
            _CLOZE_CONFIGS,
            FILTER_SETTINGS
            | COUNTING_SETTINGS
            | RESOURCE_SETTINGS
            | CHAIN_SETTINGS
            | QUESTION_SETTINGS - {"distractor_seed"},
        ),
    }
    BUILDER_CONFIG_CLASS = EventChainsConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        EventChainsConfig(name=name)
        for name in ("documents", "cooccurrence", *_SPLIT_CONFIGS, *_CLOZE_CONFIGS)
    ]
    DEFAULT_CONFIG_NAME = "documents"

    _repeats: RepeatedDocuments | None = None

    @classmethod
    def find_raw_files(cls, config_name: str, paths: list[Path]) -> dict[str, list[Path]]:
        """The files straight in the folders that the config reads, and those given by themselves.

        A narrative cloze file with `test` in its name is the split test, any other one validation.
        """
        found: list[Path] = []
        for path in paths:
            inside = sorted(item for item in path.iterdir() if item.is_file()) if path.is_dir() else [path]
            kinds = {item: raw_file_kind(item) or ("cloze" if path.is_file() else None) for item in inside}
            wanted = _wanted_kinds(config_name, kinds.values())
            found += [item for item, kind in kinds.items() if kind in wanted]
        found = list(dict.fromkeys(found))
        if config_name in _SPLIT_CONFIGS:
            return dict.fromkeys(SPLITS, found) if found else {}
        if config_name not in _CLOZE_CONFIGS:
            return {"train": found} if found else {}
        coherent = config_name == "coherent_mcnc"
        files: dict[str, list[Path]] = {"validation": [], "test": []}
        for item in found:
            if ("cmcnc" in item.name) == coherent:
                files["test" if "test" in item.name else "validation"].append(item)
        return {split: items for split, items in files.items() if items}

    @classmethod
    def wanted_splits(cls, config: datasets.BuilderConfig) -> tuple[str, ...]:
        """The splits with a share above 0."""
        return _splits(config).names if config.name in _SPLIT_CONFIGS else cls.SPLITS

    @classmethod
    def features(cls, config_name: str) -> datasets.Features:
        """The columns of a config."""
        text, events = Value("string"), List(EVENT_FEATURE)
        document = {"document_id": text, "source": text, "license": text}
        choices = {"choices": events, "label": Value("int32")}
        if config_name == "documents":
            return datasets.Features({**document, "events": events})
        if config_name == "cooccurrence":
            frequencies = List(Value("int32"))
            return datasets.Features(
                {"event": EVENT_FEATURE, "co_events": events, "frequencies": frequencies}
            )
        if config_name in _CLOZE_CONFIGS:
            item = {"item_id": text, "source": text, "license": text}
            return datasets.Features({**item, "context": events, **choices})
        chain = {"chain_id": text, **document}
        if config_name == "chains":
            return datasets.Features({**chain, "protagonist": text, "events": events})
        if config_name == "mcnc":
            return datasets.Features({**chain, "context": events, **choices})
        return datasets.Features(
            {**chain, "start": EVENT_FEATURE, "steps": List(events), "labels": List(Value("int32"))}
        )

    def tables(self) -> Iterator[pa.Table]:
        """The rows as tables; fills `self.report` on the way.

        Raises:
            DataFormatError: a line of a raw file cannot be read.
            EventformersError: counting found too little memory or disk.
        """
        if self.config.name != "cooccurrence":
            yield from super().tables()
            return
        settings = {name: getattr(self.config, name) for name in COUNTING_SETTINGS | RESOURCE_SETTINGS}
        try:
            with CooccurrenceCounter(**settings) as counter:
                for _, kept in self._documents(None, self.report):
                    counter.add(kept)
                yield from counter.tables()
                self.report.statistics.update(dataclasses.asdict(counter.statistics))
        except duckdb.Error as error:
            reason = str(error).split("\n", 1)[0]
            raise EventformersError(
                f"counting co-occurrence with memory_limit={self.config.memory_limit} failed: {reason};"
                " a higher memory_limit, a smaller window or another temporary_directory may help"
            ) from error

    def examples(self) -> Iterator[Row]:
        """The rows of every config but `cooccurrence`; fills `self.report` on the way.

        Raises:
            DataFormatError: a line of a raw file cannot be read.
        """
        if self.config.name in _CLOZE_CONFIGS:
            yield from self._cloze_rows()
        elif self.config.name == "documents":
            for document, kept in self._documents(None, self.report):
                yield {**_origin(document), "events": kept}
        elif self.config.name == "chains":
            for chain in self._chains():
                self.report.add_source(chain.source, chain.license, chains=1, events=len(chain.events))
                yield {**_chain_origin(chain), "protagonist": chain.protagonist, "events": chain.events}
        else:
            yield from self._question_rows()

    def accepted_when_empty(self) -> str:
        """What a split needs to have rows."""
        if self.config.name not in _SPLIT_CONFIGS:
            return super().accepted_when_empty()
        return (
            "at least one; give more documents or a smaller min_chain_length, or leave a split out with"
            " validation_share=0 or test_share=0"
        )

    def _documents(self, split: str | None, report: BuildReport) -> Iterator[tuple[RawDocument, list[Event]]]:
        """The documents and chains of a split that are kept, with the events that are kept of each.

        Args:
            split: the split; None for the documents of all.
            report: counts of what is read and left out; added to.
        """
        config = self.config
        excluded = {name.lower() for name in config.exclude_predicates}
        if "reporting" in excluded:
            excluded |= set(chain_readers.REPORTING_PREDICATES)
        event_filter = EventFilter(frozenset(excluded), config.drop_pronoun_only)
        splits = _splits(config)
        sources: set[str] = set()
        longest = 0

        def keep(document_id: str, source: str) -> bool:
            sources.add(source)
            return split is None or splits.split_of(document_id) == split

        # What is no document is in no split: it is counted with the first.
        is_first = split in (None, next(iter(self.split_files)))
        skipped_lines = report.skipped if is_first else Counter[str]()
        for document in read_documents(self.raw_files, skipped_lines, config.predicate_form, keep):
            report.read["chains" if document.chain_id else "documents"] += 1
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
            if config.name not in _SPLIT_CONFIGS:
                report.add_source(document.source, document.license, documents=1, events=len(kept))
            yield document, kept
        for name in config.exclude_source:
            if name not in sources:
                raise UnknownNameError("source in exclude_source", name, sources)
        statistics: dict[str, JsonValue] = {"longest_document_events": longest}
        report.statistics.update(statistics)

    def _unrepeated_documents(
        self, split: str | None, report: BuildReport
    ) -> Iterator[tuple[RawDocument, list[Event]]]:
        """As `_documents`, without those whose events another document has."""
        repeats = self._repeats
        if repeats is None:
            repeats = RepeatedDocuments()
            for document, kept in self._documents(None, BuildReport()):
                if len(kept) >= self.config.min_chain_length:
                    repeats.add(document.document_id, kept)
            self._repeats = repeats
        for document, kept in self._documents(split, report):
            if repeats.is_repeat(document.document_id, kept):
                report.skipped["document_repeated"] += 1
            else:
                yield document, kept

    def _chains(self) -> Iterator[Chain]:
        """The chains of `self.split` that are long enough."""
        for document, kept in self._unrepeated_documents(self.split, self.report):
            yield from document_chains(document, kept, self.config.min_chain_length, self.report.skipped)

    def _pool(self) -> EventPool:
        """The events of the documents of `self.split`."""
        pool = EventPool()
        for _, kept in self._unrepeated_documents(self.split, BuildReport()):
            for event in kept:
                pool.add(event)
        pool.close()
        return pool

    def _question_rows(self) -> Iterator[Row]:
        config, report = self.config, self.report
        size = _QUESTION_EVENTS[config.name]
        pool = self._pool()
        report.statistics["events_to_draw_from"] = len(pool)
        for chain in self._chains():
            starts = window_starts(
                len(chain.events), size, config.window_stride or size, config.first_window_only
            )
            if not starts:
                report.skipped["chain_too_short_for_a_question"] += 1
            keys = {event_key(event) for event in chain.events}
            for start in starts:
                events = chain.events[start : start + size]
                draws = SeededDraws(config.distractor_seed, config.name, chain.chain_id, start)
                question = _question(config.name, events, keys, pool, draws)
                if question is None:
                    report.skipped["question_without_distractors"] += 1
                    continue
                report.add_source(chain.source, chain.license, questions=1)
                yield {**_chain_origin(chain), **question}

    def _cloze_rows(self) -> Iterator[Row]:
        report = self.report
        count, random_picks = 0, 0.0
        for path in self.split_files[self.split]:
            license_name = license_of_source(path.stem)
            for item in read_cloze_items(path):
                checked_question(item, path)
                count += 1
                random_picks += 1 / (len(item.wrong) + 1)
                if item.held_out[0] in item.wrong:
                    report.statistics["items_with_true_event_among_wrong"] = (
                        int(str(report.statistics.get("items_with_true_event_among_wrong", 0))) + 1
                    )
                report.add_source(path.stem, license_name, items=1)
                draws = SeededDraws(self.config.distractor_seed, item.item_id)
                yield {
                    "item_id": item.item_id,
                    "source": path.stem,
                    "license": license_name,
                    "context": item.context,
                    **place_held_out(item, draws),
                }
        report.read["items"] = count
        report.statistics["random_pick_percent"] = round(100 * random_picks / count, 1) if count else 0.0


def _splits(config: datasets.BuilderConfig) -> DocumentSplits:
    return DocumentSplits(config.validation_share, config.test_share, config.split_seed)


def _wanted_kinds(config_name: str, found: Iterable[RawFileKind | None]) -> tuple[RawFileKind, ...]:
    """The kinds of raw files that a config reads of a folder with the kinds that are found."""
    if config_name in _CLOZE_CONFIGS:
        return ("cloze",)
    if config_name in _SPLIT_CONFIGS:
        return ("chains", "tuples") if "chains" in found else ("documents", "tuples")
    return ("documents", "cloze", "tuples")


def _origin(item: RawDocument | Chain) -> dict[str, object]:
    return {"document_id": item.document_id, "source": item.source, "license": item.license}


def _chain_origin(chain: Chain) -> dict[str, object]:
    return {"chain_id": chain.chain_id, **_origin(chain)}


def _question(
    config_name: str, events: list[Event], keys: set[str], pool: EventPool, draws: SeededDraws
) -> dict[str, object] | None:
    """The columns of a question about these events; None where its distractors cannot be drawn."""
    if config_name == "multistep":
        steps = draw_steps(events, keys, pool, draws)
        if steps is None:
            return None
        return {
            "start": events[0],
            "steps": [step["choices"] for step in steps],
            "labels": [step["label"] for step in steps],
        }
    *context, true_event = events
    choices = draw_choices(true_event, argument_texts(events), keys, pool, draws)
    return None if choices is None else {"context": context, **choices}
