"""Encode with a backend of sentence-transformers, in a process of its own, for `embed_backends.py`.

It runs in the environment that has `sentence-transformers[onnx,openvino]`, whose exporters need older
versions of transformers than this package. A line of standard input names a backend, a file of texts and a
file for the vectors; a line of standard output has the seconds of processor time.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

BATCH_SIZE = 64
"""Number of texts in a batch of every backend."""

CALIBRATION_TEXTS = 64


def main(folder: Path, threads: int, names: Sequence[str]) -> None:
    """Load all backends, then answer requests until the end of standard input."""
    torch.set_num_threads(threads)
    models = {name: BACKENDS[name](folder, threads) for name in names}
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        texts = json.loads(Path(request["texts"]).read_text(encoding="utf-8"))
        started = time.process_time()
        vectors = models[request["backend"]].encode(texts, batch_size=BATCH_SIZE, show_progress_bar=False)
        seconds = time.process_time() - started
        np.save(request["vectors"], vectors.astype(np.float32))
        print(json.dumps(seconds), flush=True)


def pytorch(folder: Path, threads: int, **settings: object) -> SentenceTransformer:
    """Load with PyTorch."""
    return SentenceTransformer(str(folder), device="cpu", model_kwargs=settings)


def exported(folder: Path, backend: str, file_name: str, **settings: object) -> SentenceTransformer:
    """Load with another library; the first use exports the model to the folder."""
    is_exported = (folder / backend / file_name).is_file()
    if is_exported:
        settings["file_name"] = f"{backend}/{file_name}"
    model = SentenceTransformer(str(folder), device="cpu", backend=backend, model_kwargs=settings)
    if not is_exported:
        model.save_pretrained(str(folder))
    return model


def onnx(folder: Path, threads: int, file_name: str = "model.onnx") -> SentenceTransformer:
    """Load with ONNX Runtime."""
    from onnxruntime import SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return exported(folder, "onnx", file_name, provider="CPUExecutionProvider", session_options=options)


def onnx_int8(folder: Path, threads: int) -> SentenceTransformer:
    """Load with ONNX Runtime and dynamic quantisation for AVX-512 VNNI."""
    from sentence_transformers import export_dynamic_quantized_onnx_model

    file_name = "model_qint8_avx512_vnni.onnx"
    if not (folder / "onnx" / file_name).is_file():
        export_dynamic_quantized_onnx_model(onnx(folder, threads), "avx512_vnni", str(folder))
    return onnx(folder, threads, file_name)


def openvino(
    folder: Path, threads: int, file_name: str = "openvino_model.xml", precision: str = "f32"
) -> SentenceTransformer:
    """Load with OpenVINO; `bf16` is its own default on a processor with such instructions."""
    config = {"INFERENCE_NUM_THREADS": str(threads), "INFERENCE_PRECISION_HINT": precision}
    return exported(folder, "openvino", file_name, ov_config=config)


def openvino_int8(folder: Path, threads: int) -> SentenceTransformer:
    """Load with OpenVINO and static quantisation, calibrated on the texts in `calibration/`."""
    from optimum.intel import OVQuantizationConfig
    from sentence_transformers import export_static_quantized_openvino_model

    file_name = "openvino_model_qint8_quantized.xml"
    if not (folder / "openvino" / file_name).is_file():
        export_static_quantized_openvino_model(
            openvino(folder, threads),
            OVQuantizationConfig(num_samples=CALIBRATION_TEXTS),
            str(folder),
            dataset_name=str(folder / "calibration"),
            dataset_config_name="default",
            dataset_split="train",
            column_name="text",
        )
    return openvino(folder, threads, file_name)


BACKENDS: dict[str, Callable[[Path, int], SentenceTransformer]] = {
    "float32": pytorch,
    "bfloat16": partial(pytorch, torch_dtype="bfloat16"),
    "onnx": onnx,
    "onnx, int8": onnx_int8,
    "openvino": openvino,
    "openvino, bfloat16": partial(openvino, precision="bf16"),
    "openvino, int8": openvino_int8,
}


def copy_model(source: Path, folder: Path, texts: Sequence[str]) -> None:
    """Copy a model without its exports, and write the texts for the calibration of int8."""
    if not folder.is_dir():
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("onnx", "openvino"))
        (folder / "calibration").mkdir()
        lines = "\n".join(texts[:CALIBRATION_TEXTS])
        (folder / "calibration" / "train.txt").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
