"""Candidate events by BM25: words that the text of a mention shares with title and description of an event.

Okapi BM25 (Robertson and Zaragoza, 2009) with the inverse document frequency that Lucene takes, which is
never negative. A text in any language is cut into words; where a script writes no blanks between them, into
pairs of characters.
"""

from __future__ import annotations

import functools
import math
import re
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer

from eventformers.errors import EventformersError
from eventformers.inference.search.candidate_index import Candidates, PooledIndex
from eventformers.inference.search.exact import BLOCK_MEBIBYTES, Found
from eventformers.strict import StrictSettings, setting, strict_settings

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
"""Thai and Lao, Burmese, Khmer, Hiragana and Katakana, Chinese characters."""


@strict_settings
@dataclass(frozen=True)
class Bm25Settings(StrictSettings):
    """How words are weighted.

    Attributes:
        saturation: k1, how much more a word counts that stands several times in an event's text; 0 is not at
            all.
        length_share: b, in [0, 1], how far the weight of a word sinks with the length of the event's text.
    """

    saturation: float = setting(1.2, lambda value: 0 <= value < math.inf, "0 or more")
    length_share: float = setting(0.75, lambda value: 0 <= value <= 1, "0 to 1")


class Bm25Index(PooledIndex):
    """Texts of events, in pools by language.

    Args:
        event_ids: the event of each text, `(n,)`; an event has one text in each pool at most.
        texts: what each event is found by, such as its title and description.
        languages: the language of each text; None puts all into one pool, which serves mentions in any
            language.
        settings: how words are weighted; None takes the defaults.

    Raises:
        EventformersError: there is no event, not one text and language for each, or an event stands twice in
            a pool.
    """

    def __init__(
        self,
        event_ids: Sequence[str],
        texts: Sequence[str],
        languages: Sequence[str] | None = None,
        *,
        settings: Bm25Settings | None = None,
    ) -> None:
        if len(texts) != len(event_ids):
            raise EventformersError(f"{len(texts):,} texts for {len(event_ids):,} events; accepted: one each")
        every = _array(texts)
        chosen = settings or Bm25Settings()
        super().__init__(event_ids, languages, lambda rows: _WordPool(every[rows].tolist(), chosen))

    def search(
        self, mentions: Sequence[str], number: int = 8, *, languages: Sequence[str] | None = None
    ) -> Candidates:
        """The events whose texts share the weightiest words with the text of each mention.

        An event without a shared word is no candidate. Of equal scores the event that was indexed first
        stands first.

        Args:
            mentions: the text of each mention, such as the mention in its context.
            number: candidates of a mention, where so many events share a word with it.
            languages: see `PooledIndex.search`.

        Raises:
            EventformersError: see `PooledIndex.search`.
        """
        return super().search(_array(mentions), number, languages=languages)


class _WordPool:
    """The weights of the words of each event's text."""

    def __init__(self, texts: list[str], settings: Bm25Settings) -> None:
        self._counter = CountVectorizer(analyzer=words, dtype=np.float32)
        try:
            counts = csr_array(self._counter.fit_transform(texts))
        except ValueError:
            # No text has a word, so none can be found.
            self._weights = None
            return
        number = counts.shape[0]
        lengths = counts.sum(axis=1)
        having = np.bincount(counts.indices, minlength=counts.shape[1])
        rarity = np.log1p((number - having + 0.5) / (having + 0.5))
        long = 1 - settings.length_share + settings.length_share * lengths / lengths.mean()
        event = np.repeat(np.arange(number), np.diff(counts.indptr))
        weights = rarity[counts.indices] * counts.data / (counts.data + settings.saturation * long[event])
        counts.data = weights.astype(np.float32)
        self._weights = counts.T.tocsr()

    def search(self, mentions: np.ndarray, number: int) -> tuple[Found, None]:
        """The events with the highest scores above 0."""
        found = Found(
            np.full((len(mentions), number), -np.inf, dtype=np.float32),
            np.full((len(mentions), number), -1, dtype=np.int64),
        )
        if self._weights is None:
            return found, None
        asked = csr_array(self._counter.transform(mentions))
        # A sparse product has a position beside each score.
        at_once = max(1, BLOCK_MEBIBYTES * 2**20 // (12 * self._weights.shape[1]))
        for start in range(0, len(mentions), at_once):
            scores = (asked[start : start + at_once] @ self._weights).tocsr()
            for row in range(scores.shape[0]):
                of_row = slice(*scores.indptr[row : row + 2])
                positions, best = scores.indices[of_row], scores.data[of_row]
                if len(best) > number:
                    kept = best >= np.partition(best, -number)[-number]
                    positions, best = positions[kept], best[kept]
                order = np.lexsort((positions, -best))[:number]
                found.positions[start + row, : len(order)] = positions[order]
                found.scores[start + row, : len(order)] = best[order]
        return found, None


def words(text: str) -> list[str]:
    """The words of a text in any script, in one case and Unicode form.

    >>> words("The Siege of Ürümqi, 2009")
    ['the', 'siege', 'of', 'ürümqi', '2009']
    >>> words("第二次世界大戦")
    ['第二', '二次', '次世', '世界', '界大', '大戦']
    """
    found = []
    for word in _word_pattern().findall(unicodedata.normalize("NFKC", text).casefold()):
        last = 0
        for run in _UNSPACED.finditer(word):
            found.append(word[last : run.start()])
            characters, last = run.group(), run.end()
            found.extend(characters[place : place + 2] for place in range(max(1, len(characters) - 1)))
        found.append(word[last:])
    return [word for word in found if word]


@functools.cache
def _word_pattern() -> re.Pattern[str]:
    """Letters, digits and the marks that combine with them: without these a vowel sign would end a word."""
    marks = (chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M")
    return re.compile(f"(?:[^\\W_]|[{''.join(marks)}])+")


def _array(texts: Sequence[str]) -> np.ndarray:
    """Texts as an array of objects, which rows can be taken of."""
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array
