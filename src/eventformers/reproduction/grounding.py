"""Rows on event grounding, each with its own mentions and events.

Each run of a row has a bi-encoder, and a cross-encoder that re-ranks its candidates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

from eventformers.baselines import get_baseline
from eventformers.errors import EventformersError, shown
from eventformers.evaluation.core import evaluate
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks.grounding_protocols import DEVELOPMENT_SPLIT, GroundingSettings
from eventformers.loading.encoders import resolve_encoder
from eventformers.reproduction.rows import (
    UNTRAINED,
    Columns,
    PaperRow,
    ReproducedRow,
    Reproduction,
    Run,
    ScoredSplit,
    identity_digest,
    other_evaluation,
    splits_of,
)
from eventformers.reproduction.runs import plan_run, train_run
from eventformers.trainers.run import resolve_recipe

CROSS_ENCODER = "event_grounding_cross"
"""The method of the cross-encoders."""

_LINKING = "event_linking"
_ANY_THRESHOLD = 0.5
"""A placeholder until the threshold is chosen on development mentions."""


@dataclass(frozen=True, kw_only=True)
class GroundingRow(PaperRow):
    """A row with its own mentions: a baseline, or a system with as many runs as the table has.

    Attributes:
        grounding: the settings that choose mentions and events.
        baseline: a key of `BASELINES`, or `UNTRAINED`; empty for a system.
        variant: as for `plan_run`, for a system.
        stages: as for `plan_run`, for a system.
        part: the language to show; empty for all languages.
    """

    grounding: GroundingSettings
    baseline: str = ""
    variant: str = ""
    stages: tuple[str, ...] = ()
    part: str = ""

    @property
    def overrides(self) -> tuple[str, ...]:
        """The recipe settings of a system."""
        return (f"data.task={self.grounding.task}",)

    def plan(self, call: Reproduction, row: ReproducedRow) -> None:
        """See `PaperRow`; the state of a row that is not run gives the reason."""
        recipe = resolve_recipe(call.method, call.recipe, call.settings, call.seed)
        # The paper has only events of hierarchies, and so does a recipe with its settings.
        hierarchies_only = bool(recipe.data.get("hierarchies_only", False))
        settings = replace(self.grounding, hierarchies_only=hierarchies_only)
        row.columns = _columns(call, settings)
        splits = splits_of(row.columns)
        if settings.task != "multilingual":
            others = splits_of(_columns(call, replace(settings, task="multilingual")))
            if [one.fingerprint for one in splits] == [one.fingerprint for one in others]:
                row.state = f"not run: in these data the {settings.task} task is the multilingual one"
                return
        row.splits = splits
        identity: dict[str, object] = {"settings": settings.of_data}
        if self.baseline:
            encoder = call.encoder_identity if self.baseline == UNTRAINED else None
            identity |= {"baseline": self.baseline, "encoder": encoder}
        else:
            row.runs = tuple(
                plan_run(
                    *(call, f"{self.slug}-{seed}", seed, self.overrides),
                    variant=self.variant,
                    stages=self.stages,
                )
                for seed in range(call.seed, call.seed + call.runs)
            )
            if _LINKING in row.tasks:
                row.helpers = tuple(self._cross_encoder(call, run) for run in row.runs)
            identity["runs"] = [run.digest for run in (*row.runs, *row.helpers)]
        row.digest = identity_digest(identity)

    def _cross_encoder(self, call: Reproduction, retriever: Run) -> Run:
        name = f"{self.slug}-cross-{retriever.seed}"
        # All systems of a task share the recipe of the cross-encoder.
        run = plan_run(call, name, retriever.seed, self.overrides, variant="cross", method=CROSS_ENCODER)
        return replace(run, digest=identity_digest({"run": run.digest, "retriever": retriever.digest}))

    def fill(self, call: Reproduction, row: ReproducedRow) -> None:
        """See `PaperRow`."""
        models: list[tuple[Path, Path | None]] = [(call.row_folder(row), None)] if self.baseline else []
        for number, run in enumerate(row.runs):
            # The table scores other tasks and domains than a single run does.
            folder = train_run(call, run, ())
            reranker: Path | None = None
            if row.helpers:
                # Quoted, since YAML could read a path as another type.
                found_by = f"views.retriever={json.dumps(str(folder.resolve()))}"
                reranker = train_run(call, row.helpers[number], (), found_by)
            models.append((folder, reranker))
        row.folder = models[0][0]
        with Session(call.session) as session:
            for model in models:
                row.add_run(partial(self._result, call, *model, session))

    def _result(
        self,
        call: Reproduction,
        folder: Path,
        reranker: Path | None,
        session: Session,
        wanted: ScoredSplit,
    ) -> TaskResult:
        """Return a model's result; its result on development mentions chooses the threshold."""
        settings, home = cast(GroundingSettings, wanted.settings), folder
        if wanted.task == _LINKING:
            settings = replace(settings, threshold=None, reranker=None if reranker is None else str(reranker))
            home = reranker or folder
            development = _development(call, settings)
            if wanted != development:
                chosen = self._result(call, folder, reranker, session, development)
                settings = replace(settings, threshold=float(str(chosen.details["threshold"])))
        told = {name: value for name, value in settings.recorded.items() if name != "reranker"}
        if self.baseline in ("", UNTRAINED):
            model = resolve_encoder(call.encoder) if self.baseline else str(folder)
            # The table has separate rows for the untrained encoder.
            measure = partial(evaluate, model, baseline=False, settings=settings, session=session)
        else:
            measure = partial(get_baseline(self.baseline), grounding=settings)
        return call.result(
            wanted,
            (other_evaluation(home, wanted),),
            measure,
            lambda held: all(held.settings.get(name) == value for name, value in told.items()),
        )

    def record(self, row: ReproducedRow) -> Mapping[str, object]:
        """See `PaperRow`."""
        return {
            **super().record(row),
            "overrides": None if self.baseline else self.overrides,
            "baseline": self.baseline or None,
            "grounding": self.grounding.chosen,
            "seeds": [run.seed for run in row.runs],
        }


def _columns(call: Reproduction, settings: GroundingSettings) -> Columns:
    """Find the splits of each column under settings of the data; errors as in `Reproduction.read_by`."""

    def read(task: str) -> GroundingSettings:
        if task != _LINKING:
            return settings
        _development(call, settings)
        return replace(settings, threshold=_ANY_THRESHOLD)

    return call.read_by(read)


def _development(call: Reproduction, settings: GroundingSettings) -> ScoredSplit:
    """Find the development mentions of Wikipedia, on which a threshold is chosen.

    Raises:
        EventformersError: the data lacks them.
    """
    usual = replace(settings, domain="wikipedia", threshold=_ANY_THRESHOLD, reranker=None)
    found = call.splits(_LINKING, (DEVELOPMENT_SPLIT,), usual)
    if not found:
        raise EventformersError(
            f"found no split {shown(DEVELOPMENT_SPLIT)} of Wikipedia to choose a threshold on; accepted: "
            "data with this split"
        )
    return found[0]
