"""Training of HeterEvent: from event chains to the inputs of its stages."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast, get_type_hints

import numpy as np
import torch
from datasets import DatasetDict, IterableDataset
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerBase

from eventformers.built_in import HETEREVENT as METHOD
from eventformers.datasets_scripts.chains import EventPool, argument_texts, draw_distractors, event_key
from eventformers.datasets_scripts.document_splits import SeededDraws, text_id
from eventformers.datasets_scripts.events import Event, EventOrder, event_text
from eventformers.datasets_scripts.known_pairs import PADDING, Codes, padded
from eventformers.datasets_scripts.loading import built_report, load_built
from eventformers.errors import EventformersError, shown
from eventformers.files import packaged_yaml
from eventformers.models.configuration_heterevent import HeterEventConfig
from eventformers.models.event_items import ROLES
from eventformers.models.modeling_heterevent import HeterEventForPreTraining
from eventformers.models.processing_heterevent import HeterEventProcessor, words_of
from eventformers.models.text_prompts import longest_input, prompt_of
from eventformers.strict import Count, Number, Range, Share, TextLength
from eventformers.trainers.chain_corruption import LEAST_EVENTS, CorruptionSettings, corrupt_chains
from eventformers.trainers.chain_rows import (
    MOST_REPEATS,
    ChainRows,
    Row,
    StreamedChains,
    read_chains_once,
    stream_chains,
)
from eventformers.trainers.data_reports import with_counts
from eventformers.trainers.method import (
    EventCollator,
    IndexedRows,
    MethodTraining,
    TrainingData,
    check_columns,
    check_train_split,
    is_streamed,
)
from eventformers.trainers.recipes import Recipe

logger = logging.getLogger(__name__)

Batch = dict[str, torch.Tensor]


@dataclass
class HeterEventCollator(EventCollator):
    """Collator of rows of `ChainRows` into the inputs of a stage of `HeterEventForPreTraining`.

    The distinct events of a batch are tokenised once; chains and corruptions are indices into them.

    Args:
        tokenizer: the encoder's tokenizer, a fast one.
        chains: the training rows, or the events of streamed ones.
        config: the head's configuration: its stage, the weights of its terms, the order of roles.
        seed: seed of all draws.
        pool: events to draw distractors from; None without distractors.
        max_seq_length: maximum number of tokens of an event.
        max_chain_length: maximum number of events of a chain.
        context: what the text encoder reads at once in the stage `masked_words`: the text of a `chain`, its
            events joined by the tokenizer's separator, or each `event` alone, as in the other stages.
        masking_probability: share of masked tokens (stage `masked_words`); as for BERT, of ten chosen tokens
            eight become the mask, one another token, and one stays.
        corruption: settings of corruptions (stage `sequence`).
        num_incoming_events: number of events of other chains to draw for each chain, for substitution in its
            corruptions. Each one is encoded, so this number determines the cost, not that of corruptions.
        num_views: number of corrupted views of a chain's graph, N_g (stage `graph`).
        target: the left-out event (stage `supervised`): `random`, or `last` as in the questions.
        num_distractors: number of distractors of each left-out event, drawn as those of the questions. In the
            stage `supervised` they are further wrong choices; in the stage `sequence`, further events to
            substitute.
        epoch: the current epoch.
        notes: counts of what rows lacked so far, in words, which training reports.
    """

    tokenizer: PreTrainedTokenizerBase
    chains: ChainRows | StreamedChains
    config: HeterEventConfig
    seed: int
    pool: EventPool | None = None
    max_seq_length: int = 32
    max_chain_length: int = 9
    context: Literal["chain", "event"] = "chain"
    masking_probability: float = 0.15
    corruption: CorruptionSettings = field(default_factory=CorruptionSettings)
    num_incoming_events: int = 8
    num_views: int = 8
    target: Literal["random", "last"] = "random"
    num_distractors: int = 0
    epoch: int = 0
    notes: Counter[str] = field(default_factory=Counter, init=False)

    def __call__(self, rows: Sequence[Row]) -> Batch:
        """Collate rows of `ChainRows`, streamed rows, or validation questions."""
        check_columns(rows, "row", "choices", "events")
        # A batch never mixes validation and training rows.
        if "choices" in rows[0]:
            return self._questions(rows)
        if isinstance(self.chains, StreamedChains):
            rows = self.chains.numbered(rows, substitutes=_substitutes(self.config))
        generators = [np.random.default_rng((self.seed, self.epoch, row["row"])) for row in rows]
        stages = {
            "masked_words": self._masked_words,
            "sequence": self._sequence,
            "graph": self._graph,
            "supervised": self._supervised,
        }
        return stages[self.config.stage](rows, generators)

    def _masked_words(self, rows: Sequence[Row], generators: Sequence[np.random.Generator]) -> Batch:
        config, tokenizer = self.config, self.tokenizer
        events = [
            [event_text(event, config.event_order) for event in self.chains.events(row["events"])]
            for row in rows
        ]
        longest = self.longest(prompt_of(config.prompts))
        if self.context == "chain":
            texts = [f" {tokenizer.sep_token or ''} ".join(of_chain) for of_chain in events]
            longest = min(longest_input(tokenizer, config.encoder_config), longest * self.max_chain_length)
        else:
            texts = [text for of_chain in events for text in of_chain]
            generators = [
                generator for generator, of_chain in zip(generators, events, strict=True) for _ in of_chain
            ]
        processor = HeterEventProcessor(tokenizer, config.event_order, prompts=config.prompts)
        encoded = self.counted(processor.tokenise(texts, max_length=longest))
        masking = DataCollatorForLanguageModeling(tokenizer, mlm_probability=self.masking_probability)
        ids, labels = encoded["input_ids"], torch.full_like(encoded["input_ids"], -100)
        for row, (is_token, generator) in enumerate(
            zip(encoded["attention_mask"].bool(), generators, strict=True)
        ):
            # Without padding, the draws do not depend on the other rows.
            masking.generator = torch.Generator().manual_seed(int(generator.integers(2**62)))
            masked, chosen = masking.torch_mask_tokens(ids[row, is_token].unsqueeze(0))
            ids[row, is_token], labels[row, is_token] = masked[0], chosen[0]
        return {
            "input_ids": ids,
            "attention_mask": encoded["attention_mask"],
            "masked_token_ids": labels,
        }

    def _sequence(self, rows: Sequence[Row], generators: Sequence[np.random.Generator]) -> Batch:
        config = self.config
        substitutes = bool(config.replacement_weight or config.composition_weight)
        numbers = padded([row["events"] for row in rows], self.max_chain_length)
        if substitutes:
            numbers = np.concatenate([numbers, np.stack([self._incoming(row) for row in rows])], axis=1)
        distinct, places = _distinct(numbers)
        events = self.chains.events(distinct)
        chains, incoming = places[:, : self.max_chain_length], places[:, self.max_chain_length :]
        if substitutes and self.num_distractors:
            table = _EventTable(events)
            # A row without distractors repeats its incoming events.
            drawn = np.resize(incoming.T, (self.num_distractors, len(rows))).T.copy()
            for of_row, row in zip(drawn, rows, strict=True):
                if distractors := self._distractors(row):
                    of_row[:] = table.numbers(distractors)
            incoming = np.concatenate([incoming, drawn], axis=1)
        corrupted = corrupt_chains(
            chains,
            incoming,
            generators,
            self.corruption,
            order=bool(config.order_weight),
            replacement=bool(config.replacement_weight),
            composition=bool(config.composition_weight),
        )
        width = max(len(row["events"]) for row in rows)
        tensors = {"chains": chains, **corrupted}
        return {
            **self._tokenised(events),
            **{name: torch.from_numpy(value[..., :width].copy()) for name, value in tensors.items()},
        }

    def _incoming(self, row: Row) -> Codes:
        """Draw events of other chains whose texts differ from those of this chain."""
        # A separate generator, so that a run without substitution draws the same orders.
        generator = np.random.default_rng((self.seed, self.epoch, row["row"], 1))
        reading = self.chains.reading
        own = reading[row["chain_events"]]
        found: list[int] = []
        while len(found) < self.num_incoming_events:
            drawn = self.chains.draw(generator, self.num_incoming_events)
            found.extend(drawn[~np.isin(reading[drawn], own)].tolist())
        return np.array(found[: self.num_incoming_events], dtype=np.int64)

    def _graph(self, rows: Sequence[Row], generators: Sequence[np.random.Generator]) -> Batch:
        distinct, places = _distinct(padded([row["events"] for row in rows]))
        seeds = np.stack([generator.integers(2**62, size=self.num_views) for generator in generators])
        return {
            **self._tokenised(self.chains.events(distinct)),
            "chains": torch.from_numpy(places),
            "view_seeds": torch.from_numpy(seeds),
        }

    def _supervised(self, rows: Sequence[Row], generators: Sequence[np.random.Generator]) -> Batch:
        contexts, targets, positions = [], [], []
        for row, generator in zip(rows, generators, strict=True):
            chain = row["events"]
            position = len(chain) - 1 if self.target == "last" else int(generator.integers(len(chain)))
            contexts.append(np.delete(chain, position))
            targets.append(chain[position])
            positions.append(position)
        numbers = np.concatenate([np.array(targets)[:, None], padded(contexts)], axis=1)
        distinct, places = _distinct(numbers)
        events = self.chains.events(distinct)
        if self.num_distractors:
            table = _EventTable(events)
            for row in rows:
                table.numbers(self._distractors(row))
        return {
            **self._tokenised(events),
            "chains": torch.from_numpy(places[:, 1:].copy()),
            "target_events": torch.from_numpy(places[:, 0].copy()),
            "target_position": torch.tensor(positions),
        }

    def _distractors(self, row: Row) -> list[Event]:
        """Draw distractors of a row as for a question; empty if that fails."""
        draws = SeededDraws(self.seed, self.epoch, row["row"])
        arguments = argument_texts(self.chains.events(row["events"]))
        taken = {event_key(event) for event in self.chains.events(row["chain_events"])}
        pool = cast(EventPool, self.pool)
        found = draw_distractors(self.num_distractors, arguments, taken, pool, draws)
        if found is None:
            self.notes["rows without distractors, in whose place incoming events are wrong answers"] += 1
        return found or []

    def _questions(self, rows: Sequence[Row]) -> Batch:
        """Collate questions: the true choice is the left-out event, the others are its `choices`."""
        table = _EventTable([])
        contexts = [np.array(table.numbers(row["context"])) for row in rows]
        choices = [table.numbers(row["choices"]) for row in rows]
        targets = [places.pop(row["label"]) for row, places in zip(rows, choices, strict=True)]
        return {
            **self._tokenised(table.events),
            "chains": torch.from_numpy(padded(contexts)),
            "target_events": torch.tensor(targets),
            "target_position": torch.tensor([len(context) for context in contexts]),
            "choices": torch.from_numpy(padded([np.array(places) for places in choices])),
        }

    def _tokenised(self, events: Sequence[Event]) -> Batch:
        """Tokenise the distinct events of a batch, counting truncated ones."""
        config = self.config
        if not self.tokenizer.is_fast:
            raise EventformersError(
                f"{type(self.tokenizer).__name__} does not return the offsets of tokens; accepted: a fast "
                "tokenizer, with a tokenizer.json"
            )
        if (without := next((event for event in events if not event_text(event).strip()), None)) is not None:
            raise EventformersError(
                f"found the event {shown(dict(without))}; accepted: an event with a word in some role"
            )
        processor = HeterEventProcessor(self.tokenizer, config.event_order, prompts=config.prompts)
        longest = self.longest(prompt_of(config.prompts))
        encoded = dict(self.counted(processor.events(events, max_length=longest)))
        if config.stage == "supervised":
            encoded.update(event_keys(events, config.event_order))
        return encoded


def event_keys(events: Sequence[Event], event_order: EventOrder) -> dict[str, torch.Tensor]:
    """Hash events and words, so that several processes recognise equal ones.

    Returns:
        `event_keys` `(E,)`, and `word_keys` `(W,)` in the order of `word_index`, each of 63 bits.
    """
    texts = [event_text(event, event_order) for event in events]
    words = dict.fromkeys(word for text in texts for word in words_of(text))
    return {
        "event_keys": torch.tensor([text_id(*(event[role] for role in ROLES)) for event in events]),
        "word_keys": torch.tensor([text_id(word) for word in words]),
    }


class _EventTable:
    """Distinct events and their numbers; new events are appended to `events`."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self._numbers = {_roles(event): number for number, event in enumerate(events)}

    def numbers(self, events: Sequence[Event]) -> list[int]:
        for event in events:
            if self._numbers.setdefault(_roles(event), len(self.events)) == len(self.events):
                self.events.append(event)
        return [self._numbers[_roles(event)] for event in events]


