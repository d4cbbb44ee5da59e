"""What a training run shows and logs: lines in a pipe, a bar in a terminal, integrations on request."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from swcc_inputs import swcc_inputs
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import integration_utils
from transformers.utils import logging

from eventformers.errors import EventformersError
from eventformers.methods import load_method
from eventformers.models.modeling_swcc import SwccForPreTraining
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.base import EventTrainer
from eventformers.trainers.callbacks import ProgressBar, ProgressLines, log_text, progress_callback
from eventformers.trainers.run import resolve_recipe, train_head

QUICK = str(Path(__file__).with_name("quick_swcc.yaml"))
LOSS_TERMS = {
    *("contrastive_loss", "cluster_loss", "mlm_loss", "prototype_entropy_loss"),
    *("shared_word_loss", "predicate_loss"),
}


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


class Recorder(TrainerCallback):
    """An integration that keeps what it is given."""

    runs: list[str | None] = []  # noqa: RUF012
    logs: list[dict[str, Any]] = []  # noqa: RUF012

    def on_train_begin(self, args, state, control, **kwargs):
        self.runs.append(args.run_name)

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.logs.append(dict(logs))


def train(encoder: Path, folder: Path, *settings: str) -> None:
    train_head(
        resolve_recipe(load_method("swcc"), QUICK, settings, 5),
        encoder=str(encoder),
        encoder_name="tiny",
        output=folder / "run",
        device="cpu",
    )


def test_log_lines_are_rounded_and_named() -> None:
    assert (
        log_text({"loss": 1.234567, "grad_norm": 3.0, "learning_rate": 5e-5, "mlm_loss": 0.5, "epoch": 1.0})
        == "loss 1.235, learning rate 5e-05, mlm loss 0.5"
    )
    assert log_text({"eval_loss": 2.0, "eval_runtime": 3.0, "epoch": 1.0}) == "validation loss 2"
    assert not log_text({"train_loss": 2.0, "train_runtime": 3.0, "epoch": 1.0})


def test_a_run_in_a_pipe_prints_a_line_for_each_step(
    tiny_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tiny_encoder, tmp_path, "validation_rows=4")
    told = capsys.readouterr()
    lines = [line for line in told.err.splitlines() if "step" in line]
    assert lines[0] == "training: 4 steps, batch size 4"
    assert re.fullmatch(r"trained 4 steps in \d\d:\d\d", lines[-1])
    logged = [line for line in lines if re.match(r"step \d of 4: loss [\d.]+, .*learning rate .* left", line)]
    assert len(logged) == 4
    assert all(f"{name.replace('_', ' ')} " in logged[0] for name in LOSS_TERMS)
    assert sum("validation loss" in line for line in lines) == 2
    assert "{" not in told.err + told.out


def test_long_steps_print_a_line_at_least_every_half_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("eventformers.trainers.callbacks.time.monotonic", lambda: now)
    arguments, control = TrainingArguments(report_to="none", use_cpu=True), TrainerControl()
    state = TrainerState(max_steps=40)
    lines = ProgressLines()
    lines.on_train_begin(arguments, state, control)
    for step in range(1, 8):
        now = 22.0 * step
        state.global_step = step
        lines.on_step_end(arguments, state, control)
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("training: 40 steps")
    assert told[1:] == [
        "step 1 of 40, 14:18 left",
        "step 3 of 40, 13:34 left",
        "step 5 of 40, 12:50 left",
        "step 7 of 40, 12:06 left",
    ]


def test_evaluation_before_training_prints_the_loss(
    tiny_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = SwccForPreTraining.from_encoder(str(tiny_encoder))
    inputs = swcc_inputs(head.config.vocab_size)
    arguments = EventTrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    trainer = EventTrainer(head, arguments, data_collator=lambda rows: inputs, train_dataset=[0])
    for _ in range(2):
        loss = trainer.evaluate([0])["eval_loss"]
        assert capsys.readouterr().err.splitlines()[-1] == f"validation loss {loss:.4g}"
    arguments.max_steps = 1
    trainer.train()
    assert "training: 1 step," in capsys.readouterr().err
    trainer.evaluate([0])
    assert "left" not in capsys.readouterr().err


def test_a_terminal_has_one_bar_with_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = progress_callback()
    assert isinstance(bar, ProgressBar)
    state = TrainerState(max_steps=4, is_world_process_zero=True)
    arguments, control = TrainingArguments(output_dir="unused", use_cpu=True), TrainerControl()
    monkeypatch.setenv("TQDM_DELAY", "0")
    bar.on_train_begin(arguments, state, control)
    bar.on_log(arguments, state, control, {"loss": 1.23456})
    assert bar.training_bar.postfix == "loss 1.235"
    bar.on_log(arguments, state, control, {"train_runtime": 1.0})
    assert bar.training_bar.postfix == "loss 1.235"
    bar.on_train_end(arguments, state, control)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(progress_callback(), ProgressLines)


def test_a_silent_library_has_a_bar(tmp_path: Path) -> None:
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        assert EventTrainingArguments(output_dir=str(tmp_path), use_cpu=True).disable_tqdm is False
    finally:
        logging.set_verbosity(verbosity)


def test_an_integration_is_given_run_name_and_losses(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integration_utils, "is_trackio_available", lambda: True)
    monkeypatch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "trackio", Recorder)
    train(tiny_encoder, tmp_path, "report_to=trackio", "run_name=mine", "logging_steps=2")
    assert Recorder.runs == ["mine"]
    assert [set(logs) >= LOSS_TERMS for logs in Recorder.logs] == [True, True, False]


def test_tensorboard_writes_below_the_run(tiny_encoder: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    train(tiny_encoder, tmp_path, "report_to=tensorboard")
    assert list((tmp_path / "run" / "runs").rglob("events.out.tfevents.*"))


def test_an_integration_that_is_not_installed_is_told(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integration_utils, "is_wandb_available", lambda: False)
    with pytest.raises(EventformersError, match="report_to: found wandb, which is not installed"):
        train(tiny_encoder, tmp_path, "report_to=wandb")


def test_stages_and_their_steps_are_announced(
    tiny_encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="eventformers")
    recipe = resolve_recipe(
        load_method("heterevent"),
        str(Path(__file__).with_name("quick_heterevent.yaml")),
        ("stages=[sequence, graph]", "graph.max_steps=2"),
        5,
    )
    train_head(recipe, encoder=str(tiny_encoder), encoder_name="tiny", output=tmp_path / "run", device="cpu")
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("eventformers")]
    assert messages[:3] == [
        "2 stages, 6 steps in all: sequence 4 steps, graph 2 steps",
        "stage sequence (1 of 2)",
        "stage graph (2 of 2)",
    ]
