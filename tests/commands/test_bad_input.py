"""One line for each mistake."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import logging
import shlex
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from event_files import write_edges, write_events
from safetensors import SafetensorError
from transformers import BertTokenizerFast

import eventformers
from eventformers import cli
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.models.modeling_swcc import SwccForPreTraining
from eventformers.terminal import describe_fault

MISTAKES = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text(encoding="utf-8"))
LONG_NAME = {
    "line": "train swcc -o out --recipe mine.yaml",
    "files": {"mine.yaml": f"extends: {'a' * 5_000}"},
    "told": "unknown recipe of swcc",
}


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str]]:
    """Exit code, and the lines on standard error without progress bars."""
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    lines = capsys.readouterr().err.replace("\r", "\n").splitlines()
    code = stop.value.code
    assert isinstance(code, int)
    # Bars appear at once where tqdm was imported before the command set their delay.
    return code, [line for line in lines if line.strip() and "examples/s" not in line and "it/s" not in line]


def _assert_refused(outcome: tuple[int, list[str]], text: str) -> None:
    code, lines = outcome
    assert code == 2
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    assert text in lines[0]


@pytest.mark.parametrize(
    "mistake", [*MISTAKES, LONG_NAME], ids=lambda one: f"{one['line']}: {one['told']}"[-60:]
)
def test_a_mistake_is_told_in_one_line_and_changes_nothing(
    mistake: dict[str, Any], capsys, tmp_path: Path, tiny_encoder: Path
) -> None:
    write_events(tmp_path / "events", [("storm", "en", "storm", "")])
    (tmp_path / "empty").mkdir()
    files = {
        "events.txt": "police arrested thief\n",
        "marked.txt": "the [[storm]] hit\n",
        **mistake.get("files", {}),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        # A letter beyond ASCII stands for its byte.
        (tmp_path / name).write_bytes(content.encode("latin-1"))

    def contents() -> dict[Path, bytes | None]:
        return {path: path.read_bytes() if path.is_file() else None for path in tmp_path.rglob("*")}

    before = contents()
    line = [word.replace("{encoder}", str(tiny_encoder)) for word in shlex.split(mistake["line"])]
    _assert_refused(_run(capsys, *line), mistake["told"])
    assert contents() == before


def test_a_broken_model_file_is_told(capsys, tmp_path: Path, tiny_encoder: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for path in tiny_encoder.iterdir():
        (model / path.name).write_bytes(path.read_bytes())
    (model / "model.safetensors").write_bytes(b"broken")
    (tmp_path / "events.txt").write_text("police arrest thief\n")
    _assert_refused(_run(capsys, "embed", model, "events.txt", "-o", "out.parquet"), "cannot load")
    assert not (tmp_path / "out.parquet").exists()


def test_brackets_in_names_are_no_markup(capsys, tmp_path: Path, tiny_encoder: Path) -> None:
    lines = ('{"mention": "storm", "language": "en"}\n', '{"mention": "storm", "language": "x_[/y]"}\n')
    (tmp_path / "mine.jsonl").write_text("".join(lines))
    write_events(tmp_path / "events", [("storm", "en", "a [/b] [red]storm", "")])
    arguments = ("mine.jsonl", "--knowledge-base", "events", "--model", tiny_encoder, "-o", "out[/z]")
    with pytest.raises(SystemExit) as stop:
        cli.main(["ground", *map(str, arguments), "--device", "cpu"])
    assert stop.value.code in (0, None)
    told = " ".join(capsys.readouterr().out.split())
    assert "a [/b] [red]storm" in told
    assert "mentions in languages without events: 1 x_[/y]" in told
    assert "Wrote out[/z]/mentions.jsonl" in told


def test_a_text_is_grounded(capsys, tmp_path: Path, tiny_encoder: Path) -> None:
    (tmp_path / "mine.txt").write_text("the [[storm]] hit the [[city]]\n")
    write_edges(
        write_events(tmp_path / "events", [("storm", "en", "storm", ""), ("year", "en", "year", "")]),
        [("storm", "year"), ("year", "storm"), ("year", "none")],
    )
    arguments = ("mine.txt", "--knowledge-base", "events", "--model", tiny_encoder, "-o", "out")
    with pytest.raises(SystemExit) as stop:
        cli.main(["ground", *map(str, arguments), "--device", "cpu"])
    assert stop.value.code in (0, None)
    told = " ".join(capsys.readouterr().out.split())
    assert "2 mentions" in told
    assert "encoder has no learned threshold: a link needs a score of" in told
    assert "1 hierarchy edge that closes a cycle" in told
    assert "1 hierarchy edge to no event" in told
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "mentions.jsonl",
        "parents.jsonl",
        "grounding.json",
        "report.html",
    }
    _assert_refused(
        _run(capsys, "ground", *arguments), "out holds mentions.jsonl of a grounding; --overwrite"
    )


@pytest.mark.parametrize("is_extracted", [True, False])
def test_the_mentions_of_raw_texts_have_the_language_of_their_pipeline(
    is_extracted: bool, tmp_path: Path, tiny_encoder: Path, english_pipeline: str
) -> None:
    (tmp_path / "mine.txt").write_text("Soldiers attacked the harbour.\n")
    write_events(tmp_path / "events", [("storm", "en", "storm", ""), ("storm", "fr", "tempête", "")])
    texts = ["mine.txt", "--pipeline", english_pipeline]
    if is_extracted:
        texts = [str(eventformers.extract("mine.txt", tmp_path / "mine", pipeline=english_pipeline).folder)]
    arguments = [*texts, "--knowledge-base", "events"]
    with pytest.raises(SystemExit) as stop:
        cli.main(["ground", *arguments, "--model", str(tiny_encoder), "-o", "out", "--device", "cpu"])
    assert stop.value.code in (0, None)
    counts = json.loads((tmp_path / "out" / "grounding.json").read_text())["counts"]
    assert "mentions_without_language" not in counts
    [line] = (tmp_path / "out" / "mentions.jsonl").read_text().splitlines()
    assert json.loads(line)["language"] == "en"


@pytest.mark.parametrize(("threshold", "is_linked"), [("-1", True), ("2", False)])
def test_no_table_without_links(
    threshold: str, is_linked: bool, capsys, tmp_path: Path, tiny_encoder: Path
) -> None:
    (tmp_path / "mine.txt").write_text("the [[storm]] hit\n")
    write_events(tmp_path / "events", [("storm", "en", "storm", "")])
    arguments = ("mine.txt", "--knowledge-base", "events", "--model", tiny_encoder, "-o", "out")
    with pytest.raises(SystemExit) as stop:
        cli.main(["ground", *map(str, arguments), "--threshold", threshold, "--device", "cpu"])
    assert stop.value.code in (0, None)
    assert ("with its parts" in capsys.readouterr().out) == is_linked


def test_ctrl_c_is_one_line_and_130(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("eventformers.datasets_scripts.list_datasets", interrupt)
    code, lines = _run(capsys, "data", "list")
    assert code == 130
    assert len(lines) == 1
    assert lines[0].startswith("interrupted")


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("eventformers.datasets_scripts.list_datasets", fail)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        cli.main(["data", "list"])


def test_only_our_warnings_are_shown_each_in_one_line(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn() -> list[object]:
        logging.getLogger("eventformers.somewhere").warning("%d texts were cut", 3)
        for module in ("eventformers.somewhere", "library"):
            warnings.warn_explicit(f"from {module}\nhere", UserWarning, "file.py", 1, module=module)
        warnings.warn_explicit("old", DeprecationWarning, "file.py", 1, module="eventformers.somewhere")
        return []

    monkeypatch.setattr("eventformers.datasets_scripts.list_datasets", warn)
    code, lines = _run(capsys, "data", "list")
    assert code == 0
    assert lines == ["warning: 3 texts were cut", "warning: from eventformers.somewhere here"]


def test_warnings_go_to_the_standard_error_of_the_moment(capsys) -> None:
    first, second = io.StringIO(), io.StringIO()
    for stream in (first, second):
        with contextlib.redirect_stderr(stream), pytest.raises(SystemExit):
            cli.main(["--version"])
        with contextlib.redirect_stderr(stream):
            logging.getLogger("eventformers.somewhere").warning("3 texts were cut")
    assert first.getvalue() == second.getvalue() == "warning: 3 texts were cut\n"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "out/a"), "out/a: no space left"),
        (SafetensorError("I/O error: No space left on device (os error 28)"), "no space left"),
        (PermissionError(errno.EACCES, "Permission denied", "out/a"), "out/a: permission denied"),
    ],
)
def test_faults_of_the_system_are_one_line(error: Exception, text: str) -> None:
    told = describe_fault(error)
    assert told is not None
    assert told.startswith(text)


def test_a_very_long_argument_is_truncated(capsys: pytest.CaptureFixture[str]) -> None:
    for line in (["evaluate", "x" * 50_000, "--task", "x" * 50_000], ["evaluate", "a", "b", "x" * 50_000]):
        with pytest.raises(SystemExit) as stop:
            cli.main(line)
        told = capsys.readouterr().err
        assert stop.value.code == 2
        assert told.startswith("error: ")
        assert len(told) < 3_000


def test_a_full_disk_within_another_error_is_found() -> None:
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise RuntimeError("the writer failed") from error
    except RuntimeError as error:
        told = describe_fault(error)
    assert told is not None
    assert told.startswith("no space left")


@pytest.mark.parametrize("whole_checkpoint", [False, True])
def test_a_full_disk_in_training_leaves_nothing_half_written(
    whole_checkpoint: bool, capsys, tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_the_disk(*arguments: object, output: Path, **settings: object) -> None:
        (output / "run.json").write_text("{}")
        for step, whole in ((1, whole_checkpoint), (2, False)):
            checkpoint = output / f"checkpoint-{step}"
            checkpoint.mkdir()
            (checkpoint / "trainer_state.json").write_text("{}" if whole else "{")
        raise RuntimeError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("eventformers.training.train_head", fill_the_disk)
    outcome = _run(capsys, "train", "swcc", "-o", "out", "--recipe", "demo", "--encoder", tiny_encoder)
    code, lines = outcome
    errors = [line for line in lines if line.startswith("error: ")]
    told = [line for line in lines if "removed the incomplete checkpoint" in line]
    assert code == 2
    assert len(errors) == 1
    assert "out: no space left on device" in errors[0]
    assert len(told) == len(lines) - 1
    assert ("--resume" in errors[0]) == whole_checkpoint
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_dir()}
    assert left == ({"out", "out/checkpoint-1"} if whole_checkpoint else set())


SMALL = "--set max_steps=1 --device cpu"
TRAIN = "--recipe demo --data data -o out --encoder encoder --set max_steps=1 --device cpu"
COMMANDS: dict[str, str] = {
    "data build event_chains --data-dir data -o out": "chains/stories.jsonl",
    f"train swcc {TRAIN}": "chains/events.jsonl",
    f"train heterevent {TRAIN}": "chains/stories.jsonl",
    f"train mico {TRAIN}": "commonsense/CN-82K-Ind/valid.txt",
    f"train event_type_induction --set config=mentions {TRAIN}": "event_types/mentions.jsonl",
    f"train event_grounding {TRAIN}": "event_hierarchies/wikipedia.train.jsonl",
    f"train swcc --recipe demo -o out --encoder encoder {SMALL} --evaluation-data data": (
        "similarity/hard.txt"
    ),
    "evaluate encoder --task transitive_similarity --data data": "similarity/transitive.txt",
    "complete encoder dog,IsA --data data --index out --config conceptnet_inductive": (
        "commonsense/CN-82K-Ind/valid.txt"
    ),
    "induce data/mentions.jsonl --model encoder -o out": "event_types/mentions.jsonl",
    "ground data/wikinews-zero-shot.test.jsonl --knowledge-base data --model encoder -o out": (
        "event_hierarchies/label_dict.jsonl"
    ),
    "next-event encoder police|find|thief --corpus data": "chains/stories.jsonl",
    "plot model --data data -o out.png": "chains/events.jsonl",
    f"reproduce swcc table2 {TRAIN}": "chains/events.jsonl",
}
"""The file of the samples that is damaged, by the command line that reads them."""


@pytest.fixture(scope="module")
def saved(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    SwccForPreTraining.from_encoder(str(tiny_encoder), num_prototypes=3).save_pretrained(folder)
    BertTokenizerFast.from_pretrained(tiny_encoder).save_pretrained(folder)
    return folder


@pytest.fixture
def model(saved: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    """A tiny encoder and a tiny model in the working directory."""
    (tmp_path / "encoder").symlink_to(tiny_encoder)
    (tmp_path / "model").symlink_to(saved)


@pytest.mark.parametrize("content", ["malformed", "empty"])
@pytest.mark.parametrize("command", COMMANDS)
def test_one_line_names_file_and_line(
    command: str,
    content: str,
    model: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    folder, _, name = COMMANDS[command].partition("/")
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    shutil.copytree(SAMPLES / folder, data)
    lines = (data / name).read_text(encoding="utf-8").splitlines(keepends=True)
    (data / name).write_text(
        "".join([lines[0], "neither JSON nor fields\n"]) if content == "malformed" else ""
    )
    with pytest.raises(SystemExit) as stop:
        cli.main(command.split())
    assert stop.value.code == 2
    told = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert len(told) == 1, told
    place = (
        f"{Path(name).name}, line 2: found"
        if content == "malformed"
        else f"{Path(name).name}: found an empty"
    )
    assert place in told[0]
    assert not list(tmp_path.glob("out/*.json")), list(tmp_path.glob("out/*"))
