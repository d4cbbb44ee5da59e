"""Facts about events in raw files: the languages of their texts, their edges and their splits."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from eventformers.datasets_scripts.document_splits import name_hash
from eventformers.datasets_scripts.file_names import file_stem
from eventformers.datasets_scripts.hierarchy_files import EDGE_KINDS, MENTION_KINDS, TEXT_KINDS, HierarchyFile
from eventformers.datasets_scripts.hierarchy_graph import EventHierarchy, id_among
from eventformers.datasets_scripts.hierarchy_readers import (
    LinkedMention,
    StatedTitle,
    Statement,
    read_description_table,
    read_dictionary,
    read_edges,
    read_hierarchy,
    read_linked_mentions,
    read_mention_table,
)
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.wikidata_reader import (
    Entity,
    read_entities,
    read_item_descriptions,
    read_item_properties,
)
from eventformers.errors import EventformersError
from eventformers.files import file_digest

_TEXT_READERS: dict[str, Callable[[Path, SkippedRows], Iterator[StatedTitle]]] = {
    "dictionary": read_dictionary,
    "description_table": read_description_table,
    "descriptions": read_item_descriptions,
}


def text_files(files: Iterable[HierarchyFile]) -> list[HierarchyFile]:
    """The files with titles and descriptions: the dictionaries, else the descriptions from Wikidata, else a
    dump of it; empty if there are none."""
    files = list(files)
    for kinds in TEXT_KINDS:
        if found := [file for file in files if file.kind in kinds]:
            return found
    return []


def mentions_of(file: HierarchyFile, skipped: SkippedRows) -> Iterator[LinkedMention]:
    """Yield the mentions of a file."""
    reader = read_mention_table if file.kind == "mention_table" else read_linked_mentions
    return reader(file.path, skipped)


def mention_id_of(file: HierarchyFile, mention: LinkedMention) -> str:
    """The id that a mention states, else the name of its file and its line."""
    return mention.mention_id or f"{file_stem(file.path)}/{mention.line}"


class StatedTitles:
    """The titles and descriptions of events, one for each event and language.

    Texts without a title, and further texts of an event in the same language, are skipped and counted.
    """

    def __init__(self, read: Counter[str], skipped: SkippedRows) -> None:
        self.languages: dict[str, set[str]] = defaultdict(set)
        self._read, self._skipped = read, skipped

    def kept(self, texts: Iterable[StatedTitle]) -> Iterator[StatedTitle]:
        """Yield the texts that have a title and are the first of their event and language."""
        for text in texts:
            self._read["event_texts"] += 1
            if not text.title:
                self._skipped["event_without_title"] += 1
            elif text.language in self.languages[text.event_id]:
                self._skipped["event_repeated_in_a_language"] += 1
            else:
                self.languages[text.event_id].add(text.language)
                yield text

    def of_file(self, file: HierarchyFile) -> Iterator[StatedTitle]:
        """Yield the kept texts of a file; for an entity dump, those of event candidates."""
        if file.kind != "entities":
            yield from self.kept(_TEXT_READERS[file.kind](file.path, self._skipped))
            return
        for entity in read_entities(file.path, self._skipped):
            yield from self.of_entity(entity)

    def of_entity(self, entity: Entity) -> Iterator[StatedTitle]:
        """Yield the kept texts of a Wikidata item that may be an event."""
        if not entity.is_candidate:
            self._skipped["entity_that_is_no_event"] += 1
        elif not any(text.title for text in entity.texts):
            self._skipped["event_without_label"] += 1
        else:
            yield from self.kept(entity.texts)


@dataclass
class EventKnowledge:
    """Facts about events that are known before any mention is read.

    Args:
        languages: languages in which each event has a title; None if no file has titles.
        graph: the edges.
        splits: split of each event, as stated by files of hierarchies.
        named: events with a line in a file of hierarchies.
        events: the known events: those with a title, or, without titles, those of the edges.
        read: counts of items in the files.
        skipped: counts of skipped items, by reason.
    """

    languages: dict[str, set[str]] | None = None
    graph: EventHierarchy = field(default_factory=EventHierarchy)
    splits: dict[str, str] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    events: Container[str] = ()
    read: Counter[str] = field(default_factory=Counter)
    skipped: SkippedRows = field(default_factory=SkippedRows)

    @classmethod
    def of_files(cls, files: Sequence[HierarchyFile], malformed: str | None = None) -> EventKnowledge:
        """Read the texts and edges of events; of the texts, memory only keeps the languages.

        Edges store the index of their file in the list. An entity dump is read once, with or without its
        texts.

        Args:
            files: the files.
            malformed: handling of malformed parts; None uses the active policy.

        Raises:
            DataFormatError: a line cannot be read.
            EventformersError: there are files of texts, but no event in them has a title.
        """
        known = cls(skipped=SkippedRows(malformed))
        sources = text_files(files)
        texts = StatedTitles(known.read, known.skipped)
        for file in sources:
            if file.kind != "entities":
                deque(texts.of_file(file), maxlen=0)
        if sources:
            known.languages = texts.languages
        has_texts = bool(sources) and sources[0].kind != "entities"
        for place, file in enumerate(files):
            if file.kind == "entities":
                known._add_entities(file, place, texts, has_texts)
            elif file.kind in EDGE_KINDS:
                known._add_edges(file, place)
        if sources and not any(texts.languages.values()):
            names = ", ".join(file.path.name for file in sources)
            raise EventformersError(
                f"the knowledge base has no event: no title in {names}; accepted: at least one event with a"
                " title"
            )
        known.languages = dict(texts.languages) if sources else None
        known.graph.finish(known.languages, known.skipped)
        known.events = known.graph.events | known.named if known.languages is None else known.languages
        known.named = set(map(known.id_of, known.named))
        known.splits = {known.id_of(event_id): split for event_id, split in known.splits.items()}
        return known

    def id_of(self, event_id: str) -> str:
        """Return the id of an event as the titles have it, or, without titles, as the edges have it."""
        return id_among(event_id, self.events)

    def _add_entities(self, file: HierarchyFile, place: int, texts: StatedTitles, has_texts: bool) -> None:
        for entity in read_entities(file.path, self.skipped, edges_only=has_texts):
            self.read["entities"] += 1
            if not has_texts:
                deque(texts.of_entity(entity), maxlen=0)
            is_event = id_among(entity.event_id, texts.languages) in texts.languages
            if has_texts and not is_event:
                self.skipped["entity_that_is_no_event"] += 1
            if is_event:
                self._add(entity.statements, place)

    def _add_edges(self, file: HierarchyFile, place: int) -> None:
        if file.kind == "properties":
            self._add(read_item_properties(file.path, self.skipped), place)
            return
        reader = read_edges if file.kind == "edges" else read_hierarchy
        for entry in reader(file.path, self.skipped):
            if entry.event_id is not None:
                self.named.add(entry.event_id)
                if entry.split is not None:
                    self.splits[entry.event_id] = entry.split
            self._add(entry.statements, place)

    def _add(self, statements: Iterable[Statement], place: int) -> None:
        for statement in statements:
            self.read["statements"] += 1
            self.graph.add(statement, place)


@dataclass
class MentionSurvey:
    """Facts about all mentions that are needed before the first one is kept, in a few bytes for each.

    Args:
        splits: the splits whose files mention an event, by event; empty for files without a split.
        repeated: hashes of the mention ids that occur more than once.
        skipped: counts of skipped items of the files, by reason.
    """

    splits: dict[str, set[str]]
    repeated: frozenset[int]
    skipped: SkippedRows

    @classmethod
    def of_files(cls, files: Iterable[HierarchyFile], malformed: str | None = None) -> MentionSurvey:
        """Read the ids of all mentions and events once.

        Args:
            files: the files.
            malformed: handling of malformed parts; None uses the active policy.

        Raises:
            DataFormatError: a line cannot be read.
        """
        splits: dict[str, set[str]] = defaultdict(set)
        hashes = array("Q")
        skipped = SkippedRows(malformed)
        for file in files:
            if file.kind not in MENTION_KINDS:
                continue
            for mention in mentions_of(file, skipped):
                hashes.append(name_hash(mention_id_of(file, mention)))
                if mention.event_id:
                    found = splits[mention.event_id]
                    if file.split is not None:
                        found.add(file.split)
        values, counts = np.unique(np.frombuffer(hashes, dtype=np.uint64), return_counts=True)
        return cls(dict(splits), frozenset(values[counts > 1].tolist()), skipped)


Facts = TypeVar("Facts", EventKnowledge, MentionSurvey)


def _read_once(kind: type[Facts]) -> Callable[[Iterable[HierarchyFile], str], Facts]:
    """Cache the latest result: a dump of Wikidata takes hours, and all configs of a build need its facts."""

    @lru_cache(maxsize=1)
    def cached(files: tuple[HierarchyFile, ...], digests: tuple[str, ...], malformed: str) -> Facts:
        return kind.of_files(files, malformed)

    def of_files(files: Iterable[HierarchyFile], malformed: str) -> Facts:
        found = tuple(files)
        return cached(found, tuple(file_digest(file.path) for file in found), malformed)

    return of_files


knowledge_of = _read_once(EventKnowledge)
survey_of = _read_once(MentionSurvey)
