"""The commands that score models and compare scores. They only call the Python API."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from eventformers.commands import options
from eventformers.commands.options import Overwrite, batch_size_of, console, errors, print_json, take_model
from eventformers.errors import EventformersError, counted, shown
from eventformers.terminal import visible_json

if TYPE_CHECKING:
    from eventformers.evaluation.results import TaskResult
    from eventformers.leaderboard.board import Board


def evaluate(
    task: Annotated[
        list[str], typer.Option("--task", help="Task, or all tasks that the data have rows for. Repeatable.")
    ],
    word: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="The model, if not given by --model.")
    ] = None,
    model: options.Model = None,
    data: options.RawData = None,
    malformed: options.Malformed = "error",
    split: Annotated[
        str | None, typer.Option(help="Split to score. Default: test, or else validation.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write results/ to.")
    ] = None,
    pooling: Annotated[
        str | None, typer.Option(help="Pooling of a plain encoder: cls, mean or lasttoken.")
    ] = None,
    event_order: Annotated[str | None, typer.Option(help="Order of the roles, for a plain encoder.")] = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_size: options.BatchSize = "auto",
    rerank: options.Rerank = False,
    virtual_context: Annotated[
        str | None,
        typer.Option(help="Chains in which a model of chains reads the events of a similarity task."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a setting of the task. Chains: aggregation, sky, compat; virtual contexts: "
            "retrieved, num_layers; clusters: distance, manifold, rho, method, num_clusters, trigger_input, "
            "weighting_rounds, clusters, valid_frames; linking: task, domain, hierarchies_only, reranker, "
            "retriever_weight, candidates, threshold, depth; coreference: topics, pair_scorer, threshold, "
            "trigger_input. Repeatable.",
        ),
    ] = None,
    clustered_by: Annotated[
        list[str] | None,
        typer.Option(help="Run of an ensemble that clusters mentions by its mean distances. Repeatable."),
    ] = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Score a model on tasks, beside its untrained encoder."""
    from eventformers.evaluation.core import evaluate as run_evaluation
    from eventformers.evaluation.data import tasks_of_data
    from eventformers.evaluation.session import Session
    from eventformers.evaluation.tasks import TASKS, check_settings, settings_used
    from eventformers.trainers.recipes import read_settings

    asked = {
        **read_settings(settings or []),
        **({"pooling": pooling} if pooling else {}),
        **({"event_order": event_order} if event_order else {}),
        **({"rerank": True} if rerank else {}),
        **({"virtual_context": virtual_context} if virtual_context is not None else {}),
        **({"clustered_by": clustered_by} if clustered_by else {}),
    }
    check_settings(asked)
    if word and model:
        raise EventformersError(f"received MODEL {shown(word)} and --model {shown(model)}; accepted: one")
    chosen, _ = take_model(model, [word] if word else [], first_is_model=True)
    with Session() as session:
        chosen_settings = dict.fromkeys(task, asked)
        if task == ["all"]:
            names = tasks_of_data(data, store=session.data, malformed=malformed)
            chosen_settings = {name: settings_used(TASKS[name], asked) for name in names}
            if unused := set(asked).difference(*chosen_settings.values()):
                raise EventformersError(
                    f"{', '.join(sorted(unused))}: no task with rows in the data uses this; found "
                    f"{', '.join(names)}"
                )
            if missing := [name for name in TASKS if name not in names]:
                errors.print(f"Left out, without rows in the data: {', '.join(missing)}.", soft_wrap=True)
        results = [
            run_evaluation(
                chosen,
                name,
                data=data,
                split=split,
                settings=of_task,
                output=output,
                session=session,
                device=device,
                dtype=dtype,
                batch_size=batch_size_of(batch_size),
                overwrite=overwrite,
                malformed=malformed,
            )
            for name, of_task in chosen_settings.items()
        ]
    if as_json:
        # The predictions are in the files of --output.
        print_json([asdict(replace(result, predictions=[])) for result in results])
    else:
        show_results(results)


