"""Coreference of events by the lemmas of their triggers, which read no vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eventformers.baselines.base import Baseline, BaselineTask, ReadyBaseline
from eventformers.evaluation.tasks.base import Row
from eventformers.evaluation.tasks.coreference import (
    Coreference,
    Grouper,
    Grouping,
    document_vectors,
    parsed_mentions,
    within_topics,
)
from eventformers.inference.induction.mention_distances import Labels


@dataclass(frozen=True)
class Lemmas(Baseline):
    """Mentions of a topic are the same event if the heads of their triggers have one lemma.

    Attributes:
        similar: also require a path of mentions whose documents have at least a TF-IDF cosine, the threshold
            (the baseline lemma-δ of Upadhyay et al., COLING 2016).
    """

    kind = Coreference

    similar: bool = False

    def prepare(self, opened: BaselineTask) -> ReadyBaseline:
        """See `Baseline`; takes no options."""
        kind, rows = opened.task.kind, opened.scored_data.task_rows
        # Without similarity, no threshold decides.
        scorer = Grouper(self._group, None if self.similar else 0.5)
        return ReadyBaseline(self.name, "rule", lambda: kind.run(scorer, rows))

    def _group(self, rows: Sequence[Row], topics: Labels) -> Grouping:
        lemmas = np.unique([one["lemma"] for one in parsed_mentions(rows)], return_inverse=True)[1]
        vectors, document = document_vectors(rows)

        def similarities(places: Labels) -> np.ndarray:
            if not self.similar:
                return np.ones((len(places), len(places)))
            of_mentions = vectors[document[places]]
            return (of_mentions @ of_mentions.T).toarray()

        groups = np.unique(np.stack([topics, lemmas]), axis=1, return_inverse=True)[1].ravel()
        return within_topics(similarities, groups, "single")
