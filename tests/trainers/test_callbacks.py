"""Callbacks: progress, early stopping, and the choice of a checkpoint by silhouettes."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from short_runs import short_run
from swcc_inputs import swcc_inputs
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import integration_utils
from transformers.utils import logging

from eventformers.errors import EventformersError
from eventformers.inference.induction.clustering import AverageLinkage, silhouette
from eventformers.inference.induction.mention_distances import MentionVectors, distances, unit_embeddings
from eventformers.models.modeling_swcc import SwccForPreTraining
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.base import EventTrainer
from eventformers.trainers.callbacks import (
    ProgressBar,
    ProgressLines,
    StoppingCallback,
    UnseenMentions,
    attention_silhouette,
    choose_checkpoint,
    log_text,
    progress_callback,
    silhouette_callback,
)
from eventformers.trainers.stages import remove_checkpoints

QUICK = str(Path(__file__).with_name("quick_swcc.yaml"))
LOSS_TERMS = {
    *("contrastive_loss", "cluster_loss", "mlm_loss", "prototype_entropy_loss"),
    "shared_word_loss",
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
    short_run("swcc", encoder, folder / "run", *settings, recipe=QUICK, seed=5)


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
    quick = Path(__file__).with_name("quick_heterevent.yaml")
    settings = ("stages=[sequence, graph]", "graph.max_steps=2")
    short_run("heterevent", tiny_encoder, tmp_path / "run", *settings, recipe=quick, seed=5)
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("eventformers")]
    assert messages[:3] == [
        "2 stages, 6 steps in all: sequence 4 steps, graph 2 steps",
        "stage sequence (1 of 2)",
        "stage graph (2 of 2)",
    ]


def _stops_after(
    losses: list[float], make: Callable[[], TrainerCallback], resumed_after: int = 0
) -> int | None:
    """How many evaluations it takes to stop, with a new callback after some of them; None if it goes on."""
    state, control = TrainerState(), TrainerControl()
    arguments = TrainingArguments(output_dir="unused", use_cpu=True, report_to="none")
    callback = make()
    for number, loss in enumerate(losses):
        if number == resumed_after:
            callback = make()
            state = TrainerState(log_history=state.log_history)
        state.log_history += [{"loss": 7.0, "step": number}, {"eval_loss": loss, "step": number}]
        callback.on_evaluate(arguments, state, control)
        if control.should_training_stop:
            return number + 1
    return None


@pytest.mark.parametrize(
    ("losses", "share", "expected"),
    [
        ([2.0, 1.0, 0.995, 0.5], 0.01, 3),
        # A rise by less than the share has settled, too.
        ([1.0, 1.005], 0.01, 2),
        # Of the loss before, not of the first nor of the last.
        ([100.0, 10.0, 9.5, 9.0], 0.01, None),
        ([100.0, 50.0, 49.4], 0.01, None),
        ([100.0, 99.0], 0.01, None),
        ([4.0, 3.0, 2.0], 0.34, 2),
        ([1.0, 1.0], 0.0, None),
        ([1.0], 0.01, None),
    ],
)
def test_stops_where_the_change_is_below_the_share(
    losses: list[float], share: float, expected: int | None
) -> None:
    assert _stops_after(losses, partial(StoppingCallback, share)) == expected


@pytest.mark.parametrize("resumed_after", [1, 2, 3])
def test_a_resumed_run_stops_where_the_other_does(resumed_after: int) -> None:
    settled, patient = partial(StoppingCallback, 0.01), partial(StoppingCallback, None, 2)
    assert _stops_after([3.0, 2.0, 1.5, 1.495, 1.0], settled, resumed_after) == 4
    assert _stops_after([3.0, 2.0, 2.0, 2.5, 1.0], patient, resumed_after) == 4


@pytest.mark.parametrize(
    ("losses", "patience", "expected"),
    [([2.0, 3.0], 1, 2), ([2.0, 3.0, 1.0, 1.5, 0.5], 2, None), ([2.0, 1.0], 1, None), ([1.0], 1, None)],
)
def test_patience_counts_from_the_best(losses: list[float], patience: int, expected: int | None) -> None:
    assert _stops_after(losses, partial(StoppingCallback, None, patience)) == expected


def test_a_run_without_improvement_stops_after_its_patience(tiny_encoder: Path, tmp_path: Path) -> None:
    settings = ("learning_rate=0", "module_learning_rates=null", "max_steps=9", "save_steps=1")
    stopping = ("validation_rows=4", "early_stopping_patience=2")
    run = short_run("swcc", tiny_encoder, tmp_path / "run", *settings, *stopping, recipe=QUICK, seed=5)
    # The first validation is the best one, and two more are not better.
    assert run.steps == 3


class TestChooseCheckpoint:
    @pytest.mark.parametrize(
        ("values", "window", "expected"),
        [
            # The highest value of all stands alone; the best window is the last.
            ([0.9, 0.0, 0.0, 0.4, 0.5, 0.6], 3, 5),
            # Within the best window the highest value, not the one in the middle.
            ([0.1, 0.2, 0.5, 0.3, 0.4, 0.1, 0.0], 3, 2),
            ([0.1, 0.3, 0.2], 1, 1),
            # Fewer values than a window holds are one window.
            ([0.1, 0.3, 0.2], 5, 1),
            ([0.2], 5, 0),
            # Of equal windows and equal values the first.
            ([0.3, 0.1, 0.2, 0.3, 0.1, 0.2], 3, 0),
            ([-0.5, -0.2, -0.2], 2, 1),
        ],
    )
    def test_best_value_of_the_best_window(self, values: list[float], window: int, expected: int) -> None:
        assert choose_checkpoint(values, window) == expected

    def test_figure_7(self) -> None:
        """Ten epochs: the window around epoch 8 is the best one, and epoch 9 the best in it."""
        values = [0.02, 0.05, 0.06, 0.1, 0.12, 0.14, 0.15, 0.16, 0.19, 0.15]
        assert choose_checkpoint(values, 5) + 1 == 9


def _clouds(seed: int = 0) -> MentionVectors:
    draws = np.random.default_rng(seed)
    centres = np.repeat(draws.normal(size=(4, 8)), 10, axis=0)
    parts = [(centres + noise * draws.normal(size=(40, 8))).astype(np.float32) for noise in (0.3, 0.4, 0.2)]
    return MentionVectors(*parts)


class TestSilhouette:
    @pytest.mark.parametrize("num_clusters", [2, 4, 17, 39])
    def test_as_induction_clusters(self, num_clusters: int) -> None:
        """The clusters of distance `dot` and their silhouette under the encoder's cosines."""
        vectors = _clouds()
        assert vectors.query is not None
        assert vectors.key is not None
        labels = AverageLinkage.of_distances(distances(vectors, "dot")).cut(num_clusters)
        expected = silhouette(unit_embeddings(vectors.embeddings), labels)
        found = attention_silhouette(vectors.query, vectors.key, vectors.embeddings, num_clusters)
        assert found == pytest.approx(expected, abs=1e-5)

    def test_does_not_depend_on_the_order_of_mentions(self) -> None:
        vectors = _clouds()
        mixed = vectors.rows(np.random.default_rng(1).permutation(40))
        values = [
            attention_silhouette(each.query, each.key, each.embeddings, 4)  # type: ignore[arg-type]
            for each in (vectors, mixed)
        ]
        assert values[0] == pytest.approx(values[1], abs=1e-6)

    def test_identical_mentions(self) -> None:
        same = np.ones((5, 3), dtype=np.float32)
        assert attention_silhouette(same, same, same, 2) == pytest.approx(0, abs=1e-6)


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"silhouette_window": 3, "save_strategy": "no"}, "save_strategy no .* epoch or steps"),
            ({"silhouette_window": 3, "save_total_limit": 2}, "save_total_limit 2; .* null"),
        ],
    )
    def test_refused(self, tmp_path: Path, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(EventformersError, match=message):
            EventTrainingArguments(str(tmp_path), **settings)

    def test_accepted(self, tmp_path: Path) -> None:
        EventTrainingArguments(str(tmp_path), save_total_limit=2, save_strategy="no")
        EventTrainingArguments(str(tmp_path), silhouette_window=3, save_strategy="steps")

    @pytest.mark.parametrize(
        ("unseen", "changed", "message"),
        [
            (None, {}, "needs mentions of unseen types"),
            (UnseenMentions([], 9, 0), {}, "0 unseen types in the data; accepted: 2 or more"),
            (UnseenMentions([], 9, 1), {}, "1 unseen types"),
            (UnseenMentions([], 9, 9), {}, "9 unseen mentions for 9 clusters"),
            (UnseenMentions([], 9, 3), {"silhouette_curves": [5, 9]}, "9 unseen mentions for 9 clusters"),
            (UnseenMentions([], 9, 3), {"load_best_model_at_end": True}, "load_best_model_at_end"),
        ],
    )
    def test_nothing_to_choose_by(
        self, unseen: UnseenMentions | None, changed: dict[str, object], message: str
    ) -> None:
        with pytest.raises(EventformersError, match=message):
            silhouette_callback(_Arguments(**changed), unseen)  # type: ignore[arg-type]

    def test_number_of_clusters(self) -> None:
        callback = silhouette_callback(_Arguments(), UnseenMentions([], 9, 3))  # type: ignore[arg-type]
        assert callback is not None
        assert callback.num_clusters == 3
        assert silhouette_callback(_Arguments(silhouette_window=None), None) is None  # type: ignore[arg-type]


class _Arguments:
    """Training arguments, as far as they are read."""

    def __init__(self, **changed: object) -> None:
        self.silhouette_window: object = 3
        self.silhouette_curves: object = None
        self.load_best_model_at_end: object = False
        vars(self).update(changed)


def test_chosen_and_last_checkpoint_stay(tmp_path) -> None:
    for step in (5, 10, 15, 20):
        (tmp_path / f"checkpoint-{step}").mkdir()
    state = TrainerState(global_step=20)
    state.log_history = [
        {"silhouette": value, "step": step} for step, value in ((5, 0.1), (10, 0.4), (15, 0.3))
    ]
    callback = silhouette_callback(_Arguments(silhouette_window=2), UnseenMentions([], 9, 3))  # type: ignore[arg-type]
    assert callback is not None
    chosen = callback.take_checkpoint(tmp_path, state)
    assert chosen == tmp_path / "checkpoint-10"
    assert state.log_history[-1]["chosen_step"] == 10
    remove_checkpoints(tmp_path, keeping=(chosen, tmp_path / "checkpoint-20"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "checkpoint-20"]
