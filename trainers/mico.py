"""Training of MICO: from the pairs of a graph, and texts outside it, to the views of its head."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch
from datasets import Dataset, DatasetDict, IterableDataset, concatenate_datasets
from torch.utils.data import Dataset as TorchDataset
from transformers import BatchEncoding, PreTrainedTokenizerBase

from eventformers.built_in import MICO as METHOD
from eventformers.datasets_scripts.base import SAMPLE_ORIGIN, SAMPLES
from eventformers.datasets_scripts.commonsense_graphs import graph_of
from eventformers.datasets_scripts.document_splits import text_id
from eventformers.datasets_scripts.known_pairs import Codes, codes_of, grouped, padded, text_column
from eventformers.datasets_scripts.licenses import UNSPECIFIED
from eventformers.datasets_scripts.loading import built_report, load_built
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.lines import read_rows
from eventformers.datasets_scripts.relation_templates import GRAPHS, own_templates
from eventformers.errors import EventformersError, UnknownNameError, shown
from eventformers.files import packaged_yaml
from eventformers.models.configuration_mico import MicoConfig
from eventformers.models.modeling_base import EventEncoderModel
from eventformers.models.modeling_mico import MicoForPreTraining
from eventformers.models.processing_events import EventProcessor
from eventformers.models.text_prompts import prompt_of
from eventformers.strict import Count, Number, TextLength
from eventformers.trainers.cached_arrays import initial_vectors
from eventformers.trainers.data_reports import file_report, joint_report, report_with, with_counts
from eventformers.trainers.method import (
    EventCollator,
    MethodTraining,
    TrainingData,
    check_train_split,
    indexed_stream,
    is_streamed,
)
from eventformers.trainers.recipes import Recipe

logger = logging.getLogger(__name__)

SENTENCES = SAMPLES / "commonsense" / "sentences.txt"
"""Bundled sentences about everyday events and news."""
NO_TEXT = -1
"""Place of the text of a row for which none is drawn."""
DISTILLATION_SHARE = 0.33
"""Probability that a row draws a text."""
_ACCEPTED = "a file of plain text with a text a line, which may be .gz or .bz2"
_OTHER_KINDS = {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"}


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
    path = Path(source or SENTENCES).expanduser()
    if not path.is_file() or {suffix.lower() for suffix in path.suffixes} & _OTHER_KINDS:
        found = "a folder" if path.is_dir() else "no file" if not path.exists() else "not plain text"
        raise EventformersError(f"setting distillation_texts: {path}: {found}; accepted: {_ACCEPTED}")
    texts = list(dict.fromkeys(line.strip() for _, line in read_rows(path, SkippedRows())))
    if not texts:
        raise EventformersError(f"setting distillation_texts: {path}: no text; accepted: {_ACCEPTED}")
    name, license_name = (path.name, UNSPECIFIED) if source else SAMPLE_ORIGIN
    vectors = initial_vectors(texts, model, tokenizer, max_seq_length)
    report = file_report(path, "distillation_texts", {name: {"license": license_name}})
    return DistillationTexts(texts, vectors, report)


@dataclass
class MicoCollator(EventCollator):
    """Collator of rows of `PremiseRows` into the views of `MicoForPreTraining`.

    Args:
        tokenizer: the encoder's tokenizer.
        alternatives: the texts of the alternatives, by id; None for streamed rows, which have one each.
        seed: seed of all draws.
        num_alternatives: number of alternatives of a row, k: its own, and k - 1 drawn uniformly with
            replacement from those of its premise. Validation rows have only their own, as in the released
            code.
        most_known: maximum number of known alternatives of a premise, the width in every batch.
        max_seq_length: maximum number of tokens of a text.
        draw_positive: draw the positive among the alternatives.
        known_positives: add the ids of the known alternatives.
        log_frequencies: log frequency of each alternative in the training rows of each graph, by graph and
            id, to add to the views; None leaves it out.
        graphs: add the number of each row's graph.
        distillation: the texts outside the graph; None draws none.
        prompts: text before each text by its kind; see `EventConfig`.
        epoch: the current epoch.
    """

    tokenizer: PreTrainedTokenizerBase
    alternatives: pa.Array | None
    seed: int
    num_alternatives: int = 2
    most_known: int = 1
    max_seq_length: int = 32
    draw_positive: bool = False
    known_positives: bool = False
    log_frequencies: npt.NDArray[np.float32] | None = None
    graphs: bool = False
    distillation: DistillationTexts | None = None
    prompts: Mapping[str, str] | None = None
    epoch: int = 0

    def __call__(
        self, items: Sequence[Sequence[Mapping[str, Any]]] | Sequence[Mapping[str, Any]]
    ) -> dict[str, torch.Tensor]:
        """Collate items of `PremiseRows`, or streamed rows."""
        held, given = self.alternatives, cast(Any, items)
        rows = list(given) if held is None else [row for item in given for row in item]
        # A batch never mixes validation and training rows.
        count = 1 if held is None or rows[0]["is_validation"] else self.num_alternatives
        generators = [np.random.default_rng((self.seed, self.epoch, row["row"])) for row in rows]
        if held is None:
            texts = [row["alternative"] for row in rows]
            ids = np.array([[text_id(text)] for text in texts])
        else:
            drawn = []
            for row, generator in zip(rows, generators, strict=True):
                known = row["known_alternative_ids"]
                places: Iterable[int] = generator.integers(len(known), size=count - 1) if count > 1 else ()
                drawn.append([row["alternative_id"], *(int(known[place]) for place in places)])
            ids = np.array(drawn)
            texts = held.take(pa.array(ids.ravel())).to_pylist()
        premises = self.encode([row["premise"] for row in rows], "query")
        alternatives = self.encode(texts, "document")
        batch = {
            "input_ids": premises["input_ids"],
            "attention_mask": premises["attention_mask"],
            "alternative_input_ids": alternatives["input_ids"].unflatten(0, ids.shape),
            "alternative_attention_mask": alternatives["attention_mask"].unflatten(0, ids.shape),
            "alternative_ids": torch.from_numpy(ids),
        }
        if self.draw_positive:
            batch["positive_index"] = torch.tensor([int(draw.integers(count)) for draw in generators])
        if self.known_positives:
            # Sorted, and padded with a number above all ids, `(B, M)`.
            of_rows = [row["known_alternative_ids"] for row in rows]
            batch["known_alternative_ids"] = torch.from_numpy(
                padded(of_rows, self.most_known, len(cast(pa.Array, held)))
            )
        if self.log_frequencies is not None:
            graphs = np.array([[row["graph"]] for row in rows])
            batch["log_frequency"] = torch.from_numpy(self.log_frequencies[graphs, ids])
        if self.graphs:
            batch["graph"] = torch.tensor([row["graph"] for row in rows])
        return batch | self._distillation(generators)

    def _distillation(self, generators: Sequence[np.random.Generator]) -> dict[str, torch.Tensor]:
        if self.distillation is None:
            return {}
        drawn = np.array([self.distillation.draw(generator) for generator in generators])
        # Rows without a text share the first one, which is encoded once and does not count.
        places = drawn.clip(min=0)
        encoded = self.encode([self.distillation.texts[place] for place in places], "event")
        return {
            "distillation_input_ids": encoded["input_ids"],
            "distillation_attention_mask": encoded["attention_mask"],
            "distillation_vectors": torch.from_numpy(self.distillation.vectors[places]),
            "distillation_mask": torch.from_numpy(drawn != NO_TEXT),
        }

    def encode(self, texts: Sequence[str], kind: str) -> BatchEncoding:
        """Tokenise texts after the prompt of their kind to equal width, counting truncated ones."""
        longest = self.longest(prompt_of(self.prompts, kind))
        processor = EventProcessor(self.tokenizer, prompts=self.prompts)
        return self.counted(processor.tokenise(texts, kind, max_length=longest))


def _prepare(
    recipe: Recipe,
    data: str | None,
    tokenizer: PreTrainedTokenizerBase,
    head: MicoForPreTraining,
    seed: int,
) -> TrainingData:
    """Load the pairs of the graphs and make the collator that draws their alternatives."""
    config, views = head.config, dict(recipe.views)
    builder, names, settings = METHOD.training_dataset(recipe)
    _check_graphs(names, config)
    by_triple = views.pop("both_directions", False)
    validation_rows = recipe.data.get("validation_rows", 0)
    streaming = is_streamed(
        recipe,
        "reads one pair after another, without the other pairs of its premise",
        {
            "validation_rows": (validation_rows, 0),
            "num_alternatives": (views.get("num_alternatives", MicoCollator.num_alternatives), 1),
            "both_directions": (by_triple, False),
            "mask_known_positives": (config.mask_known_positives, False),
            "frequency_correction": (bool(config.frequency_correction), False),
        },
    )
    if streaming and len(names) > 1:
        raise EventformersError(
            f"streaming=true reads one graph; found config={shown(list(names))}; accepted with it: one config"
        )
    graphs = [graph_of(name) for name in names]
    loaded = [load_built(data, name, builder=builder, streaming=streaming, **settings) for name in names]
    for splits in loaded:
        check_train_split(data, splits)
    templates = [own_templates(graph, settings.get("templates")) for graph in graphs]
    config.relation_templates = {name: text for own in templates for name, text in own.items()} or None
    source, distillation = views.pop("distillation_texts", None), None
    if config.distillation_weight:
        longest = views.get("max_seq_length", MicoCollator.max_seq_length)
        distillation = distillation_texts(source, head.mico, tokenizer, longest)
    elif source is not None:
        raise EventformersError(
            f"distillation_texts={source} is used only with a distillation_weight above 0; accepted: "
            "distillation_texts=null, or a weight"
        )
    collator = MicoCollator(
        tokenizer=tokenizer,
        alternatives=None,
        seed=seed,
        draw_positive=config.positive == "random",
        known_positives=config.mask_known_positives,
        graphs=len(graphs) > 1,
        distillation=distillation,
        prompts=config.prompts,
        **views,
    )
    report = joint_report([built_report(data, name, builder=builder, **settings) for name in names])
    if report and distillation is not None:
        told = {"distillation_texts": len(distillation.texts)}
        report = with_counts(report_with(report, distillation.report), statistics=told)
    if streaming:
        stream = cast(IterableDataset, loaded[0]["train"]).select_columns(["premise", "alternative"])
        return TrainingData(indexed_stream(stream, seed), None, collator, report)
    rows = _joined([splits["train"] for splits in loaded], by_triple=by_triple)
    if by_triple and not rows.has_both_directions:
        raise EventformersError(
            "both_directions=true needs both directions of each triple in adjacent rows, forward first; "
            "accepted: a config that ends with _pairs, or both_directions=false"
        )
    validation = _validation_rows(cast("list[DatasetDict]", loaded), rows, validation_rows)
    corrected = config.frequency_correction or []
    if isinstance(corrected, list) and (absent := [graph for graph in corrected if graph not in graphs]):
        logger.warning(
            "frequency_correction names %s, but the training data are of %s; it corrects only graphs that "
            "config lists",
            ", ".join(absent),
            ", ".join(graphs),
        )
    if corrected:
        numbers = [place for place, graph in enumerate(graphs) if corrected is True or graph in corrected]
        collator.log_frequencies = rows.log_frequencies(validation, numbers)
    collator.alternatives = rows.alternatives if validation is None else validation.alternatives
    collator.most_known = rows.most_known
    # Both directions of a triple already give each row a negative.
    return TrainingData(rows, validation, collator, report, least_rows=1 if by_triple else 2)


def _check_graphs(names: Sequence[str], config: MicoConfig) -> None:
    """Check the configs of the graphs, and the names of graphs in the model's settings."""
    for name in names:
        if not isinstance(name, str) or not name.endswith("_pairs"):
            raise EventformersError(
                f"setting config: found {shown(name)}; accepted: a config of premises and alternatives, "
                "whose name ends with _pairs"
            )
    if len({graph_of(name) for name in names}) < max(len(names), 1):
        raise EventformersError(
            f"setting config: found {shown(list(names))}; accepted: one config for each graph"
        )
    corrected = config.frequency_correction
    for graph in corrected if isinstance(corrected, list) else ():
        if graph not in GRAPHS:
            raise UnknownNameError("graph in frequency_correction:", graph, GRAPHS)


