"""The parts of training that a method defines: its data, its collator, and the tokens that it adds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from datasets import Dataset, IterableDataset
from torch.utils.data import Dataset as TorchDataset
from transformers import AddedToken, BatchEncoding, PreTrainedTokenizerBase

from eventformers.datasets_scripts.known_pairs import Codes
from eventformers.errors import EventformersError, shown
from eventformers.models.configuration_base import EventConfig
from eventformers.models.modeling_base import EventPreTrainedModel
from eventformers.models.processing_events import num_truncated
from eventformers.models.text_prompts import TEXT_KINDS, clear_call_settings, prompt_of, prompt_tokens
from eventformers.trainers.callbacks import UnseenMentions
from eventformers.trainers.recipes import Recipe


class EventCollator:
    """Base class of collators of rows into the inputs of a head.

    Draws for a row depend only on seed, epoch and row: a resumed run, and a run with another number of
    processes, repeats them.

    Attributes:
        tokenizer: the encoder's tokenizer, of a collator that calls a processor.
        max_seq_length: maximum number of tokens of a text, without its prompt; of such a collator.
        epoch: the current epoch.
        truncated: number of texts truncated so far.
    """

    tokenizer: PreTrainedTokenizerBase
    max_seq_length: int
    epoch: int = 0
    truncated: int = 0

    def __call__(self, rows: Any) -> dict[str, Any]:
        """Collate rows."""
        raise NotImplementedError

    def longest(self, prompt: str = "") -> int:
        """Maximum number of tokens of a text with its prompt."""
        return self.max_seq_length + len(prompt_tokens(self.tokenizer, prompt))

    def counted(self, encoded: BatchEncoding) -> BatchEncoding:
        """Count the truncated texts of an encoding by a processor, and return it."""
        # Any trainer may save the tokenizer of its collator at any time.
        clear_call_settings(self.tokenizer)
        self.truncated += num_truncated(encoded)
        return encoded


class Calibration(NamedTuple):
    """Values chosen for a trained model on held-out rows.

    Attributes:
        values: values for the log, by name.
        told: sections of the card: titles and Markdown.
    """

    values: dict[str, float]
    told: dict[str, str]


@dataclass
class TrainingData:
    """The data of a training run.

    Args:
        train: training rows.
        validation: rows for the validation loss; None without a held-out split.
        collator: turns rows into the head's inputs.
        description: description of the data for the card: name, fingerprint, counts, sources, licences.
        unseen: mentions of unseen types, for choosing a checkpoint; None if the method has none.
        calibrate: called with the trained head at the end of a run; writes the chosen values to its
            configuration. None without calibration.
        least_rows: minimum number of rows in a batch over all processes; a contrastive loss needs other rows.
    """

    train: TorchDataset | IterableDataset
    validation: TorchDataset | None
    collator: EventCollator
    description: dict[str, Any] = field(default_factory=dict)
    unseen: UnseenMentions | None = None
    calibrate: Callable[[Any], Calibration] | None = None
    least_rows: int = 2


@dataclass(frozen=True)
class MethodTraining:
    """The parts of training that a method defines.

    Args:
        prepare: makes the training data from a recipe, the raw or built data, the tokenizer, the untrained
            head and a seed.
        view_types: the settings of a recipe's `views` section with their types, checked by
            `eventformers.strict`.
        data_types: the settings of the `data` section besides those of the builder.
        streams: whether the data can be read as a stream, by the setting `streaming`.
        meanings: default and meaning of each setting of both sections that neither the configuration of the
            builder nor a class of the method's module documents, for the page of settings.
        choose_tasks: returns the tasks that score a run of a recipe; None takes all tasks of the method.
    """

    prepare: Callable[[Recipe, str | None, PreTrainedTokenizerBase, Any, int], TrainingData]
    view_types: Mapping[str, Any]
    data_types: Mapping[str, Any] = field(default_factory=dict)
    streams: bool = False
    choose_tasks: Callable[[Recipe], tuple[str, ...]] | None = None
    meanings: Mapping[str, tuple[object, str]] = field(default_factory=dict)


def check_columns(rows: Sequence[Any], *accepted: str) -> None:
    """Check that a collator got the rows of its dataset and not what `Trainer` left of them.

    Args:
        *accepted: names of columns; a row has one of them.

    Raises:
        EventformersError: the first row has none of them.
    """
    if not any(name in rows[0] for name in accepted):
        raise EventformersError(
            f"the first row of the batch has the columns {shown(sorted(rows[0]))}; accepted: rows with "
            f"{' or '.join(accepted)}. Trainer removes columns that the model does not take: pass "
            "TrainingArguments(remove_unused_columns=False)"
        )


def add_marker_tokens(
    tokenizer: PreTrainedTokenizerBase, model: EventPreTrainedModel, markers: Mapping[str, str]
) -> list[int]:
    """Add marker tokens, which the tokenizer never splits, to a tokenizer and a model.

    Both save the tokens; `add_adapters` trains their vectors beside the adapters. An existing token, as in a
    later stage, keeps its vector.

    Args:
        tokenizer: the encoder's tokenizer, changed in place.
        model: a model over one encoder or several of the same kind, changed in place; its configuration
            records the ids.
        markers: the tokens, each with a text; a token's initial vector is the mean of the text's token
            vectors in the pretrained encoder.

    Returns:
        The ids of the tokens, in their order.
    """
    known_before = tokenizer.get_vocab()
    starts = {
        token: tokenizer(text, add_special_tokens=False)["input_ids"] for token, text in markers.items()
    }
    tokenizer.add_tokens(
        [AddedToken(token, lstrip=True, normalized=False, special=True) for token in markers],
        special_tokens=True,
    )
    ids = tokenizer.convert_tokens_to_ids(list(markers))
    trained = set(model.config.added_token_ids or ())
    if model.get_input_embeddings().num_embeddings < len(tokenizer):
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with torch.no_grad():
        for encoder in model.text_encoders():
            vectors = encoder.get_input_embeddings().weight
            for token, place in zip(markers, ids, strict=True):
                if token not in known_before and place not in trained:
                    vectors[place] = vectors[starts[token]].mean(dim=0)
    model.config.added_token_ids = sorted(trained.union(ids))
    return ids


def check_text_length(config: EventConfig, tokenizer: PreTrainedTokenizerBase, max_seq_length: int) -> None:
    """Check that `max_seq_length` and the prompt before it are within the encoder's positions.

    Raises:
        EventformersError: the encoder has fewer positions.
    """
    encoder = config.encoder_config
    positions = getattr(encoder, "max_position_embeddings", None) or tokenizer.model_max_length
    # RoBERTa's family counts positions from after the padding id.
    if positions - (getattr(encoder, "pad_token_id", None) or 0) - 1 == tokenizer.model_max_length:
        positions = tokenizer.model_max_length
    prompts = [prompt_of(config.prompts, kind) for kind in TEXT_KINDS]
    of_prompt = max(len(prompt_tokens(tokenizer, prompt)) for prompt in prompts)
    if max_seq_length + of_prompt > positions:
        raise EventformersError(
            f"setting max_seq_length: found {max_seq_length}; accepted: {positions - of_prompt} or less, the "
            f"maximum of the encoder{' after the prompt' if of_prompt else ''}"
        )


def check_train_split(source: object, splits: Collection[str]) -> None:
    """Check that data have a split `train`; `source` names them in the error.

    Raises:
        EventformersError: there is none.
    """
    if "train" not in splits:
        raise EventformersError(f"{source}: found the splits {', '.join(splits)}; accepted: a split train")


class IndexedRows(TorchDataset):
    """Dataset whose rows hold their index, so that draws depend on the row and not on the order.

    Args:
        chosen: the indices of the rows to take, in order; None takes all.
    """

    def __init__(self, rows: Dataset, chosen: Codes | None = None) -> None:
        self.rows = rows
        self.chosen = chosen

    def __len__(self) -> int:
        return len(self.rows if self.chosen is None else self.chosen)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        row = index if self.chosen is None else int(self.chosen[index])
        return {"row": row, **self.rows[row]}


SHUFFLED_ROWS = 10_000
"""Number of rows in the buffer that shuffles a stream."""

STREAMING_MEANING = (False, "read the rows as a stream, without holding them all; needs max_steps.")


def is_streamed(recipe: Recipe, lacks: str, settings: Mapping[str, tuple[object, object]]) -> bool:
    """Return the recipe's setting `streaming`, after checking the settings that need all rows.

    Args:
        lacks: what a stream cannot do, for the error.
        settings: the value of each setting and the only value that a stream accepts, by name.

    Raises:
        EventformersError: `streaming` is true and a setting needs all rows.
    """
    if not recipe.data.get("streaming", False):
        return False
    if any(found != accepted for found, accepted in settings.values()):
        # As in a recipe.
        written = {"None": "null", "False": "false"}
        *first, last = [
            f"{name}={written.get(str(accepted), accepted)}" for name, (_, accepted) in settings.items()
        ]
        accepted = f"{', '.join(first)} and {last}" if first else last
        raise EventformersError(f"streaming=true {lacks}; accepted with it: {accepted}")
    return True


def indexed_stream(
    rows: IterableDataset,
    seed: int,
    then: Callable[[IterableDataset], IterableDataset] = lambda shuffled: shuffled,
) -> IterableDataset:
    """Repeat a stream endlessly, shuffle it and number its rows.

    Args:
        then: changes the shuffled rows before they are numbered.
    """
    shuffled = rows.repeat(None).shuffle(seed=seed, buffer_size=SHUFFLED_ROWS)
    return then(shuffled).map(lambda row, index: {"row": index, **row}, with_indices=True)
