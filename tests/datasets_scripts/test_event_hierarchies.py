"""Event hierarchies from raw files to rows: XLEL-WD as published, bad input, splits, the public data."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hierarchy_builds import (
    TITLES,
    dictionary,
    edges_of,
    gold_of,
    load,
    mention,
    properties,
    report_of,
    write,
    write_published,
)

from eventformers.datasets_scripts import (
    build_dataset,
    build_reports,
    event_knowledge,
)
from eventformers.datasets_scripts.dataset_card import read_front_matter
from eventformers.datasets_scripts.event_hierarchies import EventHierarchies
from eventformers.datasets_scripts.hierarchy_files import file_kind
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError


@pytest.fixture
def published(tmp_path: Path) -> Path:
    return write_published(tmp_path / "raw")


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
