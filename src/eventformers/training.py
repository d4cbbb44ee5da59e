"""Training from a recipe to a finished model repository with scores and a model card."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from peft import PeftConfig

from eventformers.datasets_scripts.events import EVENTS_TABLE, EXTRACTED_DOCUMENTS
from eventformers.datasets_scripts.loading import without_samples
from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.errors import EventformersError, counted
from eventformers.evaluation.core import evaluate
from eventformers.evaluation.data import ScoredTasks, plan_evaluation
from eventformers.evaluation.results import TaskResult, write_eval_results
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import Task
from eventformers.files import full_disk, output_folder, remove_folder, staged_folder
from eventformers.hub import push
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding.vectors import return_memory
from eventformers.loading.encoders import PACKAGED_ENCODER, resolve_encoder
from eventformers.loading.models import find_device, load_config
from eventformers.markdown import code, duration, number, setting, table
from eventformers.methods import load_method
from eventformers.model_cards import ModelCard, TrainedOn, write_card
from eventformers.model_cards.card import STAGES_SECTION, write_training_record
from eventformers.models.configuration_base import EventConfig
from eventformers.models.sentence_transformers_files import write_sentence_transformers_files
from eventformers.publishing.folders import FILES_OF_A_MODEL
from eventformers.trainers.process_group import is_main_process
from eventformers.trainers.recipes import SECTIONS
from eventformers.trainers.run import TrainingRun, resolve_recipe, save_run, train_head
from eventformers.trainers.stages import (
    RUN_FILE,
    STAGES_FOLDER,
    can_resume,
    recorded_seed,
    stage_recipes,
    write_log,
)

logger = logging.getLogger(__name__)


@dataclass
class FinishedRun:
    """A finished run; with `push_to_hub`, the address of the repository that it was pushed to."""

    folder: Path
    run: TrainingRun
    results: list[TaskResult]
    pushed_to: str | None = None


@takes_malformed
def train(
    method: str,
    output: str | Path,
    *,
    recipe: str | None = None,
    data: str | Path | None = None,
    encoder: str | None = None,
    settings: Sequence[str] = (),
    lora: bool = False,
    peft: str | Path | PeftConfig | None = None,
    resume: bool = False,
    overwrite: bool = False,
    seed: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    evaluation_data: str | Path | None = None,
    tasks: Sequence[str | Task] | None = None,
    create_model_card: bool = True,
    session: Session | None = None,
    malformed: str | None = None,
) -> FinishedRun:
    """Train a method, score it beside its untrained encoder, and write a complete model repository.

    Args:
        method: the `model_type`, such as `swcc`.
        output: folder of the run.
        recipe: name or YAML file of a recipe; None uses the method's default.
        data: folder of raw files, built dataset or Hub id; None uses the bundled samples.
        encoder: Hub id or folder of a pretrained encoder; None uses the packaged all-MiniLM-L6-v2.
        settings: overrides of the recipe, as `key=value`.
        lora: train low-rank adapters; they are saved in `adapter/` and merged into the model.
        peft: configuration of PEFT of other adapters to train instead: a JSON file, or an object.
        resume: continue from the last checkpoint in `output`.
        overwrite: replace the model in `output`.
        seed: seed of the run; None uses the recipe's, or a random one if it has none.
        device: `cpu` or `cuda`; None uses an accelerator if there is one.
        dtype: `bfloat16` or `float16` for mixed precision; None for float32.
        evaluation_data: raw files of the evaluation tasks, or `samples` for the bundled samples; None uses
            the held-out splits of `data`, built with the recipe's settings.
        tasks: evaluation tasks or their names; None uses those of the recipe for which the evaluation data
            has rows.
        create_model_card: write the model card.
        session: holds data that this run shares with other work; None shares nothing.

    Returns:
        The folder, the run and its results. Only rank 0 scores and writes; other processes return
        no results.

    Raises:
        EventformersError: an argument is invalid; the message states what is accepted.
    """
    folder = Path(output)
    data = without_samples(data)
    with _run_folder(folder), Session(session) as own:
        for name in (EVENTS_TABLE, EXTRACTED_DOCUMENTS):
            if (folder / name).exists():
                raise EventformersError(
                    f"{folder} holds extracted events ({name}); accepted: another folder, so that a push of "
                    "the model does not meet your texts"
                )
        if (folder / "config.json").exists() and not (resume or overwrite):
            raise EventformersError(
                f"{folder} already holds a model; choose another folder, or pass --overwrite or --resume"
            )
        if not (resume or overwrite) and can_resume(folder):
            raise EventformersError(
                f"{folder} holds an unfinished run; pass --resume to continue it, or --overwrite to start "
                "again"
            )
        asked_method = load_method(method)
        if resume and seed is None:
            seed = recorded_seed(folder)
        resolved = resolve_recipe(asked_method, recipe, settings, seed)
        encoder_path = resolve_encoder(encoder)
        if encoder is None and resolved.encoder is not None:
            logger.warning(
                "recipe %s is for the encoder %s; training from the packaged %s, since no --encoder is given",
                *(resolved.name, resolved.encoder, PACKAGED_ENCODER),
            )
        if find_device(device).type == "cpu" and device is None and dtype in ("bfloat16", "float16"):
            logger.warning("found no accelerator: training in %s on the CPU, as with --device cpu", dtype)
        scored: list[ScoredTasks] = []
        run = train_head(
            resolved,
            encoder=encoder_path,
            encoder_name=encoder or PACKAGED_ENCODER,
            output=folder,
            data=None if data is None else str(data),
            lora=lora,
            peft=peft,
            resume=resume,
            device=device,
            dtype=dtype,
            # Checked before the training run, but after the training data are accepted.
            on_ready=lambda: scored.append(plan_evaluation(resolved, data, evaluation_data, tasks, own.data)),
        )
        if not run.is_main_process:
            return FinishedRun(folder, run, [])
        if run.truncated:
            logger.warning("%s longer than max_seq_length, truncated", counted(run.truncated, "text"))
        with staged_folder(folder, replaced=FILES_OF_A_MODEL) as staging:
            save_run(run, staging)
            write_sentence_transformers_files(run.model.base_model, staging, run.tokenizer)
            write_log(run.stages, staging)
            write_training_record(_trained_on(run), staging)
            gc.collect()
            return_memory()
            trained = load_encoder(str(staging), device=device)
            results = _score(run, trained, scored[0], folder, encoder, device, staging, own)
            write_eval_results(results, staging)
            if create_model_card:
                card = _card(run, folder.name, encoder or PACKAGED_ENCODER, results)
                write_card(staging, card, earlier=folder)
        finished = FinishedRun(folder, run, results)
        if run.arguments.push_to_hub:
            # The final state, with scores and card.
            asked = run.arguments
            private, revision = bool(asked.hub_private_repo), asked.hub_revision
            pushed = push(folder, str(asked.hub_model_id), private=private, revision=revision)
            finished.pushed_to = pushed.repositories[0].url
        return finished


@contextmanager
def _run_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's folder; a run that fails before its first checkpoint leaves no new folder."""
    existed = folder.exists()
    # Only rank 0 writes.
    with output_folder(folder) if is_main_process() else nullcontext():
        try:
            yield
        except BaseException as error:
            trained = can_resume(folder)
            if is_main_process() and not existed and not trained:
                (folder / RUN_FILE).unlink(missing_ok=True)
                remove_folder(folder / STAGES_FOLDER)
            if full_disk(error) is not None:
                raise EventformersError(
                    f"{folder}: no space left on device; free some and run the command again"
                    f"{', train with --resume' if trained else ''}"
                ) from error
            raise


