"""Rows on event grounding: the mentions and events of each, a bi-encoder for each run, and a cross-encoder on
its candidates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

from eventformers.baselines import get_baseline
from eventformers.errors import DataFormatError, EventformersError, shown
from eventformers.evaluation.core import evaluate
from eventformers.evaluation.data import load_task_data
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks.grounding_protocols import DEVELOPMENT_SPLIT, GroundingSettings
from eventformers.loading.encoders import resolve_encoder
from eventformers.reproduction.layout import UNTRAINED, PaperRow
from eventformers.reproduction.rows import (
    Columns,
    ReproducedRow,
    Reproduction,
    Run,
    ScoredSplit,
    identity_digest,
    mean_result,
    other_evaluation,
    splits_of,
    task_under,
)
from eventformers.reproduction.runs import plan_run, train_run
from eventformers.trainers.run import resolve_recipe

CROSS_ENCODER = "event_grounding_cross"
"""The method of the cross-encoders."""

_LINKING = "event_linking"
_ANY_THRESHOLD = 0.5
"""Stands for the threshold that is not known before development mentions are linked."""


@dataclass(frozen=True, kw_only=True)
class GroundingRow(PaperRow):
    """A row on mentions of its own: a baseline, or a system of as many runs as the table has.

    Attributes:
        grounding: which mentions and events are read.
        baseline: a key of `BASELINES`, or `UNTRAINED`; empty for a system.
        variant: as of `plan_run`, for a system.
        stages: as of `plan_run`, for a system.
        part: the language that is shown; empty for all of them.
    """

    grounding: GroundingSettings
    baseline: str = ""
    variant: str = ""
    stages: tuple[str, ...] = ()
    part: str = ""

    @property
    def overrides(self) -> tuple[str, ...]:
        """Recipe settings that make a system."""
        return (f"data.task={self.grounding.task}",)

    def plan(self, call: Reproduction, row: ReproducedRow) -> None:
        """As of `PaperRow`; a row that is not run says why in its state."""
        recipe = resolve_recipe(call.method, call.recipe, call.settings, call.seed)
        # The paper has events of hierarchies alone, and so has a recipe with its settings.
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
        # The recipe of the cross-encoder is the same for all systems of a task.
        run = plan_run(call, name, retriever.seed, self.overrides, variant="cross", method=CROSS_ENCODER)
        return replace(run, digest=identity_digest({"run": run.digest, "retriever": retriever.digest}))

    def fill(self, call: Reproduction, row: ReproducedRow) -> None:
        """As of `PaperRow`."""
        models: list[tuple[Path, Path | None]] = [(call.row_folder(row), None)] if self.baseline else []
        for number, run in enumerate(row.runs):
            # The scores of the table are of other tasks and domains than those of a run alone.
            folder = train_run(call, run, ())
            reranker: Path | None = None
            if row.helpers:
                # A path may look like another kind of YAML.
                found_by = f"views.retriever={json.dumps(str(folder.resolve()))}"
                reranker = train_run(call, row.helpers[number], (), found_by)
            models.append((folder, reranker))
        row.folder = models[0][0]
        with Session(call.session) as session:
            for wanted in row.splits:
                results = [self._result(call, wanted, *model, session) for model in models]
                row.results[wanted] = mean_result(results) if len(results) > 1 else results[0]

    def _result(
        self,
        call: Reproduction,
        wanted: ScoredSplit,
        folder: Path,
        reranker: Path | None,
        session: Session,
    ) -> TaskResult:
        """A model's result; the threshold is chosen by its result on development mentions."""
        settings, home = cast(GroundingSettings, wanted.settings), folder
        if wanted.task == _LINKING:
            settings = replace(settings, threshold=None, reranker=None if reranker is None else str(reranker))
            home = reranker or folder
            development = _development(call, settings)
            if wanted != development:
                chosen = self._result(call, development, folder, reranker, session)
                settings = replace(settings, threshold=float(str(chosen.details["threshold"])))
        told = {name: value for name, value in settings.recorded.items() if name != "reranker"}
        if self.baseline in ("", UNTRAINED):
            model = resolve_encoder(call.encoder) if self.baseline else str(folder)
            # The table has the untrained encoder in rows of its own.
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
        """As of `PaperRow`."""
        return {
            **super().record(row),
            "overrides": None if self.baseline else self.overrides,
            "baseline": self.baseline or None,
            "grounding": self.grounding.chosen,
            "seeds": [run.seed for run in row.runs],
        }


def _columns(call: Reproduction, settings: GroundingSettings) -> Columns:
    """What each column is measured on under settings of the data; errors as of `Reproduction.read_by`."""

    def read(task: str) -> GroundingSettings:
        if settings.domain != "wikipedia":
            _check_domain(call, task, settings)
        if task != _LINKING:
            return settings
        _development(call, settings)
        return replace(settings, threshold=_ANY_THRESHOLD)

    return call.read_by(read)


def _development(call: Reproduction, settings: GroundingSettings) -> ScoredSplit:
    """The mentions that a threshold is chosen on: those of development of Wikipedia.

    Raises:
        EventformersError: there are none.
    """
    usual = replace(settings, domain="wikipedia", threshold=_ANY_THRESHOLD, reranker=None)
    found = call.splits(_LINKING, (DEVELOPMENT_SPLIT,), usual)
    if not found:
        raise EventformersError(
            f"found no split {shown(DEVELOPMENT_SPLIT)} of Wikipedia to choose a threshold on; "
            "accepted: data with it"
        )
    return found[0]


def _check_domain(call: Reproduction, name: str, settings: GroundingSettings) -> None:
    """Refuse data that are built already, of Wikipedia.

    Raises:
        EventformersError: the mentions are those of Wikipedia.
    """

    def load(reading: GroundingSettings) -> dict[str, str]:
        """The fingerprint of each split."""
        held = load_task_data(task_under(name, reading), call.evaluation_data, call.session.data)
        return {split: held.built.fingerprint(rows, split) for split, rows in held.splits.items()}

    found = load(settings)
    try:
        others = load(replace(settings, domain="wikipedia"))
    except DataFormatError:
        raise
    except EventformersError:
        return
    if found.items() & others.items():
        raise EventformersError(
            f"found the mentions of Wikipedia where those of {settings.domain} are asked for; accepted: "
            "raw files of both"
        )
