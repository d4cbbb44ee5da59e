"""Event grounding by BM25, from the words that a mention with its context shares with an event.

Okapi BM25 (Robertson and Zaragoza, 2009) with Lucene's inverse document frequency, which is never negative. A
text in any language is split into words; in scripts without blanks between words, into pairs of characters.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from eventformers.baselines.base import Baseline, BaselineTask, ReadyBaseline, settings_revision
from eventformers.errors import EventformersError
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.tasks import Task, get_task, with_settings
from eventformers.evaluation.tasks.base import JsonValue, Prepared
from eventformers.evaluation.tasks.grounding import Grounding, GroundingSettings
from eventformers.inference.grounding.encoding import event_text, mention_text
from eventformers.inference.grounding.retrieve_rerank import GroundingModel
from eventformers.inference.search import import_bm25s
from eventformers.inference.search.candidate_index import PooledIndex
from eventformers.inference.search.vector_search import Found

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
"""Thai and Lao, Burmese, Khmer, Hiragana and Katakana, Chinese characters."""


WEIGHTING: dict[str, JsonValue] = {"saturation": 1.2, "length_share": 0.75}
"""k1, how much repetitions of a word in an event's text add to its weight; and b, how much the weight of a
word decreases with the length of the event's text."""


class Bm25Index(PooledIndex):
    """Texts of events, such as title and description, in pools by language; `search` takes the texts of
    mentions, such as each in its context.

    An event without a shared word is not a candidate. Ties are ordered by the position in the index.
    Arguments and errors are those of `PooledIndex`.
    """

    def __init__(
        self, event_ids: Sequence[str], texts: Sequence[str], languages: Sequence[str] | None = None
    ) -> None:
        every = np.array(texts, dtype=object)
        super().__init__(event_ids, languages, lambda rows: _WordPool(every[rows].tolist()))


class _WordPool:
    """The texts of a pool's events, with bm25s weights of their words."""

    def __init__(self, texts: list[str]) -> None:
        corpus = [words(text) for text in texts]
        saturation, length_share = WEIGHTING.values()
        self._index = import_bm25s().BM25(k1=saturation, b=length_share, method="lucene")
        self._has_words = any(corpus)
        if self._has_words:
            self._index.index(corpus, show_progress=False)

    def search(self, mentions: np.ndarray, number: int) -> tuple[Found, None]:
        """Find the events with the highest scores above 0; ties are ordered by the position in the index."""
        found = Found(
            np.full((len(mentions), number), -np.inf, dtype=np.float32),
            np.full((len(mentions), number), -1, dtype=np.int64),
        )
        for row, mention in enumerate(mentions):
            asked = words(mention)
            if not (asked and self._has_words):
                continue
            scores = self._index.get_scores(asked)
            positions = np.flatnonzero(scores)
            if len(positions) > number:
                positions = np.flatnonzero(scores >= np.partition(scores, -number)[-number])
            order = positions[np.argsort(-scores[positions], kind="stable")][:number]
            found.positions[row, : len(order)] = order
            found.scores[row, : len(order)] = scores[order]
        return found, None


def words(text: str) -> list[str]:
    """Split a text in any script into words, in one case and Unicode form.

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


@cache
def _word_pattern() -> re.Pattern[str]:
    """Letters, digits and the marks that combine with them; otherwise a vowel sign would end a word."""
    marks = (chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M")
    return re.compile(f"(?:[^\\W_]|[{''.join(marks)}])+")


@dataclass(frozen=True)
class Bm25(Baseline):
    """BM25 on tasks of event grounding."""

    kind = Grounding

    def __call__(
        self, task: str | Task, *arguments: Any, grounding: GroundingSettings | None = None, **options: Any
    ) -> TaskResult:
        """See `Baseline`.

        Args:
            grounding: settings of the mentions and of linking; None uses the defaults.

        Raises:
            EventformersError: a re-ranker is requested.
        """
        if grounding is not None:
            if grounding.reranker is not None:
                raise EventformersError(f"{self.name} with a re-ranker; accepted: no reranker")
            task = with_settings(get_task(task), grounding)
        return super().__call__(task, *arguments, **options)

    def prepare(self, opened: BaselineTask) -> ReadyBaseline:
        """See `Baseline`; takes no options."""
        kind = opened.task.kind
        prepared = Prepared(
            GroundingModel(
                lambda mentions: [mention_text(mention) for mention in mentions],
                lambda events: [event_text(event) for event in events],
                Bm25Index,
            )
        )
        return ReadyBaseline(
            self.name,
            settings_revision(WEIGHTING),
            lambda: kind.run(prepared.scorer, opened.scored_data.task_rows),
            settings={**WEIGHTING, **kind.record(prepared)},
        )
