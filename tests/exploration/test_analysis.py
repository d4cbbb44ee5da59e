"""Steps that find types, next events, links, completions and a map, from tables to tables."""

from __future__ import annotations

import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from event_files import write_edges, write_events
from exploration_steps import RunStep
from graphs import pairs_of

from eventformers.datasets_scripts.events import ACTOR_SCHEMA, CHAIN_SCHEMA, DOCUMENT_SCHEMA, EVENT_SCHEMA
from eventformers.errors import EventformersError
from eventformers.exploration import events as events_module
from eventformers.exploration import links, related, steps, stories, types
from eventformers.exploration import map as map_step
from eventformers.exploration.events import is_participant
from eventformers.exploration.steps import Step
from eventformers.inference.chains.scorers import EncoderChainScorer
from eventformers.inference.commonsense.alternative_index import build_alternative_index
from eventformers.inference.commonsense.complete import ManyCompletions
from eventformers.inference.encode import EventEncoder
from eventformers.inference.grounding import linking, retrieve_rerank
from eventformers.inference.induction.type_naming import Frames

ROLES = [
    *(("police", "arrested", "arrest", thing) for thing in ("thief", "man", "woman", "driver")),
    *(("storm", "flooded", "flood", thing) for thing in ("road", "city", "bridge", "house")),
    *(("team", "won", "win", thing) for thing in ("game", "cup", "match", "race")),
    ("she", "was angry", "be", "it"),
    ("man", "said", "say", "thing"),
]
"""Subject, predicate, lemma and object of the events: two documents of seven sentences."""


def tables() -> tuple[pa.Table, pa.Table]:
    """Events and documents, with one event in a sentence."""
    texts = {"a": "", "b": ""}
    events: list[dict[str, Any]] = []
    for number, (subject, predicate, lemma, target) in enumerate(ROLES):
        document = "ab"[number % 2]
        start = len(texts[document])
        sentence = f"The {subject} {predicate} the {target}. "
        verb = predicate.split()[0]
        trigger = start + len(f"The {subject} ")
        texts[document] += sentence
        events.append(
            {
                **{"event_id": f"{document}#{number}", "document_id": document},
                **{"number": number, "sentence": number, "sentence_start": start},
                **{"sentence_end": start + len(sentence), "trigger": verb, "trigger_start": trigger},
                **{"trigger_end": trigger + len(verb), "subject": subject, "predicate": predicate},
                **{"object": target, "text": f"{subject} {predicate} {target}", "lemma": lemma},
                **{"negated": False, "passive": False},
            }
        )
    documents = [
        {
            "document_id": name,
            "title": f"{name}: the Storm flood",
            "date": "",
            "source": "s",
            "license": "l",
            "text": text,
        }
        for name, text in texts.items()
    ]
    return (
        pa.Table.from_pylist(events, schema=EVENT_SCHEMA),
        pa.Table.from_pylist(documents, schema=DOCUMENT_SCHEMA),
    )


def vectors_of(encoder: EventEncoder, events: pa.Table) -> pa.Table:
    texts = list(dict.fromkeys(events["text"].to_pylist()))
    vectors = encoder.encode(texts, normalize=True)
    return pa.table(
        {"text": texts, "embedding": pa.FixedSizeListArray.from_arrays(vectors.ravel(), vectors.shape[1])}
    )


def run_step(step: Step, folder: Path, encoder: EventEncoder, *chains: list[int], **settings: Any) -> RunStep:
    """Run a step on the events, their vectors, and chains of them by their numbers."""
    events, documents = tables()
    given = {"events": events, "documents": documents, "vectors": vectors_of(encoder, events)}
    given["chains"] = chains_of(events, *chains)
    return RunStep(step, folder, {f"{name}.parquet": one for name, one in given.items()}, encoder, **settings)


