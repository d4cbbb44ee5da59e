"""Event grounding by BM25, from the words that a mention with its context shares with an event."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from eventformers.baselines.base import Baseline, BaselineTask, ReadyBaseline, settings_revision
from eventformers.baselines.bm25 import Bm25Index, Bm25Settings
from eventformers.errors import EventformersError
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.tasks import Task, get_task, names_of_kind, with_settings
from eventformers.evaluation.tasks.base import Prepared
from eventformers.evaluation.tasks.grounding import Grounding
from eventformers.evaluation.tasks.grounding_protocols import GroundingSettings
from eventformers.inference.grounding.encoding import event_text, mention_text
from eventformers.inference.grounding.retrieve_rerank import GroundingModel


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


@dataclass(frozen=True)
class Bm25(Baseline):
    """BM25 on tasks of event grounding."""

    @property
    def tasks(self) -> list[str]:
        """See `Baseline`."""
        return names_of_kind(Grounding)

    def __call__(
        self, task: str | Task, *arguments: Any, grounding: GroundingSettings | None = None, **options: Any
    ) -> TaskResult:
        """See `Baseline`.

        Args:
            task: a task of event grounding.
            *arguments: as in `Baseline`.
            grounding: settings of the mentions and of linking; None uses the defaults.
            **options: as in `Baseline` and `prepare`.

        Raises:
            EventformersError: a re-ranker is requested.
        """
        if grounding is not None:
            if grounding.reranker is not None:
                raise EventformersError(f"{self.name} with a re-ranker; accepted: no reranker")
            task = with_settings(get_task(task), grounding)
        return super().__call__(task, *arguments, **options)

    def prepare(self, opened: BaselineTask, *, settings: Bm25Settings | None = None) -> ReadyBaseline:
        """See `Baseline`.

        Args:
            opened: the task.
            settings: weighting of words; None uses the defaults.
        """
        weights = settings or Bm25Settings()
        kind = opened.task.kind
        prepared = Prepared(bm25_model(weights))
        return ReadyBaseline(
            self.name,
            settings_revision(asdict(weights)),
            lambda: kind.run(prepared.asked, opened.scored_data.task_rows),
            settings={**asdict(weights), **kind.record(prepared)},
        )
