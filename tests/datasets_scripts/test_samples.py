"""The bundled sample corpora: counts, raw formats, no duplicates, nothing taken from the public test rows."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from eventformers.datasets_scripts.chain_readers import read_cloze_items
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.lines import read_json_values

SAMPLES = Path(__file__).resolve().parents[2] / "datasets_scripts" / "samples"
CHAINS = SAMPLES / "chains" / "events.jsonl"
STORIES = SAMPLES / "chains" / "stories.jsonl"
SIMILARITY_FILES = ("hard.txt", "hard_extend.txt", "transitive.txt", "verbs_in_context.txt")
TEXT = re.compile(r"[a-z0-9](?:[a-z0-9' \-]*[a-z0-9])?")

Row = tuple[str, ...]
Pair = frozenset[Row]


def read_documents() -> list[dict]:
    return [json.loads(line) for line in CHAINS.read_text(encoding="ascii").splitlines()]


def read_rows(path: Path) -> list[Row]:
    return [tuple(line.split(" | ")) for line in path.read_text(encoding="utf-8").splitlines()]


def events_of(row: Row) -> list[Row]:
    """Events of a similarity row; a score at its end is left out."""
    return [row[start : start + 3] for start in range(0, len(row) - len(row) % 3, 3)]


def pairs_of(row: Row) -> list[Pair]:
    """Pairs of events that a similarity row compares, whichever event stands first."""
    events = events_of(row)
    return [frozenset(events[start : start + 2]) for start in range(0, len(events), 2)]


def test_documents_are_short_stories_of_plain_texts_that_repeat_nothing():
    documents = read_documents()
    assert len({document["document_id"] for document in documents}) == len(documents) >= 400
    for document in documents:
        name, events = document["document_id"], document["events"]
        assert set(document) == {"document_id", "source", "license", "events"}
        assert (document["source"], document["license"]) == ("eventformers-samples", "Apache-2.0")
        assert len(set(map(tuple, events))) == len(events), name
        assert 6 <= len(events) <= 10, name
        for subject, predicate, object_ in events:
            assert all(TEXT.fullmatch(text) for text in (subject, predicate, object_ or "none")), name
    assert max(Counter(frozenset(map(tuple, one["events"])) for one in documents).values()) == 1
    scenarios = Counter(document["document_id"].rsplit("-", 1)[0] for document in documents)
    assert len(scenarios) >= 70
    assert min(scenarios.values()) >= 6


def test_stories_have_long_chains():
    stories = [json.loads(line) for line in STORIES.read_text(encoding="ascii").splitlines()]
    assert len({story["document_id"] for story in stories}) == len(stories)
    events = [tuple(event) for story in stories for event in story["events"]]
    assert all(TEXT.fullmatch(text) for event in events for text in event if text)
    long_chains = 0
    for story in stories:
        assert (story["source"], story["license"]) == ("eventformers-samples", "Apache-2.0")
        assert len(set(map(tuple, story["events"]))) == len(story["events"]), story["document_id"]
        lengths = Counter(text for event in story["events"] for text in {event[0], event[2]} - {""})
        long_chains += sum(length >= 9 for length in lengths.values())
    lengths_of_stories = [len(story["events"]) for story in stories]
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    assert f"{len(stories)} documents, {len(events)} events ({len(set(events))} distinct)" in readme
    assert f"one story of {min(lengths_of_stories)} to {max(lengths_of_stories)} events" in readme
    assert f"{long_chains} chains of nine or more events" in readme


@pytest.mark.parametrize("name", ["mcnc", "cmcnc"])
def test_cloze_items_have_one_held_out_event_and_wrong_ones(name: str):
    counts = []
    for split in ("dev", "test"):
        items = list(read_cloze_items(SAMPLES / "chains" / f"{name}_{split}.txt", SkippedRows()))
        counts.append(len(items))
        for item in items:
            assert (len(item.context), len(item.held_out)) == (5, 1)
            assert len(item.wrong) == 5 if name == "cmcnc" else 4 <= len(item.wrong) <= 8
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    files = f"`chains/{name}_dev.txt`, `chains/{name}_test.txt`"
    assert f"{files} | {counts[0]} and {counts[1]} items" in readme


def test_similarity_rows_have_plain_texts_and_do_not_repeat():
    rows = [row for name in SIMILARITY_FILES for row in read_rows(SAMPLES / "similarity" / name)]
    assert all(TEXT.fullmatch(text) for row in rows for event in events_of(row) for text in event)
    pairs = [pair for row in rows for pair in pairs_of(row)]
    assert [pair for pair, count in Counter(pairs).items() if count > 1] == []
    assert all(len(pair) == 2 for pair in pairs)


@pytest.mark.parametrize("name", ["hard.txt", "hard_extend.txt"])
def test_only_the_dissimilar_pair_shares_words(name: str):
    for row in read_rows(SAMPLES / "similarity" / name):
        similar_a, similar_b, dissimilar_a, dissimilar_b = events_of(row)
        assert not set(similar_a) & set(similar_b), row
        assert sum(a == b for a, b in zip(dissimilar_a, dissimilar_b, strict=True)) == 2, row


def test_graded_scores_spread_over_the_scale():
    scores = [float(row[6]) for row in read_rows(SAMPLES / "similarity" / "transitive.txt")]
    assert all(1 <= score <= 7 for score in scores)
    for low in range(1, 7):
        assert sum(low <= score <= low + 1 for score in scores) >= 5, f"few scores from {low} to {low + 1}"


def test_readme_states_the_counts():
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    documents = read_documents()
    events = [tuple(event) for document in documents for event in document["events"]]
    assert f"{len(documents)} documents, {len(events):,} events ({len(set(events)):,} distinct)" in readme
    scenarios = {document["document_id"].rsplit("-", 1)[0] for document in documents}
    assert f"{len(scenarios)} scenarios" in readme
    for name in SIMILARITY_FILES:
        assert f"`similarity/{name}` | {len(read_rows(SAMPLES / 'similarity' / name))} |" in readme


@pytest.mark.parametrize("name", SIMILARITY_FILES)
def test_no_pair_is_taken_from_the_public_tests(name: str, shared_data: Path):
    public = {
        pair
        for file in SIMILARITY_FILES
        for row in read_rows(shared_data / "similarity" / file)
        for pair in pairs_of(row)
    }
    assert len(public) > 1000
    taken = [row for row in read_rows(SAMPLES / "similarity" / name) if public & set(pairs_of(row))]
    assert taken == []


def test_event_mentions_are_distinct_and_counted():
    lines = (SAMPLES / "event_types" / "mentions.jsonl").read_text(encoding="ascii").splitlines()
    rows = [json.loads(line) for line in lines]
    assert {(row["source"], row["license"]) for row in rows} == {("eventformers-samples", "Apache-2.0")}
    assert len({row["id"] for row in rows}) == len(rows)
    sentences = Counter(row["sentence"] for row in rows)
    assert len({(row["sentence"], row["trigger"]["start_char"]) for row in rows}) == len(rows)
    triggers = {(row["event_type"], row["trigger"]["text"].lower()) for row in rows}
    by_type = Counter(name for name, _ in triggers).values()
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    assert f"{len(rows)} mentions of 12 types in {len(sentences)} sentences" in readme
    assert f"{sum(count == 2 for count in sentences.values())} sentences mention two events" in readme
    assert f"{min(by_type)} to {max(by_type)} different triggers" in readme


def test_frames_are_counted_and_not_those_of_framenet(shared_data: Path):
    lines = (SAMPLES / "event_types" / "frames.jsonl").read_text(encoding="ascii").splitlines()
    frames = {row["name"]: row for row in map(json.loads, lines)}
    edges = sum(len(row["parents"]) for row in frames.values())
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    assert f"{len(frames)} frames, {edges} inheritance edges" in readme
    with open(shared_data / "framenet" / "frames.jsonl", encoding="utf-8") as stream:
        public = [json.loads(line) for line in stream]
    assert not frames.keys() & {row["name"] for row in public}
    assert not {row["definition"] for row in frames.values()} & {row["definition"] for row in public}


def test_no_event_mention_is_taken_from_the_public_files(shared_data: Path):
    lines = (SAMPLES / "event_types" / "mentions.jsonl").read_text(encoding="ascii").splitlines()
    own = {plain_words(json.loads(line)["sentence"]) for line in lines}
    for name in ("geneva.jsonl.gz", "m2e2.jsonl", "fewevent.jsonl"):
        for _, row in read_json_values(shared_data / "event_types" / name, SkippedRows(), "a mention"):
            assert plain_words(row["sentence"]) not in own


def test_mentions_of_events_are_distinct_and_counted(shared_data: Path):
    folder = SAMPLES / "event_hierarchies"
    rows = {path.name: read_jsonl(path) for path in sorted(folder.glob("*.jsonl"))}
    events, edges = rows.pop("label_dict.jsonl"), rows.pop("wd_item_props.jsonl")
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    counts = [len(rows[f"wikipedia{name}.jsonl"]) for name in (".train", "-zero-shot.dev", "-zero-shot.test")]
    assert "{}, {} and {} mentions in four languages".format(*counts) in readme
    assert len(events) == 4 * len({row["label_id"] for row in events})
    assert f"{len(events) // 4} events in four languages, {len(events)} rows" in readme
    stated = Counter(row["pid"] for row in edges for _ in row["datavalue"])
    assert f"{stated['P361']} part-of and {stated['P155']} follows edges" in readme
    assert f"{stated['P361']} of the {len(events) // 4} events are part of another" in readme
    mentions = [row for found in rows.values() for row in found]
    texts = [row["context_left"] + row["mention"] + row["context_right"] for row in mentions]
    assert len(set(texts)) == len(texts)
    assert {row["label_id"] for row in mentions} == {row["label_id"] for row in events}
    public: set[str] = set()
    for name in ("train", "dev", "test"):
        for row in read_jsonl(shared_data / "hierarchy" / "wikidata_real" / f"{name}.jsonl"):
            public.add(plain_words(row["context_left"] + row["mention"] + row["context_right"]))
    assert not public & set(map(plain_words, texts))


def read_jsonl(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def plain_words(text: str) -> str:
    return " ".join(re.findall(r"[a-z]+", text.lower()))
