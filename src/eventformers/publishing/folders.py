"""Folders that can be pushed: their kind, the files to send, and the licences of their rows."""

from __future__ import annotations

import glob
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch, fnmatchcase
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import constants
from transformers.dynamic_module_utils import get_relative_import_files

from eventformers.datasets_scripts import build_reports
from eventformers.datasets_scripts.dataset_card import REPORT_NAME, built_configs
from eventformers.datasets_scripts.events import DOCUMENTS_TABLE
from eventformers.datasets_scripts.licenses import is_open
from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.datasets_scripts.reading.tables import read_parquet
from eventformers.errors import EventformersError, UnknownNameError, shown
from eventformers.evaluation.results import read_result
from eventformers.exploration import PAGE_FILE, REPORT_FILE, STATE_FOLDER
from eventformers.files import refuse_unfinished, write_text
from eventformers.methods import all_methods
from eventformers.model_cards.card import TRAINING_DATA_FILE, read_training_record
from eventformers.models.sentence_transformers_files import SENTENCE_TRANSFORMERS_FILES, TOWER_FOLDERS
from eventformers.publishing.dataset_building import BENCHMARK_FILE
from eventformers.trainers.adapters import ADAPTER_FOLDER
from eventformers.trainers.base import ARGUMENTS_FILE
from eventformers.trainers.stages import LOG_FILE, RUN_FILE, STAGE_FILE, STAGES_FOLDER

logger = logging.getLogger(__name__)

Kind = Literal["model", "dataset", "metric", "exploration", "leaderboard"]

SPACE_SDKS: dict[Kind, str] = {"metric": "gradio", "exploration": "static", "leaderboard": "static"}
"""What runs each kind of repository that is a Space."""
ACCEPTED = (
    "the folder of a run (`eventformers train`), of a built dataset (`eventformers data build`), of an "
    "exploration (`eventformers explore`) or of a metric, or the name of a metric of ours"
)
LEADERBOARD_FILE = "leaderboard.json"
"""The scores of a leaderboard that is a static page."""
WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
FILES_OF_A_MODEL = (
    *(*WEIGHTS, "generation_config.json", "tokenizer*", "vocab.*"),
    *("added_tokens.json", "special_tokens_map.json", "merges.txt", "*.model", "*.jinja", "onnx"),
    *(ADAPTER_FOLDER, ".eval_results", *SENTENCE_TRANSFORMERS_FILES),
)
"""Files and folders to remove with a replaced model, even if the new one has none of that name."""

_CARD = "README.md"
_EXPLORATION_CARD = Path(__file__).with_name("exploration_space.md")
_LEADERBOARD_CARD = Path(__file__).with_name("leaderboard_space.md")
_SHOWN_HIDDEN = ".eval_results"
_MODEL_PARTS = (
    *("config.json", *WEIGHTS, "generation_config.json", "processor_config.json", "preprocessor_config.json"),
    *("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt", "*.model"),
    *("added_tokens.json", "special_tokens_map.json", "*.jinja", *SENTENCE_TRANSFORMERS_FILES),
    *("[0-9]_*/config.json", "[0-9]_*/model.safetensors"),
)
_CARD_PARTS = (_CARD, "LICENSE*", "NOTICE*")
# What the commands write. Any other file may have texts or passwords of the user.
_SENT: dict[Kind, tuple[str, ...]] = {
    "model": (
        *(*_CARD_PARTS, *_MODEL_PARTS, TRAINING_DATA_FILE, ARGUMENTS_FILE, LOG_FILE, STAGE_FILE),
        *(f"{tower}/{part}" for tower in TOWER_FOLDERS for part in _MODEL_PARTS),
        *(".eval_results/*.yaml", "results/*/*/*.json", "results/*/*/*.predictions.jsonl.bz2"),
        *("onnx/*.onnx", "onnx/*.onnx_data", "onnx/*.json"),
        *(f"{ADAPTER_FOLDER}/{part}" for part in (_CARD, "adapter_config.json", "*.safetensors")),
    ),
    "dataset": (*_CARD_PARTS, BENCHMARK_FILE, f"*/{REPORT_NAME}", "*/*-[0-9]*-of-[0-9]*.parquet"),
    "metric": (*_CARD_PARTS, "requirements.txt"),
    "exploration": (PAGE_FILE, REPORT_FILE),
    "leaderboard": (PAGE_FILE, LEADERBOARD_FILE),
}
_KEPT_BACK = {
    "checkpoint-*": "a checkpoint",
    STAGES_FOLDER: "a stage of the training run",
    "__pycache__": "a cache",
    RUN_FILE: "names local folders",
    "optimizer.*": "the state of an optimizer",
    "scheduler.*": "the state of a scheduler",
    "scaler.*": "the state of a scaler",
    "rng_state*": "the state of random numbers",
    "trainer_state.json": "the state of a trainer",
    **dict.fromkeys(("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle"), "may hold pickles"),
}


