"""The state that the rows of a table share, and their training runs, each of which is trained once."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

from eventformers.datasets_scripts.event_chains import EventChains
from eventformers.datasets_scripts.fingerprints import joint_fingerprint
from eventformers.datasets_scripts.loading import SAMPLES, built_report
from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation.data import load_task_data
from eventformers.evaluation.results import TaskResult, read_result
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import TASKS, with_settings
from eventformers.evaluation.tasks.base import JsonValue, Task, TaskSettings
from eventformers.files import staged_folder, write_text
from eventformers.loading.encoders import PACKAGED_ENCODER, resolve_encoder
from eventformers.loading.models import faults_told, folder_revision, load_config, model_revision
from eventformers.locks import one_writer
from eventformers.methods import Method, load_method
from eventformers.reproduction.tables import Column, PaperRow, PaperTable
from eventformers.trainers.recipes import Recipe, list_recipes, load_recipe
from eventformers.trainers.run import accepted_keys, resolve_recipe
from eventformers.trainers.stages import (
    RUN_FILE,
    STAGE_FILE,
    STAGES_FOLDER,
    can_resume,
    remove_checkpoints,
    stage_recipes,
)
from eventformers.training import train

MEASURED = "measured"
"""The entry in the log of a row for a result that was measured instead of read."""

RUN_RECORD = "reproduction.json"
"""The file in a run's folder that marks it as trained and scored; a folder without it is trained again."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScoredSplit:
    """The rows of a task that models are scored on.

    Attributes:
        fingerprint: digest of all rows that decide a score.
        is_usual: whether it is the task's default split.
    """

    task: str
    split: str
    fingerprint: str
    is_usual: bool
    settings: TaskSettings | None = None

    @property
    def key(self) -> str:
        """The name in files: the task, with split and settings if they are not the usual ones."""
        return " ".join(filter(None, (self.task, "" if self.is_usual else self.split, self.data_settings)))

    @property
    def data_settings(self) -> str:
        """The settings of the data that differ from the defaults, as text."""
        chosen = with_settings(TASKS[self.task], self.settings or {}).kind.data_settings
        return " ".join(name if value is True else str(value) for name, value in chosen.items())


Columns = Mapping[Column, tuple[ScoredSplit, ...]]
"""The scored splits of each column; empty if the data lacks its task or splits."""


def splits_of(columns: Columns, tasks: Collection[str] | None = None) -> tuple[ScoredSplit, ...]:
    """List the splits of columns, each once; with `tasks` only the splits of these."""
    return tuple(
        dict.fromkeys(
            wanted
            for column, splits in columns.items()
            for wanted in splits
            if tasks is None or column.task in tasks
        )
    )


@dataclass(frozen=True)
class Run:
    """A training run that several rows may share.

    Attributes:
        name: the start of its folder's name.
        recipe: name or YAML file of its recipe.
        stages: for every stage but the last, a digest of what decides the model after it.
        digest: digest of what decides its outcome.
    """

    name: str
    method: Method
    recipe: str
    settings: tuple[str, ...]
    seed: int
    stages: tuple[str, ...]
    digest: str


@dataclass
class ReproducedRow:
    """The state of a row while the table is filled.

    Attributes:
        runs: the training runs to score; empty for a baseline.
        helpers: further training runs: those of its ensemble, or a cross-encoder for each of `runs`.
        digest: digest of what decides its outcome; empty for a row that is not run.
        folder: its model's folder, once known.
    """

    paper: PaperRow
    columns: Columns
    splits: tuple[ScoredSplit, ...] = ()
    runs: tuple[Run, ...] = ()
    helpers: tuple[Run, ...] = ()
    digest: str = ""
    state: str = "published"
    folder: Path | None = None
    results_of_runs: list[dict[ScoredSplit, TaskResult]] = field(default_factory=list)

    @property
    def results(self) -> dict[ScoredSplit, TaskResult]:
        """The results of its first run; they say on which rows all runs were scored."""
        return self.results_of_runs[0] if self.results_of_runs else {}

    def add_run(self, measured: Iterable[TaskResult]) -> None:
        """Add the results of a run on the splits one by one, so that those before a failure stay."""
        results: dict[ScoredSplit, TaskResult] = {}
        self.results_of_runs.append(results)
        for wanted, result in zip(self.splits, measured, strict=True):
            results[wanted] = result

    @property
    def tasks(self) -> list[str]:
        """The tasks that the row is scored on."""
        return list(dict.fromkeys(wanted.task for wanted in self.splits))


