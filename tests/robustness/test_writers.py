"""Pairs of writers of the quick commands; `python -m tests.robustness writers` tries all commands."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.robustness import writers
from tests.robustness.commands import Command, commands
from tests.robustness.kills import Trial
from tests.robustness.writers import changes_under_lock, try_pair

from eventformers import locks
from eventformers.errors import EventformersError
from eventformers.trainers import run as training_run
from eventformers.training import train


@pytest.fixture(scope="module")
def quick(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Command]:
    found = commands(tmp_path_factory.mktemp("inputs"), tiny_encoder)
    return {command.name: command for command in found}


@pytest.mark.parametrize("name", ["embed", "data build", "induce"])
def test_the_second_is_refused_and_the_first_is_whole(
    quick: dict[str, Command], name: str, tmp_path: Path
) -> None:
    trial = Trial(quick[name], tmp_path)
    changes = changes_under_lock(trial)
    assert changes
    for at in {0, changes // 2, changes - 1}:
        assert try_pair(trial, at) is None


def test_a_second_training_run_is_refused_before_it_touches_anything(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of an unfinished run goes away, neither with --overwrite nor with --resume."""
    (tmp_path / "run" / "checkpoint-5").mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text("{}")
    monkeypatch.setattr(training_run, "train_head", None)
    is_held, goes_on = threading.Event(), threading.Event()

    def hold() -> None:
        with locks.one_writer(tmp_path / "run"):
            is_held.set()
            goes_on.wait()

    first = threading.Thread(target=hold)
    first.start()
    is_held.wait()
    try:
        for options in ({}, {"overwrite": True}, {"resume": True}):
            with pytest.raises(EventformersError, match="is being written to by process"):
                train("swcc", tmp_path / "run", encoder=str(tiny_encoder), **options)
    finally:
        goes_on.set()
        first.join()
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"checkpoint-5", "run.json"}


def test_rank_1_of_the_same_run_is_no_second_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr("eventformers.training.output_folder", None)
    (tmp_path / "config.json").touch()
    with pytest.raises(EventformersError, match="already holds a model"):
        train("swcc", tmp_path)


def test_two_that_write_are_found(
    quick: dict[str, Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(quick["induce"], tmp_path)
    monkeypatch.setattr("eventformers.files.one_writer", lambda *_, **__: nullcontext())
    assert writers.try_pair(trial, 0) is not None
