"""Adapters of other kinds than LoRA: `--peft` with a configuration of PEFT."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from command_lines import run_command_line
from peft import IA3Config, LNTuningConfig, LoraConfig, PeftConfig, PolyConfig
from training_case import adapted_model
from transformers import AutoModel

from eventformers.errors import EventformersError
from eventformers.files import remove_folder
from eventformers.methods import load_method
from eventformers.trainers.adapters import ADAPTER_FOLDER, Adapter, add_adapters, is_plain_lora, read_adapters
from eventformers.training import train

KINDS: dict[str, dict[str, Any]] = {
    "IA3": {},
    "LOKR": {"r": 2},
    "OFT": {"r": 0, "oft_block_size": 4},
    "VERA": {"r": 4, "target_modules": ["query", "value"]},
}
QUICK = (
    *("max_steps=2", "save_steps=1", "save_total_limit=3", "per_device_train_batch_size=4"),
    "learning_rate=0.05",
)


def settings_file(folder: Path, kind: str, **settings: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({"peft_type": kind, **settings}), encoding="utf-8")
    return path


def train_with(peft: Any, encoder: Path, folder: Path, *settings: str, **options: Any) -> Any:
    given = {"method": "swcc", "recipe": "demo", "seed": 1, "tasks": (), **options}
    return train(
        output=folder,
        encoder=str(encoder),
        settings=[*QUICK, *settings],
        device="cpu",
        peft=peft,
        **given,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_saves_merges_and_resumes(kind: str, tiny_encoder: Path, tmp_path: Path) -> None:
    peft = settings_file(tmp_path, kind, **KINDS[kind])
    run = train_with(peft, tiny_encoder, tmp_path / "model").run
    weights = run.model.state_dict()
    before = AutoModel.from_pretrained(tiny_encoder).state_dict()
    trained = run.model.base_model.encoder.state_dict()
    changed = {name for name, value in trained.items() if not torch.equal(before[name], value)}
    assert changed
    assert all("embeddings" not in name for name in changed)

    saved = json.loads((tmp_path / "model" / ADAPTER_FOLDER / "adapter_config.json").read_text("utf-8"))
    assert saved["peft_type"] == kind
    again = adapted_model(tmp_path / "model", tiny_encoder, str(tiny_encoder.name))
    for name, value in again.merge_and_unload().state_dict().items():
        torch.testing.assert_close(value, weights[name], rtol=1e-4, atol=1e-5, msg=name)

    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert f"`{kind}` adapters were trained instead of the whole encoder" in card
    assert f"- {kind.lower()}\n" in (tmp_path / "model" / ADAPTER_FOLDER / "README.md").read_text("utf-8")

    remove_folder(tmp_path / "model" / "checkpoint-2")
    resumed = train_with(peft, tiny_encoder, tmp_path / "model", resume=True).run
    assert resumed.resumed
    for name, value in resumed.model.state_dict().items():
        torch.testing.assert_close(value, weights[name], rtol=0, atol=0, msg=name)
    other = settings_file(tmp_path, kind, **KINDS[kind], modules_to_save=["pooler"])
    with pytest.raises(EventformersError, match="has other settings: peft"):
        train_with(other, tiny_encoder, tmp_path / "model", resume=True)


def test_a_configuration_of_low_rank_adapters_is_that_of_lora(tiny_encoder: Path, tmp_path: Path) -> None:
    runs = [
        train_with(peft, tiny_encoder, tmp_path / name, lora=lora).run.model.state_dict()
        for name, peft, lora in (
            ("lora", None, True),
            ("peft", settings_file(tmp_path, "LORA", r=8, lora_alpha=16), False),
        )
    ]
    for name, value in runs[0].items():
        assert torch.equal(runs[1][name], value), name


def test_stages_of_other_kinds_save_the_merged_model(
    tiny_encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "eventformers")
    finished = train_with(
        IA3Config(), tiny_encoder, tmp_path / "model", "start_weight_share=0", method="heterevent"
    )
    assert len(finished.run.stages) > 1
    assert not (tmp_path / "model" / ADAPTER_FOLDER).exists()
    assert "IA3 adapters of several stages have no sum" in caplog.text
    assert "`IA3` adapters" in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"peft_type": "NONE"}, "found peft_type 'NONE'; accepted, since"),
        ({"r": 8}, "found no peft_type; accepted, since"),
        ({"peft_type": "LORA", "rank": 8}, "unexpected keyword argument 'rank'"),
        ({"peft_type": "PREFIX_TUNING", "num_virtual_tokens": 2}, "found peft_type 'PREFIX_TUNING'"),
        ({"peft_type": "ADALORA", "total_step": 9}, "found peft_type 'ADALORA'"),
        ({"peft_type": "XLORA"}, "found peft_type 'XLORA'"),
        ({"peft_type": "LORA", "init_lora_weights": "pissa"}, "changes the weights of the encoder"),
        ([], "accepted: a configuration of PEFT"),
    ],
    ids=["kind", "none", "field", "prompt", "ranks", "mixture", "start", "list"],
)
def test_a_configuration_that_cannot_train(
    settings: object, message: str, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventformers.loading.encoders._default_encoder", lambda: tiny_encoder)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    outcome = run_command_line(["train", "swcc", "-o", str(tmp_path / "run"), "--peft", str(path)])
    assert outcome["code"] == 2
    assert message in outcome["errors"]
    if "accepted, since" in message:
        assert "IA3, LILY, LN_TUNING, LOHA, LOKR, LORA," in outcome["errors"]
        assert not re.search("ADALORA|PREFIX|XLORA", outcome["errors"])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (LNTuningConfig(), "no target modules for a bert encoder"),
        (LoraConfig(target_modules=["nothing"]), "No modules were targeted"),
        (LoraConfig(target_modules="("), "unterminated subpattern"),
        (LoraConfig(r="8"), "not supported between instances of 'str'"),
        (IA3Config(target_modules=["query"]), "feedforward_modules"),
        (PolyConfig(r=2), "POLY: its adapters cannot be merged"),
    ],
    ids=["unknown", "absent", "pattern", "type", "incomplete", "unmerged"],
)
def test_layers_that_cannot_be_adapted(config: PeftConfig, message: str, tiny_encoder: Path) -> None:
    head = load_method("swcc").head_class.from_encoder(str(tiny_encoder))
    with pytest.raises(EventformersError, match=message):
        add_adapters(head, "tiny", config)


def test_the_configuration_of_saved_adapters_trains(tiny_encoder: Path) -> None:
    head = load_method("swcc").head_class.from_encoder(str(tiny_encoder))
    adapted = add_adapters(head, "tiny", LoraConfig(inference_mode=True))
    assert all(value.requires_grad for name, value in adapted.named_parameters() if "lora_" in name)


def test_added_tokens_need_low_rank_adapters(tiny_encoder: Path) -> None:
    head = load_method("swcc").head_class.from_encoder(str(tiny_encoder), added_token_ids=[7])
    with pytest.raises(EventformersError, match=r"IA3 cannot train the tokens .* accepted: LORA"):
        add_adapters(head, "tiny", IA3Config())


def test_a_share_of_the_start_needs_low_rank_adapters(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"start_weight_share=0\.5 averages weights"):
        train_with(IA3Config(), tiny_encoder, tmp_path / "model", "start_weight_share=0.5")


def test_one_kind_of_adapters(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="--lora and --peft; accepted: one of them"):
        train_with(IA3Config(), tiny_encoder, tmp_path / "model", lora=True)


def test_variants_of_lora_are_not_summed() -> None:
    assert is_plain_lora(LoraConfig(r=4, target_modules="all-linear", lora_dropout=0.1))
    assert not is_plain_lora(LoraConfig(use_dora=True))
    assert not is_plain_lora(LoraConfig(init_lora_weights="pissa"))
    assert not is_plain_lora(IA3Config())


def test_all_linear_layers_and_a_folder(tiny_encoder: Path, tmp_path: Path) -> None:
    head = load_method("mico").head_class.from_encoder(str(tiny_encoder))
    adapted = add_adapters(head, "tiny", LoraConfig(target_modules="all-linear"))
    assert any("intermediate.dense.lora_A" in name for name, _ in adapted.named_parameters())
    Adapter.of(adapted).save(tmp_path / "adapter")
    assert read_adapters(tmp_path / "adapter").r == 8
