"""Training of event type induction: from mentions of seen and unseen types to the views of its head."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow.compute as pc
import torch
from datasets import Dataset, IterableDataset
from torch.utils.data import Dataset as TorchDataset
from transformers import BatchEncoding, PreTrainedTokenizerBase

from eventformers.built_in import EVENT_TYPE_INDUCTION as METHOD
from eventformers.datasets_scripts.frame_reader import frame_descendants
from eventformers.datasets_scripts.known_pairs import Codes, codes_of, grouped, text_column
from eventformers.datasets_scripts.loading import built_report, load_built
from eventformers.errors import DataFormatError, EventformersError
from eventformers.files import packaged_yaml
from eventformers.models.modeling_event_type_induction import EventTypeInductionForPreTraining
from eventformers.models.processing_event_type_induction import (
    TRIGGER_MARKERS,
    EventTypeInductionProcessor,
    Mention,
)
from eventformers.models.processing_events import EventProcessor, num_truncated
from eventformers.models.text_prompts import longest_input, prompt_of
from eventformers.models.type_losses import UNSEEN
from eventformers.strict import ShareBelowOne, TextLength
from eventformers.trainers.callbacks import UnseenMentions
from eventformers.trainers.data_reports import report_with, with_counts
from eventformers.trainers.mention_augmentation import BackTranslations, back_translate, word_noise
from eventformers.trainers.method import (
    EventCollator,
    MethodTraining,
    TrainingData,
    add_marker_tokens,
    check_columns,
    indexed_stream,
    is_streamed,
)
from eventformers.trainers.recipes import Recipe

BATCH_SIZE = 64
_CHOOSING_MENTIONS = 5_000
"""Maximum number of mentions of unseen types that choose the checkpoint: 0.6 GB for the distances of all
pairs."""

BLOCK_ROWS = 10_000

logger = logging.getLogger(__name__)


class MentionRows(TorchDataset):
    """Mentions with the number of a seen type; labels of unseen types are dropped.

    Args:
        mentions: rows of `EventTypes`, config `mentions` or `ace2005`.
        reads_trigger: whether the input marks the trigger.
        reads_sentence_types: whether a row has the types of its sentence.

    Attributes:
        seen_types: the seen types in alphabetical order; a type's place is its number.
        type_ids: number of each mention's type, `(rows,)`; -1 for an unseen type.
        num_unseen_types: number of unseen types.
    """

    def __init__(
        self, mentions: Dataset, *, reads_trigger: bool = False, reads_sentence_types: bool = False
    ) -> None:
        self._mentions = mentions.select_columns(_mention_columns(reads_trigger))
        table = mentions.select_columns(["event_type", "seen"]).with_format("arrow")[:]
        names, is_seen = text_column(table, "event_type"), table.column("seen").combine_chunks()
        seen = names.filter(is_seen).unique().sort()
        self.seen_types: list[str] = seen.to_pylist()
        # Only choosing a checkpoint uses unseen labels, and only their number.
        unseen = names.filter(pc.and_not(pc.not_equal(names, ""), is_seen))
        self.num_unseen_types = pc.count_distinct(unseen).as_py()
        is_unseen = ~is_seen.to_numpy(zero_copy_only=False)
        self.type_ids = np.where(is_unseen, UNSEEN, codes_of(names, seen))
        self._sentence_types: tuple[Codes, Codes, Codes] | None = None
        if reads_sentence_types:
            texts = text_column(mentions.select_columns(["text"]).with_format("arrow")[:], "text")
            sentences = texts.dictionary_encode()
            numbers = sentences.indices.to_numpy().astype(np.int64)
            # Each unseen type is the entry after the seen ones.
            types = np.where(is_unseen, len(seen), self.type_ids)
            self._sentence_types = (
                numbers,
                *grouped(numbers, types, len(sentences.dictionary), len(seen) + 1),
            )

    def __len__(self) -> int:
        return len(self._mentions)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        """Return the mention of a row, its type and, if they are read, the types of its sentence.

        `sentence_types` is `(seen types + 1,)` bool; the last entry is any unseen type.
        """
        [mention] = self.mentions([index])
        row = {"row": index, "mention": mention, "type_id": int(self.type_ids[index])}
        if self._sentence_types is None:
            return row
        numbers, starts, types = self._sentence_types
        start, end = starts[numbers[index] : numbers[index] + 2]
        of_sentence = torch.zeros(len(self.seen_types) + 1, dtype=torch.bool)
        of_sentence[types[start:end]] = True
        return {**row, "sentence_types": of_sentence}

    def mentions(self, places: Sequence[int] | Codes) -> list[Mention]:
        """Return the mentions of rows."""
        return [Mention(*row) for row in zip(*self._mentions[places].values(), strict=True)]

    def batches(self) -> Iterator[list[Mention]]:
        """Yield all mentions in batches."""
        for start in range(0, len(self), BATCH_SIZE):
            yield self.mentions(range(start, min(start + BATCH_SIZE, len(self))))

    def unseen(self) -> list[Mention]:
        """Return mentions of unseen types: all, or `_CHOOSING_MENTIONS` evenly spaced ones with a warning."""
        rows = np.flatnonzero(self.type_ids == UNSEEN)
        if len(rows) <= _CHOOSING_MENTIONS:
            return self.mentions(rows)
        logger.warning(
            "%d evenly spaced ones of %d mentions of unseen types choose the checkpoint, since their "
            "clustering needs the distances of all pairs",
            _CHOOSING_MENTIONS,
            len(rows),
        )
        places = np.linspace(0, len(rows) - 1, _CHOOSING_MENTIONS).round().astype(np.int64)
        return self.mentions(rows[places])


def _mention_columns(reads_trigger: bool) -> list[str]:
    return ["text", *(["trigger_start", "trigger_end"] if reads_trigger else [])]


def streamed_mentions(
    mentions: IterableDataset, seed: int, *, reads_trigger: bool = False
) -> tuple[IterableDataset, list[str]]:
    """Make the rows of `MentionRows` from a stream, after one pass over the types.

    Returns:
        The endless stream of rows, and the seen types in alphabetical order.
    """
    seen: set[str] = set()
    types = mentions.select_columns(["event_type", "seen"]).with_format("arrow")
    for table in types.iter(BLOCK_ROWS):
        names = text_column(table, "event_type").filter(table.column("seen").combine_chunks())
        seen.update(names.unique().to_pylist())
    # `sort` of Arrow compares UTF-8, and so code points, as Python does.
    seen_types = sorted(seen)
    numbers = {name: number for number, name in enumerate(seen_types)}
    columns = _mention_columns(reads_trigger)

    def row_of(row: Mapping[str, Any]) -> dict[str, Any]:
        type_id = numbers[row["event_type"]] if row["seen"] else UNSEEN
        return {"mention": Mention(*(row[name] for name in columns)), "type_id": type_id}

    read = mentions.select_columns([*columns, "event_type", "seen"])
    rows = indexed_stream(read, seed).map(row_of, remove_columns=[*columns, "event_type", "seen"])
    return rows, seen_types


class FrameExamples(NamedTuple):
    """The frames with a definition and examples.

    Attributes:
        left_out: number of frames left out because mentions without a known type evoke them, or a frame from
            which they inherit.
    """

    definitions: list[str]
    sentences: list[list[str]]
    left_out: int

    def draw(self, generator: np.random.Generator) -> tuple[int, str, str]:
        """Draw a frame, then one of its examples, each with equal probability: the number of the frame, the
        example, and the frame's definition."""
        number = int(generator.integers(len(self.definitions)))
        sentences = self.sentences[number]
        return number, sentences[int(generator.integers(len(sentences)))], self.definitions[number]

    def counts(self) -> dict[str, int]:
        """Numbers for the card."""
        return {
            "frames_with_examples": len(self.definitions),
            "frame_examples": sum(map(len, self.sentences)),
            "frames_of_unseen_types_left_out": self.left_out,
        }


