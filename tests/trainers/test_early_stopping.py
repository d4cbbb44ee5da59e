"""Training stops early once the validation loss has settled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from eventformers.methods import load_method
from eventformers.trainers.callbacks import PatienceCallback, SettledLossCallback
from eventformers.trainers.run import resolve_recipe, train_head


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
    assert _stops_after(losses, partial(SettledLossCallback, share)) == expected


@pytest.mark.parametrize("resumed_after", [1, 2, 3])
def test_a_resumed_run_stops_where_the_other_does(resumed_after: int) -> None:
    settled, patient = partial(SettledLossCallback, 0.01), partial(PatienceCallback, 2)
    assert _stops_after([3.0, 2.0, 1.5, 1.495, 1.0], settled, resumed_after) == 4
    assert _stops_after([3.0, 2.0, 2.0, 2.5, 1.0], patient, resumed_after) == 4


@pytest.mark.parametrize(
    ("losses", "patience", "expected"),
    [([2.0, 3.0], 1, 2), ([2.0, 3.0, 1.0, 1.5, 0.5], 2, None), ([2.0, 1.0], 1, None), ([1.0], 1, None)],
)
def test_patience_counts_from_the_best(losses: list[float], patience: int, expected: int | None) -> None:
    assert _stops_after(losses, partial(PatienceCallback, patience)) == expected


def test_a_run_without_improvement_stops_after_its_patience(tiny_encoder: Path, tmp_path: Path) -> None:
    settings = ("learning_rate=0", "module_learning_rates=null", "max_steps=9", "save_steps=1")
    stopping = ("validation_rows=4", "early_stopping_patience=2")
    quick = str(Path(__file__).with_name("quick_swcc.yaml"))
    run = train_head(
        resolve_recipe(load_method("swcc"), quick, (*settings, *stopping), 5),
        encoder=str(tiny_encoder),
        encoder_name="tiny",
        output=tmp_path / "run",
        device="cpu",
    )
    # The first validation is the best one, and two more are not better.
    assert run.steps == 3
