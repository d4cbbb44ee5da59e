"""From texts to tables: ids that join, what is reused, resuming, and sources of texts."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from exploration_steps import ROWS, STORIES, Explore, rows_of

import eventformers
from eventformers.datasets_scripts.events import EVENT_SCHEMA
from eventformers.errors import EventformersError
from eventformers.exploration import STATE_FOLDER, WORKING_FOLDER, events, steps
from eventformers.exploration.explore import Exploration
from eventformers.exploration.sources import find_texts
from eventformers.exploration.steps import ExploreSettings, StepRun
from eventformers.extraction import pipeline as pipeline_module
from eventformers.extraction import shards
from eventformers.extraction.extractor import EventExtractor
from eventformers.extraction.texts import USUAL_COLUMNS
from eventformers.inference.encode import EventEncoder


def test_tables_join(explore: Explore, tmp_path: Path) -> None:
    found = explore()
    assert set(found.tables) >= {"documents", "events", "vectors", "chains"}
    texts = {row["document_id"]: row["text"] for row in rows_of(found, "documents")}
    assert texts == STORIES
    assert rows_of(found, "documents")[0] == {
        "document_id": "first",
        "title": "One",
        "date": "2024-05-31",
        "source": "s",
        "license": "unspecified",
        "url": "",
        "text": STORIES["first"],
    }
    table = pq.read_table(found.tables["events"])
    assert table.schema.equals(EVENT_SCHEMA)
    by_id = {row["event_id"]: row for row in table.to_pylist()}
    assert len(by_id) == table.num_rows == found.counts["events"] == 8
    for event_id, row in by_id.items():
        text = texts[row["document_id"]]
        assert event_id == f"{row['document_id']}#{row['number']}"
        assert text[row["trigger_start"] : row["trigger_end"]] == row["trigger"]
        assert row["sentence_start"] <= row["trigger_start"] < row["trigger_end"] <= row["sentence_end"]
        assert row["trigger"].lower() in row["predicate"]
    seen = by_id["first#3"]
    assert [seen[name] for name in ("subject", "predicate", "object", "passive", "negated")] == [
        *("anna", "seen", "thief", True, False)
    ]
    sentence = texts["first"][seen["sentence_start"] : seen["sentence_end"]]
    assert sentence == "The thief was seen by Anna."
    negated = by_id["second#1"]
    assert (negated["predicate"], negated["negated"]) == ("close", True)
    assert negated["text"] == "man not close door"
    vector_table = pq.read_table(found.tables["vectors"])
    assert set(vector_table["text"].to_pylist()) == {row["text"] for row in by_id.values()}
    assert pa.types.is_fixed_size_list(vector_table.schema.field("embedding").type)
    (anna,) = [row for row in rows_of(found, "chains") if row["protagonist"] == "anna"]
    assert anna == {
        "chain_id": "first/anna",
        "document_id": "first",
        "protagonist": "anna",
        "event_ids": ["first#0", "first#1", "first#2", "first#3"],
    }
    assert all(set(row["event_ids"]) <= set(by_id) for row in rows_of(found, "chains"))
    report = json.loads((found.folder / "report.json").read_text(encoding="utf-8"))
    assert report == found.report
    assert report["counts"]["documents"] == 2
    assert {*report["seconds"], "page"} == {step.name for step in found.steps}
    assert found.page == found.folder / "index.html"


def test_vectors_are_those_of_encode(explored: Exploration, tiny_encoder: Path) -> None:
    table = pq.read_table(explored.tables["vectors"])
    expected = eventformers.encode(tiny_encoder, table["text"].to_pylist(), normalize=True)
    stored = table["embedding"].combine_chunks().flatten().to_numpy().reshape(expected.shape)
    assert abs(stored - expected).max() < 1e-6


def test_vectors_do_not_depend_on_the_block(
    explore: Explore, explored: Exploration, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pq.read_table(explored.tables["vectors"])
    monkeypatch.setattr(steps, "_ROWS_AT_ONCE", 3)
    parts = pq.read_table(explore(overwrite=True).tables["vectors"])
    assert parts.equals(whole)
    assert parts.num_rows > 3


def test_a_repeated_run_loads_nothing_and_touches_nothing(
    explore: Explore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = explore()
    before = {path: path.stat().st_mtime_ns for path in first.folder.rglob("*") if path.is_file()}

    def refused(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("loaded")

    monkeypatch.setattr("eventformers.evaluation.session.as_encoder", refused)
    monkeypatch.setattr("eventformers.extraction.extractor.load_pipeline", refused)
    again = explore()
    assert all(step.reused for step in again.steps)
    assert again == first
    assert {path: path.stat().st_mtime_ns for path in first.folder.rglob("*") if path.is_file()} == before


def test_vectors_continue_after_the_last_block(explore: Explore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_ROWS_AT_ONCE", 3)
    options = {"skip": ["types", "map", "page"]}
    encode, blocks = EventEncoder.encode, []

    def interrupted(self: EventEncoder, *arguments: Any, **keywords: Any) -> Any:
        blocks.append(len(arguments[0]))
        if len(blocks) == 2:
            raise KeyboardInterrupt
        return encode(self, *arguments, **keywords)

    monkeypatch.setattr(EventEncoder, "encode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        explore(**options)
    found = explore(**options)
    assert blocks == [3, 3, 3, 2], "the first of three blocks is not encoded again"
    texts = dict.fromkeys(row["text"] for row in rows_of(found, "events"))
    assert [row["text"] for row in rows_of(found, "vectors")] == list(texts)


def test_related_events_are_listed_on_request(
    explore: Explore, explored: Exploration, tiny_encoder: Path
) -> None:
    assert "next_events" not in explored.tables
    found = explore(next_events=True)
    assert rows_of(found, "next_events")
    assert any(note.startswith("Few related events come next: of 60 judged") for note in found.notes)
    assert "next_events" not in explore().tables, "a table of an earlier run does not stay"
    assert "next_events" in explore(chains=tiny_encoder).tables


def ran(exploration: Exploration) -> set[str]:
    return {step.name for step in exploration.steps if not step.reused}


def test_a_change_recomputes_what_depends_on_it(
    explore: Explore,
    explored: Exploration,
    tiny_encoder_without_dropout: Path,
    english_pipeline: str,
    tmp_path: Path,
) -> None:
    import spacy

    assert ran(explore(batch_size=1)) == set(), "it changes no result"
    assert "chains" in ran(explore(min_chain_length=4)) <= {"chains", "page"}
    events_changed = ran(explore(ROWS[:1]))
    assert {"documents", "events", "vectors", "chains"} <= events_changed
    other_model = ran(explore(ROWS[:1], events=tiny_encoder_without_dropout))
    assert "vectors" in other_model
    assert not other_model & {"documents", "events", "chains"}
    pipeline = deepcopy(spacy.load(english_pipeline))
    pipeline.meta["version"] = "9"
    pipeline.to_disk(tmp_path / "other")
    again = ran(explore(ROWS[:1], events=tiny_encoder_without_dropout, pipeline=tmp_path / "other"))
    assert again == {"events", "page"}, "equal events leave the tables as they are; the page shows settings"
    renamed = [{**ROWS[0], "title": "Other"}]
    changed = ran(explore(renamed, events=tiny_encoder_without_dropout, pipeline=tmp_path / "other"))
    assert "documents" in changed
    assert "vectors" not in changed


@pytest.mark.parametrize(
    ("texts", "events"),
    [(["Anna left."], 1), ([STORIES["first"]], 4), (["Anna left."] * 3, 1)],
)
def test_few_and_equal_events(explore: Explore, tmp_path: Path, texts: list[str], events: int) -> None:
    explored = explore(texts)
    assert explored.report["counts"]["distinct_event_texts"] == events
    assert (tmp_path / "out" / "index.html").exists()


def test_results_among_the_texts_are_no_texts(explore: Explore, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Anna left.")
    first = explore(tmp_path)
    again = explore(tmp_path)
    assert again.report["counts"]["documents"] == first.report["counts"]["documents"] == 1
    (tmp_path / "out" / "events.parquet").unlink()
    assert [file.name for file in find_texts(tmp_path, USUAL_COLUMNS).sources] == ["a"]


def test_malformed_texts_are_listed_in_the_report(explore: Explore, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Anna left."}\n{\n{"text": "Peter left.", "source": {}}\n')
    report = explore(path, malformed="skip").report
    found = report["malformed"]["documents"]
    assert (found["count"], found["parts"][0]["line"]) == (1, 2)
    assert "Documents with a source that is not a text, which is left out: 1." in report["notes"]
    assert explore(ROWS).report["malformed"] == {}


def test_a_loaded_encoder_without_revision_is_not_reused(explore: Explore, tiny_encoder: Path) -> None:
    encoder = eventformers.inference.encode.load_encoder(tiny_encoder, device="cpu")  # type: ignore[attr-defined]
    explore(events=encoder, device=None)
    assert "vectors" not in ran(explore(events=encoder, device=None))
    encoder.revision = None
    explore(events=encoder, device=None)
    assert "vectors" in ran(explore(events=encoder, device=None))


def test_interruption_leaves_finished_steps_and_shards(
    explore: Explore, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", 10)
    monkeypatch.setattr(shards, "BLOCK_CHARACTERS", 1)
    whole = rows_of(explore(), "events")
    shutil.rmtree(tmp_path / "out")
    done: list[int] = []
    extract_shard = shards.extract_shard

    def counted(*arguments: Any) -> None:
        done.append(arguments[3])
        if len(done) == 2:
            raise KeyboardInterrupt
        extract_shard(*arguments)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline_module, "extract_shard", counted)
    with pytest.raises(KeyboardInterrupt):
        explore()
    assert not (tmp_path / "out" / "events.parquet").exists()
    with monkeypatch.context() as patch:
        patch.setattr(EventEncoder, "encode", interrupted)
        with pytest.raises(KeyboardInterrupt):
            explore()
    assert done == [0, 1, 1], "the finished shard is not parsed again"
    assert not (tmp_path / "out" / "vectors.parquet").exists()
    found = explore()
    assert done == [0, 1, 1], "the finished step is not run again"
    assert rows_of(found, "events") == whole
    assert not list((tmp_path / "out" / ".explore").glob("events.*/"))


@pytest.mark.process
def test_processes_change_nothing(explore: Explore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", 10)
    monkeypatch.setattr(shards, "BLOCK_CHARACTERS", 1)
    whole = explore()
    before = {path: path.read_bytes() for path in whole.tables.values()}
    again = explore(overwrite=True, processes=2)
    assert {path: path.read_bytes() for path in again.tables.values()} == before


def test_a_full_disk_keeps_the_earlier_exploration(
    explore: Explore, explored: Exploration, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes() for path in explored.folder.rglob("*") if path.is_file()}

    def full(*arguments: Any, **options: Any) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
        with pytest.raises(OSError, match="No space left"):
            explore(min_chain_length=4)
    assert (
        before.items()
        <= {path: path.read_bytes() for path in explored.folder.rglob("*") if path.is_file()}.items()
    )
    assert ran(explore()) == set()
    assert not (explored.folder / STATE_FOLDER / WORKING_FOLDER).exists()


@pytest.mark.parametrize(
    "wrong",
    [{"events": "no/such/model"}, {"pipeline": "no_such"}, {"frames": "missing.json"}, {"text_column": "x"}],
)
def test_overwrite_keeps_the_earlier_exploration_until_the_new_one_is_whole(
    explore: Explore, explored: Exploration, wrong: dict[str, Any]
) -> None:
    before = {path: path.read_bytes() for path in explored.folder.iterdir() if path.is_file()}
    with pytest.raises(EventformersError):
        explore(overwrite=True, **wrong)
    assert {path: path.read_bytes() for path in explored.folder.iterdir() if path.is_file()} == before
    assert not ran(explore())


def test_a_killed_change_leaves_the_earlier_tables_together(
    explore: Explore, explored: Exploration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The documents and events of the new texts stay hidden until everything is made from them."""
    before = {path: path.read_bytes() for path in explored.folder.iterdir() if path.is_file()}

    def killed(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    texts = [*ROWS, {"id": "new", "text": "The company hired drivers. The drivers called police."}]
    with monkeypatch.context() as patch:
        patch.setattr(EventEncoder, "encode", killed)
        with pytest.raises(KeyboardInterrupt):
            explore(texts)
    assert {path: path.read_bytes() for path in explored.folder.iterdir() if path.is_file()} == before
    again = explore(texts)
    assert {step.name for step in again.steps if step.reused} >= {"documents", "events"}
    assert again.counts["documents"] == explored.counts["documents"] + 1


def test_only_new_texts_are_parsed_and_encoded(
    explore: Explore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The tables of a run with other texts are those of a run from scratch, byte for byte, but for what
    stays of an earlier run: types, the names of stories, and places on the map."""
    monkeypatch.setattr(shards, "BLOCK_CHARACTERS", 1)
    parsed: list[str] = []
    encoded: list[int] = []
    extract, encode = EventExtractor.extract, EventEncoder.encode

    def extract_counted(self: EventExtractor, documents: Any, counts: Any) -> Any:
        documents = list(documents)
        parsed.extend(one.document_id for one in documents)
        return extract(self, documents, counts)

    def encode_counted(self: EventEncoder, items: Any, **options: Any) -> Any:
        encoded.append(len(items))
        return encode(self, items, **options)

    monkeypatch.setattr(EventExtractor, "extract", extract_counted)
    monkeypatch.setattr(EventEncoder, "encode", encode_counted)
    new = {"id": "a new one", "text": "The company hired drivers. Anna closed the window."}

    def tables(texts: list[dict[str, str]], **options: Any) -> dict[str, bytes]:
        parsed.clear()
        encoded.clear()
        found = explore(texts, stories=True, **options)
        return {path.name: path.read_bytes() for path in found.folder.rglob("*.parquet")}

    first = tables(ROWS)
    more = tables([ROWS[0], new, ROWS[1]])
    # A new event text, and a new trigger.
    assert (parsed, encoded) == (["a new one"], [1, 1])
    fewer = tables(ROWS)
    assert (parsed, encoded) == ([], [])
    assert fewer == first
    scratch = tables([ROWS[0], new, ROWS[1]], overwrite=True)
    differing = {name for name in more.keys() | scratch.keys() if more.get(name) != scratch.get(name)}
    kept = {f"{name}.parquet" for name in ("types", "event_types", "known_types", "map", "regions", "drawn")}
    assert differing <= kept | {"stories.parquet", "known_stories.parquet"}
    assert len(parsed) == 3
    tables([{**ROWS[0], "text": "Anna sold the shop."}, ROWS[1]])
    assert parsed == ["first"]


def test_a_grown_folder_says_what_is_new(explore: Explore) -> None:
    assert explore(stories=True).report["new"] == {}
    new = {"id": "a new one", "text": "The company hired drivers. Bob Dole closed the window."}
    found = explore([*ROWS, new], stories=True)
    counted = found.report["new"]
    assert (counted["documents"], counted["events"]) == (1, 2)
    assert counted["actors"] >= 2
    assert json.loads((found.folder / "report.json").read_text(encoding="utf-8"))["new"] == counted
    assert explore([*ROWS, new], stories=True) == found, "what an unchanged run says stays"
    assert explore(ROWS, stories=True).report["new"] == {}
    (found.folder / "events.parquet").write_bytes(b"damaged")
    assert [row["text"] for row in rows_of(explore(ROWS, stories=True), "events")], "it is written again"


def test_types_of_another_list_are_new_by_name(explore: Explore, tmp_path: Path) -> None:
    listed, curation = tmp_path / "types.csv", tmp_path / "curation.yaml"
    listed.write_text("name\nSales\nSightings\n")
    explore(type_list=listed)
    listed.write_text("name\nSightings\nTravel\nMeetings\n")
    assert explore(type_list=listed).report["new"]["types"] == 2
    curation.write_text("types:\n- {rename: Travel, to: Journeys}\n")
    assert "types" not in explore(type_list=listed, curation=curation).report["new"]


def test_curation_of_actors_reaches_the_events(explore: Explore, tmp_path: Path) -> None:
    text = "Joe Biden met Tony Blair. Hillary Clinton called Joe Biden. Mary Smith left Paris."
    plain = {row["actor_id"]: row for row in rows_of(explore([text]), "actors")}
    curation = tmp_path / "curation.yaml"
    curation.write_text(
        "actors:\n- {rename: joe_biden, to: Mr Biden}\n- {merge: [joe_biden, tony_blair]}\n"
        "- {drop: mary_smith}\n"
    )
    found = explore([text], curation=curation)
    assert "documents" not in ran(found)
    actors = {row["actor_id"]: row for row in rows_of(found, "actors")}
    assert plain.keys() - actors.keys() == {"tony_blair", "mary_smith"}
    assert (actors["joe_biden"]["name"], actors["joe_biden"]["aliases"]) == (
        "Mr Biden",
        ["Joe Biden", "Tony Blair"],
    )
    assert actors["joe_biden"]["mentions"] == plain["joe_biden"]["mentions"] + plain["tony_blair"]["mentions"]
    ids = [(row["subject_id"], row["object_id"]) for row in rows_of(found, "events")]
    assert ids[0] == ("joe_biden", "joe_biden")
    assert ids[2][0] == ""
    grown = explore([text, "Tony Blair resigned."], curation=curation)
    assert rows_of(grown, "events")[-1]["subject_id"] == "joe_biden", "it holds for new texts, too"
    assert {row["actor_id"]: row for row in rows_of(explore([text]), "actors")} == plain


def test_a_story_keeps_its_id_and_follows_its_edits(explore: Explore, tmp_path: Path) -> None:
    row = {"text": "The police arrested Bob Dole in Paris.", "date": "2024-05-31"}
    texts = [{"id": "b", **row}, {"id": "c", **row}, {"id": "far", **row, "date": "2020-05-31"}]
    (story,) = rows_of(explore(texts, stories=True), "stories")
    assert (story["story_id"], story["documents"]) == ("b#0", 2)
    texts.insert(0, {"id": "a", **row})
    assert "stories" not in explore(texts, stories=False).tables
    (grown,) = rows_of(explore(texts, stories=True), "stories")
    assert (grown["story_id"], grown["name"], grown["documents"]) == ("b#0", story["name"], 3)
    curation = tmp_path / "curation.yaml"
    curation.write_text('stories:\n- {rename: "b#0", to: The arrest}\n')
    found = explore(texts, stories=True, curation=curation)
    assert rows_of(found, "stories")[0]["name"] == "The arrest"
    assert {row["story_id"] for row in rows_of(found, "event_stories")} == {"b#0"}
    curation.write_text('stories:\n- {drop: "b#0"}\n- {drop: "z#0"}\n')
    found = explore(texts, stories=True, curation=curation)
    assert rows_of(found, "stories") == rows_of(found, "event_stories") == []
    assert any("stories, edit 2: z#0: not in these texts." in note for note in found.notes)
    ignored = explore(texts, stories=False, curation=curation)
    assert f"{curation}: edits of stories are ignored, since the step is left out." in ignored.notes
    explore(texts, stories=False, overwrite=True)
    assert [row["story_id"] for row in rows_of(explore(texts, stories=True), "stories")] == ["a#0"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"type_list": "none.csv"}, "none.csv: no such file"),
        ({"curation": "none.yaml"}, "none.yaml: cannot be read: No such file"),
        ({"type_list": "political", "num_types": 3}, "accepted: one of them"),
    ],
)
def test_wrong_lists_stop_before_any_work(explore: Explore, options: dict[str, Any], told: str) -> None:
    with pytest.raises(EventformersError, match=told):
        explore([STORIES["first"]], **options)


def test_texts_in_another_language(explore: Explore, tmp_path: Path) -> None:
    german = (
        "Die Polizei hat den Mann gesehen, der das Haus in der Stadt mit dem Auto verließ, und ihn nicht "
    )
    found = explore([*ROWS, {"id": "fremd", "text": german * 5}])
    assert "Documents that are not parsed, by language: German (fremd)." in found.notes
    with pytest.raises(EventformersError, match=r"2 of 3 .*\(German: 2\).*--pipeline de_core_news_sm, w"):
        explore([ROWS[0], {"id": "fremd", "text": german * 5}, {"id": "fern", "text": german * 4}])
    run = StepRun(SimpleNamespace(settings=ExploreSettings()), tmp_path, tmp_path, tmp_path)  # type: ignore[arg-type]
    events._tell_of_language(run, "en")
    assert run.notes == []
    events._tell_of_language(run, "de")
    assert run.notes == [
        "The pipeline reads German: events of nouns, actors, times, places and factuality are found in "
        "English texts only, and their columns stay empty.",
        "The pipeline reads de, but all-MiniLM-L6-v2 was trained on English: name a multilingual encoder as "
        "--events and --types.",
    ]


def test_licences_of_texts_without_one(explore: Explore) -> None:
    texts = [{**ROWS[0], "license": "cc0-1.0"}, ROWS[1]]
    only = {"skip": ["vectors", "chains", "page"]}
    assert [row["license"] for row in rows_of(explore(texts, **only), "documents")] == [
        "CC0-1.0",
        "unspecified",
    ]
    stated = explore(texts, license_name="cc-by-4.0", **only)
    assert [row["license"] for row in rows_of(stated, "documents")] == ["CC0-1.0", "CC-BY-4.0"]
    assert {step.name for step in stated.steps if not step.reused} >= {"documents"}


def test_skip(explore: Explore, explored: Exploration) -> None:
    found = explore(skip=["events"])
    assert set(found.tables) == {"documents"}
    found = explore(skip=["chains"])
    assert "chains" not in found.tables
    assert "vectors" in found.tables


def test_folders_of_others(explore: Explore, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work", encoding="utf-8")
    for options in ({}, {"overwrite": True}):
        with pytest.raises(EventformersError, match=r"has thesis\.txt but no exploration"):
            explore(**options)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_the_untrained_encoder_is_named(explore: Explore, explored: Exploration) -> None:
    assert not any("--events" in note for note in explored.notes)
    found = explore(events=None, types=None)
    for role in ("events", "types"):
        told = [note for note in found.notes if f"No model of {role} is given (--{role})" in note]
        assert len(told) == 1


def test_settings(explore: Explore) -> None:
    with pytest.raises(EventformersError, match="commonsense without graph; accepted: both, or neither"):
        explore(commonsense="mico")
    with pytest.raises(EventformersError, match="grounding without knowledge_base"):
        explore(grounding="event_grounding_cross")
    with pytest.raises(EventformersError, match="unknown step 'documents'"):
        explore(skip=["documents"])


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("knowledge_base", "no file with titles of events"),
        ("graph", "no raw file for commonsense_graphs, config conceptnet_pairs"),
        ("frames", "no raw file for event_types, config frames"),
        ("commonsense", "cannot load nobody/none"),
    ],
)
def test_data_and_models_are_checked_before_texts_are_read(
    explore: Explore, tmp_path: Path, setting: str, told: str
) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "notes.txt").write_text("no events", encoding="utf-8")
    given = {"commonsense": "nobody/none", "graph": "samples/commonsense"} if setting == "commonsense" else {}
    with pytest.raises(EventformersError, match=told):
        explore(**{setting: tmp_path / "base", **given})
    assert not list((tmp_path / "out").rglob("events.parquet"))


def test_chains_have_only_facts_by_default(explore: Explore) -> None:
    story = "Anna opened the door. Anna may close the window. Anna went to the shop. Anna did not sing."
    options = {"min_chain_length": 2, "skip": ["map", "page"]}

    def chained(found: Exploration) -> list[int]:
        return [len(ids) for ids in pq.read_table(found.folder / "chains.parquet")["event_ids"].to_pylist()]

    facts = explore([story], **options)
    assert chained(facts) == [2]
    assert facts.counts["events"] == 4
    assert facts.counts["events_counted"] == 2
    note = "Events by factuality: fact 2, negated 1, possible 1. Chains and counts have: fact."
    assert note in facts.notes
    assert pq.read_table(facts.folder / "types.parquet")["size"].to_pylist() in ([2], [1, 1], [])
    assert chained(explore([story], factuality="all", **options)) == [4]
    assert chained(explore([story], factuality=["fact", "possible"], **options)) == [3]


def test_actors_are_merged_anew_when_a_document_is_added(explore: Explore, tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": "Barack Obama met Anna Lee in Paris."},
        {"id": "b", "text": "Obama flew to Paris."},
    ]

    def subjects(count: int, **options: Any) -> dict[str, str]:
        found = explore(rows[:count], **options)
        actors = pq.read_table(found.folder / "actors.parquet")["actor_id"].to_pylist()
        table = pq.read_table(found.folder / "events.parquet", columns=["event_id", "subject_id"]).to_pylist()
        assert {row["subject_id"] for row in table} <= {"", *actors}
        return {row["event_id"]: row["subject_id"] for row in table}

    skip = {"skip": ["vectors"]}
    assert subjects(1, **skip) == {"a#0": "barack_obama"}
    assert subjects(2, **skip) == {"a#0": "barack_obama", "b#0": "barack_obama"}
    own = tmp_path / "actors.csv"
    own.write_text("alias,name,kind\nObama,Mr X,person\n", encoding="utf-8")
    assert subjects(2, actors=own, **skip) == {"a#0": "barack_obama", "b#0": "mr_x"}
    with pytest.raises(EventformersError, match=r"actors: .* has those of an extraction"):
        eventformers.explore(tmp_path / "out", tmp_path / "again", actors=own)
