from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from reproduced import content_of, rows_of
from transformers import AutoTokenizer

from eventformers import EventTypeInductionModel
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.errors import EventformersError
from eventformers.evaluation import evaluate
from eventformers.methods import load_method
from eventformers.reproduction import runs as reproduced_runs
from eventformers.reproduction.comparisons import scores_of
from eventformers.reproduction.planner import reproduce_table
from eventformers.reproduction.runs import ReproducedRow, ScoredSplit
from eventformers.reproduction.tables import Column, PaperRow, get_table, paper_tables
from eventformers.reproduction.writing import clusters_by_purity, spread_of_runs

TABLES = paper_tables()["type-induction"]
METHOD = load_method("event_type_induction")

pytestmark = pytest.mark.filterwarnings("ignore:.*were truncated", "ignore:.*triggers are beyond")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, tiny_encoder: Path) -> list[SimpleNamespace]:
    """Replaces training by a random model of the seed; collects the trainings."""
    calls: list[SimpleNamespace] = []

    def train(method: str, output: Path, **arguments) -> SimpleNamespace:
        calls.append(SimpleNamespace(method=method, output=output, **arguments))
        torch.manual_seed(arguments["seed"])
        model = EventTypeInductionModel.from_encoder(tiny_encoder, pooling="mean")
        model.save_pretrained(output)
        AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(output)
        result = evaluate(str(output), arguments["tasks"][0], baseline=False)
        return SimpleNamespace(folder=output, results=[result], run=SimpleNamespace(steps=3, seconds=1.5))

    monkeypatch.setattr(reproduced_runs, "train", train)
    return calls


@pytest.fixture
def call(tmp_path: Path, tiny_encoder: Path) -> Callable:
    """A table on the samples; keyword arguments override."""

    def run(table: str, **changes):
        settings = {"encoder": str(tiny_encoder), "runs": 2, **changes}
        return reproduce_table("type-induction", table, tmp_path / "out", **settings)

    return run


def test_published_scores_are_those_of_the_paper():
    table = get_table("type-induction", "table1")
    rows = {row.label: tuple(table.published(row).values()) for row in table.rows}
    assert rows["FT-SBERT+Manifold"] == (23, 60.28, 50.63, 60.19, 60.37, 60.28, 47.24)
    assert rows["E-FT-SBERT+Manifold"] == (23, 63.56, 52.10, 63.11, 64.01, 63.56, 48.85)
    # A mean rank and hits at 1, 3, 5, 10 and 15 that can go together.
    for name in ("table3", "table4"):
        table = get_table("type-induction", name)
        for row in table.rows:
            hits = [*table.published(row).values()][1:6]
            assert hits == sorted(hits)


def test_runs_are_trained_once_for_means_and_ensembles(call, trained, tmp_path):
    first = call("table1")
    assert [(run.seed, run.recipe) for run in trained] == [(7, "demo"), (8, "demo")]
    rows = rows_of(first)
    own = {row.label for row in get_table("type-induction", "table1").rows if row.slug}
    for label, cells in rows.items():
        assert not cells[-1].startswith("failed"), (label, cells[-1])
        assert label not in own or all(cell != "–" for cell in cells[:-1:2]), label
    assert rows["One cluster"][0:3:2] == ["1", "0.0"]
    content = content_of(first)
    mean = next(row for row in content["rows"] if row["label"] == "DotProduct+Agglo")
    assert (mean["seeds"], mean["ensemble"]) == ([7, 8], [])
    ensemble = next(row for row in content["rows"] if row["label"] == "E-DotProduct+Agglo")
    assert (ensemble["seeds"], ensemble["ensemble"]) == ([7], [7, 8])
    assert ensemble["scores"] != mean["scores"]
    table = get_table("type-induction", "table1")
    assert set(content["spread"]) == {row.label for row in table.rows if row.slug and row.averaged}
    assert "## Spread over 2 runs" in first.path.read_text()
    trained.clear()
    for name in ("table1", "table2"):
        again = call(name)
        assert trained == []
        assert str(tmp_path) not in again.path.read_text()
    assert rows_of(call("table1"))["E-DotProduct+Agglo"][-1] == "cached"
    assert "## Clusters of E-FT-SBERT+Manifold" in call("table2").path.read_text()


def test_names_are_given_by_models_that_were_trained_for_them(call, trained):
    rows = rows_of(call("table3"))
    auxiliary = [run for run in trained if "model.type_name_weight=1.0" in run.settings]
    assert [run.seed for run in auxiliary] == [7, 8]
    assert sorted(run.seed for run in trained) == [7, 7, 8, 8]
    assert rows["Perfect-FT-23"][-5:-1:2] == ["100.0", "100.0"]
    assert rows["E-Default-23"][-5:-1:2] == rows["E-FT-23"][-5:-1:2]


def test_the_recipe_goes_by_the_data(call, trained, tmp_path):
    mentions = tmp_path / "mine"
    mentions.mkdir()
    shutil.copy(SAMPLES / "event_types" / "mentions.jsonl", mentions)
    call("table2", data=mentions, evaluation_data=mentions)
    assert {run.recipe for run in trained} == {"minilm-geneva"}


def test_the_samples_have_a_name(call, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call("table2", data="samples")
    assert {run.recipe for run in trained} == {"demo"}


def test_a_table_has_at_least_one_run(tmp_path, tiny_encoder):
    with pytest.raises(EventformersError, match="runs is 0 for type-induction table1; accepted: 1 or more"):
        reproduce_table("type-induction", "table1", tmp_path, encoder=str(tiny_encoder), runs=0)


def test_means_and_spreads_over_runs(tiny_encoder):
    result = evaluate(str(tiny_encoder), "type_induction")
    other = replace(result, scores={name: value + 2 for name, value in result.scores.items()})
    split = ScoredSplit("type_induction", "test", "f", True)
    column = Column("type_induction", "ARI", "ari")
    row = ReproducedRow(PaperRow("X", "x"), {column: (split,)})
    row.results_of_runs = [{split: result}, {split: other}]
    assert scores_of(row) == {column: pytest.approx(result.scores["ari"] + 1)}
    call = SimpleNamespace(table=SimpleNamespace(columns=[column]), seed=1, runs=2)
    assert spread_of_runs(call, [row]).content == {"X": {column.key: pytest.approx(2**0.5)}}
    row.results_of_runs.pop()
    assert spread_of_runs(call, [row]) is None


def test_clusters_are_listed_by_their_purity():
    types = {0: "aaaaa", 1: "aaab", 2: "abbc", 3: "abcd", 4: "a"}
    predictions = [
        {"cluster": cluster, "event_type": name} for cluster, names in types.items() for name in names
    ]
    row = ReproducedRow(PaperRow("X", "x"), {})
    assert clusters_by_purity(row) is None
    row.results_of_runs = [{None: SimpleNamespace(predictions=predictions)}]
    found = clusters_by_purity(row)
    assert [[one["event_type"] for one in clusters] for clusters in found.content.values()] == [
        ["a"],
        ["a"],
        ["b"],
        ["a"],
        ["a"],
    ]
    assert "| strong (60 to 80 %) | 1 | a (4, 75.0 %) |" in found.section
