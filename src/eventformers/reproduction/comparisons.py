"""The scores of rows, comparisons of two rows with confidence intervals, and the claims of papers.

A claim is a published difference between two rows in one column, or a row that a paper draws as ahead of
another one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.stats import ttest_1samp

from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation.data import load_data
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.significance import (
    CONFIDENCE,
    Answers,
    PairedComparison,
    answers_of,
    compare_answers,
    graded_pairs,
    mean_answers,
    paired_correlations,
)
from eventformers.evaluation.tasks import TASKS, with_settings
from eventformers.evaluation.tasks.base import JsonValue
from eventformers.markdown import cell, code
from eventformers.markdown import table as markdown_table
from eventformers.methods import load_method
from eventformers.model_cards.scores import score_text
from eventformers.reproduction.runs import Columns, ReproducedRow, Reproduction, ScoredSplit
from eventformers.reproduction.tables import Column, get_table
from eventformers.trainers.run import resolve_recipe
from eventformers.trainers.stages import stage_recipes

Scores = Mapping[Column, float | None]
"""The score of each column; None if there is none."""

VERDICTS = ("holds", "does not", "cannot tell", "one seed")
"""The verdicts on a claim; see `verdict`. A table of one run decides none: its claims have the last one."""

_ROUNDING = 1e-6
"""The largest difference between a score and the mean of its decisions, in percentage points."""
_FILE_NAME = re.compile(r"(?P<paper>.+)-(?P<table>(table|figure)\d+|children)(-[^-]+)?")


@dataclass(frozen=True)
class Finding:
    """A finding of a table beyond its scores."""

    key: str
    section: str
    content: Mapping[str, object]


def scores_of(row: ReproducedRow) -> Scores:
    """Compute the mean score of a row's runs in each column; None if a run lacks the score."""
    of_runs = scores_of_runs(row)
    return {
        column: float(np.mean(values)) if (values := run_values(of_runs, column)) else None
        for column in row.columns
    }


def scores_of_runs(row: ReproducedRow) -> list[Scores]:
    """Compute the scores of each run of a row; see `mean_scores`."""

    def shown(column: Column, result: TaskResult) -> Mapping[str, JsonValue]:
        part = ", ".join(filter(None, (column.part, row.paper.part)))
        if not part:
            return {**result.details, **result.scores}
        rows = sum(one.get("language") == row.paper.part for one in result.predictions)
        return {"mentions": rows, **result.parts[part]} if part in result.parts else {}

    return [mean_scores(row.columns, results, shown) for results in row.results_of_runs]


def run_values(of_runs: list[Scores], column: Column) -> list[float]:
    """List the scores of all runs in a column; empty if a run lacks it."""
    values = [scores[column] for scores in of_runs]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def mean_scores(
    columns: Columns,
    results: Mapping[ScoredSplit, TaskResult],
    shown: Callable[[Column, TaskResult], Mapping[str, JsonValue]],
) -> Scores:
    """Compute the score of each column, over several splits the mean by rows; None if a result is missing.

    Args:
        shown: returns the scores that a column chooses from.
    """
    scores: dict[Column, float | None] = {}
    for column, splits in columns.items():
        found = [results[wanted] for wanted in splits if wanted in results]
        values = [shown(column, result).get(column.score) for result in found]
        known = [float(value) for value in values if isinstance(value, (int, float))]
        counts = [result.dataset.rows for result in found]
        scores[column] = (
            sum(value * count for value, count in zip(known, counts, strict=True)) / sum(counts)
            if known and len(known) == len(splits)
            else None
        )
    return scores


@dataclass(frozen=True)
class RowComparison:
    """A comparison of two rows in a column.

    Attributes:
        published: the paper's difference; None if it lacks one of the scores.
        difference: the mean score of the row's runs minus that of the other's.
        of_runs: the difference of each pair of runs with equal seeds; a single run, such as an untrained
            encoder or an ensemble, is paired with each run of the other row.
        low: lower end of the confidence interval: by the paired bootstrap over questions, or by Student's t
            over runs; None for a single run of a score that is no mean over questions.
        questions: number of questions; 0 for an interval over runs.
        drawn: whether the paper draws the row as ahead of the other one, without stating the numbers.
    """

    row: str
    other: str
    column: str
    title: str
    score: str
    published: float | None
    difference: float
    of_runs: tuple[float, ...]
    low: float | None
    high: float | None
    questions: int
    drawn: bool = False

    def turned(self) -> RowComparison:
        """Exchange the two rows."""
        return replace(
            self,
            row=self.other,
            other=self.row,
            published=None if self.published is None else -self.published,
            difference=-self.difference,
            of_runs=tuple(-value for value in self.of_runs),
            low=None if self.high is None else -self.high,
            high=None if self.low is None else -self.low,
        )


