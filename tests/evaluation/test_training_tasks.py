"""Which tasks a finished training is scored on."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from eventformers.datasets_scripts.base import SAMPLES
from eventformers.errors import EventformersError
from eventformers.training import train

QUICK = ("max_steps=1", "per_device_train_batch_size=4")


def test_tasks_without_rows_are_left_out_and_told(
    tiny_encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="eventformers"):
        finished = train(
            "mico",
            tmp_path / "model",
            recipe="demo",
            encoder=str(tiny_encoder),
            settings=QUICK,
            evaluation_data=SAMPLES / "commonsense" / "COPA",
            device="cpu",
            create_model_card=False,
        )
    assert [result.task for result in finished.results] == ["copa"]
    assert "the evaluation data has no rows: conceptnet_completion, siqa, csqa" in caplog.text


def test_data_of_other_tasks_are_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"no raw file for commonsense_graphs.*train\.txt"):
        train(
            "mico",
            tmp_path / "model",
            recipe="demo",
            encoder=str(tiny_encoder),
            settings=QUICK,
            evaluation_data=SAMPLES / "similarity",
            device="cpu",
        )
    assert not (tmp_path / "model").exists()


def test_a_model_of_ours_that_is_trained_further_is_the_baseline(tiny_encoder: Path, tmp_path: Path) -> None:
    first, further = (
        train(
            "heterevent",
            tmp_path / name,
            recipe="demo",
            encoder=str(encoder),
            settings=(*QUICK, "stages=[supervised]", "warmup_steps=0"),
            tasks=["mcnc"],
            device="cpu",
            create_model_card=False,
        ).results[0]
        for name, encoder in (("first", tiny_encoder), ("further", tmp_path / "first"))
    )
    assert further.baseline is not None
    assert (further.baseline.model, further.baseline.main_value) == ("first", first.main_value)