def frame_examples(frames: Dataset, mentions: Dataset | IterableDataset) -> FrameExamples:
    """Collect the examples from which training may learn.

    The frames of mentions that are not `seen`, and all frames that inherit from them, are left out: linking
    the types of these mentions is to be scored on frames whose examples the encoder does not know.

    Args:
        frames: rows of `EventTypes`, config `frames`.
        mentions: rows of its config `mentions` or `ace2005`.

    Raises:
        EventformersError: no frame with a definition and an example is left.
    """
    below, unseen, without = frame_descendants(frames), set[str](), 0
    for block in mentions.select_columns(["seen", "frames"]).iter(BLOCK_ROWS):
        for seen, names in zip(block["seen"], block["frames"], strict=True):
            if not seen:
                unseen.update(names)
                without += not names
    strange = unseen.difference(frames["name"])
    if without or strange:
        logger.warning(
            "examples of frames that unseen types evoke may be among the training examples: %d unseen "
            "mentions name no frame, and %d frames of the others are not among the %d frames",
            *(without, len(strange), len(frames)),
        )
    unseen.update(*(below.get(name, ()) for name in unseen))
    # A dataset that an earlier version built lacks the column.
    known = [frame for frame in frames if frame["definition"] and frame.get("examples")]
    kept = [frame for frame in known if frame["name"] not in unseen]
    if not kept:
        all_unseen = ", all of them frames of unseen types" if known else ""
        raise EventformersError(
            "frame_example_weight needs frames with a definition and examples; found "
            f"{len(known):,} among {len(frames):,} frames{all_unseen}; "
            "accepted: frame_example_weight=0, or as the setting frames FrameNet's folder or a dataset built "
            "from it by this version"
        )
    return FrameExamples(
        [frame["definition"] for frame in kept],
        [frame["examples"] for frame in kept],
        len(known) - len(kept),
    )