def compare_rows(call: Reproduction, rows: Sequence[ReproducedRow]) -> Finding | None:
    """Compare the pairs of rows that a table names, in the columns that both have.

    A score that is a mean over questions, or a rank correlation over pairs, is compared by the paired
    bootstrap, over whole documents or gold events if the data names them. Any other score is compared over
    runs.

    Returns:
        The comparisons; None if no pair has results.

    Raises:
        EventformersError: the data cannot be loaded.
    """
    by_label = {row.paper.label: row for row in rows}
    table = call.table
    stated = [(pair, column) for pair in table.compared for column in table.columns if column.compared]
    drawn = [(pair, column) for column, pairs in table.drawn.items() for pair in pairs]
    compared = [
        replace(found, drawn=is_drawn)
        for claims, is_drawn in ((stated, False), (drawn, True))
        for (label, other), column in claims
        if label in by_label and other in by_label
        if (found := _compare(call, by_label[label], by_label[other], column)) is not None
    ]
    if not compared:
        return None
    titles = list(dict.fromkeys(one.title for one in compared))
    texts: dict[tuple[str, str], dict[str, str]] = {}
    for one in compared:
        texts.setdefault((one.row, one.other), {})[one.title] = difference_text(one)
    lines = [
        [cell(label), cell(other), *(of_pair.get(title, "–") for title in titles)]
        for (label, other), of_pair in texts.items()
    ]
    note = (
        f"How far the model is ahead of the other, with the {CONFIDENCE:.0%} interval: by the paired "
        "bootstrap over questions, resampled by document or gold event where they name theirs; by Student's "
        "t over runs where the answers to single questions are not known."
    )
    content = markdown_table(["model", "other", *map(cell, titles)], lines)
    section = f"## Comparisons\n\n{note}\n\n{content}"
    return Finding("comparisons", section, {"pairs": [asdict(one) for one in compared]})


def _compare(
    call: Reproduction, row: ReproducedRow, other: ReproducedRow, column: Column
) -> RowComparison | None:
    values, others = (run_values(scores_of_runs(one), column) for one in (row, other))
    if not values or not others:
        return None
    # Rows have one run or as many as the table.
    of_runs = np.subtract(values, others).tolist()
    by_question = _by_question(call, row, other, column)
    low, high = (None, None) if by_question is None else (by_question.low, by_question.high)
    if by_question is None and len(of_runs) > 1:
        # Student's interval, of equal differences their value.
        low = high = of_runs[0]
        if len(set(of_runs)) > 1:
            low, high = map(float, ttest_1samp(of_runs, 0).confidence_interval(CONFIDENCE))
    paper, others_paper = (call.table.published(one.paper)[column] for one in (row, other))
    return RowComparison(
        row=row.paper.label,
        other=other.paper.label,
        column=column.key,
        title=column.title,
        score=column.score,
        published=None if paper is None or others_paper is None else paper - others_paper,
        difference=float(np.mean(of_runs)),
        of_runs=tuple(of_runs),
        low=low,
        high=high,
        questions=0 if by_question is None else by_question.questions,
    )


def _by_question(
    call: Reproduction, row: ReproducedRow, other: ReproducedRow, column: Column
) -> PairedComparison | None:
    """Compare by the paired bootstrap; None if the score is no mean over questions and no correlation."""
    is_read = column.score == TASKS[column.task].main_score or column.score.startswith("hits_at_")
    if row.paper.part or not is_read:
        return None
    graded, other_graded = _similarities(row, column), _similarities(other, column)
    if graded is not None and other_graded is not None:
        (similarities, ratings), (other_similarities, _) = graded, other_graded
        clusters = _clusters(call, column, row)
        return paired_correlations(similarities, other_similarities, ratings, clusters=clusters)
    answers, other_answers = _answers(row, column), _answers(other, column)
    if answers is None or other_answers is None:
        return None
    return compare_answers(answers, other_answers, clusters=_clusters(call, column, row))


