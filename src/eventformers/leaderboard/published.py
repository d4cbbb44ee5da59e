"""Published scores of a user: numbers of papers, in a file beside the results of runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import yaml

from eventformers.datasets_scripts.reading.lines import parse_yaml
from eventformers.errors import DataFormatError, EventformersError, shown
from eventformers.evaluation.tasks import get_task
from eventformers.files import write_explained, write_text
from eventformers.locks import one_writer
from eventformers.model_cards.scores import CORRELATIONS

PUBLISHED_FILE = "published.yaml"
"""The file of published scores in a folder `results`."""

_ACCEPTED = "a list of scores with task, split, score, model and source, as `eventformers result add` writes"


@dataclass(frozen=True)
class PublishedScore:
    """A score that a paper or a page reports.

    Attributes:
        task: the task's name.
        split: the split.
        score: the task's main score: percent, or a correlation.
        model: name of the model or system.
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
        task: the task's name.
        score: the task's main score, in percent from 0 to 100; a correlation from -1 to 1.
        model: name of the model or system.
        source: where it is published: a citation or an address.
        split: the split; None takes the split that the task's published scores are on, or its first.
        overwrite: replace another score of the same task, split, model and source.

    Returns:
        The file.

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
    low, high = (-1, 1) if metric in CORRELATIONS else (0, 100)
    is_number = isinstance(score, (int, float)) and not isinstance(score, bool) and math.isfinite(score)
    if not is_number or not low <= float(score) <= high:  # type: ignore[arg-type]
        raise EventformersError(
            f"score: found {shown(score)}; accepted for {metric}: a number from {low} to {high}"
        )
    return float(score)  # type: ignore[arg-type]