def _score(
    run: TrainingRun,
    trained: EventEncoder,
    scored: ScoredTasks,
    folder: Path,
    encoder: str | None,
    device: str | None,
    output: Path,
    session: Session,
) -> list[TaskResult]:
    if not scored.tasks:
        return []
    tasks = ", ".join(task.name for task in scored.tasks)
    logger.info("scoring the model and its untrained encoder on %s", tasks)
    trained.name = folder.name
    config = run.model.config
    # A model of ours that was trained further keeps its own way of reading events.
    is_plain = not isinstance(load_config(resolve_encoder(encoder)), EventConfig)
    untrained = load_encoder(
        encoder,
        pooling=config.pooling if is_plain else None,
        event_order=config.event_order if is_plain else None,
        device=device,
    )
    return [
        evaluate(
            trained,
            task,
            data=scored.data,
            output=output,
            baseline=untrained,
            session=session,
            seed=run.seed,
            overwrite=True,
        )
        for task in session.in_turn(scored.tasks)
    ]


def _trained_on(run: TrainingRun) -> TrainedOn | None:
    """Describe the training rows; None without a build report, as for a dataset from elsewhere."""
    return TrainedOn.from_report(run.data, validation_rows=run.validation_rows) if run.data else None


def _card(run: TrainingRun, name: str, encoder: str, results: list[TaskResult]) -> ModelCard:
    recipe, sections = run.recipe, run.chosen
    if len(run.stages) > 1:
        settings = [part.training for part in stage_recipes(recipe)]
        told = ("from_encoder", "start_weight_share")
        of_stages = [
            {key: value for name in SECTIONS for key, value in part.get(name, {}).items() if key not in told}
            for part in recipe.stages
        ]
        rows = [
            [
                code(stage.name),
                "the stage before" if place and not given.get("from_encoder") else "the encoder",
                number(stage.steps),
                duration(stage.seconds),
                number(1 - given.get("start_weight_share", 0.0)),
                "; ".join(f"{key} {setting(value)}" for key, value in own.items()),
            ]
            for place, (stage, given, own) in enumerate(zip(run.stages, settings, of_stages, strict=True))
        ]
        note = "The settings above are of the last stage."
        if any(given.get("from_encoder") for given in settings[1:]):
            note += " The changes of stages that start from the encoder are added, each times its scale."
        columns = ["stage", "starts from", "optimizer steps", "time", "scale of its change", "settings"]
        sections = {STAGES_SECTION: f"{note}\n\n{table(columns, rows)}", **sections}
    statistics = run.data.get("statistics", {})
    # The statistics of several splits are nested under their names.
    languages = statistics.get("train", statistics).get("languages") or ["en"]
    return ModelCard(
        name=name,
        method=run.method.name,
        config=run.model.config.to_dict(),
        language=languages[0] if len(languages) == 1 else languages,
        base_model=encoder,
        trained_on=_trained_on(run),
        recipe=recipe.name,
        recipe_description=recipe.description,
        changed_settings=recipe.changed,
        views=recipe.views,
        training_arguments=run.arguments.to_dict(),
        seed=run.seed,
        adapters=run.adapter_kind,
        steps=run.steps,
        seconds=None if run.resumed else run.seconds,
        truncated=run.truncated,
        history=run.history,
        results=results,
        results_note=recipe.note,
        sections=sections,
        parameters=sum(parameter.numel() for parameter in run.model.base_model.parameters()),
    )
