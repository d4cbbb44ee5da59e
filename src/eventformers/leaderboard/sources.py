"""Measurements from run folders, model repositories on disk and on the Hub, and files of published scores."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, cast

import yaml
from huggingface_hub import EvalResult, EvalResultEntry, HfApi, parse_eval_result_entries
from huggingface_hub.repocard_data import model_index_to_eval_results

from eventformers.datasets_scripts.dataset_card import read_front_matter
from eventformers.datasets_scripts.reading.lines import parse_yaml, read_regular_text
from eventformers.errors import DataFormatError, EventformersError, shown
from eventformers.evaluation.results import NO_START, ResultNotes, TaskResult, read_result
from eventformers.evaluation.significance import Answers, answers_of, clusters_of
from eventformers.evaluation.tasks import TASKS, get_task
from eventformers.files import walk_with_links, write_explained, write_text
from eventformers.locks import one_writer
from eventformers.model_cards.scores import CORRELATIONS, score_range
from eventformers.publishing.plan import hub_faults

PUBLISHED_FILE = "published.yaml"
"""The file of published scores in a folder `results`."""

_ACCEPTED = "a list of scores with task, split, score, model and source, as `eventformers result add` writes"


@dataclass(frozen=True)
class PublishedScore:
    """A score that a paper or a page reports.

    Attributes:
        score: the task's main score: percent, or a correlation.
        source: where it is published: a citation or an address.
    """

    task: str
    split: str
    score: float
    model: str
    source: str


def add_published(
    output: str | Path,
    *,
    task: str,
    score: float,
    model: str,
    source: str,
    split: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Add a published score to `results/published.yaml` in a folder, where `leaderboard` finds it.

    Args:
        output: the folder; created if missing.
        score: the task's main score, in percent from 0 to 100; a correlation from -1 to 1.
        source: where it is published: a citation or an address.
        split: the split; None takes the split that the task's published scores are on, or its first.
        overwrite: replace another score of the same task, split, model and source.

    Raises:
        UnknownNameError: an unknown task.
        EventformersError: a value is not accepted, or the file has another score of this model.
    """
    named = get_task(task)
    split = split or named.published_split or named.splits[0]
    new = PublishedScore(task, split, _checked_score(score, named.main_score), model.strip(), source.strip())
    if split not in named.splits:
        raise EventformersError(f"split {shown(split)} of {task}; accepted: {', '.join(named.splits)}")
    for name, text in (("model", new.model), ("source", new.source)):
        if not text:
            raise EventformersError(
                f"{name}: found an empty text; accepted: a name, or a citation or address"
            )
    path = Path(output).expanduser() / "results" / PUBLISHED_FILE
    with write_explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with one_writer(path, wait=True):
            known = list(read_published(path)) if path.exists() else []
            kept = [one for one in known if _identity(one) != _identity(new)]
            if not overwrite and (before := [one for one in known if one not in kept and one != new]):
                raise EventformersError(
                    f"{path} has {before[0].score:g} for {new.model} on {task} ({split}) from {new.source}; "
                    "pass --overwrite (overwrite=True) to replace it"
                )
            text = yaml.safe_dump([asdict(one) for one in (*kept, new)], sort_keys=False, allow_unicode=True)
            write_text(path, text)
    if 0 < new.score < 1 and named.main_score not in CORRELATIONS:
        logger.warning(
            "the score %g of %s is less than one percent, since %s is in percent; for %g, run again with "
            "overwrite",
            *(new.score, task, named.main_score, 100 * new.score),
        )
    return path


def read_published(path: Path) -> Iterator[PublishedScore]:
    """Read a file of published scores.

    Raises:
        DataFormatError: the file is not a list of published scores.
        EventformersError: the file cannot be opened.
    """
    try:
        content = parse_yaml(path.read_bytes(), path, _ACCEPTED)
    except OSError as error:
        raise EventformersError(f"cannot read {path}: {error.strerror}") from error
    names = {entry.name for entry in fields(PublishedScore)}
    for number, entry in enumerate(content if isinstance(content, list) else [content], start=1):
        if not isinstance(entry, dict) or entry.keys() != names:
            raise DataFormatError(path, None, f"{shown(entry)} as entry {number}", _ACCEPTED)
        if not all(isinstance(entry[name], str) for name in names - {"score"}):
            raise DataFormatError(path, None, f"a value of entry {number} that is no text", _ACCEPTED)
        try:
            score = _checked_score(entry["score"], get_task(entry["task"]).main_score)
        except EventformersError as error:
            raise DataFormatError(path, None, f"entry {number}: {error}", _ACCEPTED) from error
        yield PublishedScore(**{**entry, "score": score})


