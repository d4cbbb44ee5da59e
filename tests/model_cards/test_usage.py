from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch
from card_examples import examples_run
from transformers import AutoTokenizer

from eventformers.methods import all_methods, load_method
from eventformers.model_cards import ModelCard, Snippet
from eventformers.model_cards.method import LONGEST_OUTPUT, run_snippet, snippet_code
from eventformers.models.grounding_tokens import TAGS
from eventformers.trainers.method import add_marker_tokens


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
        ("print('one'); 1 / 0", "ZeroDivisionError: division by zero; printed before: one"),
        (
            "print('one', flush=True)\nwhile True: pass",
            "it did not end within 1 seconds; printed before: one",
        ),
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


FIELDS = {
    "swcc": {"event_order": "predicate_first"},
    "heterevent": {"event_order": "predicate_first", "event_dim": 16, "chain_dim": 32},
}


@pytest.fixture(scope="module", params=all_methods())
def examples(
    request: pytest.FixtureRequest, tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Snippet]:
    """The usage examples of a method by title, run on a tiny model of it."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    fields = FIELDS.get(request.param, {})
    model = load_method(request.param).head_class.from_encoder(str(tiny_encoder), **fields)
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    if hasattr(model.config, "mention_tokens"):
        # Its examples hold the tags, and a mention with an event is long.
        add_marker_tokens(tokenizer, model, TAGS)
        tokenizer.model_max_length = 64
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    card = ModelCard(name="org/model", method=request.param, config=model.config.to_dict())
    with examples_run():
        return {snippet.title: snippet for snippet in card.with_usage_run(folder).usage or ()}


def test_every_example_runs(examples: dict[str, Snippet]):
    assert {snippet.failure for snippet in examples.values()} == {None}
    assert all(snippet.output for snippet in examples.values() if snippet.is_run)


def test_embedding_with_this_package_and_without_agrees(examples: dict[str, Snippet]):
    ours, plain = (
        next(str(snippet.output) for title, snippet in examples.items() if title.startswith(start))
        for start in ("With eventformers", "With transformers")
    )
    # The sizes stand in the first line, the cosines behind it.
    (sizes, cosines), (plain_sizes, plain_cosines) = _numbers(ours), _numbers(plain)
    assert sizes == plain_sizes
    assert sizes[1] == 32
    assert cosines == pytest.approx(plain_cosines, abs=0.0101)


def _numbers(text: str) -> list[list[float]]:
    return [[float(part) for part in re.findall(r"-?\d+\.?\d*", part)] for part in text.split("\n", 1)]
