"""Event grounding by BM25, from the words that a mention with its context shares with an event."""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

from eventformers.baselines.bm25 import Bm25Index, Bm25Settings
from eventformers.baselines.measuring import open_task, settings_revision
from eventformers.errors import EventformersError
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.tasks import get_task, names_of_kind, with_settings
from eventformers.evaluation.tasks.base import Prepared
from eventformers.evaluation.tasks.grounding import Grounding
from eventformers.evaluation.tasks.grounding_protocols import GroundingSettings
from eventformers.inference.grounding.encoding import event_text, mention_text
from eventformers.inference.grounding.retrieve_rerank import GroundingModel

NAME = "bm25"


def bm25_model(settings: Bm25Settings | None = None) -> GroundingModel:
    """Build the functions that a protocol of event grounding needs, with BM25.

    Args:
        settings: weighting of words; None uses the defaults.
    """

    return GroundingModel(
        lambda mentions: [mention_text(mention) for mention in mentions],
        lambda events: [event_text(event) for event in events],
        partial(Bm25Index, settings=settings),
    )


def evaluate_bm25(
    task: str,
    data: str | Path | None = None,
    *,
    split: str | None = None,
    settings: Bm25Settings | None = None,
    grounding: GroundingSettings | None = None,
    device: str | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    show_progress: bool = False,
) -> TaskResult:
    """Score BM25 on a task of event grounding.

    Args:
        task: such as `event_retrieval`.
        data: folder of raw files, built folder or Hub id of `EventHierarchies`; None uses the bundled
            samples, which are not a benchmark.
        split: the split to score; None uses the test split if there is one.
        settings: weighting of words; None uses the defaults.
        grounding: settings of the mentions and of linking; None uses the defaults.
        device: accepted by all baselines; ignored here.
        output: folder under whose `results/` the result is written; None writes nothing.
        overwrite: replace a result on other rows.
        show_progress: accepted by all baselines; ignored here.

    Raises:
        UnknownNameError: the task is unknown.
        EventformersError: the task does not link mentions, a re-ranker is requested, or the data cannot be
            loaded.
    """
    chosen = get_task(task)
    if not isinstance(chosen.kind, Grounding):
        accepted = ", ".join(names_of_kind(Grounding))
        raise EventformersError(f"{task} does not link mentions to events; accepted: {accepted}")
    if grounding is not None:
        if grounding.reranker is not None:
            raise EventformersError(f"{NAME} with a re-ranker; accepted: no reranker")
        chosen = with_settings(chosen, grounding)
    weights = settings or Bm25Settings()
    opened = open_task(chosen, data, split)
    prepared = Prepared(bm25_model(weights))
    told = {**asdict(weights), **chosen.kind.record(prepared)}
    revision = settings_revision(asdict(weights))
    opened.check_place(output, NAME, revision, overwrite=overwrite)
    started = time.perf_counter()
    protocol_output = chosen.kind.run(prepared.asked, opened.scored_data.task_rows(chosen))
    return opened.finish(
        protocol_output,
        model=NAME,
        revision=revision,
        settings=told,
        seconds=time.perf_counter() - started,
        load_seconds=0.0,
        output=output,
        overwrite=overwrite,
    )
