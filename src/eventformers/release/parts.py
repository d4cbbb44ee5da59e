"""The datasets and models of a release, and the records through which a second run reuses them.

Datasets have every config that the data has files for, with open rows only. Each method and further model has
one training run, scored, with a card.
"""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eventformers import __version__
from eventformers.datasets_scripts.base import (
    SAMPLES,
    EventDatasetBuilder,
    NoRowsError,
    config_names,
    setting_names,
)
from eventformers.datasets_scripts.building import BUILDERS, build_reports
from eventformers.datasets_scripts.licenses import is_open
from eventformers.datasets_scripts.malformed import malformed_policy
from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.errors import EventformersError
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import get_task
from eventformers.files import is_unfinished, remove_folder, write_text
from eventformers.methods import Method, all_methods
from eventformers.publishing.dataset_building import build_dataset
from eventformers.publishing.folders import LocalRepository, read_folder
from eventformers.trainers.recipes import Recipe, load_recipe
from eventformers.trainers.run import resolve_recipe
from eventformers.trainers.stages import can_resume, remove_checkpoints, stage_recipes
from eventformers.training import train

STATE_FOLDER = ".release"
"""Folder inside a release with the record of each step."""


def read_record(folder: Path, name: str, made_of: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read the record of a step.

    Args:
        made_of: everything that decides the step's output, as JSON values.

    Returns:
        The facts about the step; None if it has not begun, was made of something else, or is damaged.
    """
    try:
        content = read_json_object(_path(folder, name))
        return dict(content["facts"]) if content["made_of"] == _plain(made_of) else None
    except (EventformersError, KeyError, TypeError, ValueError):
        return None


def write_record(folder: Path, name: str, made_of: Mapping[str, Any], **facts: Any) -> None:
    """Write the record of a step atomically; arguments as in `read_record`."""
    write_text(_path(folder, name), json.dumps({"made_of": _plain(made_of), "facts": facts}, indent=2) + "\n")


def _path(folder: Path, name: str) -> Path:
    return folder / STATE_FOLDER / f"{name}.json"


def _plain(made_of: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(made_of, default=str))


_OPEN_ONLY = "open_licenses_only"
"""The setting of a builder that leaves out rows whose licences are not open."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReleasedDataset:
    """A built dataset of a release.

    Attributes:
        closed: why it is not published; None if it is.
    """

    local: LocalRepository
    closed: str | None

    @cached_property
    def reports(self) -> dict[str, dict[str, Any]]:
        """The build report of each config."""
        return build_reports(self.local.folder)

    def licenses(self, configs: Iterable[str]) -> list[str]:
        """The licences of the rows of some of its configs, sorted."""
        return sorted({name for config in configs for name in self.reports[config]["licenses"]})


def build_datasets(
    folder: Path,
    data: str | Path | None,
    settings: Mapping[tuple[str, str], Mapping[str, Any]],
    accept_licenses: bool,
) -> dict[str, ReleasedDataset]:
    """Build every dataset that the data has files for, and reuse those that are unchanged.

    Rows whose licences are not open are left out, if the builder can leave them out.

    Args:
        data: folder with a subfolder of raw files for each dataset, named as its builder; None takes the
            bundled samples.
        settings: the settings of a config of a builder, by the names of both; by default none.
        accept_licenses: keep rows whose licences are not open.

    Returns:
        The datasets by builder; one without a subfolder is left out.

    Raises:
        DataFormatError: a raw file cannot be read.
        EventformersError: there is no subfolder for any dataset, or one has no raw files.
    """
    found: dict[str, ReleasedDataset] = {}
    folders = {name: None if data is None else Path(data).expanduser() / name for name in BUILDERS}
    missing = [name for name, raw in folders.items() if raw is not None and not raw.is_dir()]
    if len(missing) == len(folders):
        raise EventformersError(
            f"{data}: no raw files of any dataset; accepted: a folder with a subfolder of raw files for each "
            f"dataset: {', '.join(BUILDERS)}"
        )
    for name in missing:
        logger.warning("dataset %s is left out: no folder %s", name, folders.pop(name))
    for name, raw in folders.items():
        builder = BUILDERS[name]
        paths = [SAMPLES / builder.SAMPLES_FOLDER if raw is None else raw]
        can_filter = _OPEN_ONLY in setting_names(builder.BUILDER_CONFIG_CLASS) and not accept_licenses
        always = {_OPEN_ONLY: True} if can_filter else {}
        configs = {
            config: {**settings.get((name, config), {}), **always}
            for config in config_names(builder)
            if builder.find_raw_files(config, paths)
        }
        if not configs:
            accepted = "; ".join(dict.fromkeys(builder.RAW_FILES.values()))
            raise EventformersError(f"{raw}: no raw files of {name}; accepted: {accepted}")
        place = folder / name
        _build(place, builder, configs, raw)
        if build_reports(place):
            local = read_folder(place)
            found[name] = ReleasedDataset(local, None if accept_licenses else local.needs_acceptance())
    if not found:
        raise EventformersError(f"{data}: no rows of any dataset; accepted: rows of at least one")
    return found


def _build(
    folder: Path,
    builder: type[EventDatasetBuilder],
    configs: Mapping[str, Mapping[str, Any]],
    raw: Path | None,
) -> None:
    made_of = {
        "rows": {config: builder(config, raw, **chosen).fingerprint for config, chosen in configs.items()},
        "malformed": malformed_policy(),
    }
    root, name = folder.parent.parent, builder.NAME
    if read_record(root, name, made_of) is not None:
        logger.info("dataset %s: unchanged", name)
        return
    logger.info("dataset %s: building %s", name, ", ".join(configs))
    # A config of earlier data would otherwise stay.
    remove_folder(folder)
    for config, chosen in configs.items():
        try:
            build_dataset(name, config, raw, folder, **chosen)
        except NoRowsError as error:
            warnings.warn(f"left out: {error}", stacklevel=3)
    write_record(root, name, made_of)


@dataclass(frozen=True)
class Training:
    """Options of all training runs of a release, as for `train`.

    Attributes:
        recipe: a recipe that every method has; None takes the default recipe of each.
        device: `cpu` or `cuda`.
        dtype: the data type of mixed precision.
    """

    recipe: str | None = None
    settings: tuple[str, ...] = ()
    encoder: str | None = None
    seed: int | None = None
    device: str | None = None
    dtype: str | None = None


@dataclass(frozen=True)
class PlannedRun:
    """A training run of a release.

    Attributes:
        follows: the run on whose outcome it trains; None if its recipe follows none.
    """

    method: Method
    recipe: Recipe
    follows: PlannedRun | None = None

    @property
    def name(self) -> str:
        """The name of its folder and its repository."""
        return f"{self.method.name}-{self.recipe.name}".replace("_", "-")

    def datasets(self) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
        """The builder, its configs and its settings for the training data of each stage."""
        return (self.method.training_dataset(stage) for stage in stage_recipes(self.recipe))

    def read_configs(self) -> dict[str, set[str]]:
        """The configs that it trains on, by builder."""
        found: dict[str, set[str]] = {}
        for builder, configs, _ in self.datasets():
            found.setdefault(builder, set()).update((*configs, *self.method.companions))
        return found

    def scored_configs(self, builder: str) -> list[str]:
        """The configs of a builder that its tasks read."""
        tasks = map(get_task, self.method.tasks_of(self.recipe))
        return [
            config
            for task in tasks
            if task.dataset == builder
            for config in (task.config, *task.other_configs, *task.companions, *task.companions_by_split)
        ]


def plan_runs(training: Training) -> list[PlannedRun]:
    """Plan a training run for each method and each further model that has a recipe of its own.

    Raises:
        EventformersError: a method lacks the recipe, or a setting is not accepted.
    """
    runs: list[PlannedRun] = []
    for name, method in all_methods().items():
        recipe = resolve_recipe(method, training.recipe, training.settings, training.seed)
        # A further model shares the recipes of its method, and a named one may train the method itself.
        if recipe.method == name:
            earlier = {(run.method.recipe_folder, run.recipe.name): run for run in runs}
            followed = earlier.get((method.recipe_folder, recipe.follows.get("recipe", "")))
            runs.append(PlannedRun(method, recipe, followed))
    return runs


def data_settings(runs: Sequence[PlannedRun]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The data settings of each config of a builder that a run trains or is scored on, by their names.

    Those of the first run apply, so that the splits of all configs agree.
    """
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for run in runs:
        for builder, configs, settings in run.datasets():
            for used in (*configs, *run.method.companions, *run.scored_configs(builder)):
                found.setdefault((builder, used), settings)
    return found


def reason_to_leave_out(
    run: PlannedRun, datasets: Mapping[str, ReleasedDataset], accept_licenses: bool
) -> str | None:
    """Why a run is not trained: its rows are missing or must not be published, or the run that it follows is
    not trained; None if it is."""
    if run.recipe.follows and run.follows is None:
        return f"no method trains recipe {run.recipe.follows['recipe']}, which it follows"
    if run.follows is not None and reason_to_leave_out(run.follows, datasets, accept_licenses):
        return f"{run.follows.name}, which it follows, is left out"
    for builder, configs in run.read_configs().items():
        there = datasets[builder].reports if builder in datasets else {}
        if missing := sorted(configs - there.keys()):
            return f"the data has no rows of {builder}, {', '.join(missing)}"
        closed = [name for name in datasets[builder].licenses(configs) if not is_open(name)]
        if closed and not accept_licenses:
            return f"its training rows are under {', '.join(closed)}"
    return None


def run_record(
    root: Path, run: PlannedRun, training: Training, datasets: Mapping[str, ReleasedDataset]
) -> Any:
    """The record of a run in the folder of a release; None if it has not begun, or with other settings."""
    return read_record(root, run.name, _made_of(run, training, datasets))


def train_run(
    root: Path,
    folder: Path,
    run: PlannedRun,
    training: Training,
    datasets: Mapping[str, ReleasedDataset],
    session: Session,
) -> None:
    """Train and score a run, continue an interrupted one, or reuse a finished one.

    Args:
        datasets: the datasets, whose folder is the data of all runs.

    Raises:
        EventformersError: an error of `train`.
    """
    made_of = _made_of(run, training, datasets)
    record = read_record(root, run.name, made_of)
    is_saved = (folder / "config.json").is_file() and not is_unfinished(folder)
    if record is not None and "hours" in record and is_saved:
        logger.info("model %s: unchanged", run.name)
        return
    resumes = record is not None and can_resume(folder)
    logger.info("model %s: %s", run.name, "continuing" if resumes else "training")
    # An interrupted run continues only if it was begun with the same record.
    earlier = record.get("hours_before", 0.0) if record is not None and resumes else 0.0
    write_record(root, run.name, made_of, hours_before=earlier)
    encoder, lent = _from_followed(folder.parent, run, training)
    started = time.monotonic()
    try:
        train(
            run.method.name,
            folder,
            recipe=run.recipe.name,
            data=next(iter(datasets.values())).local.folder.parent,
            encoder=encoder,
            settings=(*training.settings, *lent),
            seed=training.seed,
            device=training.device,
            dtype=training.dtype,
            resume=resumes,
            overwrite=not resumes,
            session=session,
        )
    finally:
        hours = round(earlier + (time.monotonic() - started) / 3600, 4)
        write_record(root, run.name, made_of, hours_before=hours)
    # There is nothing left to resume, and checkpoints of large encoders would fill the disk.
    remove_checkpoints(folder)
    write_record(root, run.name, made_of, hours=hours)


def _from_followed(models: Path, run: PlannedRun, training: Training) -> tuple[str | None, list[str]]:
    """The encoder of a run, and the settings that are folders of the run that it follows."""
    if run.follows is None:
        return training.encoder, []
    inside = {key: str(models / run.follows.name / path) for key, path in run.recipe.follows.items()}
    del inside["recipe"]
    encoder = inside.pop("encoder", training.encoder)
    return encoder, [f"{key}={json.dumps(path)}" for key, path in inside.items()]


def _made_of(run: PlannedRun, training: Training, datasets: Mapping[str, ReleasedDataset]) -> dict[str, Any]:
    """What decides the outcome of a run. A seed that nobody chose is drawn once and not compared."""
    stated = load_recipe(run.method.recipe_folder, run.recipe.name).seed
    read = {*run.read_configs(), *(get_task(task).dataset for task in run.method.tasks_of(run.recipe))}
    rows = {
        builder: {config: report["rows_fingerprint"] for config, report in datasets[builder].reports.items()}
        for builder in sorted(read & datasets.keys())
    }
    recipe = {**asdict(run.recipe), "seed": stated if training.seed is None else training.seed}
    # Facts about an earlier run change nothing.
    del recipe["recorded"]
    return {
        "version": __version__,
        "recipe": recipe,
        "settings": training.settings,
        "encoder": training.encoder,
        "dtype": training.dtype,
        "rows": rows,
        **({} if run.follows is None else {"follows": _made_of(run.follows, training, datasets)}),
    }
