"""Commands that die, meet a full disk or another writer at a change of a name in their output.

Whatever the moment, the output is that of before, that of the command, or is refused; and the same command
run again succeeds. Of two writers the second is refused at once.
"""

from __future__ import annotations

import errno
import gc
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from itertools import chain
from pathlib import Path
from random import Random
from unittest import mock

import pytest
import typer
from tests.robustness.good_lines import COMMANDS, prepare
from tests.robustness.limits import cases

from eventformers import locks
from eventformers.cli import app
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import EventformersError
from eventformers.inference.commonsense.alternative_index import load_alternative_index
from eventformers.inference.encode import load_encoder
from eventformers.terminal import describe_fault
from eventformers.trainers import run as training_run
from eventformers.training import train

CHANGES = ("replace", "rename", "unlink", "remove", "rmdir", "mkdir", "link", "symlink")
"""What a command does to names; a kill is tried at each such call."""
OUT = Path("out")
Change = Callable[[], None]


@dataclass(frozen=True)
class Output:
    """An output of a command.

    Attributes:
        options: what the first command line has besides the good one.
        again: what the second one has besides; its output differs.
        opened_by: pattern of the file without which nothing reads the output; empty where it is one file.
        load: reads the output as the suite does.
    """

    options: str = ""
    again: str = ""
    opened_by: str = ""
    load: Callable[[Path], object] | None = None


def load_configs(folder: Path) -> list[object]:
    return [load_built(folder, config) for config in ("hard", "transitive")]


def load_model(folder: Path) -> object:
    return load_encoder(folder, device="cpu")


STEPS = "--set save_steps=1 --set max_steps=2"
QUICK = {
    "leaderboard": Output(again="more-scores"),
    "embed": Output(again="--normalize"),
    "data build": Output("", "--data-dir similarity", "README.md", load_configs),
    "induce": Output("", "--num-clusters 3 --overwrite", "types.jsonl"),
}
SLOW = {
    "complete": Output(
        f"--index out --data {SAMPLES / 'commonsense'}",
        "--split validation --overwrite",
        "index.json",
        load_alternative_index,
    ),
    "ground": Output("--threshold -9", "--threshold 9 --overwrite", "grounding.json"),
    "extract": Output("--pipeline en_core_web_sm", "--min-chain-length 1 --overwrite", "report.json"),
    "evaluate": Output("", "--pooling cls --overwrite", "results/*/*-cls/transitive_similarity.json"),
    "train": Output(STEPS, "--seed 2 --overwrite", "config.json", load_model),
    "train ": Output(f"{STEPS} --lora", "--seed 2 --overwrite", "config.json", load_model),
}
"""These are tried with more tries than usual alone."""
OUTPUTS = {**QUICK, **(SLOW if cases(0) else {})}


@cache
def all_commands() -> Callable[..., object]:
    """The parser of all commands, built once; `app` builds a new one at each call."""
    return typer.main.get_command(app)


@contextmanager
def watched(on_change: Change) -> Iterator[None]:
    """Call a function before each change of a name in the output; what it raises stops the change."""
    root = os.path.realpath(OUT)

    def watching(change: Callable[..., None]) -> Callable[..., None]:
        def watched_change(path: object, *arguments: object, **options: object) -> None:
            directory = options.get("dir_fd")
            base = os.getcwd() if directory is None else os.readlink(f"/proc/self/fd/{directory}")
            name = os.path.join(base, os.fspath(path))  # type: ignore[call-overload]
            if os.path.realpath(os.path.dirname(name)).startswith(root):
                on_change()
            change(path, *arguments, **options)

        return watched_change

    with mock.patch.multiple(os, **{name: watching(getattr(os, name)) for name in CHANGES}):
        yield


def digests() -> dict[str, str]:
    """The digest of each file of the output, without what is hidden and what a run keeps for a later one."""
    found = {}
    for path in OUT.rglob("*"):
        name = path.relative_to(OUT).as_posix()
        hidden = any(part.startswith(".") and part != ".eval_results" for part in name.split("/"))
        kept = name == "run.json" or name.startswith(("checkpoint-", "stages"))
        if path.is_file() and not hidden and not kept:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


class Killed(BaseException):
    """The end of the process."""


