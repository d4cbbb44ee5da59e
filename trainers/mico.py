"""Training of MICO: from the pairs of a graph to the views of its head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch
from datasets import Dataset, DatasetDict
from torch.utils.data import Dataset as TorchDataset
from transformers import BatchEncoding, PreTrainedTokenizerBase

from eventformers.built_in.mico import METHOD
from eventformers.datasets_scripts.base import setting_names
from eventformers.datasets_scripts.commonsense_graphs import CommonsenseGraphsConfig, graph_of
from eventformers.datasets_scripts.known_pairs import grouped
from eventformers.datasets_scripts.loading import built_report, load_built
from eventformers.datasets_scripts.relation_templates import own_templates
from eventformers.errors import EventformersError, shown
from eventformers.models.modeling_mico import MicoForPreTraining
from eventformers.models.text_prompts import prompt_of
from eventformers.strict import Count, Number, TextLength
from eventformers.trainers.codes import Codes, codes_of, padded, text_column
from eventformers.trainers.method import MethodTraining, TrainingData
from eventformers.trainers.recipes import Recipe
from eventformers.trainers.tokenising import tokenise


class PremiseRows(TorchDataset):
    """Rows of a graph's pairs, each with all alternatives of its premise in the training graph.

    Args:
        pairs: rows with the columns `premise`, `alternative`, `direction`.
        known: the training rows that define the known alternatives; None takes `pairs` themselves.
        by_triple: make an item of both directions of a triple instead of a row.
    """

    def __init__(self, pairs: Dataset, known: PremiseRows | None = None, by_triple: bool = False) -> None:
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

    def log_frequencies(self, validation: PremiseRows | None) -> npt.NDArray[np.float32]:
        """Return the log frequency of each alternative by id; 0 for alternatives of validation rows only."""
        size = len(self.alternatives if validation is None else validation.alternatives)
        return np.log(np.bincount(self.alternative_ids, minlength=size).clip(min=1)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.premise_ids) // 2 if self.by_triple else len(self.premise_ids)

    def __getitem__(self, index: int) -> list[Mapping[str, Any]]:
        """Return the rows of an item."""
        return [self._row(2 * index), self._row(2 * index + 1)] if self.by_triple else [self._row(index)]

    def _row(self, index: int) -> Mapping[str, Any]:
        premise_id = self.premise_ids[index]
        start, end = self._starts[premise_id : premise_id + 2]
        row = {
            "row": index,
            "premise": self.premises[premise_id].as_py(),
            "alternative_id": int(self.alternative_ids[index]),
            "known_alternative_ids": self._known[start:end],
            "is_validation": self.is_validation,
        }
        if self.has_both_directions:
            # The alternative of the triple's other direction is the entity of this premise.
            row["entity_id"] = int(self.alternative_ids[index ^ 1])
        return row


@dataclass
class MicoCollator:
    """Collator of rows of `PremiseRows` into the views of `MicoForPreTraining`.

    Draws for a row depend only on seed, epoch and row: a resumed run, and a run with another number of
    processes, repeats them.

    Args:
        tokenizer: the encoder's tokenizer.
        alternatives: the texts of the alternatives, by id.
        seed: seed of all draws.
        num_alternatives: number of alternatives of a row, k: its own, and k - 1 drawn uniformly with
            replacement from those of its premise. Validation rows have only their own, as in the released
            code.
        most_known: maximum number of known alternatives of a premise, the width in every batch.
        max_seq_length: maximum number of tokens of a text.
        draw_positive: draw the positive among the alternatives.
        known_positives: add the ids of the known alternatives.
        entities: add the entity of each premise.
        log_frequencies: log frequency of each alternative in the training rows, by id, to add to the views;
            None leaves it out.
        prompts: text before each text by its kind; see `EventConfig`.
        epoch: the current epoch.
        truncated: number of texts truncated so far.
    """

    tokenizer: PreTrainedTokenizerBase
    alternatives: pa.Array
    seed: int
    num_alternatives: int = 2
    most_known: int = 1
    max_seq_length: int = 32
    draw_positive: bool = False
    known_positives: bool = False
    entities: bool = False
    log_frequencies: npt.NDArray[np.float32] | None = None
    prompts: Mapping[str, str] | None = None
    epoch: int = 0
    truncated: int = field(default=0, init=False)

    def __call__(self, items: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, torch.Tensor]:
        """Collate items of `PremiseRows`."""
        rows = [row for item in items for row in item]
        # A batch never mixes validation and training rows.
        count = 1 if rows[0]["is_validation"] else self.num_alternatives
        generators = [np.random.default_rng((self.seed, self.epoch, row["row"])) for row in rows]
        ids = np.array(
            [self._draw(row, count, generator) for row, generator in zip(rows, generators, strict=True)]
        )
        premises = self.encode([row["premise"] for row in rows], "query")
        alternatives = self._encode_alternatives(ids.ravel())
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
            batch["known_alternative_ids"] = torch.from_numpy(self._known(rows))
        if self.log_frequencies is not None:
            batch["log_frequency"] = torch.from_numpy(self.log_frequencies[ids])
        if self.entities:
            entity_ids = np.array([row["entity_id"] for row in rows])
            entities = self._encode_alternatives(entity_ids)
            batch["entity_input_ids"] = entities["input_ids"]
            batch["entity_attention_mask"] = entities["attention_mask"]
            batch["entity_ids"] = torch.from_numpy(entity_ids)
        return batch

    def _draw(self, row: Mapping[str, Any], count: int, generator: np.random.Generator) -> list[int]:
        known = row["known_alternative_ids"]
        places: Iterable[int] = generator.integers(len(known), size=count - 1) if count > 1 else ()
        return [row["alternative_id"], *(int(known[place]) for place in places)]

    def _known(self, rows: Sequence[Mapping[str, Any]]) -> Codes:
        """Return each row's known alternatives, sorted and padded with a number above all ids, `(B, M)`."""
        known = [row["known_alternative_ids"] for row in rows]
        return padded(known, self.most_known, fill=len(self.alternatives))

    def _encode_alternatives(self, ids: Codes) -> BatchEncoding:
        return self.encode(self.alternatives.take(pa.array(ids)).to_pylist(), "document")

    def encode(self, texts: Sequence[str], kind: str) -> BatchEncoding:
        """Tokenise texts after the prompt of their kind to equal width, counting truncated ones."""
        encoded, cut = tokenise(self.tokenizer, texts, self.max_seq_length, prompt_of(self.prompts, kind))
        self.truncated += cut
        return encoded


