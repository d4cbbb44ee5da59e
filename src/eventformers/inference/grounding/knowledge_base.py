"""A knowledge base of events with titles, descriptions and a part-of hierarchy, and its index on disk."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset, concatenate_datasets

from eventformers.datasets_scripts.dataset_card import built_configs
from eventformers.datasets_scripts.event_knowledge import (
    EventHierarchy,
    EventKnowledge,
    StatedTitles,
    text_files,
)
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.datasets_scripts.hierarchy_files import (
    MENTION_KINDS,
    HierarchyFile,
    file_kind,
    hierarchy_files,
)
from eventformers.datasets_scripts.hierarchy_readers import Statement
from eventformers.datasets_scripts.known_pairs import PADDING, Codes, codes_of, text_column
from eventformers.datasets_scripts.loading import load_built
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.lines import DataDir, raw_paths
from eventformers.errors import EventformersError, counted, shown
from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.search.candidate_index import CandidateIndex, SearchKind
from eventformers.inference.search.index_folder import (
    AGAIN,
    IndexedModel,
    IndexRecord,
    build_index,
    holds_index,
    open_index,
    open_or_build,
    open_search,
)
from eventformers.models.processing_event_grounding import EventText

BUILDER = "event_hierarchies"
ACCEPTED = (
    "files of EventHierarchies, such as label_dict.jsonl and hierarchy.jsonl, a folder of them, or a folder "
    "or Hub id of the built dataset"
)
FALLBACK_LANGUAGE = "en"


class EventTexts:
    """The events of a knowledge base: a number for each, and its texts by language.

    Args:
        events: rows of `EventHierarchies`, config `events`.

    Attributes:
        number_of: the number of the event that each row describes, `(rows,)`.
        language_of: the code of the language that each row is in, `(rows,)`.
        distinct: the first row for each event and language, sorted by event, then by language.
    """

    def __init__(self, events: Dataset) -> None:
        table = events.select_columns(["event_id", "language"]).with_format("arrow")[:]
        ids, languages = (text_column(table, name) for name in ("event_id", "language"))
        self._ids, self.languages = ids.unique(), languages.unique()
        self.number_of = self.numbers(ids)
        self.language_of = codes_of(languages, self.languages)
        keys = self.number_of * len(self.languages) + self.language_of
        self._keys, self.distinct = np.unique(keys, return_index=True)
        self.texts = events.select_columns(["title", "description"])

    @property
    def num_events(self) -> int:
        """Number of distinct events."""
        return len(self._ids)

    def numbers(self, ids: pa.Array) -> Codes:
        """Return the numbers of events by their ids; -1 for an event without description."""
        return codes_of(ids.cast(pa.large_string()), self._ids)

    def language_codes(self, languages: pa.Array) -> Codes:
        """Return the index of each language in `languages`; -1 for a language without events."""
        return codes_of(languages.cast(pa.large_string()), self.languages)

    def rows(self, numbers: Codes, languages: Codes) -> Codes:
        """Find the rows that describe events in given languages; -1 if there is none.

        Args:
            numbers: numbers of events, -1 for an unknown one.
            languages: the code of each event's language, -1 for an unknown one.
        """
        wanted = np.where((numbers < 0) | (languages < 0), PADDING, numbers * len(self.languages) + languages)
        places = np.searchsorted(self._keys, wanted).clip(max=len(self._keys) - 1)
        return np.where(self._keys[places] == wanted, self.distinct[places], PADDING)

    def __getitem__(self, row: int) -> EventText:
        """Return the text of a row."""
        return EventText.from_row(self.texts[row])


@dataclass(frozen=True)
class KnowledgeBase:
    """Events and their hierarchy.

    Attributes:
        events: rows of `EventHierarchies`, config `events`: one for each event and language.
        graph: the part-of relations, without cycles.
        counts: numbers of events, texts and edges, and of those left out.
    """

    events: Dataset
    graph: EventHierarchy
    counts: dict[str, int]

    @cached_property
    def texts(self) -> EventTexts:
        """Texts of the events, by row."""
        return EventTexts(self.events)

    @property
    def languages(self) -> list[str]:
        """Languages of the descriptions, sorted."""
        return sorted(self.texts.languages.to_pylist())

    def text(self, event_id: str, language: str) -> EventText:
        """Return the text of an event in a language, otherwise in English, otherwise the first one.

        Raises:
            KeyError: the event is unknown.
        """
        number = self.texts.numbers(pa.array([event_id]))
        if number[0] < 0:
            raise KeyError(event_id)
        codes = self.texts.language_codes(pa.array([language, FALLBACK_LANGUAGE]))
        rows = self.texts.rows(number.repeat(2), codes)
        known = rows[rows >= 0]
        return self.texts[int(known[0] if len(known) else self._first_rows[number[0]])]

    def title(self, event_id: str, language: str) -> str:
        """Return the title of an event; see `text` for the language and errors."""
        if (event_id, language) not in self._titles:
            self._titles[event_id, language] = self.text(event_id, language).title
        return self._titles[event_id, language]

    def ancestors(self, event_id: str) -> list[str]:
        """Return the ancestors of an event, from its parents to the roots."""
        return self.graph.gold_path(event_id)[1:]

    def in_languages(self, languages: set[str]) -> Dataset:
        """Return the rows of the events in some languages."""
        spoken = self.events.select_columns(["language"]).with_format("arrow")[:].column("language")
        rows = np.flatnonzero([language in languages for language in spoken.to_pylist()])
        return self.events if len(rows) == len(self.events) else self.events.select(rows)

    @cached_property
    def _titles(self) -> dict[tuple[str, str], str]:
        """Cache of requested titles."""
        return {}

    @cached_property
    def _first_rows(self) -> Codes:
        _, rows = np.unique(self.texts.number_of, return_index=True)
        return rows.astype(np.int64)


def load_knowledge_base(data: DataDir | KnowledgeBase) -> KnowledgeBase:
    """Read events and their hierarchy.

    Args:
        data: raw files as `EventHierarchies` reads them (a dictionary of events, optionally with a hierarchy
            or edges), as one path, several, or a folder; a folder or Hub id of that dataset, built; or a
            loaded knowledge base.

    Returns:
        The knowledge base. Edges to unknown events and edges that close a cycle are dropped and counted.

    Raises:
        DataFormatError: a line of a file cannot be read, with file and line.
        EventformersError: a file does not exist, or no event has a title.
    """
    if isinstance(data, KnowledgeBase):
        return data
    if isinstance(data, (str, Path)):
        folder = Path(data).expanduser()
        if configs := built_configs(folder):
            return _built(folder, with_hierarchy="hierarchy" in configs)
        if not folder.exists() and os.pathsep not in str(data):
            return _built(data, with_hierarchy=True)
    elif not isinstance(data, (list, tuple)) or not all(isinstance(part, (str, Path)) for part in data):
        raise EventformersError(f"found {type(data).__name__}; accepted: {ACCEPTED}, or a list of paths")
    files = _raw_files(data)
    knowledge = EventKnowledge.of_files(files)
    texts = StatedTitles(Counter(), SkippedRows())
    rows = [text for file in text_files(files) for text in texts.of_file(file)]
    columns = {name: pa.array([getattr(row, name) for row in rows], pa.large_string()) for name in COLUMNS}
    knowledge.skipped.warn()
    # The order of events in time is not needed here.
    left_out = {name: count for name, count in knowledge.skipped.items() if not name.startswith("sequence_")}
    return _counted(Dataset(pa.table(columns)), knowledge.graph, left_out)


def check_knowledge_base(data: str | Path) -> None:
    """Raise the error of a file or folder that holds no events, without reading the events."""
    folder = Path(data).expanduser()
    if not built_configs(folder) and (folder.exists() or os.pathsep in str(data)):
        _raw_files(data)


def _raw_files(data: DataDir) -> list[HierarchyFile]:
    """The raw files of events and of edges."""
    paths = raw_paths(data)
    for path in paths:
        if path.is_file() and file_kind(path) is None:
            raise EventformersError(
                f"{path}: neither its first line nor its name identifies it as events or edges; accepted: "
                f"{ACCEPTED}"
            )
    files = [file for file in hierarchy_files(paths) if file.kind not in MENTION_KINDS]
    if not text_files(files):
        names = ", ".join(map(str, paths))
        raise EventformersError(f"{names}: found no file with titles of events; accepted: {ACCEPTED}")
    return files


def _built(data: str | Path, *, with_hierarchy: bool) -> KnowledgeBase:
    """Read the rows of all splits of a built dataset."""
    events = _joined(data, "events")
    counts = SkippedRows()
    graph = EventHierarchy()
    if with_hierarchy:
        for edge in _joined(data, "hierarchy"):
            graph.add(Statement(edge["child_id"], "part_of", edge["parent_id"]), 0)
    graph.finish(set(events.unique("event_id")), counts)
    return _counted(events.select_columns(list(COLUMNS)), graph, counts)


def _joined(data: str | Path, config: str) -> Dataset:
    return concatenate_datasets(list(load_built(data, config, builder=BUILDER).values()))


def _counted(events: Dataset, graph: EventHierarchy, left_out: Mapping[str, int]) -> KnowledgeBase:
    counts = {
        "events": len(events.unique("event_id")),
        "event_texts": len(events),
        "hierarchy_edges": len(graph.hierarchy),
        **dict(sorted(left_out.items())),
    }
    return KnowledgeBase(events, graph, counts)


COLUMNS = ("event_id", "language", "title", "description")

EventRow: TypeAlias = dict[str, str]
"""A row of `EventHierarchies`, config `events`."""


@dataclass(frozen=True, kw_only=True)
class CandidateRecord(IndexRecord):
    """Record of what a candidate index was built from.

    Attributes:
        by_language: True for a pool for each language, False for one pool.
    """

    tables: ClassVar = {"events": COLUMNS}

    by_language: bool


def stored_candidates(
    folder: str | Path,
    events: Dataset,
    encode: Callable[[Sequence[EventRow]], Vectors],
    *,
    model: IndexedModel,
    dimension: int,
    by_language: bool = True,
    kind: SearchKind = "auto",
    show_progress: bool = False,
    overwrite: bool = False,
) -> CandidateIndex:
    """Open the index of a knowledge base in a folder, or build it there.

    Args:
        events: rows of `EventHierarchies`, config `events`.
        encode: encodes a block of rows, `(block, dimension)`.
        by_language: create a pool for each language; if off, one pool serves mentions in any language.
        overwrite: replace an index of another model, of other events or with other pools; known events of
            the same model are not encoded again.

    Raises:
        EventformersError: the index in the folder does not match and `overwrite` is off; an event occurs
            twice in a pool; or an error of `build_index`.
    """
    folder = Path(folder)
    fingerprint = dataset_fingerprint(events.select_columns(list(COLUMNS)))

    def load() -> CandidateIndex:
        record, tables = open_index(folder, CandidateRecord, model=model, fingerprint=fingerprint)
        if record.by_language != by_language:
            pools = ("one pool for all languages", "a pool for each language")
            raise EventformersError(
                f"{folder}: built with {pools[not by_language]}; received a search in {pools[by_language]}; "
                f"{AGAIN}"
            )
        table = tables["events"]
        ids, languages = (table.rows[name].to_pylist() for name in COLUMNS[:2])
        return CandidateIndex(
            ids,
            table.vectors,
            languages if by_language else None,
            kind=kind,
            stored=partial(open_search, folder, "events", table),
        )

    def build() -> None:
        # Language by language, so that each pool is one slice of the vectors.
        rows = events.select_columns(list(COLUMNS)).with_format("arrow")[:]
        rows = rows.cast(pa.schema([(name, pa.large_string()) for name in COLUMNS]))
        pool = ["event_id", "language"] if by_language else ["event_id"]
        counts = rows.select(pool).group_by(pool, use_threads=False).aggregate([([], "count_all")])
        if repeated := counts.filter(pc.greater(counts["count_all"], 1)).to_pylist():
            first = " in ".join(shown(repeated[0][name]) for name in pool)
            raise EventformersError(
                f"{counted(len(repeated), 'event')} given several times, the first {first}; accepted: one "
                f"row for each event{' and language' if by_language else ''}"
            )
        build_index(
            folder,
            CandidateRecord,
            {"events": rows.take(pc.sort_indices(rows["language"])) if by_language else rows},
            lambda _, block: encode(block.to_pylist()),
            model=model,
            dimension=dimension,
            fingerprint=fingerprint,
            details={"by_language": by_language},
            show_progress=show_progress,
            overwrite=holds_index(folder),
        )

    # Several processes that link texts to the same events share the index: the others wait for it.
    return open_or_build(folder, load, build, overwrite=overwrite, keep_fitting=True, wait=True)
