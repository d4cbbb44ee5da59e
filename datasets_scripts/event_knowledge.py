"""Facts about events in raw files: the languages of their texts, their edges and their splits.

The graph of the edges has an acyclic part-of relation, gold paths and connected components.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from eventformers.datasets_scripts.document_splits import SPLITS, name_hash
from eventformers.datasets_scripts.hierarchy_files import EDGE_KINDS, MENTION_KINDS, TEXT_KINDS, HierarchyFile
from eventformers.datasets_scripts.hierarchy_readers import (
    RELATIONS,
    Entity,
    LinkedMention,
    StatedTitle,
    Statement,
    read_edges,
    read_entities,
    read_hierarchy,
    read_item_properties,
    read_linked_mentions,
    read_mention_table,
    read_titles,
)
from eventformers.datasets_scripts.malformed import SkippedRows, malformed_policy
from eventformers.datasets_scripts.reading.lines import file_stem
from eventformers.errors import EventformersError
from eventformers.files import file_digest

Edge = tuple[str, str]
"""Child and parent, or an event and the next one."""


def id_order(event_id: str) -> tuple[int, str]:
    """Sort key of ids, in which numbers compare by value."""
    return len(event_id), event_id


def id_among(event_id: str, known: Container[str]) -> str:
    """Return an id in the form that the known events have; unchanged if it is none of them.

    XLEL-WD writes the item Q5 of Wikidata as 5, other files have blanks around an id.
    """
    if event_id in known:
        return event_id
    plain = event_id.strip()
    item = re.fullmatch("(Q?)([0-9]+)", plain)
    other = plain if item is None else item[2] if item[1] else f"Q{plain}"
    return next((form for form in (plain, other) if form in known), event_id)


class EventHierarchy:
    """The part-of and follows edges between events.

    `add` collects statements, and `finish` builds the graph. An edge counts once, however often and from
    whichever end it is stated. Part-of edges that close a cycle are cut: within each cycle, edges stated from
    both ends come first, then the others in the order of their ids, and an edge is kept unless its parent is
    already below its child.

    After `finish`, `events` has the ends of all edges, `hierarchy` and `sequence` map each edge to the place
    number of its statement, `parents` and `children` are those of the hierarchy by event, and `cut` has the
    edges that were cut.
    """

    def __init__(self) -> None:
        self._stated: dict[str, Counter[Edge]] = {"hierarchy": Counter(), "sequence": Counter()}
        self._places: dict[tuple[str, Edge], int] = {}
        self.hierarchy: dict[Edge, int] = {}
        self.sequence: dict[Edge, int] = {}
        self.cut: list[Edge] = []
        self.parents: dict[str, list[str]] = {}
        self.children: dict[str, list[str]] = {}
        self.events: frozenset[str] = frozenset()
        self._all_edges: list[Edge] = []
        self._levels: dict[str, dict[str, int]] = {}
        self._heights: dict[str, int] = {}

    def add(self, statement: Statement, place: int) -> None:
        """Add a statement.

        Args:
            statement: its relation is a key of `RELATIONS`.
            place: a number to store with the edge, such as the index of its file; the first one is kept.
        """
        kind, subject_first = RELATIONS[statement.relation]
        pair = (statement.subject, statement.object)
        edge = pair if subject_first else pair[::-1]
        self._stated[kind][edge] += 1
        self._places.setdefault((kind, edge), place)

    def finish(self, events: Container[str] | None, skipped: SkippedRows) -> None:
        """Build the graph.

        Args:
            events: the known events; None accepts every event that an edge names.
            skipped: counts of edges to unknown events, of edges from an event to itself, and of edges that
                close a cycle.
        """
        kept: dict[str, list[Edge]] = {}
        if events is not None:
            # The ends of the stated edges are written as the events are.
            given, self._stated = self._stated, {kind: Counter() for kind in self._stated}
            places, self._places = self._places, {}
            for kind, stated in given.items():
                for edge, count in stated.items():
                    known = id_among(edge[0], events), id_among(edge[1], events)
                    self._stated[kind][known] += count
                    self._places.setdefault((kind, known), places[kind, edge])
        for kind, stated in self._stated.items():
            kept[kind] = []
            for edge in sorted(stated, key=lambda edge: (id_order(edge[0]), id_order(edge[1]))):
                if edge[0] == edge[1]:
                    skipped[f"{kind}_edge_of_an_event_to_itself"] += 1
                elif events is not None and not (edge[0] in events and edge[1] in events):
                    skipped[f"{kind}_edge_to_no_event"] += 1
                else:
                    kept[kind].append(edge)
        self._all_edges = [*kept["hierarchy"], *kept["sequence"]]
        self.events = frozenset(end for edge in self._all_edges for end in edge)
        self.cut = edges_closing_cycles(kept["hierarchy"], self._stated["hierarchy"])
        if self.cut:
            skipped["hierarchy_edge_that_closes_a_cycle"] += len(self.cut)
        cut = set(self.cut)
        parents, children = defaultdict(list), defaultdict(list)
        for edge in kept["hierarchy"]:
            if edge in cut:
                continue
            child, parent = edge
            parents[child].append(parent)
            children[parent].append(child)
            self.hierarchy[edge] = self._places["hierarchy", edge]
        self.parents, self.children = dict(parents), dict(children)
        self.sequence = {edge: self._places["sequence", edge] for edge in kept["sequence"]}
        self._stated.clear()
        self._places.clear()

    def gold_path(self, event_id: str) -> list[str]:
        """An event and all its ancestors, from the atomic event to the roots.

        With several parents there are several paths. The events are sorted by the length of the longest path
        to them, then by id, so that every event follows all events below it.
        """
        return [*self._levels_above(event_id)]

    def height(self, event_id: str) -> int:
        """The number of levels below the root of an event's hierarchy; with several roots, the largest."""
        if not self._heights:
            for lower in self.parents:
                for upper, levels in self._levels_above(lower).items():
                    self._heights[upper] = max(levels, self._heights.get(upper, 0))
        return max(self._heights.get(upper, 0) for upper in self.gold_path(event_id))

    def _levels_above(self, event_id: str) -> dict[str, int]:
        """The length of the longest path to each event of `gold_path`, in its order."""
        if event_id not in self._levels:
            distance = {event_id: 0}
            waiting = deque([event_id])
            while waiting:
                one = waiting.popleft()
                for parent in self.parents.get(one, ()):
                    if distance.get(parent, -1) < distance[one] + 1:
                        distance[parent] = distance[one] + 1
                        waiting.append(parent)
            order = sorted(distance, key=lambda one: (distance[one], id_order(one)))
            self._levels[event_id] = {one: distance[one] for one in order}
        return self._levels[event_id]

    def statistics(self, events: Iterable[str]) -> dict[str, int | float]:
        """Count events and their trees as in Table 1 of Ou et al., 2023.

        Args:
            events: the gold events of mentions, with all their ancestors.

        Returns:
            The numbers of events and of trees, which are roots of the hierarchy; and the averages of the
            children of an event that has any, and of the levels below a root, both among these events.
        """
        inside = {one for one in events if self.in_hierarchy(one)}
        children = [sum(child in inside for child in self.children.get(one, ())) for one in inside]
        depths = {one: 0 for one in inside if one not in self.parents}
        for lower in inside:
            for upper, levels in self._levels_above(lower).items():
                if upper in depths:
                    depths[upper] = max(depths[upper], levels)
        return {
            "events": len(set(events)),
            "trees": len(depths),
            "average_children": round(sum(children) / max(1, sum(map(bool, children))), 2),
            "average_tree_depth": round(sum(depths.values()) / max(1, len(depths)), 2),
        }

    def in_hierarchy(self, event_id: str) -> bool:
        """True if an event has a parent or a child."""
        return event_id in self.parents or event_id in self.children

    def components(self, events: Iterable[str]) -> list[list[str]]:
        """Compute the connected components of events over all edges, including those that were cut.

        Args:
            events: the events; those named by an edge are always included.

        Returns:
            Each component sorted by id; the components sorted by their first ids.
        """
        names = sorted(self.events.union(events), key=id_order)
        labels = _component_labels(names, self._all_edges, directed=False)
        groups: dict[int, list[str]] = defaultdict(list)
        for name, label in zip(names, labels, strict=True):
            groups[label].append(name)
        return list(groups.values())


