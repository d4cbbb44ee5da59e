"""Texts outside the training data, whose vectors training holds near those of the untrained encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedTokenizerBase

from eventformers.datasets_scripts.base import SAMPLE_ORIGIN, SAMPLES
from eventformers.datasets_scripts.licenses import UNSPECIFIED
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.lines import read_rows
from eventformers.errors import EventformersError
from eventformers.models.modeling_base import EventEncoderModel
from eventformers.models.processing_events import EventProcessor
from eventformers.models.text_prompts import prompt_of, prompt_tokens
from eventformers.trainers.cached_arrays import array_digest, cached_arrays, model_digest
from eventformers.trainers.data_reports import file_report
from eventformers.trainers.method import check_text_length

SENTENCES = SAMPLES / "commonsense" / "sentences.txt"
"""Bundled sentences about everyday events and news."""
NO_TEXT = -1
"""Place of the text of a row for which none is drawn."""
_ACCEPTED = "a file of plain text with a text a line, which may be .gz or .bz2"
_OTHER_KINDS = {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"}
_BLOCK = 256


@dataclass(frozen=True)
class DistillationTexts:
    """Texts with the vectors of the untrained encoder.

    Attributes:
        texts: the texts.
        vectors: a vector for each, `(texts, d)`.
        share: probability that a row draws a text.
        report: description of the file for the card and the record of the run.
    """

    texts: list[str]
    vectors: npt.NDArray[np.float32]
    share: float
    report: Mapping[str, Any]

    def draw(self, generator: np.random.Generator) -> int:
        """Draw the place of a text, each with equal probability, or `NO_TEXT`."""
        drawn = int(generator.integers(len(self.texts)))
        return drawn if generator.random() < self.share else NO_TEXT


def distillation_texts(
    source: str | None,
    share: float,
    model: EventEncoderModel,
    tokenizer: PreTrainedTokenizerBase,
    max_seq_length: int,
) -> DistillationTexts:
    """Read texts and encode them.

    Args:
        source: a file with a text a line; None takes `SENTENCES`.
        share: see `DistillationTexts`.
        model: the untrained encoder.
        tokenizer: its tokenizer.
        max_seq_length: maximum number of tokens of a text.

    Raises:
        DataFormatError: a line cannot be read.
        EventformersError: there is no such file of plain text, or no text in it, or the encoder reads shorter
            texts.
    """
    check_text_length(model.config, tokenizer, max_seq_length)
    path = Path(source or SENTENCES).expanduser()
    texts = _read(path)
    name, license_name = (path.name, UNSPECIFIED) if source else SAMPLE_ORIGIN
    of_prompt = len(prompt_tokens(tokenizer, prompt_of(model.config.prompts)))
    processor = EventProcessor(tokenizer, prompts=model.config.prompts)
    encoded = processor.tokenise(texts, max_length=max_seq_length + of_prompt)
    ids, mask = encoded["input_ids"], encoded["attention_mask"]
    decides = [array_digest(ids.numpy()), array_digest(mask.numpy()), model_digest(model)]
    found = cached_arrays("distillation", decides, lambda: {"vectors": _vectors(model, ids, mask)})
    report = file_report(path, "distillation_texts", {name: {"license": license_name}})
    return DistillationTexts(texts, found["vectors"], share, report)


def _read(path: Path) -> list[str]:
    """Read the distinct lines of a file."""
    if not path.is_file() or {suffix.lower() for suffix in path.suffixes} & _OTHER_KINDS:
        found = "a folder" if path.is_dir() else "no file" if not path.exists() else "not plain text"
        raise EventformersError(f"setting distillation_texts: {path}: {found}; accepted: {_ACCEPTED}")
    texts = list(dict.fromkeys(line.strip() for _, line in read_rows(path, SkippedRows())))
    if not texts:
        raise EventformersError(f"setting distillation_texts: {path}: no text; accepted: {_ACCEPTED}")
    return texts


@torch.no_grad()
def _vectors(model: EventEncoderModel, ids: torch.Tensor, mask: torch.Tensor) -> npt.NDArray[np.float32]:
    was_training = model.training
    model.eval()
    blocks = [
        model.embed_distinct([(part.to(model.device), own.to(model.device))])[0].float().cpu()
        for part, own in zip(ids.split(_BLOCK), mask.split(_BLOCK), strict=True)
    ]
    model.train(was_training)
    return torch.cat(blocks).numpy()
