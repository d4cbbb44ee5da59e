"""Training of SWCC: from co-occurring events to the views of its head."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import torch
from datasets import Dataset, IterableDataset
from transformers import BatchEncoding, PreTrainedTokenizerBase

from eventformers.built_in import SWCC as METHOD
from eventformers.datasets_scripts.cooccurrence import Normalisation, normalise_frequencies
from eventformers.datasets_scripts.events import Event, EventOrder, event_text
from eventformers.datasets_scripts.loading import built_report, load_built
from eventformers.errors import EventformersError, shown
from eventformers.files import packaged_yaml
from eventformers.models.modeling_swcc import SwccForPreTraining, SwccModel
from eventformers.models.processing_events import EventProcessor
from eventformers.models.text_prompts import longest_input, prompt_of, prompt_tokens
from eventformers.strict import Count, Number, TextLength
from eventformers.trainers.cached_arrays import initial_vectors
from eventformers.trainers.method import (
    EventCollator,
    IndexedRows,
    MethodTraining,
    TrainingData,
    check_columns,
    indexed_stream,
    is_streamed,
)
from eventformers.trainers.recipes import Recipe
from eventformers.trainers.role_substitution import (
    ROLES,
    RoleSubstitution,
    SubstitutionSettings,
    role_words,
    word_stem,
)
from eventformers.trainers.stage_heads import has_dropout

logger = logging.getLogger(__name__)

SENTENCES = ["a {subject} that can {predicate} a {object}"] * 2 + ["they {predicate} the {object}"]
"""The sentences of an event whose vector it learns; the first counts twice."""
SENTENCE_ROWS = 25_600
"""Maximum number of events of the stage `sentences`."""

_SUBSTITUTION_TYPES = get_type_hints(SubstitutionSettings, include_extras=True)


@dataclass
class SwccCollator(EventCollator):
    """Collator of rows of co-occurring events into the views of `SwccForPreTraining`.

    Args:
        tokenizer: the encoder's tokenizer.
        event_order: order of the roles in an event's text.
        frequency_normalization: normalisation of frequencies to weights (`SwccConfig`).
        frequency_minimum: smallest pair frequency of the data.
        frequency_maximum: largest pair frequency of the data.
        seed: seed of all draws.
        max_seq_length: maximum number of tokens of an event.
        mask_tokens: add the view with one masked token.
        substitution: adds a paraphrase and the swaps of each event.
        sentence_vectors: a vector for each row, `(rows, d)`, which replaces all other views.
        co_events_without_shared_words: draw only co-events that share no word with their event. If there is
            none, the weight is 0, and the row is counted.
        prompt: text before each event.
        epoch: the current epoch.
        notes: counts of what rows lacked so far, in words, which training reports.
    """

    tokenizer: PreTrainedTokenizerBase
    event_order: EventOrder
    frequency_normalization: Normalisation
    frequency_minimum: int
    frequency_maximum: int
    seed: int
    max_seq_length: int = 32
    mask_tokens: bool = True
    substitution: RoleSubstitution | None = None
    sentence_vectors: npt.NDArray[np.float32] | None = None
    co_events_without_shared_words: bool = False
    prompt: str = ""
    epoch: int = 0
    notes: Counter[str] = field(default_factory=Counter, init=False)

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Collate rows with the columns `row`, `event`, `co_events`, `frequencies`."""
        check_columns(rows, "event")
        if self.sentence_vectors is not None:
            events = self.encode([row["event"] for row in rows])
            return {
                "input_ids": events["input_ids"],
                "attention_mask": events["attention_mask"],
                "sentence_vectors": torch.from_numpy(self.sentence_vectors[[row["row"] for row in rows]]),
            }
        generators = [np.random.default_rng((self.seed, self.epoch, row["row"])) for row in rows]
        drawn = [self._draw_co_event(row, generator) for row, generator in zip(rows, generators, strict=True)]
        anchors = self.encode([row["event"] for row in rows])
        co_events = self.encode(
            [row["co_events"][place] for row, (place, _) in zip(rows, drawn, strict=True)]
        )
        frequencies = np.array(
            [row["frequencies"][place] for row, (place, _) in zip(rows, drawn, strict=True)]
        )
        weights = normalise_frequencies(
            frequencies, self.frequency_minimum, self.frequency_maximum, self.frequency_normalization
        ) * np.array([usable for _, usable in drawn])
        batch = {
            "input_ids": anchors["input_ids"],
            "attention_mask": anchors["attention_mask"],
            "co_event_input_ids": co_events["input_ids"],
            "co_event_attention_mask": co_events["attention_mask"],
            "co_event_weight": torch.as_tensor(weights, dtype=torch.float32),
        }
        if self.mask_tokens:
            batch.update(self._mask(anchors, generators))
        if self.substitution is not None:
            batch.update(self._substitute(self.substitution, rows, generators))
        return batch

    def _draw_co_event(self, row: Mapping[str, Any], generator: np.random.Generator) -> tuple[int, bool]:
        """Draw a co-event uniformly; return its index and whether its weight counts."""
        places = range(len(row["co_events"]))
        if self.co_events_without_shared_words:
            own, *others = (
                {word_stem(event[role]) for role in ROLES if event[role]}
                for event in (row["event"], *row["co_events"])
            )
            disjoint = [place for place in places if not own & others[place]]
            if not disjoint:
                self.notes["rows without a co-event that shares no word, whose weight is 0"] += 1
                return 0, False
            return disjoint[int(generator.integers(len(disjoint)))], True
        return int(generator.integers(len(places))), True

    def _substitute(
        self,
        substitution: RoleSubstitution,
        rows: Sequence[Mapping[str, Any]],
        generators: Sequence[np.random.Generator],
    ) -> dict[str, torch.Tensor]:
        drawn = list(zip((row["row"] for row in rows), generators, strict=True))
        paraphrases = self.encode([substitution.paraphrase(*draw) for draw in drawn])
        swaps = self.encode([swap for draw in drawn for swap in substitution.swaps(*draw)])
        return {
            "paraphrase_input_ids": paraphrases["input_ids"],
            "paraphrase_attention_mask": paraphrases["attention_mask"],
            "negative_input_ids": swaps["input_ids"].unflatten(0, (len(rows), -1)),
            "negative_attention_mask": swaps["attention_mask"].unflatten(0, (len(rows), -1)),
        }

    def encode(self, events: Sequence[Event]) -> BatchEncoding:
        """Tokenise events to tensors of equal width, counting truncated ones."""
        texts = [event_text(event, self.event_order) for event in events]
        processor = EventProcessor(self.tokenizer, prompts={"event": self.prompt})
        return self.counted(
            processor.tokenise(
                texts,
                max_length=self.longest(self.prompt),
                return_special_tokens_mask=True,
                return_offsets_mapping=bool(self.prompt),
            )
        )

    def _mask(
        self, anchors: BatchEncoding, generators: Sequence[np.random.Generator]
    ) -> dict[str, torch.Tensor]:
        """Mask one token of each event, drawn uniformly from the non-special ones (section 3.3)."""
        maskable = (anchors["special_tokens_mask"] == 0) & (anchors["attention_mask"] == 1)
        if self.prompt:
            maskable &= anchors["offset_mapping"].any(dim=-1)
        positions = torch.tensor(
            [
                int(generator.choice(np.flatnonzero(row)))
                for generator, row in zip(generators, maskable.numpy(), strict=True)
            ]
        )
        everywhere = torch.arange(len(positions))
        masked = anchors["input_ids"].clone()
        labels = masked[everywhere, positions]
        masked[everywhere, positions] = self.tokenizer.mask_token_id
        return {"masked_input_ids": masked, "masked_positions": positions, "masked_token_ids": labels}


