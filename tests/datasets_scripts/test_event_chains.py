"""Documents, their splits and co-occurrence from raw files to rows."""

from __future__ import annotations

import itertools
import json
import re
import warnings
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from eventformers.datasets_scripts import build_dataset, built_report, load_built
from eventformers.datasets_scripts.cooccurrence import CooccurrenceCounter, bytes_of, normalise_frequencies
from eventformers.datasets_scripts.document_splits import (
    DocumentSplits,
    RepeatedDocuments,
    SeededDraws,
    name_hash,
)
from eventformers.datasets_scripts.event_chains import EventChains
from eventformers.datasets_scripts.events import Event, event_text
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A folder with documents of three sources and a cloze file."""
    folder = tmp_path / "raw"
    folder.mkdir()
    documents = [
        {
            "source": "wikinews",
            "events": [["army", "took", "city"], ["he", "said", ""], ["people", "fled", ""]],
        },
        {
            "source": "brown",
            "events": [["army", "took", "city"], ["people", "fled", ""], ["he", "saw", "it"]],
        },
        {"source": "brown", "events": []},
        {"source": "brown", "events": [["--", "*", ""]]},
    ]
    lines = "".join(json.dumps(document) + "\n" for document in documents)
    (folder / "events.jsonl").write_text(lines, encoding="utf-8")
    (folder / "mcnc_dev.txt").write_text(
        "rain|fell|\nriver|rose|\nHOLDOUT_SEP\na|b|c\nNEG_SEP\nd|e|f\nDOC_SEP\n", encoding="utf-8"
    )
    (folder / "README.md").write_text("# Not data\n", encoding="utf-8")
    return folder


def test_documents_keep_order_source_and_licence(raw: Path) -> None:
    rows = load_built(raw, "documents")["train"]
    assert rows.column_names == ["document_id", "source", "license", "events"]
    assert [(row["document_id"], row["source"], row["license"]) for row in rows] == [
        ("events/1", "wikinews", "CC-BY-2.5"),
        ("events/2", "brown", "research-only"),
        ("mcnc_dev/0", "mcnc_dev", "Apache-2.0"),
    ]
    assert [event["predicate"] for event in rows[0]["events"]] == ["took", "said", "fled"]
    report = built_report(raw, "documents")
    assert report["read"] == {"documents": 5, "events": 9}
    assert report["skipped"] == {
        "cloze_held_out_event": 1,
        "cloze_wrong_candidate": 1,
        "document_without_events": 1,
        "document_without_kept_events": 1,
        "event_without_letters_or_digits": 1,
    }
    assert report["sources"] == {
        "brown": {"license": "research-only", "documents": 1, "events": 3},
        "mcnc_dev": {"license": "Apache-2.0", "documents": 1, "events": 2},
        "wikinews": {"license": "CC-BY-2.5", "documents": 1, "events": 3},
    }


def test_cooccurrence_counts_documents(raw: Path) -> None:
    rows = load_built(raw, "cooccurrence")["train"]
    assert rows.column_names == ["event", "co_events", "frequencies"]
    by_subject = {row["event"]["subject"]: row for row in rows if row["event"]["predicate"] != "said"}
    assert [event["predicate"] for event in by_subject["army"]["co_events"]] == ["fled", "said", "saw"]
    assert by_subject["army"]["frequencies"] == [2, 1, 1]
    statistics = built_report(raw, "cooccurrence")["statistics"]
    assert isinstance(statistics, dict)
    assert (statistics["minimum_pair_frequency"], statistics["maximum_pair_frequency"]) == (1, 2)


@pytest.mark.parametrize(
    ("settings", "subjects"),
    [
        ({"exclude_source": ["brown", "mcnc_dev"]}, [["army", "he", "people"]]),
        ({"exclude_source": "mcnc_dev,brown"}, [["army", "he", "people"]]),
        ({"open_licenses_only": True}, [["army", "he", "people"], ["rain", "river"]]),
        (
            {"exclude_predicates": ["reporting", "rose"]},
            [["army", "people"], ["army", "people", "he"], ["rain"]],
        ),
        ({"drop_pronoun_only": True}, [["army", "people"], ["army", "people"], ["rain", "river"]]),
    ],
)
def test_filters(raw: Path, settings: dict[str, object], subjects: list[list[str]]) -> None:
    rows = load_built(raw, "documents", **settings)["train"]
    assert [[event["subject"] for event in row["events"]] for row in rows] == subjects
    skipped = built_report(raw, "documents", **settings)["skipped"]
    assert skipped != built_report(raw, "documents")["skipped"]


def test_several_folders_and_single_files(raw: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"source": "mine", "events": [["a", "b", "c"]]}\n', encoding="utf-8")
    rows = load_built([raw, other], "documents")["train"]
    assert rows.unique("source") == ["wikinews", "brown", "mcnc_dev", "mine"]
    assert load_built(other, "documents")["train"].unique("source") == ["mine"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"windw": 3}, "Did you mean 'window'?"),
        ({"window": 0}, "setting window: found 0; accepted: a whole number of 1 or more, or null"),
        ({"min_event_frequency": None}, "found None; accepted: a whole number of 1 or more"),
        ({"max_co_events": "many"}, "found 'many'"),
        ({"memory_limit": "much"}, "setting memory_limit"),
        ({"predicate_form": "lema"}, "Did you mean 'lemma'?"),
        ({"exclude_source": ["wikinew"]}, "Did you mean 'wikinews'?"),
        ({"drop_pronoun_only": "yes"}, "accepted: true or false"),
        (
            {"exclude_source": ["wikinews", "brown", "mcnc_dev"]},
            "no rows left from events.jsonl, mcnc_dev.txt",
        ),
    ],
)
def test_bad_settings_say_what_is_accepted(raw: Path, settings: dict[str, object], message: str) -> None:
    with pytest.raises(EventformersError, match=re.escape(message)):
        build_dataset("event_chains", "documents", raw, raw.parent / "out", **settings)


def test_data_without_lemmas_are_told(tmp_path: Path) -> None:
    events = [{"subject": "she", "predicate": "brings", "object": "it"}]
    data = tmp_path / "mine.jsonl"
    for lemma in ({}, {"lemma": ""}):
        data.write_text(json.dumps({"events": [{**events[0], **lemma}]}) + "\n", encoding="utf-8")
        with pytest.warns(UserWarning, match="no event has a lemma, so predicate_form=lemma keeps pred"):
            build_dataset(
                "event_chains", "documents", data, tmp_path / str(len(lemma)), predicate_form="lemma"
            )
    events.append({**events[0], "lemma": "bring"})
    data.write_text(json.dumps({"events": events}) + "\n", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_dataset("event_chains", "documents", data, tmp_path / "some", predicate_form="lemma")


def test_too_little_memory_is_told(raw: Path) -> None:
    with pytest.raises(EventformersError, match="a higher memory_limit"):
        build_dataset("event_chains", "cooccurrence", raw, raw.parent / "out", memory_limit="1KB")


def test_a_fault_in_the_middle_is_told_as_itself(raw: Path) -> None:
    with (raw / "events.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"events": [["", "", ""]]}\n')
    with pytest.raises(DataFormatError, match="line 5: found an event without any word"):
        EventChains("documents", data_dir=raw, cache_dir=raw.parent / "cache").download_and_prepare()


def test_a_folder_without_raw_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="no raw file for event_chains"):
        load_built(tmp_path, "documents")
    with pytest.raises(UnknownNameError, match="unknown config"):
        load_built(tmp_path, "document")


Rows = dict[str, list[tuple[str, int]]]


def words(text: str) -> list[Event]:
    return [{"subject": word, "predicate": "is", "object": ""} for word in text.split()]


def zipfian(num_documents: int, num_words: int, length: int, seed: int = 0) -> list[str]:
    draw = np.random.default_rng(seed)
    weights = 1 / np.arange(1, num_words + 1)
    vocabulary = [f"w{index:03d}" for index in range(num_words)]
    drawn = draw.choice(vocabulary, size=(num_documents, length), p=weights / weights.sum())
    return [" ".join(document) for document in drawn]


def count(documents: list[str], **settings: int | str | None) -> tuple[Rows, CooccurrenceCounter]:
    settings = {"window": None, "max_co_events": None, "threads": 1, "memory_limit": "500MB", **settings}
    with closing(CooccurrenceCounter(**settings)) as counter:  # type: ignore[arg-type]
        for document in documents:
            counter.add(words(document))
        rows: Rows = {}
        for table in counter.tables():
            for row in table.to_pylist():
                pairs = zip(row["co_events"], row["frequencies"], strict=True)
                rows[row["event"]["subject"]] = [(other["subject"], frequency) for other, frequency in pairs]
    return rows, counter


def plain_count(documents: list[str], window: int | None = None) -> dict[tuple[str, str], int]:
    counts: Counter[tuple[str, str]] = Counter()
    for document in documents:
        tokens = document.split()
        met = set()
        for i, j in itertools.permutations(range(len(tokens)), 2):
            if tokens[i] != tokens[j] and (window is None or abs(i - j) <= window):
                met.add((tokens[i], tokens[j]))
        counts.update(met)
    return counts


def pairs_of(rows: Rows) -> dict[tuple[str, str], int]:
    return {(anchor, other): frequency for anchor, others in rows.items() for other, frequency in others}


@pytest.mark.parametrize("window", [None, 1, 3, 7, 100])
def test_counts_equal_a_plain_count(window: int | None) -> None:
    documents = zipfian(40, 60, 25)
    rows, counter = count(documents, window=window)
    expected = plain_count(documents, window)
    assert pairs_of(rows) == expected
    statistics = counter.statistics
    assert (statistics.documents, statistics.occurrences) == (40, 1000)
    assert statistics.pairs == len(expected)
    assert statistics.minimum_pair_frequency == min(expected.values())
    assert statistics.maximum_pair_frequency == max(expected.values())


def test_many_ranges_give_the_rows_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = zipfian(40, 60, 25)
    whole, _ = count(documents, window=5, max_co_events=6)
    monkeypatch.setattr("eventformers.datasets_scripts.cooccurrence._BYTES_PER_PAIR", 10_000_000)
    parts, counter = count(documents, window=5, max_co_events=6)
    assert list(parts.items()) == list(whole.items())
    assert counter.statistics.rows == len(whole)


def test_rows_and_co_events_are_in_a_fixed_order() -> None:
    rows, _ = count(zipfian(40, 60, 25))
    assert list(rows) == sorted(rows)
    for others in rows.values():
        assert others == sorted(others, key=lambda pair: (-pair[1], pair[0]))


def test_rare_events_and_rare_pairs_go() -> None:
    documents = ["a b c", "a b", "a d", "e"]
    rows, counter = count(documents, min_event_frequency=2)
    assert rows == {"a": [("b", 2)], "b": [("a", 2)]}
    assert counter.statistics.distinct_events == 5
    assert counter.statistics.events_below_minimum_frequency == 3
    rows, counter = count(documents, min_pair_frequency=2)
    assert rows == {"a": [("b", 2)], "b": [("a", 2)]}
    assert counter.statistics.pairs_below_minimum_frequency == counter.statistics.pairs - 2
    assert counter.statistics.events_without_co_event == 3


def test_rare_events_still_take_up_room_in_the_window() -> None:
    rows, _ = count(["a x b", "a y b"], window=1, min_event_frequency=2)
    assert rows == {}


def test_the_most_frequent_co_events_stay_and_no_spelling_is_favoured() -> None:
    documents = zipfian(60, 300, 25)
    full, _ = count(documents)
    capped, counter = count(documents, max_co_events=8)
    firsts = []
    for anchor, others in capped.items():
        assert len(others) == min(8, len(full[anchor]))
        assert set(others) <= set(full[anchor])
        assert others[-1][1] >= max((pair[1] for pair in set(full[anchor]) - set(others)), default=0)
        singles = [pair[0] for pair in full[anchor] if pair[1] == others[-1][1]]
        chosen = [pair[0] for pair in others if pair[1] == others[-1][1]]
        firsts += [singles.index(name) / len(singles) for name in chosen if len(singles) > 3 * len(chosen)]
    assert counter.statistics.pairs_beyond_max_co_events == len(pairs_of(full)) - len(pairs_of(capped))
    assert 0.4 < float(np.mean(firsts)) < 0.6
    assert capped == count(documents, max_co_events=8)[0]


def test_a_book_costs_what_its_window_allows() -> None:
    book = " ".join(f"e{index}" for index in range(20_000))
    rows, counter = count([book], window=10, max_co_events=4)
    assert len(rows) == 20_000
    assert counter.statistics.pairs == 2 * sum(20_000 - distance for distance in range(1, 11))
    assert counter.statistics.pairs_beyond_max_co_events == counter.statistics.pairs - 4 * 20_000


def test_roles_do_not_run_into_each_other() -> None:
    first: Event = {"subject": "a b", "predicate": "c", "object": ""}
    second: Event = {"subject": "a", "predicate": "b c", "object": ""}
    assert event_text(first) == event_text(second)
    with closing(CooccurrenceCounter(threads=1)) as counter:
        counter.add([first, second])
        (table,) = counter.tables()
    assert isinstance(table, pa.Table)
    assert table["event"].to_pylist() == [second, first]


def test_nothing_stays_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with closing(CooccurrenceCounter(threads=1)) as counter:
        counter.add(words("a b"))
        assert list(tmp_path.iterdir())
        assert sum(table.num_rows for table in counter.tables()) == 2
    assert not list(tmp_path.iterdir())


def test_no_document_and_no_pair_give_no_rows() -> None:
    assert count([])[0] == {}
    assert count(["a", "b b"])[0] == {}


def test_weights_of_the_paper() -> None:
    # With the released constants a pair at the floor weighs nothing and one of 10 next to nothing.
    weights = normalise_frequencies([3, 10, 38_354], 3, 38_354)
    np.testing.assert_allclose(weights, [0, 7 / 38_351, 1])
    np.testing.assert_allclose(normalise_frequencies([1, 10, 100], 1, 100, "log_min_max"), [0, 0.5, 1])
    np.testing.assert_allclose(normalise_frequencies([1, 10, 100], 1, 100, "constant"), 1)
    np.testing.assert_allclose(normalise_frequencies([[1, 500]], 3, 100), [[0, 1]])
    np.testing.assert_allclose(normalise_frequencies([2, 2], 2, 2), 1)


def test_sizes_are_read_as_duckdb_writes_them() -> None:
    assert [bytes_of(size) for size in ("2GB", "512 MiB", "1.5kb", "7")] == [2e9, 512 * 2**20, 1500, 7]
    with pytest.raises(ValueError, match="such as 2GB"):
        bytes_of("much")


NAMES = [f"document/{number}" for number in range(20_000)]


def event(predicate: str) -> Event:
    return {"subject": "man", "predicate": predicate, "object": ""}


def test_shares_are_met_and_a_place_depends_on_the_id_and_the_seed_alone() -> None:
    splits = DocumentSplits(0.1, 0.2, seed=13)
    found = [splits.split_of(name) for name in NAMES]
    counts = Counter(found)
    assert abs(counts["test"] / 20_000 - 0.2) < 0.01
    assert abs(counts["validation"] / 20_000 - 0.1) < 0.01
    assert found == [DocumentSplits(0.1, 0.2, seed=13).split_of(name) for name in NAMES]
    assert found != [DocumentSplits(0.1, 0.2, seed=14).split_of(name) for name in NAMES]
    # A known value: what was test in one process is test in every other one.
    assert name_hash(13, "document/0") == 3254597234205771064


def test_a_larger_share_takes_documents_from_train_alone() -> None:
    small, large = DocumentSplits(0.1, 0.1, 13), DocumentSplits(0.2, 0.3, 13)
    for name in NAMES[:2000]:
        if small.split_of(name) != "train":
            assert large.split_of(name) == small.split_of(name)


@pytest.mark.parametrize(
    ("validation", "test", "names"),
    [
        (0.1, 0.1, ("train", "validation", "test")),
        (0, 0, ("train",)),
        (0, 1, ("test",)),
        (0.9, 0.1, ("validation", "test")),
    ],
)
def test_splits_without_a_share_are_none(validation: float, test: float, names: tuple[str, ...]) -> None:
    splits = DocumentSplits(validation, test, 13)
    assert splits.names == names
    assert {splits.split_of(name) for name in NAMES[:500]} == set(names)


def test_of_equal_documents_one_stays_whatever_their_order() -> None:
    documents = {name: [event("ran"), event("fell")] for name in ("a", "b", "c")}
    documents["d"] = [event("ran")]
    stay = set()
    for order in (list(documents), list(documents)[::-1]):
        repeats = RepeatedDocuments()
        for name in order:
            repeats.add(name, documents[name])
        kept = [name for name in sorted(documents) if not repeats.is_repeat(name, documents[name])]
        assert len(kept) == 2
        assert "d" in kept
        assert not repeats.is_repeat("e", [event("never added")])
        stay.add(tuple(kept))
    assert len(stay) == 1


def test_draws_are_uniform_and_seeded() -> None:
    draws = SeededDraws(13, "chain", 0)
    counts = Counter(draws.below(5) for _ in range(10_000))
    assert sorted(counts) == [0, 1, 2, 3, 4]
    assert max(abs(count - 2000) for count in counts.values()) < 200
    same, other = SeededDraws(13, "chain", 0), SeededDraws(14, "chain", 0)
    first = [SeededDraws(13, "chain", 0).below(1000) for _ in range(3)]
    assert first == [first[0]] * 3
    assert [same.below(1000) for _ in range(20)] != [other.below(1000) for _ in range(20)]