def edges_closing_cycles(edges: list[Edge], stated: Mapping[Edge, int]) -> list[Edge]:
    """Select the edges to cut so that no event is part of itself, in the order described in `EventHierarchy`.

    Args:
        edges: child and parent, sorted; none from an event to itself.
        stated: number of statements of each edge.
    """
    names = sorted({end for edge in edges for end in edge}, key=id_order)
    label = dict(zip(names, _component_labels(names, edges, directed=True), strict=True))
    inside = [edge for edge in edges if label[edge[0]] == label[edge[1]]]
    above: dict[str, list[str]] = defaultdict(list)
    cut = []
    for child, parent in sorted(inside, key=lambda edge: -stated[edge]):
        reached, waiting = {parent}, [parent]
        while waiting:
            new = set(above[waiting.pop()]) - reached
            reached |= new
            waiting += new
        if child in reached:
            cut.append((child, parent))
        else:
            above[child].append(parent)
    return cut


def component_splits(
    components: Iterable[list[str]],
    known: Mapping[str, str],
    validation_share: float,
    test_share: float,
    seed: int,
    notes: Counter[str],
) -> dict[str, str]:
    """Assign events to splits so that the events of a component share a split, as far as the raw files allow.

    An event with a known split keeps it. The other events of its component get the latest of the component's
    known splits, so that nothing connected to a test event is used in training. Components without known
    splits are ordered by a hash of the seed and their first ids and divided by the shares: first validation,
    then test, and train for the rest.

    Args:
        components: lists of events; the first id of each identifies it.
        known: splits by event, from the raw files.
        validation_share: share of components in validation, 0 to 1.
        test_share: share of components in test, 0 to 1.
        notes: count of components with known splits that differ; added to.
    """
    split_of: dict[str, str] = {}
    unknown = []
    for component in components:
        splits = {known[name] for name in component if name in known}
        if not splits:
            unknown.append(component)
            continue
        if len(splits) > 1:
            notes["components_in_several_splits"] += 1
        latest = later_split(splits)
        split_of.update({name: known.get(name, latest) for name in component})
    unknown.sort(key=lambda component: (name_hash(seed, component[0]), component[0]))
    validation = round(len(unknown) * validation_share)
    test = round(len(unknown) * test_share)
    for position, component in enumerate(unknown):
        split = "validation" if position < validation else "test" if position < validation + test else "train"
        split_of.update(dict.fromkeys(component, split))
    return split_of


