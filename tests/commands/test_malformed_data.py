"""Malformed and empty raw files end every command that builds data with one line that names file and line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import BertTokenizerFast

from eventformers import cli
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.models.modeling_swcc import SwccForPreTraining

SETTINGS = ("--set", "max_steps=1", "--set", "max_seq_length=8", "--device", "cpu")
GROUNDING = (
    "--set",
    "mention_tokens=8",
    "--set",
    "event_tokens=8",
    "--set",
    "max_steps=1",
    "--device",
    "cpu",
)


def _train(method: str, *options: str) -> Callable[[Path], list[str]]:
    return lambda data: ["train", method, "--recipe", "demo", "--data", str(data), "-o", "out", *options]


COMMANDS: dict[str, tuple[str, str, Callable[[Path], list[str]]]] = {
    "data build": (
        "chains",
        "stories.jsonl",
        lambda data: ["data", "build", "event_chains", "--data-dir", str(data), "-o", "out"],
    ),
    "train swcc": ("chains", "events.jsonl", _train("swcc", *SETTINGS)),
    "train heterevent": ("chains", "stories.jsonl", _train("heterevent", *SETTINGS)),
    "train mico": ("commonsense", "CN-82K-Ind/valid.txt", _train("mico", *SETTINGS)),
    "train event_type_induction": (
        "event_types",
        "mentions.jsonl",
        _train("event_type_induction", "--set", "config=mentions", *SETTINGS),
    ),
    "train event_grounding": (
        "event_hierarchies",
        "wikipedia.train.jsonl",
        _train("event_grounding", *GROUNDING),
    ),
    "train, to be scored": (
        "similarity",
        "hard.txt",
        lambda data: [
            *("train", "swcc", "--recipe", "demo", "-o", "out", *SETTINGS),
            *("--evaluation-data", str(data)),
        ],
    ),
    "evaluate": (
        "similarity",
        "transitive.txt",
        lambda data: ["evaluate", "encoder", "--task", "transitive_similarity", "--data", str(data)],
    ),
    "complete": (
        "commonsense",
        "CN-82K-Ind/valid.txt",
        lambda data: [
            *("complete", "encoder", "dog, IsA", "--data", str(data), "--index", "out"),
            *("--config", "conceptnet_inductive"),
        ],
    ),
    "induce": (
        "event_types",
        "mentions.jsonl",
        lambda data: ["induce", str(data / "mentions.jsonl"), "--model", "encoder", "-o", "out"],
    ),
    "ground": (
        "event_hierarchies",
        "label_dict.jsonl",
        lambda data: [
            *("ground", str(data / "wikinews-zero-shot.test.jsonl"), "--knowledge-base", str(data)),
            *("--model", "encoder", "-o", "out"),
        ],
    ),
    "next-event": (
        "chains",
        "stories.jsonl",
        lambda data: ["next-event", "encoder", "police | find | thief", "--corpus", str(data)],
    ),
    "plot": ("chains", "events.jsonl", lambda data: ["plot", "model", "--data", str(data), "-o", "out.png"]),
    "reproduce": (
        "chains",
        "events.jsonl",
        lambda data: [
            *("reproduce", "swcc", "table2", "--recipe", "demo", "--data", str(data), "-o", "out"),
            *("--encoder", "encoder", "--set", "max_steps=1", "--device", "cpu"),
        ],
    ),
}


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
    folder, name, arguments = COMMANDS[command]
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    shutil.copytree(SAMPLES / folder, data)
    lines = (data / name).read_text(encoding="utf-8").splitlines(keepends=True)
    (data / name).write_text(
        "".join([lines[0], "neither JSON nor fields\n"]) if content == "malformed" else ""
    )
    options = ["--encoder", "encoder"] if command.startswith("train") else []
    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments(data), *options])
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
