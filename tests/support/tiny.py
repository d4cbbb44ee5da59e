"""Tiny random encoders, made in memory: fast, offline, and the same on every machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import BertConfig, BertModel, BertTokenizerFast

_WORDS = """
the a he she they it man woman police company storm bank doctor patient judge court jury team player goal
investor market price worker strike union fire house car road bridge river flood city mayor voter election
said arrested bought sold destroyed treated sentenced scored rose fell built closed opened won lost flooded
hit saved rescued fired hired announced elected burned repaired crossed visited thief suspect officer firm
"""
WORDS = _WORDS.split()


@torch.no_grad()
def sharpen_attention(model: nn.Module) -> None:
    """Enlarge the matrices of a random encoder's attention, so that tokens differ in what they attend to."""
    for name, value in model.named_parameters():
        if ".attention." in name and name.endswith(".weight") and value.dim() == 2:
            value.mul_(15)


def save_tiny_swcc(encoder: Path, folder: Path) -> Path:
    """Write a SWCC model whose weights are no longer those of its start encoder, with a record of its run."""
    from eventformers import SwccModel

    model = SwccModel.from_encoder(encoder, pooling="cls", event_order="predicate_first")
    for parameter in model.parameters():
        parameter.data.mul_(1.5)
    model.save_pretrained(folder)
    BertTokenizerFast.from_pretrained(encoder).save_pretrained(folder)
    (folder / "run.json").write_text(json.dumps({"encoder": str(encoder), "recipe": {"seed": 13}}))
    return folder


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
    from eventformers.models.processing_event_grounding import TAGS
    from eventformers.trainers.method import add_marker_tokens

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


def save_tiny_qwen3(folder: Path, *, padding_side: str = "left", dtype: torch.dtype = torch.float32) -> Path:
    """Write a random two-layer Qwen3 as an embedder: texts end with a token, and padding comes first."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3Model

    end = "<|endoftext|>"
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)] + list("0123456789:")
    words = list(dict.fromkeys([end, "[UNK]", *WORDS, *letters, *(f"##{letter}" for letter in letters)]))
    vocabulary = {word: number for number, word in enumerate(words)}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(single=f"$A {end}", special_tokens=[(end, 0)])
    PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="[UNK]",  # noqa: S106
        eos_token=end,
        pad_token=end,
        padding_side=padding_side,
        model_max_length=64,
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(vocabulary) + 4,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        intermediate_size=64,
        max_position_embeddings=128,
        # Twice the usual range, so that the vectors of texts differ.
        initializer_range=0.2,
        attention_dropout=0.1,
        eos_token_id=0,
        pad_token_id=0,
    )
    Qwen3Model(config).to(dtype).save_pretrained(folder)
    return folder


def save_tiny_xlm_roberta(folder: Path, texts: Iterable[str]) -> Path:
    """Write a random two-layer XLM-RoBERTa whose word pieces of any script are learned from texts."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.train_from_iterator(
        texts,
        trainers.UnigramTrainer(vocab_size=400, special_tokens=special, unk_token="<unk>"),  # noqa: S106
    )
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = ("cls_token", "pad_token", "sep_token", "unk_token", "mask_token")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=64, **dict(zip(names, special, strict=True))
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=66,
    )
    XLMRobertaModel(config).save_pretrained(folder)
    return folder


def add_sentence_transformers_files(folder: Path, pooling: str, prompts: dict[str, str]) -> Path:
    """Write beside an encoder what sentence-transformers writes for its pooling and prompts."""
    package = "sentence_transformers.models"
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"{package}.{kind}"}
        for place, (path, kind) in enumerate(kinds.items())
    ]
    settings = {"prompts": prompts, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    pooled = {"word_embedding_dimension": 32, f"pooling_mode_{pooling}": True}
    if pooling != "mean_tokens":
        pooled["pooling_mode_mean_tokens"] = False
    (folder / "1_Pooling").mkdir()
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooled))
    return folder


def save_tiny_modernbert(folder: Path, encoder: Path) -> Path:
    """Write a random two-layer ModernBERT with the tokenizer of a tiny encoder."""
    from transformers import ModernBertConfig, ModernBertModel

    tokenizer = BertTokenizerFast.from_pretrained(encoder)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        local_attention=8,
        global_attn_every_n_layers=2,
        embedding_dropout=0.1,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
        cls_token_id=tokenizer.cls_token_id,
        sep_token_id=tokenizer.sep_token_id,
    )
    ModernBertModel(config).save_pretrained(folder)
    return folder