def _similarities(row: ReproducedRow, column: Column) -> tuple[list[list[float]], list[float]] | None:
    """Read the similarities of a column's pairs by each run, `(runs, pairs)`, and the ratings of the pairs.

    Returns:
        Both; None if the column has other predictions or several splits.
    """
    first, *others = row.columns[column]
    graded = [graded_pairs(results[first]) for results in row.results_of_runs]
    known = [pairs for pairs in graded if pairs is not None]
    if others or len(known) < len(graded):
        return None
    return [similarities for similarities, _ in known], known[0][1]


def _answers(row: ReproducedRow, column: Column) -> Answers | None:
    """Average the answers of a row's runs to all questions of a column; None if they are not its score."""
    of_runs = []
    values = run_values(scores_of_runs(row), column)
    for results, value in zip(row.results_of_runs, values, strict=True):
        try:
            answers = [
                answer
                for wanted in row.columns[column]
                for answer in answers_of(results[wanted], column.part, column.score)
            ]
        except EventformersError:
            return None
        decisions = [decision for answer in answers for decision in answer]
        if not math.isclose(100 * float(np.mean(decisions)), value, abs_tol=_ROUNDING):
            return None
        of_runs.append(answers)
    return mean_answers(of_runs)


def _clusters(call: Reproduction, column: Column, row: ReproducedRow) -> list[Hashable] | None:
    """Read the document or gold events of each question of a column; None if the data names neither."""
    clusters: list[Hashable] = []
    for wanted in row.columns[column]:
        task = with_settings(TASKS[wanted.task], wanted.settings or {})
        of_split = load_data(task, call.evaluation_data, wanted.split, call.session.data).clusters
        if of_split is None:
            return None
        clusters += of_split
    return clusters


def difference_text(one: RowComparison) -> str:
    """Write a difference and its interval, as `+1.2 (-0.3 to +2.7)`."""
    difference = signed(one.difference, one.score)
    if one.low is None or one.high is None:
        return difference
    return f"{difference} ({signed(one.low, one.score)} to {signed(one.high, one.score)})"


def signed(value: float, score: str) -> str:
    """Write a difference of scores with its sign."""
    text = score_text(abs(value), score)
    return f"{'-' if value < 0 else '+'}{text}"


def verdict(one: RowComparison) -> str:
    """Decide whether the sign of a published or drawn difference holds.

    Returns:
        `holds` if the whole interval and the difference of every run are on the paper's side of 0, `does not`
        if they are on the other side, else `cannot tell`.
    """
    is_ahead = one.drawn or (one.published or 0) > 0
    if not (one.drawn or one.published) or one.low is None or one.high is None:
        return "cannot tell"
    ours = (one.low, one.high, *one.of_runs)
    if min(ours) > 0 or max(ours) < 0:
        return "holds" if (ours[0] > 0) == is_ahead else "does not"
    return "cannot tell"


def claims_sections(folder: Path) -> str:
    """Write the claims of all reproduced tables: a summary, and a section for each table.

    Args:
        folder: JSON files of `reproduce`, each named `PAPER-TABLE.json`, or `PAPER-TABLE-WORD.json` for a
            table that was run in several ways.

    Raises:
        DataFormatError: a file has another name, or is not the JSON of a table.
    """
    found = [_claims_of(path) for path in sorted(folder.glob("*.json"))]
    header = ["table", "mechanism", "runs", "hours", *VERDICTS]
    summary = markdown_table(header, [line for line, _ in found])
    return "\n\n".join([summary, *(section for _, section in found)])


