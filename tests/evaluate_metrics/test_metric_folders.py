"""What every metric folder must keep, so that it loads alone and serves as a Space."""

from __future__ import annotations

import doctest
import importlib.util
import json
import os
import shutil
from pathlib import Path

import evaluate
import pytest
import yaml
from forked import run_python

from eventformers import evaluate_metrics
from eventformers.errors import UnknownNameError
from eventformers.evaluate_metrics import METRICS, load_metric
from eventformers.publishing.folders import read_folder

FOLDER = Path(evaluate_metrics.__file__).parent
REQUIRED_FILES = ("README.md", "requirements.txt")

WITHOUT_OUR_PACKAGE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "eventformers":
            raise ModuleNotFoundError("No module named 'eventformers'", name="eventformers")

sys.meta_path.insert(0, Refuse())
import evaluate

for folder in sys.argv[1:]:
    metric = evaluate.load(folder)
    assert metric.name == folder.replace("\\\\", "/").split("/")[-1], metric.name
assert "eventformers" not in sys.modules
print("loaded")
"""


def test_an_unknown_metric_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'hard_similarity'"):
        load_metric("hard_similarty")


@pytest.mark.parametrize("name", METRICS)
def test_a_folder_is_complete(name):
    files = {file.name for file in (FOLDER / name).iterdir()}
    assert files >= {*REQUIRED_FILES, f"{name}.py", f"{name}_impl.py"}


@pytest.mark.parametrize("name", METRICS)
def test_the_card_declares_a_space_and_tells_the_limits(name):
    _, header, body = (FOLDER / name / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    fields = yaml.safe_load(header)
    assert fields["sdk"] == "gradio"
    assert fields["app_file"] == "app.py"
    assert {"evaluate", "metric"} <= set(fields["tags"])
    for section in ("What it measures", "How to use", "Values from papers", "Limits", "Citation"):
        assert f"## {section}" in body


def test_all_load_as_they_are_pushed_in_a_process_without_our_package(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "cache"))
    for name in METRICS:
        _copy_as_pushed(name, tmp_path / name)
    done = run_python(
        ["-c", WITHOUT_OUR_PACKAGE, *(str(tmp_path / name) for name in METRICS)],
        cwd=tmp_path,
        env={**os.environ, "HF_HOME": str(tmp_path / "home")},
        server="libraries",
    )
    assert done.stdout.strip() == "loaded", done.stderr


@pytest.mark.parametrize("name", METRICS)
def test_the_documented_examples_run(name):
    metric = load_metric(name)
    examples = doctest.DocTestParser().get_doctest(
        metric.inputs_description,
        {"evaluate": _LoadByName()},
        name,
        filename=None,
        lineno=0,
    )
    assert examples.examples
    assert doctest.DocTestRunner().run(examples).failed == 0


def test_the_page_scores_json_lists_and_says_what_is_wrong(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "cache"))
    page = _load_page("hard_similarity", tmp_path / "space")
    assert page.score("[0.9, 0.1]", "[0.1, 0.9]") == {"accuracy": 50.0, "ties": 0, "count": 2}
    for boxes, message in (
        (("0.9, 0.1", "[0.1]"), "similar: .* accepted: a JSON list"),
        ((json.dumps({"a": 1}), "[0.1]"), "found dict"),
        (("[]", "[]"), "at least one number"),
    ):
        with pytest.raises(ValueError, match=message):
            page.score(*boxes)


class _LoadByName:
    """Stands for the `evaluate` of an example, where the Hub would resolve the bare name."""

    @staticmethod
    def load(name: str) -> evaluate.EvaluationModule:
        return load_metric(name)


def _load_page(name: str, folder: Path):
    """Load the page from a folder such as a Space has it."""
    _copy_as_pushed(name, folder)
    specification = importlib.util.spec_from_file_location(f"{name}_page", folder / "app.py")
    page = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(page)
    return page


def _copy_as_pushed(name: str, folder: Path) -> None:
    folder.mkdir()
    for path, file in read_folder(FOLDER / name).files.items():
        shutil.copy(file, folder / path)
