"""Training of MICO: from the pairs of a graph to the views of its head."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from datasets import Dataset, DatasetDict, IterableDataset, concatenate_datasets
from transformers import BatchEncoding, PreTrainedTokenizerBase

from eventformers.built_in import MICO as METHOD
from eventformers.datasets_scripts.commonsense_graphs import graph_of
from eventformers.datasets_scripts.document_splits import text_id
from eventformers.datasets_scripts.known_pairs import Codes, padded
from eventformers.datasets_scripts.loading import built_report, load_built
from eventformers.datasets_scripts.relation_templates import GRAPHS, own_templates
from eventformers.errors import EventformersError, UnknownNameError, shown
from eventformers.models.configuration_mico import MicoConfig
from eventformers.models.modeling_mico import MicoForPreTraining
from eventformers.models.processing_events import EventProcessor
from eventformers.models.text_prompts import prompt_of
from eventformers.strict import Count, Number, Share, TextLength
from eventformers.trainers.data_reports import joint_report, report_with, with_counts
from eventformers.trainers.method import (
    EventCollator,
    MethodTraining,
    TrainingData,
    check_train_split,
    indexed_stream,
    is_streamed,
)
from eventformers.trainers.mico_rows import NO_TEXT, DistillationTexts, PremiseRows, distillation_texts
from eventformers.trainers.recipes import Recipe

logger = logging.getLogger(__name__)

DISTILLATION_SHARE = 0.33
"""Default of the setting `distillation_share`."""


@dataclass
class MicoCollator(EventCollator):
    """Collator of rows of `PremiseRows` into the views of `MicoForPreTraining`.

    Draws for a row depend only on seed, epoch and row: a resumed run, and a run with another number of
    processes, repeats them.

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
        entities: add the entity of each premise.
        log_frequencies: log frequency of each alternative in the training rows of each graph, by graph and
            id, to add to the views; None leaves it out.
        graphs: add the number of each row's graph.
        distillation: the texts outside the graph; None draws none.
        prompts: text before each text by its kind; see `EventConfig`.
        epoch: the current epoch.
        truncated: number of texts truncated so far.
    """

    tokenizer: PreTrainedTokenizerBase
    alternatives: pa.Array | None
    seed: int
    num_alternatives: int = 2
    most_known: int = 1
    max_seq_length: int = 32
    draw_positive: bool = False
    known_positives: bool = False
    entities: bool = False
    log_frequencies: npt.NDArray[np.float32] | None = None
    graphs: bool = False
    distillation: DistillationTexts | None = None
    prompts: Mapping[str, str] | None = None
    epoch: int = 0
    truncated: int = field(default=0, init=False)

    def __call__(
        self, items: Sequence[Sequence[Mapping[str, Any]]] | Sequence[Mapping[str, Any]]
    ) -> dict[str, torch.Tensor]:
        """Collate items of `PremiseRows`, or streamed rows."""
        if self.alternatives is None:
            return self._streamed(cast("Sequence[Mapping[str, Any]]", items))
        rows = [row for item in cast("Sequence[Sequence[Mapping[str, Any]]]", items) for row in item]
        # A batch never mixes validation and training rows.
        count = 1 if rows[0]["is_validation"] else self.num_alternatives
        generators = [self._generator(row) for row in rows]
        drawn = []
        for row, generator in zip(rows, generators, strict=True):
            known = row["known_alternative_ids"]
            places: Iterable[int] = generator.integers(len(known), size=count - 1) if count > 1 else ()
            drawn.append([row["alternative_id"], *(int(known[place]) for place in places)])
        ids = np.array(drawn)
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
            # Sorted, and padded with a number above all ids, `(B, M)`.
            of_rows = [row["known_alternative_ids"] for row in rows]
            fill = len(cast(pa.Array, self.alternatives))
            batch["known_alternative_ids"] = torch.from_numpy(padded(of_rows, self.most_known, fill))
        if self.log_frequencies is not None:
            graphs = np.array([[row["graph"]] for row in rows])
            batch["log_frequency"] = torch.from_numpy(self.log_frequencies[graphs, ids])
        if self.graphs:
            batch["graph"] = torch.tensor([row["graph"] for row in rows])
        if self.entities:
            entity_ids = np.array([row["entity_id"] for row in rows])
            entities = self._encode_alternatives(entity_ids)
            batch["entity_input_ids"] = entities["input_ids"]
            batch["entity_attention_mask"] = entities["attention_mask"]
            batch["entity_ids"] = torch.from_numpy(entity_ids)
        return batch | self._distillation(generators)

    def _streamed(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Collate rows with the columns `premise` and `alternative`."""
        premises = self.encode([row["premise"] for row in rows], "query")
        alternatives = self.encode([row["alternative"] for row in rows], "document")
        batch = {
            "input_ids": premises["input_ids"],
            "attention_mask": premises["attention_mask"],
            "alternative_input_ids": alternatives["input_ids"].unsqueeze(1),
            "alternative_attention_mask": alternatives["attention_mask"].unsqueeze(1),
            "alternative_ids": torch.tensor([[text_id(row["alternative"])] for row in rows]),
        }
        if self.draw_positive:
            batch["positive_index"] = torch.zeros(len(rows), dtype=torch.long)
        return batch | self._distillation([self._generator(row) for row in rows])

    def _generator(self, row: Mapping[str, Any]) -> np.random.Generator:
        return np.random.default_rng((self.seed, self.epoch, row["row"]))

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

    def _encode_alternatives(self, ids: Codes) -> BatchEncoding:
        return self.encode(cast(pa.Array, self.alternatives).take(pa.array(ids)).to_pylist(), "document")

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
    config = head.config
    builder, names, settings = METHOD.training_dataset(recipe)
    _check_graphs(names, config)
    if is_streamed(
        recipe,
        "reads one pair after another, without the other pairs of its premise",
        {
            "validation_rows": (recipe.data.get("validation_rows", 0), 0),
            "num_alternatives": (recipe.views.get("num_alternatives", MicoCollator.num_alternatives), 1),
            "both_directions": (recipe.views.get("both_directions", False), False),
            "mask_known_positives": (config.mask_known_positives, False),
            "self_negatives": (config.self_negatives, False),
            "frequency_correction": (bool(config.frequency_correction), False),
        },
    ):
        return _streamed_data(recipe, data, tokenizer, head, seed)
    graphs = [graph_of(name) for name in names]
    loaded = [cast(DatasetDict, load_built(data, name, builder=builder, **settings)) for name in names]
    for splits in loaded:
        check_train_split(data, splits)
    _set_templates(config, graphs, settings)
    by_triple = recipe.views.get("both_directions", False)
    rows = _joined([splits["train"] for splits in loaded], by_triple=by_triple)
    if (config.self_negatives or by_triple) and not rows.has_both_directions:
        raise EventformersError(
            "self_negatives=true and both_directions=true need both directions of each triple in adjacent "
            "rows, forward first; accepted: a config that ends with _pairs, or false for both settings"
        )
    validation = _validation_rows(loaded, rows, recipe.data.get("validation_rows", 0))
    corrected = [
        number
        for number, graph in enumerate(graphs)
        if config.frequency_correction is True or graph in (config.frequency_correction or ())
    ]
    named = config.frequency_correction if isinstance(config.frequency_correction, list) else []
    if absent := [graph for graph in named if graph not in graphs]:
        logger.warning(
            "frequency_correction names %s, but the training data are of %s; it corrects only graphs that "
            "config lists",
            ", ".join(absent),
            ", ".join(graphs),
        )
    collator = MicoCollator(
        tokenizer=tokenizer,
        alternatives=rows.alternatives if validation is None else validation.alternatives,
        seed=seed,
        most_known=rows.most_known,
        draw_positive=config.positive == "random",
        known_positives=config.mask_known_positives,
        entities=config.self_negatives,
        log_frequencies=rows.log_frequencies(validation, corrected) if config.frequency_correction else None,
        graphs=len(graphs) > 1,
        distillation=_distillation_texts(recipe, tokenizer, head),
        prompts=config.prompts,
        **_collator_views(recipe),
    )
    report = _report(recipe, data, collator)
    # Both directions of a triple, or a premise and its entity, already give each row a negative.
    least_rows = 1 if by_triple or config.self_negatives else 2
    return TrainingData(rows, validation, collator, report, least_rows=least_rows)


