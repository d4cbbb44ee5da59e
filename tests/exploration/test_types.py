"""Event types of an exploration: how many there are, which events have none, names, and weak types."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from exploration_steps import RunStep

from eventformers.datasets_scripts.base import SAMPLES
from eventformers.exploration import types
from eventformers.exploration.stories import is_plural, is_single, numbers_of
from eventformers.inference.encode import load_encoder
from eventformers.inference.induction.type_list import FAMILIES, read_type_list

SAMPLE_EVENTS = SAMPLES / "texts" / "extracted"
WIDTH = 256


def around(direction: int, number: int, spread: float, seed: int = 0) -> np.ndarray:
    """Vectors around an axis, at length 1."""
    noise = np.random.default_rng((seed, direction)).normal(size=(number, WIDTH)) * spread / WIDTH**0.5
    vectors = noise + np.eye(WIDTH)[direction]
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def scattered(number: int, seed: int = 1) -> np.ndarray:
    """Vectors in all directions, at length 1."""
    vectors = np.random.default_rng(seed).normal(size=(number, WIDTH))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("groups", [3, 12, 40])
def test_the_number_of_types_is_that_of_the_groups(groups: int) -> None:
    vectors = np.concatenate([*(around(place, 12, 0.6) for place in range(groups)), scattered(60)])
    verbs = [f"verb {place}" for place in range(groups) for _ in range(12)] + [
        f"other {n}" for n in range(60)
    ]
    found, level = types.group_mentions(vectors, verbs)
    together = found[:-60].reshape(groups, 12)
    assert (together == together[:, :1]).all()
    assert sorted(together[:, 0].tolist()) == list(range(groups))
    assert (found[-60:] == types.UNTYPED).mean() > 0.9
    assert 0 < level < 0.7


def test_mentions_that_are_not_alike_have_no_types() -> None:
    found, _ = types.group_mentions(scattered(300), [f"verb {place}" for place in range(300)])
    assert (found == types.UNTYPED).mean() > 0.9
    for number in (0, 1, 2, types.FEWEST_MENTIONS - 1):
        found, _ = types.group_mentions(around(0, number, 0.1), ["arrest"] * number)
        assert found.tolist() == [types.UNTYPED] * number
    found, _ = types.group_mentions(np.repeat(around(0, 1, 0.1), 9, axis=0), ["arrest", "catch", "hold"] * 3)
    assert found.tolist() == [0] * 9


@pytest.mark.parametrize("verbs", [["arrest"] * 24, ["arrest"] * 12 + ["flood"] * 12])
def test_texts_about_one_or_two_kinds_of_events(verbs: list[str]) -> None:
    vectors = np.concatenate([around(int(verb == "flood"), 1, 0.6, seed) for seed, verb in enumerate(verbs)])
    found, _ = types.group_mentions(vectors, verbs)
    assert found.tolist() == [int(verb == "flood") for verb in verbs]


def test_a_type_has_more_mentions_in_a_larger_sample() -> None:
    few, many = (
        np.concatenate([around(0, 9, 0.5), *(around(place, 30, 0.5) for place in range(1, groups))])
        for groups in (3, 60)
    )
    assert types.group_mentions(few, list(map(str, range(len(few)))))[0].max() == 2
    assert types.group_mentions(many, list(map(str, range(len(many)))))[0].max() == 58


@pytest.mark.parametrize("number", [1, 2, 5])
def test_a_given_number_of_types(number: int) -> None:
    vectors = np.concatenate([around(place, 3, 0.2) for place in range(6)])
    found, _ = types.group_mentions(vectors, [*"abcdef"] * 3, number)
    assert sorted(set(found.tolist())) == list(range(number))


def found_of(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    verbs: Sequence[str],
    vectors: np.ndarray,
    known: int = 0,
    **settings: Any,
) -> RunStep:
    """The types of events with given verbs and vectors, one event in a document, of which an earlier run had
    some."""
    is_new = np.arange(len(verbs)) >= known
    monkeypatch.setattr(types, "_encode", lambda *_: (vectors, is_new))
    monkeypatch.setattr(
        types, "type_vectors", lambda listed, *_: np.eye(len(listed), WIDTH, dtype=np.float32)
    )
    rows = [
        {
            **{"event_id": f"d{number}#0", "document_id": f"d{number}", "sentence_start": 0},
            **{"sentence_end": 1, "trigger": verb, "trigger_start": 0, "trigger_end": 1, "predicate": verb},
            **{"object": f"object {number % 2}", "text": f"text {number}", "lemma": verb, "factuality": ""},
        }
        for number, verb in enumerate(verbs)
    ]
    tables = {"events.parquet": pa.Table.from_pylist(rows)}
    return RunStep(types.TYPES, folder, tables, None, folder / "staging" if known else None, **settings)


FIRST = ["arrest"] * 20 + ["catch"] * 10 + ["flood"] * 20 + [f"other {n}" for n in range(30)]
FIRST_VECTORS = np.concatenate([around(0, 30, 0.5), around(1, 20, 0.5), scattered(30)])


def typed_of(found: RunStep) -> dict[int, int]:
    """The types of the events by the number of their document."""
    rows = found.written("event_types").to_pylist()
    return {int(row["event_id"][1:-2]): row["type_id"] for row in rows}


def test_known_types_stay_and_new_events_may_have_new_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = found_of(tmp_path, monkeypatch, FIRST, FIRST_VECTORS)
    before, names = typed_of(first), first.written("types")["name"].to_pylist()
    verbs = [*FIRST, *["seize"] * 12, *["vote"] * 40]
    vectors = np.concatenate([FIRST_VECTORS, around(1, 12, 0.4, 5), around(9, 40, 0.5)])
    grown = found_of(tmp_path, monkeypatch, verbs, vectors, known=len(FIRST))
    rows = grown.written("types").to_pylist()
    assert [(row["type_id"], row["name"]) for row in rows] == [*enumerate(names), (2, "vote")]
    typed = typed_of(grown)
    assert typed == before | {place: 1 for place in range(80, 92)} | {place: 2 for place in range(92, 132)}
    assert [row["size"] for row in rows] == [30, 32, 40], "a type that became the largest keeps its id"
    again = found_of(tmp_path, monkeypatch, verbs, vectors, known=len(verbs))
    assert again.written("types").equals(grown.written("types"))
    assert typed_of(again) == typed
    other = found_of(tmp_path, monkeypatch, verbs, vectors, known=len(verbs), num_types=2)
    assert other.written("types").num_rows == 2, "with other settings, types are found again"
    found_of(tmp_path, monkeypatch, verbs, vectors)
    fewer = found_of(tmp_path, monkeypatch, FIRST[:30], FIRST_VECTORS[:30], known=30)
    assert fewer.written("types")["size"].to_pylist() == [0, 0, 30]
    assert fewer.written("types")["name"].to_pylist() == ["vote", "flood, seize", names[0]]


def test_what_is_left_over_from_before_makes_no_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    verbs = [*FIRST, "vote", "vote", "vote"]
    vectors = np.concatenate([FIRST_VECTORS, around(9, 40, 0.5)])
    found_of(tmp_path, monkeypatch, verbs, vectors[: len(verbs)])
    verbs += ["vote"] * 37
    few = found_of(tmp_path, monkeypatch, verbs, vectors, known=len(verbs) - 15)
    assert few.written("types").num_rows == 2
    many = found_of(tmp_path, monkeypatch, verbs, vectors, known=len(verbs) - 25)
    assert many.written("types").num_rows == 3


def test_events_get_the_types_of_a_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    listed = tmp_path / "types.csv"
    listed.write_text("name,family\nSeizure,Crime\nFlood,\nVote,\n")
    found = found_of(tmp_path, monkeypatch, FIRST, FIRST_VECTORS, type_list=listed)
    rows = found.written("types").to_pylist()
    families = [family.name for family in read_type_list(FAMILIES)]
    assert [(row["name"], row["family"], row["size"]) for row in rows] == [
        ("Seizure", "Crime", 30),
        ("Flood", families[1], 20),
        ("Vote", families[2], 0),
    ]
    assert [row["weak"] for row in rows] == ["", "", "fewer than 3 mentions"]
    assert typed_of(found) == {number: int(number >= 30) for number in range(50)}


def test_curation_of_types(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    curation = tmp_path / "curation.yaml"
    curation.write_text(
        'types:\n- {rename: "arrest, catch", to: Arrests}\n- {split: Arrests, words: [catch], to: Catches}\n'
    )
    found = found_of(tmp_path, monkeypatch, FIRST, FIRST_VECTORS, curation=curation)
    rows = found.written("types").to_pylist()
    assert [(row["type_id"], row["name"], row["size"]) for row in rows] == [
        (0, "Arrests", 20),
        (1, "flood", 20),
        (1000, "Catches", 10),
    ]
    assert rows[2]["family"] == rows[0]["family"]
    assert {typed_of(found)[place] for place in range(20, 30)} == {1000}
    curation.write_text("types:\n- {drop: flood}\n")
    dropped = found_of(tmp_path, monkeypatch, FIRST, FIRST_VECTORS, known=80, curation=curation)
    assert dropped.written("types")["name"].to_pylist() == ["arrest, catch"], (
        "the names are those before edits"
    )
    assert set(typed_of(dropped)) == set(range(30))


def test_events_far_from_all_types_have_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    verbs, vectors = FIRST, FIRST_VECTORS.copy()
    found = found_of(tmp_path, monkeypatch, verbs, vectors)
    rows = found.written("types").to_pylist()
    families = [family.name for family in read_type_list(FAMILIES)]
    assert [(row["name"], row["family"], row["size"], row["weak"]) for row in rows] == [
        ("arrest, catch", families[0], 30, ""),
        ("flood", families[1], 20, ""),
    ]
    assert typed_of(found) == {number: int(number >= 30) for number in range(50)}
    assert "Events that fit no type: 30 of 80." in found.notes
    # Above the level of unrelated events, but far from its type as a whole.
    vectors[49] = 0.6 * np.eye(WIDTH)[1] + 0.8 * np.eye(WIDTH)[7]
    assert 49 not in typed_of(found_of(tmp_path, monkeypatch, verbs, vectors))


def test_a_name_has_verbs_that_many_of_the_events_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    verbs = ["arrest"] * 27 + ["jail"] * 2 + ["seize"] + [f"verb {n}" for n in range(30)] + ["flood"] * 10
    found = found_of(
        tmp_path,
        monkeypatch,
        verbs,
        np.concatenate([around(0, 30, 0.5), around(1, 30, 0.5), around(2, 10, 0.5)]),
    )
    names = {row["name"]: row["weak"] for row in found.written("types").to_pylist()}
    # "jail" is less than a tenth of its type, and the second type has no verb that two events share.
    assert names == {
        "arrest": "",
        "verb 0": "1 of 30 events have a verb of its name",
        "flood": "",
    }
    assert "1 of 3 types are weak; the column weak says why." in found.notes


def test_types_of_the_samples(tmp_path: Path) -> None:
    tables = {name: pq.read_table(SAMPLE_EVENTS / name) for name in ("events.parquet", "documents.parquet")}
    events = tables["events.parquet"]
    found = RunStep(types.TYPES, tmp_path, tables, load_encoder(None, device="cpu"))
    rows = found.written("types").to_pylist()
    assert 10 <= len(rows) <= 40
    verb_of = dict(zip(events["event_id"].to_pylist(), events["lemma"].to_pylist(), strict=True))
    names = {row["type_id"]: row["name"] for row in rows}
    verbs: dict[str, set[str]] = {}
    for row in found.written("event_types").to_pylist():
        verbs.setdefault(verb_of[row["event_id"]], set()).add(names[row["type_id"]])
    # Their types were once "hire, build, drivers" and "promise, announce, rocket".
    for verb in ("flood", "declare"):
        assert all(verb in name.split(", ") for name in verbs.get(verb, ()))
    assert verbs["win"] == verbs["defeat"]
    assert [set(name.split(", ")) for name in verbs["win"]] == [{"win", "defeat"}]
    named = sum(
        verb_of[row["event_id"]] in names[row["type_id"]].split(", ")
        for row in found.written("event_types").to_pylist()
    )
    assert named >= 0.9 * found.written("event_types").num_rows


@pytest.mark.parametrize(
    ("sentence", "lemma", "single"),
    [
        ("The House [passed] two articles.", "pass", True),
        ("He was [airlifted] to Berlin.", "airlift", True),
        ("He has been [airlifted].", "airlift", True),
        ("They are now [used] as evidence.", "use", False),
        ("Winners are [chosen] by lot.", "choose", False),
        ("Votes are now widely [counted].", "count", False),
        ("What is new has [begun].", "begin", True),
        ("The party [hosts] a debate.", "host", False),
        ("The army [carries] guns.", "carry", False),
        ("She [teaches] physics.", "teach", False),
        ("Users [download] videos.", "download", False),
        ("They wanted to [hit] it.", "hit", False),
        ("The car [hit] her.", "hit", True),
        ("After being ill, he was [resting].", "rest", True),
        ("The event is for [promoting] equality.", "promote", False),
        ("The bank owned shares, [gaining] rights.", "gain", True),
        ("He [suffered] from a cold.", "suffer", False),
    ],
)
def test_verbs(sentence: str, lemma: str, single: bool) -> None:
    before, _, rest = sentence.partition("[")
    assert is_single(rest.partition("]")[0], lemma, "verb", before) == single


@pytest.mark.parametrize(
    ("sentence", "lemma", "single"),
    [
        ("They saw the [attack].", "attack", True),
        ("It is known for [elections].", "election", False),
        ("Before the [elections], he left.", "election", True),
        ("In these [elections], he won.", "election", True),
        ("In those [elections], he won.", "election", True),
        ("For a candidate to win the party's [nomination], votes count.", "nomination", False),
        ("To win, he had to survive his own party's first [vote].", "vote", False),
        ("He returned to the [trial].", "trial", True),
    ],
)
def test_nouns(sentence: str, lemma: str, single: bool) -> None:
    before, _, rest = sentence.partition("[")
    assert is_single(rest.partition("]")[0], lemma, "noun", before) == single


def test_plurals_and_adjectives() -> None:
    assert [is_plural(*one) for one in (("RIOTS", "riot", "noun"), ("crisis", "crisis", "noun"))] == [
        True,
        False,
    ]
    assert not is_plural("wins", "win", "verb")
    assert not is_single("ill", "ill", "adjective", "He is ")


def test_numbers() -> None:
    text = "In second with 24.4% of 1,991 votes, one of two."
    assert numbers_of(text) == {"second", "24.4", "1,991", "two"}
