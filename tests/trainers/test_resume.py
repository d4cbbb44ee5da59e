"""Resuming runs, from whole and damaged checkpoints."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from short_runs import short_run

from eventformers.errors import EventformersError
from eventformers.files import remove_folder
from eventformers.trainers.recipes import Recipe
from eventformers.trainers.run import TrainingRun, save_run
from eventformers.trainers.stages import RUN_FILE, check_resume, plan_stages, read_state
from eventformers.training import train

SETTINGS = [
    "max_steps=2",
    "save_steps=1",
    "per_device_train_batch_size=4",
    "shared_word_weight=0",
]


def run(
    output: Path, encoder: Path, *settings: str, steps: int = 2, resume: bool = False, lora: bool = False
) -> TrainingRun:
    output.mkdir(exist_ok=True)
    name = "tiny" if "without" not in str(encoder) else "other"
    chosen, options = (*SETTINGS, f"max_steps={steps}", *settings), {"lora": lora, "resume": resume}
    return short_run("swcc", encoder, output, *chosen, encoder_name=name, **options)


@pytest.fixture(scope="module")
def finished(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingRun]:
    output = tmp_path_factory.mktemp("resume") / "run"
    result = run(output, tiny_encoder)
    save_run(result, output)
    return output, result


def test_resume_of_a_finished_run_adds_no_step(
    finished: tuple[Path, TrainingRun], tiny_encoder: Path
) -> None:
    output, first = finished
    again = run(output, tiny_encoder, resume=True)
    assert again.steps == first.steps == 2
    assert not (output / "checkpoint-3").exists()
    for name, value in first.model.state_dict().items():
        torch.testing.assert_close(again.model.state_dict()[name], value, rtol=0, atol=0, msg=name)


def test_a_run_that_cannot_start_keeps_the_checkpoints_of_the_earlier_one(
    finished: tuple[Path, TrainingRun], tiny_encoder: Path
) -> None:
    output, _ = finished
    with pytest.raises(EventformersError, match="frozen_modules"):
        run(output, tiny_encoder, 'frozen_modules=["nothing"]')
    assert (output / "checkpoint-2").is_dir()


def test_resume_with_another_encoder_or_adapters(
    finished: tuple[Path, TrainingRun], tiny_encoder: Path, tiny_encoder_without_dropout: Path
) -> None:
    output, _ = finished
    with pytest.raises(EventformersError, match="has other settings: encoder"):
        run(output, tiny_encoder_without_dropout, resume=True)
    with pytest.raises(EventformersError, match="has other settings: lora"):
        run(output, tiny_encoder, resume=True, lora=True)


def test_a_new_run_leaves_no_earlier_checkpoint(tiny_encoder: Path, tmp_path: Path) -> None:
    run(tmp_path / "run", tiny_encoder, steps=2)
    run(tmp_path / "run", tiny_encoder, steps=1)
    assert [path.name for path in (tmp_path / "run").glob("checkpoint-*")] == ["checkpoint-1"]


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("learning_rate=0.5", "training.learning_rate"),
        ("weight_decay=0.5", "training.weight_decay"),
        ("optim=sgd", "training.optim"),
        ("max_steps=5", "training.max_steps"),
        ("dataloader_drop_last=false", "training.dataloader_drop_last"),
        ("per_device_train_batch_size=3", "training.per_device_train_batch_size"),
        ("gradient_accumulation_steps=2", "training.gradient_accumulation_steps"),
    ],
)
def test_a_resume_with_other_training_settings_is_refused(
    finished: tuple[Path, TrainingRun], tiny_encoder: Path, setting: str, named: str
) -> None:
    with pytest.raises(EventformersError, match=rf"has other settings: {named};"):
        run(finished[0], tiny_encoder, setting, resume=True)


def test_what_does_not_change_the_weights_may_change_at_a_resume(
    finished: tuple[Path, TrainingRun], tiny_encoder: Path
) -> None:
    assert run(finished[0], tiny_encoder, "logging_steps=1", "save_total_limit=1", resume=True).steps == 2


def test_a_resume_applies_the_intervals_it_accepts(tiny_encoder: Path, tmp_path: Path) -> None:
    run(tmp_path, tiny_encoder, "save_steps=2", "logging_steps=4", steps=4)
    remove_folder(tmp_path / "checkpoint-4")
    run(tmp_path, tiny_encoder, "save_steps=1", "logging_steps=1", steps=4, resume=True)
    assert (tmp_path / "checkpoint-3").is_dir()
    logged = read_state(tmp_path / "checkpoint-4").log_history
    assert [line["step"] for line in logged if "loss" in line] == [3, 4]


def test_a_resume_in_another_dtype_is_refused(finished: tuple[Path, TrainingRun]) -> None:
    record = json.loads((finished[0] / RUN_FILE).read_text(encoding="utf-8"))
    stages = plan_stages(Recipe(**record["recipe"]), finished[0])
    check_resume(record, finished[0], stages)
    with pytest.raises(EventformersError, match="has other settings: dtype;"):
        check_resume({**record, "dtype": "bfloat16"}, finished[0], stages)


def test_more_processes_may_share_the_batch_of_a_resumed_run(finished: tuple[Path, TrainingRun]) -> None:
    record = json.loads((finished[0] / RUN_FILE).read_text(encoding="utf-8"))
    stages = plan_stages(Recipe(**record["recipe"]), finished[0])
    two = {**record, "processes": 2}
    with pytest.raises(EventformersError, match=r"training\.per_device_train_batch_size;"):
        check_resume(two, finished[0], stages)
    stages[0].recipe.training["per_device_train_batch_size"] //= 2
    check_resume(two, finished[0], stages)


@pytest.mark.parametrize("name", ["events.parquet", "events.jsonl.gz"])
def test_no_model_among_extracted_events(name: str, tiny_encoder: Path, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(EventformersError, match=f"holds extracted events .{re.escape(name)}.; accepted"):
        train("swcc", tmp_path, encoder=str(tiny_encoder), device="cpu", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_unfinished_run_is_not_replaced(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(folder, tiny_encoder)
    kept = sorted(path.name for path in folder.iterdir())
    with pytest.raises(EventformersError, match="holds an unfinished run; pass --resume to continue it"):
        train("swcc", folder, recipe="demo", encoder=str(tiny_encoder), device="cpu")
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) == kept


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (("dataloader_persistent_workers=true", "dataloader_num_workers=1"), "draws of the first epoch"),
        (("label_smoothing_factor=0.1",), "which no loss of the heads uses; accepted: 0"),
        (("learning_rate_decay=0.5", "warmup_steps=5"), "learning_rate_decay makes the schedule"),
        (("validation_rows=4", "save_steps=1", "metric_for_best_model=accurcy"), "set to 'eval_accurcy'"),
        (("validation_rows=0", "eval_strategy=steps"), "a training setting is not accepted: .*eval_dataset"),
        (("lr_scheduler_type=cosine_with_min_lr",), "a training setting is not accepted: .*min_lr"),
        (("optim=adamw_bnb_8bit",), "a training setting is not accepted: .*bitsandbytes"),
    ],
)
def test_settings_that_transformers_refuses_end_in_one_line(
    tiny_encoder: Path, tmp_path: Path, settings: tuple[str, ...], told: str
) -> None:
    with pytest.raises(EventformersError, match=told) as caught:
        run(tmp_path / "run", tiny_encoder, *settings)
    assert "\n" not in str(caught.value)


def test_the_best_may_be_saved_alone(tiny_encoder: Path, tmp_path: Path) -> None:
    best = run(
        tmp_path / "run",
        tiny_encoder,
        "validation_rows=4",
        "save_strategy=best",
        "metric_for_best_model=loss",
    )
    assert best.steps == 2


SWCC_SETTINGS = (
    "max_steps=3",
    "save_steps=1",
    "save_total_limit=null",
    "per_device_train_batch_size=4",
    "shared_word_weight=0",
)


def _run(output: Path, encoder: Path, *, resume: bool = False) -> int:
    return short_run("swcc", encoder, output, *SWCC_SETTINGS, resume=resume).steps


@pytest.fixture(scope="module")
def trained(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("damaged") / "run"
    output.mkdir()
    _run(output, tiny_encoder)
    shutil.rmtree(output / "checkpoint-3")
    return output


def _halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _other(path: Path) -> None:
    torch.save({"something": 1}, path)


DAMAGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "half an optimizer": ("optimizer.pt", _halve),
    "empty optimizer": ("optimizer.pt", _empty),
    "no optimizer": ("optimizer.pt", Path.unlink),
    "another optimizer": ("optimizer.pt", _other),
    "half a scheduler": ("scheduler.pt", _halve),
    "another scheduler": ("scheduler.pt", lambda path: torch.save([1], path)),
    "no scheduler": ("scheduler.pt", Path.unlink),
    "half a random state": ("rng_state.pth", _halve),
    "another random state": ("rng_state.pth", _other),
    "no random state": ("rng_state*.pth", lambda path: path.with_name("rng_state.pth").unlink()),
    "half the weights": ("model.safetensors", _halve),
    "no weights": ("*.safetensors", lambda path: path.with_name("model.safetensors").unlink()),
    "null as state": ("trainer_state.json", lambda path: path.write_text("null")),
    "a step that is text": ("trainer_state.json", lambda path: path.write_text('{"global_step": "2"}')),
    "an unknown key": ("trainer_state.json", lambda path: path.write_text('{"global_stepp": 2}')),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_checkpoint(case: str, trained: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    name, damage = DAMAGES[case]
    output = tmp_path / "run"
    shutil.copytree(trained, output)
    damage(output / "checkpoint-2" / name)
    with pytest.raises(EventformersError) as refused:
        _run(output, tiny_encoder, resume=True)
    message = str(refused.value)
    assert name in message
    assert f"remove {output / 'checkpoint-2'} to resume from the previous checkpoint" in message


def test_without_the_damaged_checkpoint_a_run_goes_on(
    trained: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    """As the message says."""
    output = tmp_path / "run"
    shutil.copytree(trained, output)
    shutil.rmtree(output / "checkpoint-2")
    assert _run(output, tiny_encoder, resume=True) == 3


@pytest.mark.parametrize("content", ["null", "{", "{}", '{"recipe": null}', '{"recipe": {"seed": 7}}'])
def test_a_damaged_record(content: str, trained: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    shutil.copytree(trained, output)
    (output / RUN_FILE).write_text(content)
    with pytest.raises(EventformersError, match=r"run\.json is damaged .* run again with --overwrite"):
        _run(output, tiny_encoder, resume=True)
