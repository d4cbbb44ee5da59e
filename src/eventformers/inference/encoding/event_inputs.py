"""Model inputs from texts and events, each distinct one once.

An input is token ids, and for some models also each token's role and word.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import ClassVar, TypeAlias, cast

import numpy as np
import torch
from transformers import BatchEncoding, PreTrainedTokenizerBase

from eventformers.datasets_scripts.events import Event, EventOrder, event_text
from eventformers.errors import EventformersError
from eventformers.inference.encoding.event_reader import item_at
from eventformers.inference.encoding.vectors import Positions, Vectors
from eventformers.models.event_items import ROLES
from eventformers.models.processing_events import num_truncated
from eventformers.models.processing_heterevent import HeterEventProcessor
from eventformers.models.text_prompts import tokenise_after

TokenRow: TypeAlias = list[int]
"""The model's input for one text as one list of numbers, so that equal inputs compare equal."""


class TextInputs:
    """A converter from texts and events to model inputs: token ids, for models that read only these.

    `max_length` limits the tokens of a text, with special tokens and prompt. A subclass reads more than
    texts.
    """

    pads: ClassVar[bool] = True
    """True if `tensors` accepts rows of different lengths."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        event_order: EventOrder,
        max_length: int,
        prompt: str = "",
    ) -> None:
        self.tokenizer, self.event_order, self.max_length = tokenizer, event_order, max_length
        self.prompt = prompt

    def text(self, item: object, position: int) -> str:
        """Return the text of an item; see `key` for arguments and errors."""
        found = item_at(item, position)
        return found if isinstance(found, str) else event_text(found, self.event_order)

    def key(self, item: object, position: int) -> Hashable:
        """Return the identity of an item, a text or an event as `read_item` reads it; here its text.

        `position` is its position, for the error of an item that is neither, or contains no word.
        """
        return self.text(item, position)

    def token_rows(self, keys: Sequence[Hashable]) -> tuple[list[TokenRow], list[int]]:
        """Return the rows of some keys, truncated to `max_length`, and the positions of the truncated
        ones."""
        texts = cast("list[str]", list(keys))
        encoded, cut = tokenise_texts(self.tokenizer, texts, self.max_length, self.prompt)
        return cast("list[TokenRow]", encoded["input_ids"]), cut

    def length(self, row: TokenRow) -> int:
        """Number of tokens of a row."""
        return len(row)

    def tensors(self, rows: Sequence[TokenRow], device: torch.device) -> dict[str, torch.Tensor]:
        """Return the model's arguments for rows of one length, or of any lengths if `pads`: `input_ids`,
        `(batch, length)`, and `attention_mask` if rows differ in length."""
        length = max(map(len, rows))
        if min(map(len, rows)) == length:
            return {"input_ids": torch.tensor(rows, device=device)}
        padding = self.tokenizer.pad_token_id or 0
        ids = [[*row, *[padding] * (length - len(row))] for row in rows]
        mask = torch.arange(length) < torch.tensor([[len(row)] for row in rows])
        return {
            "input_ids": torch.tensor(ids, device=device),
            "attention_mask": mask.long().to(device),
        }


def tokenise_texts(
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    max_length: int,
    prompt: str = "",
    **settings: bool,
) -> tuple[BatchEncoding, list[int]]:
    """Tokenise texts without padding; also return the positions of truncated texts.

    Args:
        max_length: tokens of a text at most, special tokens and prompt included.
        prompt: text before each text; the offsets of tokens are those in the text alone.
    """
    plain = {"return_attention_mask": False, "return_token_type_ids": False, "verbose": False}
    encoded = tokenise_after(
        prompt, tokenizer, texts, truncation=True, max_length=max_length, **plain, **settings
    )
    full = [position for position, ids in enumerate(encoded["input_ids"]) if len(ids) >= max_length]
    if not full:
        return encoded, []
    whole = tokenise_after(prompt, tokenizer, [texts[position] for position in full], **plain)["input_ids"]
    cut = [position for position, ids in zip(full, whole, strict=True) if len(ids) > max_length]
    return encoded, cut


class RoleInputs(TextInputs):
    """A converter of events to token ids with each token's roles and word, for models that read roles.

    A text without roles is an event with only a predicate. Word numbers stay valid across the calls of one
    object.
    """

    pads = False

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        event_order: EventOrder,
        max_length: int,
        prompt: str = "",
    ) -> None:
        super().__init__(tokenizer, event_order, max_length, prompt)
        # The number of each word so far.
        self._words: dict[str, int] = {}
        if not tokenizer.is_fast:
            raise EventformersError(
                f"{type(tokenizer).__name__} does not return the offsets of tokens; accepted: a fast "
                "tokenizer, with a tokenizer.json"
            )

    def key(self, item: object, position: int) -> tuple[str, str, str]:
        """Return the item's roles; see `TextInputs`."""
        found = item_at(item, position)
        if isinstance(found, str):
            return "", found, ""
        return found["subject"], found["predicate"], found["object"]

    def token_rows(self, keys: Sequence[Hashable]) -> tuple[list[TokenRow], list[int]]:
        """Return the token ids, role codes and words of events, concatenated, and the truncated events."""
        events = [
            Event(subject=subject, predicate=predicate, object=object_)
            for subject, predicate, object_ in cast("list[tuple[str, str, str]]", keys)
        ]
        processor = HeterEventProcessor(self.tokenizer, self.event_order, prompts={"event": self.prompt})
        encoded = processor.events(
            cast("list[Mapping[str, str]]", events), self._words, max_length=self.max_length
        )
        # A token may belong to two roles, so each role is one bit.
        roles = (encoded["role_masks"] << torch.arange(len(ROLES)).unsqueeze(-1)).sum(dim=1)
        codes = torch.stack([encoded["input_ids"], roles, encoded["word_index"]], dim=1).numpy()
        filled = encoded["attention_mask"].bool().numpy()
        rows = [of_event[:, mask].ravel().tolist() for of_event, mask in zip(codes, filled, strict=True)]
        if not num_truncated(encoded):
            return rows, []
        return rows, super().token_rows([event_text(event, self.event_order) for event in events])[1]

    def length(self, row: TokenRow) -> int:
        """Number of tokens of a row."""
        return len(row) // 3

    def tensors(self, rows: Sequence[TokenRow], device: torch.device) -> dict[str, torch.Tensor]:
        """Return `input_ids` and `word_index`, `(batch, length)`, and `role_masks`, `(batch, 3, length)`."""
        codes = torch.from_numpy(np.asarray(rows, dtype=np.int64)).view(len(rows), 3, -1).to(device)
        bits = torch.arange(len(ROLES), device=device).unsqueeze(-1)
        return {
            "input_ids": codes[:, 0],
            "role_masks": (codes[:, 1].unsqueeze(1) >> bits & 1).bool(),
            "word_index": codes[:, 2],
        }