_MAX_LABEL_TOKENS = 256


@dataclass
class EventTypeInductionCollator(EventCollator):
    """Collator of rows of `MentionRows` into the views of `EventTypeInductionForPreTraining`.

    Args:
        tokenizer: the encoder's tokenizer.
        seed: seed of all draws.
        word_dropout: share of the words that an augmented view by word noise drops.
        translations: back-translations of the sentences; None uses word noise for all views. A mention
            with a trigger always has it: a back-translation loses the position of the trigger.
        marks_trigger: put marker tokens around each trigger.
        pools_trigger: add the masks of the triggers.
        max_seq_length: maximum number of tokens of a sentence.
        type_name_vectors: vector of the name of each seen type, `(types, hidden_size)`; None leaves it out.
        frame_vectors: vector of its frame's definition, `(types, hidden_size)`; None leaves it out.
        frame_examples: draws an example of a frame for each mention; None draws none.
        prompt: text before each sentence.
        epoch: the current epoch.
    """

    tokenizer: PreTrainedTokenizerBase
    seed: int
    word_dropout: float = 0.1
    translations: BackTranslations | None = None
    marks_trigger: bool = False
    pools_trigger: bool = False
    max_seq_length: int = 128
    type_name_vectors: torch.Tensor | None = None
    frame_vectors: torch.Tensor | None = None
    frame_examples: FrameExamples | None = None
    prompt: str = ""
    epoch: int = 0

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Collate rows of `MentionRows`."""
        check_columns(rows, "mention")
        mentions = [row["mention"] for row in rows]
        generators = [np.random.default_rng((self.seed, self.epoch, row["row"])) for row in rows]
        views = []
        for mention, generator in zip(mentions, generators, strict=True):
            if self.translations is None or mention.has_trigger:
                views.append(word_noise(mention, generator, self.word_dropout))
            else:
                views.append(self.translations(mention, generator))
        type_ids = torch.tensor([row["type_id"] for row in rows])
        batch = {
            **self.encode(mentions),
            **{f"augmented_{name}": value for name, value in self.encode(views).items()},
            "type_ids": type_ids,
        }
        for name in ("type_name_vectors", "frame_vectors"):
            if (vectors := getattr(self, name)) is not None:
                # The loss ignores the rows of unseen types.
                batch[name] = vectors[type_ids.clamp(min=0)]
        if self.frame_examples is not None:
            drawn = [self.frame_examples.draw(generator) for generator in generators]
            batch["frame_ids"] = torch.tensor([number for number, _, _ in drawn])
            for name, texts in (
                ("example", [example for _, example, _ in drawn]),
                ("definition", [definition for _, _, definition in drawn]),
            ):
                encoded = self.encode(list(map(Mention, texts)))
                for part in ("input_ids", "attention_mask"):
                    batch[f"{name}_{part}"] = encoded[part]
        if "sentence_types" in rows[0]:
            batch["sentence_types"] = torch.stack([row["sentence_types"] for row in rows])
        return batch

    def encode(self, mentions: Sequence[Mention]) -> dict[str, torch.Tensor]:
        """Tokenise mentions to inputs of equal width, counting truncated ones."""
        return self.inputs(self.counted(self.tokenise(mentions)))

    def inputs(self, encoded: BatchEncoding) -> dict[str, torch.Tensor]:
        """Return the encoder's inputs for tokenised mentions."""
        return {name: x for name, x in encoded.items() if self.pools_trigger or name != "trigger_mask"}

    def tokenise(self, mentions: Sequence[Mention]) -> BatchEncoding:
        """Tokenise mentions with the masks of their triggers, without counting truncated ones."""
        processor = EventTypeInductionProcessor(
            self.tokenizer,
            trigger_input="marked" if self.marks_trigger else "span",
            prompts={"event": self.prompt},
        )
        return processor.mentions(mentions, max_length=self.longest(self.prompt))