@dataclass(frozen=True)
class LocalRepository:
    """A local folder that can become a repository.

    Attributes:
        files: the files to send, by their paths in the repository.
        left_out: the files that are never sent, with the reason.
        closed_licenses: licences of its rows that do not allow everyone to publish.
        licenses_known: True if the licences of all its rows are recorded.
        configs: the configs of a dataset, the default one first; empty for others.
        model_type: the `model_type` of a model; None for others.
    """

    kind: Kind
    folder: Path
    files: dict[str, Path]
    left_out: dict[str, str]
    closed_licenses: tuple[str, ...] = ()
    licenses_known: bool = True
    configs: tuple[str, ...] = ()
    model_type: str | None = None

    @property
    def name(self) -> str:
        """The folder's name, which for a metric is the metric's."""
        return self.folder.absolute().name

    @property
    def repo_type(self) -> str:
        """The Hub's name for such a repository."""
        return "space" if self.kind in SPACE_SDKS else self.kind

    def needs_acceptance(self) -> str | None:
        """The reason why the user must accept licences before the rows, or models trained on them, are
        published; None if acceptance is not needed."""
        if self.closed_licenses:
            trained = "was trained on" if self.kind == "model" else "has"
            return f"{self.folder} {trained} rows under {', '.join(self.closed_licenses)}"
        if not self.licenses_known:
            return f"{self.folder} does not record the licences of its rows"
        return None


def read_folder(target: str | Path, include: Sequence[str] = ()) -> LocalRepository:
    """Determine the kind of a folder, and the files to send.

    Args:
        target: a folder, or the name of one of our metrics.
        include: patterns of further files to send, such as `docs/*.png`.

    Raises:
        EventformersError: it cannot be pushed, or is incomplete.
    """
    folder = Path(target).expanduser()
    if not folder.exists():
        if "/" not in str(target):
            metrics = metric_folders()
            if str(target) not in metrics:
                raise UnknownNameError("folder or metric", str(target), metrics)
            return _metric(metrics[str(target)], include)
        raise EventformersError(f"{folder}: no such folder; accepted: {ACCEPTED}")
    found = _recognised(folder, include)
    if found is None:
        raise EventformersError(f"{folder} has nothing that can be pushed; accepted: {ACCEPTED}")
    return found


def find_release(root: str | Path, include: Sequence[str] = ()) -> list[LocalRepository]:
    """Find all repositories of a release: the models and datasets in the folders below `root`, and all our
    metrics. Explorations and leaderboards are not part of it. For `include`, see `read_folder`.

    Raises:
        EventformersError: there is no model and no dataset, two have the same name, or one is incomplete.
    """
    place = Path(root).expanduser()
    if not place.is_dir():
        raise EventformersError(f"{place}: no such folder; accepted: one with runs and built datasets in it")
    found = list(_below(place, include))
    if not found:
        raise EventformersError(
            f"{place} has no run and no built dataset in it; accepted: a folder of such folders"
        )
    names: dict[tuple[str, str], Path] = {}
    for each in found:
        other = names.setdefault((each.kind, each.name.lower()), each.folder)
        if other != each.folder:
            raise EventformersError(f"{other} and {each.folder} have the same name; rename one of them")
    return [*found, *(_metric(folder, include) for folder in metric_folders().values())]


def _below(place: Path, include: Sequence[str]) -> Iterator[LocalRepository]:
    found = _recognised(place, include)
    if found is not None:
        if found.kind not in ("exploration", "leaderboard"):
            yield found
        return
    if (place / RUN_FILE).is_file():
        logger.warning("%s is left out: a training run that did not end; train with --resume", place)
        return
    for folder in sorted(path for path in place.iterdir() if path.is_dir()):
        if not folder.name.startswith(".") and not _reason_to_keep_back(folder.name):
            yield from _below(folder, include)


