"""Speed and scores of the ways to embed on a processor, beside those of sentence-transformers.

    python benchmarks/embed_backends.py --events ../shared/data/chains/events.jsonl.gz \
        --scores ../shared/data --peer-python PEER/bin/python

All sides encode the same texts with the same weights, on one thread unless `--threads` is given, and take
turns in every round. Ours encode batches of equal length. The ratios are of processor time, which other load
on the machine changes least. `--scores` adds the scores on the hard similarity tests and on event retrieval.
`--peer-python` is an environment with `sentence-transformers[onnx,openvino]` and `datasets`, which OpenVINO's
int8 needs. Without `--events`, the events are generated.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import statistics
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import onnxruntime
import psutil
import torch
from embed_peer import BACKENDS, copy_model
from encode import sample_texts
from side_by_side import machine, make_parser, unit
from torch import nn

from eventformers.datasets_scripts.raw_files import read_lines
from eventformers.inference import encode as encoding
from eventformers.inference.encode import EventEncoder, load_encoder, opened_encoder
from eventformers.inference.encoding.onnx_runtime import ONNX_FILE, OnnxModel, load_onnx_encoder
from eventformers.inference.encoding.packed_linear import can_pack
from eventformers.inference.search.exact import ExactSearch
from eventformers.loading.encoders import resolve_encoder

Vectors = np.ndarray
Encode = Callable[[Sequence[str]], tuple[Vectors, float]]
"""A function from texts to their vectors and the seconds of processor time."""

PEER = Path(__file__).with_name("embed_peer.py")
BASE = "embed"
"""The side to compare with: `embed` as it is without options."""


class Wrapped(nn.Module):
    """A function with the call signature of a model, which is never copied."""

    def __init__(self, model: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.config, self.device = cast(Any, model).config, torch.device("cpu")
        # As a plain attribute, so that the copy for inference does not see its layers.
        object.__setattr__(self, "call", call)

    def __deepcopy__(self, memo: dict[int, Any]) -> Wrapped:
        return self

    def forward(self, **tensors: torch.Tensor) -> Any:
        """The model's output."""
        return self.call(**tensors)  # type: ignore[operator]