def _identity(score: PublishedScore) -> tuple[str, str, str, str]:
    return score.task, score.split, score.model, score.source


def _checked_score(score: object, metric: str) -> float:
    low, high = score_range(metric)
    is_number = isinstance(score, (int, float)) and not isinstance(score, bool) and math.isfinite(score)
    if not is_number or not low <= float(score) <= high:  # type: ignore[arg-type]
        raise EventformersError(
            f"score: found {shown(score)}; accepted for {metric}: a number from {low} to {high}"
        )
    return float(score)  # type: ignore[arg-type]


logger = logging.getLogger(__name__)

CARD = "README.md"
ENTRIES = ".eval_results/*.yaml"
UNKNOWN_DATA = "unknown"
"""The name of data without fingerprint and revision."""

DATA_DIGITS = 12
"""The number of digits of a fingerprint or a revision to show and compare."""


@dataclass(frozen=True)
class BaselineScore:
    """Score of a model's untrained encoder on the same rows.

    Attributes:
        value: its main score; None if the metric is not defined.
        reading: pooling and order of an event's roles, as far as recorded.
    """

    model: str
    revision: str | None
    value: float | None
    reading: str = ""


@dataclass(frozen=True)
class Measurement:
    """A main score of a model, with its facts for a leaderboard. Facts missing in a source are None.

    Attributes:
        metric: the metric's key of the score.
        model: Hub id, or the name of the model's folder.
        value: the score; None if the metric is not defined.
        variant: settings that differ from the model's own, without the split.
        origin: `samples`, `local` or `hub`.
        fingerprint: fingerprint of the rows, at least its first `DATA_DIGITS` digits.
        dataset_revision: commit of the dataset on the Hub.
        baseline: the untrained encoder's score.
        is_baseline: True for a baseline, False for a trained model.
        texts: number of distinct texts encoded in `seconds`.
        seconds: time for encoding and comparing.
        card: address or path of the model's card.
        created: date and time, ISO 8601; empty if unknown.
        answers: whether each decision of each row is correct; None if the source has no predictions that say
            so.
        clusters: the cluster of each row, if the predictions name it, such as the gold events of a mention.
        is_published: True for a number of a paper, whose `variant` is its source.
    """

    task: str
    split: str
    metric: str
    model: str
    value: float | None
    source: str
    revision: str | None = None
    variant: str = ""
    rows: int | None = None
    origin: str | None = None
    fingerprint: str | None = None
    dataset_revision: str | None = None
    seed: int | None = None
    baseline: BaselineScore | None = None
    is_baseline: bool = False
    parameters: int | None = None
    texts: int | None = None
    seconds: float | None = None
    device: str | None = None
    card: str | None = None
    created: str = ""
    answers: Answers | None = field(default=None, repr=False)
    clusters: list[Hashable] | None = field(default=None, repr=False)
    is_published: bool = False

    @property
    def data(self) -> str:
        """Short name of the data: their fingerprint, or else their revision."""
        if self.fingerprint is not None:
            return self.fingerprint[:DATA_DIGITS]
        if self.dataset_revision is not None:
            return f"revision {self.dataset_revision[:DATA_DIGITS]}"
        return UNKNOWN_DATA


