"""Rows of a reproduced table that read and cluster mentions in their own way, on runs that they share: means
over several seeds, and ensembles."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from eventformers.errors import EventformersError
from eventformers.evaluation.core import evaluate
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.tasks.induction_protocols import InductionSettings
from eventformers.evaluation.tasks.protocols import JsonValue
from eventformers.inference.induction.mention_encoding import WITHOUT_TRIGGERS
from eventformers.inference.induction.type_naming import majority_type
from eventformers.loading.encoders import resolve_encoder
from eventformers.model_cards.markdown import cell
from eventformers.model_cards.markdown import table as markdown_table
from eventformers.model_cards.scores import score_text
from eventformers.reproduction.rows import (
    finished_folder,
    one_row,
    other_evaluation,
    readable_results,
    slug,
    train_run,
)
from eventformers.reproduction.table import Finding, Measurement, ReproducedRow, Reproduction, RowRun
from eventformers.trainers.run import resolve_recipe

PURITY_CLASSES = {
    "very strong (over 80 %)": 80.0,
    "strong (60 to 80 %)": 60.0,
    "ok (40 to 60 %)": 40.0,
    "mixed (up to 40 %)": 0.0,
}
"""The classes of Table 2 of Edwards and Ji, by the purity that their clusters lie above."""

SMALL = "small (one mention)"
"""The class of clusters of fewer than two mentions, whatever their purity."""

logger = logging.getLogger(__name__)


def reading_of(call: Reproduction, row: ReproducedRow) -> InductionSettings:
    """How a row reads mentions: as its table says, and untrained encoders read the tokens of triggers where
    the recipe's models read triggers."""
    reading = row.paper.induction or InductionSettings()
    if not row.paper.baseline or reading.trigger_input is not None:
        return reading
    recipe = resolve_recipe(call.method, call.recipe, call.settings, call.seed)
    trains_on = recipe.model.get("trigger_input", "none")
    return reading if trains_on in WITHOUT_TRIGGERS else replace(reading, trigger_input="span")


def fill_by_reading(call: Reproduction, row: ReproducedRow) -> None:
    """Get a row's results, one task after another, into the row; those before a failure stay.

    Raises:
        EventformersError: the evaluation data has nothing for the row, or a run failed.
    """
    if not row.measurements:
        raise EventformersError("the evaluation data has no rows for any of its columns")
    started = time.monotonic()
    folders: dict[RowRun, Path] = {}
    trained = 0
    for run in dict.fromkeys((*row.runs, *row.clustering)):
        folders[run], is_new = _trained(call, row, run)
        trained += is_new
    row.folder = call.folder / f"{slug(row.paper.slug)}-{row.digest}"
    measured = 0
    with one_row(call.folder, row.digest):
        for wanted in row.measurements:
            place = other_evaluation(row.folder, wanted)
            models = [folders[run] for run in row.runs] or [Path(resolve_encoder(call.encoder))]
            results = []
            for number, model in enumerate(models):
                target = place / f"run-{number + 1}" if row.paper.averaged else place
                held = next(filter(wanted.is_of, readable_results(target)), None)
                if held is None:
                    held = _score(call, row, wanted, model, [folders[run] for run in row.clustering], target)
                    measured += 1
                results.append(held)
            row.results[wanted] = mean_result(results) if row.paper.averaged else results[0]
    row.state = f"measured, {time.monotonic() - started:.0f} s" if measured else "cached"
    if trained:
        row.state = f"{trained} trained, " + row.state


def mean_result(results: Sequence[TaskResult]) -> TaskResult:
    """The mean of the scores of several runs, as the first one's result.

    Its details tell under `runs` their number, and under `spread` and `spread_of_parts` the standard
    deviation of each score.

    Args:
        results: at least one, of the same rows.
    """
    first = results[0]
    scores, spread = _mean_scores([result.scores for result in results])
    parts: dict[str, dict[str, JsonValue]] = {}
    spread_of_parts: dict[str, JsonValue] = {}
    for name in first.parts:
        parts[name], of_part = _mean_scores([result.parts[name] for result in results])
        spread_of_parts[name] = cast(JsonValue, of_part)
    main = scores[first.main_score]
    return replace(
        first,
        scores=scores,
        main_value=float(main) if isinstance(main, (int, float)) else None,
        parts=parts,
        details={
            **first.details,
            "runs": len(results),
            "spread": cast(JsonValue, spread),
            "spread_of_parts": spread_of_parts,
        },
    )