def _prepare(
    recipe: Recipe,
    data: str | None,
    tokenizer: PreTrainedTokenizerBase,
    head: SwccForPreTraining,
    seed: int,
) -> TrainingData:
    """Load co-occurring events and make the collator that draws their views."""
    config = head.config
    contrasts = config.stage == "contrast"
    if contrasts and config.mlm_weight and tokenizer.mask_token_id is None:
        raise EventformersError(
            f"mlm_weight is {config.mlm_weight}, but the tokenizer of this "
            f"{config.encoder_config.model_type} encoder has no mask token, so the loss of masked tokens is "
            "not available; accepted: --set mlm_weight=0"
        )
    uses_dropout = config.contrastive_objective in ("weakly_supervised", "dropout_views")
    if contrasts and (uses_dropout or config.cluster_weight) and not has_dropout(head.text_encoders()):
        logger.warning(
            "the encoder has no dropout, so the dropout views of an event are equal and teach nothing; "
            "--set encoder_dropout=0.1 adds dropout"
        )
    builder, [name], settings = METHOD.training_dataset(recipe)
    validation_rows = recipe.data.get("validation_rows", 0)
    streaming = is_streamed(
        recipe,
        "cannot select rows",
        {
            "validation_rows": (validation_rows, 0),
            "shared_word_weight": (config.shared_word_weight, 0),
            **({} if contrasts else {"stages": ("[sentences]", "[contrast]")}),
        },
    )
    views = dict(recipe.views)
    sentences = views.pop("sentences", SENTENCES)
    sentence_rows = views.pop("sentence_rows", SENTENCE_ROWS)
    substitution = SubstitutionSettings(**{key: views.pop(key) for key in _SUBSTITUTION_TYPES.keys() & views})
    if contrasts and config.shared_word_weight and not substitution.swapped_roles:
        raise EventformersError(
            "object_swaps and subject_swaps are 0; accepted: at least one swap of a role, "
            "or shared_word_weight=0"
        )
    rows = load_built(data, name, builder=builder, streaming=streaming, **settings)["train"]
    report = built_report(data, name, builder=builder, **settings)
    minimum, maximum = _frequency_range(rows, report)
    collator = SwccCollator(
        tokenizer=tokenizer,
        event_order=config.event_order,
        frequency_normalization=config.frequency_normalization,
        frequency_minimum=minimum,
        frequency_maximum=maximum,
        seed=seed,
        mask_tokens=bool(config.mlm_weight),
        prompt=prompt_of(config.prompts),
        **views,
    )
    if isinstance(rows, IterableDataset):
        return TrainingData(indexed_stream(rows, seed), None, collator, report)
    skipped: dict[str, int] = {}
    if not contrasts:
        *_, kept, skipped = role_words(rows, substitution.min_role_frequency)
        rows = rows.select(np.sort(np.random.default_rng(seed).permutation(kept)[:sentence_rows]))
        skipped["event_beyond_sentence_rows"] = len(kept) - len(rows)
        collator.sentence_vectors = sentence_vectors(rows["event"], sentences, head.swcc, tokenizer)
    elif config.shared_word_weight:
        collator.substitution = RoleSubstitution(rows, head.swcc, tokenizer, substitution)
        rows, skipped = rows.select(collator.substitution.kept), collator.substitution.skipped
    if skipped:
        report = {**report, "rows": len(rows), "skipped": {**report.get("skipped", {}), **skipped}}
    if not validation_rows:
        return TrainingData(IndexedRows(rows), None, collator, report)
    if not 0 < validation_rows < len(rows):
        raise EventformersError(
            f"validation_rows: received {validation_rows}; accepted: fewer than the {len(rows)} rows"
        )
    shuffled = np.random.default_rng(seed).permutation(len(rows))
    train, validation = shuffled[validation_rows:], shuffled[:validation_rows]
    return TrainingData(IndexedRows(rows, train), IndexedRows(rows, validation), collator, report)