def move_components(
    components: Iterable[list[str]],
    split_of: Mapping[str, str],
    mentions: Mapping[str, int],
    wanted: int,
    seed: int,
    notes: Counter[str],
) -> dict[str, str]:
    """Move whole components from train to validation until validation has enough mentions.

    Components are taken in the order of a hash of the seed and their first ids. One with more mentions than
    are still missing stays in train.

    Args:
        components: lists of events; the first id of each identifies it.
        mentions: number of mentions that count, by event.
        wanted: number of such mentions in validation.
        notes: counts of moved components and their mentions that count; added to.
    """
    moved: dict[str, str] = {}
    missing = wanted - sum(count for one, count in mentions.items() if split_of.get(one) == "validation")
    for component in sorted(components, key=lambda component: name_hash(seed, component[0])):
        count = sum(mentions.get(one, 0) for one in component)
        if 0 < count <= missing and all(split_of[one] == "train" for one in component):
            missing -= count
            moved.update(dict.fromkeys(component, "validation"))
            notes["components_moved_to_validation"] += 1
            notes["mentions_with_parents_moved_to_validation"] += count
    return {**split_of, **moved}


def later_split(splits: Iterable[str]) -> str:
    """The latest of several splits, where test is after validation and validation after train."""
    return max(splits, key=SPLITS.index)


