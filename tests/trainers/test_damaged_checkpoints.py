"""A checkpoint with a damaged or missing file ends a resume with one line that names the file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from short_runs import short_run

from eventformers.errors import EventformersError
from eventformers.trainers.stages import RUN_FILE

SETTINGS = (
    "max_steps=3",
    "save_steps=1",
    "save_total_limit=null",
    "per_device_train_batch_size=4",
    "shared_word_weight=0",
)


def _run(output: Path, encoder: Path, *, resume: bool = False) -> int:
    return short_run("swcc", encoder, output, *SETTINGS, resume=resume).steps


@pytest.fixture(scope="module")
def trained(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("damaged") / "run"
    output.mkdir()
    _run(output, tiny_encoder)
    shutil.rmtree(output / "checkpoint-3")
    return output


def _halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _other(path: Path) -> None:
    torch.save({"something": 1}, path)


DAMAGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "half an optimizer": ("optimizer.pt", _halve),
    "empty optimizer": ("optimizer.pt", _empty),
    "no optimizer": ("optimizer.pt", Path.unlink),
    "another optimizer": ("optimizer.pt", _other),
    "half a scheduler": ("scheduler.pt", _halve),
    "another scheduler": ("scheduler.pt", lambda path: torch.save([1], path)),
    "no scheduler": ("scheduler.pt", Path.unlink),
    "half a random state": ("rng_state.pth", _halve),
    "another random state": ("rng_state.pth", _other),
    "no random state": ("rng_state*.pth", lambda path: path.with_name("rng_state.pth").unlink()),
    "half the weights": ("model.safetensors", _halve),
    "no weights": ("*.safetensors", lambda path: path.with_name("model.safetensors").unlink()),
    "null as state": ("trainer_state.json", lambda path: path.write_text("null")),
    "a step that is text": ("trainer_state.json", lambda path: path.write_text('{"global_step": "2"}')),
    "an unknown key": ("trainer_state.json", lambda path: path.write_text('{"global_stepp": 2}')),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_checkpoint(case: str, trained: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    name, damage = DAMAGES[case]
    output = tmp_path / "run"
    shutil.copytree(trained, output)
    damage(output / "checkpoint-2" / name)
    with pytest.raises(EventformersError) as refused:
        _run(output, tiny_encoder, resume=True)
    message = str(refused.value)
    assert name in message
    assert f"remove {output / 'checkpoint-2'} to resume from the previous checkpoint" in message


def test_without_the_damaged_checkpoint_a_run_goes_on(
    trained: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    """As the message says."""
    output = tmp_path / "run"
    shutil.copytree(trained, output)
    shutil.rmtree(output / "checkpoint-2")
    assert _run(output, tiny_encoder, resume=True) == 3


@pytest.mark.parametrize("content", ["null", "{", "{}", '{"recipe": null}', '{"recipe": {"seed": 7}}'])
def test_a_damaged_record(content: str, trained: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    shutil.copytree(trained, output)
    (output / RUN_FILE).write_text(content)
    with pytest.raises(EventformersError, match=r"run\.json is damaged .* run again with --overwrite"):
        _run(output, tiny_encoder, resume=True)
