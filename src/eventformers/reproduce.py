"""Fill a table of a paper with rows of our own: train what is missing, read what is there."""

from __future__ import annotations

import hashlib
import json
import logging
import random
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from filelock import FileLock
from transformers import AutoConfig
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from eventformers.datasets_scripts.building import built_report, load_built
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.encoders import resolve_encoder
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation import evaluate, scored_fingerprint
from eventformers.files import write_text
from eventformers.inference.loading import folder_revision
from eventformers.paper_tables import get_table
from eventformers.protocols import JsonValue
from eventformers.reproduced_table import ReproducedRow, ReproducedTable, Reproduction, write_table
from eventformers.results import TaskResult, read_result, result_path
from eventformers.tasks import TASKS
from eventformers.trainers.method import Method, load_method
from eventformers.trainers.recipes import Recipe, load_recipe
from eventformers.trainers.run import RUN_FILE, last_whole_checkpoint, resolve_recipe
from eventformers.training import train

ROW_FILE = "reproduction.json"
"""Written into a row's folder when its model is trained, scored and whole; a folder without it is redone."""

logger = logging.getLogger(__name__)


def reproduce_table(
    paper: str,
    table: str,
    output: str | Path,
    *,
    recipe: str = "paper",
    data: str | Path | None = None,
    evaluation_data: str | Path | None = None,
    encoder: str | None = None,
    settings: Sequence[str] = (),
    seed: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
) -> ReproducedTable:
    """Fill a table of a paper with our rows, beside the paper's scores and the untrained encoder's.

    Each row is a training run in a folder of its own under `output/<paper>/`, whose name ends with a digest
    of what decides its outcome: settings, encoder, rows of the data, seed, precision. A finished row is read
    from its results, whichever table it was trained for; one that was killed goes on from its last
    checkpoint; a row that fails says so in the table and costs no other row. Where only the evaluation data
    are new, the model is scored again and not trained again.

    Args:
        paper: a key of `PAPERS`.
        table: a table of that paper, such as `table2`.
        output: folder of all reproductions.
        recipe: name or YAML file of the recipe that every row starts from.
        data: training data, as `train` takes them; None takes the bundled samples.
        evaluation_data: raw files of the evaluation tasks; None takes the bundled samples.
        encoder: Hub id or folder of a pretrained encoder; None takes the packaged all-MiniLM-L6-v2.
        settings: overrides of the recipe, `key=value`; what makes a row wins over them.
        seed: seed of every row. None takes the one of the table's last run with this recipe, or else the
            recipe's, or draws one; either way the table records it.
        device: `cpu` or `cuda`; None takes an accelerator where there is one.
        dtype: `bfloat16` or `float16` for mixed precision; None for float32.

    Returns:
        The table; also written as `<output>/<paper>/<table>.md` and `.json` after every row.

    Raises:
        UnknownNameError: there is no such paper, table, recipe or setting.
        EventformersError: the encoder or the data cannot be read, or every row failed.
    """
    wanted = get_table(paper, table)
    method = load_method(wanted.method)
    folder = Path(output) / paper
    chosen_seed = _choose_seed(method, recipe, settings, seed, folder / f"{table}.json")
    call = Reproduction(
        table=wanted,
        method=method,
        folder=folder,
        recipe=recipe,
        settings=tuple(settings),
        seed=chosen_seed,
        encoder=encoder,
        data=None if data is None else str(data),
        evaluation_data=None if evaluation_data is None else str(evaluation_data),
        fingerprints=_evaluation_fingerprints(wanted.tasks, evaluation_data),
        device=device,
        dtype=dtype,
    )
    rows = _plan(call)
    path = folder / f"{table}.md"
    # Before the first row: a seed that was drawn must outlive a kill.
    finished = write_table(call, rows, path)
    own = [row for row in rows if row.recipe is not None]
    error: Exception | None = None
    for position, row in enumerate(own, start=1):
        logger.info("%s: row %d of %d, %s", table, position, len(own), row.paper.label)
        try:
            _fill(call, row)
        except Exception as failure:
            error = failure
            row.state = f"failed: {' '.join(str(failure).split()) or type(failure).__name__}"
            level = logging.WARNING if isinstance(failure, EventformersError) else logging.ERROR
            logger.log(
                level, "row %s %s", row.paper.label, row.state, exc_info=level == logging.ERROR and failure
            )
        finished = write_table(call, rows, path)
    if error is not None and not any(row.results for row in own):
        if not isinstance(error, EventformersError):
            raise error
        raise EventformersError(f"every row of {paper} {table} failed; the last one: {error}") from error
    return finished


