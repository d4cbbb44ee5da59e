"""Fill a table of a paper with our rows: train the missing ones, read the finished ones."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import cast

from eventformers.datasets_scripts.loading import load_built, without_samples
from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError, lookalike
from eventformers.evaluation.session import Session
from eventformers.locks import one_writer
from eventformers.methods import Method, load_method
from eventformers.reproduction.comparisons import compare_rows
from eventformers.reproduction.rows import fill_row, plan_row, state_of
from eventformers.reproduction.runs import MEASURED, ReproducedRow, Reproduction, read_record
from eventformers.reproduction.tables import PaperTable, get_table
from eventformers.reproduction.writing import (
    FIGURES,
    ReproducedTable,
    clusters_by_purity,
    failed_state,
    spread_of_runs,
    write_table,
)
from eventformers.trainers.recipes import load_recipe
from eventformers.trainers.run import resolve_recipe

logger = logging.getLogger(__name__)


@takes_malformed
def reproduce_table(
    paper: str,
    table: str,
    output: str | Path,
    *,
    recipe: str | None = None,
    data: str | Path | None = None,
    evaluation_data: str | Path | None = None,
    encoder: str | None = None,
    settings: Sequence[str] = (),
    seed: int | None = None,
    runs: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    session: Session | None = None,
    malformed: str | None = None,
    rows: Sequence[str] = (),
) -> ReproducedTable:
    """Fill a table of a paper with our rows, beside the paper's scores and the untrained encoder's.

    Each row is a training run or a measured baseline, in its own folder under `output/<paper>/`. The folder's
    name ends with a digest of what decides the row's outcome: settings, encoder, data, seed, precision. A
    finished row is read from its results, whichever table it was run for. A killed row continues from its
    last checkpoint. A failed row says so in the table and leaves the other rows unaffected. An interrupted
    table compares the rows that are finished. If only the evaluation data is new, the model is scored again
    without training.

    Args:
        paper: a key of `paper_tables()`.
        table: a table of that paper, such as `table2`.
        output: folder of all reproductions.
        recipe: name or YAML file of the recipe that every row starts from; None uses the table's recipe for
            the data if it has one, else the recipe with the paper's settings.
        data: training data, as for `train`; None uses the bundled samples.
        evaluation_data: raw files of the evaluation tasks; None uses the bundled samples. A column whose task
            or split they lack stays empty.
        encoder: Hub id or folder of a pretrained encoder; None uses the packaged all-MiniLM-L6-v2.
        settings: overrides of the recipe, `key=value`; the settings of a row take precedence.
        seed: seed of every row. None uses the one of the table's last run with this recipe, else the
            recipe's, else a random one; the table records it.
        runs: number of runs of each row, with consecutive seeds, whose mean it shows; an ensemble combines
            them. None uses the table's.
        device: `cpu` or `cuda`; None uses an accelerator if there is one.
        dtype: `bfloat16` or `float16` for mixed precision; None for float32.
        session: holds data that this table shares with other work; None shares nothing.
        rows: labels of the rows to run; empty runs all.
        malformed: see `induce`.

    Returns:
        The table; also written as `<output>/<paper>/<table>.md` and `.json` after every row.

    Raises:
        UnknownNameError: the paper, the table, the recipe or a setting is unknown.
        EventformersError: the encoder or the data cannot be read, every row failed, or `runs` is below 1.
    """
    wanted = get_table(paper, table)
    method = load_method(wanted.method)
    data, evaluation_data = without_samples(data), without_samples(evaluation_data)
    recipe = recipe or _usual_recipe(wanted, method, data)
    if runs is not None and runs < 1:
        raise EventformersError(f"runs is {runs} for {paper} {table}; accepted: 1 or more")
    labels = [row.label for row in wanted.rows if row.slug]
    asked = {name: lookalike(name, labels) for name in rows or labels}
    if unknown := [name for name, label in asked.items() if label is None]:
        raise UnknownNameError(f"row of {paper} {table} to run:", unknown[0], labels)
    folder = Path(output) / paper
    path = folder / f"{table}.md"
    with one_writer(path), Session(session) as own:
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
            device=device,
            dtype=dtype,
            runs=runs or wanted.runs,
            session=own,
        )
        planned = _plan(call, asked.values())
        run = [row for row in planned if row.digest and row.paper.label in asked.values()]
        # Before the first row, so that a randomly drawn seed survives a kill.
        finished = write_table(call, planned, path)
        error: Exception | None = None
        for position, row in enumerate(run, start=1):
            logger.info("%s: row %d of %d, %s", table, position, len(run), row.paper.label)
            try:
                if not row.splits:
                    raise EventformersError("the evaluation data has no rows for any of its columns")
                # Two tables may share a row; the second one waits and then finds it done.
                with one_writer(folder / f"row-{row.digest}", wait=True):
                    call.done.clear()
                    started = time.monotonic()
                    fill_row(call, row)
                    trained = [one for one in call.done if one != MEASURED]
                    measured = len(call.done) - len(trained)
                    row.state = state_of(row, trained, measured, time.monotonic() - started)
            except KeyboardInterrupt:
                finished_rows = [one for one in planned if one is not row]
                if comparisons := compare_rows(call, finished_rows):
                    write_table(call, planned, path, [comparisons])
                raise
            except Exception as failure:
                error = failure
                row.state = failed_state(failure)
                is_told = isinstance(failure, EventformersError)
                level = logging.WARNING if is_told else logging.ERROR
                logger.log(level, "row %s %s", row.paper.label, row.state, exc_info=not is_told)
            finished = write_table(call, planned, path)
        findings = [compare_rows(call, planned), spread_of_runs(call, planned)]
        if call.table.lists_clusters:
            findings.append(clusters_by_purity(planned[-1]))
        if call.table.figure is not None:
            findings.append(FIGURES[call.table.figure](call, planned, path.with_suffix(".png")))
        if any(findings):
            finished = write_table(call, planned, path, list(filter(None, findings)))
        if error is not None and not any(row.results for row in run):
            if not isinstance(error, EventformersError):
                raise error
            raise EventformersError(f"every row of {paper} {table} failed; the last one: {error}") from error
        return finished


def _usual_recipe(table: PaperTable, method: Method, data: str | Path | None) -> str:
    """Choose the default recipe: the table's for the config that the data has, or the paper's.

    Raises:
        EventformersError: the data has no config that the table has a recipe for.
    """
    if not table.recipes:
        return method.paper_recipe
    if data is None:
        return table.recipes["samples"]
    error: EventformersError | None = None
    for config, recipe in table.recipes.items():
        if config == "samples":
            continue
        try:
            load_built(data, config, builder=method.dataset[0])
        except DataFormatError:
            raise
        except EventformersError as missing:
            error = missing
            continue
        return recipe
    raise cast(EventformersError, error)


def _choose_seed(method: Method, recipe: str, settings: Sequence[str], seed: int | None, record: Path) -> int:
    """Choose the table's seed: given, last recorded for this recipe, the recipe's, or random."""
    resolved = resolve_recipe(method, recipe, settings, seed)
    if seed is None and not any(setting.partition("=")[0] == "seed" for setting in settings):
        recorded = read_record(record)
        if recorded.get("recipe") == Path(recipe).name and isinstance(recorded.get("seed"), int):
            return cast(int, recorded["seed"])
        if load_recipe(method.name, recipe).seed is None:
            drawn = random.SystemRandom().randrange(2**31)
            logger.warning("no seed was given; using the random seed %d, recorded in %s", drawn, record)
            return drawn
    return cast(int, resolved.seed)


def _plan(call: Reproduction, asked: Collection[str | None]) -> list[ReproducedRow]:
    """Plan the rows, with the splits they are scored on and digests of what decides their outcomes.

    Raises:
        EventformersError: the encoder cannot be loaded, or no row of `asked` has data to train on and to be
            scored on.
    """
    nothing = dict.fromkeys(call.table.columns, ())
    rows = [ReproducedRow(paper_row, nothing) for paper_row in call.table.rows]
    error: EventformersError | None = None
    for row in rows:
        if not row.paper.slug:
            continue
        try:
            plan_row(call, row)
        except EventformersError as failure:
            row.state = failed_state(failure)
            error = failure if row.paper.label in asked else error
        if row.digest:
            row.state = "missing" if row.paper.label in asked else "not asked for"
    if error is not None and not any(row.runs for row in rows if row.paper.label in asked):
        raise error
    return rows
