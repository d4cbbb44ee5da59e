from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import matplotlib.image
import pytest
from reproduced import content_of, rows_of

from eventformers.errors import EventformersError
from eventformers.evaluation import evaluate
from eventformers.evaluation.results import TaskResult, write_result
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import TASKS, Task
from eventformers.evaluation.tasks.chains import Chains
from eventformers.evaluation.tasks.pairs import PairSettings
from eventformers.methods import load_method
from eventformers.reproduction import rows as reproduced_rows
from eventformers.reproduction import runs as reproduced_runs
from eventformers.reproduction.planner import reproduce_table
from eventformers.reproduction.tables import get_table, paper_tables
from eventformers.trainers.recipes import load_recipe

HETEREVENT = load_method("heterevent")
TABLES = paper_tables()["mulcl"]
ABLATIONS = ("order", "replacement", "composition", "normal-corrupted", "corrupted-corrupted")


@pytest.fixture(scope="module")
def measure(tiny_heterevent: Path, tiny_encoder: Path) -> Iterator[Callable[..., TaskResult]]:
    """`evaluate` by a tiny model whatever model is asked for, each task once; MulCL answers all rightly."""
    known: dict[object, TaskResult] = {}
    session = Session()

    def evaluated(
        model: object,
        asked_task: Task,
        *,
        output: Path,
        settings: Mapping[str, object] = MappingProxyType({}),
        **others: object,
    ) -> TaskResult:
        task, asked = asked_task.name, bool(settings)
        if (task, asked) not in known:
            known[task, asked] = evaluate(
                str(tiny_heterevent),
                task,
                # The tiny model has three layers. The number only decides the name of the result here.
                settings={**settings, "num_layers": 1} if asked else None,
                baseline=str(tiny_encoder),
                session=session,
                batch_size=256,
            )
        name = Path(str(model)).name
        variant = PairSettings(**settings).name
        result = replace(known[task, asked], model=name, model_revision="1", variant=variant)
        if name.startswith("mulcl") and "accuracy" in result.scores and isinstance(TASKS[task].kind, Chains):
            right = [{"correct": _all_true(row["correct"])} for row in result.predictions]
            result = replace(result, scores={"accuracy": 100.0}, main_value=100.0, predictions=right)
        write_result(result, output, overwrite=True)
        return result

    with session:
        yield evaluated


def _all_true(value: object) -> object:
    return [True] * len(value) if isinstance(value, list) else True


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, measure: Callable[..., TaskResult]) -> list[SimpleNamespace]:
    """Replaces training and scoring; collects the trainings."""
    calls: list[SimpleNamespace] = []

    def train(method: str, output: Path, **arguments: object) -> SimpleNamespace:
        calls.append(SimpleNamespace(method=method, output=output, **arguments))
        results = [measure(output, task, output=output) for task in arguments["tasks"]]  # type: ignore[attr-defined]
        return SimpleNamespace(folder=output, results=results, run=SimpleNamespace(steps=3, seconds=1.5))

    monkeypatch.setattr(reproduced_runs, "train", train)
    monkeypatch.setattr(reproduced_rows, "evaluate", measure)
    return calls


@pytest.fixture
def baselines(monkeypatch: pytest.MonkeyPatch, measure: Callable[..., TaskResult]) -> list[str]:
    """Replaces the training of baselines on chains; collects their names."""
    calls: list[str] = []
    known = reproduced_rows.get_baseline

    def train(name: str, data: object, *, seed: int, **settings: object) -> str:
        calls.append(name)
        return name

    def get_baseline(name: str) -> Callable[..., TaskResult]:
        def score(task: str, *, trained: str, **settings: object) -> TaskResult:
            return measure(trained, task, **settings)

        return known(name) if name == "random" else score

    monkeypatch.setattr(reproduced_rows, "chain_training", train)
    monkeypatch.setattr(reproduced_rows, "get_baseline", get_baseline)
    return calls


@pytest.fixture
def call(tmp_path: Path, tiny_encoder: Path):
    """A table of MulCL on the samples; keyword arguments override."""

    def run(table: str, **changes: object):
        return reproduce_table("mulcl", table, tmp_path / "out", **{"encoder": str(tiny_encoder), **changes})

    return run


def _published(table: str) -> dict[str, dict[str, float]]:
    held = get_table("mulcl", table)
    return {
        row.label: {column.task: score for column, score in held.published(row).items() if score is not None}
        for row in held.rows
    }