def _recognised(folder: Path, include: Sequence[str]) -> LocalRepository | None:
    if not folder.is_dir():
        return None
    refuse_unfinished(folder)
    if built_configs(folder):
        return _dataset(folder, include)
    if (folder / "config.json").is_file():
        return _model(folder, include)
    if (folder / STATE_FOLDER).is_dir():
        from eventformers.exploration.explore import TABLES

        written = [name for step in TABLES for name in step.writes]
        files, left_out = _files("exploration", folder, [*include, *written])
        page = "the page, as `eventformers explore` writes it (without --skip page)"
        _require(files, PAGE_FILE, folder, page)
        documents = read_parquet(folder / DOCUMENTS_TABLE, ["license"])
        licenses = set(documents["license"].unique().to_pylist())
        closed = tuple(sorted(name for name in licenses if not is_open(name)))
        files = {_CARD: _EXPLORATION_CARD, **files}
        return LocalRepository("exploration", folder, files, left_out, closed_licenses=closed)
    if (folder / LEADERBOARD_FILE).is_file():
        files, left_out = _files("leaderboard", folder, include)
        _require(files, PAGE_FILE, folder, "the page, as `eventformers release` writes it")
        return LocalRepository("leaderboard", folder, {_CARD: _LEADERBOARD_CARD, **files}, left_out)
    name = folder.absolute().name
    if (folder / f"{name}.py").is_file() and (folder / f"{name}_impl.py").is_file():
        return _metric(folder, include)
    return None


def metric_folders() -> dict[str, Path]:
    """The folder of each of our metrics by its name."""
    # Importing `evaluate` takes seconds, and a model does not need it.
    from eventformers import evaluate_metrics

    place = Path(evaluate_metrics.__file__).parent
    return {name: place / name for name in evaluate_metrics.METRICS}


# One kind after the other.


def _model(folder: Path, include: Sequence[str]) -> LocalRepository:
    from eventformers.loading.model_files import check_config

    path = folder / "config.json"
    check_config(str(folder))
    config: dict[str, Any] = read_json_object(path, whole_characters=False)
    model_type = config.get("model_type")
    if model_type not in all_methods():
        raise EventformersError(
            f"{path}: found model_type {shown(model_type)}; accepted: {', '.join(sorted(all_methods()))}. "
            "If a newer release wrote it, update eventformers"
        )
    # Classes such as `modeling_swcc.SwccModel`; tokenizers may have two.
    values = list(config.get("auto_map", {}).values())
    for pipeline in config.get("custom_pipelines", {}).values():
        values.append(pipeline.get("impl") if isinstance(pipeline, dict) else None)
    listed = [one for value in values for one in (value if isinstance(value, list) else [value])]
    code = [f"{reference.split('.')[0]}.py" for reference in listed if isinstance(reference, str)]
    files, left_out = _files("model", folder, [*include, *_with_imports(folder, code)])
    _require(files, _CARD, folder, "a card, as `eventformers train` writes it (without --no-card)")
    weights = [path for path in files if "/" not in path and path.endswith(".safetensors")]
    if not weights:
        raise EventformersError(f"{folder} has no weights; accepted: a folder with model.safetensors")
    for name in code:
        _require(files, name, folder, "the code that its config.json names; save the model again")
    _check_results(folder)
    trained_on = read_training_record(folder)
    return LocalRepository(
        "model",
        folder,
        files,
        left_out,
        closed_licenses=tuple(trained_on.closed_licenses) if trained_on else (),
        licenses_known=trained_on is not None and bool(trained_on.licenses),
        model_type=str(model_type),
    )


def _with_imports(folder: Path, code: Iterable[str]) -> list[str]:
    """Modules of a folder with those beside them that they import."""
    found = {name for name in code if (folder / name).is_file()}
    with suppress(OSError, ValueError):
        for name in tuple(found):
            found |= {Path(file).name for file in get_relative_import_files(folder / name)}
    return sorted(map(glob.escape, found))