def _mean_scores(
    of_runs: Sequence[Mapping[str, JsonValue]],
) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """Mean and standard deviation of each score; None where a run has none."""
    means: dict[str, JsonValue] = {}
    spreads: dict[str, JsonValue] = {}
    for name in of_runs[0]:
        values = [value for scores in of_runs if isinstance(value := scores.get(name), (int, float))]
        whole = len(values) == len(of_runs)
        means[name] = float(np.mean(values)) if whole else None
        spreads[name] = float(np.std(values, ddof=1)) if whole and len(values) > 1 else None
    return means, spreads


def spread_of_runs(call: Reproduction, rows: Sequence[ReproducedRow]) -> Finding | None:
    """The standard deviations over the runs of each averaged row; None where there are not two runs."""
    spreads: dict[str, dict[str, float]] = {}
    lines = []
    for row in rows:
        texts = []
        for column, measurements in call.columns_of(row).items():
            found = [row.results[one].details for one in measurements if one in row.results]
            value = _spread(found[0], column.part).get(column.score) if found else None
            texts.append("–")
            if isinstance(value, (int, float)):
                spreads.setdefault(row.paper.label, {})[column.key] = value
                texts[-1] = score_text(value, column.score)
        if row.paper.label in spreads:
            lines.append([cell(row.paper.label), *texts])
    if not lines:
        return None
    header = ["model", *(cell(column.title) for column in call.measurements)]
    seeds = f"{call.seed} to {call.seed + call.runs - 1}"
    section = (
        f"## Spread over {call.runs} runs\n\nStandard deviation of each score; seeds {seeds}.\n\n"
        f"{markdown_table(header, lines)}"
    )
    return Finding("spread", section, spreads)


def _spread(details: Mapping[str, JsonValue], part: str) -> Mapping[str, JsonValue]:
    """The standard deviations that the details of a mean tell."""
    spread = details.get("spread")
    if part:
        of_parts = details.get("spread_of_parts")
        spread = of_parts.get(part) if isinstance(of_parts, dict) else None
    return spread if isinstance(spread, dict) else {}


def clusters_by_purity(row: ReproducedRow) -> Finding | None:
    """The clusters of a row by the class of their purity, each by its most frequent type (Table 2).

    Args:
        row: the row, whose results tell the cluster and the type of each mention.

    Returns:
        The classes; None where there is no result.
    """
    result = next(iter(row.results.values()), None)
    if result is None:
        return None
    members: dict[int, list[str]] = {}
    for mention in result.predictions:
        members.setdefault(int(str(mention["cluster"])), []).append(str(mention["event_type"]))
    classes: dict[str, list[dict[str, object]]] = {name: [] for name in (*PURITY_CLASSES, SMALL)}
    for cluster in sorted(members):
        types = members[cluster]
        name, count = majority_type(types)
        purity = 100 * count / len(types)
        strength = next((one for one, least in PURITY_CLASSES.items() if purity > least))
        found = {"event_type": name, "mentions": len(types), "purity": round(purity, 1)}
        classes[SMALL if len(types) < 2 else strength].append(found)
    lines = [
        [
            cell(name),
            str(len(found)),
            cell(
                ", ".join(f"{one['event_type']} ({one['mentions']}, {one['purity']} %)" for one in found)
                or "–"
            ),
        ]
        for name, found in classes.items()
    ]
    header = ["purity", "clusters", "most frequent type (mentions, purity)"]
    section = f"## Clusters of {cell(row.paper.label)}\n\n{markdown_table(header, lines)}"
    return Finding("clusters", section, classes)


def _trained(call: Reproduction, row: ReproducedRow, run: RowRun) -> tuple[Path, bool]:
    """The folder of a run, which is trained where no row did that before; and whether it was."""
    tasks = list(dict.fromkeys(wanted.task for wanted in row.measurements))
    with one_row(call.folder, run.digest):
        finished = finished_folder(call.folder, run.digest)
        if finished is not None:
            return finished, False
        folder = call.folder / f"{slug(run.name)}-{run.digest}"
        logger.info("training %s", folder.name)
        train_run(call, run.training, run.digest, tasks, folder)
        return folder, True


def _score(
    call: Reproduction,
    row: ReproducedRow,
    wanted: Measurement,
    model: Path,
    ensemble: Sequence[Path],
    output: Path,
) -> TaskResult:
    result = evaluate(
        str(model),
        wanted.task,
        data=call.evaluation_data,
        split=wanted.split,
        output=output,
        # The table has the untrained encoder in rows of its own.
        baseline=False,
        settings=replace(reading_of(call, row), clustered_by=tuple(map(str, ensemble))),
        session=call.session,
        device=call.device,
        overwrite=True,
    )
    # The rows share vectors; models of many runs would fill the memory.
    call.session.release_models()
    return result
