"""What training may push, and what a failed push leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eventformers import SwccForPreTraining
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.methods import load_method
from eventformers.trainers.adapters import add_adapters
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.base import EventTrainer
from eventformers.trainers.run import resolve_recipe
from eventformers.trainers.stage_training import StageOptions, check_publishable, check_settings
from eventformers.trainers.stages import Stage


def test_a_token_is_no_setting() -> None:
    with pytest.raises(UnknownNameError, match="hub_token"):
        resolve_recipe(load_method("swcc"), "demo", ["hub_token=hf_secret"])


def test_a_push_needs_a_name(tmp_path: Path) -> None:
    method = load_method("swcc")
    options = StageOptions(1, "tiny", "tiny", None, adapters=None, resume=False, device="cpu", dtype=None)
    recipe = resolve_recipe(method, "demo", ["push_to_hub=true"], 1)
    with pytest.raises(EventformersError, match="hub_model_id=OWNER/NAME"):
        check_settings(method, Stage("", recipe, tmp_path), options)


@pytest.mark.parametrize(
    ("sources", "told"),
    [
        ({"a": {"license": "MIT"}, "b": {"license": "CC-BY-NC-4.0"}}, "not all open: CC-BY-NC-4.0;"),
        ({"a": {"license": "MIT"}, "b": {}}, "not all open: unspecified;"),
        ({}, "not all open: unspecified;"),
    ],
)
def test_rows_that_not_everyone_may_publish(sources: dict[str, Any], told: str) -> None:
    check_publishable({"sources": {"a": {"license": "MIT"}, "b": {"license": "CC-BY-4.0"}}})
    with pytest.raises(EventformersError, match=told):
        check_publishable({"sources": sources})


def test_a_push_that_fails_ends_no_training(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lost(*_: Any) -> None:
        raise ConnectionError("the connection\nis lost")

    monkeypatch.setattr(EventTrainer, "push_to_hub", lost)
    model = SwccForPreTraining.from_encoder(str(tiny_encoder))
    arguments = EventTrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    EventTrainer(model=model, args=arguments)._push_from_checkpoint("checkpoint-1")
    assert "training continues: the connection is lost" in caplog.text


def test_the_card_of_a_push_counts_the_merged_model(tiny_encoder: Path, tmp_path: Path) -> None:
    model = SwccForPreTraining.from_encoder(str(tiny_encoder))
    expected = sum(parameter.numel() for parameter in model.base_model.parameters())
    arguments = EventTrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    for trained in (model, add_adapters(model, "tiny")):
        EventTrainer(model=trained, args=arguments).create_model_card()
        assert f"{expected:,}" in (tmp_path / "README.md").read_text(encoding="utf-8")
        (tmp_path / "README.md").unlink()
