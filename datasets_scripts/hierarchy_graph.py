"""Hierarchies of events: an acyclic part-of relation, gold paths, connected components and their splits."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Container, Iterable, Mapping

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from eventformers.datasets_scripts.document_splits import SPLITS, name_hash
from eventformers.datasets_scripts.hierarchy_readers import RELATIONS, Statement
from eventformers.datasets_scripts.malformed import SkippedRows

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
        self._paths: dict[str, list[str]] = {}

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
            self._use_ids_of(events)
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

    def _use_ids_of(self, events: Container[str]) -> None:
        """Write the ends of the stated edges as the events do."""
        given, self._stated = self._stated, {kind: Counter() for kind in self._stated}
        places, self._places = self._places, {}
        for kind, stated in given.items():
            for edge, count in stated.items():
                known = id_among(edge[0], events), id_among(edge[1], events)
                self._stated[kind][known] += count
                self._places.setdefault((kind, known), places[kind, edge])

    def gold_path(self, event_id: str) -> list[str]:
        """An event and all its ancestors, from the atomic event to the roots.

        With several parents there are several paths. The events are sorted by the length of the longest path
        to them, then by id, so that every event follows all events below it.
        """
        if event_id not in self._paths:
            distance = {event_id: 0}
            waiting = deque([event_id])
            while waiting:
                one = waiting.popleft()
                for parent in self.parents.get(one, ()):
                    if distance.get(parent, -1) < distance[one] + 1:
                        distance[parent] = distance[one] + 1
                        waiting.append(parent)
            self._paths[event_id] = sorted(distance, key=lambda one: (distance[one], id_order(one)))
        return self._paths[event_id]

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
        if _reaches(above, parent, child):
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
        seed: seed of the order.
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


def _reaches(above: Mapping[str, list[str]], start: str, wanted: str) -> bool:
    """True if a path upwards leads from one event to another."""
    seen, waiting = {start}, [start]
    while waiting:
        for parent in above.get(waiting.pop(), ()):
            if parent == wanted:
                return True
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return False