def sentence_vectors(
    events: Iterable[Event], sentences: Sequence[str], model: SwccModel, tokenizer: PreTrainedTokenizerBase
) -> npt.NDArray[np.float32]:
    """Encode the sentences of events, beyond the paper: an encoder reads a verb better in a sentence than
    between two nouns.

    Args:
        sentences: texts with `{subject}`, `{predicate}` and `{object}`; one that is listed twice counts
            twice.
        model: the model before the stage.

    Returns:
        The sum of the unit vectors of an event's sentences, `(events, d)`.

    Raises:
        EventformersError: a sentence has other words in braces or none, or there is no sentence.
    """
    faulty = [sentence for sentence in sentences if not _has_roles_alone(sentence)]
    if faulty or not sentences:
        raise EventformersError(
            f"setting sentences: found {shown(faulty[0] if faulty else [])}; accepted: texts with "
            "{subject}, {predicate} or {object}, and nothing else in braces"
        )
    events = list(events)
    longest = longest_input(tokenizer, model.config.encoder_config)
    longest -= len(prompt_tokens(tokenizer, prompt_of(model.config.prompts)))
    total: Any = 0
    for sentence, times in Counter(sentences).items():
        texts = [sentence.format(**event) for event in events]
        vectors = initial_vectors(texts, model, tokenizer, longest)
        total = total + times * vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return total


def _has_roles_alone(sentence: str) -> bool:
    """Return whether a text has roles in braces, and nothing else there."""
    try:
        found = {tuple(part) for _, *part in Formatter().parse(sentence) if part[0] is not None}
    except ValueError:
        return False
    return bool(found) and found <= {(role, "", None) for role in ROLES}


def _frequency_range(rows: Dataset | IterableDataset, report: Mapping[str, Any]) -> tuple[int, int]:
    """Return the smallest and largest pair frequency, from the build report or from the rows."""
    statistics = report.get("statistics", {})
    if statistics.get("minimum_pair_frequency") is not None:
        return statistics["minimum_pair_frequency"], statistics["maximum_pair_frequency"]
    if isinstance(rows, IterableDataset):
        raise EventformersError(
            "streaming=true needs the frequency range of a build report, which the dataset lacks; accepted: "
            "a folder that `eventformers data build` wrote, or streaming=false"
        )
    extremes = [
        pc.min_max(pc.list_flatten(chunk)).as_py() for chunk in rows.data.column("frequencies").chunks
    ]
    return min(part["min"] for part in extremes), max(part["max"] for part in extremes)


TRAINING = MethodTraining(
    prepare=_prepare,
    streams=True,
    data_types={
        "validation_rows": Number,
    },
    view_types={
        "max_seq_length": TextLength,
        "co_events_without_shared_words": bool,
        "sentences": list[str],
        "sentence_rows": Count,
        **_SUBSTITUTION_TYPES,
    },
    meanings=packaged_yaml(__file__, "meanings.yaml")["swcc"],
)
