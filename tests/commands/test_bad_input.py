"""Bad files, bad settings, a full disk and Ctrl-C, as a user of the commands meets them."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import warnings
from pathlib import Path

import pytest
from event_files import write_edges, write_events
from safetensors import SafetensorError

from eventformers import cli
from eventformers.terminal import describe_fault

RAW_FILES = {
    "empty": ("event_similarity", "hard.txt", b"", "hard.txt: found an empty file"),
    "columns": ("event_similarity", "hard.txt", b"a | b | c\n", "hard.txt, line 1: found 3 fields"),
    "score": (
        "event_similarity",
        "transitive.txt",
        b"a | b | c | d | e | f | high\n",
        "found the score",
    ),
    "bytes": (
        "event_chains",
        "e.jsonl",
        b'{"events": [["a", "b", "\xff"]]}\n',
        "line 1: found the byte",
    ),
    "no word": (
        "event_chains",
        "e.jsonl",
        b'{"events": [["", "", ""]]}\n',
        "an event without any word",
    ),
    "no JSON": ("event_chains", "e.jsonl", b"{\n", "e.jsonl, line 1: found invalid JSON"),
    "relation": ("commonsense_graphs", "train.txt", b"IsAn\tdog\tanimal\n", "IsAn"),
    "tail": (
        "commonsense_graphs",
        "train.txt",
        b"IsA\tdog\tanimal\nIsA\tdog\n",
        "train.txt, line 2: found 2",
    ),
}
SETTINGS = {
    "max_steps=abc": "max_steps: found 'abc'; accepted: a whole number",
    "learning_rate=fast": "learning_rate: found 'fast'; accepted: a number",
    "learning_rate=-1": "learning_rate: found -1; accepted: a number of 0 or more",
    "learning_rate=true": "learning_rate: found True; accepted: a number",
    "per_device_train_batch_size=0": "found 0; accepted: a whole number of 1 or more",
    "module_learning_rates=x": "found 'x'; accepted: a mapping, each value a number of 0 or more, or null",
    "save_strategy=foo": "please select one of",
    "num_prototypes=-1": "error: model: num_prototypes is -1",
    "pooling=max": "unknown setting pooling 'max'. Did you mean",
    "max_seq_length=x": "max_seq_length: found 'x'; accepted: a whole number",
    "max_seq_length=1": "max_seq_length: found 1; accepted: a whole number of 3 or more",
    "window=x": "window: found 'x'",
    "max_step=1": "Did you mean 'max_steps'? Accepted: 1",
    "=1": "accepted: key=value",
}
MICO_SETTINGS = {
    "num_alternatives=0": "num_alternatives: found 0; accepted: a whole number of 1 or more",
    "validation_rows=3": "validation_rows: received 3; accepted: an even number",
    "validation_rows=x": "validation_rows: found 'x'; accepted: a whole number of 0 or more, or null",
    "config=conceptnet": "config: found 'conceptnet'; accepted: ",
    "config=conceptnt_pairs": "Did you mean 'conceptnet_pairs'",
    "contrastive_temperature=0": "error: model: contrastive_temperature is 0",
    "contrastive_temperature=abc": "setting contrastive_temperature: found 'abc'; accepted: a number",
    "positive=easy": "unknown setting positive 'easy'. Accepted: hard, random",
    "feature_dropout=-1": "error: model: feature_dropout is -1",
    "num_alternative=1": "Did you mean 'num_alternatives'",
    "stop_at_relative_change=0.01": "stop_at_relative_change needs a validation loss",
    "templates=missing.yaml": "missing.yaml",
}
RECIPES = {
    "no YAML": (b"model: [1", "found invalid YAML"),
    "no UTF-8": (b"\xff", "found invalid YAML"),
    "unknown key": (b"modle: {}", "Did you mean 'model'"),
    "list": (b"- a", "accepted: a mapping"),
    "extends another folder": (b"extends: ../mico/demo", "unknown recipe of swcc '../mico/demo'"),
    "extends a list": (b"extends: [demo]", "unknown recipe of swcc"),
    "extends a long name": (b"extends: " + b"a" * 5_000, "unknown recipe of swcc"),
    "key twice": (b"model: {}\nmodel: {}", "found invalid YAML (a key twice"),
    "section": (b"model: 3", "section model: found 3; accepted: a mapping"),
}

GROUNDING = {
    "text": (b'{"mention": "storm"}\n{"mention": " "}\n', "mine.jsonl, line 2: found a mention without text"),
    "offsets": (b'{"text": "a storm", "start_char": 2, "end_char": 9}\n', "in a text of 7 characters"),
    "no JSON": (b"{\n", "mine.jsonl, line 1: found invalid JSON"),
    "empty": (b"", "mine.jsonl: found an empty file"),
    "language": (
        b'{"mention": "storm", "language": "fi"}\n',
        "no event is described in fi; accepted: mentions in en",
    ),
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


@pytest.mark.parametrize("case", RAW_FILES)
def test_a_bad_raw_file_is_told_with_its_line(case: str, capsys, tmp_path: Path) -> None:
    name, file, content, text = RAW_FILES[case]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / file).write_bytes(content)
    _assert_refused(_run(capsys, "data", "build", name, "--data-dir", "raw", "-o", "out"), text)
    assert {path.name for path in tmp_path.iterdir()} == {"raw"}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_bad_setting_is_told_before_the_training(setting: str, capsys, tmp_path, tiny_encoder) -> None:
    small = ("--recipe", "demo", "--set", "shared_word_weight=0", "--set", "max_steps=1", "--device", "cpu")
    outcome = _run(capsys, "train", "swcc", "-o", "out", "--encoder", tiny_encoder, *small, "--set", setting)
    _assert_refused(outcome, SETTINGS[setting])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("setting", MICO_SETTINGS)
def test_a_bad_setting_of_mico_is_told_before_the_training(
    setting: str, capsys, tmp_path, tiny_encoder
) -> None:
    small = ("--recipe", "demo", "--set", "max_steps=1", "--device", "cpu")
    outcome = _run(capsys, "train", "mico", "-o", "out", "--encoder", tiny_encoder, *small, "--set", setting)
    _assert_refused(outcome, MICO_SETTINGS[setting])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("case", RECIPES)
def test_a_bad_recipe_file_is_told(case: str, capsys, tmp_path: Path) -> None:
    content, text = RECIPES[case]
    (tmp_path / "mine.yaml").write_bytes(content)
    _assert_refused(_run(capsys, "train", "swcc", "-o", "out", "--recipe", "mine.yaml"), text)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--device", "gpu"), "device 'gpu' does not exist"),
        (("--dtype", "float"), "Did you mean 'float32'"),
        (("--data", "missing"), "no dataset at missing"),
        (("--evaluation-data", "missing"), "no dataset at missing"),
        (("--output", "file"), "file is a file; accepted: a folder"),
    ],
)
def test_bad_options_are_told_before_the_training(arguments, text, capsys, tmp_path, tiny_encoder) -> None:
    (tmp_path / "file").write_text("kept")
    base = ("train", "swcc", "-o", "out", "--recipe", "demo", "--encoder", tiny_encoder)
    _assert_refused(_run(capsys, *base, *arguments), text)
    assert (tmp_path / "file").read_text() == "kept"
    assert not (tmp_path / "out").exists()


def test_a_broken_model_file_is_told(capsys, tmp_path: Path, tiny_encoder: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for path in tiny_encoder.iterdir():
        (model / path.name).write_bytes(path.read_bytes())
    (model / "model.safetensors").write_bytes(b"broken")
    (tmp_path / "events.txt").write_text("police arrest thief\n")
    _assert_refused(_run(capsys, "embed", model, "events.txt", "-o", "out.parquet"), "cannot load")
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("case", GROUNDING)
def test_bad_mentions_are_told_with_their_line(case: str, capsys, tmp_path: Path, tiny_encoder: Path) -> None:
    content, text = GROUNDING[case]
    (tmp_path / "mine.jsonl").write_bytes(content)
    write_events(tmp_path / "events", [("storm", "en", "storm", "")])
    arguments = ("mine.jsonl", "--knowledge-base", "events", "--model", tiny_encoder, "-o", "out")
    _assert_refused(_run(capsys, "ground", *arguments), text)
    assert not (tmp_path / "out").exists()


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