class Trial:
    """A command that replaces its earlier output, in the working directory.

    Attributes:
        changes: how often the second run changes a name in the output.
    """

    def __init__(self, name: str) -> None:
        self.output, self.changes = OUTPUTS[name], 0
        self.first = [*COMMANDS[name.strip()].split(), *self.output.options.split()]
        for folder in (OUT, "old"):
            shutil.rmtree(folder, ignore_errors=True)
        self.execute(self.first)
        shutil.copytree(OUT, "old", symlinks=True)
        self.old = digests()
        with watched(self._count):
            self.execute()
        self.new = digests()
        assert self.new != self.old

    def _count(self) -> None:
        self.changes += 1

    def execute(self, line: list[str] | None = None) -> None:
        """Run a command line in this process to its end, without what it prints; None runs the second."""
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            line = [*self.first, *self.output.again.split()] if line is None else line
            all_commands()(line, prog_name="eventformers", standalone_mode=False)

    def reset(self) -> None:
        """Put the output of the first command in place."""
        shutil.rmtree(OUT)
        shutil.copytree("old", OUT, symlinks=True)

    def fault_of_output(self) -> str | None:
        """What is wrong with the output as it is; None where it is whole or refused."""
        state = digests()
        if state == self.old or self.is_new():
            return None
        if not self.output.opened_by:
            return f"neither old nor new: {sorted(state)}"
        if any(OUT.glob(self.output.opened_by)):
            differing = {
                name for name in state.keys() | self.new.keys() if state.get(name) != self.new.get(name)
            }
            return f"{self.output.opened_by} beside a part of the files: {sorted(differing)}"
        if self.output.load is not None:
            with pytest.raises(EventformersError):
                self.output.load(OUT)
        return None

    def is_new(self) -> bool:
        """Whether the output is that of the second command; times and dates in it may differ."""
        state = digests()
        return state.keys() == self.new.keys() and all(
            state[name] == digest if self.old.get(name) == digest else state[name] != self.old.get(name)
            for name, digest in self.new.items()
        )

    def fault_after(self, at: int, way: str) -> str | None:
        """What is wrong after a change failed, and with the command run again; None where nothing is."""
        numbers = iter(range(self.changes + 1_000))

        def fail() -> None:
            number = next(numbers)
            # The dead clean nothing up: all changes that follow fail, too.
            if way == "kill" and number >= at:
                raise Killed
            if number == at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        self.reset()
        try:
            with watched(fail):
                self.execute()
        except Killed:
            pass
        except Exception as error:
            if describe_fault(error) is None:
                return f"{type(error).__name__}: {error}"
        # The system releases the locks of the dead; here they go with what holds them.
        gc.collect()
        if (fault := self.fault_of_output()) is not None:
            return fault
        self.execute()
        left = [path.name for path in OUT.glob(".*") if path.name != ".eval_results"]
        return None if self.is_new() and not left else f"run again: {sorted(digests())}, {left}"

    def refusals(self) -> list[str]:
        """What the same command says that starts before each change that this one makes under its lock."""
        first, told = threading.current_thread(), list[str]()

        def second() -> str:
            with pytest.raises(EventformersError) as refused:
                self.execute()
            return str(refused.value)

        def change() -> None:
            files = chain(Path().glob(f".*{locks.LOCK_SUFFIX}"), OUT.rglob(f".*{locks.LOCK_SUFFIX}"))
            # The file has its record when the lock is taken, and none while it is being taken.
            held = any(file.stat().st_size for file in files)
            if threading.current_thread() is first and held:
                with ThreadPoolExecutor() as threads:
                    told.append(threads.submit(second).result())

        self.reset()
        with watched(change):
            self.execute()
        return told


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("inputs"))


@pytest.fixture
def trial(inputs: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Trial:
    monkeypatch.chdir(inputs)
    return Trial(request.param)


@pytest.mark.process
@pytest.mark.parametrize("trial", OUTPUTS, indirect=True)
def test_an_output_is_whole_or_refused(trial: Trial) -> None:
    looks: list[str | None] = []
    trial.reset()
    with watched(lambda: looks.append(trial.fault_of_output())):
        trial.execute()
    assert looks == [None] * trial.changes
    faults = [(at, way) for at in range(trial.changes) for way in ("kill", "full disk")]
    assert len(faults) >= 4
    for at, way in Random(1).sample(faults, min(cases(6), len(faults))):  # noqa: S311, no secret
        assert trial.fault_after(at, way) is None, f"{way} at change {at}"


# A leaderboard's page is one file that is written in one moment, without a lock: the last one wins, whole.
@pytest.mark.parametrize("trial", [name for name in OUTPUTS if name != "leaderboard"], indirect=True)
def test_the_second_writer_is_refused_and_the_first_is_whole(trial: Trial) -> None:
    refusals = trial.refusals()
    assert refusals
    assert all(f"is being written to by process {os.getpid()}, which started at" in told for told in refusals)
    assert trial.is_new()


@pytest.mark.parametrize("trial", ["induce"], indirect=True)
def test_a_mixed_folder_is_found(trial: Trial) -> None:
    shutil.copy("old/report.html", OUT)
    assert trial.fault_of_output() == "types.jsonl beside a part of the files: ['report.html']"
    (OUT / "types.jsonl").unlink()
    assert trial.fault_of_output() is None


@pytest.mark.parametrize("options", [{}, {"overwrite": True}, {"resume": True}])
def test_a_second_training_run_is_refused_before_it_touches_anything(
    options: dict[str, bool], tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of an unfinished run goes away, neither with --overwrite nor with --resume."""
    (tmp_path / "run" / "checkpoint-5").mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text("{}")
    monkeypatch.setattr(training_run, "train_head", None)

    def second() -> None:
        with pytest.raises(EventformersError, match="is being written to by process"):
            train("swcc", tmp_path / "run", encoder=str(tiny_encoder), **options)

    with locks.one_writer(tmp_path / "run"), ThreadPoolExecutor() as threads:
        threads.submit(second).result()
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"checkpoint-5", "run.json"}


def test_rank_1_of_the_same_run_is_no_second_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr("eventformers.training.output_folder", None)
    (tmp_path / "config.json").touch()
    with pytest.raises(EventformersError, match="already holds a model"):
        train("swcc", tmp_path)