def _component_labels(names: list[str], edges: Iterable[Edge], *, directed: bool) -> list[int]:
    """Number the connected components of names, strongly connected for directed edges."""
    if not names:
        return []
    position = {name: index for index, name in enumerate(names)}
    ends = np.array([(position[start], position[end]) for start, end in edges], dtype=np.int64).reshape(-1, 2)
    values = np.ones(len(ends), dtype=np.int64)
    matrix = coo_array((values, (ends[:, 0], ends[:, 1])), (len(names), len(names)))
    _, labels = connected_components(matrix.tocsr(), directed=directed, connection="strong")
    numbers: list[int] = labels.tolist()
    return numbers


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
            yield from self.kept(read_titles(file.path, self._skipped, file.kind))
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
    def of_files(cls, files: Sequence[HierarchyFile]) -> EventKnowledge:
        """Read the texts and edges of events; of the texts, memory only keeps the languages.

        Edges store the index of their file in the list. An entity dump is read once, with or without its
        texts.

        Args:
            files: the files; the active policy applies to malformed parts.

        Raises:
            DataFormatError: a line cannot be read.
            EventformersError: there are files of texts, but no event in them has a title.
        """
        known = cls()
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
                for entity in read_entities(file.path, known.skipped, edges_only=has_texts):
                    known.read["entities"] += 1
                    if not has_texts:
                        deque(texts.of_entity(entity), maxlen=0)
                    if id_among(entity.event_id, texts.languages) in texts.languages:
                        known._add(entity.statements, place)
                    elif has_texts:
                        known.skipped["entity_that_is_no_event"] += 1
            elif file.kind == "properties":
                known._add(read_item_properties(file.path, known.skipped), place)
            elif file.kind in EDGE_KINDS:
                for entry in (read_edges if file.kind == "edges" else read_hierarchy)(
                    file.path, known.skipped
                ):
                    if entry.event_id is not None:
                        known.named.add(entry.event_id)
                        if entry.split is not None:
                            known.splits[entry.event_id] = entry.split
                    known._add(entry.statements, place)
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

    def _add(self, statements: Iterable[Statement], place: int) -> None:
        for statement in statements:
            self.read["statements"] += 1
            self.graph.add(statement, place)


@dataclass
class MentionSurvey:
    """Facts about all mentions that are needed before the first one is kept, in a few bytes for each.

    Args:
        mentions: number of mentions of each event, by the split and the task of their file, None for files
            without one.
        repeated: hashes of the mention ids that occur more than once.
        skipped: counts of skipped items of the files, by reason.
    """

    mentions: dict[str, Counter[tuple[str | None, str | None]]]
    repeated: frozenset[int]
    skipped: SkippedRows

    @classmethod
    def of_files(cls, files: Iterable[HierarchyFile]) -> MentionSurvey:
        """Read the ids of all mentions and events once; the active policy applies to malformed parts.

        Raises:
            DataFormatError: a line cannot be read.
        """
        mentions: dict[str, Counter[tuple[str | None, str | None]]] = defaultdict(Counter)
        hashes = array("Q")
        skipped = SkippedRows()
        for file in files:
            if file.kind not in MENTION_KINDS:
                continue
            for mention in mentions_of(file, skipped):
                hashes.append(name_hash(mention_id_of(file, mention)))
                if mention.event_id:
                    mentions[mention.event_id][file.split, file.task] += 1
        values, counts = np.unique(np.frombuffer(hashes, dtype=np.uint64), return_counts=True)
        return cls(dict(mentions), frozenset(values[counts > 1].tolist()), skipped)


def facts_of(kind: Any, files: Iterable[HierarchyFile]) -> Any:
    """Read facts once: a dump of Wikidata takes hours, and all configs of a build need its facts.

    Args:
        kind: `EventKnowledge` or `MentionSurvey`.
    """
    found = tuple(files)
    return _latest_facts(kind, found, tuple(file_digest(file.path) for file in found), malformed_policy())


@lru_cache(maxsize=2)
def _latest_facts(kind: Any, files: tuple[HierarchyFile, ...], digests: tuple[str, ...], policy: str) -> Any:
    return kind.of_files(files)
