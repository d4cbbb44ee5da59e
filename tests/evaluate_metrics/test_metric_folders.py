"""What every metric folder must keep, so that it loads alone and serves as a Space."""

from __future__ import annotations

import doctest
import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
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


GOOD: dict[str, dict[str, Any]] = {
    "clustering_nmi": {"predictions": [0, 1, 1], "references": ["a", "b", "b"]},
    "coreference": {"predictions": ["a", "b", "b"], "references": ["a", "b", "b"]},
    "event_linking": {"predictions": [["a"], ["b", "c"]], "references": [["a"], ["b"]]},
    "hard_similarity": {"similar": [0.5, 0.25], "dissimilar": [0.125, 0.75]},
    "hierarchy_recall": {"predictions": [["a"], ["b", "c"]], "references": [["a"], ["b"]]},
    "mcnc": {"predictions": [[0.5, 0.25], [0.25, 0.5]], "references": [0, 0]},
    "multistep_inference": {"predictions": [[0, 1], [1, 1]], "references": [[0, 0], [1, 0]]},
    "ranking": {"predictions": [1.0, 2.5]},
    "transitive_similarity": {"predictions": [0.5, 0.25], "references": [1.0, 2.0]},
}
FLAT = [(name, key) for name in GOOD for key, values in GOOD[name].items() if not isinstance(values[0], list)]
INPUTS = [(name, key) for name in GOOD for key in GOOD[name]]


def compute(name: str, **changed: Any) -> Any:
    return load_metric(name, keep_in_memory=True).compute(**{**GOOD[name], **changed})


def test_every_metric_is_tried() -> None:
    assert sorted(GOOD) == list(METRICS)


@pytest.mark.parametrize(("name", "key"), INPUTS)
@pytest.mark.parametrize(
    "wrong",
    [None, float("nan"), "text", 0.5, True, 7, [], ["one"], {"a": 1}],
    ids=repr,
)
def test_wrong_values_are_a_value_error(name: str, key: str, wrong: Any) -> None:
    """Of the last row: a value where a list belongs, a list where a value belongs, and other types."""
    *first, last = GOOD[name][key]
    named = {"clustering_nmi": {"references"}, "coreference": {"predictions", "references"}}
    of_type = (str,) if key in named.get(name, ()) else ()
    cases = [[*first, wrong]]
    if isinstance(last, list):
        cases.append([*first, [*last[:-1], wrong]])
    for values in cases:
        inner = values[-1][-1] if values[-1] and isinstance(values[-1], list) else values[-1]
        accepted = isinstance(inner, of_type) or _is_accepted(name, key, inner, values[-1])
        if not accepted:
            with pytest.raises(ValueError, match=r"."):
                compute(name, **{key: values})


def _is_accepted(name: str, key: str, value: Any, row: Any) -> bool:
    if isinstance(value, bool) or value != value or value is None:
        return False
    if name in ("event_linking", "hierarchy_recall"):
        # An empty prediction links nothing.
        return (isinstance(value, str) and isinstance(row, list)) or (row == [] and key == "predictions")
    if name == "mcnc" and key == "predictions":
        return isinstance(value, (int, float)) and isinstance(row, list) and len(row) > 1
    if name == "multistep_inference":
        return value == 7 and isinstance(row, list)
    if (name, key) == ("ranking", "predictions") or name == "clustering_nmi":
        return value == 7
    return isinstance(value, (int, float)) and name != "mcnc"


@pytest.mark.parametrize(("name", "key"), INPUTS)
@pytest.mark.parametrize("wrong", [None, "text", 5, {"a": 1}, []], ids=repr)
def test_an_input_that_is_no_list_is_a_value_error(name: str, key: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        compute(name, **{key: wrong})


@pytest.mark.parametrize(("name", "key"), INPUTS)
def test_lists_of_unequal_length_are_a_value_error(name: str, key: str) -> None:
    if len(GOOD[name]) > 1:
        with pytest.raises(ValueError, match=r"."):
            compute(name, **{key: GOOD[name][key][:-1]})


@pytest.mark.parametrize(("name", "key"), FLAT)
def test_arrays_tensors_series_and_columns_score_as_lists(name: str, key: str) -> None:
    values, expected = GOOD[name][key], compute(name)
    series = pd.Series(values, index=range(5, 5 + len(values)))
    for held in (tuple(values), np.array(values), series, pa.array(values), pa.chunked_array([values])):
        assert compute(name, **{key: held}) == expected
    if not isinstance(values[0], str):
        assert compute(name, **{key: torch.tensor(values)}) == expected
        assert compute(name, **{key: list(np.array(values))}) == expected
        assert compute(name, **{key: list(torch.tensor(values))}) == expected


def test_clusters_are_never_cut_to_integers() -> None:
    for wrong in (
        [0.1, 0.9, 0.9],
        [0, 1, float("nan")],
        [0, 1, float("inf")],
        [0, 1, 10**30],
        [0, 1, 10**400],
    ):
        with pytest.raises(ValueError, match="accepted: the number of a cluster"):
            compute("clustering_nmi", predictions=wrong)
    metric = load_metric("clustering_nmi", keep_in_memory=True)
    with pytest.raises(ValueError, match=r"0\.5 at index 0"):
        metric.add(prediction=0.5, reference="a")
    assert compute("clustering_nmi", predictions=[0.0, 1.0, 1.0])["nmi"] == pytest.approx(100)
    near = 2**60
    assert compute("clustering_nmi", predictions=[near, near + 1, near + 1])["num_clusters"] == 2


def test_numbers_beyond_double_precision_are_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"similar\[1\] is 10+; accepted: a number of double precision"):
        compute("hard_similarity", similar=[0.5, 10**400, 0.5])


def test_types_may_be_integers_as_in_scikit_learn() -> None:
    expected = compute("clustering_nmi")
    for types in ([3, 5, 5], np.array([3, 5, 5]), torch.tensor([3, 5, 5])):
        assert compute("clustering_nmi", references=types) == expected
    with pytest.raises(ValueError, match="accepted: an integer, as the first one"):
        compute("clustering_nmi", references=[1, "1", "1"])


@pytest.mark.parametrize("name", GOOD)
def test_missing_and_unknown_inputs_are_a_value_error(name: str) -> None:
    metric = load_metric(name, keep_in_memory=True)
    with pytest.raises(ValueError, match="found no inputs; accepted: "):
        metric.compute()
    with pytest.raises(ValueError, match="is None; accepted: a list"):
        metric.compute(**dict.fromkeys(GOOD[name]))
    with pytest.raises(ValueError, match="found the input labels; accepted: "):
        metric.add_batch(**GOOD[name], labels=[1])
    with pytest.raises(ValueError, match="found the input labels; accepted: "):
        metric.add(labels=1)
    with pytest.raises(ValueError, match="found the input labels; accepted: "):
        metric.compute(**GOOD[name], labels=[1])
    metric.add_batch(**GOOD[name])
    assert metric.compute() == compute(name)


def test_single_rows_are_checked_as_batches_are() -> None:
    for prediction, wrong in (([0.5, 0.25], None), ([0.5, "1"], 0)):
        with pytest.raises(ValueError, match="accepted: a number"):
            load_metric("mcnc", keep_in_memory=True).add(prediction=prediction, reference=wrong)
