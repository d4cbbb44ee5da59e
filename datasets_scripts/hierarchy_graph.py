"""Hierarchies of events: part-of without cycles, gold paths, connected components and their splits."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Container, Iterable, Mapping

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from eventformers.datasets_scripts.document_splits import SPLITS, name_hash
from eventformers.datasets_scripts.hierarchy_readers import RELATIONS, Statement
from eventformers.datasets_scripts.malformed import SkippedRows

Edge = tuple[str, str]
"""Child and parent, or an event and the one that follows it."""


def id_order(event_id: str) -> tuple[int, str]:
    """A key that sorts ids, numbers by their size."""
    return len(event_id), event_id


class EventGraph:
    """The part-of and follows edges between events.

    `add` takes statements, `finish` makes a graph of them. An edge is one edge however often it is stated,
    from either end. Part-of edges that close a cycle are cut: of the edges between events that are, through
    others, part of each other, those stated from both ends come first, then those in the order of their ids,
    and an edge stays as long as its parent is not already below its child.

    After `finish`, `hierarchy` and `sequence` are the edges with the number of their statements' place,
    `parents` and `children` those of the hierarchy by event, and `cut` the edges that were cut.
    """

    def __init__(self) -> None:
        self._stated: dict[str, Counter[Edge]] = {"hierarchy": Counter(), "sequence": Counter()}
        self._places: dict[tuple[str, Edge], int] = {}
        self.hierarchy: dict[Edge, int] = {}
        self.sequence: dict[Edge, int] = {}
        self.cut: list[Edge] = []
        self.parents: dict[str, list[str]] = {}
        self.children: dict[str, list[str]] = {}
        self._all_edges: list[Edge] = []
        self._paths: dict[str, list[str]] = {}

    def add(self, statement: Statement, place: int) -> None:
        """Take note of a statement.

        Args:
            statement: its relation is a key of `RELATIONS`.
            place: a number that the edge is remembered by, such as that of its file; the first one stays.
        """
        kind, subject_first = RELATIONS[statement.relation]
        pair = (statement.subject, statement.object)
        edge = pair if subject_first else pair[::-1]
        self._stated[kind][edge] += 1
        self._places.setdefault((kind, edge), place)

    def finish(self, events: Container[str] | None, skipped: SkippedRows) -> None:
        """Make the graph of what was added.

        Args:
            events: what counts as an event; None takes everything that an edge names.
            skipped: gets the numbers of edges to no event, of an event to itself, and that close a cycle.
        """
        kept: dict[str, list[Edge]] = {}
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

        With several parents there are several paths; every event then stands after all that lie below it, by
        the length of the longest way to it, then by id.
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
        """Whether an event has a parent or a child."""
        return event_id in self.parents or event_id in self.children

    def components(self, events: Iterable[str]) -> list[list[str]]:
        """The connected components of events over all edges, those that were cut included.

        Args:
            events: the events; those that an edge names count in any case.

        Returns:
            Each component sorted by id, the components by their first ids.
        """
        names = sorted({*events, *(end for edge in self._all_edges for end in edge)}, key=id_order)
        labels = _component_labels(names, self._all_edges, directed=False)
        groups: dict[int, list[str]] = defaultdict(list)
        for name, label in zip(names, labels, strict=True):
            groups[label].append(name)
        return list(groups.values())


def edges_closing_cycles(edges: list[Edge], stated: Mapping[Edge, int]) -> list[Edge]:
    """The edges that have to go so that no event is part of itself, as `EventGraph` chooses them.

    Args:
        edges: child and parent, sorted; none from an event to itself.
        stated: how often each is stated.
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
    """The split of every event, so that the events of a component share one as far as the raw files allow.

    An event whose split is known keeps it. The others of its component take the latest split that is known of
    one of them, so that nothing near a test event trains. Components of which nothing is known are put in an
    order that depends on the seed and their first ids, and the shares are taken of their number: validation
    from the start, then test, and train for the rest.

    Args:
        components: lists of events; the first id of each names it.
        known: splits by event, as the raw files state them.
        validation_share: the share of components in validation, 0 to 1.
        test_share: the share of components in test, 0 to 1.
        seed: the seed of the order.
        notes: gets the number of components whose events are known to be in several splits.
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
    """Of several splits the one that must be kept from training the most: test, then validation."""
    return max(splits, key=SPLITS.index)


def _component_labels(names: list[str], edges: Iterable[Edge], *, directed: bool) -> list[int]:
    """For every name the number of its connected component, strongly connected where edges have a
    direction."""
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
    """Whether a way up leads from one event to another."""
    seen, waiting = {start}, [start]
    while waiting:
        for parent in above.get(waiting.pop(), ()):
            if parent == wanted:
                return True
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return False