def type_name(event_type: str) -> str:
    """Return the name of an event type as words: of `Type:Subtype` the subtype, without underscores."""
    return event_type.rsplit(":", 1)[-1].replace("_", " ")


def _prepare(
    recipe: Recipe,
    data: str | None,
    tokenizer: PreTrainedTokenizerBase,
    head: EventTypeInductionForPreTraining,
    seed: int,
) -> TrainingData:
    """Load mentions and make the collator that draws their views."""
    views = {"augmentation": "noise", "max_seq_length": 128, **recipe.views}
    config = head.config
    builder, [name], settings = METHOD.training_dataset(recipe)
    chooses = recipe.training.get("silhouette_window") is not None
    # Finding the trigger needs the types of all mentions of a sentence.
    readable = "none, marked, span or marked_span"
    streaming = is_streamed(
        recipe,
        "reads one mention after another, without the other mentions",
        {
            "augmentation": (views["augmentation"], "noise"),
            "silhouette_window": (recipe.training.get("silhouette_window"), None),
            "trigger_input": (config.trigger_input if config.finds_trigger else readable, readable),
        },
    )
    loaded = load_built(data, name, builder=builder, streaming=streaming, **settings)["train"]
    report = built_report(data, name, builder=builder, **settings)
    reads_trigger = config.marks_trigger or config.pools_trigger
    rows: MentionRows | IterableDataset
    if isinstance(loaded, IterableDataset):
        rows, seen_types = streamed_mentions(loaded, seed, reads_trigger=reads_trigger)
    else:
        rows = MentionRows(loaded, reads_trigger=reads_trigger, reads_sentence_types=config.finds_trigger)
        seen_types = rows.seen_types
    if not seen_types:
        raise EventformersError(
            "no mention has a seen type; accepted: num_seen of 1 or more, or seen_types of the data"
        )
    head.event_type_induction.set_trained_types(seen_types)
    if config.marks_trigger:
        add_marker_tokens(tokenizer, head, TRIGGER_MARKERS)
    collator = EventTypeInductionCollator(
        tokenizer=tokenizer,
        seed=seed,
        word_dropout=views.get("word_dropout", EventTypeInductionCollator.word_dropout),
        translations=None if isinstance(rows, IterableDataset) else _translations(rows, views),
        marks_trigger=config.marks_trigger,
        pools_trigger=config.pools_trigger,
        max_seq_length=views["max_seq_length"],
        prompt=prompt_of(config.prompts),
    )
    if config.type_name_weight:
        collator.type_name_vectors = _label_vectors(head, tokenizer, map(type_name, seen_types))
    if config.frame_weight or config.frame_example_weight:
        frames_data = views.get("frames") or data
        try:
            frames = load_built(frames_data, "frames", builder=builder)["train"]
        except DataFormatError:
            raise
        except EventformersError as error:
            raise EventformersError(
                f"{error}; a recipe that learns from frames needs them in the training data, or --set "
                "frames=FOLDER"
            ) from error
        report = report_with(report, built_report(frames_data, "frames", builder=builder))
        if config.frame_weight:
            definitions = _definitions(loaded, seen_types, frames)
            collator.frame_vectors = _label_vectors(head, tokenizer, definitions)
        if config.frame_example_weight:
            collator.frame_examples = frame_examples(frames, loaded)
    if report:
        told = {"augmentation": views["augmentation"]}
        if isinstance(rows, MentionRows):
            told = _told(collator, views["augmentation"], rows)
        if collator.frame_examples is not None:
            told.update(collator.frame_examples.counts())
        report = with_counts(report, statistics=told)
    unseen = _unseen(rows, collator) if chooses and isinstance(rows, MentionRows) else None
    return TrainingData(rows, None, collator, report, unseen=unseen)