def read_folder(folder: str | Path) -> list[Measurement]:
    """Read the measurements of runs below a folder, or of a copy of a model repository.

    Reads the result files in every `results/` below the folder, except in hidden folders. Without any, reads
    the folder's `.eval_results` and the `model-index` of its card.

    Raises:
        DataFormatError: a file is not a result, or has another version.
        EventformersError: the folder does not exist or has no results.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise EventformersError(f"{folder}: no such folder; accepted: a folder with results/")
    places = [folder] if folder.name == "results" else []
    for place, names, _ in walk_with_links(folder):
        names[:] = [name for name in names if not name.startswith(".")]
        places += [place / "results"] if "results" in names else []
    found = [one for results in places for one in _results_in(results)]
    if not found:
        found = read_model_files(folder, folder.resolve().name, card=str(folder / CARD), source=str(folder))
    if not found:
        raise EventformersError(
            f"{folder}: found no result; accepted: folders with results/MODEL/REVISION/TASK.json, as train "
            "and evaluate -o write, or a copy of a model repository with .eval_results or a model-index"
        )
    return found


def _results_in(results: Path) -> Iterator[Measurement]:
    """Read the measurements of a folder `results`, in the order of the paths."""
    if (path := results / PUBLISHED_FILE).is_file():
        for one in read_published(path):
            yield Measurement(
                task=one.task,
                split=one.split,
                metric=TASKS[one.task].main_score,
                model=one.model,
                value=one.score,
                source=str(path),
                variant=one.source,
                card=one.source if one.source.startswith(("https://", "http://")) else None,
                is_published=True,
            )
    for path in sorted(results.glob("*/*/*.json")):
        if path.stem in TASKS:
            result = read_result(path)
            if result.task != path.stem:
                found = f"the task {shown(result.task)}"
                raise DataFormatError(path, None, found, f"{path.stem}, as the file's name")
            yield from_result(result, path)
        elif not path.parent.name.startswith("checkpoint-") and not path.parent.parent.name.startswith("."):
            logger.warning("%s: left out, unknown task", path)


def from_result(result: TaskResult, path: Path) -> Measurement:
    """Make a measurement from a result file, `results/MODEL/REVISION/TASK.json` in the folder of a run."""
    baseline = result.baseline
    parts = [part for part in result.variant.split("-") if part != result.dataset.split]
    seconds = result.timing.get("seconds")
    # A task that reuses the vectors of another does not measure encoding.
    timed = bool(seconds) and not result.timing.get("shared_texts")
    texts = result.timing.get("distinct_texts", result.timing.get("distinct_events"))
    device = result.settings.get("device")
    untrained = None
    if baseline is not None:
        reading = (baseline.settings.get("pooling"), baseline.settings.get("event_order"))
        told = ", ".join(str(name).replace("_", " ") for name in reading if name)
        untrained = BaselineScore(baseline.model, baseline.model_revision, baseline.main_value, told)
    answers: Answers | None = None
    # The predictions of some tasks give no answers, as clusters.
    with suppress(EventformersError):
        answers = answers_of(result) or None
    folder = path.parents[3]
    holds_model = (folder / CARD).is_file() and (folder / "config.json").is_file()
    return Measurement(
        task=result.task,
        split=result.dataset.split,
        metric=result.main_score,
        model=result.model,
        value=result.main_value,
        source=str(path),
        revision=result.model_revision,
        variant="-".join(parts),
        rows=result.dataset.rows,
        origin=result.dataset.origin,
        fingerprint=result.dataset.fingerprint,
        dataset_revision=result.dataset.revision,
        seed=result.seed,
        baseline=untrained,
        is_baseline=result.baseline_missing == NO_START or (baseline is None and result.seed is None),
        parameters=result.parameters,
        texts=int(texts) if timed and texts else None,
        seconds=float(seconds) if timed and texts and seconds else None,
        device=str(device) if timed and device else None,
        card=str(folder / CARD) if holds_model else None,
        created=result.created,
        answers=answers,
        clusters=clusters_of(result),
    )


def read_model_files(
    folder: Path,
    model: str,
    *,
    revision: str | None = None,
    card: str | None = None,
    parameters: int | None = None,
    source: str,
) -> list[Measurement]:
    """Read the measurements in `.eval_results`, and for other tasks in the `model-index` of the card.

    Results on unknown benchmarks are left out with a warning.

    Args:
        folder: the repository, or a copy of these files.
        source: name of the repository in errors and warnings.

    Raises:
        DataFormatError: a file is not in the Hub's format.
        EventformersError: a file cannot be read.
    """
    measured = partial(
        Measurement, model=model, revision=revision, card=card, parameters=parameters, source=source
    )
    found: list[Measurement] = []
    others: list[str] = []
    accepted = "a list of entries in the Hub's format, with dataset (id and task_id) and value"
    for path in sorted(folder.glob(ENTRIES)):
        try:
            entries = parse_eval_result_entries(parse_yaml(read_regular_text(path, accepted), path, accepted))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataFormatError(path, None, f"{type(error).__name__}: {error}", accepted) from error
        for entry in entries:
            if (one := _from_entry(entry, path, measured)) is None:
                others.append(f"{entry.dataset_id} {entry.task_id}")
            else:
                found.append(one)
    told = {(one.task, one.split) for one in found}
    for result in _model_index(folder / CARD):
        task = str(result.task_name)
        if task not in TASKS:
            others.append(str(result.task_name or result.dataset_name))
        elif (task, split := _split(task, result.dataset_split)) not in told:
            found.append(
                measured(
                    task=task,
                    split=split,
                    metric=result.metric_type,
                    value=_number(result.metric_value, folder / CARD),
                    dataset_revision=result.dataset_revision,
                )
            )
    if others:
        logger.warning("%s: left out results of unknown tasks: %s", source, ", ".join(sorted(set(others))))
    return found


def _from_entry(
    entry: EvalResultEntry, path: Path, measured: Callable[..., Measurement]
) -> Measurement | None:
    """Make a measurement from an entry; None for an unknown task."""
    _check_texts(path, task_id=entry.task_id, revision=entry.dataset_revision)
    noted = ResultNotes.read(entry.notes)
    task = noted.task if noted else entry.task_id
    if task not in TASKS:
        return None
    told: dict[str, Any] = {"metric": TASKS[task].main_score, "split": _split(task, None)}
    if noted is not None:
        told = {
            "metric": noted.main_score,
            "split": _split(task, noted.split),
            "rows": noted.rows,
            "origin": noted.origin or "hub",
            "fingerprint": noted.fingerprint,
            "seed": noted.seed,
            "baseline": BaselineScore(noted.baseline, None, noted.baseline_value) if noted.baseline else None,
        }
    return measured(
        task=task,
        value=_number(entry.value, path),
        dataset_revision=entry.dataset_revision,
        created=str(entry.date or ""),
        **told,
    )


def _model_index(card: Path) -> list[EvalResult]:
    index = read_front_matter(card).get("model-index")
    if not index:
        return []
    try:
        results = model_index_to_eval_results(cast("list[dict[str, Any]]", index))[1]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        found = f"a model-index with {type(error).__name__}: {error}"
        raise DataFormatError(card, None, found, "a model-index in the Hub's format") from error
    for one in results:
        texts = {"task name": one.task_name, "dataset name": one.dataset_name, "metric type": one.metric_type}
        _check_texts(card, **texts, split=one.dataset_split, revision=one.dataset_revision)
    return results


def _split(task: str, told: str | None) -> str:
    """Return the recorded split, or else the task's default."""
    return told or TASKS[task].splits[0]


