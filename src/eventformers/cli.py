"""The commands. They only call the Python API; heavy imports run inside the commands."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from eventformers import __version__
from eventformers.commands.chains import add_commands as add_chain_commands
from eventformers.commands.embedding import add_commands as add_embedding_commands
from eventformers.commands.grounding import add_commands as add_grounding_commands
from eventformers.commands.hub import add_commands as add_hub_commands
from eventformers.commands.induction import add_commands as add_induction_commands
from eventformers.commands.leaderboard import add_commands as add_leaderboard_commands
from eventformers.commands.options import (
    BatchSize,
    Device,
    Dtype,
    Encoder,
    EvaluationData,
    ExcludeSource,
    Malformed,
    Output,
    Overwrite,
    RawData,
    Rerank,
    Seed,
    Settings,
    batch_size_of,
    console,
    counts_text,
    errors,
)
from eventformers.terminal import describe_fault, one_line, quiet_libraries
from eventformers.trainers.process_group import leaving_process_group

if TYPE_CHECKING:
    from eventformers.evaluation.results import TaskResult
    from eventformers.training import FinishedRun

app = typer.Typer(
    help="Event representation learning: train, evaluate, embed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
data_app = typer.Typer(help="Build datasets from raw files and publish them.", no_args_is_help=True)
app.add_typer(data_app, name="data")
add_embedding_commands(app)
add_chain_commands(app)
add_induction_commands(app)
add_grounding_commands(app)
add_leaderboard_commands(app)
add_hub_commands(app, data_app)
INTERRUPTED = 130


def _show_version(wanted: bool) -> None:
    if wanted:
        console.print(f"eventformers {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Event representation learning: train, evaluate, embed."""


@app.command()
def demo(
    method: Annotated[str | None, typer.Argument(help="The method; without it the first one.")] = None,
    output: Output = Path("eventformers-demo"),
    encoder: Encoder = None,
    device: Device = None,
) -> None:
    """Train, evaluate, save and reload a model on the bundled samples."""
    from eventformers.commands.demo import run_demo

    finished = run_demo(method, output, encoder=encoder, device=device)
    _show_run(finished.run)
    console.print("\nReloaded with AutoModel.from_pretrained; what is nearest among the samples:")
    table = Table(finished.showing.query, finished.showing.nearest, "cosine")
    for query, nearest, cosine in finished.neighbours:
        table.add_row(query, nearest, f"{cosine:.2f}")
    console.print(table)
    console.print("The samples are small and ours: these scores are no benchmark.")


@data_app.command("list")
def data_list() -> None:
    """List the datasets that can be built, their configs, columns and raw files."""
    from eventformers.datasets_scripts import list_datasets

    table = Table("name", "config", "columns", "raw files")
    for entry in list_datasets():
        table.add_row(entry["name"], entry["config"], ", ".join(entry["columns"]), entry["raw_files"])
    console.print(table)


@data_app.command("build")
def data_build(
    name: Annotated[str, typer.Argument(help="A name that `eventformers data list` shows.")],
    output: Output,
    config: Annotated[str | None, typer.Option(help="Config to build. Default: all.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Folder of raw files. Default: the samples.")] = None,
    malformed: Malformed = "error",
    settings: Settings = None,
    exclude_source: ExcludeSource = None,
) -> None:
    """Build a dataset as Parquet files with a README, readable by `load_dataset`."""
    from eventformers.datasets_scripts import build_reports
    from eventformers.publishing.dataset_building import build_dataset
    from eventformers.trainers.recipes import read_settings

    chosen = {"malformed": malformed, **read_settings(settings or [])}
    if exclude_source:
        chosen["exclude_source"] = tuple(exclude_source)
    folder = build_dataset(name, config, data_dir, output, **chosen)
    table = Table("config", "rows", "read", "skipped", "licences")
    reports: Mapping[str, Mapping[str, Any]] = build_reports(folder)
    for config_name, report in reports.items():
        table.add_row(
            config_name,
            str(report["rows"]),
            counts_text(report["read"]),
            counts_text(report["skipped"]),
            ", ".join(report["licenses"]),
        )
    console.print(table)
    console.print(f"Wrote {folder}. Load it with load_dataset({str(folder)!r}, CONFIG).")


@app.command()
def train(
    method: Annotated[str, typer.Argument(help="The method, by its `model_type`.")],
    output: Output,
    recipe: Annotated[str | None, typer.Option(help="Name of a recipe, or a YAML file.")] = None,
    data: RawData = None,
    malformed: Malformed = "error",
    evaluation_data: EvaluationData = None,
    encoder: Encoder = None,
    settings: Settings = None,
    exclude_source: ExcludeSource = None,
    lora: Annotated[bool, typer.Option("--lora", help="Train low-rank adapters.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint.")] = False,
    overwrite: Overwrite = False,
    seed: Seed = None,
    device: Device = None,
    dtype: Dtype = None,
    card: Annotated[bool, typer.Option(help="Write the model card.")] = True,
) -> None:
    """Train a method, score it, and write a complete model repository."""
    from eventformers.training import train as run_training

    overrides = list(settings or [])
    if exclude_source:
        overrides.append(f"data.exclude_source={','.join(exclude_source)}")
    finished = run_training(
        method,
        output,
        recipe=recipe,
        data=data,
        encoder=encoder,
        settings=overrides,
        lora=lora,
        resume=resume,
        overwrite=overwrite,
        seed=seed,
        device=device,
        dtype=dtype,
        evaluation_data=evaluation_data,
        create_model_card=card,
        malformed=malformed,
    )
    if finished.run.is_main_process:
        _show_run(finished)