def _check_results(folder: Path) -> None:
    """Reject scores that do not belong to the model beside them."""
    results = [read_result(path) for path in sorted((folder / "results").rglob("*.json"))]
    if not results:
        return
    from eventformers.loading.models import folder_revision

    found = folder_revision(folder)
    if found not in {result.model_revision for result in results}:
        scored = ", ".join(sorted({result.model_revision[:12] for result in results}))
        raise EventformersError(
            f"{folder}: weights and configuration differ from those that were scored (SHA-256 {found[:12]}, "
            f"in results/ {scored}); they were changed after scoring. Train again, or score them with "
            f"`eventformers evaluate {folder} --task TASK -o {folder}`"
        )


def _dataset(folder: Path, include: Sequence[str]) -> LocalRepository:
    configs = built_configs(folder)
    files, left_out = _files("dataset", folder, include)
    reports = build_reports(folder)
    for name in configs:
        if not any(path.startswith(f"{name}/") and path.endswith(".parquet") for path in files):
            raise EventformersError(
                f"{folder}/README.md names config {name}, which has no Parquet file there"
            )
    first = next(iter(configs))
    default = [name for name, entry in configs.items() if entry.get("default")]
    if default != [first]:
        raise EventformersError(
            f"{folder}/README.md: found default configs {default}; accepted: only the first one, {first}"
        )
    licenses = {str(name) for config in configs for name in _listed(reports.get(config, {}).get("licenses"))}
    return LocalRepository(
        "dataset",
        folder,
        files,
        left_out,
        closed_licenses=tuple(sorted(name for name in licenses if not is_open(name))),
        licenses_known=all(_listed(reports.get(config, {}).get("licenses")) for config in configs),
        configs=tuple(configs),
    )


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []


def _metric(folder: Path, include: Sequence[str]) -> LocalRepository:
    script = f"{folder.absolute().name}.py"
    files, left_out = _files("metric", folder, [*include, *_with_imports(folder, [script])])
    from eventformers.evaluate_metrics import INPUTS_IMPORT, SHARED_INPUTS, SPACE_PAGE

    shared = {SPACE_PAGE.name: SPACE_PAGE}
    text = files[script].read_text(encoding="utf-8")
    if INPUTS_IMPORT in text:
        # A Space has no eventformers: its script imports a copy of the shared code from beside it.
        shared[SHARED_INPUTS.name] = SHARED_INPUTS
        files[script] = Path(constants.HF_HOME).expanduser() / "eventformers" / "metrics" / script
        write_text(files[script], text.replace(INPUTS_IMPORT, f"from .{SHARED_INPUTS.stem} import "))
    files = dict(sorted({**shared, **files}.items()))
    for needed in (_CARD, "requirements.txt"):
        _require(files, needed, folder, "what a Space needs")
    return LocalRepository("metric", folder, files, left_out)


# Files.


def _files(kind: Kind, folder: Path, more: Iterable[str]) -> tuple[dict[str, Path], dict[str, str]]:
    """The files of a folder to send, and the others with the reason why they are not sent.

    Args:
        more: patterns of files to send besides the known ones.

    Raises:
        EventformersError: a file to send is a link to a file outside of the folder.
    """
    sent, left_out = {}, {}
    patterns = [pattern.split("/") for pattern in (*_SENT[kind], *more)]
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        parts = name.split("/")
        reason = next(filter(None, map(_reason_to_keep_back, parts)), None)
        if reason is None and not any(
            len(pattern) == len(parts) and all(map(fnmatchcase, parts, pattern)) for pattern in patterns
        ):
            reason = f"not a known file of a {kind}; --include PATTERN sends it"
        if reason is not None:
            left_out[name] = reason
        elif not path.resolve().is_relative_to(folder.resolve()):
            raise EventformersError(
                f"{path} is a link to {path.resolve()}, outside of the folder; accepted: a copy of that "
                "file, or nothing of that name"
            )
        else:
            sent[name] = path
    return sent, left_out


def _reason_to_keep_back(part: str) -> str | None:
    """Reason why a file with this name, or in a folder with this name, is never sent; else None."""
    if part.startswith(".") and part != _SHOWN_HIDDEN:
        return "hidden"
    return next((reason for pattern, reason in _KEPT_BACK.items() if fnmatch(part, pattern)), None)


def _require(files: dict[str, Path], name: str, folder: Path, what: str) -> None:
    if name not in files:
        raise EventformersError(f"{folder} has no {name}: {what}")
