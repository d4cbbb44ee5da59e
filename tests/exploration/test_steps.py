"""Steps of an exploration, and edits of its types and actors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventformers.errors import DataFormatError, EventformersError, UnknownNameError
from eventformers.evaluation.session import Session
from eventformers.exploration import STATE_FOLDER
from eventformers.exploration.curation import FIRST_SPLIT, Curated, Edit, curate, read_curation
from eventformers.exploration.sources import FoundTexts
from eventformers.exploration.steps import (
    Context,
    ExploreSettings,
    Step,
    StepRun,
    check_skipped,
    publish,
    run_steps,
)
from eventformers.files import check_own_folder


class Settings(dict[str, Any]):
    """The settings of the steps below, and the names of those that ran."""

    def __init__(self) -> None:
        super().__init__(a=1, b=1, c=1)
        self.ran: list[str] = []


def step(name: str, settings: Settings, *reads: str, may_read: tuple[str, ...] = ()) -> Step:
    def run(step_run: StepRun) -> None:
        settings.ran.append(name)
        if settings[name] == "fails":
            step_run.write(f"{name}.parquet", pa.table({"value": ["half"]}))
            raise KeyboardInterrupt
        there = [other for other in (*reads, *may_read) if step_run.has(f"{other}.parquet")]
        values = [step_run.table(f"{other}.parquet")["value"][0].as_py() for other in there]
        step_run.write(f"{name}.parquet", pa.table({"value": [f"{name}{settings[name]}({''.join(values)})"]}))
        step_run.counts[name] = 1
        step_run.note_skipped({"odd_row": 2, "none": 0})

    def own(context: Context) -> Mapping[str, Any] | None:
        return None if settings[name] is None else {"value": settings[name]}

    files = tuple(f"{other}.parquet" for other in reads)
    optional = tuple(f"{other}.parquet" for other in may_read)
    return Step(name, run, (f"{name}.parquet",), reads=files, may_read=optional, settings=own)


@pytest.fixture
def settings() -> Settings:
    return Settings()


@pytest.fixture
def explored(settings: Settings, tmp_path: Path) -> Callable[..., list[str]]:
    """Runs the steps a, b of a, and c of b and, if it is there, a; returns the names of those that ran."""
    steps = (step("a", settings), step("b", settings, "a"), step("c", settings, may_read=("a", "b")))

    def run(*skip: str) -> list[str]:
        settings.ran.clear()
        # No step looks at the context.
        run_steps(steps, cast("Context", None), tmp_path, skip)
        return list(settings.ran)

    return run


def value(folder: Path, name: str) -> str:
    return pq.read_table(folder / f"{name}.parquet")["value"][0].as_py()


def states(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_records(settings: Settings, tmp_path: Path) -> None:
    (record,) = run_steps([step("a", settings)], cast("Context", None), tmp_path)
    (again,) = run_steps([step("a", settings)], cast("Context", None), tmp_path)
    assert record == again
    assert (record.reused, again.reused) == (False, True)
    assert (record.counts, record.notes) == ({"a": 1}, ["Skipped: 2 odd rows."])


def test_a_change_reaches_what_depends_on_it(
    explored: Callable[..., list[str]], settings: Settings, tmp_path: Path
) -> None:
    explored()
    settings["b"] = 2
    assert explored() == ["b", "c"]
    settings["c"] = 2
    assert explored() == ["c"]
    settings["a"] = 2
    assert explored() == ["a", "b", "c"]
    assert value(tmp_path, "c") == "c2(a2()b2(a2()))"


def test_an_equal_table_is_no_change(
    explored: Callable[..., list[str]], settings: Settings, tmp_path: Path
) -> None:
    explored()
    (tmp_path / STATE_FOLDER / "a.json").unlink()
    assert explored() == ["a"], "the tables of a are those of before, so b and c are reused"


@pytest.mark.parametrize("damage", ["changed", "absent", "state", "state of another kind"])
def test_damaged_files_are_written_again(
    explored: Callable[..., list[str]], tmp_path: Path, damage: str
) -> None:
    explored()
    whole = (tmp_path / "b.parquet").read_bytes()
    if damage == "changed":
        (tmp_path / "b.parquet").write_bytes(whole[:-1])
    elif damage == "absent":
        (tmp_path / "b.parquet").unlink()
    else:
        (tmp_path / STATE_FOLDER / "b.json").write_text("{" if damage == "state" else "[]")
    assert explored() == ["b"]
    assert (tmp_path / "b.parquet").read_bytes() == whole


def test_an_interrupted_change_keeps_the_old_table_and_its_state(
    explored: Callable[..., list[str]], settings: Settings, tmp_path: Path
) -> None:
    explored()
    before = states(tmp_path)
    settings["b"] = "fails"
    with pytest.raises(KeyboardInterrupt):
        explored()
    assert {path: time for path, time in states(tmp_path).items() if path.is_file()} == {
        path: time for path, time in before.items() if path.is_file()
    }
    settings["b"] = 1
    assert explored() == []


def test_an_earlier_exploration_is_read_and_replaced_as_a_whole(settings: Settings, tmp_path: Path) -> None:
    steps = (step("a", settings), step("b", settings, "a"), step("c", settings, "b"), step("d", settings))
    folder, working = tmp_path / "out", tmp_path / "out" / "work"

    def run(*skip: str) -> list[str]:
        settings.ran.clear()
        run_steps(steps, cast("Context", None), working, skip, folder)
        return list(settings.ran)

    settings["d"] = 1
    run()
    publish(working, folder, steps)
    before = {path: path.stat() for path in folder.rglob("*") if path.is_file()}
    settings.update(a=2, b="fails")
    with pytest.raises(KeyboardInterrupt):
        run()
    for path, status in before.items():
        assert path.stat().st_mtime_ns == status.st_mtime_ns
    settings["b"] = 1
    assert run("d") == ["b", "c"], "a is done, and d is left out"
    assert value(folder, "c") == "c1(b1(a1()))"
    publish(working, folder, steps)
    assert value(folder, "c") == "c1(b1(a2()))"
    assert sorted(path.name for path in folder.iterdir()) == [
        STATE_FOLDER,
        "a.parquet",
        "b.parquet",
        "c.parquet",
    ]


def test_steps_that_are_left_out(
    explored: Callable[..., list[str]], settings: Settings, tmp_path: Path
) -> None:
    assert explored("b") == ["a", "c"]
    assert value(tmp_path, "c") == "c1(a1())"
    assert explored() == ["b", "c"]
    assert explored("a") == ["c"], "b cannot be run without a"
    assert value(tmp_path, "c") == "c1()"
    assert not (tmp_path / "a.parquet").exists()
    settings["c"] = None
    assert explored() == ["a", "b"]
    assert not (tmp_path / "c.parquet").exists(), "a step without input leaves no table of an earlier run"


def test_a_wrong_setting_is_reported_before_any_work(settings: Settings, tmp_path: Path) -> None:
    def wrong(context: Context) -> Mapping[str, Any]:
        raise EventformersError("no such model")

    later = Step("b", lambda run: None, ("b.parquet",), settings=wrong)
    with pytest.raises(EventformersError, match="no such model"):
        run_steps([step("a", settings), later], cast("Context", None), tmp_path)
    assert settings.ran == []


def test_partial_results_are_found_again_unless_the_input_changed(tmp_path: Path) -> None:
    made: list[list[str]] = []
    given = {"value": 1}

    def run(step_run: StepRun) -> None:
        step_run.work.mkdir(parents=True, exist_ok=True)
        made.append(sorted(path.name for path in step_run.work.iterdir()))
        (step_run.work / f"part-{len(made)}").touch()
        if len(made) < 4:
            raise KeyboardInterrupt
        step_run.write("a.parquet", pa.table({"value": ["a"]}))

    only = Step("a", run, ("a.parquet",), settings=lambda context: given)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run_steps([only], cast("Context", None), tmp_path)
    given["value"] = 2
    with pytest.raises(KeyboardInterrupt):
        run_steps([only], cast("Context", None), tmp_path)
    run_steps([only], cast("Context", None), tmp_path)
    assert made == [[], ["part-1"], [], ["part-3"]]
    assert [path.name for path in (tmp_path / STATE_FOLDER).iterdir()] == ["a.json"]


def test_folders(explored: Callable[..., list[str]], settings: Settings, tmp_path: Path) -> None:
    (tmp_path / ".hidden").touch()
    check_own_folder(tmp_path, STATE_FOLDER, "exploration")
    (tmp_path / "mine.txt").touch()
    with pytest.raises(EventformersError, match=r"has mine\.txt but no exploration; accepted: a new folder"):
        check_own_folder(tmp_path, STATE_FOLDER, "exploration")
    explored()
    check_own_folder(tmp_path, STATE_FOLDER, "exploration")
    with pytest.raises(UnknownNameError, match=r"unknown step 'aa'\. Did you mean 'a'\?"):
        check_skipped([step("a", settings)], ["aa"])


def test_each_of_several_joined_files_decides(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.csv", "b.csv")]
    for path in paths:
        path.write_text("x")
    joined = cast(ExploreSettings, SimpleNamespace(frames=os.pathsep.join(map(str, paths))))
    context = Context(cast(FoundTexts, None), joined, cast(Session, None))
    before = context.data_identity("frames")
    assert before is not None
    assert before["name"] == "a.csv, b.csv"
    paths[1].write_text("y")
    assert context.data_identity("frames") != before


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
