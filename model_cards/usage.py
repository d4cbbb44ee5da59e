"""Execution of a card's usage examples, so that the card shows their actual output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from eventformers.model_cards.method import Snippet

MODEL_PLACEHOLDER = "MODEL_ID"
TIMEOUT_SECONDS = 900.0
LONGEST_OUTPUT = 4_000

_OF_THE_TRAINING_PROCESS = (
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    *("MASTER_ADDR", "MASTER_PORT", "ACCELERATE_USE_CPU"),
)


def snippet_code(snippet: Snippet, model: str) -> str:
    """Insert a model's name into a snippet as a Python string literal, so that any character is safe."""
    return snippet.code.replace(MODEL_PLACEHOLDER, json.dumps(model, ensure_ascii=False))


def run_snippet(snippet: Snippet, folder: Path, name: str, timeout: float = TIMEOUT_SECONDS) -> Snippet:
    """Run a snippet on a saved model, in a fresh process, offline and on the CPU.

    A fresh process has no state of the training run, so what works there works for a user.

    Args:
        snippet: the snippet.
        folder: the saved model.
        name: replaces the folder of the model in the printed output.
        timeout: seconds after which the snippet counts as failed.

    Returns:
        The snippet with its output, or with the reason for missing output; unchanged if `is_run` is False. A
        failing snippet raises no error.
    """
    if not snippet.is_run:
        return snippet
    folder = folder.absolute()
    with tempfile.TemporaryDirectory(prefix="eventformers-card-") as scratch:
        environment = {
            key: value
            for key, value in os.environ.items()
            if key not in _OF_THE_TRAINING_PROCESS and not key.startswith("TORCHELASTIC_")
        }
        # Separate caches: otherwise the code of an earlier model in the same folder would be reused. The
        # caches are not needed later.
        environment |= {
            "HF_MODULES_CACHE": scratch,
            "HF_DATASETS_CACHE": scratch,
            "HF_HUB_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "PYTHONIOENCODING": "utf-8",
        }
        try:
            done = subprocess.run(  # noqa: S603 - the code is the card's own, and names go in as literals
                [sys.executable, "-c", snippet_code(snippet, str(folder))],
                cwd=scratch,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return replace(snippet, output=None, failure=f"it did not end within {timeout:g} seconds")
        except OSError as error:
            failure = f"no process could be started: {error.strerror or error}"
            return replace(snippet, output=None, failure=failure)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else f"exit code {done.returncode}"
        return replace(snippet, output=None, failure=_without_folder(reason, folder, name)[:500])
    printed = _without_folder(done.stdout, folder, name).rstrip()
    if len(printed) > LONGEST_OUTPUT:
        printed = f"{printed[:LONGEST_OUTPUT]}\n… ({len(printed) - LONGEST_OUTPUT:,} more characters)"
    return replace(snippet, output=printed, failure=None)


def _without_folder(text: str, folder: Path, name: str) -> str:
    for spelled in {str(folder), str(folder.resolve())}:
        text = text.replace(spelled, name)
    return text
