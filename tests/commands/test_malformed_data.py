"""Malformed and empty raw files end every command that builds data with one line that names file and line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from transformers import BertTokenizerFast

from eventformers import cli
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.models.modeling_swcc import SwccForPreTraining

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