def _joined(
    parts: Sequence[Dataset], known: PremiseRows | None = None, by_triple: bool = False
) -> PremiseRows:
    """Join the rows of several graphs."""
    graphs = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return PremiseRows(concatenate_datasets(list(parts)), known, by_triple, graphs)


def _validation_rows(
    loaded: Sequence[DatasetDict], rows: PremiseRows, count: int | None
) -> PremiseRows | None:
    """Take the first `count` rows of the validation split of each graph; None takes all."""
    if count == 0:
        return None
    parts = []
    for splits in loaded:
        if "validation" not in splits:
            raise EventformersError(
                f"validation_rows={count} needs a validation split; found {', '.join(splits)}; accepted: "
                "validation_rows=0"
            )
        held = splits["validation"]
        size = len(held) if count is None else count
        if not 1 < size <= len(held) or size % 2:
            raise EventformersError(
                f"validation_rows: received {size}; accepted: an even number up to the {len(held)} rows"
            )
        parts.append(held.select(range(size)))
    return _joined(parts, known=rows)


def _choose_tasks(recipe: Recipe) -> tuple[str, ...]:
    """Choose completion of the training graphs, and the multiple-choice tasks."""
    _, names, _ = METHOD.training_dataset(recipe)
    graphs = [graph_of(name) for name in names]
    completions = {f"{graph}_completion" for graph in ("conceptnet", "atomic") if graph not in graphs}
    return tuple(task for task in METHOD.tasks if task not in completions)


TRAINING = MethodTraining(
    prepare=_prepare,
    streams=True,
    data_types={
        "config": str | list[str],
        "validation_rows": Number | None,
    },
    view_types={
        "max_seq_length": TextLength,
        "num_alternatives": Count,
        "both_directions": bool,
        "distillation_texts": str | None,
    },
    choose_tasks=_choose_tasks,
    meanings=packaged_yaml(__file__, "meanings.yaml")["mico"],
)
