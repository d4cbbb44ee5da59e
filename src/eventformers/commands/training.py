"""The commands that train. They only call the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from eventformers.commands import options
from eventformers.commands.evaluation import show_results
from eventformers.commands.explore import show_exploration
from eventformers.commands.options import console
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
