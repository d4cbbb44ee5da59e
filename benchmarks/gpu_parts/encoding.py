"""`encode` beside sentence-transformers with the same weights."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from side_by_side import Bench, Clock, Part, Row, take_turns
from transformers import AutoModel, AutoTokenizer, BertConfig, PreTrainedConfig, Qwen3Config

from eventformers.inference.encode import load_encoder

TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
SMALL_MODELS = {"BERT-base": "BERT, tiny", "decoder of 0.6 B": "decoder, tiny"}
PEER_BATCHES = (128, 1024)
"""Batch sizes of sentence-transformers; the faster one counts."""
WORDS = (
    *("storm", "police", "court", "city", "buys", "sells", "market", "flood", "team", "wins", "strike"),
    *("plan", "law", "vote", "fire", "train", "doctor"),
)
LENGTHS = {"events": (2, 4), "paragraphs": (20, 60)}
"""Least and largest number of words of a text of each kind."""
OURS, COMPILED, PEER = "eventformers", "eventformers, compiled", "sentence-transformers"


def random_config(name: str, vocabulary: int) -> PreTrainedConfig:
    """The configuration of an encoder with random weights."""
    if name.startswith("BERT"):
        return BertConfig(vocab_size=vocabulary, **(TINY if "tiny" in name else {}))
    sizes = {
        **{"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "head_dim": 128},
        **{"num_attention_heads": 16, "num_key_value_heads": 8},
    }
    if "tiny" in name:
        sizes = {**TINY, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 512}
    return Qwen3Config(vocab_size=vocabulary, pad_token_id=0, **sizes)


def made_up_texts(number: int, seed: int, least: int, most: int) -> list[str]:
    """Distinct texts of a number of words between `least` and `most`."""
    draw = random.Random(seed)  # noqa: S311 - no secret depends on it
    return [
        " ".join([*draw.choices(WORDS, k=draw.randint(least, most)), str(place)]) for place in range(number)
    ]


def save_random(name: str, bench: Bench) -> Path:
    """A folder with random weights of a shape and the encoder's tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(bench.encoder)
    folder = bench.scratch / name.replace(" ", "-").replace(",", "")
    if not folder.exists():
        config = random_config(name, len(tokenizer))
        with bench.device:
            model = AutoModel.from_config(config)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def measure(bench: Bench, clock: Clock, *, model: str, kind: str, number: int) -> list[Row]:
    """Texts a second of both sides in each precision."""
    if bench.small:
        model, number = SMALL_MODELS.get(model, model), {"events": 200, "paragraphs": 40}[kind]
    texts = made_up_texts(number, bench.seed, *LENGTHS[kind])
    folder = bench.encoder if model == "MiniLM" else str(save_random(model, bench))
    rows: list[Row] = []
    for dtype in ("float32", "bfloat16"):
        if clock.is_over(f"{model}, {kind}, {dtype}"):
            continue
        # sentence-transformers takes the mean for a folder without a pooling, also of a decoder.
        ours = load_encoder(folder, pooling="mean", device=bench.device, dtype=dtype)
        tokens = [
            len(ids)
            for ids in ours.tokenizer(texts, truncation=True, max_length=ours.max_length)["input_ids"]
        ]
        sides: dict[str, Callable[[], object]] = {OURS: partial(ours.encode, texts)}
        if dtype == "bfloat16":
            compiled = load_encoder(folder, pooling="mean", device=bench.device, dtype=dtype)
            compiled.model.compile(dynamic=True)
            sides[COMPILED] = partial(compiled.encode, texts)
        peer = SentenceTransformer(
            folder, device=str(bench.device), model_kwargs={"dtype": getattr(torch, dtype)}
        )
        peer.max_seq_length = ours.max_length
        for size in PEER_BATCHES:
            sides[f"{PEER}, batch {size}"] = partial(
                peer.encode, texts, batch_size=size, show_progress_bar=False
            )
        taken = take_turns(sides, 2, reference=OURS, device=bench.device)
        best = min((name for name in sides if name.startswith(PEER)), key=lambda name: taken[name].seconds[0])
        own, other = (np.asarray(sides[name](), dtype=np.float64) for name in (OURS, best))
        lengths = np.linalg.norm(own, axis=1) * np.linalg.norm(other, axis=1)
        agreement = ((own * other).sum(axis=1) / lengths).min()
        for name in (OURS, COMPILED, best):
            if name in taken:
                seconds = taken[name].seconds[0]
                rows.append(
                    {
                        "model": model,
                        "texts": f"{len(texts):,} {kind}",
                        "precision": dtype,
                        "side": name,
                        "texts a second": f"{len(texts) / seconds:,.0f}",
                        "speed": f"{taken[best].seconds[0] / seconds:.2f}",
                        "share of the peak": f"{operations(ours.model, tokens) / seconds / bench.peak:.1%}",
                        "MiB": taken[name].mebibytes,
                        "least cosine": f"{agreement:.5f}" if name == OURS else "",
                    }
                )
        torch.compiler.reset()
    return rows


def operations(model: torch.nn.Module, tokens: list[int]) -> float:
    """Operations of the matrix products that texts of so many tokens need."""
    config = model.config.encoder_config
    matrices = sum(
        value.numel()
        for name, value in model.named_parameters()
        if value.dim() == 2 and "embed" not in name and "pooler" not in name
    )
    heads = config.num_attention_heads * getattr(
        config, "head_dim", config.hidden_size // config.num_attention_heads
    )
    attention = 4 * config.num_hidden_layers * heads * sum(length * length for length in tokens)
    return 2.0 * matrices * sum(tokens) + attention


PART = Part(
    title="Encoding",
    share=3.0,
    measurements={
        f"{model.partition(' of ')[0]}, {kind}": partial(measure, model=model, kind=kind, number=number)
        for model, kind, number in (
            ("MiniLM", "events", 20_000),
            ("BERT-base", "paragraphs", 3_000),
            ("decoder of 0.6 B", "paragraphs", 1_000),
            ("MiniLM", "paragraphs", 6_000),
            ("BERT-base", "events", 20_000),
        )
    },
    note=(
        "`speed` is the time of sentence-transformers, with its faster batch size, divided by the time of "
        "the row. The time includes tokenising and copying the vectors to main memory. The share of the peak "
        "compares the operations of the matrix products with a product of two large bfloat16 matrices. The "
        "weights of BERT-base and of the decoder are random."
    ),
)
