"""Event hierarchies from raw files to rows: XLEL-WD as published, bad input, splits, the public data."""

from __future__ import annotations

import csv
import json
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from datasets import DatasetDict

from eventformers.datasets_scripts import (
    build_dataset,
    build_reports,
    built_report,
    event_knowledge,
    load_built,
)
from eventformers.datasets_scripts.dataset_card import read_front_matter
from eventformers.datasets_scripts.event_hierarchies import EventHierarchies
from eventformers.datasets_scripts.hierarchy_files import file_kind
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError

SAMPLES = Path(__file__).resolve().parents[2] / "datasets_scripts" / "samples" / "event_hierarchies"

TITLES = {
    "1": {"en": "War", "ar": "حرب"},
    "2": {"en": "Campaign", "ar": "حملة"},
    "3": {"en": "Battle", "ar": "معركة"},
    "4": {"en": "Later war"},
    "5": {"en": "Peace"},
    "6": {"ar": "مهرجان"},
}
"""Events by language. Battle is part of campaign, which is part of war, which the later war follows."""


def mention(event: str, language: str = "en", **more: object) -> dict[str, object]:
    texts = {"context_left": "In the ", "mention": "event", "context_right": " of it."}
    return {**texts, "context_lang": language, "label_id": event, **more}


def write(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def dictionary(field: str = "label_desc") -> list[dict[str, str]]:
    return [
        {"label_id": event, "label_title": title, field: f"About {event}.", "label_lang": language}
        for event, titles in TITLES.items()
        for language, title in titles.items()
    ]


def properties() -> list[dict[str, object]]:
    edges = [("Q3", "P361", "Q2"), ("Q1", "P527", "Q2"), ("Q4", "P155", "Q1"), ("Q5", "P361", "Q99")]
    return [
        {"qid": item, "pid": name, "datavalue": [{"value": {"id": {"value": other}}}]}
        for item, name, other in edges
    ]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """XLEL-WD's files as they lie on the Hub, with the file of Wikidata's properties beside them."""
    folder = tmp_path / "raw"
    news = {"context_title": "News", "context_date": "2012-08-12"}
    write(folder / "wikipedia.train.jsonl", mention("3"), mention("3", "ar"), mention("4"))
    write(folder / "wikipedia-zero-shot.dev.jsonl", mention("5"))
    write(folder / "wikipedia-zero-shot.test.jsonl", mention("6", "ar"))
    write(folder / "wikinews-zero-shot.test.jsonl", mention("6", "ar", **news))
    write(folder / "wikinews-cross-domain.test.jsonl", mention("2", **news), mention("3", **news))
    write(folder / "label_dict.jsonl", *dictionary())
    write(folder / "wd_item_props.jsonl", *properties())
    return folder


def load(data: Path | None, config: str = "mentions", **settings: object) -> DatasetDict:
    return load_built(data, config, builder="event_hierarchies", **settings)


def report_of(data: Path | None, config: str = "mentions", **settings: object) -> dict[str, Any]:
    return built_report(data, config, builder="event_hierarchies", **settings)


def gold_of(data: Path | None, **settings: object) -> dict[str, list[list[str]]]:
    return {split: rows["event_ids"][:] for split, rows in load(data, **settings).items()}


def edges_of(data: Path | None, config: str, **settings: object) -> dict[str, list[tuple[str, ...]]]:
    names = list(EventHierarchies.features(config))[:2]
    return {
        split: list(zip(*(rows[name] for name in names), strict=True))
        for split, rows in load(data, config, **settings).items()
    }


def test_the_published_mentions_of_wikipedia(published: Path) -> None:
    splits = load(published)
    assert gold_of(published) == {
        "train": [["3", "2", "1"], ["3", "2", "1"], ["4"]],
        "validation": [["5"]],
        "test": [["6"]],
    }
    assert splits["train"][1] == {
        "mention_id": "wikipedia.train/2",
        "language": "ar",
        "context_left": "In the ",
        "mention": "event",
        "context_right": " of it.",
        "title": "",
        "date": "",
        "event_ids": ["3", "2", "1"],
        "source": "xlel_wd",
        "license": "CC-BY-4.0",
    }
    report = report_of(published)
    assert report["read"] == {"event_texts": 9, "mentions": 5, "statements": 4}
    assert report["skipped"] == {"hierarchy_edge_to_no_event": 1}
    assert report["statistics"]["train"] == {
        "languages": ["ar", "en"],
        "longest_mention_in_characters": 5,
        "mentions_with_several_gold_events": 2,
        # A tree of three events, and an event outside it.
        "events": 4,
        "trees": 1,
        "average_children": 1.0,
        "average_tree_depth": 2.0,
    }


def test_the_published_mentions_of_wikinews(published: Path) -> None:
    rows = load(published, domain="wikinews")
    assert list(rows) == ["test"]
    assert (rows["test"][0]["title"], rows["test"][0]["date"]) == ("News", "2012-08-12")
    assert gold_of(published, domain="wikinews") == {"test": [["6"]]}
    assert gold_of(published, domain="wikinews", wikinews="cross-domain") == {
        "test": [["2", "1"], ["3", "2", "1"]]
    }


def test_the_multilingual_and_the_crosslingual_task(published: Path) -> None:
    events = load(published, "events")["train"]
    assert [(row["event_id"], row["language"], row["title"]) for row in events] == [
        (event, language, title) for event, titles in TITLES.items() for language, title in titles.items()
    ]
    assert events[0]["description"] == "About 1."
    english = load(published, "events", task="crosslingual")["train"]
    assert english["event_id"][:] == ["1", "2", "3", "4", "5"]
    report = report_of(published, "events", task="crosslingual")
    assert report["skipped"] == {"event_text_of_other_language": 4}
    assert report["statistics"]["events_without_text_in_a_kept_language"] == 1
    # A mention in any language is linked to an event with an English text.
    with pytest.raises(EventformersError, match="split test: no rows left") as caught:
        load(published, task="crosslingual")
    assert "1 mention_of_event_without_text_in_its_language" in str(caught.value)


def test_languages_of_mentions_and_events(published: Path) -> None:
    assert set(load(published, "events", languages="ar")["train"]["language"]) == {"ar"}
    rows = load(published, languages=["ar"], split_by="components", validation_share=0, test_share=0)["train"]
    assert rows["language"][:] == ["ar", "ar"]
    settings = {"languages": "ar", "split_by": "components", "validation_share": 0, "test_share": 0}
    assert report_of(published, **settings)["skipped"]["mention_of_other_language"] == 3


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


def test_folders_of_the_published_download(tmp_path: Path) -> None:
    for task, titles in (("multilingual", 9), ("crosslingual", 5)):
        folder = tmp_path / f"wikipedia-zero-shot-{task}"
        more = {"label_title": "Title", "label_description": "About it."}
        for split, event in (("train", "3"), ("dev", "5"), ("test", "4")):
            write(folder / f"{split}.jsonl", mention(event, **more))
        write(
            folder / "label_dict.jsonl",
            *[row for row in dictionary() if titles == 9 or row["label_lang"] == "en"],
        )
    write(tmp_path / "wikinews-zero-shot-multilingual" / "test.jsonl", mention("2"), mention("3", "ar"))
    assert gold_of(tmp_path) == {"train": [["3"]], "validation": [["5"]], "test": [["4"]]}
    assert gold_of(tmp_path, domain="wikinews") == {"test": [["2"], ["3"]]}
    assert report_of(tmp_path, "events", task="crosslingual")["rows"] == 5
    assert report_of(tmp_path, "events")["rows"] == 9
    assert report_of(tmp_path)["licenses"] == ["CC-BY-4.0"]
    with pytest.raises(
        EventformersError, match="no file of mentions of wikinews zero-shot for the task cross"
    ):
        load(tmp_path, domain="wikinews", task="crosslingual")
    # The folder itself can be given, too.
    assert gold_of(tmp_path / "wikinews-zero-shot-multilingual", domain="wikinews") == {
        "test": [["2"], ["3"]]
    }


def test_a_folder_of_a_known_corpus(tmp_path: Path) -> None:
    write(tmp_path / "current_events" / "train.jsonl", mention("3"))
    write(tmp_path / "notes" / "train.jsonl", mention("4"))
    assert gold_of(tmp_path) == {"train": [["3"]]}
    assert report_of(tmp_path)["licenses"] == ["CC-BY-SA-4.0"]


def test_every_kind_of_bad_mention_is_counted_with_its_first_place(published: Path) -> None:
    write(
        published / "wikipedia.train.jsonl",
        mention("3"),
        mention(""),
        mention("77"),
        mention("5", "ar"),
        mention("3", mention="\u200b\u202e "),
        mention("77"),
    )
    report = report_of(published)
    assert report["skipped"] == {
        "hierarchy_edge_to_no_event": 1,
        "mention_of_event_without_text_in_its_language": 1,
        "mention_of_unknown_event": 2,
        "mention_without_event": 1,
        "mention_without_words": 1,
    }
    statistics = report["statistics"]["train"]
    assert statistics["first_mention_of_unknown_event"] == "wikipedia.train.jsonl, line 3"
    assert statistics["first_mention_of_event_without_text_in_its_language"].endswith("line 4")
    assert report["rows"] + sum(report["skipped"].values()) - 1 == report["read"]["mentions"]


def test_right_to_left_and_combining_characters_are_built_as_they_are(published: Path) -> None:
    texts = {
        "context_left": "\u202bفي ",
        "mention": "حرب\u200f أكتوبر",
        "context_right": " cafe\u0301 \u0928\u093f\u200d ",
    }
    write(published / "wikipedia.train.jsonl", mention("3", "ar", **texts))
    row = load(published)["train"][0]
    assert {name: row[name] for name in texts} == texts


def test_an_ancestor_without_text_in_the_language_is_no_gold_event(published: Path) -> None:
    rows = [row for row in dictionary() if (row["label_id"], row["label_lang"]) != ("2", "ar")]
    write(published / "label_dict.jsonl", *rows)
    assert gold_of(published)["train"] == [["3", "2", "1"], ["3", "1"], ["4"]]
    statistics = report_of(published)["statistics"]["train"]
    assert statistics["gold_events_without_text_in_the_language"] == 1


def test_repeated_ids_of_mentions_are_made_different_across_splits(published: Path) -> None:
    write(
        published / "wikipedia.train.jsonl", mention("3", id="m"), mention("3", id="n"), mention("4", id="m")
    )
    write(published / "wikipedia-zero-shot.dev.jsonl", mention("5", id="m"))
    splits = load(published)
    assert splits["train"]["mention_id"][:] == ["m", "n", "m#2"]
    assert splits["validation"]["mention_id"][:] == ["m#3"]
    statistics = report_of(published)["statistics"]
    assert statistics["train"]["mentions_with_repeated_id"] == 1
    assert statistics["train"]["first_mention_with_repeated_id"] == "wikipedia.train.jsonl, line 3"


def test_repeated_events_and_events_without_title_are_counted(published: Path) -> None:
    nothing = {"label_id": "9", "label_title": "", "label_desc": "Untold.", "label_lang": "en"}
    write(published / "label_dict.jsonl", *dictionary(), dictionary()[0], nothing)
    report = report_of(published, "events")
    assert (report["rows"], report["skipped"]) == (
        9,
        {"event_repeated_in_a_language": 1, "event_without_title": 1},
    )
    write(published / "wikipedia-zero-shot.dev.jsonl", mention("9"), mention("5"))
    assert report_of(published)["skipped"]["mention_of_unknown_event"] == 1


def test_an_empty_knowledge_base_is_told(published: Path) -> None:
    nothing = {"label_id": "9", "label_title": None, "label_desc": "", "label_lang": "en"}
    write(published / "label_dict.jsonl", nothing)
    for config in ("mentions", "hierarchy"):
        with pytest.raises(
            EventformersError, match=r"knowledge base has no event: no title in label_dict\.jsonl"
        ):
            load(published, config)
    with pytest.raises(EventformersError, match="split train: no rows left"):
        load(published, "events")
    (published / "label_dict.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(DataFormatError, match="an empty file"):
        load(published, "events")


def test_a_cycle_is_cut_and_told(published: Path) -> None:
    cycle = {"qid": "Q1", "pid": "P361", "datavalue": [{"value": {"id": {"value": "Q3"}}}]}
    write(published / "wd_item_props.jsonl", *properties(), cycle)
    report = report_of(published)
    assert report["skipped"]["hierarchy_edge_that_closes_a_cycle"] == 1
    assert report["statistics"]["train"]["first_edges_that_close_a_cycle"] == ["3 in 2"]
    assert gold_of(published)["train"][0] == ["3"]


def test_stated_gold_events_and_those_by_the_hierarchy(published: Path) -> None:
    write(
        published / "wikipedia.train.jsonl",
        mention("3", gold_label_ids=["3", "1"]),
        mention("3", gold_label_ids=["1", "3", "77"]),
        mention("3"),
        mention("4"),
    )
    stated = {"gold_events": "stated"}
    assert gold_of(published, **stated)["train"] == [["3", "1"], ["3", "1"], ["3", "2", "1"], ["4"]]
    statistics = report_of(published, **stated)["statistics"]["train"]
    assert statistics["mentions_whose_stated_events_lack_an_ancestor"] == 2
    assert statistics["mentions_whose_stated_events_begin_with_another"] == 1
    assert statistics["gold_events_without_text_in_the_language"] == 1
    assert gold_of(published)["train"] == [["3", "2", "1"]] * 3 + [["4"]]


def test_hierarchies_only(published: Path) -> None:
    settings = {"hierarchies_only": True, "split_by": "components", "validation_share": 0, "test_share": 0}
    assert gold_of(published, **settings) == {"train": [["3", "2", "1"]] * 2}
    assert report_of(published, **settings)["skipped"]["mention_of_event_outside_hierarchies"] == 3


def test_hierarchies_of_a_maximum_height(tmp_path: Path) -> None:
    """The height is that of the whole hierarchy: a root has the height of its deepest event."""
    rows = [{"label_id": str(one), "label_title": f"E{one}", "label_lang": "en"} for one in range(1, 8)]
    write(tmp_path / "label_dict.jsonl", *rows)
    edges = "child_id,parent_id\n3,2\n2,1\n4,1\n6,5\n"
    (tmp_path / "edges.csv").write_text(edges, encoding="utf-8")
    write(tmp_path / "mentions.train.jsonl", *(mention(str(one)) for one in range(1, 8)))
    assert len(gold_of(tmp_path, max_height=2)["train"]) == 7
    assert gold_of(tmp_path, max_height=1)["train"] == [["5"], ["6", "5"], ["7"]]
    report = report_of(tmp_path, max_height=1)
    assert report["skipped"] == {"mention_of_event_in_a_higher_hierarchy": 4}


def test_components_move_to_validation(tmp_path: Path) -> None:
    rows = [{"label_id": str(one), "label_title": f"E{one}", "label_lang": "en"} for one in range(1, 10)]
    write(tmp_path / "label_dict.jsonl", *rows)
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
    rows = [{"label_id": str(one), "label_title": f"E{one}", "label_lang": "en"} for one in range(1, 10)]
    (tmp_path / "edges.csv").write_text("child_id,parent_id\n2,1\n4,3\n6,5\n", encoding="utf-8")
    for task in ("multilingual", "crosslingual"):
        folder = tmp_path / f"wikipedia-zero-shot-{task}"
        write(folder / "train.jsonl", *(mention(one) for one in ("2", "2", "4", "4", "6")))
        write(folder / "label_dict.jsonl", *rows)
    for wanted in range(1, 5):
        edges = edges_of(tmp_path, "hierarchy", validation_with_parents=wanted)
        gold = gold_of(tmp_path, validation_with_parents=wanted)
        for split, found in gold.items():
            assert {tuple(path) for path in found} == set(edges[split]), (wanted, split)


def test_splits_by_component(tmp_path: Path) -> None:
    events = range(100, 160)
    rows = [{"label_id": str(one), "label_title": f"E{one}", "label_lang": "en"} for one in events]
    write(tmp_path / "label_dict.jsonl", *rows)
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


def test_a_dump_is_read_once_for_the_configs_of_a_build(
    published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def counted(files: Any, *policy: str) -> Any:
        read.append(len(files))
        return of_files(files, *policy)

    of_files = event_knowledge.EventKnowledge.of_files
    monkeypatch.setattr(event_knowledge.EventKnowledge, "of_files", counted)
    build_dataset("event_hierarchies", data_dir=published)
    assert read == [2]
    write(published / "wd_item_props.jsonl", *properties()[1:])
    assert edges_of(published, "hierarchy") == {"train": [("2", "1")]}
    assert read == [2, 2]


def test_memory_does_not_grow_with_the_mentions(published: Path, tmp_path: Path) -> None:
    def peak(rows: int) -> int:
        write(published / "wikipedia.train.jsonl", *(mention("3") for _ in range(rows)))
        builder = EventHierarchies("mentions", data_dir=published, cache_dir=tmp_path / "cache")
        builder.split = "train"
        tracemalloc.start()
        assert sum(1 for _ in builder.examples()) == rows
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(10)
    # Threads that earlier tests left running allocate at any time, so one reading can only be too high.
    most, least = (min(peak(rows) for _ in range(3)) for rows in (3_000, 500))
    # What a row takes while it lies in memory is about 2,000 bytes; what is noted of it is 8, and a few
    # times that while repeated ids are looked for.
    assert most - least < 2_500 * 100


def test_tables_of_the_pipeline_are_mentions_and_events(tmp_path: Path) -> None:
    names = "Wikidata Item\tLanguage\tTitle\tInlink Title\tInlink Date\tContext\tEvent Source\n"
    rows = "Q3\ten\tBattle\tNews\t2012-08-12\tIn the <a> battle </a> of it.\twikinews\n"
    (tmp_path / "wn_xlel_data.tsv").write_text(names + rows, encoding="utf-8")
    names = "Wikidata Item\tWikipedia Language\tWikipedia Title\tWikipedia Description\n"
    (tmp_path / "label_desc.tsv").write_text(names + "Q3\ten\tBattle\tA battle.\n", encoding="utf-8")
    row = load(tmp_path, domain="wikinews")["test"][0]
    assert (row["mention"], row["title"], row["event_ids"]) == ("battle", "News", ["Q3"])
    assert (row["source"], row["license"]) == ("wikinews", "CC-BY-2.5")
    assert report_of(tmp_path, "events")["licenses"] == ["CC-BY-SA-4.0"]


def test_without_a_dictionary_every_event_is_known(published: Path) -> None:
    (published / "label_dict.jsonl").unlink()
    assert gold_of(published)["train"] == [["Q3", "Q2", "Q1"], ["Q3", "Q2", "Q1"], ["Q4"]]
    assert EventHierarchies.find_raw_files("events", [published]) == {}


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


def test_kinds_of_files(published: Path, tmp_path: Path) -> None:
    kinds = {path.name: file_kind(path) for path in published.iterdir()}
    assert kinds.pop("label_dict.jsonl") == "dictionary"
    assert kinds.pop("wd_item_props.jsonl") == "properties"
    assert set(kinds.values()) == {"mentions"}
    notes = tmp_path / "notes.jsonl"
    notes.write_text('{"note": 1}\n', encoding="utf-8")
    (tmp_path / "broken.train.jsonl").write_text("{\n", encoding="utf-8")
    assert file_kind(notes) is None
    # Its name says what it is meant for, so that its fault is reported.
    with pytest.raises(DataFormatError, match=r"broken\.train\.jsonl, line 1: found invalid JSON"):
        load(tmp_path)
    with pytest.raises(DataFormatError, match=r"notes\.jsonl, line 1: found a line without"):
        load(notes)


def test_edges_whose_columns_are_unknown_are_not_passed_over(tmp_path: Path) -> None:
    edges = tmp_path / "my-edges.csv"
    for content, found in (("child,parent\n1,2\n", "line 1: found the columns 'child"), ("", "an empty")):
        edges.write_text(content, encoding="utf-8")
        with pytest.raises(DataFormatError, match=rf"my-edges\.csv.*{found}"):
            load(tmp_path, "hierarchy")
    table = tmp_path / "knowledges.csv"
    table.write_text("a,b\n1,2\n", encoding="utf-8")
    assert file_kind(table) is None


@pytest.mark.parametrize("languages", [None, False, 5, ["en", False]])
def test_languages_are_names(languages: object, published: Path) -> None:
    # YAML reads `languages: [en, no]` as the last of these.
    with pytest.raises(EventformersError, match=r"setting languages: found .*; accepted: names, in quotes"):
        load(published, languages=languages)


def test_settings_that_cannot_be(published: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"setting task 'crosslingal'\. Did you mean 'crosslingual'"):
        load(published, task="crosslingal")
    with pytest.raises(
        EventformersError, match="setting hierarchies_only: found 'no'; accepted: true or false"
    ):
        load(published, hierarchies_only="no")
    with pytest.raises(EventformersError, match="accepted: a sum of at most 1"):
        load(published, validation_share=0.6, test_share=0.6)
    with pytest.raises(EventformersError, match="setting split_seed: found -1"):
        load(published, split_seed=-1)


def test_only_deciding_settings_decide(published: Path, tmp_path: Path) -> None:
    def fingerprint(config: str, **settings: object) -> str:
        return EventHierarchies(
            config, data_dir=published, cache_dir=tmp_path / "cache", **settings
        ).fingerprint

    assert fingerprint("events") == fingerprint("events", domain="wikinews", split_seed=3)
    assert fingerprint("events") != fingerprint("events", task="crosslingual")
    assert fingerprint("hierarchy") == fingerprint("hierarchy", task="crosslingual", languages="en")
    assert fingerprint("hierarchy") != fingerprint("hierarchy", split_seed=3)
    assert fingerprint("mentions") != fingerprint("mentions", hierarchies_only=True)


def test_the_card_tells_the_languages(tmp_path: Path) -> None:
    folder = build_dataset("event_hierarchies", output=tmp_path / "out")
    assert read_front_matter(folder / "README.md")["language"] == ["de", "en", "es", "fr"]
    chains = build_dataset("event_chains", "documents", output=tmp_path / "chains")
    assert read_front_matter(chains / "README.md")["language"] == ["en"]


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


def test_malformed_parts_are_left_out_of_every_pass_and_counted_once(published: Path, tmp_path: Path) -> None:
    clean = {config: _report(published, config, tmp_path / f"clean-{config}") for config in _FILES_READ}
    for path in published.glob("*.jsonl"):
        path.write_text(path.read_text(encoding="utf-8") + "{\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="found invalid JSON"):
        _report(published, "events", tmp_path / "strict")
    for config in _FILES_READ:
        with pytest.warns(UserWarning, match="malformed part"):
            report = _report(published, config, tmp_path / f"lenient-{config}", malformed="skip")
        assert report["rows_fingerprint"] == clean[config]["rows_fingerprint"]
        places = [(part["file"], part["line"]) for part in report["malformed"]["parts"]]
        assert sorted(set(places)) == sorted(places)
        assert report["malformed"]["count"] == len(places) == _FILES_READ[config]


def test_a_malformed_first_line_does_not_hide_what_a_file_holds(tmp_path: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_bytes(b'{\n\xff\n{"label_id": "1", "label_title": "Fall", "label_lang": "en"}\n')
    assert file_kind(texts) == "dictionary"


_FILES_READ = {"mentions": 5, "events": 1, "hierarchy": 5}


def _report(data: Path, config: str, output: Path, **settings: Any) -> dict[str, Any]:
    return build_reports(build_dataset("event_hierarchies", config, data, output, **settings))[config]


OWN_IDS = ["5", "Q5", "007", "7", "Schlacht bei Jena", "événement/1", "9007199254740993"]


def test_ids_stay_as_given(tmp_path: Path) -> None:
    events = [{"event_id": one, "title": f"Event {one}", "language": "en"} for one in OWN_IDS]
    write(tmp_path / "label_dict.jsonl", *events)
    edges = [{"child_id": one, "parent_id": "Q5"} for one in OWN_IDS if one != "Q5"]
    write(tmp_path / "edges.jsonl", *edges)
    write(tmp_path / "mentions.train.jsonl", *(mention(one) for one in OWN_IDS))
    assert load(tmp_path, "events")["train"]["event_id"][:] == OWN_IDS
    shares = {"validation_share": 0, "test_share": 0}
    assert set(edges_of(tmp_path, "hierarchy", **shares)["train"]) == {
        (edge["child_id"], edge["parent_id"]) for edge in edges
    }
    assert [gold[0] for gold in gold_of(tmp_path)["train"]] == OWN_IDS


def test_mentions_and_edges_find_an_event_that_they_write_in_another_form(tmp_path: Path) -> None:
    write(
        tmp_path / "label_dict.jsonl",
        *({"event_id": one, "title": f"Event {one}", "language": "en"} for one in ("Q1", "2")),
    )
    write(tmp_path / "edges.jsonl", {"child_id": "Q2", "parent_id": 1})
    write(tmp_path / "mentions.train.jsonl", mention(" Q2 "), mention("1"))
    assert gold_of(tmp_path) == {"train": [["2", "Q1"], ["Q1"]]}
