"""Tiny random encoders, made in memory: fast, offline, and the same on every machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

_WORDS = """
the a he she they it man woman police company storm bank doctor patient judge court jury team player goal
investor market price worker strike union fire house car road bridge river flood city mayor voter election
said arrested bought sold destroyed treated sentenced scored rose fell built closed opened won lost flooded
hit saved rescued fired hired announced elected burned repaired crossed visited thief suspect officer firm
"""
WORDS = _WORDS.split()


def save_tiny_heterevent(encoder: Path, folder: Path, *, seed: int = 0) -> Path:
    """Write a random HeterEvent model over a tiny encoder, with the tokenizer."""
    # Imported late: its module registers with transformers.
    from eventformers import HeterEventModel

    torch.manual_seed(seed)
    HeterEventModel.from_encoder(encoder, event_dim=16, chain_dim=24).save_pretrained(folder)
    BertTokenizerFast.from_pretrained(encoder).save_pretrained(folder)
    return folder


def save_tiny_cross_encoder(encoder: Path, folder: Path, **config_fields: object) -> Path:
    """Write a random cross-encoder of event grounding over a tiny encoder, with the tokenizer."""
    from eventformers.models.modeling_event_grounding_cross import EventGroundingForSequenceClassification

    return _save_tiny_grounding(EventGroundingForSequenceClassification, encoder, folder, config_fields)


def save_tiny_bi_encoder(encoder: Path, folder: Path, **config_fields: object) -> Path:
    """Write a random bi-encoder of event grounding with its head, whose towers differ, with the tokenizer."""
    from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining

    return _save_tiny_grounding(EventGroundingForPreTraining, encoder, folder, config_fields)


def _save_tiny_grounding(head_class: Any, encoder: Path, folder: Path, fields: dict[str, Any]) -> Path:
    from event_grounding_inputs import sharpen_attention

    from eventformers.models.grounding_tokens import TAGS
    from eventformers.trainers.marker_tokens import add_marker_tokens

    torch.manual_seed(0)
    model = head_class.from_encoder(str(encoder), **fields)
    sharpen_attention(model)
    event_tower = getattr(model.base_model, "event_tower", None)
    if event_tower is not None:
        for parameter in event_tower.parameters():
            parameter.data.mul_(1.2)
    tokenizer = BertTokenizerFast.from_pretrained(encoder)
    add_marker_tokens(tokenizer, model, TAGS)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_tiny_encoder(folder: Path, *, dropout: float = 0.1, seed: int = 0) -> Path:
    """Write a random two-layer BERT with its tokenizer; letters are word pieces, so every word has tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)] + list("0123456789")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    vocabulary += [token for token in letters if token not in vocabulary]
    vocabulary += [f"##{token}" for token in letters]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    BertTokenizerFast.from_pretrained(folder, model_max_length=32).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        pad_token_id=0,
    )
    BertModel(config).save_pretrained(folder)
    return folder
