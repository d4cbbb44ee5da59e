"""Hierarchies of events: cycles, gold paths, components and their splits."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from hierarchy_builds import (
    dictionary,
    edges_of,
    gold_of,
    load,
    mention,
    properties,
    report_of,
    write,
    write_numbered,
    write_published,
)

from eventformers.datasets_scripts import build_dataset, build_reports, load_built
from eventformers.datasets_scripts.event_knowledge import EventHierarchy, component_splits, later_split
from eventformers.datasets_scripts.hierarchy_readers import RELATIONS, Statement
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.errors import EventformersError


@pytest.fixture
def published(tmp_path: Path) -> Path:
    return write_published(tmp_path / "raw")


def test_edges_lie_in_the_splits_of_their_events(published: Path) -> None:
    # The split of mentions of 5 and 6 has no edge, so that there is none of that name.
    assert edges_of(published, "hierarchy") == {"train": [("2", "1"), ("3", "2")]}
    assert edges_of(published, "sequence") == {"train": [("1", "4")]}
    report = report_of(published, "hierarchy")
    assert report["sources"] == {"wikidata": {"license": "CC0-1.0", "edges": 2}}
    assert report["statistics"] == {"components": 3, "events": 3, "longest_gold_path": 3, "roots": 1}
    assert report["read"] == {"event_texts": 9, "statements": 4}
    assert report["skipped"] == {"hierarchy_edge_to_no_event": 1}


def test_without_any_edge_between_events_no_edges_are_built(published: Path) -> None:
    write(published / "wd_item_props.jsonl", *properties()[-2:])
    with pytest.raises(EventformersError, match=r"split train: no rows left .*1 hierarchy_edge_to_no_event"):
        load(published, "hierarchy")
    with pytest.warns(UserWarning, match="left out: event_hierarchies, config hierarchy"):
        folder = build_dataset("event_hierarchies", data_dir=published)
    assert sorted(build_reports(folder)) == ["events", "mentions", "sequence"]


def test_a_cycle_is_cut_and_told(published: Path) -> None:
    cycle = {"qid": "Q1", "pid": "P361", "datavalue": [{"value": {"id": {"value": "Q3"}}}]}
    write(published / "wd_item_props.jsonl", *properties(), cycle)
    report = report_of(published)
    assert report["skipped"]["hierarchy_edge_that_closes_a_cycle"] == 1
    assert report["statistics"]["train"]["first_edges_that_close_a_cycle"] == ["3 in 2"]
    assert gold_of(published)["train"][0] == ["3"]


def test_hierarchies_of_a_maximum_height(tmp_path: Path) -> None:
    """The height is that of the whole hierarchy: a root has the height of its deepest event."""
    write_numbered(tmp_path, range(1, 8))
    edges = "child_id,parent_id\n3,2\n2,1\n4,1\n6,5\n"
    (tmp_path / "edges.csv").write_text(edges, encoding="utf-8")
    write(tmp_path / "mentions.train.jsonl", *(mention(str(one)) for one in range(1, 8)))
    assert len(gold_of(tmp_path, max_height=2)["train"]) == 7
    assert gold_of(tmp_path, max_height=1)["train"] == [["5"], ["6", "5"], ["7"]]
    report = report_of(tmp_path, max_height=1)
    assert report["skipped"] == {"mention_of_event_in_a_higher_hierarchy": 4}


def test_components_move_to_validation(tmp_path: Path) -> None:
    write_numbered(tmp_path, range(1, 10))
    # Three components with one, two and five mentions of a child, one without, and the one of validation.
    (tmp_path / "edges.csv").write_text("child_id,parent_id\n2,1\n4,3\n6,5\n9,8\n", encoding="utf-8")
    trained = ["1", "2", "3", "4", "4", *["6"] * 5, "7"]
    write(tmp_path / "mentions.train.jsonl", *(mention(one) for one in trained))
    write(tmp_path / "mentions.dev.jsonl", mention("9"), mention("8"))
    usual = gold_of(tmp_path)
    assert gold_of(tmp_path, validation_with_parents=1) == usual
    moved = gold_of(tmp_path, validation_with_parents=4)
    children = [["1"], ["2", "1"], ["3"], ["4", "3"], ["4", "3"]]
    assert moved["validation"] == [*children, *usual["validation"]]
    assert moved["train"] == [["6", "5"]] * 5 + [["7"]]
    report = report_of(tmp_path, validation_with_parents=4)
    assert report["read"]["mentions"] == len(trained) + 2
    statistics = report["statistics"]["train"]
    assert statistics["components_moved_to_validation"] == 2
    assert statistics["mentions_with_parents_moved_to_validation"] == 3
    edges = edges_of(tmp_path, "hierarchy", validation_with_parents=4)
    assert edges == {"train": [("6", "5")], "validation": [("2", "1"), ("4", "3"), ("9", "8")]}
    redrawn = gold_of(tmp_path, validation_with_parents=4, split_by="components", test_share=0)
    seen = {split: {path[-1] for path in paths} for split, paths in redrawn.items()}
    assert not seen["train"] & seen["validation"]


def test_edges_move_with_their_mentions(tmp_path: Path) -> None:
    """Edges are read with the mentions of both tasks, which count once."""
    (tmp_path / "edges.csv").write_text("child_id,parent_id\n2,1\n4,3\n6,5\n", encoding="utf-8")
    for task in ("multilingual", "crosslingual"):
        folder = tmp_path / f"wikipedia-zero-shot-{task}"
        write(folder / "train.jsonl", *(mention(one) for one in ("2", "2", "4", "4", "6")))
        write_numbered(folder, range(1, 10))
    for wanted in range(1, 5):
        edges = edges_of(tmp_path, "hierarchy", validation_with_parents=wanted)
        gold = gold_of(tmp_path, validation_with_parents=wanted)
        for split, found in gold.items():
            assert {tuple(path) for path in found} == set(edges[split]), (wanted, split)


def test_splits_by_component(tmp_path: Path) -> None:
    events = range(100, 160)
    write_numbered(tmp_path, events)
    edges = "".join(f"{one},part_of,{one + 1}\n{one},follows,{one + 2}\n" for one in range(100, 160, 3))
    (tmp_path / "edges.csv").write_text("child_id,relation,parent_id\n" + edges, encoding="utf-8")
    write(tmp_path / "mentions.jsonl", *(mention(str(one)) for one in events), mention(""))
    gold = gold_of(tmp_path)
    assert {split: len(found) for split, found in gold.items()} == {"train": 48, "validation": 6, "test": 6}
    seen: dict[str, str] = {}
    for config in ("hierarchy", "sequence"):
        for split, found in edges_of(tmp_path, config).items():
            for edge in found:
                for end in edge:
                    assert seen.setdefault(end, split) == split
    assert {path[0]: split for split, paths in gold.items() for path in paths} == seen
    report = report_of(tmp_path)
    assert (report["read"]["mentions"], report["skipped"]) == (61, {"mention_without_event": 1})
    assert report["statistics"]["train"]["components"] == 20
    assert gold_of(tmp_path, split_seed=7) != gold
    assert set(gold_of(tmp_path, test_share=0)) == {"train", "validation", "test"} - {"test"}


def test_a_hierarchy_can_state_the_splits(tmp_path: Path) -> None:
    write(
        tmp_path / "hierarchy.jsonl",
        {"label_id": "1", "part_of": [], "split": "dev"},
        {"label_id": "2", "part_of": ["1"], "split": "dev"},
        {"label_id": "3", "part_of": [], "follows": ["4"], "split": "test"},
        {"label_id": "4", "part_of": [], "split": "test"},
    )
    write(tmp_path / "mentions.jsonl", mention("2"), mention("3"))
    shares = {"validation_share": 0.5, "test_share": 0.5}
    assert gold_of(tmp_path, **shares) == {"validation": [["2", "1"]], "test": [["3"]]}
    assert edges_of(tmp_path, "hierarchy") == {"validation": [("2", "1")]}
    assert edges_of(tmp_path, "sequence") == {"test": [("4", "3")]}
    # A split without a share is left out, and so are the mentions of events in it.
    shares = {"validation_share": 1, "test_share": 0}
    assert gold_of(tmp_path, **shares) == {"validation": [["2", "1"]]}
    report = report_of(tmp_path, **shares)
    assert (report["read"]["mentions"], report["skipped"]) == (2, {"mention_of_a_split_left_out": 1})


def test_components_that_the_raw_files_part_are_counted(published: Path) -> None:
    write(published / "wikipedia-zero-shot.test.jsonl", mention("4"))
    # 1 has no mention: what hangs together with a test event does not train.
    assert edges_of(published, "sequence") == {"test": [("1", "4")]}
    assert edges_of(published, "hierarchy") == {"test": [("2", "1"), ("3", "2")]}
    statistics = report_of(published, "hierarchy")["statistics"]
    assert statistics["components_in_several_splits"] == 1
    assert statistics["edges_between_splits"] == 1
    with pytest.raises(EventformersError, match=r"split train: no rows left .*2 edge_of_a_split_left_out"):
        load(published, "hierarchy", test_share=0)


def test_wikidata_alone_makes_a_knowledge_base(tmp_path: Path) -> None:
    def item(number: int, claims: dict[str, list[int]], **labels: str) -> dict[str, object]:
        return {
            "id": f"Q{number}",
            "labels": {language: {"value": label} for language, label in labels.items()},
            "descriptions": {"en": {"value": "an event"}},
            "claims": {
                name: [{"mainsnak": {"datavalue": {"value": {"id": f"Q{other}"}}}} for other in others]
                for name, others in claims.items()
            },
        }

    when_and_where = {"P585": [1], "P276": [1]}
    entities = [
        item(1, {**when_and_where, "P527": [2]}, en="War", he="מלחמה"),
        item(2, {**when_and_where, "P361": [1, 3]}, en="Battle"),
        item(3, {"P361": [1]}, en="Museum"),
        item(4, {**when_and_where, "P361": [1]}),
    ]
    lines = ",\n".join(json.dumps(one) for one in entities)
    (tmp_path / "latest-all.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    events = load(tmp_path, "events")["train"]
    assert [(row["event_id"], row["title"], row["description"]) for row in events] == [
        ("Q1", "War", "an event"),
        ("Q1", "מלחמה", ""),
        ("Q2", "Battle", "an event"),
    ]
    shares = {"validation_share": 0, "test_share": 0}
    assert edges_of(tmp_path, "hierarchy", **shares) == {"train": [("Q2", "Q1")]}
    report = report_of(tmp_path, "hierarchy", **shares)
    assert report["skipped"] == {
        "entity_that_is_no_event": 1,
        "event_without_label": 1,
        "hierarchy_edge_to_no_event": 1,
    }
    assert report["licenses"] == ["CC0-1.0"]
    # A dictionary says what is an event; the dump then has the edges alone.
    write(tmp_path / "label_dict.jsonl", *dictionary())
    assert edges_of(tmp_path, "hierarchy", **shares) == {
        "train": [("2", "1"), ("2", "3"), ("3", "1"), ("4", "1")]
    }
    assert load(tmp_path, "events")["train"]["source"][0] == tmp_path.name


def test_built_rows_can_be_built_again(tmp_path: Path) -> None:
    built = {config: load(None, config) for config in ("mentions", "events", "hierarchy", "sequence")}
    for config, splits in built.items():
        for split, rows in splits.items():
            write(tmp_path / f"{config}.{split}.jsonl", *rows)
    for config, splits in built.items():
        again = load(tmp_path, config)
        assert list(again) == list(splits)
        for split, rows in splits.items():
            columns = [name for name in rows.column_names if name not in ("source", "license")]
            found, expected = (
                sorted([row[name] for name in columns] for row in one) for one in (again[split], rows)
            )
            assert found == expected


def test_the_samples() -> None:
    splits = load(None)
    assert {split: len(rows) for split, rows in splits.items()} == {
        "train": 213,
        "validation": 35,
        "test": 43,
    }
    report = report_of(None)
    assert report["skipped"] == {}
    assert Counter(splits["train"]["language"]).keys() == {"en", "de", "es", "fr"}
    deepest = max(splits["train"]["event_ids"], key=len)
    assert deepest in (["488", "184425", "362"], ["2276692", "184425", "362"])
    ends = [
        {
            end
            for config in ("hierarchy", "sequence")
            for edge in edges_of(None, config)[split]
            for end in edge
        }
        for split in splits
    ]
    assert sum(map(len, ends)) == len(set().union(*ends))
    for rows in (*splits.values(), *load(None, domain="wikinews").values()):
        assert {one for gold in rows["event_ids"] for one in gold} <= set(
            load(None, "events")["train"]["event_id"]
        )
    assert len(load(None, domain="wikinews", wikinews="cross-domain")["test"]) == 10


def test_the_facts_of_the_samples_are_those_of_wikidata(shared_data: Path) -> None:
    with open(shared_data / "hierarchy" / "wikidata_real" / "relations.csv", encoding="utf-8") as stream:
        stated = {(row["head_qid"], row["property"], row["tail_qid"]) for row in csv.DictReader(stream)}
    edges = {config: edges_of(None, config) for config in ("hierarchy", "sequence")}
    parts = {
        (f"Q{child}", "P361", f"Q{parent}")
        for found in edges["hierarchy"].values()
        for child, parent in found
    }
    after = {
        (f"Q{later}", "P155", f"Q{event}") for found in edges["sequence"].values() for event, later in found
    }
    assert (len(parts), len(after)) == (45, 5)
    assert parts | after <= stated


def test_current_events(shared_data: Path) -> None:
    data = shared_data / "hierarchy" / "current_events"
    folder = build_dataset("event_hierarchies", data_dir=data)
    reports = build_reports(folder)
    assert {config: report["rows"] for config, report in reports.items()} == {
        "mentions": 27127,
        "events": 9499,
        "hierarchy": 1879,
        "sequence": 683,
    }
    assert all(report["skipped"] == {} for report in reports.values())
    assert reports["mentions"]["licenses"] == ["CC-BY-SA-4.0"]
    statistics = cast("dict[str, dict[str, Any]]", reports["hierarchy"]["statistics"])
    assert statistics["train"]["components"] == 7004
    assert "components_in_several_splits" not in statistics["train"]
    several = sum(
        counts["mentions_with_several_gold_events"]
        for counts in cast("dict[str, dict[str, Any]]", reports["mentions"]["statistics"]).values()
    )
    assert several == 9135 + 216
    rows = load_built(folder, "mentions")["validation"]
    by_id = {row["mention_id"]: row["event_ids"] for row in rows}
    assert by_id["2004-09-20-385"] == ["26"]
    texts = load_built(folder, "events")["train"]
    assert sum(bool(text) for text in texts["description"]) == 3524


def test_real_events_of_wikidata(shared_data: Path) -> None:
    data = shared_data / "hierarchy" / "wikidata_real"
    splits = load(data)
    assert {split: len(rows) for split, rows in splits.items()} == {
        "train": 701,
        "validation": 48,
        "test": 50,
    }
    report = report_of(data)
    assert report["skipped"] == {}
    assert report["sources"] == {
        "fewrel": {"license": "MIT", "mentions": 561},
        "fewrel_cfrl": {"license": "MIT", "mentions": 184},
        "rebel": {"license": "CC-BY-NC-SA-4.0", "mentions": 54},
    }
    assert {split: len(found) for split, found in edges_of(data, "hierarchy").items()} == {
        "train": 77,
        "validation": 8,
        "test": 5,
    }
    assert sum(len(found) for found in edges_of(data, "sequence").values()) == 133
    assert ["504347", "362"] in splits["train"]["event_ids"]
    # The same edges from the table alone, then drawn into splits.
    table = data / "relations.csv"
    assert sum(len(found) for found in edges_of(table, "hierarchy").values()) == 90


def test_mentions_and_edges_find_an_event_that_they_write_in_another_form(tmp_path: Path) -> None:
    write(
        tmp_path / "label_dict.jsonl",
        *({"event_id": one, "title": f"Event {one}", "language": "en"} for one in ("Q1", "2")),
    )
    write(tmp_path / "edges.jsonl", {"child_id": "Q2", "parent_id": 1})
    write(tmp_path / "mentions.train.jsonl", mention(" Q2 "), mention("1"))
    assert gold_of(tmp_path) == {"train": [["2", "Q1"], ["Q1"]]}


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