def _streamed_data(
    recipe: Recipe,
    data: str | None,
    tokenizer: PreTrainedTokenizerBase,
    head: MicoForPreTraining,
    seed: int,
) -> TrainingData:
    """Make the stream of the pairs of a graph."""
    config = head.config
    builder, names, settings = METHOD.training_dataset(recipe)
    if len(names) > 1:
        raise EventformersError(
            f"streaming=true reads one graph; found config={shown(list(names))}; accepted with it: one config"
        )
    [name] = names
    splits = load_built(data, name, builder=builder, streaming=True, **settings)
    check_train_split(data, splits)
    _set_templates(config, [graph_of(name)], settings)
    rows = cast(IterableDataset, splits["train"].select_columns(["premise", "alternative"]))
    collator = MicoCollator(
        tokenizer=tokenizer,
        alternatives=None,
        seed=seed,
        draw_positive=config.positive == "random",
        distillation=_distillation_texts(recipe, tokenizer, head),
        prompts=config.prompts,
        **_collator_views(recipe),
    )
    return TrainingData(indexed_stream(rows, seed), None, collator, _report(recipe, data, collator))


def _report(recipe: Recipe, data: str | None, collator: MicoCollator) -> dict[str, Any]:
    """Describe the graphs and the texts outside of them."""
    builder, names, settings = METHOD.training_dataset(recipe)
    report = joint_report([built_report(data, name, builder=builder, **settings) for name in names])
    if report and collator.distillation is not None:
        told = {"distillation_texts": len(collator.distillation.texts)}
        report = with_counts(report_with(report, collator.distillation.report), statistics=told)
    return report


