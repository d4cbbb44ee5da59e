"""Co-occurrence against a plain count, its filters, bounds and weights."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from eventformers.datasets_scripts.cooccurrence import CooccurrenceCounter, bytes_of, normalise_frequencies
from eventformers.datasets_scripts.events import Event, event_text

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
