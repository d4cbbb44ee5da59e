"""Baselines for the tasks, by name.

Each is called with a task and its data, like `eventformers.evaluate`, and returns a `TaskResult`. Its
`prepare` describes its own options:

>>> from eventformers.baselines import get_baseline
>>> result = get_baseline("rotate")("conceptnet_completion", "ckg", split="validation")  # doctest: +SKIP
>>> result = get_baseline("masked_lm")("copa", "cqa", model="roberta-large")  # doctest: +SKIP

>>> result = get_baseline("ppmi")("mcnc", "chains")  # doctest: +SKIP
>>> result = get_baseline("bm25")("event_retrieval", "hierarchies")  # doctest: +SKIP
>>> result = get_baseline("same_lemma")("event_coreference", "ecbplus")  # doctest: +SKIP

`conve`, `rotate` and `complex` need PyKEEN, `word2vec` and the event networks need gensim: install both with
`pip install "eventformers[baselines]"`.
"""

from __future__ import annotations

from eventformers.baselines.base import Baseline, Chance
from eventformers.baselines.bm25 import Bm25
from eventformers.baselines.chain_baselines import CHAIN_BASELINES, OnChains
from eventformers.baselines.chain_counts import Protagonist
from eventformers.baselines.graph_completion import GraphBaseline
from eventformers.baselines.knowledge_graph_embeddings import METHODS, EmbeddingSettings
from eventformers.baselines.language_models import LanguageModelBaseline
from eventformers.baselines.lemmas import Lemmas
from eventformers.errors import UnknownNameError

__all__ = ["BASELINES", "Baseline", "EmbeddingSettings", "get_baseline"]

BASELINES: dict[str, Baseline] = {
    baseline.name: baseline
    for baseline in (
        *map(GraphBaseline, METHODS),
        *map(OnChains, CHAIN_BASELINES),
        Bm25("bm25"),
        LanguageModelBaseline("masked_lm"),
        LanguageModelBaseline("causal_lm", causal=True),
        Protagonist("protagonist"),
        Lemmas("same_lemma"),
        Lemmas("lemma_similarity", similar=True),
        Chance("random"),
    )
}
"""The baselines by name."""


def get_baseline(name: str) -> Baseline:
    """Look up a baseline by its name.

    Raises:
        UnknownNameError: the baseline is unknown.
    """
    if name not in BASELINES:
        raise UnknownNameError("baseline", name, BASELINES)
    return BASELINES[name]