@app.command()
def evaluate(
    model: Annotated[str, typer.Argument(help="Folder or Hub id of a model, or of any plain encoder.")],
    task: Annotated[
        list[str], typer.Option("--task", help="Task, or all tasks that the data have rows for. Repeatable.")
    ],
    data: RawData = None,
    malformed: Malformed = "error",
    split: Annotated[
        str | None, typer.Option(help="Split to score. Default: test, or else validation.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write results/ to.")
    ] = None,
    pooling: Annotated[str | None, typer.Option(help="Pooling of a plain encoder: cls or mean.")] = None,
    event_order: Annotated[str | None, typer.Option(help="Order of the roles, for a plain encoder.")] = None,
    device: Device = None,
    dtype: Dtype = None,
    batch_size: BatchSize = "auto",
    rerank: Rerank = False,
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
            "retrieved, num_layers; clusters: distance, manifold, method, num_clusters, trigger_input, "
            "clusters, valid_frames; linking: task, domain, hierarchies_only, reranker, retriever_weight, "
            "candidates, threshold, depth. Repeatable.",
        ),
    ] = None,
    clustered_by: Annotated[
        list[str] | None,
        typer.Option(help="Run of an ensemble that clusters mentions by its mean distances. Repeatable."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Score a model on tasks, beside its untrained encoder."""
    from eventformers.evaluation.core import evaluate as run_evaluation
    from eventformers.evaluation.data import tasks_of_data
    from eventformers.evaluation.session import Session
    from eventformers.evaluation.tasks import TASKS, check_settings
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
    with Session() as session:
        names = tasks_of_data(data, store=session.data, malformed=malformed) if task == ["all"] else task
        if task == ["all"] and (missing := [name for name in TASKS if name not in names]):
            console.print(f"Left out, without rows in the data: {', '.join(missing)}.")
        results = [
            run_evaluation(
                model,
                name,
                data=data,
                split=split,
                settings=asked,
                output=output,
                session=session,
                device=device,
                dtype=dtype,
                batch_size=batch_size_of(batch_size),
                overwrite=overwrite,
                malformed=malformed,
            )
            for name in names
        ]
    _show_results(results)


@app.command()
def complete(
    model: Annotated[str, typer.Argument(help="Folder or Hub id of a model, or of any plain encoder.")],
    query: Annotated[
        str, typer.Argument(help="'head, relation', 'tail, ~relation' for the other direction, or free text.")
    ],
    data: RawData = None,
    malformed: Malformed = "error",
    config: Annotated[
        str | None, typer.Option(help="The graph: conceptnet or atomic, or either with _inductive.")
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(help="Folder of the index, built if absent. Default: in the cache."),
    ] = None,
    relation: Annotated[str | None, typer.Option(help="The relation, if QUERY is only the head.")] = None,
    templates: Annotated[
        Path | None, typer.Option(help="YAML file with templates of more relations.")
    ] = None,
    split: Annotated[
        list[str] | None, typer.Option("--split", help="Split to search. Default: all. Repeatable.")
    ] = None,
    top: Annotated[int, typer.Option(help="Number of alternatives to show.")] = 10,
    explain: Annotated[int, typer.Option(help="Number of nearest known premises to show.")] = 3,
    rerank: Annotated[
        bool | None,
        typer.Option(
            "--rerank/--no-rerank",
            help="Let the nearest known premises vote. Default: only for ConceptNet.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = None,
    dtype: Dtype = None,
    batch_size: BatchSize = "auto",
    overwrite: Overwrite = False,
) -> None:
    """Complete a head and a relation, or answer a question, with the nearest alternatives of a graph."""
    import json

    from eventformers.inference.commonsense.complete import complete as run_completion

    found = run_completion(
        model,
        query,
        data=data,
        config=config,
        index=index,
        relation=relation,
        templates=templates,
        splits=split,
        top=top,
        explain=explain,
        rerank=rerank,
        batch_size=batch_size_of(batch_size),
        device=device,
        dtype=dtype,
        overwrite=overwrite,
        show_progress=True,
        malformed=malformed,
    )
    if as_json:
        console.print(
            json.dumps(found.to_dict(), ensure_ascii=False), soft_wrap=True, markup=False, highlight=False
        )
        return
    table = Table("alternative", "score", "known", title=Text(found.query.text))
    for alternative in found.alternatives:
        table.add_row(Text(alternative.text), f"{alternative.score:.3f}", "yes" if alternative.known else "")
    console.print(table)
    if found.explanation:
        nearest = Table("nearest known premise", "cosine", "its alternatives")
        for premise in found.explanation:
            more = premise.number - len(premise.alternatives)
            told = "; ".join(premise.alternatives) + (f"; {more} more" if more else "")
            nearest.add_row(Text(premise.text), f"{premise.cosine:.3f}", Text(told))
        console.print(nearest)


@app.command()
def plot(
    run: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG or SVG file to write.")],
    data: RawData = None,
    malformed: Malformed = "error",
    events: Annotated[int, typer.Option(help="Number of events to draw.")] = 3000,
    device: Device = None,
) -> None:
    """Draw a model's events by prototype, or the losses and accuracies of a training run with stages."""
    from eventformers.plots.chains import plot_chain_training, reads_chains
    from eventformers.plots.prototypes import plot_prototypes

    if reads_chains(run):
        plot_chain_training(run, output, data=data, malformed=malformed)
        console.print(f"Wrote {output} and {output.with_suffix('.md')}.")
        return
    prototypes = plot_prototypes(
        run, output, data=data, num_events=events, device=device, malformed=malformed
    )
    table = Table("prototype", "events", "nearest events")
    for prototype in prototypes:
        table.add_row(str(prototype.index), str(prototype.size), "; ".join(prototype.nearest))
    console.print(table)
    console.print(f"Wrote {output} and {output.with_suffix('.md')}.")


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="Name of the paper; an unknown one lists all.")],
    table: Annotated[str, typer.Argument(help="The table, such as table2.")],
    output: Output = Path("reproductions"),
    recipe: Annotated[
        str | None, typer.Option(help="Recipe that the rows start from. Default: the paper's.")
    ] = None,
    data: RawData = None,
    malformed: Malformed = "error",
    evaluation_data: Annotated[
        str | None,
        typer.Option(help="Raw files of the evaluation tasks. Default: the bundled samples."),
    ] = None,
    encoder: Encoder = None,
    settings: Settings = None,
    seed: Seed = None,
    runs: Annotated[
        int | None, typer.Option(help="Number of runs of a mean or an ensemble. Default: the paper's.")
    ] = None,
    device: Device = None,
    dtype: Dtype = None,
) -> None:
    """Reproduce a table of a paper; finished rows are read from their results."""
    from eventformers.reproduction.planner import reproduce_table

    finished = reproduce_table(
        paper,
        table,
        output,
        recipe=recipe,
        data=data,
        evaluation_data=evaluation_data,
        encoder=encoder,
        settings=settings or [],
        seed=seed,
        runs=runs,
        device=device,
        dtype=dtype,
        malformed=malformed,
    )
    shown = Table(*finished.header, title=finished.title)
    for row in finished.rows:
        shown.add_row(*row)
    console.print(shown)
    console.print(f"Wrote {finished.path}.")


