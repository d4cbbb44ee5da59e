"""Completion of many heads with many relations of a commonsense graph at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch

from eventformers.datasets_scripts.relation_templates import RelationTemplates
from eventformers.inference.commonsense.alternative_index import AlternativeIndex
from eventformers.inference.commonsense.complete import Query, own_texts
from eventformers.inference.commonsense.neighbour_votes import VoteSettings, voted_ranking
from eventformers.inference.encode import EventEncoder

BLOCK_SCORES = 2**24
"""Number of scores at a time, which bounds the memory."""


class ManyCompletions(NamedTuple):
    """The best alternatives of a head and a relation.

    Attributes:
        head: the head.
        relation: the relation.
        alternatives: the alternatives with their scores, best first.
    """

    head: str
    relation: str
    alternatives: list[tuple[str, float]]


def complete_many(
    encoder: EventEncoder,
    heads: Sequence[str],
    relations: Sequence[str],
    index: AlternativeIndex,
    templates: RelationTemplates,
    *,
    top: int = 3,
    votes: VoteSettings | None = None,
    batch_size: int | Literal["auto"] = "auto",
    show_progress: bool = False,
) -> Iterator[ManyCompletions]:
    """Find the alternatives of a graph for each head and relation, with the scores of `complete`.

    All premises are encoded in one call, and scored in blocks.

    Args:
        encoder: the model of the index.
        heads: the heads, such as texts of events.
        relations: relations of the graph.
        index: the alternatives of the graph.
        templates: the templates of its relations.
        top: number of alternatives of a head and a relation.
        votes: settings of the votes of the nearest known premises; None ranks by the cosine only.
        batch_size: maximum number of texts in a batch, or `auto`.
        show_progress: draw a progress bar on standard error.

    Yields:
        One result for each head and relation, all relations of a head in turn.

    Raises:
        UnknownNameError: the graph has no such relation.
        EventformersError: a head contains no word, or memory ran out.
    """
    queries = [
        Query(templates.premise(relation, head, "forward"), head, relation, "forward")
        for head in heads
        for relation in relations
    ]
    premises = encoder.encode(
        [query.text for query in queries],
        batch_size=batch_size,
        normalize=True,
        prompt_name="query",
        show_progress=show_progress,
    )
    alternatives = index.alternatives.vectors
    texts = index.alternatives.texts.to_pylist()
    place_of = {text: place for place, text in enumerate(texts)}
    premise_of = {text: place for place, text in enumerate(index.premises.texts.to_pylist())}
    ranking = None
    if votes is not None:
        known = index.premises.vectors
        ranking = voted_ranking(premises, known, index.offsets, index.known, alternatives, votes)
        premises = ranking.premises
    rows_at_once = max(1, BLOCK_SCORES // len(alternatives))
    for start in range(0, len(queries), rows_at_once):
        rows = np.arange(start, min(start + rows_at_once, len(queries)))
        scores = torch.from_numpy(premises[rows] @ alternatives.T)
        if ranking is not None:
            scores = ranking.rerank(torch.from_numpy(rows), scores)
        for row, of_query in zip(rows.tolist(), scores, strict=True):
            query = queries[row]
            answers = premise_of.get(query.text)
            right = set() if answers is None else set(index.alternatives_of(answers).tolist())
            # The head is near its own premise, but answers it only if the graph says so.
            for text in own_texts(query, templates):
                if (place := place_of.get(text)) is not None and place not in right:
                    of_query[place] = -torch.inf
            best = of_query.topk(min(top, len(texts)))
            found = [
                (texts[place], score)
                for place, score in zip(best.indices.tolist(), best.values.tolist(), strict=True)
                if score > -np.inf
            ]
            yield ManyCompletions(query.head or "", query.relation or "", found)
