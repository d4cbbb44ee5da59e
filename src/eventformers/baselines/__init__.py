"""Baselines for the tasks, by name.

Each is a function of a task and its data that returns a `TaskResult`, like `eventformers.evaluate`:

>>> from eventformers.baselines import get_baseline
>>> result = get_baseline("rotate")("conceptnet_completion", "ckg", split="validation")  # doctest: +SKIP
>>> result = get_baseline("masked_lm")("copa", "cqa", model="roberta-large")  # doctest: +SKIP

>>> result = get_baseline("ppmi")("mcnc", "chains")  # doctest: +SKIP
>>> result = get_baseline("bm25")("event_retrieval", "hierarchies")  # doctest: +SKIP

`conve`, `rotate` and `complex` need PyKEEN, `word2vec` and the event networks need gensim: install both with
`pip install eventformers[baselines]`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from eventformers.baselines.bm25_grounding import evaluate_bm25
from eventformers.baselines.chain_baselines import CHAIN_BASELINES, evaluate_chain_baseline
from eventformers.baselines.chance import evaluate_chance
from eventformers.baselines.graph_completion import evaluate_embeddings
from eventformers.baselines.knowledge_graph_embeddings import METHODS, EmbeddingSettings
from eventformers.baselines.masked_language_model import evaluate_masked_language_model
from eventformers.errors import UnknownNameError
from eventformers.evaluation.results import TaskResult

__all__ = ["BASELINES", "Baseline", "EmbeddingSettings", "get_baseline"]

Baseline: TypeAlias = Callable[..., TaskResult]
"""Function of a task, its data and the baseline's own arguments, which returns a result."""

BASELINES: dict[str, Baseline] = {
    **{name: partial(evaluate_embeddings, name) for name in METHODS},
    **{name: partial(evaluate_chain_baseline, name) for name in CHAIN_BASELINES},
    "bm25": evaluate_bm25,
    "masked_lm": evaluate_masked_language_model,
    "random": evaluate_chance,
}
"""The baselines by name.

All accept `split`, `device`, `output`, `overwrite` and `show_progress`. Graph embeddings and baselines on
chains also accept `settings` and `seed`, and the latter `training_data`; `masked_lm` requires `model` and
accepts `dtype` and `batch_size`; `bm25` accepts `settings` and `grounding`.
"""


def get_baseline(name: str) -> Baseline:
    """Look up a baseline by its name.

    Raises:
        UnknownNameError: the baseline is unknown.
    """
    if name not in BASELINES:
        raise UnknownNameError("baseline", name, BASELINES)
    return BASELINES[name]
