"""Hierarchies of events: cycles, gold paths with one and several parents, components and their splits."""

from __future__ import annotations

from collections import Counter

import pytest

from eventformers.datasets_scripts.event_knowledge import EventHierarchy, component_splits, later_split
from eventformers.datasets_scripts.hierarchy_readers import RELATIONS, Statement
from eventformers.datasets_scripts.malformed import SkippedRows


def graph_of(
    *statements: tuple[str, str, str], events: str | None = None
) -> tuple[EventHierarchy, Counter[str]]:
    graph, skipped = EventHierarchy(), SkippedRows()
    for place, statement in enumerate(statements):
        graph.add(Statement(*statement), place)
    graph.finish(set(events.split()) if events is not None else None, skipped)
    return graph, skipped


def part_of(*edges: str) -> tuple[EventHierarchy, Counter[str]]:
    """The graph of edges such as `1>2`, 1 is part of 2."""
    return graph_of(*((edge.split(">")[0], "part_of", edge.split(">")[1]) for edge in edges))


@pytest.mark.parametrize(
    ("stated", "kind", "edge"),
    [
        (("1", "part_of", "2"), "hierarchy", ("1", "2")),
        (("2", "P527", "1"), "hierarchy", ("1", "2")),
        (("2", "P155", "1"), "sequence", ("1", "2")),
        (("1", "followed_by", "2"), "sequence", ("1", "2")),
    ],
)
def test_relations_and_their_inverses(stated: tuple[str, str, str], kind: str, edge: tuple[str, str]) -> None:
    graph, skipped = graph_of(stated)
    assert (list(graph.hierarchy), list(graph.sequence)) == (
        ([edge], []) if kind == "hierarchy" else ([], [edge])
    )
    assert not skipped


def test_an_edge_is_one_edge_however_often_it_is_stated() -> None:
    graph, _ = graph_of(("1", "part_of", "2"), ("2", "has_part", "1"), ("1", "P361", "2"), ("3", "P155", "2"))
    assert graph.hierarchy == {("1", "2"): 0}
    assert graph.sequence == {("2", "3"): 3}


def test_trees_are_counted_among_the_events_of_mentions() -> None:
    graph, _ = part_of("1>2", "2>3", "4>3", "5>6", "7>6")
    assert graph.statistics(["1", "2", "3", "4", "5", "6", "9"]) == {
        "events": 7,
        "trees": 2,
        # 3 has two children, 2 and 6 one each: 7 is no event of a mention.
        "average_children": 1.33,
        "average_tree_depth": 1.5,
    }
    assert graph.statistics(["3", "6"])["average_tree_depth"] == 0
    assert graph.statistics([]) == dict.fromkeys(
        ("events", "trees", "average_children", "average_tree_depth"), 0
    )
    assert [graph.height(one) for one in "123456"] == [2, 2, 2, 2, 1, 1]


def test_edges_to_no_event_and_to_itself_are_counted() -> None:
    graph, skipped = graph_of(
        ("1", "part_of", "2"),
        ("1", "part_of", "9"),
        ("2", "part_of", "2"),
        ("1", "follows", "8"),
        events="1 2",
    )
    assert list(graph.hierarchy) == [("1", "2")]
    assert skipped == {
        "hierarchy_edge_to_no_event": 1,
        "hierarchy_edge_of_an_event_to_itself": 1,
        "sequence_edge_to_no_event": 1,
    }


def test_a_gold_path_goes_from_the_atomic_event_to_the_root() -> None:
    graph, _ = part_of("1>2", "2>3", "4>3")
    assert graph.gold_path("1") == ["1", "2", "3"]
    assert graph.gold_path("3") == ["3"]
    assert graph.gold_path("unknown") == ["unknown"]
    assert [graph.in_hierarchy(one) for one in ("1", "3", "unknown")] == [True, True, False]


def test_with_several_parents_every_event_stands_after_those_below_it() -> None:
    # 1 is part of 5 at once and by way of 2 and 3, which are of one size.
    graph, _ = part_of("1>5", "1>3", "1>2", "2>4", "3>5", "4>5", "5>6")
    assert graph.gold_path("1") == ["1", "2", "3", "4", "5", "6"]
    assert graph.parents["1"] == ["2", "3", "5"]


def test_a_cycle_is_cut_at_one_edge_and_the_rest_stays() -> None:
    graph, skipped = part_of("1>2", "2>3", "3>1", "3>4", "10>1")
    assert graph.cut == [("3", "1")]
    assert skipped == {"hierarchy_edge_that_closes_a_cycle": 1}
    assert graph.gold_path("10") == ["10", "1", "2", "3", "4"]


def test_of_a_cycle_the_edge_goes_that_is_stated_from_one_end_alone() -> None:
    graph, _ = graph_of(("1", "part_of", "2"), ("2", "part_of", "1"), ("1", "has_part", "2"))
    assert (graph.cut, list(graph.hierarchy)) == ([("1", "2")], [("2", "1")])


def test_cycles_do_not_depend_on_the_order_of_statements() -> None:
    edges = ["1>2", "2>3", "3>1", "2>1", "3>2", "4>1"]
    first, _ = part_of(*edges)
    second, _ = part_of(*reversed(edges))
    assert list(first.hierarchy) == list(second.hierarchy)
    assert len(first.cut) == 3


def test_components_hang_together_by_any_edge() -> None:
    graph, _ = graph_of(
        ("1", "part_of", "2"),
        ("3", "part_of", "4"),
        ("2", "follows", "4"),
        ("5", "P361", "6"),
        ("6", "P361", "5"),
    )
    assert graph.components(["5", "10", "9"]) == [["1", "2", "3", "4"], ["5", "6"], ["9"], ["10"]]


def test_components_share_a_split() -> None:
    notes: Counter[str] = Counter()
    components = [[str(number), f"{number}-part"] for number in range(20)]
    drawn = component_splits(components, {}, 0.1, 0.2, 41, notes)
    assert all(drawn[first] == drawn[second] for first, second in components)
    assert Counter(drawn.values()) == {"train": 28, "validation": 4, "test": 8}
    assert component_splits(components[::-1], {}, 0.1, 0.2, 41, notes) == drawn
    assert component_splits(components, {}, 0.1, 0.2, 42, notes) != drawn
    assert not notes


def test_known_splits_stay_and_pull_the_rest_of_their_component_along() -> None:
    notes: Counter[str] = Counter()
    known = {"1": "train", "2": "test", "4": "validation"}
    splits = component_splits([["1", "2", "3"], ["4", "5"]], known, 0.0, 0.0, 41, notes)
    assert splits == {"1": "train", "2": "test", "3": "test", "4": "validation", "5": "validation"}
    assert notes == {"components_in_several_splits": 1}


def test_the_later_split() -> None:
    assert later_split(["train", "test", "validation"]) == "test"
    assert later_split({"validation", "train"}) == "validation"


def test_relations_are_pairs_of_inverses() -> None:
    for names in (("part_of", "has_part"), ("followed_by", "follows"), ("P361", "P527"), ("P156", "P155")):
        (first, straight), (second, inverse) = (RELATIONS[name] for name in names)
        assert (first, straight, inverse) == (second, True, False)