def _collator_views(recipe: Recipe) -> dict[str, Any]:
    """Return the settings `views` that `MicoCollator` takes."""
    own = {"both_directions", "distillation_texts", "distillation_share"}
    return {name: value for name, value in recipe.views.items() if name not in own}


def _distillation_texts(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, head: MicoForPreTraining
) -> DistillationTexts | None:
    views = recipe.views
    if not head.config.distillation_weight:
        if views.get("distillation_texts") is not None:
            raise EventformersError(
                f"distillation_texts={views['distillation_texts']} is used only with a distillation_weight "
                "above 0; accepted: distillation_texts=null, or a weight"
            )
        return None
    share = views.get("distillation_share", DISTILLATION_SHARE)
    if not share:
        raise EventformersError(
            "setting distillation_share: found 0; accepted: a number above 0, or distillation_weight=0"
        )
    return distillation_texts(
        views.get("distillation_texts"),
        share,
        head.mico,
        tokenizer,
        views.get("max_seq_length", MicoCollator.max_seq_length),
    )


def _set_templates(config: MicoConfig, graphs: Iterable[str], settings: Mapping[str, Any]) -> None:
    """Write the changed relation templates of the graphs to the configuration."""
    own: dict[str, dict[str, str]] = {}
    for graph in graphs:
        own |= own_templates(graph, settings.get("templates"))
    config.relation_templates = own or None


def _check_graphs(names: Sequence[str], config: MicoConfig) -> None:
    """Check the configs of the graphs, and the fields of the model that depend on their number."""
    for name in names:
        if not isinstance(name, str) or not name.endswith("_pairs"):
            raise EventformersError(
                f"setting config: found {shown(name)}; accepted: a config of premises and alternatives, "
                "whose name ends with _pairs"
            )
    graphs = [graph_of(name) for name in names]
    if len(set(graphs)) < max(len(graphs), 1):
        raise EventformersError(
            f"setting config: found {shown(list(names))}; accepted: one config for each graph"
        )
    if len(graphs) > 1 and config.pre_batch_negatives:
        raise EventformersError(
            f"pre_batch_negatives={config.pre_batch_negatives} would contrast a premise with alternatives of "
            "another graph; accepted: pre_batch_negatives=0, or one graph in config"
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
        "distillation_share": Share,
    },
    choose_tasks=_choose_tasks,
    meanings={
        "config": (
            "conceptnet_inductive_pairs",
            "the graph: a config of commonsense_graphs with premises; or a list with one config for each of "
            "several graphs.",
        ),
        "validation_rows": (
            0,
            "number of first rows of each graph's validation split to validate on; null for all.",
        ),
        "both_directions": (False, "draw both directions of a triple in one batch."),
        "distillation_texts": (
            None,
            "file with a text a line, outside the graph, for `distillation_weight`; null takes 648 bundled "
            "sentences about everyday events and news.",
        ),
        "distillation_share": (DISTILLATION_SHARE, "probability that a row draws such a text."),
    },
)