def _roles(event: Event) -> tuple[str, ...]:
    return event["subject"], event["predicate"], event["object"]


def _distinct(numbers: Codes) -> tuple[Codes, Codes]:
    """Return the distinct numbers, and the index of each given number among them; -1 stays -1."""
    distinct, places = np.unique(numbers, return_inverse=True)
    padding = int(len(distinct) > 0 and distinct[0] == PADDING)
    return distinct[padding:], places.reshape(numbers.shape) - padding


def _prepare(
    recipe: Recipe,
    data: str | None,
    tokenizer: PreTrainedTokenizerBase,
    head: HeterEventForPreTraining,
    seed: int,
) -> TrainingData:
    """Load chains and make the collator of the head's stage."""
    config = head.config
    if config.stage == "masked_words" and tokenizer.mask_token_id is None:
        raise EventformersError(
            f"the tokenizer of this {config.encoder_config.model_type} encoder has no mask token; accepted: "
            "stages without masked_words"
        )
    views = dict(recipe.views)
    builder, [name], settings = METHOD.training_dataset(recipe)
    share = views.pop("document_share", 0.0)
    cloze_share = views.pop("cloze_share", 0.0)
    streaming = is_streamed(recipe, "reads no whole documents", {"document_share": (share, 0.0)})
    splits = load_built(data, name, builder=builder, streaming=streaming, **settings)
    check_train_split(data, splits)
    chains, length = splits["train"], views.get("max_chain_length", 9)
    all_windows = views.pop("all_windows", True)
    stream, statistics, skipped = None, {}, {}
    if isinstance(chains, IterableDataset):
        # The pool stands for all rows below.
        stream, rows = stream_chains(chains, seed, length, all_windows=all_windows)
    else:
        arrays = read_chains_once(
            chains,
            data,
            builder,
            settings,
            share=share,
            cloze_share=cloze_share,
            length=length,
            seed=seed,
        )
        rows = ChainRows(arrays, length, all_windows=all_windows)
        num_chains, *windows = arrays["sizes"].tolist()
        statistics = {"document_windows": sum(windows)}
        skipped = {"chain_of_no_share": len(chains) - num_chains, **rows.skipped}
        if arrays["times"].max(initial=0) == MOST_REPEATS:
            kinds = ("of cloze contexts", "of documents")[-len(windows) :]
            found = [f"{number} windows {kind}" for number, kind in zip(windows, kinds, strict=True)]
            logger.warning(
                "document_share=%s and cloze_share=%s do not hold with %d chains, %s: the scarce ones occur "
                "%d times each, and the others have the rest",
                share,
                cloze_share,
                num_chains,
                " and ".join(found),
                MOST_REPEATS,
            )
    if not len(rows):
        raise EventformersError(
            f"found {rows.num_chains} chains, none with {LEAST_EVENTS} different events; accepted: longer "
            "chains, or a lower min_chain_length"
        )
    if _substitutes(config) and rows.has_chain_of_all_texts():
        raise EventformersError(
            "found a chain that contains all events of the data, so there are none to substitute; accepted: "
            "more chains, or replacement_weight=0 and composition_weight=0"
        )
    corruption = CorruptionSettings(
        **{key: views.pop(key) for key in CorruptionSettings.__dataclass_fields__ if key in views}
    )
    pool = None
    if config.stage in ("sequence", "supervised") and views.get("num_distractors"):
        pool = rows.event_pool()
    source = rows if stream is None else StreamedChains(rows)
    collator = HeterEventCollator(tokenizer, source, config, seed, pool, corruption=corruption, **views)
    report = with_counts(built_report(data, name, builder=builder, **settings), skipped, statistics)
    questions = _questions(recipe, data, config, settings)
    # The losses contrast a chain with its own corruptions and views, and an event with others of its chain.
    return TrainingData(rows if stream is None else stream, questions, collator, report, least_rows=1)


