"""Dropout of encoders while they train."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoModel, BertConfig, BertModel, ModernBertConfig, ModernBertModel

from eventformers.errors import EventformersError
from eventformers.methods import load_method
from eventformers.trainers.run import TrainingRun, resolve_recipe, train_head
from eventformers.trainers.stage_heads import set_dropout

_SIZES = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
_IDS = torch.tensor([[2, 7, 9, 4, 3]])
ENCODERS = {
    "bert": lambda share: BertModel(
        BertConfig(
            **_SIZES, intermediate_size=32, hidden_dropout_prob=share, attention_probs_dropout_prob=share
        )
    ),
    "modernbert": lambda share: ModernBertModel(
        ModernBertConfig(
            **_SIZES,
            intermediate_size=32,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            cls_token_id=1,
            sep_token_id=2,
            embedding_dropout=share,
            attention_dropout=share,
            mlp_dropout=share,
        )
    ),
}


def _is_random(encoder: nn.Module) -> bool:
    encoder.train()
    first, second = (encoder(input_ids=_IDS).last_hidden_state for _ in range(2))
    return not torch.equal(first, second)


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_all_of_it(name: str, attention: str) -> None:
    """That of attention, too, with both ways to compute it."""
    torch.manual_seed(0)
    encoder = ENCODERS[name](0.3)
    encoder.set_attn_implementation(attention)
    assert _is_random(encoder)
    set_dropout([encoder], 0.0)
    assert not _is_random(encoder)
    set_dropout([encoder], 0.5)
    assert _is_random(encoder)
    as_built = ENCODERS[name](0.5)
    as_built.load_state_dict(encoder.state_dict())
    torch.manual_seed(1)
    expected = as_built.train()(input_ids=_IDS).last_hidden_state
    torch.manual_seed(1)
    torch.testing.assert_close(encoder(input_ids=_IDS).last_hidden_state, expected)


def test_what_is_refused() -> None:
    without = nn.Linear(2, 2)
    set_dropout([without], 0.0)
    with pytest.raises(EventformersError, match=r"Linear has no dropout; accepted: 0 or null"):
        set_dropout([nn.Dropout(), without], 0.1)


def _run(encoder: Path, output: Path, *settings: str, data: str | None = None) -> TrainingRun:
    quick = str(Path(__file__).with_name("quick_event_grounding.yaml"))
    recipe = resolve_recipe(load_method("event_grounding"), quick, ["max_steps=1", *settings], 3)
    return train_head(
        recipe,
        encoder=str(encoder),
        encoder_name="tiny",
        output=output,
        data=data,
        device="cpu",
    )


def test_a_share_is_refused_before_data_are_read(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"setting encoder_dropout: found 1\.5"):
        _run(tiny_encoder, tmp_path, "encoder_dropout=1.5", data=str(tmp_path / "nowhere"))


def test_a_run(tiny_encoder: Path, tmp_path: Path) -> None:
    """Both towers; the configuration keeps the encoder's own dropout."""
    model = _run(tiny_encoder, tmp_path, "encoder_dropout=0.25", "share_towers=false").model
    for encoder in model.text_encoders():
        assert {module.p for module in encoder.modules() if isinstance(module, nn.Dropout)} == {0.25}
    assert len(model.text_encoders()) == 2
    own = AutoModel.from_pretrained(tiny_encoder).config.hidden_dropout_prob
    assert model.config.encoder_config.hidden_dropout_prob == own != 0.25
