"""The mentions of a grounding, as arrays of their candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
from scipy.special import expit

from eventformers.inference.grounding.grounded_text import Ancestor, CandidateEvent, GroundedMention
from eventformers.inference.grounding.knowledge_base import KnowledgeBase
from eventformers.inference.grounding.linking import LinkThreshold
from eventformers.inference.grounding.mention_files import TextMention
from eventformers.inference.grounding.retrieve_rerank import Ranked

_BLOCK = 1_024


class GroundedMentions(Sequence[GroundedMention]):
    """Mentions with their events, which are made on access: millions of them would not fit into memory.

    Args:
        mentions: the mentions.
        candidates: the candidates of each.
        event_ids: the index's.
        linking: links the mentions to their candidates.
        knowledge_base: the titles and the ancestors of events.
    """

    def __init__(
        self,
        mentions: Sequence[TextMention],
        candidates: Ranked,
        event_ids: Sequence[str],
        linking: LinkThreshold,
        knowledge_base: KnowledgeBase,
    ) -> None:
        self._mentions, self._candidates, self._event_ids = mentions, candidates, event_ids
        self._linking, self._knowledge_base = linking, knowledge_base

    def __len__(self) -> int:
        return len(self._mentions)

    @overload
    def __getitem__(self, place: int) -> GroundedMention: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[GroundedMention, ...]: ...

    def __getitem__(self, place: int | slice) -> GroundedMention | tuple[GroundedMention, ...]:
        places = range(len(self))[place]
        if isinstance(places, int):
            return next(self._made(range(places, places + 1)))
        return tuple(self._made(places))

    def __iter__(self) -> Iterator[GroundedMention]:
        for start in range(0, len(self), _BLOCK):
            yield from self._made(range(start, min(start + _BLOCK, len(self))))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(own == one for own, one in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self):,}"

    def links(self) -> Iterator[tuple[list[str], dict[str, list[str]]]]:
        """Yield the links of each mention, without its texts and candidates.

        Yields:
            The ids of its linked events, best first, and of their ancestors, each with the linked events that
            are part of it.
        """
        for start in range(0, len(self), _BLOCK):
            ranked = self._candidates.ranked.take(range(start, min(start + _BLOCK, len(self))))
            for linked in self._linking.link(ranked, self._event_ids):
                yield linked, self._above(linked)

    def languages(self) -> Counter[str]:
        """Count the mentions of each language."""
        return Counter(mention.language for mention in self._mentions)

    def _above(self, linked: Sequence[str]) -> dict[str, list[str]]:
        above: dict[str, list[str]] = {}
        for event_id in linked:
            for ancestor in self._knowledge_base.ancestors(event_id):
                if ancestor not in linked:
                    above.setdefault(ancestor, []).append(event_id)
        return above

    def _made(self, places: range) -> Iterator[GroundedMention]:
        known, event_ids = self._knowledge_base, self._event_ids
        found, ranked = (candidates.take(places) for candidates in self._candidates)
        probabilities = expit(ranked.scores.astype(np.float64)).tolist()
        links = self._linking.link(ranked, event_ids)
        for row, (place, linked) in enumerate(zip(places, links, strict=True)):
            mention = self._mentions[place]
            scores = dict(zip(found.events[row].tolist(), found.scores[row].tolist(), strict=True))
            candidates = tuple(
                CandidateEvent(
                    event_ids[event],
                    known.title(event_ids[event], mention.language),
                    scores[event],
                    probability if self._linking.with_reranker else None,
                    event_ids[event] in linked,
                )
                for event, probability in zip(ranked.events[row].tolist(), probabilities[row], strict=True)
                if event >= 0
            )
            yield GroundedMention(
                mention=mention,
                candidates=candidates,
                ancestors=tuple(
                    Ancestor(event_id, known.title(event_id, mention.language), tuple(of))
                    for event_id, of in self._above(linked).items()
                ),
                has_pool=bool(candidates),
                threshold=self._linking.value,
            )
