"""Builder of event documents: co-occurrence, chains, and questions about chains."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import datasets
import pyarrow as pa

from eventformers.datasets_scripts.base import (
    BuildReport,
    EventDatasetBuilder,
    EventDatasetConfig,
    check_shares,
    name_list,
)
from eventformers.datasets_scripts.chain_readers import (
    EventFilter,
    RawDocument,
    RawFileKind,
    checked_question,
    raw_file_kind,
    read_cloze_items,
    read_documents,
)
from eventformers.datasets_scripts.chains import (
    NAMES_NOBODY,
    QUESTION_EVENTS,
    Chain,
    EventPool,
    document_chains,
    event_key,
    place_held_out,
    question_columns,
)
from eventformers.datasets_scripts.cooccurrence import CooccurrenceCounter, bytes_of
from eventformers.datasets_scripts.document_splits import (
    SPLITS,
    DocumentSplits,
    RepeatedDocuments,
    SeededDraws,
    content_hash,
    name_hash,
)
from eventformers.datasets_scripts.events import EVENTS_TABLE, EXTRACTED_DOCUMENTS, Event
from eventformers.datasets_scripts.licenses import is_open, license_of_source
from eventformers.datasets_scripts.reading.tables import is_table
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.strict import Count, Number, Range, Share


@dataclass
class EventChainsConfig(EventDatasetConfig):
    """Settings of filters on raw documents, of co-occurrence counting, and of chains and their questions.

    The first five apply to all configs except the files of Weber et al., which stay unchanged; the next seven
    only to `cooccurrence`; `min_chain_length`, the shares and `split_seed` to `chains`, `mcnc` and
    `multistep`, and with `document_split` also to `documents` and `cooccurrence`; `max_chain_events` and
    `exclude_protagonists` to `chains`, `mcnc` and `multistep`; the others to the questions. Questions as they
    were before these settings have `max_chain_events=null exclude_protagonists=[] distractor_source=any`.

    Args:
        exclude_source: sources to leave out.
        open_licenses_only: leave out sources whose licence does not allow everybody to publish them
            (`eventformers.datasets_scripts.licenses.OPEN_LICENSES` lists the open ones).
        exclude_predicates: predicates to leave out, compared with the whole predicate, its first word and its
            lemma. The word `reporting` stands for `REPORTING_PREDICATES`.
        drop_pronoun_only: leave out events whose arguments are all pronouns.
        predicate_form: `surface` keeps the predicate's own words, `lemma` uses the lemma if the raw file has
            one.
        min_event_frequency: leave out events with fewer occurrences; SWCC uses 3.
        min_pair_frequency: leave out pairs that share fewer documents.
        window: maximum distance of two events, counted in events of their document; None uses whole
            documents. The default covers nearly all news articles completely and keeps the cost of a book
            linear.
        max_co_events: maximum number of co-events of an event, the most frequent first; None keeps all.
        memory_limit: memory that counting may use before it spills to disk.
        threads: number of threads for counting; None uses all processors.
        min_chain_length: leave out chains of fewer distinct events.
        validation_share: expected share of documents in the split validation; 0 makes no such split.
        test_share: expected share of documents in the split test; 0 makes no such split.
        split_seed: seed of the hash of the document id that determines its split.
        document_split: for `documents` and `cooccurrence`, read only the documents of this split of `chains`,
            without repeated documents; None reads all.
        max_chain_events: number of first events that a chain keeps; None keeps all.
        exclude_protagonists: arguments that are no protagonists of a document, beside pronouns. The word
            `nobody` stands for the amounts, times, body parts, objects and abstract nouns of `NAMES_NOBODY`.
        first_window_only: make only one question of each chain, about its first events, as in the papers.
        distractor_source: draw wrong choices from the documents of the `same` source, or of `any`, where a
            choice may be recognised by its corpus.
        distractor_argument: put `any` argument of the chain into a random slot of a wrong choice (Lee and
            Goldwasser, ACL 2019), or the `protagonist` into one that is filled (Granroth-Wilding and Clark,
            AAAI 2016), so that no choice can be recognised by its lack of the protagonist.
        distractor_seed: seed of the distractors and of the position of the true event.
    """

    exclude_source: tuple[str, ...] = ()
    open_licenses_only: bool = False
    exclude_predicates: tuple[str, ...] = ()
    drop_pronoun_only: bool = False
    predicate_form: Literal["surface", "lemma"] = "surface"
    min_event_frequency: Count = 1
    min_pair_frequency: Count = 1
    window: Count | None = 100
    max_co_events: Count | None = 64
    memory_limit: str = "2GB"
    threads: Count | None = None
    min_chain_length: Annotated[int, Range(least=2)] = 5
    validation_share: Share = 0.1
    test_share: Share = 0.1
    split_seed: Number = 13
    document_split: Literal["train", "validation", "test"] | None = None
    max_chain_events: Annotated[int, Range(least=2)] | None = 50
    exclude_protagonists: tuple[str, ...] = ("nobody",)
    first_window_only: bool = True
    distractor_source: Literal["same", "any"] = "same"
    distractor_argument: Literal["any", "protagonist"] = "any"
    distractor_seed: Number = 13

    def __post_init__(self) -> None:
        self.exclude_source = name_list("exclude_source", self.exclude_source)
        self.exclude_predicates = name_list("exclude_predicates", self.exclude_predicates)
        self.exclude_protagonists = name_list("exclude_protagonists", self.exclude_protagonists)
        super().__post_init__()
        try:
            bytes_of(self.memory_limit)
        except ValueError as error:
            raise EventformersError(f"setting memory_limit: {error}") from error
        check_shares(self.validation_share, self.test_share)

    @property
    def splits(self) -> DocumentSplits:
        """The splits of documents."""
        return DocumentSplits(self.validation_share, self.test_share, self.split_seed)


_WHOLE_CONFIGS = ("documents", "cooccurrence")
_SPLIT_CONFIGS = ("chains", *QUESTION_EVENTS)
_CLOZE_CONFIGS = ("variable_mcnc", "coherent_mcnc")

Row = Mapping[str, object]


class EventChains(EventDatasetBuilder):
    """Events of documents, and what is derived from them.

    - `documents`: the events of each document in order.
    - `cooccurrence`: for every event the events that share documents with it.
    - `chains`: the distinct events of each protagonist in order (`chains.document_chains`).
    - `mcnc`: narrative cloze. The first eight events of a chain, and the ninth among four distractors
      (`chains.question_columns`).
    - `multistep`: the first event of a chain, and choices of the same kind for each of the next four.
    - `variable_mcnc`, `coherent_mcnc`: the narrative cloze files of Weber et al. 2018 with all of their wrong
      candidates; no filter applies.

    `chains`, `mcnc` and `multistep` have the splits train, validation and test, with the same documents in
    each. Distractors are drawn from the events of the documents of the same split, and by default of the same
    source. Of documents with the same events, at least `min_chain_length`, only one is kept, so that no text
    is in two splits.

    Raw files: `*.jsonl` or `*.jsonl.gz` with one document or one chain per line; tables of events or of
    documents (`chain_readers`), `*.csv`, `*.tsv` or `*.parquet`; the narrative cloze files of
    Weber et al. 2018 (`*mcnc*.txt`), of which `documents` and `cooccurrence` read only the context events,
    and `chains`, `mcnc` and `multistep` read nothing; and text files of HAQAE, one chain of tuples per line.
    If a folder has files of chains, its files of documents are not searched for chains again.
    """

    NAME = "event_chains"
    BUILDER_CONFIG_CLASS = EventChainsConfig

    _repeats: RepeatedDocuments | None = None

    @classmethod
    def find_raw_files(cls, config_name: str, paths: list[Path]) -> dict[str, list[Path]]:
        """Find the files directly in the folders that the config reads, and those given directly.

        A narrative cloze file with `test` in its name is the split test, any other one is validation.
        """
        found: list[Path] = []
        for path in paths:
            inside = sorted(item for item in path.iterdir() if item.is_file()) if path.is_dir() else [path]
            if any(item.name == EXTRACTED_DOCUMENTS for item in inside):
                # The table that extract writes beside it has the same events.
                inside = [item for item in inside if item.name != EVENTS_TABLE]
            given: RawFileKind | None = None
            if path.is_file():
                given = "documents" if is_table(path) else "cloze"
            kinds = {item: raw_file_kind(item) or given for item in inside}
            wanted: tuple[RawFileKind, ...] = ("documents", "cloze", "tuples")
            if config_name in _CLOZE_CONFIGS:
                wanted = ("cloze",)
            elif config_name in _SPLIT_CONFIGS:
                wanted = ("chains", "tuples") if "chains" in kinds.values() else ("documents", "tuples")
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
    def _may_be_meant(cls, table: Path) -> bool:
        # `extract` writes tables beside the documents, with the same events.
        return not table.with_name(EXTRACTED_DOCUMENTS).exists() and super()._may_be_meant(table)

    @classmethod
    def wanted_splits(cls, config: datasets.BuilderConfig) -> tuple[str, ...]:
        """Train for documents and co-occurrence, the splits with a share above 0 for chains and questions
        about them, validation and test for the files of Weber et al."""
        if config.name in _CLOZE_CONFIGS:
            return ("validation", "test")
        return config.splits.names if config.name in _SPLIT_CONFIGS else ("train",)

    def deciding_settings(self, config_name: str | None = None) -> dict[str, object]:
        """The settings that affect the rows; without split settings if all documents are read."""
        settings = super().deciding_settings(config_name)
        # Kept for the configs that may read a single split.
        if "document_split" not in settings or settings["document_split"] is not None:
            return settings
        without = {*self.SETTING_GROUPS["chain"], "document_split"}
        return {name: value for name, value in settings.items() if name not in without}

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows as tables and fill `self.report`.

        Raises:
            DataFormatError: a line of a raw file cannot be read.
            EventformersError: counting ran out of memory or disk space.
        """
        if self.config.name != "cooccurrence":
            yield from super().tables()
            return
        # Built data are also read where DuckDB is not installed.
        import duckdb

        names = [*self.SETTING_GROUPS["counting"], *self.SETTING_GROUPS["resource"]]
        settings = {name: getattr(self.config, name) for name in names}
        try:
            with closing(CooccurrenceCounter(**settings)) as counter:
                for document, kept in self._chosen_documents():
                    self.report.add_source(document.source, document.license, documents=1, events=len(kept))
                    counter.add(kept)
                yield from counter.tables()
                self.report.statistics.update(dataclasses.asdict(counter.statistics))
        except duckdb.Error as error:
            reason = str(error).split("\n", 1)[0]
            raise EventformersError(
                f"counting co-occurrence with memory_limit={self.config.memory_limit} failed: {reason};"
                " try a higher memory_limit, a smaller window or another TMPDIR"
            ) from error

    def examples(self) -> Iterator[Row]:
        """Yield the rows of every config except `cooccurrence` and fill `self.report`.

        Raises:
            DataFormatError: a line of a raw file cannot be read.
        """
        if self.config.name in _CLOZE_CONFIGS:
            report, count, random_picks, ambiguous = self.report, 0, 0.0, 0
            for path in self.split_files[self.split]:
                origin = {"source": path.stem, "license": license_of_source(path.stem)}
                items = read_cloze_items(path, report.skipped)
                for item in report.skipped.parsed(items, partial(checked_question, path=path), "item"):
                    count += 1
                    random_picks += 1 / (len(item.wrong) + 1)
                    ambiguous += item.held_out[0] in item.wrong
                    report.add_source(origin["source"], origin["license"], items=1)
                    choices = place_held_out(item, SeededDraws(self.config.distractor_seed, item.item_id))
                    yield {"item_id": item.item_id, **origin, "context": item.context, **choices}
            report.read["items"] = count
            report.statistics["items_with_true_event_among_wrong"] = ambiguous
            report.statistics["random_pick_percent"] = round(100 * random_picks / max(count, 1), 1)
        elif self.config.name == "documents":
            for document, kept in self._chosen_documents():
                self.report.add_source(document.source, document.license, documents=1, events=len(kept))
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
            "at least one; add documents, lower min_chain_length, or disable a split with"
            " validation_share=0 or test_share=0"
        )

    def _chosen_documents(self) -> Iterator[tuple[RawDocument, list[Event]]]:
        """All documents, or those of the requested split."""
        if self.config.document_split is None:
            return self._documents(self.report)
        return self._unrepeated_documents(self.report, self.config.document_split)

    def _documents(
        self, report: BuildReport, split: str | None = None
    ) -> Iterator[tuple[RawDocument, list[Event]]]:
        """The kept documents and chains of a split, or all, each with its kept events; fills a report."""
        config, skipped = self.config, report.skipped
        # A line without a document belongs to no split; the first split counts it.
        counts_lines = config.name in _WHOLE_CONFIGS or split in (None, next(iter(self.split_files)))
        files = self.raw_files
        if config.document_split is not None:
            # The cloze files of Weber et al. produce no chains, so they belong to no split.
            files = [path for path in files if raw_file_kind(path) not in (None, "cloze")]
        event_filter = EventFilter.of_settings(config.exclude_predicates, config.drop_pronoun_only)
        sources: set[str] = set()
        longest = 0
        has_lemmas = config.predicate_form == "surface"

        def keep(document_id: str, source: str) -> bool:
            sources.add(source)
            return split is None or config.splits.split_of(document_id) == split

        lines = skipped if counts_lines else skipped.uncounted()
        for document in read_documents(files, skipped, config.predicate_form, keep, lines):
            report.read["chains" if document.chain_id else "documents"] += 1
            report.read["events"] += len(document.events)
            has_lemmas = has_lemmas or any(event.lemma for event in document.events)
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
        if report.read["events"] and not has_lemmas:
            warnings.warn(
                f"{self.NAME}: no event has a lemma, so predicate_form=lemma keeps predicates as they are",
                stacklevel=1,
            )
        for name in config.exclude_source:
            if name not in sources:
                raise UnknownNameError("source in exclude_source", name, sources)
        report.statistics["longest_document_events"] = longest

    def _unrepeated_documents(
        self, report: BuildReport, split: str | None = None
    ) -> Iterator[tuple[RawDocument, list[Event]]]:
        """The documents of a split, or of `self.split`, without repeats of other documents."""
        if self._repeats is None:
            self._repeats = repeats = RepeatedDocuments()
            for document, kept in self._documents(self._uncounted()):
                if len(kept) >= self.config.min_chain_length:
                    repeats.add(document.document_id, kept)
        repeats = self._repeats
        # A line that occurs twice has one id, so the id does not distinguish the repeat.
        yielded: set[int] = set()
        for document, kept in self._documents(report, split or self.split):
            key = name_hash(document.document_id, document.chain_id, content_hash(kept))
            if repeats.is_repeat(document.document_id, kept) or key in yielded:
                report.skipped["document_repeated"] += 1
            else:
                yielded.add(key)
                yield document, kept

    def _uncounted(self) -> BuildReport:
        """A report for a pass over documents that another pass counts."""
        return BuildReport(skipped=self.report.skipped.uncounted())

    def _chains(self) -> Iterator[Chain]:
        """The chains of `self.split` that are long enough."""
        config, excluded = self.config, {*self.config.exclude_protagonists}
        if "nobody" in excluded:
            excluded |= NAMES_NOBODY
        for document, kept in self._unrepeated_documents(self.report):
            yield from document_chains(
                document,
                kept,
                config.min_chain_length,
                self.report.skipped,
                max_length=config.max_chain_events,
                excluded=excluded,
            )

    def _question_rows(self) -> Iterator[Row]:
        config, report = self.config, self.report
        size = QUESTION_EVENTS[config.name]
        by_source = config.distractor_source == "same"
        documents = self._unrepeated_documents(self._uncounted())
        pools = EventPool.by_source(
            (document.source if by_source else "", event) for document, kept in documents for event in kept
        )
        report.statistics["events_to_draw_from"] = sum(map(len, pools.values()))
        fills = config.distractor_argument == "protagonist"
        for chain in self._chains():
            most = len(chain.events) - size
            last = min(0, most) if config.first_window_only else most
            starts = range(0, last + 1, size)
            if not starts:
                report.skipped["chain_too_short_for_a_question"] += 1
            keys = {event_key(event) for event in chain.events}
            for start in starts:
                events = chain.events[start : start + size]
                draws = SeededDraws(config.distractor_seed, config.name, chain.chain_id, start)
                pool = pools[chain.source if by_source else ""]
                protagonist = chain.protagonist if fills else None
                question = question_columns(config.name, events, keys, pool, draws, protagonist)
                if question is None:
                    report.skipped["question_without_distractors"] += 1
                    continue
                report.add_source(chain.source, chain.license, questions=1)
                yield {**_chain_origin(chain), **question}


def _origin(item: RawDocument | Chain) -> dict[str, object]:
    return {"document_id": item.document_id, "source": item.source, "license": item.license}


def _chain_origin(chain: Chain) -> dict[str, object]:
    return {"chain_id": chain.chain_id, **_origin(chain)}