def _substitutes(config: HeterEventConfig) -> bool:
    """True if corruptions replace events by those of other chains."""
    return config.stage == "sequence" and bool(config.replacement_weight or config.composition_weight)


def _questions(
    recipe: Recipe, data: str | None, config: HeterEventConfig, settings: Mapping[str, Any]
) -> IndexedRows | None:
    """Take the first `validation_rows` questions of the validation split; None takes all."""
    count = recipe.data.get("validation_rows", 0)
    if count == 0:
        return None
    if config.stage != "supervised":
        raise EventformersError(
            f"validation_rows={count}: the stage {config.stage} cannot be validated on questions; accepted: "
            f"0, or supervised.validation_rows={count}"
        )
    builder, _ = METHOD.dataset
    splits = cast(DatasetDict, load_built(data, "mcnc", builder=builder, **settings))
    if "validation" not in splits:
        raise EventformersError(
            f"validation_rows={count} needs questions of a validation split; found the splits "
            f"{', '.join(splits) or 'none'}; accepted: validation_rows=0, or a validation_share above 0"
        )
    held = splits["validation"]
    count = len(held) if count is None else count
    if not 0 < count <= len(held):
        raise EventformersError(
            f"validation_rows: received {count}; accepted: a number up to the {len(held)} questions"
        )
    return IndexedRows(held.select(range(count)))


TRAINING = MethodTraining(
    prepare=_prepare,
    streams=True,
    data_types={
        "validation_rows": Number | None,
    },
    view_types={
        "max_seq_length": TextLength,
        "max_chain_length": Annotated[int, Range(least=LEAST_EVENTS)],
        "context": Literal["chain", "event"],
        "masking_probability": Share,
        "all_windows": bool,
        **get_type_hints(CorruptionSettings, include_extras=True),
        "num_incoming_events": Count,
        "num_views": Annotated[int, Range(least=2)],
        "target": Literal["random", "last"],
        "num_distractors": Number,
        "document_share": Share,
        "cloze_share": Share,
    },
    meanings=packaged_yaml(__file__, "meanings.yaml")["heterevent"],
)
