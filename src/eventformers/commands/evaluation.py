"""The commands that score models and compare scores. They only call the Python API."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from eventformers.commands import options
from eventformers.commands.options import batch_size_of, console, errors, print_json, take_model
from eventformers.errors import EventformersError, counted, shown

if TYPE_CHECKING:
    from eventformers.evaluation.results import TaskResult


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
