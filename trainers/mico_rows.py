"""Training rows of MICO, and texts outside its graphs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch
from datasets import Dataset
from torch.utils.data import Dataset as TorchDataset
from transformers import PreTrainedTokenizerBase

from eventformers.datasets_scripts.base import SAMPLE_ORIGIN, SAMPLES
from eventformers.datasets_scripts.known_pairs import Codes, codes_of, grouped, text_column
from eventformers.datasets_scripts.licenses import UNSPECIFIED
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.lines import read_rows
from eventformers.errors import EventformersError
from eventformers.models.modeling_base import EventEncoderModel
from eventformers.models.processing_events import EventProcessor
from eventformers.models.text_prompts import prompt_of, prompt_tokens
from eventformers.trainers.data_reports import array_digest, cached_arrays, file_report, model_digest
from eventformers.trainers.method import check_text_length


class PremiseRows(TorchDataset):
    """Rows of a graph's pairs, each with all alternatives of its premise in the training graph.

    Args:
        pairs: rows with the columns `premise`, `alternative`, `direction`.
        known: the training rows that define the known alternatives; None takes `pairs` themselves.
        by_triple: make an item of both directions of a triple instead of a row.
        graphs: the number of each row's graph, `(rows,)`; None for a single graph.
    """

    def __init__(
        self,
        pairs: Dataset,
        known: PremiseRows | None = None,
        by_triple: bool = False,
        graphs: Codes | None = None,
    ) -> None:
        self.graphs = np.zeros(len(pairs), dtype=np.int64) if graphs is None else graphs
        self.is_validation = known is not None
        self.by_triple = by_triple
        # `.data` ignores the indices of a selection.
        columns = ["premise", "alternative", "direction"]
        table = pairs.select_columns(columns).with_format("arrow")[:]
        premises, alternatives = (text_column(table, name) for name in ("premise", "alternative"))
        if known is None:
            self.premises = premises.unique()
            self.alternatives = alternatives.unique()
        else:
            self.premises = pa.concat_arrays([known.premises, premises]).unique()
            self.alternatives = pa.concat_arrays([known.alternatives, alternatives]).unique()
        self.premise_ids = codes_of(premises, self.premises)
        self.alternative_ids = codes_of(alternatives, self.alternatives)
        if known is None:
            self._starts, self._known = grouped(
                self.premise_ids, self.alternative_ids, len(self.premises), len(self.alternatives)
            )
        else:
            # A premise that is not in the training rows has no known alternatives.
            new = len(self.premises) - len(known.premises)
            self._starts, self._known = np.pad(known._starts, (0, new), mode="edge"), known._known
        self.most_known = int(np.diff(self._starts).max(initial=1))
        forward = pc.equal(text_column(table, "direction"), "forward").to_numpy(zero_copy_only=False)
        reverse = pc.equal(text_column(table, "direction"), "reverse").to_numpy(zero_copy_only=False)
        self.has_both_directions = bool(forward[::2].all() and reverse[1::2].all() and len(forward) % 2 == 0)

    def log_frequencies(
        self, validation: PremiseRows | None, graphs: Collection[int] = (0,)
    ) -> npt.NDArray[np.float32]:
        """Return the log frequency of each alternative in the rows of each graph.

        Args:
            validation: rows with further alternatives, which have 0.
            graphs: the numbers of the graphs to count; all alternatives of another graph have 0.

        Returns:
            By graph and id, `(graphs, alternatives)`.
        """
        size = len(self.alternatives if validation is None else validation.alternatives)
        counts = np.ones((int(self.graphs.max()) + 1, size))
        for graph in graphs:
            counts[graph] = np.bincount(self.alternative_ids[self.graphs == graph], minlength=size)
        return np.log(counts.clip(min=1)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.premise_ids) // 2 if self.by_triple else len(self.premise_ids)

    def __getitem__(self, index: int) -> list[Mapping[str, Any]]:
        """Return the rows of an item."""
        return [self._row(2 * index), self._row(2 * index + 1)] if self.by_triple else [self._row(index)]

    def _row(self, index: int) -> Mapping[str, Any]:
        premise_id = self.premise_ids[index]
        start, end = self._starts[premise_id : premise_id + 2]
        return {
            "row": index,
            "graph": int(self.graphs[index]),
            "premise": self.premises[premise_id].as_py(),
            "alternative_id": int(self.alternative_ids[index]),
            "known_alternative_ids": self._known[start:end],
            "is_validation": self.is_validation,
        }


SENTENCES = SAMPLES / "commonsense" / "sentences.txt"
"""Bundled sentences about everyday events and news."""
NO_TEXT = -1
"""Place of the text of a row for which none is drawn."""
DISTILLATION_SHARE = 0.33
"""Probability that a row draws a text."""
_ACCEPTED = "a file of plain text with a text a line, which may be .gz or .bz2"
_OTHER_KINDS = {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"}
_BLOCK = 256


@dataclass(frozen=True)
class DistillationTexts:
    """Texts with the vectors of the untrained encoder.

    Attributes:
        vectors: a vector for each, `(texts, d)`.
        report: description of the file for the card and the record of the run.
    """

    texts: list[str]
    vectors: npt.NDArray[np.float32]
    report: Mapping[str, Any]

    def draw(self, generator: np.random.Generator) -> int:
        """Draw the place of a text, each with equal probability, or `NO_TEXT`."""
        drawn = int(generator.integers(len(self.texts)))
        return drawn if generator.random() < DISTILLATION_SHARE else NO_TEXT


def distillation_texts(
    source: str | None,
    model: EventEncoderModel,
    tokenizer: PreTrainedTokenizerBase,
    max_seq_length: int,
) -> DistillationTexts:
    """Read texts and encode them.

    Args:
        source: a file with a text a line; None takes `SENTENCES`.
        max_seq_length: maximum number of tokens of a text.

    Raises:
        DataFormatError: a line cannot be read.
        EventformersError: there is no such file of plain text, or no text in it, or the encoder reads shorter
            texts.
    """
    check_text_length(model.config, tokenizer, max_seq_length)
    path = Path(source or SENTENCES).expanduser()
    if not path.is_file() or {suffix.lower() for suffix in path.suffixes} & _OTHER_KINDS:
        found = "a folder" if path.is_dir() else "no file" if not path.exists() else "not plain text"
        raise EventformersError(f"setting distillation_texts: {path}: {found}; accepted: {_ACCEPTED}")
    texts = list(dict.fromkeys(line.strip() for _, line in read_rows(path, SkippedRows())))
    if not texts:
        raise EventformersError(f"setting distillation_texts: {path}: no text; accepted: {_ACCEPTED}")
    name, license_name = (path.name, UNSPECIFIED) if source else SAMPLE_ORIGIN
    of_prompt = len(prompt_tokens(tokenizer, prompt_of(model.config.prompts)))
    processor = EventProcessor(tokenizer, prompts=model.config.prompts)
    encoded = processor.tokenise(texts, max_length=max_seq_length + of_prompt)
    ids, mask = encoded["input_ids"], encoded["attention_mask"]
    decides = [array_digest(ids.numpy()), array_digest(mask.numpy()), model_digest(model)]
    cached = cached_arrays("distillation", decides, lambda: {"vectors": _vectors(model, ids, mask)})
    report = file_report(path, "distillation_texts", {name: {"license": license_name}})
    return DistillationTexts(texts, cached["vectors"], report)


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
