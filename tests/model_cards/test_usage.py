from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from eventformers.model_cards import ModelCard, Snippet
from eventformers.model_cards.usage import LONGEST_OUTPUT, run_snippet, snippet_code
from eventformers.models.modeling_swcc import SwccForPreTraining


def test_a_name_goes_in_as_a_literal():
    name = 'a"; import os; os.abort() #\n\\'
    code = snippet_code(Snippet("", "name = MODEL_ID"), name)
    scope: dict[str, str] = {}
    exec(code, scope)  # noqa: S102 - the point is that nothing but an assignment runs
    assert scope["name"] == name


def test_what_was_printed_names_the_model_and_not_its_folder(tmp_path):
    run = run_snippet(Snippet("", "print(MODEL_ID)"), tmp_path, "org/model")
    assert (run.output, run.failure) == ("org/model", None)


def test_a_snippet_runs_apart_from_the_training_process(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    code = """\
import os, sys
print(sorted(set(os.environ) & {"WORLD_SIZE", "TORCHELASTIC_RUN_ID"}), os.environ["HF_HUB_OFFLINE"])
print(sys.stdin.read() == "", sorted(os.listdir()))"""
    assert run_snippet(Snippet("", code), tmp_path, "m").output == "[] 1\nTrue []"


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("import nothing_like_it", "ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("while True: pass", "it did not end within 1 seconds"),
    ],
)
def test_a_failure_is_told_and_not_raised(tmp_path, code, failure):
    run = run_snippet(Snippet("", code), tmp_path, "m", timeout=1.0 if "while" in code else 60.0)
    assert (run.output, run.failure) == (None, failure)


def test_no_process_at_all_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    assert "no process could be started" in str(run_snippet(Snippet("", "1"), tmp_path, "m").failure)


def test_a_flood_is_cut_and_said(tmp_path):
    output = run_snippet(Snippet("", f"print('x' * {LONGEST_OUTPUT + 1234})"), tmp_path, "m").output
    assert output is not None
    assert output.endswith("(1,234 more characters)")


def test_both_examples_of_swcc_run_and_agree(tiny_encoder: Path, tmp_path: Path):
    torch.manual_seed(0)
    model = SwccForPreTraining.from_encoder(str(tiny_encoder), event_order="predicate_first")
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(tmp_path)
    card = ModelCard(name="org/model", method="swcc", config=model.config.to_dict())
    ours, plain = card.with_usage_run(tmp_path).usage or ()
    assert ours.failure is None, ours.failure
    assert plain.failure is None, plain.failure
    assert "(3, 32)" in str(ours.output)
    assert "torch.Size([3, 32])" in str(plain.output)

    def numbers(text: str | None) -> list[float]:
        cleaned = (
            str(text).split("\n", 1)[1].replace("tensor(", "").translate(str.maketrans("[](),", "     "))
        )
        return [float(part) for part in cleaned.split()]

    assert numbers(ours.output) == pytest.approx(numbers(plain.output), abs=0.0101)