class DistinctRows:
    """The distinct keys of a list in the order of their first occurrence, and the rows of each.

    Attributes:
        known: pairs of positions among `distinct`: a key, and an earlier one with the same tokens.
    """

    def __init__(self, keys: Sequence[Hashable]) -> None:
        index: dict[Hashable, int] = {}
        inverse = np.fromiter(
            (index.setdefault(key, len(index)) for key in keys), dtype=np.int64, count=len(keys)
        )
        self.number = len(keys)
        self.distinct = list(index)
        self.counts = np.bincount(inverse, minlength=len(index))
        self.known: list[tuple[int, int]] = []
        self._rows = np.argsort(inverse, kind="stable")
        self._starts = np.cumsum(self.counts) - self.counts
        self._first_with_tokens: dict[bytes, int] = {}

    def with_new_tokens(self, start: int, token_rows: list[TokenRow]) -> Positions:
        """Return the positions, in the block from `start`, of distinct texts with new tokens."""
        new = []
        for position, ids in enumerate(token_rows, start=start):
            # A digest, since the token ids of all texts may need more memory than their vectors.
            digest = blake2b(array("q", ids).tobytes(), digest_size=16).digest()
            first = self._first_with_tokens.setdefault(digest, position)
            if first == position:
                new.append(position - start)
            else:
                self.known.append((position, first))
        return np.asarray(new, dtype=np.int64)

    def copy_known(self, vectors: Vectors) -> None:
        """Copy an earlier text's vector to the texts with the same tokens."""
        for position, first in self.known:
            row = self._rows[self._starts[first]]
            self.scatter(np.asarray([position]), vectors[row : row + 1], vectors)

    def scatter(self, positions: Positions, encoded: Vectors, vectors: Vectors) -> None:
        """Write the vector of each given distinct text to all of its rows."""
        counts = self.counts[positions]
        ends = np.cumsum(counts)
        within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        rows = self._rows[np.repeat(self._starts[positions], counts) + within]
        vectors[rows] = np.repeat(encoded, counts, axis=0)


def digest_of(parts: Iterable[object]) -> bytes:
    """Return a 32-byte hash of a list of texts, or of tuples of texts or numbers."""
    digest = blake2b(digest_size=32)
    for part in parts:
        # repr escapes line breaks, so a line break separates keys.
        digest.update(f"{part!r}\n".encode())
    return digest.digest()
