"""Speed of the backends of `embed`: plain PyTorch, `embed`, `torch.compile`, and ONNX Runtime.

    python benchmarks/embed_backends.py --events ../shared/data/chains/events.jsonl.gz

All encode the same texts in the same batches of equal length with the same weights, on one thread unless
`--threads` is given, and take turns in every round. The ratios are of processor time, which other load on the
machine does not change. The output also has the one-time cost of an export or a compilation. Without
`--events`, the events are generated.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import onnxruntime
import torch
from encode import sample_texts
from torch import nn

from eventformers.inference import encode as encoding
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding.onnx_runtime import load_onnx_encoder
from eventformers.inference.encoding.packed_linear import can_pack

Vectors = np.ndarray


class Compiled(nn.Module):
    """A model under `torch.compile`, which is compiled once and never copied."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.config, self.device = cast(Any, model).config, torch.device("cpu")
        # As a plain attribute, so that nothing but the compiled call is seen of it.
        object.__setattr__(self, "call", torch.compile(model, dynamic=True))

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        return self

    def forward(self, **tensors: torch.Tensor) -> Any:
        """The model's output."""
        return self.call(**tensors)  # type: ignore[operator]


def main() -> None:
    """Measure and print."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    texts, _ = sample_texts(arguments.events, arguments.distinct, arguments.seed)
    eager = load_encoder(arguments.encoder, device="cpu", dtype="float32")
    started = time.process_time()
    onnx = load_onnx_encoder(arguments.encoder)
    export_seconds = time.process_time() - started
    compiled = replace(eager, model=cast(Any, Compiled(eager.model)))
    started = time.process_time()
    compiled.encode(texts[:64])
    compile_seconds = time.process_time() - started
    sides: dict[str, Callable[[], Vectors]] = {
        "PyTorch": lambda: unpacked(eager, texts),
        "embed (packed weights)": lambda: eager.encode(texts),
        "torch.compile": lambda: compiled.encode(texts),
        "ONNX Runtime": lambda: onnx.encode(texts),
    }
    print(f"{platform.machine()}, {os.cpu_count()} cores, {arguments.threads} threads")
    print(f"torch {torch.__version__}, onnxruntime {onnxruntime.__version__}, packed weights: {can_pack()}")
    print(f"{len(texts):,} distinct texts")
    print(f"processor time, once: compile {compile_seconds:.0f} s, load or export {export_seconds:.0f} s")
    compare(sides, arguments.rounds)


def unpacked(encoder: EventEncoder, texts: list[str]) -> Vectors:
    """Encode without packed weights."""
    with patch.object(encoding, "PACKING_PAYS_FROM_TEXTS", len(texts) + 1):
        return encoder.encode(texts)


def compare(sides: dict[str, Callable[[], Vectors]], rounds: int) -> None:
    """Time all sides in turn; print seconds, ratios and the largest difference of the vectors."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    vectors: dict[str, Vectors] = {}
    for _ in range(rounds):
        for name, run in sides.items():
            started = time.process_time()
            vectors[name] = run()
            seconds[name].append(time.process_time() - started)
    first = next(iter(sides))
    print(f"{'':24}{'processor time':>15}{'speed':>8}   difference of the vectors")
    for name, taken in seconds.items():
        ratios = [plain / own for plain, own in zip(seconds[first], taken, strict=True)]
        difference = np.abs(vectors[name] - vectors[first]).max()
        print(
            f"{name:24}{statistics.median(taken):13.2f} s{statistics.median(ratios):8.2f}   {difference:.1e}"
        )


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=Path, help="JSON lines of documents; default: generated events")
    parser.add_argument("--encoder", help="folder or Hub id; default: the packaged all-MiniLM-L6-v2")
    parser.add_argument("--distinct", type=int, default=4_000, help="distinct texts to draw")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