def test_types_hold_events_once(
    encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(types, "SAMPLE", 10)
    events, _ = tables()
    frames = Frames(["Arrest", "Winning"], ["police arrest someone", "a team wins a game"], {}, 0)
    monkeypatch.setattr(types, "load_frames", lambda path: frames)
    found = run_step(types.TYPES, tmp_path, encoder, frames="frames", num_types=3)
    rows, event_types = found.written("types").to_pylist(), found.written("event_types")
    assert [row["type_id"] for row in rows] == [0, 1, 2]
    sizes = [row["size"] for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    typed = set(event_types["event_id"].to_pylist())
    assert event_types["event_id"].to_pylist() == [
        event_id for event_id in events["event_id"].to_pylist() if event_id in typed
    ]
    assert np.bincount(event_types["type_id"].to_numpy()).tolist() == sizes
    of_event = {row["event_id"]: row for row in event_types.to_pylist()}
    for row in rows:
        own = [of_event[event_id] for event_id in row["examples"]]
        assert {one["type_id"] for one in own} == {row["type_id"]}
        assert [one["cosine"] for one in own] == sorted((one["cosine"] for one in own), reverse=True)
        assert {frame["label"] for frame in row["frames"]} == {"Arrest", "Winning"}
    assert any("10 sampled events" in note for note in found.notes)
    again = run_step(types.TYPES, tmp_path, encoder, frames="frames", num_types=3)
    assert again.written("types").to_pylist() == rows
    assert again.written("event_types").equals(event_types)


def test_frequent_verbs_are_sampled_by_the_root_of_their_frequency() -> None:
    lemmas = ["say"] * 900 + ["arrest"] * 100 + ["be"] * 1000
    drawn = [lemmas[place] for place in types.sample_mentions(lemmas, 60)]
    assert len(drawn) == 60
    assert "be" not in drawn
    # In proportion 30 to 10, not 90 to 10.
    assert 6 <= drawn.count("arrest") <= 25
    assert types.sample_mentions(["be", "have"], 5).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("lemma", "predicate", "target", "sentence", "expected"),
    [
        ("be", "was angry", "dog", "He was very angry at the dog.", "was very angry at the dog"),
        ("be", "is", "president", "He was the President of all.", "was the President"),
        ("be", "was", "what", "He was what he was.", "was"),
        ("arrest", "was", "dog", "He was at the dog.", "was"),
        ("be", "was", "she", "he was (she)", "was"),
        ("take", "took", "place", "It took its place.", "took its place"),
    ],
)
def test_stop_words_are_read_with_what_completes_them(
    lemma: str, predicate: str, target: str, sentence: str, expected: str
) -> None:
    row = {"lemma": lemma, "predicate": predicate, "object": target, "sentence_start": 5, "trigger_end": 11}
    assert sentence[3 : types.mention_end(row, sentence)] == expected


def chains_of(events: pa.Table, *members: list[int]) -> pa.Table:
    ids = events["event_id"].to_pylist()
    rows = [
        {
            "chain_id": f"c{number}",
            "document_id": "a",
            "protagonist": "p",
            "event_ids": [ids[one] for one in of_one],
        }
        for number, of_one in enumerate(members)
    ]
    return pa.Table.from_pylist(rows, schema=CHAIN_SCHEMA)


@pytest.mark.parametrize("word", ["police", "covid-19", "the old mayor", "警察"])
def test_participants(word: str) -> None:
    assert is_participant(word)


@pytest.mark.parametrize("word", ["number", "people", "years", "most", "the", "250", "$"])
def test_words_that_name_no_participant(word: str) -> None:
    assert not is_participant(word)


def test_next_events_are_new_and_best_first(encoder: EventEncoder, tmp_path: Path) -> None:
    events, _ = tables()
    scorer = EncoderChainScorer(encoder.encode, "tiny")
    found = run_step(related.NEXT_EVENTS, tmp_path, encoder, [0, 1], [4, 13])
    rows = found.written("next_events").to_pylist()
    by_text = {row["text"]: row for row in events.to_pylist()}
    for chain_id, own in (("c0", [0, 1]), ("c1", [4, 13])):
        of_chain = [row for row in rows if row["chain_id"] == chain_id]
        verbs = [by_text[row["text"]]["lemma"] for row in of_chain]
        # Neither a verb of the chain, nor one twice, nor a stop word or a verb of reporting.
        assert set(verbs) == {"arrest", "flood", "win"} - {ROLES[place][2] for place in own}
        assert len(verbs) == len(set(verbs)) <= related.TOP_NEXT
        assert [row["rank"] for row in of_chain] == [1 + place for place in range(len(of_chain))]
        scores = [row["score"] for row in of_chain]
        assert scores == sorted(scores, reverse=True)
        for row in of_chain:
            assert by_text[row["text"]]["event_id"] == row["event_id"]
            context = [dict(zip(("subject", "predicate", "object"), _roles(one), strict=True)) for one in own]
            asked = dict(zip(("subject", "predicate", "object"), _of(by_text[row["text"]]), strict=True))
            (expected,) = scorer.score_choices([context], [[asked]])
            assert row["score"] == pytest.approx(expected[0], abs=1e-5)


def _roles(place: int) -> tuple[str, str, str]:
    subject, predicate, _, target = ROLES[place]
    return subject, predicate, target


def _of(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["subject"], row["predicate"], row["object"]


def test_no_chain_has_no_next_event(encoder: EventEncoder, tmp_path: Path) -> None:
    found = run_step(related.NEXT_EVENTS, tmp_path, encoder)
    assert found.written("next_events").num_rows == 0


def test_search_beyond_the_limit_is_approximate_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "EXACT_UP_TO", 50)
    vectors = np.random.default_rng(0).normal(size=(1_100, 8)).astype(np.float32)
    notes: list[str] = []
    found = events_module.nearest([str(place) for place in range(1_100)], vectors, vectors[:5], 3, notes)
    assert found.events.shape == (5, 3)
    assert "approximate" in notes[0]


@pytest.fixture
def known(tmp_path: Path) -> Path:
    entries = [("flood", "en", "Storm flood", "the storm flooded the road"), ("storm", "en", "Storm", "")]
    entries += [(f"e{number}", "en", f"Election of mayor {number}", "") for number in range(6)]
    return write_edges(write_events(tmp_path / "kb", entries), [("flood", "storm")])


def test_links_reach_the_score_that_entries_have_among_each_other(
    encoder: EventEncoder, known: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    events, documents = tables()
    found = run_step(links.LINKS, tmp_path, encoder, knowledge_base=known)
    rows = found.written("links").to_pylist()
    # "Election of mayor 1" names nothing that a document has.
    assert {row["title"] for row in rows} <= {"Storm flood", "Storm"}
    firsts = [row for row in rows if row["rank"] == 1]
    assert [row["event_id"] for row in firsts] == events["event_id"].to_pylist()
    assert not any(row["linked"] for row in rows if row["rank"] > 1)
    assert found.counts["linked_events"] == sum(row["linked"] for row in firsts)
    assert found.notes[0].startswith("encoder has no learned threshold: a link needs a score of ")
    monkeypatch.setattr(linking, "usual_score", lambda index: -1.0)
    everything = run_step(links.LINKS, tmp_path, encoder, knowledge_base=known)
    assert everything.counts["linked_events"] == events.num_rows
    for row in everything.written("links").to_pylist():
        is_flood = row["linked"] and row["knowledge_base_id"] == "flood"
        assert row["ancestors"] == (["Storm"] if is_flood else [])
    place = events.schema.get_field_index("factuality")
    kinds = pa.array(["negated"] + ["fact"] * (events.num_rows - 1))
    changed = events.set_column(place, events.schema.field(place), kinds), documents
    monkeypatch.setitem(globals(), "tables", lambda: changed)
    facts = run_step(links.LINKS, tmp_path, encoder, knowledge_base=known)
    assert facts.counts["linked_events"] == events.num_rows - 1
    monkeypatch.setattr(linking, "usual_score", lambda index: 2.0)
    nothing = run_step(links.LINKS, tmp_path, encoder, knowledge_base=known)
    assert nothing.counts["linked_events"] == 0


def test_events_are_linked_in_blocks_of_whole_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_BLOCK_EVENTS", 3)
    rows = [{"document_id": name} for name in "aabbbbcdde"]
    assert list(links.document_blocks(rows)) == [slice(0, 6), slice(6, 9), slice(9, 10)]
    assert list(links.document_blocks([])) == []


class Interruption:
    """Replaces a function by one that counts its calls and is interrupted at the second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        self.calls, self._function = 0, getattr(module, name)
        monkeypatch.setattr(module, name, self)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls == 2:
            raise KeyboardInterrupt
        return self._function(*arguments, **options)


def test_links_continue_after_the_last_block(
    encoder: EventEncoder, known: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(steps, "_ROWS_AT_ONCE", 5)
    (tmp_path / "whole").mkdir()
    whole = run_step(links.LINKS, tmp_path / "whole", encoder, knowledge_base=known)
    reading = Interruption(monkeypatch, retrieve_rerank, "encode_texts")
    with pytest.raises(KeyboardInterrupt):
        run_step(links.LINKS, tmp_path, encoder, knowledge_base=known)
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"entries-0.parquet"}
    found = run_step(links.LINKS, tmp_path, encoder, knowledge_base=known)
    table, expected = found.written("links"), whole.written("links")
    assert reading.calls > 2
    again = reading.calls
    repeated = run_step(links.LINKS, tmp_path, encoder, knowledge_base=known)
    assert reading.calls == again, "nothing is encoded twice"
    assert repeated.written("links").equals(table)
    # Other texts in a batch change the last digits of a vector whose encoder is not packed.
    np.testing.assert_allclose(table["score"], expected["score"], rtol=0, atol=1e-5)
    assert table.drop_columns("score").equals(expected.drop_columns("score"))
    assert (found.counts, found.notes) == (whole.counts, whole.notes)


def test_completions_of_events_in_chains_come_first(
    encoder: EventEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, _ = tables()
    build_alternative_index(encoder, pairs_of(), tmp_path / "index", graph="conceptnet")
    monkeypatch.setattr(related, "MOST_QUERIES", 5 * len(related.EVENT_RELATIONS))
    found = run_step(related.COMPLETIONS, tmp_path, encoder, [9, 2], graph=tmp_path / "index")
    rows = found.written("completions").to_pylist()
    texts = list(dict.fromkeys(row["text"] for row in rows))
    everything = events["text"].to_pylist()
    assert texts == [everything[9], everything[2], *everything[:2], everything[3]]
    assert {row["relation"] for row in rows} == set(related.EVENT_RELATIONS)
    assert any("5 of 14 distinct events" in note for note in found.notes)


@pytest.mark.parametrize(
    ("event", "lemma", "tail", "is_new"),
    [
        ("aune flooded town", "flood", "flood", False),
        ("families lost homes", "lose", "loss of a house", False),
        ("man admitted robbery", "admit", "be robbed", False),
        ("police searched flat", "search", "the police come", False),
        ("it is angry", "be", "it is late", True),
        ("man lost temper", "lose", "anger", True),
        ("prosecutors charged men", "charge", "court", True),
    ],
)
def test_completions_do_not_repeat_their_event(event: str, lemma: str, tail: str, is_new: bool) -> None:
    completed = ManyCompletions(event, "Causes", [(tail, 0.9), ("rain", 0.5)])
    assert [text for text, _ in related._new_alternatives(completed, lemma)] == [tail] * is_new + ["rain"]


def plane(encoder: EventEncoder, folder: Path, **types: pa.Table) -> RunStep:
    events, documents = tables()
    # The first event occurs again, in another place of the table.
    events = pa.concat_tables([events, events.slice(0, 1)])
    given = {"events": events, "vectors": vectors_of(encoder, events), "documents": documents, **types}
    return RunStep(map_step.MAP, folder, {f"{name}.parquet": table for name, table in given.items()}, encoder)


@pytest.mark.process
def test_map_is_repeatable_and_its_neighbours_are_rows(encoder: EventEncoder, tmp_path: Path) -> None:
    found = plane(encoder, tmp_path)
    rows, regions = found.written("map").to_pylist(), found.written("regions")
    assert len(rows) == len(ROLES) + 1
    assert rows[0]["x"] == rows[-1]["x"]
    assert rows[0]["type_id"] == map_step.UNTYPED
    vectors = {row["text"]: encoder.encode(row["text"], normalize=True) for row in rows}
    for row in rows:
        near = row["neighbors"]
        texts = [rows[place]["text"] for place in near["ids"]]
        assert len(texts) == len(set(texts)) == map_step.NEIGHBOURS
        assert row["text"] not in texts
        assert near["distances"] == sorted(near["distances"])
        products = [1 - float(vectors[row["text"]] @ vectors[text]) for text in texts]
        assert near["distances"] == pytest.approx(products, abs=1e-5)
    assert sum(regions["size"].to_pylist()) == len(rows)
    assert {row["region"] for row in rows} == set(regions["name"].to_pylist())
    assert plane(encoder, tmp_path).written("map").to_pylist() == rows


@pytest.mark.process
def test_map_names_types(encoder: EventEncoder, tmp_path: Path) -> None:
    events, _ = tables()
    ids = events["event_id"].to_pylist()
    event_types = pa.table({"event_id": ids, "type_id": [place % 2 for place in range(len(ids))]})
    names = pa.table({"type_id": [1, 0], "name": ["one", "zero"]})
    found = plane(encoder, tmp_path, event_types=event_types, types=names)
    assert found.written("map")["type"].to_pylist()[:3] == ["zero", "one", "zero"]


@pytest.mark.parametrize("number", [1, 2, 7, 8, 12, 60])
def test_small_maps(number: int) -> None:
    vectors = np.random.default_rng(0).normal(size=(number, 6)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    places = map_step.place_texts([str(place) for place in range(number)], vectors, [])
    assert places.points.shape == (number, 2)
    assert np.isfinite(places.points).all()
    assert places.neighbours.shape == (number, min(map_step.NEIGHBOURS, number - 1))


@pytest.mark.process
def test_texts_of_an_earlier_map_stay_where_they_are() -> None:
    vectors = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = [str(place) for place in range(120)]
    before = map_step.place_texts(texts[:100], vectors[:100], []).points
    earlier = dict(zip(texts, before.tolist(), strict=False))
    grown, _, _, is_drawn = map_step.place_texts(texts, vectors, [], earlier)
    assert np.array_equal(grown[:100], before)
    assert is_drawn.tolist() == [True] * 100 + [False] * 20
    width = np.ptp(before, axis=0).max()
    near = map_step.place_texts(texts, vectors, []).neighbours[100:, 0]
    apart = np.linalg.norm(grown[100:] - grown[near], axis=1)
    assert np.median(apart) < 0.3 * width, "new ones are near their neighbours"
    few = dict(list(earlier.items())[:40])
    from_scratch = map_step.place_texts(texts, vectors, []).points
    assert np.array_equal(map_step.place_texts(texts, vectors, [], few).points, from_scratch)


def test_equal_vectors_do_not_hide_a_text() -> None:
    vectors = np.zeros((40, 4), dtype=np.float32)
    vectors[:, 0] = 1
    places = map_step.place_texts([str(place) for place in range(40)], vectors, [])
    assert not (places.neighbours == np.arange(40)[:, None]).any()
    assert np.isfinite(places.points).all()


def test_map_without_its_library_says_what_to_install(
    encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openTSNE", None)
    with pytest.raises(EventformersError, match=r"eventformers\[explore\].*--skip map"):
        plane(encoder, tmp_path)


def test_stories_are_the_events_that_several_documents_tell_of(
    encoder: EventEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(_: object, mentions: list[dict[str, Any]], **options: object) -> SimpleNamespace:
        # To a random encoder all sentences are alike.
        seeds = [zlib.crc32(mention["text"].strip().encode()) for mention in mentions]
        vectors = np.stack([np.random.default_rng(seed).normal(size=64) for seed in seeds])
        return SimpleNamespace(embeddings=vectors.astype(np.float32))

    monkeypatch.setattr(events_module, "encode_mentions", encode)
    monkeypatch.setattr(stories, "tuned_encoder", lambda encoder: encoder)
    # Events are the same if their sentences are.
    monkeypatch.setattr(stories, "packaged_scorer", lambda: lambda read, _: (read[:, 0] > 0.9).float())
    events, documents = tables()
    rows, texts = events.to_pylist(), documents.to_pylist()
    # A third document repeats the first sentence of the first one, and says when and where it was.
    sentence = texts[0]["text"].split(". ")[0] + ". "
    again = {**texts[0], "document_id": "c", "text": sentence, "date": "2024-05-31", "source": "other"}
    copy = {**rows[0], "event_id": "c#0", "document_id": "c", "time_start": "2024-05", "country": "NL"}
    rows[0] |= {"object_id": "jo"}
    copy |= {"object": "he", "object_id": "jo"}
    possible = {**copy, "event_id": "c#1", "factuality": "possible"}
    # What one document alone tells is no story.
    twice = {**rows[1], "event_id": "b#99", "object": "money"}
    given_to_all = {"factuality": "fact", "trigger_kind": "verb", "time_text": "", "place_text": ""}
    facts = [{**row, **given_to_all} for row in [*rows, twice, copy]]
    given = {
        "events.parquet": pa.Table.from_pylist([*facts, possible], schema=EVENT_SCHEMA),
        "documents.parquet": pa.Table.from_pylist([*texts, again], schema=DOCUMENT_SCHEMA),
        "actors.parquet": pa.Table.from_pylist([{"actor_id": "jo", "name": "Jo Thief"}], schema=ACTOR_SCHEMA),
    }
    found = RunStep(stories.STORIES, tmp_path, given, encoder)
    of_story: dict[str, list[str]] = {}
    for row in found.written("event_stories").to_pylist():
        of_story.setdefault(row["story_id"], []).append(row["event_id"])
    (told,) = [row for row in found.written("stories").to_pylist() if row["documents"] == 2]
    assert {"a#0", "c#0"} <= set(of_story[told["story_id"]])
    assert told["story_id"] == "a#0"
    assert told["events"] == len(of_story["a#0"])
    assert told["document_ids"] == ["a", "c"]
    assert (told["first_date"], told["last_date"]) == ("2024-05-31", "2024-05-31")
    assert (told["time_start"], told["country"], told["place_text"]) == ("2024-05", "NL", "")
    assert told["actors"] == ["Jo Thief"]
    assert (told["sources"], told["first_document_id"]) == (2, "c")
    assert not {"c#1", "b#99"} & {event for members in of_story.values() for event in members}
    # States are no events, nor is "be".
    for state in ({"trigger_kind": "adjective"}, {"lemma": "be"}):
        states = [{**row, **state} for row in facts]
        given["events.parquet"] = pa.Table.from_pylist(states, schema=EVENT_SCHEMA)
        assert RunStep(stories.STORIES, tmp_path, given, encoder).written("stories").num_rows == 0


def test_no_event_is_no_story(encoder: EventEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories, "tuned_encoder", lambda encoder: encoder)
    events, documents = tables()
    given = {"events.parquet": events.slice(0, 0), "documents.parquet": documents}
    given["actors.parquet"] = ACTOR_SCHEMA.empty_table()
    found = RunStep(stories.STORIES, tmp_path, given, encoder)
    assert (found.written("stories").num_rows, found.written("event_stories").num_rows) == (0, 0)


@pytest.mark.parametrize(
    ("parts", "ids"),
    [
        (["ab", "cde"], ["b"] * 2 + ["a"] * 3),
        (["af", "bcd", "gh"], ["a+"] * 2 + ["a"] * 3 + ["f"] * 2),
    ],
)
def test_a_story_that_falls_apart_leaves_its_id_to_its_larger_part(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, parts: list[str], ids: list[str]
) -> None:
    of_event = {**dict.fromkeys("abcde", "a"), **dict.fromkeys("fgh", "f")}
    earlier = [{"event_id": one, "story_id": story, "name": "old"} for one, story in of_event.items()]
    monkeypatch.setattr(stories, "read_parquet", lambda path: pa.Table.from_pylist(earlier))
    groups = [[{"event_id": one, "text": "new"} for one in part] for part in parts]
    known = stories._known(SimpleNamespace(earlier=tmp_path), groups)  # type: ignore[arg-type]
    assert known["story_id"].to_pylist() == ids
    assert known["name"].to_pylist()[:3] == ["new", "new", "old"]


def test_entries_in_several_languages_are_read_in_english(encoder: EventEncoder, tmp_path: Path) -> None:
    entries = [("storm", "de", "Sturm", ""), ("storm", "en", "Storm", ""), ("flood", "en", "Flood", "")]
    found = run_step(links.LINKS, tmp_path, encoder, knowledge_base=write_events(tmp_path / "kb", entries))
    assert "Of the 2 languages of the knowledge base, en is read." in found.notes
    assert {row["title"] for row in found.written("links").to_pylist()} <= {"Storm", "Flood"}