@dataclass(frozen=True)
class Reproduction:
    """The settings and state that all rows of a table share.

    Attributes:
        recipe: name or YAML file of the recipe that the rows start from.
        settings: overrides of the recipe for every row.
        encoder: Hub id or folder of the pretrained encoder; None for the packaged one.
        data: training data; None for the samples.
        evaluation_data: raw files of the tasks; None for the samples.
        device: torch device; None chooses one.
        dtype: precision; None for float32.
        runs: number of runs of an averaged row or an ensemble.
        session: data, and for some rows vectors of mentions, that rows share.
        results: results by their folder.
        done: log of the current row: `MEASURED` for each result, a text for each training run.
    """

    table: PaperTable
    method: Method
    folder: Path
    recipe: str
    settings: tuple[str, ...]
    seed: int
    encoder: str | None
    data: str | None
    evaluation_data: str | None
    device: str | None
    dtype: str | None
    runs: int
    session: Session = field(compare=False)
    results: dict[Path, list[TaskResult]] = field(default_factory=dict, compare=False)
    done: list[str] = field(default_factory=list, compare=False)

    def of_row(self, paper: PaperRow) -> Reproduction:
        """The settings of a row, which may have an encoder of its own."""
        return replace(self, encoder=paper.encoder) if paper.encoder else self

    @cached_property
    def encoder_identity(self) -> str:
        """The digest of a folder's weights, or a Hub id with its commit."""
        source = resolve_encoder(self.encoder)
        if Path(source).is_dir():
            return folder_revision(Path(source))
        with faults_told(source):
            load_config(source)
        return f"{source}@{model_revision(source)}"

    @cached_property
    def chain_settings(self) -> dict[str, Any]:
        """The settings that split documents, which all rows have in common."""
        data = resolve_recipe(self.method, self.recipe, self.settings, self.seed).data
        return {name: data[name] for name in EventChains.SETTING_GROUPS["chain"] if name in data}

    def task(self, name: str, settings: TaskSettings | None = None) -> Task:
        """A task whose documents are split as in training, so that no scored document is trained on."""
        task = with_settings(TASKS[name], settings or {})
        if task.dataset != EventChains.NAME:
            return task
        split = self.chain_settings
        # Other training data have no documents of the samples, which keep their own split.
        samples = {**task.sample_settings, **(split if self.data is None else {})}
        return replace(task, build_settings=split, sample_settings=samples)

    @cached_property
    def columns(self) -> Columns:
        """The scored splits of each column with default settings; errors as in `read_by`."""
        return self.read_by(lambda task: None)

    def read_by(self, settings_of: Callable[[str], TaskSettings | None]) -> Columns:
        """Find the scored splits of each column; empty if the data lacks its task or splits.

        Args:
            settings_of: maps a task to its settings, None for the defaults; raises an `EventformersError` if
                the data lacks what the task needs.

        Raises:
            DataFormatError: a raw file cannot be read.
            EventformersError: the data has nothing for any column.
        """
        columns: dict[Column, tuple[ScoredSplit, ...]] = {}
        missing: dict[str, EventformersError] = {}
        for column in self.table.columns:
            try:
                columns[column] = self.splits(column.task, column.splits, settings_of(column.task))
            except DataFormatError:
                raise
            except EventformersError as error:
                columns[column] = ()
                missing[column.task] = error
        if missing and not any(columns.values()):
            raise next(iter(missing.values()))
        for name, reason in missing.items():
            logger.warning("the columns of %s stay empty: %s", name, reason)
        return columns

    def splits(
        self, name: str, wanted: Sequence[str] = (), settings: TaskSettings | None = None
    ) -> tuple[ScoredSplit, ...]:
        """Find the splits of a task that the data has.

        Args:
            wanted: the splits; empty takes the usual one.

        Raises:
            DataFormatError: a raw file cannot be read.
            EventformersError: the data lacks the task.
        """
        task = self.task(name, settings)
        held = load_task_data(task, self.evaluation_data, self.session.data)
        usual = task.choose_split(held.splits)
        return tuple(
            ScoredSplit(name, split, replace(held, split=split).fingerprint, split == usual, settings)
            for split in wanted or (usual,)
            if split in held.splits and len(held.splits[split])
        )

    def result(
        self,
        wanted: ScoredSplit,
        places: Sequence[Path],
        measure: Callable[..., TaskResult],
        is_same: Callable[[TaskResult], bool] = lambda result: True,
    ) -> TaskResult:
        """Return an earlier result, or measure a new one.

        Args:
            places: folders that may hold the result; a new one is written to the last.
            measure: `evaluate` with its model, or a baseline.
            is_same: returns whether a result on these rows was measured in the same way.
        """
        for place in places:
            if place not in self.results:
                self.results[place] = []
                for path in sorted((place / "results").rglob("*.json")):
                    try:
                        self.results[place].append(read_result(path))
                    except DataFormatError as error:
                        logger.warning("%s; it is measured again", error)
            for held in self.results[place]:
                rows = (held.task, held.dataset.split, held.dataset.fingerprint)
                if rows == (wanted.task, wanted.split, wanted.fingerprint) and is_same(held):
                    return held
        measured = measure(
            self.task(wanted.task),
            data=self.evaluation_data,
            split=wanted.split,
            device=self.device,
            output=places[-1],
            overwrite=True,
        )
        self.results[places[-1]].append(measured)
        self.done.append(MEASURED)
        return measured

    def row_folder(self, row: ReproducedRow) -> Path:
        """Return the folder of a row that shares its runs with others, or has none."""
        return self.folder / f"{folder_name(row.paper.slug)}-{row.digest}"