def compare(
    first: Annotated[
        Path,
        typer.Argument(
            metavar="FIRST", help="Result file of the model to test as better, or folder with its results/."
        ),
    ],
    second: Annotated[
        Path, typer.Argument(metavar="SECOND", help="Result file of the other model, or its folder.")
    ],
    data: Annotated[
        str | None,
        typer.Option(help="Data of both results: resample whole documents or gold events, not questions."),
    ] = None,
    malformed: options.Malformed = "error",
    resamples: Annotated[int, typer.Option(help="Number of bootstrap resamples.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the resamples.")] = 0,
) -> None:
    """Compare two results on the same rows, or those of two folders, by the paired bootstrap."""
    from eventformers.evaluation.results import result_pairs
    from eventformers.evaluation.significance import compare_results, row_clusters

    for results in result_pairs(first, second):
        clusters = None if data is None else row_clusters(results[0], data, malformed=malformed)
        compared = compare_results(*results, num_resamples=resamples, seed=seed, clusters=clusters)
        models = f"{results[0].model} - {results[1].model} on {results[0].task}"
        digits = 2 if compared.unit == "points" else 3
        console.print(
            f"{models}: {compared.difference:+.{digits}f} {compared.unit}, 95 % interval "
            f"{compared.low:+.{digits}f} to {compared.high:+.{digits}f}, one-sided "
            f"p = {compared.p_value:.4f} ({counted(compared.questions, 'question')}, "
            f"{counted(compared.resamples, 'resample')} of {counted(compared.clusters, 'cluster')})",
            highlight=False,
            soft_wrap=True,
        )


def show_results(results: Iterable[TaskResult]) -> None:
    """Print a table with one row for each result."""
    from eventformers.evaluation.tasks import TASKS
    from eventformers.model_cards.scores import score_text

    # Users copy task names, so the names must not be truncated; narrow padding fits them into 80 columns.
    names = [Column(name, no_wrap=True) for name in ("task", "score", "model", "untrained", "published")]
    table = Table(*names, "rows", pad_edge=False, collapse_padding=True)
    for result in results:
        task = TASKS[result.task]
        scored = result.dataset
        published = task.published_scores_on(scored.split, scored.rows, scored.origin)
        best = "-"
        if published:
            best = score_text(max(published.values()), result.main_score, published=True)
        table.add_row(
            result.task,
            result.main_score,
            score_text(result.main_value, result.main_score),
            score_text(result.baseline.main_value, result.main_score) if result.baseline else "-",
            best,
            f"{result.dataset.rows} {result.dataset.split} ({result.dataset.origin})",
        )
    console.print(table)