def _choose_seed(method: Method, recipe: str, settings: Sequence[str], seed: int | None, record: Path) -> int:
    """The table's seed: given, or recorded by the last call with this recipe, or the recipe's, or drawn."""
    resolved = resolve_recipe(method, recipe, settings, seed)
    if seed is None and not any(setting.partition("=")[0] == "seed" for setting in settings):
        recorded = _read_json(record)
        if recorded.get("recipe") == Path(recipe).name and isinstance(recorded.get("seed"), int):
            return cast(int, recorded["seed"])
        if load_recipe(method.name, recipe).seed is None:
            drawn = random.SystemRandom().randrange(2**31)
            logger.warning("no seed was given; %d was drawn and is recorded in %s", drawn, record)
            return drawn
    return cast(int, resolved.seed)


def _evaluation_fingerprints(tasks: Iterable[str], data: str | Path | None) -> dict[str, str]:
    fingerprints = {}
    for name in tasks:
        task = TASKS[name]
        splits = load_built(data, task.config, builder=task.dataset)
        fingerprints[name] = scored_fingerprint(task, splits, task.choose_split(splits))
    return fingerprints


def _plan(call: Reproduction) -> list[ReproducedRow]:
    """The rows with their recipes, and the digests of what decides their outcomes."""
    rows = []
    encoder = _encoder_identity(call.encoder)
    data: dict[str, str] = {}
    for paper_row in call.table.rows:
        row = ReproducedRow(paper_row)
        rows.append(row)
        if paper_row.overrides is None:
            continue
        row.state = "missing"
        row.recipe = resolve_recipe(
            call.method, call.recipe, [*call.settings, *paper_row.overrides], call.seed
        )
        key = json.dumps(row.recipe.data, sort_keys=True, default=str)
        if key not in data:
            data[key] = _data_identity(call.method, row.recipe, call.data)
        identity = {
            "method": call.method.name,
            "model": _differing(call.method, row.recipe.model),
            **{name: _canonical(getattr(row.recipe, name)) for name in ("data", "views", "training")},
            "seed": call.seed,
            "encoder": encoder,
            "rows": data[key],
            "dtype": call.dtype,
        }
        text = json.dumps(identity, sort_keys=True, default=str)
        row.digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return rows


def _differing(method: Method, model: Mapping[str, object]) -> dict[str, object]:
    """The settings of the model that are not the defaults, so that saying a default changes no digest."""
    defaults = method.config_class.__dataclass_fields__
    return {name: _canonical(value) for name, value in model.items() if value != defaults[name].default}


def _canonical(value: object) -> object:
    """The same value for 1 and 1.0."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(part) for part in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _encoder_identity(encoder: str | None) -> str:
    """The digest of a folder's weights, or a Hub id with its commit."""
    source = resolve_encoder(encoder)
    if Path(source).is_dir():
        return folder_revision(Path(source))
    try:
        config = AutoConfig.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise EventformersError(
            f"cannot load the encoder {source!r}: {' '.join(str(error).split())[:300]}"
        ) from error
    return f"{source}@{config._commit_hash}"


def _data_identity(method: Method, recipe: Recipe, data: str | None) -> str:
    """The digest of the training rows, from their build report where there is one."""
    builder, config, settings = method.training_dataset(recipe)
    report = built_report(data, config, builder=builder, **settings)
    if isinstance(fingerprint := report.get("rows_fingerprint"), str):
        return fingerprint
    if recipe.data.get("streaming"):
        # Reading a stream to its end for a digest would cost more than the training.
        return f"stream of {data}"
    return dataset_fingerprint(load_built(data, config, builder=builder, **settings))