def _check_texts(path: Path, **values: object) -> None:
    for name, value in values.items():
        if value is not None and not isinstance(value, str):
            raise DataFormatError(path, None, f"the {name} {shown(value)}", "a text")


def _number(value: object, path: Path) -> float | None:
    """Check a score and return it; None for NaN and infinity."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DataFormatError(path, None, f"the value {shown(value)}", "a number")
    return float(value) if math.isfinite(value) else None


def read_repository(repo_id: str, api: HfApi | None = None) -> list[Measurement]:
    """Read the measurements of a model repository.

    Args:
        repo_id: `ORG/NAME`.
        api: the client; None takes one with the user's settings.

    Raises:
        DataFormatError: a file of the repository is not in the Hub's format.
        EventformersError: the repository does not exist or is not accessible, or the Hub is unreachable.
    """
    api = api or HfApi()
    with hub_faults(repo_id):
        info = api.model_info(repo_id)
        copy = api.snapshot_download(repo_id, revision=info.sha, allow_patterns=[ENTRIES, CARD])
    return read_model_files(
        Path(copy),
        repo_id,
        revision=info.sha,
        card=f"{api.endpoint}/{repo_id}",
        parameters=info.safetensors.total if info.safetensors else None,
        source=repo_id,
    )


def read_author(author: str, api: HfApi | None = None) -> list[Measurement]:
    """Read the measurements of all model repositories of a user or an organization.

    Repositories without results are ignored. A repository with an unreadable file is left out with a warning.

    Args:
        api: the client; None takes one with the user's settings.

    Raises:
        EventformersError: the Hub is unreachable, or there is no model repository.
    """
    api = api or HfApi()
    with hub_faults(author):
        repo_ids = sorted(model.id for model in api.list_models(author=author))
    return _read_all(repo_ids, f"{author} on the Hub", api)


def read_collection(slug: str, api: HfApi | None = None) -> list[Measurement]:
    """Read the measurements of all model repositories of a collection, like `read_author`.

    Args:
        slug: the collection, such as `org/title-0123456789abcdef01234567`.
        api: the client; None takes one with the user's settings.

    Raises:
        EventformersError: the collection does not exist, or the Hub is unreachable.
    """
    api = api or HfApi()
    with hub_faults(slug):
        items = api.get_collection(slug).items
    return _read_all([item.item_id for item in items if item.item_type == "model"], f"collection {slug}", api)


def _read_all(repo_ids: list[str], where: str, api: HfApi) -> list[Measurement]:
    if not repo_ids:
        raise EventformersError(f"{where}: found no model repository; accepted: at least one")
    found: list[Measurement] = []
    for repo_id in repo_ids:
        try:
            found += read_repository(repo_id, api)
        except DataFormatError as error:
            logger.warning("left out %s: %s", repo_id, error)
    return found
