"""Edits of types, actors and stories: what the file may hold, and what the edits do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eventformers.errors import DataFormatError, EventformersError
from eventformers.exploration.curation import FIRST_SPLIT, Curated, Edit, curate, read_curation


def read(folder: Path, text: str) -> dict[str, list[Edit]]:
    path = folder / "curation.yaml"
    path.write_text(text, encoding="utf-8")
    return read_curation(path)


def edits(folder: Path, *rows: str, kind: str = "types") -> list[Edit]:
    return read(folder, f"{kind}:\n" + "\n".join(f"- {row}" for row in rows))[kind]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("types: [", "line 1: found invalid YAML"),
        ("types: [{drop: a}]\ntypes: [{drop: b}]", "line 1: .*a key twice in one mapping"),
        ("[" * 3_000, "nested too deeply"),
        ("kinds: []", "'kinds' at the top; accepted: lists of edits of types, actors, stories"),
        ("- a", "at the top"),
        ("types: {rename: a}", "types: .* accepted: a list of edits"),
        ("types: [a]", "types, edit 1: .*accepted: one of rename, merge, drop, split"),
        (
            "types: [{drop: a}, {delete: a}]",
            "types, edit 2: the keys delete",
        ),
        (
            "actors: [{split: a, words: [b], to: c}]",
            "actors, edit 1: .*accepted: one of rename, merge, drop$",
        ),
        ("types: [{rename: a}]", "types, edit 1: .*accepted: rename, to together"),
        ("types: [{rename: a, to: b, words: [c]}]", "accepted: rename, to together"),
        ("types: [{rename: a, to: 3}]", "to: 3; accepted: a text"),
        ("types: [{split: a, words: b, to: c}]", "words: 'b'"),
        ("types: [{drop: ''}]", "drop: ''"),
        ('actors: [{rename: a, to: "\\ud83d\\ude00"}]', "to: half of a surrogate pair"),
        ("types: [{merge: a}]", "merge: 'a'"),
        ("types: [{merge: [a, a]}]", "accepted: two or more different ones"),
    ],
)
def test_malformed_edits_name_their_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(DataFormatError, match=told):
        read(tmp_path, text)


def test_a_file_may_be_empty_but_not_missing(tmp_path: Path) -> None:
    assert read(tmp_path, "") == {"types": [], "actors": [], "stories": []}
    assert read(tmp_path, "types:\n") == {"types": [], "actors": [], "stories": []}
    with pytest.raises(EventformersError, match=r"no\.yaml: cannot be read: No such file"):
        read_curation(tmp_path / "no.yaml")


NAMES = {"arrest": 0, "win": 1, "say": 2}
LABELS = np.array([0, 1, 1, 2, -1])
LEMMAS = ["arrest", "win", "Lose", "say", "lose"]


def applied(folder: Path, *rows: str) -> Curated:
    return curate(edits(folder, *rows), LABELS, NAMES, -1, LEMMAS)


def test_a_split_of_no_event_is_noted(tmp_path: Path) -> None:
    [note] = applied(tmp_path, "{split: win, words: [draw], to: Draws}").notes
    assert note.endswith("types, edit 1: no event of win has the words draw.")


def test_edits_follow_each_other(tmp_path: Path) -> None:
    found = applied(
        tmp_path,
        "{rename: win, to: Results}",
        "{split: Results, words: [lose], to: Defeats}",
        "{merge: [Defeats, arrest]}",
        "{drop: say}",
    )
    assert found.labels.tolist() == [FIRST_SPLIT, 1, FIRST_SPLIT, -1, -1]
    assert found.references == {"Results": 1, "Defeats": FIRST_SPLIT}
    assert found.names == {1: "Results", FIRST_SPLIT: "Defeats"}
    assert found.origins == {FIRST_SPLIT: 1}
    assert LABELS.tolist() == [0, 1, 1, 2, -1], "the input stays"


def test_a_type_may_keep_its_name(tmp_path: Path) -> None:
    assert applied(tmp_path, "{rename: win, to: win}").references == NAMES


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (["{drop: fly}"], "types, edit 1: no type 'fly'; accepted: 'arrest', 'win', 'say'"),
        (["{rename: win, to: Wins}", "{drop: win}"], "types, edit 2: no type 'win'; .*'Wins'"),
        (["{merge: [win, say]}", "{drop: say}"], "types, edit 2: no type 'say'"),
        (["{rename: win, to: say}"], "another type is called say"),
    ],
)
def test_a_type_that_does_not_exist(tmp_path: Path, rows: list[str], told: str) -> None:
    with pytest.raises(EventformersError, match=told):
        applied(tmp_path, *rows)


def test_actors_of_other_texts_are_noted(tmp_path: Path) -> None:
    rows = ["{merge: [joe_biden, biden.person, joe]}", "{rename: joe_biden, to: Joe}", "{drop: x}"]
    found = edits(tmp_path, *rows, kind="actors")
    ids: Any = np.array(["joe", "joe_biden", "blair"], dtype=object)
    curated = curate(found, ids, {one: one for one in ids}, "")
    assert curated.labels.tolist() == ["joe_biden", "joe_biden", "blair"]
    assert curated.names == {"joe_biden": "Joe"}
    assert [note.partition("curation.yaml: ")[2] for note in curated.notes] == [
        "actors, edit 1: biden.person: not in these texts.",
        "actors, edit 3: x: not in these texts.",
    ]
