"""A finished run in the form of the models that come with the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file

from eventformers.errors import EventformersError
from eventformers.loading import pretrained as loading
from eventformers.loading.encoders import resolve_encoder
from eventformers.publishing.folders import read_folder
from eventformers.release.packaging import _name, package
from eventformers.training import train

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "trained"
    settings = ["max_steps=2", "per_device_train_batch_size=8", "warmup_steps=0"]
    train("swcc", folder, recipe="demo", settings=settings, tasks=["transitive_similarity"], device="cpu")
    return folder


def test_a_run_becomes_a_model_of_the_package(run: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("eventformers.release.packaging._rank", lambda differences: 32)
    packaged = package(run, tmp_path / "models")
    monkeypatch.setattr(loading, "MODELS", tmp_path / "models")
    monkeypatch.setattr(constants, "HF_HOME", str(tmp_path / "cache"))
    [model] = loading.list_pretrained()
    assert (model.name, model.method, model.card) == ("swcc", "swcc", packaged / "README.md")
    assert model.num_bytes < 2_000_000
    [score] = [score for score in model.scores if score.task == "transitive_similarity"]
    assert score.trained == pytest.approx(score.value, abs=0.02)
    card = model.card.read_text(encoding="utf-8")
    assert "--set training.max_steps=2" in card
    assert "## Limits\n\n- It reads one event" in card
    folder = Path(loading.pretrained("swcc"))
    trained, built = load_file(run / "model.safetensors"), load_file(folder / "model.safetensors")
    start = load_file(Path(resolve_encoder()) / "model.safetensors")
    name = "encoder.layer.3.output.dense.weight"
    change = trained[f"swcc.encoder.{name}"] - start[name]
    # No matrix of rank 32 is nearer than that of the largest singular values.
    nearest = torch.linalg.svdvals(change)[32:].norm()
    assert nearest < torch.dist(built[f"encoder.{name}"], start[name] + change) < 1.05 * nearest
    # Its head over the vocabulary is larger than the encoder's change.
    assert not [name for name in built if "mlm_head" in name]
    repository = read_folder(folder)
    assert repository.needs_acceptance() is None
    assert {"README.md", "modeling_swcc.py", "adapter/adapter_config.json"} <= repository.files.keys()


def test_a_run_on_closed_rows_is_refused(run: Path, tmp_path: Path) -> None:
    for name in ("run.json", "training_data.json"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    record = json.loads((run / "training_data.json").read_text())
    record["sources"] = {"news": {"license": "research-only"}}
    (tmp_path / "training_data.json").write_text(json.dumps(record))
    with pytest.raises(EventformersError, match=r"trained on rows with research-only; accepted: .*open"):
        package(tmp_path, tmp_path / "models")


def test_a_command_names_no_folder_of_this_machine() -> None:
    assert _name("/data/geneva.jsonl.gz:/data/framenet") == "geneva.jsonl.gz:framenet"
    assert _name("/runs/retriever/stages/2-linking") == "retriever/stages/2-linking"
    assert _name("owner/rows") == "owner/rows"
    assert _name(3) == 3