def _prepare(
    recipe: Recipe,
    data: str | None,
    tokenizer: PreTrainedTokenizerBase,
    head: MicoForPreTraining,
    seed: int,
) -> TrainingData:
    """Load the pairs of a graph and make the collator that draws their alternatives."""
    config = head.config
    builder, name, settings = METHOD.training_dataset(recipe)
    if not name.endswith("_pairs"):
        raise EventformersError(
            f"setting config: found {shown(name)}; accepted: a config of premises and alternatives, whose "
            "name ends with _pairs"
        )
    splits = cast(DatasetDict, load_built(data, name, builder=builder, **settings))
    config.relation_templates = own_templates(graph_of(name), settings.get("templates")) or None
    if "train" not in splits:
        raise EventformersError(f"{data}: found the splits {', '.join(splits)}; accepted: a split train")
    views = dict(recipe.views)
    by_triple = views.pop("both_directions", False)
    rows = PremiseRows(splits["train"], by_triple=by_triple)
    if (config.self_negatives or by_triple) and not rows.has_both_directions:
        raise EventformersError(
            "self_negatives=true and both_directions=true need both directions of each triple in adjacent "
            "rows, forward first; accepted: a config that ends with _pairs, or false for both settings"
        )
    validation = _validation_rows(splits, rows, recipe.data.get("validation_rows", 0))
    collator = MicoCollator(
        tokenizer=tokenizer,
        alternatives=rows.alternatives if validation is None else validation.alternatives,
        seed=seed,
        most_known=rows.most_known,
        draw_positive=config.positive == "random",
        known_positives=config.mask_known_positives,
        entities=config.self_negatives,
        log_frequencies=rows.log_frequencies(validation) if config.frequency_correction else None,
        prompts=config.prompts,
        **views,
    )
    report = built_report(data, name, builder=builder, **settings)
    # Both directions of a triple, or a premise and its entity, already give each row a negative.
    least_rows = 1 if by_triple or config.self_negatives else 2
    return TrainingData(rows, validation, collator, report, least_rows=least_rows)


def _validation_rows(splits: DatasetDict, rows: PremiseRows, count: int | None) -> PremiseRows | None:
    """Take the first `count` rows of the validation split; None takes all."""
    if count == 0:
        return None
    if "validation" not in splits:
        raise EventformersError(
            f"validation_rows={count} needs a validation split; found {', '.join(splits)}; accepted: "
            "validation_rows=0"
        )
    held = splits["validation"]
    if count is None:
        count = len(held)
    if not 1 < count <= len(held) or count % 2:
        raise EventformersError(
            f"validation_rows: received {count}; accepted: an even number up to the {len(held)} rows"
        )
    return PremiseRows(held.select(range(count)), known=rows)


def _choose_tasks(recipe: Recipe) -> tuple[str, ...]:
    """Choose completion of the training graph, and the multiple-choice tasks."""
    _, config, _ = METHOD.training_dataset(recipe)
    other = "conceptnet_completion" if config.startswith("atomic") else "atomic_completion"
    return tuple(task for task in METHOD.tasks if task != other)


TRAINING = MethodTraining(
    prepare=_prepare,
    data_types={
        "config": str,
        "validation_rows": Number | None,
        **dict.fromkeys(setting_names(CommonsenseGraphsConfig), object),
    },
    view_types={"max_seq_length": TextLength, "num_alternatives": Count, "both_directions": bool},
    choose_tasks=_choose_tasks,
    meanings={
        "config": ("conceptnet_inductive_pairs", "the graph: a config of commonsense_graphs with premises."),
        "validation_rows": (0, "number of first rows of the validation split to validate on; null for all."),
        "both_directions": (False, "draw both directions of a triple in one batch."),
    },
)
