"""Sizes in a configuration far above its weights are refused, but for a position limit of a rotary model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModel, ModernBertConfig, PreTrainedConfig, Qwen3Config

from eventformers.errors import EventformersError
from eventformers.loading.model_files import read_weight_files

SIZES: dict[str, Any] = {
    **{"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1},
    **{"num_attention_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    "max_position_embeddings": 32_768,
}


def save(config: PreTrainedConfig, folder: Path) -> str:
    AutoModel.from_config(config).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    "config",
    [
        Qwen3Config(**SIZES, num_key_value_heads=1, head_dim=8),
        ModernBertConfig(**SIZES, cls_token_id=1, sep_token_id=2),
    ],
    ids=lambda config: config.model_type,
)
def test_a_rotary_model_has_any_position_limit(config: PreTrainedConfig, tmp_path: Path) -> None:
    assert read_weight_files(save(config, tmp_path)) is not None


@pytest.mark.parametrize("name", ["hidden_size", "max_position_embeddings"])
def test_sizes_far_above_the_weights_are_refused(name: str, tiny_encoder: Path, tmp_path: Path) -> None:
    for file in tiny_encoder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    content = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps({**content, name: 10**9}), encoding="utf-8")
    with pytest.raises(EventformersError, match=f"found {name} 1000000000; accepted: at most"):
        read_weight_files(str(tmp_path))
