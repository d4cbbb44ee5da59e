"""Build reports of several inputs of a run, joined; and arrays that take long to compute, cached.

Such an array holds the vectors that a pretrained encoder gives to events, for a head to start from.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import datasets
import numpy as np
import numpy.typing as npt
import torch
from accelerate import PartialState
from safetensors.numpy import save_file
from safetensors.torch import load_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from eventformers.datasets_scripts.base import BuildReport
from eventformers.datasets_scripts.fingerprints import joint_fingerprint
from eventformers.datasets_scripts.malformed import LISTED_PARTS
from eventformers.files import file_digest, replaced_file
from eventformers.models.modeling_base import EventEncoderModel
from eventformers.models.processing_events import EventProcessor
from eventformers.models.text_prompts import prompt_of, prompt_tokens
from eventformers.trainers.method import check_text_length

_COUNTS = ("read", "skipped")
"""Counts of a build report that are summed over configs."""


def joint_report(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the build reports of configs that are all training rows: sums of counts, and all sources.

    Returns:
        The only report if there is one; empty if a dataset has no report.
    """
    if len(reports) == 1 or not all(reports):
        return dict(reports[0]) if all(reports) else {}
    splits: dict[str, Counter[str]] = {}
    joined = BuildReport()
    for report in reports:
        for name, counts in report["splits"].items():
            splits.setdefault(name, Counter())["rows"] += counts["rows"]
        joined.add_sources(report["sources"])
    malformed = [report["malformed"] for report in reports]
    parts = [part for each in malformed for part in each["parts"]]
    return {
        **reports[0],
        **_inputs(reports),
        "config": ", ".join(report["config"] for report in reports),
        "sample": any(report["sample"] for report in reports),
        "rows": sum(report["rows"] for report in reports),
        "splits": {name: dict(counts) for name, counts in splits.items()},
        **{name: dict(sum((Counter(report[name]) for report in reports), Counter())) for name in _COUNTS},
        "malformed": {"count": sum(each["count"] for each in malformed), "parts": parts[:LISTED_PARTS]},
        "sources": joined.sources,
        "licenses": joined.licenses,
        "statistics": {},
    }


def report_with(report: Mapping[str, Any], *companions: Mapping[str, Any]) -> dict[str, Any]:
    """Add what is read beside the training rows, such as a knowledge base: sources, raw files, fingerprints.

    Counts and statistics stay those of the rows.

    Args:
        companions: build reports, or reports of `file_report`; empty ones are left out.

    Returns:
        The report; empty if the one of the rows is.
    """
    reports = [report, *filter(None, companions)]
    if not report or len(reports) == 1:
        return dict(report)
    sources: dict[str, dict[str, Any]] = {}
    for each in reports:
        for name, source in each.get("sources", {}).items():
            sources.setdefault(name, {}).update(source)
    return {**report, **_inputs(reports), "sources": sources}


def with_counts(
    report: Mapping[str, Any],
    skipped: Mapping[str, int] = MappingProxyType({}),
    statistics: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Add counts of the training rows to a build report.

    Args:
        skipped: number of further skipped items, by reason; zeros are left out.

    Returns:
        The report; empty if the given one is.
    """
    if not report:
        return {}
    left_out = {name: count for name, count in skipped.items() if count}
    return {
        **report,
        "skipped": {**report.get("skipped", {}), **left_out},
        "statistics": {**report.get("statistics", {}), **statistics},
    }


def file_report(path: Path, config: str, sources: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Describe a file that is read beside the training rows, for `report_with`.

    Args:
        config: the name of what it holds.
    """
    digest = file_digest(path)
    return {
        "config": config,
        "fingerprint": digest,
        "rows_fingerprint": digest,
        "raw_files": [{"name": path.name, "bytes": path.stat().st_size, "sha256": digest}],
        "sources": sources,
    }


def _inputs(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the fingerprints and the raw files, each file once."""
    files = {file["sha256"]: file for report in reports for file in report.get("raw_files", ())}
    joint = {
        kind: joint_fingerprint({report["config"]: report[kind] for report in reports})
        for kind in ("fingerprint", "rows_fingerprint")
    }
    return {**joint, "raw_files": list(files.values())}


Arrays = Mapping[str, npt.NDArray[Any]]


def cached_arrays(kind: str, decides: Sequence[object], compute: Callable[[], Arrays]) -> Arrays:
    """Compute arrays, or map them from a file in the cache.

    Rank 0 computes and writes; other ranks wait and read. The system takes back memory of mapped arrays if it
    needs it.

    Args:
        decides: everything that the arrays depend on, as JSON values.
    """
    digest = hashlib.sha256(json.dumps(decides).encode()).hexdigest()
    root = Path(datasets.config.HF_DATASETS_CACHE).expanduser() / "eventformers"
    path = root / kind / f"{digest}.safetensors"
    with PartialState().main_process_first():
        if not path.is_file():
            arrays = {name: np.ascontiguousarray(values) for name, values in compute().items()}
            with replaced_file(path) as temporary:
                save_file(arrays, temporary)
    # The loader for NumPy copies the file to memory, the one for tensors maps it.
    return {name: values.numpy() for name, values in load_file(path).items()}


def array_digest(values: npt.NDArray[Any]) -> str:
    """Return a hash of the values of an array."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def model_digest(model: PreTrainedModel) -> str:
    """Return a hash of the configuration and the weights of a model."""
    digest = hashlib.sha256(model.config.to_json_string().encode())
    for name, values in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(values.float().cpu().numpy().tobytes())
    return digest.hexdigest()


_BLOCK = 256
_SHOWN = 10
"""Minimum number of blocks with a progress bar."""


def initial_vectors(
    texts: Sequence[str], model: EventEncoderModel, tokenizer: PreTrainedTokenizerBase, max_seq_length: int
) -> npt.NDArray[np.float32]:
    """Encode texts with the weights that a model has now, or read their vectors from the cache.

    Args:
        max_seq_length: maximum number of tokens of a text, without its prompt.

    Returns:
        `(texts, d)`.

    Raises:
        EventformersError: the encoder reads shorter texts.
    """
    check_text_length(model.config, tokenizer, max_seq_length)
    of_prompt = len(prompt_tokens(tokenizer, prompt_of(model.config.prompts)))
    processor = EventProcessor(tokenizer, prompts=model.config.prompts)
    encoded = processor.tokenise(list(texts), max_length=max_seq_length + of_prompt)
    ids, mask = encoded["input_ids"], encoded["attention_mask"]
    decides = [array_digest(ids.numpy()), array_digest(mask.numpy()), model_digest(model)]

    def encode(part: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        return model.embed_distinct([(part, own)])[0]

    def compute() -> dict[str, npt.NDArray[np.float32]]:
        return {"vectors": encode_blocks(ids, mask, model, encode).numpy()}

    return cached_arrays("distillation", decides, compute)["vectors"]


@torch.no_grad()
def encode_blocks(
    ids: torch.Tensor,
    mask: torch.Tensor,
    model: EventEncoderModel,
    encode: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Encode token ids `(texts, length)` block by block, without dropout, in float32 on the CPU."""
    was_training = model.training
    model.eval()
    parts = list(zip(ids.split(_BLOCK), mask.split(_BLOCK), strict=True))
    blocks = [
        encode(part.to(model.device), own.to(model.device)).float().cpu()
        for part, own in datasets.utils.tqdm(
            parts, desc="Encoding texts", unit=f" of {_BLOCK}", disable=len(parts) < _SHOWN
        )
    ]
    model.train(was_training)
    return torch.cat(blocks)