def test_published_scores_are_those_of_the_tasks_and_of_the_recipes():
    inference, similarity = _published("table1"), _published("table2")
    for label in ("Event-comp", "EventTransE", "UniFA-S", "HeterEvent [E]", "MulCL [W+E]"):
        for task, score in inference[label].items():
            assert score == TASKS[task].published_scores[f"{label} (Zheng et al. 2022)"]
    for label in ("HeterEvent [W+E]", "MulCL [W+E]"):
        for task, score in similarity[label].items():
            assert score == TASKS[task].published_scores[f"{label}, BERT-base (Zheng et al. 2022)"]
    for model in ("HeterEvent", "MulCL"):
        for level in ("W", "E"):
            recipe = load_recipe("heterevent", f"{model}-{level}".lower())
            assert recipe.expected == inference[f"{model} [{level}]"]
    for contrast in ABLATIONS:
        recipe = load_recipe("heterevent", f"without-{contrast}")
        assert recipe.expected == _published("table3")[f"without {contrast} contrast"]
    assert load_recipe("heterevent", "paper").expected == inference["MulCL [W+E]"]


def test_all_tables_are_filled_and_each_run_is_trained_once(call, trained, baselines, tmp_path):
    tables = {name: call(name) for name in TABLES}
    names = [run.output.name.rpartition("-")[0] for run in trained]
    models = [f"{name}-{level}" for name in ("heterevent", "mulcl") for level in ("w", "e", "we")]
    hops = [f"{name}-we-hops-{number}" for name in ("heterevent", "mulcl") for number in (1, 2, 4)]
    assert sorted(names) == sorted(["swcc", *models, *(f"without-{one}" for one in ABLATIONS), *hops])
    # Those with vectors of events once more, since a baseline is not kept: for the similarity tasks.
    assert (len(baselines), len(set(baselines))) == (10, 6)
    for name, table in tables.items():
        own = {row.label for row in get_table("mulcl", name).rows if row.slug}
        for label, row in rows_of(table).items():
            assert not row[-1].startswith("failed"), (name, label, row[-1])
            assert label not in own or all(score != "–" for score in row[:-1:2]), (name, label)
        assert str(tmp_path) not in table.path.read_text() + table.path.with_suffix(".json").read_text()
    assert rows_of(tables["table3"])["MulCL [W+E]"][-1] == "cached"
    trained.clear()
    baselines.clear()
    # A table of chains, one of single events, and a figure.
    again = {name: call(name) for name in ("table1", "table2", "figure3")}
    assert trained == baselines == []
    for name, table in again.items():
        assert [row[:-1] for row in table.rows] == [row[:-1] for row in tables[name].rows]


def test_mulcl_is_compared_with_every_other_row(call, trained, baselines):
    table = call("table1")
    assert "untrained encoder (encoder)" not in rows_of(table)
    pairs = content_of(table)["comparisons"]["pairs"]
    own = {row.label for row in get_table("mulcl", "table1").rows if row.slug}
    assert {one["other"] for one in pairs} == own - {"MulCL [W+E]"}
    (compared,) = (one for one in pairs if (one["other"], one["column"]) == ("HeterEvent [W+E]", "mcnc"))
    rows = {row["label"]: row["scores"]["mcnc"] for row in content_of(table)["rows"] if row["scores"]}
    assert compared["difference"] == pytest.approx(100 - rows["HeterEvent [W+E]"])
    assert 0 < compared["low"] <= compared["difference"] <= compared["high"]
    assert compared["questions"] > 0
    assert "## Comparisons" in table.path.read_text()


def test_swcc_learns_from_the_documents_of_the_training_chains_alone(call, trained, baselines):
    call("table2", recipe="demo", settings=["supervised.max_steps=3"])
    (swcc,) = (run for run in trained if run.method == "swcc")
    assert swcc.recipe == "demo"
    assert list(swcc.settings) == ["data.document_split=train"]
    (other, *_) = (run for run in trained if run.method == "heterevent")
    assert list(other.settings)[:2] == ["supervised.max_steps=3", "stages=[supervised]"]


def test_what_is_not_pretrained_starts_from_its_own_recipe(call, trained):
    call("table3", recipe="minilm")
    call("figure4", recipe="minilm", settings=["sequence.max_steps=3", "supervised.max_steps=5"])
    started = {run.output.name.rpartition("-")[0]: run.recipe for run in trained}
    assert started["heterevent-we"] == "minilm-heterevent"
    assert started["mulcl-we"] == started["without-order"] == "minilm"
    (settings,) = (run.settings for run in trained if run.output.name.startswith("heterevent"))
    assert settings[0] == "supervised.max_steps=5"


def test_single_events_are_read_in_contexts_and_alone(call, trained, baselines, measure, tmp_path):
    rows = rows_of(call("table2"))
    own = ("MulCL [W+E]", "MulCL [W+E], events read alone (beyond the paper)")
    in_context, alone = (rows[label] for label in own)
    assert in_context[:-1:2] != alone[:-1:2]
    assert alone[1:-1:2] == ["–"] * 3
    expected = measure("x", TASKS["hard_similarity"], output=tmp_path)
    assert alone[0] == f"{expected.main_value:.1f}"


