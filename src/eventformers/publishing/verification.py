"""Verification of a push by loading as a user would: in a fresh process with an empty cache, from folder or
Hub.

Run as a module with a request and an answer file, JSON lists with one entry for each repository; see `probe`.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from eventformers.errors import EventformersError

PROBE_TEXT = "storm flooded city"
"""The text whose vector must be the same before and after a push."""
PROBE_ROWS = 3
"""Number of rows of each split that must be the same before and after a push."""
TOLERANCE = 1e-4

# Where the libraries look for files, besides HF_HOME.
_CACHES = ("_CACHE", "_HOME", "_OFFLINE")
_LIBRARIES = ("HF_", "HUGGINGFACE_", "TRANSFORMERS_", "DATASETS_", "EVALUATE_", "XDG_CACHE")


class Asked(TypedDict):
    """A repository to load: `source` is a folder or a Hub id, `revision` a commit of the latter."""

    kind: str
    source: str
    revision: str | None
    configs: list[str]


class Told(TypedDict):
    """Result of loading: `shown` for comparison, or the `error` in one line."""

    shown: Any
    error: str | None


def probe(asked: Sequence[Asked], *, endpoint: str, token: str | None, online: bool) -> list[Told]:
    """Load repositories in one fresh process with an empty cache.

    Args:
        token: the token; it is passed only in the environment of the process.

    Raises:
        EventformersError: the process did not finish.
    """
    with tempfile.TemporaryDirectory(prefix="eventformers-hub-") as scratch:
        request, answer, home = (Path(scratch) / name for name in ("request.json", "answer.json", "home"))
        request.write_text(json.dumps(asked), encoding="utf-8")
        process = subprocess.run(  # noqa: S603 - this module, and files of ours
            [sys.executable, "-m", "eventformers.publishing.verification", str(request), str(answer)],
            # In another directory, a folder with the name of a repository would be loaded instead.
            cwd=scratch,
            env=_environment(home, endpoint, token, online),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode or not answer.is_file():
            last = (process.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise EventformersError(f"the process that loads what is pushed ended early: {last}")
        told: list[Told] = json.loads(answer.read_text(encoding="utf-8"))
        return told


def same(first: Any, second: Any) -> bool:
    """True if two repositories gave the same result; numbers may differ by the effects of memory layout."""
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    return bool(first == second)


def _environment(home: Path, endpoint: str, token: str | None, online: bool) -> dict[str, str]:
    from huggingface_hub import constants

    kept = {
        name: value
        for name, value in os.environ.items()
        if not (name.startswith(_LIBRARIES) and name.endswith(_CACHES)) and name != "HF_TOKEN"
    }
    return {
        **kept,
        "HF_HOME": str(home),
        "HF_ENDPOINT": endpoint,
        **({"HF_TOKEN": token} if token else {}),
        "HF_HUB_OFFLINE": "0" if online else "1",
        "HF_HUB_DISABLE_XET": "1" if constants.HF_HUB_DISABLE_XET else "0",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        # A model that fits into memory does not need an accelerator, which another process may use.
        "CUDA_VISIBLE_DEVICES": "",
    }


# Runs in the fresh process.


def _show_model(asked: Asked) -> Any:
    import torch
    from transformers import AutoModel

    from eventformers.loading.models import faults_told, load_config, load_tokenizer, load_whole

    source, revision = asked["source"], asked["revision"] or None
    with faults_told(source):
        config = load_config(source, revision)
        tokenizer = load_tokenizer(source, config, revision)
        model = load_whole(AutoModel, source, revision=revision)
    inputs = tokenizer(PROBE_TEXT, return_tensors="pt")
    with torch.inference_mode():
        output = model.eval()(**{name: inputs[name] for name in ("input_ids", "attention_mask")})
    vector = next(value for value in output.values() if torch.is_tensor(value) and value.is_floating_point())
    if not bool(vector.isfinite().all()):
        raise ValueError("its output is not finite")
    return {"class": type(model).__name__, "output": vector.float().flatten().tolist()}


def _show_dataset(asked: Asked) -> Any:
    from itertools import islice

    from datasets import load_dataset

    shown: dict[str, Any] = {}
    for config in asked["configs"]:
        splits = load_dataset(asked["source"], config, streaming=True, revision=asked["revision"])
        shown[config] = {
            str(split): {"columns": str(rows.features), "rows": list(islice(rows, PROBE_ROWS))}
            for split, rows in splits.items()
        }
    return json.loads(json.dumps(shown, default=str))


def _show_metric(asked: Asked) -> Any:
    import doctest
    from types import SimpleNamespace

    import evaluate

    metric = evaluate.load(asked["source"], revision=asked["revision"])
    examples = doctest.DocTestParser().get_doctest(
        metric.inputs_description,
        {"evaluate": SimpleNamespace(load=lambda name: metric)},
        metric.name,
        None,
        None,
    )
    wrong: list[str] = []
    failed = doctest.DocTestRunner(verbose=False).run(examples, out=wrong.append).failed
    if failed or not examples.examples:
        raise ValueError(f"{failed} of its {len(examples.examples)} documented examples gave another result")
    return {"name": metric.name, "inputs": str(metric.features)}


def _show_page(asked: Asked) -> Any:
    """The digest of a static Space's page, and the JSON report beside it."""
    import hashlib

    from huggingface_hub import hf_hub_download

    from eventformers.exploration import PAGE_FILE, REPORT_FILE
    from eventformers.publishing.folders import LEADERBOARD_FILE

    def file(name: str) -> Path:
        if asked["revision"] is None:
            return Path(asked["source"], name)
        where = {"repo_type": "space", "revision": asked["revision"]}
        return Path(hf_hub_download(asked["source"], name, **where))

    report = LEADERBOARD_FILE if asked["kind"] == "leaderboard" else REPORT_FILE
    page = hashlib.sha256(file(PAGE_FILE).read_bytes()).hexdigest()
    return {"page": page, "report": json.loads(file(report).read_text(encoding="utf-8"))}


_SHOW = {
    "model": _show_model,
    "dataset": _show_dataset,
    "metric": _show_metric,
    "exploration": _show_page,
    "leaderboard": _show_page,
}


def _told(asked: Asked) -> Told:
    try:
        return {"shown": _SHOW[asked["kind"]](asked), "error": None}
    except Exception as error:
        # The reason why a configuration is invalid is in the cause.
        is_outer = "StrictDataclass" in type(error).__name__ and error.__cause__ is not None
        fault = error.__cause__ if is_outer else error
        line = (str(fault).strip().splitlines() or [""])[0]
        is_ours = isinstance(fault, EventformersError)
        return {"shown": None, "error": line if is_ours else f"{type(fault).__name__}: {line}".rstrip(".: ")}


if __name__ == "__main__":
    requests = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(sys.argv[2]).write_text(json.dumps([_told(one) for one in requests]), encoding="utf-8")
