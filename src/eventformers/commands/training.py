"""The commands that train, and that make the tables and figures of papers. They only call the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from eventformers.commands import options
from eventformers.commands.evaluation import show_results
from eventformers.commands.explore import show_exploration
from eventformers.commands.options import console
from eventformers.errors import EventformersError
from eventformers.terminal import counts_text

if TYPE_CHECKING:
    from eventformers.training import FinishedRun


def demo(
    method: Annotated[
        str | None, typer.Argument(help="A method, or explore. Default: the first method.")
    ] = None,
    output: options.Output = Path("eventformers-demo"),
    encoder: options.Encoder = None,
    device: options.Device = None,
) -> None:
    """Train, evaluate, save and reload a model on the bundled samples, or explore sample texts."""
    from eventformers.commands.demo import EXPLORE, explore_samples, run_demo

    if method == EXPLORE:
        show_exploration(explore_samples(output, encoder=encoder, device=device))
        return
    finished = run_demo(method, output, encoder=encoder, device=device)
    _show_run(finished.run)
    console.print("\nReloaded with AutoModel.from_pretrained; nearest neighbours among the samples:")
    table = Table(finished.showing.query, finished.showing.nearest, "cosine")
    for query, nearest, cosine in finished.neighbours:
        table.add_row(query, nearest, f"{cosine:.2f}")
    console.print(table)
    console.print("The samples are small and made for this demo: their scores are not a benchmark.")


def train(
    method: Annotated[str, typer.Argument(help="The method, by its `model_type`.")],
    output: options.Output,
    recipe: Annotated[str | None, typer.Option(help="Name of a recipe, or a YAML file.")] = None,
    data: options.RawData = None,
    malformed: options.Malformed = "error",
    evaluation_data: options.EvaluationData = None,
    encoder: options.Encoder = None,
    settings: options.Settings = None,
    exclude_source: options.ExcludeSource = None,
    lora: Annotated[bool, typer.Option("--lora", help="Train low-rank adapters.")] = False,
    peft: Annotated[
        Path | None, typer.Option(help="Train other adapters: a JSON file with a configuration of PEFT.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint.")] = False,
    overwrite: options.Overwrite = False,
    seed: options.Seed = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    card: Annotated[bool, typer.Option(help="Write the model card.")] = True,
) -> None:
    """Train a method, score the model, and write a complete model repository."""
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
        peft=peft,
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


def _show_run(finished: FinishedRun) -> None:
    run = finished.run
    console.print(
        f"Trained {run.method.title} with recipe {run.recipe.name}, seed {run.seed}: "
        f"{counts_text({'step': run.steps})} in {run.seconds:.0f} s."
    )
    if finished.results:
        show_results(finished.results)
    console.print(
        f"Wrote {finished.folder}. Load it with AutoModel.from_pretrained({str(finished.folder)!r})."
    )
    if finished.pushed_to is not None:
        console.print(f"Pushed to {finished.pushed_to}.")


def reproduce(
    paper: Annotated[str, typer.Argument(help="Name of the paper; an unknown one lists all.")],
    table: Annotated[str, typer.Argument(help="The table, such as table2.")],
    output: options.Output = Path("reproductions"),
    recipe: Annotated[
        str | None, typer.Option(help="Recipe that the rows start from. Default: the paper's.")
    ] = None,
    data: options.RawData = None,
    malformed: options.Malformed = "error",
    evaluation_data: Annotated[
        str | None,
        typer.Option(help="Raw files of the evaluation tasks. Default: the bundled samples."),
    ] = None,
    encoder: options.Encoder = None,
    settings: options.Settings = None,
    seed: options.Seed = None,
    runs: Annotated[
        int | None,
        typer.Option(help="Number of runs of each row, with consecutive seeds. Default: the table's."),
    ] = None,
    rows: Annotated[
        list[str] | None, typer.Option("--row", help="Row to run, by its name. Default: all. Repeatable.")
    ] = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
) -> None:
    """Reproduce a table of a paper, reusing finished rows."""
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
        rows=rows or (),
    )
    shown = Table(*finished.header, title=finished.title)
    for row in finished.rows:
        shown.add_row(*row)
    console.print(shown)
    console.print(f"Wrote {finished.path}.")


def plot(
    run: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG or SVG file to write.")],
    data: options.RawData = None,
    malformed: options.Malformed = "error",
    events: Annotated[int, typer.Option(help="Number of events to draw.")] = 3000,
    training: Annotated[
        bool,
        typer.Option("--training", help="Draw the losses and accuracies of a training run with stages."),
    ] = False,
    pca: Annotated[
        bool, typer.Option("--pca", help="Place events by principal components instead of t-SNE.")
    ] = False,
    beside: Annotated[
        Path | None, typer.Option(help="Another model, which places the same events in a second panel.")
    ] = None,
    mentions: Annotated[
        bool,
        typer.Option(
            "--mentions", help="Draw mentions of unseen types in --data by a model of event type induction."
        ),
    ] = False,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Type of mentions to draw. Default: all. Repeatable.")
    ] = None,
    device: options.Device = None,
) -> None:
    """Draw a model's events or mentions in two dimensions with names of their groups, or a training run."""
    if run.is_file():
        raise EventformersError(f"{run}: a file; accepted: the folder of a model as RUN, and data as --data")
    if mentions:
        from eventformers.plots.events import plot_mentions

        plot_mentions(run, output, data=data, types=types or (), device=device, malformed=malformed)
    elif training:
        from eventformers.plots.figures import plot_chain_training

        plot_chain_training(run, output, data=data, malformed=malformed)
    else:
        from eventformers.plots.events import plot_events

        groups = plot_events(
            run,
            output,
            data=data,
            num_events=events,
            by="pca" if pca else "tsne",
            beside=beside,
            device=device,
            malformed=malformed,
        )
        table = Table("group", "events", "nearest events")
        for group in groups:
            table.add_row(group.name, str(group.size), "; ".join(group.nearest))
        console.print(table)
    console.print(f"Wrote {output} and {output.with_suffix('.md')}.", soft_wrap=True)