def _translations(rows: MentionRows, views: Mapping[str, Any]) -> BackTranslations | None:
    """Back-translate the sentences whose triggers are not used."""
    if views["augmentation"] != "back_translation":
        return None
    texts = [mention.text for batch in rows.batches() for mention in batch if not mention.has_trigger]
    if len(texts) < len(rows):
        logger.warning(
            "%d of %d mentions get views by word noise, since a back-translation loses the position of their "
            "trigger",
            len(rows) - len(texts),
            len(rows),
        )
    return back_translate(texts, views.get("translation_models", {}))


def _told(collator: EventTypeInductionCollator, augmentation: str, rows: MentionRows) -> dict[str, Any]:
    """Describe the views for the card; None without augmentation."""
    with_trigger = lost = 0
    for batch in rows.batches():
        if read := [mention for mention in batch if mention.has_trigger]:
            with_trigger += len(read)
            lost += int((~collator.tokenise(read)["trigger_mask"].any(dim=1)).sum())
    told = {"augmentation": augmentation, "triggers_cut_off": lost or None}
    if collator.translations is None:
        return told
    return {
        **told,
        "languages": list(collator.translations.languages),
        **collator.translations.counts,
        "views_with_word_noise": with_trigger or None,
    }


def _unseen(rows: MentionRows, collator: EventTypeInductionCollator) -> UnseenMentions:
    # Sorting by length reduces padding.
    mentions = sorted(rows.unseen(), key=lambda mention: len(mention.text))
    batches = [
        collator.inputs(collator.tokenise(mentions[start : start + BATCH_SIZE]))
        for start in range(0, len(mentions), BATCH_SIZE)
    ]
    return UnseenMentions(batches, len(mentions), rows.num_unseen_types)


def _label_vectors(
    head: EventTypeInductionForPreTraining, tokenizer: PreTrainedTokenizerBase, texts: Iterator[str]
) -> torch.Tensor:
    """Encode texts with the untrained encoder, `(texts, hidden_size)`."""
    longest = longest_input(tokenizer, head.config.encoder_config, _MAX_LABEL_TOKENS)
    labels = list(texts)
    encoded = EventProcessor(tokenizer).tokenise(labels, max_length=longest)
    if cut := num_truncated(encoded):
        logger.warning(
            "%d of %d type names or definitions were truncated to %d tokens",
            cut,
            len(labels),
            longest,
        )
    return head.event_type_induction.label_vectors(encoded["input_ids"], encoded["attention_mask"]).cpu()


def _definitions(
    mentions: Dataset | IterableDataset, seen_types: Sequence[str], frames: Dataset
) -> Iterator[str]:
    """Yield the definition of each seen type's frame, the one that most of its mentions name first."""
    known = dict(zip(frames["name"], frames["definition"], strict=True))
    first: dict[str, Counter[str]] = {name: Counter() for name in seen_types}
    for block in mentions.select_columns(["event_type", "seen", "frames"]).iter(BLOCK_ROWS):
        for name, seen, frames in zip(block["event_type"], block["seen"], block["frames"], strict=True):
            if seen and frames:
                first[name][frames[0]] += 1
    for name, counts in first.items():
        found = next((frame for frame, _ in counts.most_common() if known.get(frame)), None)
        if found is None:
            stated = f"{', '.join(counts)}, without a definition" if counts else "none"
            raise EventformersError(
                f"frame_weight needs the definition of a frame for each seen type; found for {name}: "
                f"{stated}; accepted: frame_weight=0, or a folder of frames as the setting frames"
            )
        yield known[found]


TRAINING = MethodTraining(
    prepare=_prepare,
    streams=True,
    data_types={
        "config": Literal["mentions", "ace2005"],
    },
    view_types={
        "max_seq_length": TextLength,
        "augmentation": Literal["noise", "back_translation"],
        "word_dropout": ShareBelowOne,
        "translation_models": dict,
        "frames": str | None,
    },
    meanings=packaged_yaml(__file__, "meanings.yaml")["event_type_induction"],
)