def _fill(call: Reproduction, row: ReproducedRow) -> None:
    """Get a row's results: read them, score its model again, or train it."""
    with FileLock(_lock_path(call.folder, row.digest)):
        finished = _finished_folder(call.folder, row.digest)
        row.folder = finished or call.folder / f"{_slug(row.paper.slug)}-{row.digest}"
        if finished is None:
            row.state = _train(call, row, row.folder)
        else:
            row.state = "cached"
        record = _read_json(row.folder / ROW_FILE)
        results = {name: _held_result(call, row.folder, record, name) for name in call.table.tasks}
        if None in results.values():
            row.state += ", scored again"
        row.results = {
            name: result or _score_again(call, row.folder, name) for name, result in results.items()
        }


def _train(call: Reproduction, row: ReproducedRow, folder: Path) -> str:
    """Train a row, or go on where it was killed; says what was done."""
    resume = _can_resume(folder)
    finished = train(
        call.method.name,
        folder,
        recipe=call.recipe,
        data=call.data,
        encoder=call.encoder,
        settings=[*call.settings, *(row.paper.overrides or ())],
        resume=resume,
        overwrite=not resume,
        seed=call.seed,
        device=call.device,
        dtype=call.dtype,
        evaluation_data=call.evaluation_data,
    )
    record = {
        "digest": row.digest,
        "model": finished.results[0].model,
        "revision": finished.results[0].model_revision,
        "steps": finished.run.steps,
        "seconds": round(finished.run.seconds, 2),
    }
    write_text(folder / ROW_FILE, json.dumps(record, indent=2) + "\n")
    for checkpoint in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        # Nothing is left to resume, and a table of large encoders would fill the disk with them.
        shutil.rmtree(checkpoint)
    return f"{'resumed' if resume else 'trained'}, {finished.run.seconds:.0f} s"


def _can_resume(folder: Path) -> bool:
    """Whether a killed run left a whole checkpoint; those that were cut in mid-write are removed."""
    return (folder / RUN_FILE).is_file() and last_whole_checkpoint(folder) is not None


def _finished_folder(folder: Path, digest: str) -> Path | None:
    """The folder of a finished run with this digest, whichever table it was trained for."""
    for candidate in sorted(folder.glob(f"*-{digest}")):
        if _read_json(candidate / ROW_FILE).get("digest") == digest:
            return candidate
    return None


def _held_result(
    call: Reproduction, folder: Path, record: Mapping[str, JsonValue], task: str
) -> TaskResult | None:
    """A row's result on the rows of this call; None where there is none."""
    for directory in (folder, _other_evaluation(call, folder, task)):
        path = result_path(directory, str(record["model"]), str(record["revision"]), task)
        try:
            result = read_result(path) if path.is_file() else None
        except DataFormatError as error:
            logger.warning("%s; it is measured again", error)
            continue
        if result is not None and result.dataset.fingerprint == call.fingerprints[task]:
            return result
    return None


def _other_evaluation(call: Reproduction, folder: Path, task: str) -> Path:
    """Where results on other rows than those of the training run go, so that neither replaces the other."""
    return folder / "evaluations" / call.fingerprints[task][:12]


def _score_again(call: Reproduction, folder: Path, task: str) -> TaskResult:
    return evaluate(
        str(folder),
        task,
        data=call.evaluation_data,
        output=_other_evaluation(call, folder, task),
        device=call.device,
        overwrite=True,
    )


def _slug(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text).strip("-")


def _lock_path(folder: Path, digest: str) -> Path:
    """Two calls may share rows; the second one waits, and then finds the row done."""
    path = folder / ".locks" / digest
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _read_json(path: Path) -> dict[str, JsonValue]:
    """A JSON object; empty where there is none or it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        return {}
    return content if isinstance(content, dict) else {}