def leaderboard(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DIR]...",
            help="Folders of runs and evaluations, or copies of model repositories. Default: this folder, if "
            "no repository is given.",
        ),
    ] = None,
    repo: Annotated[
        list[str] | None, typer.Option(help="Model repository on the Hub, ORG/NAME. Repeatable.")
    ] = None,
    author: Annotated[
        str | None, typer.Option(help="User or organization on the Hub: all its model repositories.")
    ] = None,
    collection: Annotated[
        str | None, typer.Option(help="Collection on the Hub: all its model repositories.")
    ] = None,
    task: Annotated[list[str] | None, typer.Option(help="Task to show. Repeatable.")] = None,
    sort: Annotated[
        str | None, typer.Option(help="Order of the rows: a task, model, parameters or speed.")
    ] = None,
    fingerprint: Annotated[
        list[str] | None,
        typer.Option(help="First digits of the fingerprint of the data to show. Repeatable."),
    ] = None,
    dataset_revision: Annotated[
        list[str] | None,
        typer.Option(help="First digits of the commit of the dataset to show. Repeatable."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write an HTML page with sorting and filters; - prints it.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write Markdown; - prints it.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compare results of models, baselines and published scores on the same data."""
    from eventformers.errors import EventformersError
    from eventformers.files import is_standard_output, output_file
    from eventformers.leaderboard.board import leaderboard as read_leaderboard
    from eventformers.leaderboard.page import close_note, leaderboard_page, to_json, write_page
    from eventformers.leaderboard.page import markdown as markdown_of

    outputs = [path for path in (html, markdown) if path is not None]
    printed = [path for path in outputs if is_standard_output(path)]
    if len(printed) + json > 1:
        raise EventformersError("--html -, --markdown - and --json exclude each other; accepted: one of them")
    for path in outputs:
        if path not in printed:
            output_file(path)
    given = folders or ([] if repo or author or collection else [Path()])
    with errors.status("reading"):
        found = read_leaderboard(
            given,
            repositories=repo or [],
            author=author,
            collection=collection,
            tasks=task or [],
            fingerprints=fingerprint or [],
            dataset_revisions=dataset_revision or [],
            sort=sort,
        )
    written = []
    if html is not None:
        written.append(write_page(leaderboard_page(found, html.parent), html))
    if markdown is not None:
        written.append(write_page(markdown_of(found), markdown))
    if printed:
        return
    if json:
        typer.echo(visible_json(to_json(found)), nl=False)
        return
    for board in found.boards:
        console.print(_table(board))
    if note := close_note(found):
        console.print(note, soft_wrap=True)
    for sentence in found.left_out:
        console.print(sentence, soft_wrap=True)
    if written:
        console.print(f"Wrote {', '.join(map(str, written))}.", soft_wrap=True)


def result_add(
    task: Annotated[str, typer.Option(help="Task of the score.")],
    score: Annotated[
        float, typer.Option(help="Main score of the task: percent, 0 to 100; a correlation, -1 to 1.")
    ],
    model: Annotated[str, typer.Option(help="Name of the model or system.")],
    source: Annotated[str, typer.Option(help="Where it is published: a citation or an address.")],
    split: Annotated[str | None, typer.Option(help="Split of the score. Default: the task's own.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder that the leaderboard reads; default: this folder.")
    ] = Path(),
    overwrite: Overwrite = False,
) -> None:
    """Add a score of a paper to the leaderboard, apart from measured ones."""
    from eventformers.leaderboard.sources import add_published

    path = add_published(
        output, task=task, score=score, model=model, source=source, split=split, overwrite=overwrite
    )
    console.print(f"Wrote {path}; eventformers leaderboard {output} shows it.", soft_wrap=True)


def _table(board: Board) -> Table:
    from eventformers.leaderboard.board import KINDS
    from eventformers.leaderboard.page import (
        HEADINGS,
        cell_text,
        column_facts,
        count_text,
        rank_text,
        speed_text,
    )

    # The task's name instead of its title, since --task takes the name.
    titles = [Column(f"{column.task}\n{column_facts(column)}", justify="right") for column in board.columns]
    # Empty columns would waste space.
    has_variant = any(row.variant for row in board.rows)
    has_parameters = any(row.parameters for row in board.rows)
    shown = Table(
        Column("", justify="right"),
        Column("model", overflow="fold"),
        *(["variant"] if has_variant else []),
        Column("runs", justify="right"),
        *titles,
        *([Column("parameters", justify="right")] if has_parameters else []),
        Column("texts/s", justify="right"),
        title=board.title,
        title_justify="left",
    )
    for kind in KINDS:
        rows = [row for row in board.rows if row.kind == kind]
        if not rows:
            continue
        if kind != "model":
            shown.add_row("", Text(HEADINGS[kind], style="italic"), end_section=False)
        for row in rows:
            shown.add_row(
                rank_text(board, row),
                row.model,
                *([row.variant] if has_variant else []),
                str(row.runs or ""),
                *(
                    cell_text(cell, row, column)
                    for cell, column in zip(row.cells, board.columns, strict=True)
                ),
                *([count_text(row.parameters)] if has_parameters else []),
                speed_text(row),
            )
        shown.add_section()
    return shown