def other_evaluation(folder: Path, wanted: ScoredSplit) -> Path:
    """Return the folder for results on other rows than those of the training run."""
    return folder / "evaluations" / wanted.fingerprint[:12]


def identity_digest(identity: Mapping[str, object]) -> str:
    """Compute a digest of what decides an outcome."""
    text = json.dumps(identity, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_record(path: Path) -> dict[str, JsonValue]:
    """Read a JSON object; empty if it is missing or unreadable."""
    try:
        return read_json_object(path)
    except EventformersError:
        return {}


def folder_name(text: str) -> str:
    """Turn a text into the name of a folder."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-")


def plan_run(
    call: Reproduction,
    name: str,
    seed: int,
    overrides: tuple[str, ...] = (),
    *,
    variant: str = "",
    stages: tuple[str, ...] = (),
    method: str = "",
) -> Run:
    """Plan a training run, with digests of what decides its outcome.

    A run that has a variant of the recipe starts from that variant, without settings of stages that it lacks;
    the stages of the run take precedence over the recipe's. A run of another method starts from that method's
    recipe of the same name, or its default one, and takes only those of the table's settings that split
    documents. A run of a further model of the table's method takes all settings that this model knows.

    Args:
        name: the start of its folder's name.
        overrides: recipe settings, `section.key=value`, of the run.
        variant: ending of recipe names. If the table's recipe has a variant with this ending, such as
            `minilm-heterevent`, the run starts from the variant.
        stages: the first stages that the recipe must have; if it has others, the run has these stages alone.
            Empty takes the recipe's.
        method: the `model_type` to train; empty for the table's.

    Raises:
        EventformersError: the training data or the encoder cannot be loaded.
    """
    ending = f"{call.recipe}-{variant}"
    keys = {one: one.partition("=")[0] for one in call.settings}
    trained = load_method(method or call.method.name)
    if trained.name == call.method.name:
        start = ending if ending in list_recipes(trained.name) else call.recipe
        whole, kept = (
            [stage["name"] for stage in load_recipe(trained.name, one).stages] for one in (call.recipe, start)
        )
        others = set(whole) - set(kept)
        if stages or start == ending:
            others.add("stages")
        taken = [one for one, key in keys.items() if key.partition(".")[0] not in others]
        if kept[: len(stages)] != list(stages):
            overrides = (*overrides, f"stages=[{', '.join(stages)}]")
    elif trained.recipes_of == call.method.name:
        start = ending if ending in list_recipes(trained.recipe_folder) else trained.default_recipe
        sections = accepted_keys(trained).items()
        known = {key for section, names in sections for name in names for key in (name, f"{section}.{name}")}
        taken = [one for one, key in keys.items() if key in known]
    else:
        start = call.recipe if call.recipe in list_recipes(trained.name) else trained.default_recipe
        taken = [one for one, key in keys.items() if key.removeprefix("data.") in call.chain_settings]
    settings = (*taken, *overrides)
    recipe = resolve_recipe(trained, start, settings, seed)
    *of_stages, digest = map(identity_digest, _identities(call, trained, recipe, seed))
    return Run(name, trained, start, settings, seed, tuple(of_stages), digest)


def _identities(call: Reproduction, method: Method, recipe: Recipe, seed: int) -> list[dict[str, object]]:
    """Collect what decides the model after each stage of a recipe; the last entry is that of the run."""
    builder, configs, settings = method.training_dataset(recipe)
    prints: dict[str, str] = {}
    for name in (*configs, *method.companions):
        if recipe.data.get("streaming"):
            report = built_report(call.data, name, builder=builder, **settings)
            # Reading a stream to its end for a digest would cost more than the training.
            prints[name] = str(report.get("rows_fingerprint", f"stream of {call.data}"))
            continue
        held = call.session.data.load(call.data, builder, name, settings)
        prints[name] = str(held.report.get("rows_fingerprint") or held.fingerprint(held.splits, ""))
    common = {
        "method": method.name,
        "seed": seed,
        "rows": prints[configs[0]] if len(prints) == 1 else joint_fingerprint(prints),
        "encoder": call.encoder_identity,
        "dtype": call.dtype,
    }
    # Stating a default changes no digest.
    defaults = {name: entry.default for name, entry in method.config_class.__dataclass_fields__.items()}
    stages = [
        {
            "model": {
                name: _canonical(value) for name, value in stage.model.items() if value != defaults[name]
            },
            **{name: _canonical(getattr(stage, name)) for name in ("data", "views", "training")},
        }
        for stage in stage_recipes(recipe)
    ]
    if not recipe.stages:
        return [{**common, **stages[0]}]
    return [{**common, "stages": stages[:count]} for count in range(1, len(stages) + 1)]


def _canonical(value: object) -> object:
    """Normalise numbers so that 1 and 1.0 compare equal."""
    return json.loads(json.dumps(value, default=str), parse_int=float)


def run_folder(call: Reproduction, run: Run) -> Path:
    """Return the folder of a finished run with the same digest from any table, or else the run's own."""
    finished = (folder for folder in sorted(call.folder.glob(f"*-{run.digest}")) if _is_finished(run, folder))
    return next(finished, call.folder / f"{folder_name(run.name)}-{run.digest}")


def _is_finished(run: Run, folder: Path) -> bool:
    return read_record(folder / RUN_RECORD).get("digest") == run.digest


def seconds_of_trainings(call: Reproduction, row: ReproducedRow) -> dict[str, float]:
    """Return how long each finished training of a row took, by its folder; rows may share trainings."""
    folders = [run_folder(call, run) for run in (*row.runs, *row.helpers)]
    records = {folder.name: read_record(folder / RUN_RECORD).get("seconds") for folder in folders}
    return {name: seconds for name, seconds in records.items() if isinstance(seconds, float)}


def train_run(call: Reproduction, run: Run, tasks: Sequence[str], *settings: str) -> Path:
    """Train a run that no row has trained yet, or resume a killed one.

    Args:
        tasks: the tasks to score it on; empty for a row that is scored in other ways.
        settings: overrides of the recipe that change only local paths.

    Returns:
        Its folder.
    """
    # Two tables may share a run; the second one waits and then finds it done.
    with one_writer(call.folder / f"row-{run.digest}", wait=True):
        folder = run_folder(call, run)
        if _is_finished(run, folder):
            return folder
        logger.info("training %s", folder.name)
        resume = can_resume(folder) or _take_stages(call, run, folder)
        finished = train(
            run.method.name,
            folder,
            recipe=run.recipe,
            data=call.data,
            encoder=call.encoder,
            settings=(*run.settings, *settings),
            resume=resume,
            overwrite=not resume,
            seed=run.seed,
            device=call.device,
            dtype=call.dtype,
            evaluation_data=call.evaluation_data or SAMPLES,
            tasks=[call.task(name) for name in tasks],
            session=call.session,
        )
        record = {
            "digest": run.digest,
            "stages": run.stages,
            "steps": finished.run.steps,
            "seconds": round(finished.run.seconds, 2),
        }
        for result in finished.results[:1]:
            record |= {"model": result.model, "revision": result.model_revision}
        write_text(folder / RUN_RECORD, json.dumps(record, indent=2) + "\n")
        # There is nothing left to resume, and checkpoints of large encoders would fill the disk.
        remove_checkpoints(folder)
        call.done.append(f"{'resumed' if resume else 'trained'}, {finished.run.seconds:.0f} s")
        return folder


def _take_stages(call: Reproduction, run: Run, folder: Path) -> bool:
    """Copy the leading stages that a run shares with a finished run into its folder, as many as possible.

    Returns:
        Whether there are any, so that the run can continue from them.
    """
    if not run.stages:
        return False
    shared: dict[Path, int] = {}
    for path in sorted(call.folder.glob(f"*/{RUN_RECORD}")):
        digests = read_record(path).get("stages")
        known = digests if isinstance(digests, list) else []
        if read_record(path.parent / RUN_FILE).get("encoder") == (call.encoder or PACKAGED_ENCODER):
            pairs = zip(known, run.stages, strict=False)
            shared[path.parent] = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    source = max(shared, key=lambda place: shared[place], default=None)
    if source is None or not shared[source]:
        return False
    # The name of a stage's folder begins with its number.
    for stage in sorted((source / STAGES_FOLDER).glob("[0-9]*"))[: shared[source]]:
        with staged_folder(folder / STAGES_FOLDER / stage.name, last=(STAGE_FILE,)) as place:
            shutil.copytree(stage, place, dirs_exist_ok=True)
    recipe = resolve_recipe(run.method, run.recipe, run.settings, run.seed)
    record = {**read_record(source / RUN_FILE), "recipe": asdict(recipe)}
    # Last, since a run resumes only if this file exists.
    write_text(folder / RUN_FILE, json.dumps(record, indent=2, sort_keys=True) + "\n")
    logger.info("%s goes on from %d stages of %s", folder.name, shared[source], source.name)
    return True
