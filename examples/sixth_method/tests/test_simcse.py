"""The method passes the common cases of eventformers, and every command takes it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import run_python, stand_in
from method_case import MethodCase, Variant, random_texts
from scripts import USERS, put_client_online
from server import LoopbackHub
from training_case import MethodTrainingCase
from transformers import AutoConfig, PreTrainedModel

from eventformers import hub as publishing
from eventformers.cli import main
from eventformers.publishing import verification
from eventformers.reference.tables import table
from simcse_events.configuration_simcse import SimCseConfig
from simcse_events.modeling_simcse import SimCseForPreTraining, SimCseModel

WORDS = (
    ("man", "woman", "police", "company", "doctor", "judge", "thief"),
    ("arrested", "bought", "sold", "destroyed", "treated", "sentenced"),
    ("bank", "patient", "player", "house", "bridge", "market"),
)
LOAD_WITHOUT_THE_PACKAGES = """
import sys
sys.modules["eventformers"] = sys.modules["simcse_events"] = None
from transformers import AutoModel, AutoModelForPreTraining
for auto_class in (AutoModel, AutoModelForPreTraining):
    model = auto_class.from_pretrained(sys.argv[1], trust_remote_code=True)
    assert type(model).__module__.startswith("transformers_modules"), type(model).__module__
    model.save_pretrained(sys.argv[2])
"""


def simcse_inputs(vocabulary: int) -> dict[str, torch.Tensor]:
    """Two views of different lengths."""
    input_ids, attention_mask = random_texts(6, 8, vocabulary, seed=10)
    positive_ids, positive_mask = random_texts(6, 11, vocabulary, seed=11)
    return {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "positive_input_ids": positive_ids,
        "positive_attention_mask": positive_mask,
    }


class TestSimCse(MethodCase):
    config_class = SimCseConfig
    model_class = SimCseModel
    head_class = SimCseForPreTraining
    modules_to_save = ("mlp",)
    variants = {  # noqa: RUF012
        "everything": Variant({"pooling": "mean"}, ("contrastive_loss",)),
        "paper": Variant({}, ("contrastive_loss",)),
    }
    required_inputs = {  # noqa: RUF012
        "positive_input_ids": "positive",
        "positive_attention_mask": "positive",
    }
    invalid_fields = (
        ("pooling", "max"),
        ("contrastive_temperature", 0.0),
        ("contrastive_temperature", float("nan")),
    )

    def head_inputs(self, model: PreTrainedModel) -> dict[str, torch.Tensor]:
        return simcse_inputs(60 if model.config.encoder_config.vocab_size < 100 else 100)

    def loss_weights(self, config: Any) -> dict[str, float]:
        return {"contrastive_loss": 1.0}

    def test_a_saved_model_needs_neither_package(self, head: PreTrainedModel, tmp_path: Path) -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        head.save_pretrained(first)
        arguments = ["-c", LOAD_WITHOUT_THE_PACKAGES, str(first), str(second)]
        done = run_python(arguments, cwd=tmp_path, server="libraries")
        assert done.returncode == 0, done.stderr
        files = {path.name: path.read_text(encoding="utf-8") for path in first.glob("*.py")}
        assert {"modeling_simcse.py", "modeling_base.py", "pipeline_next_event.py"} <= set(files)
        imports = [line for text in files.values() for line in text.splitlines() if " import " in line]
        assert not [line for line in imports if line.lstrip().startswith("from eventformers")]
        assert {path.name for path in second.glob("*.py")} == set(files)


class TestSimCseTraining(MethodTrainingCase):
    method = "simcse"
    recipe = str(Path(__file__).with_name("quick.yaml"))
    loss_terms = ("contrastive_loss",)
    head_fields = {"pooling": "mean"}  # noqa: RUF012
    fit_fields = head_fields
    stream_settings = None

    @classmethod
    def write_raw(cls, folder: Path) -> None:
        write_events(folder / "events.jsonl")

    def head_inputs(self, head: Any) -> dict[str, torch.Tensor]:
        return simcse_inputs(head.config.encoder_config.vocab_size)


def write_events(path: Path) -> None:
    """Write documents of four events each."""
    generator = random.Random(0)  # noqa: S311
    documents = (
        {
            "document_id": str(number),
            "source": "made up",
            "license": "Apache-2.0",
            "events": [[generator.choice(words) for words in WORDS] for _ in range(4)],
        }
        for number in range(12)
    )
    path.write_text("\n".join(map(json.dumps, documents)) + "\n", encoding="utf-8")


def command(*arguments: str) -> None:
    """Run a command to its good end."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == 0


@pytest.fixture(scope="module")
def asked(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The arguments of a short training run."""
    raw = tmp_path_factory.mktemp("raw")
    write_events(raw / "events.jsonl")
    recipe = str(Path(__file__).with_name("quick.yaml"))
    return [
        *("simcse", "--recipe", recipe, "--data", str(raw), "--evaluation-data", "samples"),
        *("--encoder", str(tiny_encoder), "--device", "cpu"),
    ]


@pytest.fixture(scope="module")
def run(asked: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with adapters."""
    folder = tmp_path_factory.mktemp("runs") / "model"
    command("train", *asked, "--lora", "-o", str(folder))
    return folder


def test_train(run: Path) -> None:
    card = (run / "README.md").read_text(encoding="utf-8")
    assert "SimCSE: Simple Contrastive Learning of Sentence Embeddings" in card
    assert (run / "modules.json").is_file()
    assert type(AutoConfig.from_pretrained(run)) is SimCseConfig
    assert (run / "adapter" / "adapter_model.safetensors").is_file()


def test_resume(run: Path, asked: list[str]) -> None:
    before = (run / "model.safetensors").read_bytes()
    command("train", *asked, "--lora", "-o", str(run), "--resume")
    assert (run / "model.safetensors").read_bytes() == before


def test_evaluate_and_leaderboard(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("evaluate", str(run), "--task", "hard_similarity", "-o", str(tmp_path))
    capsys.readouterr()
    command("leaderboard", str(tmp_path))
    assert "model" in capsys.readouterr().out


def test_demo(tiny_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("demo", "simcse", "--encoder", str(tiny_encoder), "--device", "cpu", "-o", str(tmp_path))
    assert "nearest event" in capsys.readouterr().out
    assert (tmp_path / "simcse" / "README.md").is_file()


def test_push(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_client_online(monkeypatch)
    monkeypatch.setattr(verification, "subprocess", stand_in("libraries"))
    with LoopbackHub(USERS) as server:
        token = server.token_of("alice")
        pushed = publishing.push(run, "storms/simcse", endpoint=server.endpoint, token=token)
        assert pushed.repositories[0].commit
    assert not server.errors


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("methods", "| `simcse` |"),
        ("loads", "model `simcse`"),
        ("recipes simcse", "| `demo` |"),
        ("all settings", "### Model of `simcse`"),
        ("lora simcse", '"mlp"'),
    ],
)
def test_generated_tables(name: str, told: str) -> None:
    assert told in table(name, Path())
