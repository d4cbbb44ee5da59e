"""Kinds of rows: trained models, baselines, and rows with their own reading of mentions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial

from eventformers.baselines import get_baseline
from eventformers.baselines.chain_baselines import (
    CHAIN_BASELINES,
    load_training_chains,
    train_chain_baseline,
)
from eventformers.baselines.knowledge_graph_embeddings import METHODS as EMBEDDINGS
from eventformers.evaluation.core import evaluate
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import TASKS, with_settings
from eventformers.evaluation.tasks.induction_protocols import InductionSettings
from eventformers.inference.chains.virtual_context import VirtualContext
from eventformers.inference.induction.mention_encoding import WITHOUT_TRIGGERS
from eventformers.loading.encoders import resolve_encoder
from eventformers.reproduction.rows import (
    UNTRAINED,
    PaperRow,
    ReproducedRow,
    Reproduction,
    Run,
    ScoredSplit,
    identity_digest,
    other_evaluation,
    read_record,
    splits_of,
)
from eventformers.reproduction.runs import RUN_RECORD, plan_run, run_folder, train_run
from eventformers.trainers.run import resolve_recipe


@dataclass(frozen=True)
class TrainedRow(PaperRow):
    """A row that trains a model.

    Attributes:
        overrides: recipe settings, `section.key=value`, of this row.
        rerank: re-rank alternatives by the votes of training premises, in tasks that rank alternatives.
        context_layers: number of graph layers that read single events at the end of training chains, in tasks
            that compare events; 0 reads events alone.
        variant: as for `plan_run`.
        method: the `model_type` to train, with its own settings; empty for the table's.
    """

    overrides: tuple[str, ...] = ()
    rerank: bool = False
    context_layers: int = 0
    variant: str = ""
    method: str = ""

    def plan(self, call: Reproduction, row: ReproducedRow) -> None:
        """See `PaperRow`."""
        row.columns = call.columns
        row.runs = tuple(
            plan_run(call, self.slug, seed, self.overrides, variant=self.variant, method=self.method)
            for seed in range(call.seed, call.seed + call.runs)
        )
        run, *others = row.runs
        tasks = {column.task for column in row.columns}
        # A method that does not choose tasks by recipe can be scored on every task of the table.
        if run.method.training.choose_tasks is not None:
            tasks &= set(run.method.tasks_of(resolve_recipe(run.method, run.recipe, run.settings, run.seed)))
        if self.rerank:
            tasks = {name for name in tasks if "rerank" in TASKS[name].kind.uses}
        row.splits = splits_of(row.columns, tasks)
        row.digest = identity_digest({"runs": [one.digest for one in row.runs]}) if others else run.digest

    def fill(self, call: Reproduction, row: ReproducedRow) -> None:
        """See `PaperRow`."""
        row.folder = run_folder(call, row.runs[0])
        for run in row.runs:
            self._fill_run(call, row, run)

    def _fill_run(self, call: Reproduction, row: ReproducedRow, run: Run) -> None:
        folder = train_run(call, run, row.tasks)
        revision = read_record(folder / RUN_RECORD)["revision"]

        def result_of(wanted: ScoredSplit) -> TaskResult:
            settings = self._settings(call, wanted)
            named = "" if wanted.is_usual else wanted.split
            kind = with_settings(TASKS[wanted.task], settings).kind
            variant = "-".join(filter(None, (named, kind.settings.name)))
            return call.result(
                wanted,
                (folder, other_evaluation(folder, wanted)),
                partial(evaluate, str(folder), settings=settings, session=session),
                lambda held: (held.model_revision, held.variant) == (revision, variant),
            )

        with Session(call.session) as session:
            row.add_run(result_of)

    def state(self, trained: Sequence[str], measured: int, seconds: float) -> str:
        """See `PaperRow`; the scores are part of the training."""
        if len(trained) > 1:
            return f"{len(trained)} trained, {seconds:.0f} s"
        return trained[0] if trained else "cached, scored again" if measured else "cached"

    def _settings(self, call: Reproduction, wanted: ScoredSplit) -> dict[str, object]:
        """Return the settings of a task for this row."""
        if self.rerank:
            return {"rerank": True}
        if self.context_layers and "virtual_context" in TASKS[wanted.task].kind.uses:
            return {"virtual_context": VirtualContext(call.data, num_layers=self.context_layers)}
        return {}

    def record(self, row: ReproducedRow) -> Mapping[str, object]:
        """See `PaperRow`."""
        return {
            **super().record(row),
            "overrides": self.overrides,
            "rerank": self.rerank,
            "context_layers": self.context_layers,
            "seeds": [run.seed for run in row.runs],
        }


@dataclass(frozen=True)
class BaselineRow(PaperRow):
    """A row that measures a baseline.

    Attributes:
        baseline: a key of `BASELINES`, or `UNTRAINED`.
    """

    baseline: str

    def plan(self, call: Reproduction, row: ReproducedRow) -> None:
        """See `PaperRow`."""
        row.columns = call.columns
        row.splits = splits_of(row.columns)
        row.digest = identity_digest({"baseline": self.baseline, **self._identity(call)})

    def fill(self, call: Reproduction, row: ReproducedRow) -> None:
        """See `PaperRow`."""
        folder = row.folder = call.row_folder(row)
        with Session(call.session) as session:
            prepared = cache(partial(self._prepared, call, session))
            row.add_run(
                lambda wanted: call.result(
                    wanted,
                    (other_evaluation(folder, wanted),),
                    lambda task, **arguments: prepared()(task, **arguments),
                )
            )

    def _identity(self, call: Reproduction) -> dict[str, object]:
        """Collect what decides the baseline's outcome beside the scored rows.

        Raises:
            EventformersError: there are no chains to learn from.
        """
        if self.baseline in EMBEDDINGS:
            return {"settings": asdict(EMBEDDINGS[self.baseline].defaults), "seed": call.seed}
        if self.baseline in CHAIN_BASELINES:
            return {
                "settings": asdict(CHAIN_BASELINES[self.baseline].settings),
                "seed": call.seed,
                "rows": load_training_chains(call.data).fingerprint,
            }
        reads_encoder = self.baseline in ("masked_lm", UNTRAINED)
        return {"encoder": call.encoder_identity if reads_encoder else None}

    def _prepared(self, call: Reproduction, session: Session) -> Callable[..., TaskResult]:
        """Return the baseline with all arguments but a task and its data; train a baseline on chains."""
        if self.baseline == UNTRAINED:
            return partial(evaluate, resolve_encoder(call.encoder), baseline=False, session=session)
        measure = get_baseline(self.baseline)
        if self.baseline in EMBEDDINGS:
            return partial(measure, seed=call.seed)
        if self.baseline in CHAIN_BASELINES:
            trained = train_chain_baseline(self.baseline, call.data, seed=call.seed)
            return partial(measure, trained=trained)
        return (
            partial(measure, model=resolve_encoder(call.encoder)) if self.baseline == "masked_lm" else measure
        )

    def record(self, row: ReproducedRow) -> Mapping[str, object]:
        """See `PaperRow`."""
        return {**super().record(row), "baseline": self.baseline}


@dataclass(frozen=True, kw_only=True)
class ReadingRow(PaperRow):
    """A row that is scored with its own reading of models, which it shares with other rows.

    Attributes:
        reading: how mentions are read and clustered.
        overrides: recipe settings, `section.key=value`, of a separate model; empty for the model that rows
            share; None for the untrained encoder.
        averaged: average the scores over the table's `runs`, with consecutive seeds.
        ensemble: cluster mentions by the mean distances of as many runs of the table's recipe.
    """

    reading: InductionSettings
    overrides: tuple[str, ...] | None = ()
    averaged: bool = False
    ensemble: bool = False

    def plan(self, call: Reproduction, row: ReproducedRow) -> None:
        """See `PaperRow`."""
        row.columns = call.columns
        row.splits = splits_of(row.columns)
        if self.ensemble:
            row.helpers = self._runs(call, (), call.runs)
        if self.overrides is not None:
            row.runs = self._runs(call, self.overrides, call.runs if self.averaged else 1)
        row.digest = identity_digest(
            {
                "encoder": call.encoder_identity if self.overrides is None else None,
                "runs": [run.digest for run in row.runs],
                "clustering": [run.digest for run in row.helpers],
                "reading": self._reading(call).recorded,
            }
        )

    def _runs(self, call: Reproduction, overrides: tuple[str, ...], number: int) -> tuple[Run, ...]:
        name = self.slug if overrides else "run"
        seeds = range(call.seed, call.seed + number)
        return tuple(plan_run(call, f"{name}-{seed}", seed, overrides) for seed in seeds)

    def _reading(self, call: Reproduction) -> InductionSettings:
        """Return the settings for reading mentions.

        An untrained encoder reads the trigger tokens if the recipe's models read triggers.
        """
        if self.overrides is not None or self.reading.trigger_input is not None:
            return self.reading
        recipe = resolve_recipe(call.method, call.recipe, call.settings, call.seed)
        if recipe.model.get("trigger_input", "none") in WITHOUT_TRIGGERS:
            return self.reading
        return replace(self.reading, trigger_input="span")

    def fill(self, call: Reproduction, row: ReproducedRow) -> None:
        """See `PaperRow`."""
        folders = {run: str(train_run(call, run, row.tasks)) for run in (*row.runs, *row.helpers)}
        folder = row.folder = call.row_folder(row)
        clustered_by = tuple(folders[run] for run in row.helpers)
        settings = replace(self._reading(call), clustered_by=clustered_by)

        def score(model: str, run: str) -> None:
            # The table has separate rows for the untrained encoder.
            measure = partial(evaluate, model, baseline=False, settings=settings, session=call.session)
            row.add_run(
                lambda wanted: call.result(wanted, (other_evaluation(folder, wanted) / run,), measure)
            )
            # The rows share vectors; the models of many runs would fill the memory.
            call.session.release_models()

        models = [folders[run] for run in row.runs] or [resolve_encoder(call.encoder)]
        for number, model in enumerate(models, start=1):
            score(model, f"run-{number}" if self.averaged else "")

    def record(self, row: ReproducedRow) -> Mapping[str, object]:
        """See `PaperRow`."""
        return {
            **super().record(row),
            "overrides": self.overrides,
            "baseline": UNTRAINED if self.overrides is None else None,
            "induction": self.reading.chosen,
            "seeds": [run.seed for run in row.runs],
            "ensemble": [run.seed for run in row.helpers],
        }