def _show_run(finished: FinishedRun) -> None:
    run = finished.run
    console.print(
        f"Trained {run.method.title} with recipe {run.recipe.name}, seed {run.seed}: "
        f"{run.steps} steps in {run.seconds:.0f} s."
    )
    if finished.results:
        _show_results(finished.results)
    console.print(
        f"Wrote {finished.folder}. Load it with AutoModel.from_pretrained({str(finished.folder)!r})."
    )
    if finished.pushed_to is not None:
        console.print(f"Pushed to {finished.pushed_to}.")


def _show_results(results: Iterable[TaskResult]) -> None:
    from eventformers.evaluation.tasks import TASKS
    from eventformers.model_cards.scores import score_text

    # A name that is cut cannot be asked for.
    # Within 80 columns, the narrow padding leaves room for every name.
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


@leaving_process_group()
def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's error is one line on standard error and exit code 2.

    Args:
        arguments: arguments after the program's name; None uses those of the command line.
    """
    quiet_libraries()
    try:
        # In standalone mode a wrong argument prints a box of several lines, and Ctrl-C prints nothing.
        code = app(arguments, prog_name="eventformers", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        message = _usage_fault(error) if hasattr(error, "format_message") else describe_fault(error)
        if message is None:
            raise
        if message:
            errors.print(f"error: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    if code == INTERRUPTED:
        errors.print("interrupted; train and extract go on where they stopped with --resume", highlight=False)
    sys.exit(code if isinstance(code, int) else 0)


def _usage_fault(error: Exception) -> str:
    """Describe a wrong command line in one line; empty if the help was shown for an empty command line."""
    message = one_line(str(error.format_message()))  # type: ignore[attr-defined]
    path = getattr(getattr(error, "ctx", None), "command_path", "eventformers")
    return f"{message.rstrip('.')}; see {path} --help" if message else ""


if __name__ == "__main__":
    main()