def test_figure3_claims_three_hops_for_inference_one_for_similarity_and_mulcl_at_each():
    figure = get_table("mulcl", "figure3")
    assert tuple(figure.drawn) == figure.columns
    for column, pairs in figure.drawn.items():
        best = "1 hop" if "similarity" in column.task else "3 hops"
        for model in ("HeterEvent [W+E]", "MulCL [W+E]"):
            assert sum(one == f"{model}, {best}" and other.startswith(model) for one, other in pairs) == 3
        hops = {one.partition(", ")[2] for one, other in pairs if other.startswith("Het") and "MulCL" in one}
        assert hops == {"1 hop", "2 hops", "3 hops", "4 hops"}


def test_hops_are_drawn(call, trained, tmp_path):
    table = call("figure3")
    hops = content_of(table)["hops"]
    assert list(hops) == [column.title for column in get_table("mulcl", "figure3").columns]
    assert set(hops["MCNC"]) == {"HeterEvent [W+E]", "MulCL [W+E]"}
    assert list(hops["MCNC"]["MulCL [W+E]"]) == ["1", "2", "3", "4"]
    assert matplotlib.image.imread(table.path.with_suffix(".png")).std() > 0
    assert "](figure3.png)" in table.path.read_text()


def test_scores_by_degree_count_every_question(call, trained):
    table = call("figure4")
    degrees = content_of(table)["degrees"]
    assert [list(row["trainings"].values()) for row in content_of(table)["rows"]] == [[1.5], [1.5]]
    figure = get_table("mulcl", "figure4")
    assert len(figure.columns) == 8
    scores = next(row["scores"] for row in content_of(table)["rows"] if row["label"].startswith("Heter"))
    for column in figure.columns:
        of_mulcl, of_heterevent = (degrees[column.title][f"{name} [W+E]"] for name in ("MulCL", "HeterEvent"))
        assert [one["questions"] for one in of_mulcl] == [one["questions"] for one in of_heterevent]
        assert all(one["high"] is None or one["low"] < one["high"] < math.inf for one in of_mulcl)
        if isinstance(TASKS[column.task].kind, Chains):
            assert {one["score"] for one in of_mulcl} == {100.0}
        if column.score == "accuracy":
            questions = sum(one["questions"] for one in of_heterevent)
            mean = sum(one["score"] * one["questions"] for one in of_heterevent) / questions
            assert mean == pytest.approx(scores[column.task])
    assert matplotlib.image.imread(table.path.with_suffix(".png")).std() > 0


def test_a_virtual_context_has_a_result_of_its_own_for_each_number_of_layers():
    names = {PairSettings(virtual_context="samples", num_layers=layers).name for layers in (1, 2, 3, 4)}
    assert len(names) == 4


def test_stages_that_runs_share_are_trained_once(call, monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(
        reproduced_runs, "train", functools.partial(reproduced_runs.train, create_model_card=False)
    )
    table = get_table("mulcl", "table3")
    rows = tuple(
        row for row in get_table("mulcl", "table1").rows if row.label in ("MulCL [W]", "MulCL [W+E]")
    )
    monkeypatch.setitem(TABLES, "table3", replace(table, columns=table.columns[:1], rows=rows))
    settings = ["max_steps=1", "num_train_epochs=1", "event_dim=8", "chain_dim=8", "num_corrupted=2"]
    settings += ["num_segments=2", "num_views=2", "per_device_train_batch_size=4", "validation_rows=0"]
    settings += ["early_stopping_patience=null"]
    with caplog.at_level("INFO", logger="eventformers"):
        states = {label: row[-1] for label, row in rows_of(call("table3", settings=settings)).items()}
    assert states["MulCL [W]"].startswith("trained")
    assert states["MulCL [W+E]"].startswith("resumed")
    assert "goes on from 3 stages of mulcl-w-" in caplog.text
    first, second = (next((tmp_path / "out" / "mulcl").glob(f"{slug}-*")) for slug in ("mulcl-w", "mulcl-we"))
    for stage in ("1-masked_words", "2-sequence", "3-graph"):
        files = [folder / "stages" / stage / "model.safetensors" for folder in (first, second)]
        assert files[0].read_bytes() == files[1].read_bytes()
    assert len(json.loads((second / "training_log.json").read_text())) == 4
    assert (first / "model.safetensors").read_bytes() != (second / "model.safetensors").read_bytes()


def test_data_without_chains_cost_the_rows_that_learn_from_them(call, trained, tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "hard.txt").write_text("")
    with pytest.raises(EventformersError):
        call("table1", data=folder)