def _claims_of(path: Path) -> tuple[list[str], str]:
    """Write the line of a table in the summary, and its section."""
    content = read_json_object(path, "the JSON of `eventformers reproduce`")
    if "rows" not in content:
        raise DataFormatError(path, None, "no rows", "the JSON of `eventformers reproduce`")
    try:
        pairs = [
            RowComparison(**{**one, "of_runs": tuple(one["of_runs"])})
            for one in content.get("comparisons", {"pairs": []})["pairs"]
        ]
    except (KeyError, TypeError) as error:
        found = f"a comparison with other fields ({error})"
        raise DataFormatError(path, None, found, "the JSON of this version's `reproduce`") from error
    named = _FILE_NAME.fullmatch(path.stem)
    if named is None:
        accepted = "PAPER-TABLE.json or PAPER-TABLE-WORD.json"
        raise DataFormatError(path, None, f"the name {path.name}", accepted)
    # The paper has the first row of each claim ahead.
    claims = [
        one if one.drawn or cast(float, one.published) > 0 else one.turned()
        for one in pairs
        if one.drawn or one.published
    ]
    verdicts = ["one seed" if content["runs"] == 1 else verdict(one) for one in claims]
    model, views = _other_settings(named, content)
    mechanism = "The mechanism of the paper."
    if views:
        mechanism += f" Views: {', '.join(views)}."
    if model:
        mechanism = (
            "**Another mechanism than the paper's**, so that its verdicts are not the paper's: "
            f"{', '.join(model + views)}."
        )
    rows = content["rows"]
    # Files of earlier versions lack the times.
    trainings = {key: value for row in rows for key, value in row.get("trainings", {}).items()}
    line = [
        cell(content["title"]),
        "other" if model else "the paper's",
        str(content["runs"]),
        f"{sum(trainings.values()) / 3600:.1f}" if trainings else "–",
        *(str(verdicts.count(name)) for name in VERDICTS),
    ]
    options = "".join(f" --set {setting}" for setting in content["settings"])
    if content.get("dtype"):
        options += f" --dtype {content['dtype']}"
    command = (
        f"eventformers reproduce {named['paper']} {named['table']} --recipe {content['recipe']}"
        f" --seed {content['seed']} --runs {content['runs']}{options}"
    )
    cells = [
        [
            f"{cell(one.row)} > {cell(one.other)}",
            cell(one.title),
            "drawn" if one.drawn else signed(cast(float, one.published), one.score),
            difference_text(one),
            f"{one.questions:,} questions" if one.questions else f"runs: {len(one.of_runs)}",
            found,
        ]
        for one, found in zip(claims, verdicts, strict=True)
    ]
    header = ["claim", "score", "paper", "ours (95 % interval)", "interval over", "verdict"]
    columns = get_table(named["paper"], named["table"]).columns
    table = markdown_table(header, cells) or _own_scores(columns, content)
    return line, "\n\n".join([f"## {cell(content['title'])}", mechanism, code(command), table])


def _own_scores(columns: Sequence[Column], content: Mapping[str, Any]) -> str:
    """Write our scores of a table in which the paper has no row that is run ahead of another one."""
    rows = {row["label"]: row["scores"] for row in content["rows"] if row.get("scores")}
    if content.get("untrained"):
        rows["untrained encoder"] = content["untrained"]
    cells = [
        [
            cell(label),
            *(score_text(scores[one.key], one.score) if one.key in scores else "–" for one in columns),
        ]
        for label, scores in rows.items()
    ]
    table = markdown_table(["our scores", *(cell(column.title) for column in columns)], cells)
    return f"No two of these rows are a claim of the paper.\n\n{table}".strip()


def _other_settings(named: re.Match[str], content: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Compare the recipe of a table, with its settings, to the paper's; both of the method of the table.

    Returns:
        Fields of the model but its sizes, and stages that are left out: another mechanism; and settings of
        views, such as numbers of corruptions.
    """
    method = load_method(get_table(named["paper"], named["table"]).method)
    settings = [one for one in content["settings"] if not one.startswith("data.")]
    try:
        run, paper = (
            {part.model.get("stage", ""): part for part in stage_recipes(resolve_recipe(method, *recipe))}
            for recipe in ((content["recipe"], settings), (method.paper_recipe, ()))
        )
    except EventformersError:
        return [f"the recipe {code(content['recipe'])}, which this version does not have"], []
    model = [f"without the stage {code(stage)}" for stage in paper if stage not in run]
    views: list[str] = []
    for stage, part in run.items():
        of_paper = paper.get(stage, list(paper.values())[-1])
        ours, theirs = (asdict(method.config_class(**one.model)) for one in (part, of_paper))
        own = [one.name for one in fields(method.config_class) if not one.name.endswith("_dim")]
        for found, (values, wanted), names in (
            (model, (ours, theirs), own),
            (views, (part.views, of_paper.views), part.views),
        ):
            found += [
                code(f"{name}={values[name]} (paper: {wanted.get(name, 'none')})")
                for name in names
                if name != "stage" and values[name] != wanted.get(name)
            ]
    return list(dict.fromkeys(model)), list(dict.fromkeys(views))