class Peer:
    """The backends of sentence-transformers in a process with its own environment."""

    def __init__(self, python: Path, source: Path, threads: int, texts: Sequence[str], folder: Path) -> None:
        copy_model(source, folder, texts)
        self.folder = folder
        self.process = subprocess.Popen(
            [str(python), str(PEER), str(folder), str(threads), *BACKENDS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        while self.line() != "ready":
            pass

    def line(self) -> str:
        """Read a line of the process."""
        line = cast(Any, self.process.stdout).readline()
        if not line:
            raise SystemExit(f"{PEER} ended; its error is above")
        return line.strip()

    def encode(self, backend: str, texts: Sequence[str]) -> tuple[Vectors, float]:
        """Encode with a backend."""
        with tempfile.TemporaryDirectory() as scratch:
            paths = {
                "texts": str(Path(scratch) / "texts.json"),
                "vectors": str(Path(scratch) / "vectors.npy"),
            }
            Path(paths["texts"]).write_text(json.dumps(list(texts)), encoding="utf-8")
            pipe = cast(Any, self.process.stdin)
            print(json.dumps({"backend": backend, **paths}), file=pipe, flush=True)
            seconds = float(self.line())
            return np.load(paths["vectors"]), seconds


def main() -> None:
    """Measure and print."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    texts, _ = sample_texts(arguments.events, arguments.distinct, arguments.seed)
    if arguments.processes is not None:
        compare_processes(arguments.encoder, texts, arguments.processes, arguments.rounds)
        return
    sides = our_sides(arguments.encoder)
    if arguments.peer_python is not None:
        source = Path(resolve_encoder(arguments.encoder))
        peer = Peer(arguments.peer_python, source, arguments.threads, texts, arguments.peer_folder)
        for name in BACKENDS:
            sides[f"s-t, {name}"] = lambda some, name=name: peer.encode(name, some)  # type: ignore[misc]
    if arguments.sides:
        sides = {name: encode for name, encode in sides.items() if name in {BASE, *arguments.sides}}
    print(f"{machine()}, onnxruntime {onnxruntime.__version__}, packed weights: {can_pack()}")
    print(f"{len(texts):,} distinct texts")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare(sides, texts, arguments.rounds, matrix_operations(arguments.encoder, texts))
        if arguments.scores is not None:
            print_scores(sides, arguments.scores, arguments.mentions)


def our_sides(name: str | None) -> dict[str, Encode]:
    """Return our ways to encode: those of `embed`, and those that it does not offer."""
    single = load_encoder(name, device="cpu", dtype="float32")
    half = load_encoder(name, device="cpu", dtype="bfloat16")
    onnx = load_onnx_encoder(name)

    def in_autocast(**tensors: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return single.model(**tensors)

    def with_model(encoder: EventEncoder, call: Callable[..., Any]) -> EventEncoder:
        return replace(encoder, model=cast(Any, Wrapped(encoder.model, call)))

    def compiled(encoder: EventEncoder) -> EventEncoder:
        return with_model(encoder, torch.compile(encoder.model, dynamic=True))

    encoders = {
        BASE: single,
        "embed --dtype bfloat16": half,
        "embed --onnx": onnx,
        "bfloat16, autocast": with_model(single, in_autocast),
        "float32, compiled": compiled(single),
        "bfloat16, compiled": compiled(half),
        "int8, ONNX Runtime": with_onnx_int8(onnx),
        "int8, PyTorch": with_model(single, pytorch_int8(single.model)),
    }
    sides: dict[str, Encode] = {"float32, not packed": lambda texts: unpacked(single, texts)}
    for side, encoder in encoders.items():
        sides[side] = lambda texts, encoder=encoder: timed(encoder.encode, texts)  # type: ignore[misc]
    return sides


def with_onnx_int8(onnx: EventEncoder) -> EventEncoder:
    """Return an ONNX encoder with weights and activations in int8, quantised dynamically."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # ONNX Runtime writes further files beside the graph.
    whole = shutil.copy(cast(Any, onnx.model).session._model_path, tempfile.mkdtemp(prefix="eventformers-"))
    path = Path(tempfile.mkdtemp(prefix="eventformers-")) / ONNX_FILE
    quantize_dynamic(whole, path, weight_type=QuantType.QInt8, per_channel=True)
    return replace(onnx, model=cast(Any, OnnxModel(path, onnx.model.config)))


def pytorch_int8(model: nn.Module) -> nn.Module:
    """Return a copy of a model whose linear layers quantise dynamically to int8."""
    from torch.ao.quantization import quantize_dynamic

    return quantize_dynamic(copy.deepcopy(model).eval(), {nn.Linear}, dtype=torch.qint8)


def timed(encode: Callable[[Sequence[str]], Vectors], texts: Sequence[str]) -> tuple[Vectors, float]:
    """Encode texts; return their vectors and the seconds of processor time."""
    started = time.process_time()
    return encode(texts), time.process_time() - started


def unpacked(encoder: EventEncoder, texts: Sequence[str]) -> tuple[Vectors, float]:
    """Encode without packed weights."""
    with patch.object(encoding, "PACKING_PAYS_FROM_TEXTS", len(texts) + 1):
        return timed(encoder.encode, list(texts))


def matrix_operations(name: str | None, texts: Sequence[str]) -> float:
    """Count the operations of the linear layers, which take most of the time, without padding."""
    encoder = load_encoder(name, device="cpu")
    tokens = sum(map(len, encoder.tokenizer(list(texts))["input_ids"]))
    weights = [module.weight.numel() for module in encoder.model.modules() if isinstance(module, nn.Linear)]
    return 2.0 * tokens * sum(weights)


def product_speed(dtype: torch.dtype) -> float:
    """Return the operations a second of processor time of a plain product of two matrices."""
    left, right = torch.randn(2_048, 1_024).to(dtype), torch.randn(1_024, 1_024).to(dtype)
    started = time.process_time()
    for _ in range(4):
        left @ right
    return 4 * 2.0 * left.shape[0] * right.numel() / (time.process_time() - started)


def compare(sides: Mapping[str, Encode], texts: Sequence[str], rounds: int, operations: float) -> None:
    """Time all sides in turn; print seconds, ratios, the share of the peak and the cosine of the vectors."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    peaks: dict[torch.dtype, list[float]] = {torch.float32: [], torch.bfloat16: []}
    vectors: dict[str, Vectors] = {}
    for encode in sides.values():
        encode(texts[:256])
    for _ in range(rounds):
        for dtype, speeds in peaks.items():
            speeds.append(product_speed(dtype))
        for name, encode in sides.items():
            vectors[name], taken = encode(texts)
            seconds[name].append(taken)
    for dtype, speeds in peaks.items():
        print(f"product of two matrices, {dtype}: {statistics.median(speeds) / 1e9:.0f} GFLOP a second")
    print("\n| side | texts a second | speed | share of the float32 peak | mean cosine | least |")
    print("| --- | --- | --- | --- | --- | --- |")
    peak = statistics.median(peaks[torch.float32])
    for name, taken_by in seconds.items():
        ratios = [base / own for base, own in zip(seconds[BASE], taken_by, strict=True)]
        median = statistics.median(taken_by)
        cosines = np.einsum("nd,nd->n", unit(vectors[name]), unit(vectors[BASE]))
        print(
            f"| {name} | {len(texts) / median:,.0f} | {statistics.median(ratios):.2f} | "
            f"{operations / median / peak:.0%} | {cosines.mean():.5f} | {cosines.min():.4f} |"
        )


def compare_processes(name: str | None, texts: list[str], number: int, rounds: int) -> None:
    """Compare some processes of one thread with one process of as many threads, in turn."""
    torch.set_num_threads(number)
    alone = load_encoder(name, device="cpu", dtype="float32")
    with opened_encoder(name, ["cpu"] * number, dtype="float32") as several:
        workers = [psutil.Process(), *psutil.Process().children()]
        print(f"{len(texts):,} distinct texts, {rounds} rounds; time and processor time, seconds")
        ratios = []
        for _ in range(rounds):
            taken = []
            for encoder in (alone, several):
                before = sum(sum(worker.cpu_times()[:2]) for worker in workers)
                started = time.perf_counter()
                encoder.encode(texts)
                wall = time.perf_counter() - started
                taken += [wall, sum(sum(worker.cpu_times()[:2]) for worker in workers) - before]
            ratios.append((taken[0] / taken[2], taken[1] / taken[3]))
            print("threads {:.1f} {:.1f}, processes {:.1f} {:.1f}".format(*taken), flush=True)
        for kind, column in zip(("time", "processor time"), zip(*ratios, strict=True), strict=True):
            print(f"{kind} of threads / processes: median {statistics.median(column):.2f}")


def print_scores(sides: Mapping[str, Encode], data: Path, number: int | None) -> None:
    """Print the scores of all sides on the hard similarity tests and on event retrieval."""
    similarity = [
        [" ".join(fields[start : start + 3]) for start in range(0, 12, 3)]
        for name in ("hard", "hard_extend")
        for line in (data / "similarity" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        if len(fields := [field.strip() for field in line.split("|")]) >= 12
    ]
    mentions = read_rows(data / "hierarchy" / "current_events" / "dev.jsonl.gz")
    linked = {row["label_id"] for row in mentions}
    events = read_rows(data / "hierarchy" / "current_events" / "label_dict.jsonl.gz")
    events = [row for row in events if row["label_id"] in linked]
    mentions = mentions[:number]
    places = {row["label_id"]: place for place, row in enumerate(events)}
    gold = np.array([places[row["label_id"]] for row in mentions])
    described = [f"{row['label_title']}. {row['label_desc'] or ''}".strip() for row in events]
    reports = [f"{row['context_left']}{row['mention']}{row['context_right']}" for row in mentions]
    print(
        f"\n| side | hard similarity, {len(similarity)} rows | "
        f"recall@8, {len(mentions):,} mentions, {len(events):,} events |"
    )
    print("| --- | --- | --- |")
    for name, encode in sides.items():
        four = unit(encode([text for row in similarity for text in row])[0]).reshape(len(similarity), 4, -1)
        similar, dissimilar = (np.einsum("nd,nd->n", four[:, at], four[:, at + 1]) for at in (0, 2))
        found = ExactSearch(unit(encode(described)[0])).search(unit(encode(reports)[0]), 8).positions
        recall = (found == gold[:, None]).any(axis=1).mean()
        print(f"| {name} | {100 * (similar > dissimilar).mean():.2f} | {100 * recall:.2f} |", flush=True)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines."""
    return [json.loads(line) for _, line in read_lines(path)]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__, "encoder", "seed", rounds=5, threads=1)
    parser.add_argument("--events", type=Path, help="JSON lines of documents; default: generated events")
    parser.add_argument(
        "--processes", type=int, help="only compare as many processes of one thread with as many threads"
    )
    parser.add_argument("--sides", nargs="+", help="sides to run beside embed; default: all")
    parser.add_argument("--scores", type=Path, help="folder with similarity/ and hierarchy/current_events/")
    parser.add_argument("--peer-python", type=Path, help="interpreter with sentence-transformers")
    parser.add_argument(
        "--peer-folder",
        type=Path,
        default=Path(tempfile.gettempdir()) / "eventformers-peer",
        help="folder for the exports of sentence-transformers, which are reused",
    )
    parser.add_argument("--mentions", type=int, help="mentions of event retrieval to score; default: all")
    parser.add_argument("--distinct", type=int, default=4_000, help="distinct texts to draw")
    return parser.parse_args()


if __name__ == "__main__":
    main()
