"""Views of an event made by replacing its words, an addition to the papers.

A paraphrase replaces every role by a near word: the meaning stays, the words change. A swap replaces one role
by a far word that occurs with the same predicate: most words stay, the meaning changes. Words are near or far
by the cosine of their vectors in the untrained encoder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset
from torch.nn import functional
from transformers import PreTrainedTokenizerBase

from eventformers.datasets_scripts.chain_readers import PRONOUNS
from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError
from eventformers.models.modeling_base import EventEncoderModel
from eventformers.models.pooling import mean_pool
from eventformers.models.processing_events import EventProcessor
from eventformers.models.text_prompts import longest_input
from eventformers.strict import Count, Number
from eventformers.trainers.cached_arrays import array_digest, cached_arrays, encode_blocks, model_digest

Role = Literal["subject", "predicate", "object"]
ROLES: tuple[Role, ...] = ("subject", "predicate", "object")
_WORDS = re.compile(r"[a-z][a-z'-]*( [a-z]+)*")
_BLOCK = 1024
NUM_NEIGHBOURS = 60
"""Maximum number of near words of a word."""
MIN_NEIGHBOUR_COSINE = 0.3
"""Minimum cosine of a near word; the nearest word always counts."""
NEIGHBOUR_TEMPERATURE = 0.2
"""Near words are drawn in proportion to exp(cosine / temperature)."""
MAX_SWAP_COSINE = 0.4
"""A far word's cosine is below this if any candidate's is."""
_SWAP_CANDIDATES = 12
_CANDIDATES_OF_PREDICATE = 8
_STEM_LETTERS = 4

Indices = npt.NDArray[np.int64]


@dataclass
class SubstitutionSettings:
    """Settings of the replacement of words.

    Args:
        object_swaps: number of swaps of the object for each event.
        subject_swaps: number of swaps of the subject.
        min_role_frequency: minimum number of events with a word in its role.
    """

    object_swaps: Number = 2
    subject_swaps: Number = 1
    min_role_frequency: Count = 5

    @property
    def swapped_roles(self) -> list[Role]:
        """The role of each swap of an event."""
        swaps: dict[Role, int] = {"object": self.object_swaps, "subject": self.subject_swaps}
        return [role for role, number in swaps.items() for _ in range(number)]


def word_stem(words: str) -> str:
    """Return an approximate stem, the first letters of the first word, which forms of a word share."""
    return words.split(" ", 1)[0][:_STEM_LETTERS]


@dataclass
class _Vocabulary:
    """Words of one role: vectors `(V, d)`, stems `(V,)`, neighbours and cumulative probabilities `(V, K)`."""

    words: list[str]
    vectors: npt.NDArray[np.float32]
    stems: npt.NDArray[np.str_]
    neighbours: Indices
    chances: npt.NDArray[np.float64]

    def near(self, word: int, generator: np.random.Generator) -> str:
        place = int(np.searchsorted(self.chances[word], generator.random(), side="right"))
        return self.words[self.neighbours[word, min(place, self.neighbours.shape[1] - 1)]]


class RoleSubstitution:
    """Paraphrases and swaps of the rows of a dataset.

    Args:
        rows: the dataset, with a column `event`.

    Attributes:
        kept: rows whose roles can all be replaced; `position` arguments are indices into it.
        skipped: number of rows left out, by reason.

    Raises:
        EventformersError: too few events are left.
    """

    def __init__(
        self,
        rows: Dataset,
        model: EventEncoderModel,
        tokenizer: PreTrainedTokenizerBase,
        settings: SubstitutionSettings,
    ) -> None:
        self.settings = settings
        words, ids, self.kept, self.skipped = role_words(rows, settings.min_role_frequency)
        self._vocabularies: dict[Role, _Vocabulary] = {}
        self._ids = np.empty((len(self.kept), len(ROLES)), dtype=np.int64)
        for place, role in enumerate(ROLES):
            present, self._ids[:, place] = np.unique(ids[self.kept, place], return_inverse=True)
            self._vocabularies[role] = _vocabulary([words[role][word] for word in present], model, tokenizer)
        self._by_predicate = np.argsort(self._ids[:, 1], kind="stable")
        self._first_of_predicate = np.searchsorted(
            self._ids[self._by_predicate, 1], np.arange(len(self._vocabularies["predicate"].words) + 1)
        )

    def paraphrase(self, position: int, generator: np.random.Generator) -> Event:
        """Replace every role of a row by a near word."""
        subject, predicate, obj = (
            self._vocabularies[role].near(int(word), generator)
            for role, word in zip(ROLES, self._ids[position], strict=True)
        )
        return {"subject": subject, "predicate": predicate, "object": obj}

    def swaps(self, position: int, generator: np.random.Generator) -> list[Event]:
        """Replace one role of a row by a far word, once for each of `settings.swapped_roles`."""
        own = self._ids[position]
        first, end = self._first_of_predicate[own[1] : own[1] + 2]
        swaps: list[Event] = []
        for role in self.settings.swapped_roles:
            place, vocabulary = ROLES.index(role), self._vocabularies[role]
            candidates = self._ids[generator.integers(len(self._ids), size=_SWAP_CANDIDATES), place]
            drawn = generator.integers(first, end, size=_CANDIDATES_OF_PREDICATE)
            candidates[:_CANDIDATES_OF_PREDICATE] = self._ids[self._by_predicate[drawn], place]
            cosines = vocabulary.vectors[candidates] @ vocabulary.vectors[own[place]]
            same = vocabulary.stems[candidates] == vocabulary.stems[own[place]]
            far = np.flatnonzero(~same & (cosines < MAX_SWAP_COSINE))
            chosen = candidates[far[0] if len(far) else np.where(same, np.inf, cosines).argmin()]
            texts = [self._vocabularies[name].words[word] for name, word in zip(ROLES, own, strict=True)]
            texts[place] = vocabulary.words[chosen]
            swaps.append({"subject": texts[0], "predicate": texts[1], "object": texts[2]})
        return swaps


def role_words(
    rows: Dataset, min_role_frequency: int
) -> tuple[dict[Role, list[str]], Indices, Indices, dict[str, int]]:
    """Find the rows whose three roles have frequent words that can be replaced.

    Args:
        rows: a dataset with a column `event`.
        min_role_frequency: minimum number of events with a word in its role.

    Returns:
        The words of each role; their places there by row and role `(rows, 3)`; the indices of the rows; and
        the number of other rows, by reason.

    Raises:
        EventformersError: fewer than two rows are left.
    """
    table = rows.data.column("event").combine_chunks()
    encoded = {role: table.field(role).dictionary_encode() for role in ROLES}
    words = {role: encoded[role].dictionary.to_pylist() for role in ROLES}
    ids = np.stack([encoded[role].indices.to_numpy(zero_copy_only=False) for role in ROLES], axis=1)
    # Words of letters can be replaced, but no pronouns as objects.
    allowed = {
        role: np.array(
            [
                bool(_WORDS.fullmatch(word)) and (role != "object" or word not in PRONOUNS)
                for word in words[role]
            ]
        )
        for role in ROLES
    }
    frequent = {
        role: np.bincount(ids[:, place], minlength=len(words[role])) >= min_role_frequency
        for place, role in enumerate(ROLES)
    }
    usable = np.all([allowed[role][ids[:, place]] for place, role in enumerate(ROLES)], axis=0)
    common = np.all([frequent[role][ids[:, place]] for place, role in enumerate(ROLES)], axis=0)
    kept: Indices = np.flatnonzero(usable & common)
    skipped = {
        "event_without_words_in_every_role": int((~usable).sum()),
        "event_with_a_rare_word": int((usable & ~common).sum()),
    }
    if len(kept) < 2:
        raise EventformersError(
            "shared_word_weight and the stage sentences need events whose three roles have words that occur "
            f"in at least {min_role_frequency} events each; found {len(kept)} of {len(rows)}; accepted: more "
            "events, a lower min_role_frequency, or shared_word_weight=0 without that stage"
        )
    return words, ids, kept, skipped


def _vocabulary(
    words: list[str], model: EventEncoderModel, tokenizer: PreTrainedTokenizerBase
) -> _Vocabulary:
    """Find the neighbours of words, or read them from the cache: the time is quadratic in the words."""
    longest = longest_input(tokenizer, model.config.encoder_config)
    encoded = EventProcessor(tokenizer).tokenise(words, max_length=longest)
    decides = [
        *(words, array_digest(encoded["input_ids"].numpy()), model_digest(model.encoder)),
        *(NUM_NEIGHBOURS, MIN_NEIGHBOUR_COSINE, NEIGHBOUR_TEMPERATURE),
    ]
    stems = np.array([word_stem(word) for word in words])
    found = cached_arrays(
        "word_neighbours",
        decides,
        lambda: _neighbours(_word_vectors(words, model, tokenizer), stems),
    )
    return _Vocabulary(words, found["vectors"], stems, found["neighbours"], found["chances"])


def _neighbours(vectors: torch.Tensor, stems: npt.NDArray[np.str_]) -> dict[str, npt.NDArray[Any]]:
    """Return the vectors, neighbours and cumulative probabilities of `_Vocabulary`."""
    _, stem_ids = np.unique(stems, return_inverse=True)
    stem_of = torch.from_numpy(stem_ids)
    size = min(NUM_NEIGHBOURS, len(stems))
    neighbours, cosines = [], []
    for start in range(0, len(stems), _BLOCK):
        block = vectors[start : start + _BLOCK] @ vectors.T
        same = stem_of[start : start + _BLOCK].unsqueeze(1) == stem_of
        nearest = block.masked_fill(same, -1).topk(size, dim=1)
        neighbours.append(nearest.indices)
        cosines.append(nearest.values)
    near = torch.cat(cosines).double().numpy()
    weights = np.exp((near - near[:, :1]) / NEIGHBOUR_TEMPERATURE)
    weights[:, 1:] *= near[:, 1:] >= MIN_NEIGHBOUR_COSINE
    return {
        "vectors": vectors.numpy(),
        "neighbours": torch.cat(neighbours).numpy(),
        "chances": np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1),
    }


def _word_vectors(
    words: list[str], model: EventEncoderModel, tokenizer: PreTrainedTokenizerBase
) -> torch.Tensor:
    """Encode words to mean-pooled unit vectors `(V, hidden_size)`, in float32 on the CPU."""
    # Only junk has more pieces than the encoder has positions, so truncation does no harm.
    longest = longest_input(tokenizer, model.config.encoder_config)
    batch = EventProcessor(tokenizer).tokenise(words, max_length=longest)

    def encode(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return mean_pool(*model.encode_together([(ids, mask)])[0])

    vectors = encode_blocks(batch["input_ids"], batch["attention_mask"], model, encode)
    return functional.normalize(vectors, dim=-1)
