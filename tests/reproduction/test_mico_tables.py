from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from reproduced import content_of, rows_of
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from eventformers.datasets_scripts.base import SAMPLES
from eventformers.errors import EventformersError
from eventformers.evaluation import evaluate
from eventformers.evaluation.results import TaskResult, write_result
from eventformers.evaluation.tasks import TASKS, Task
from eventformers.methods import load_method
from eventformers.models.modeling_mico import MicoForPreTraining
from eventformers.reproduction import rows as reproduced_rows
from eventformers.reproduction import runs as reproduced_runs
from eventformers.reproduction.planner import reproduce_table
from eventformers.reproduction.tables import get_table, paper_tables
from eventformers.reproduction.writing import _is_published_data
from eventformers.trainers.recipes import load_recipe
from eventformers.trainers.run import resolve_recipe

MICO = load_method("mico")
LANGUAGE_MODELS = ("masked_lm", "causal_lm")
OWN_LANGUAGE_MODEL = "masked language model, this encoder"


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """The first lines of the samples, and a test set of COPA with two questions."""
    folder = tmp_path_factory.mktemp("commonsense")
    for path in SAMPLES.joinpath("commonsense").glob("*/*"):
        target = folder / path.parent.name / path.name
        target.parent.mkdir(exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = lines[: 40 if path.suffix == ".txt" else 6]
        if path.suffix == ".xml":
            items = "".join(lines[2:]).split("</item>")
            kept = [*lines[:2], *(f"{item}</item>" for item in items[:4]), "\n</copa-corpus>\n"]
            test = [*lines[:2], *(f"{item}</item>" for item in items[4:6]), "\n</copa-corpus>\n"]
            target.with_name("copa-test.xml").write_text("".join(test), encoding="utf-8")
        target.write_text("".join(kept), encoding="utf-8")
    return folder


@pytest.fixture
def call(tmp_path, tiny_encoder, data):
    """A table of MICO; keyword arguments override."""

    def run(table: str, **changes: object):
        settings = {"data": data, "evaluation_data": data, "encoder": str(tiny_encoder), **changes}
        return reproduce_table("mico", table, tmp_path / "out", **settings)

    return run


@pytest.fixture(scope="module")
def scored() -> Callable[..., TaskResult]:
    """Scores a run; all runs are the untrained start, so that each task is scored once."""

    known: dict[tuple[str, str, str], TaskResult] = {}

    def score(folder: Path, encoder: str, task: Task, data: str | Path) -> TaskResult:
        key = (encoder, task.name, str(data))
        if key not in known:
            known[key] = evaluate(str(folder), task, data=data)
        result = replace(known[key], model=folder.name)
        write_result(result, folder)
        return result

    return score


@pytest.fixture
def trained(monkeypatch, scored):
    """Replaces training by saving the start; collects the calls."""
    calls: list[SimpleNamespace] = []

    def train(method: str, output: Path, **arguments: object) -> SimpleNamespace:
        calls.append(SimpleNamespace(method=method, output=output, **arguments))
        head = MicoForPreTraining.from_encoder(arguments["encoder"], pooling="cls")
        head.save_pretrained(output)
        AutoTokenizer.from_pretrained(arguments["encoder"]).save_pretrained(output)
        (output / "run.json").write_text(json.dumps({"encoder": arguments["encoder"]}))
        results = [
            scored(output, arguments["encoder"], task, arguments["evaluation_data"])
            for task in arguments["tasks"]
        ]
        return SimpleNamespace(folder=output, results=results, run=SimpleNamespace(steps=3, seconds=1.5))

    monkeypatch.setattr(reproduced_runs, "train", train)
    return calls


@pytest.fixture
def measured(monkeypatch, tiny_encoder):
    """Replaces embeddings, which need PyKEEN, by the untrained encoder; collects the calls."""
    calls: list[tuple[str, str]] = []
    known = reproduced_rows.get_baseline

    def get_baseline(name: str):
        def measure(task: Task, data: object, **arguments: object):
            calls.append((name, task.name))
            if name in ("random", *LANGUAGE_MODELS):
                return known(name)(task, data, **arguments)
            chosen = {key: arguments[key] for key in ("seed", "split", "output")}
            return evaluate(tiny_encoder, task, data=data, **chosen)

        return measure

    monkeypatch.setattr(reproduced_rows, "get_baseline", get_baseline)
    return calls


@pytest.mark.parametrize("recipe", ["paper-bert-base", "paper-bert-base-atomic"])
def test_the_paper_recipes_expect_what_the_tables_say(recipe):
    expected = load_recipe("mico", recipe).expected
    graph = "ATOMIC" if recipe.endswith("atomic") else "ConceptNet"
    for name, columns in (("table6", {"mrr"}), ("table5", {"accuracy"}), ("table7", {"accuracy"})):
        table = get_table("mico", name)
        labels = (f"k = 2, {graph} (paper: BERT-base)", f"hard positive, {graph} (paper: BERT-base)")
        (row,) = (row for row in table.rows if row.label in labels)
        scores = {
            column.task: score
            for column, score in table.published(row).items()
            if column.score in columns and score is not None
        }
        assert scores.items() <= expected.items()
        assert scores


def test_published_scores_are_those_of_the_tasks():
    for name, row_label, task, known in (
        ("table3", "ConvE", "conceptnet_completion", "ConvE, test (Su et al. 2022)"),
        (
            "table3",
            "MICO, RoBERTa-large, ATOMIC",
            "atomic_completion",
            "MICO, RoBERTa-large, test (Su et al. 2022)",
        ),
        ("table2", "self-talk (Shwartz et al., 2020)", "csqa", "self-talk, dev (Su et al. 2022)"),
    ):
        table = get_table("mico", name)
        (row,) = (row for row in table.rows if row.label == row_label)
        published = [(column.task, score) for column, score in table.published(row).items()]
        scores = dict(published[::-1])
        assert scores[task] == TASKS[task].published_scores[known]


def test_all_tables_are_filled_and_share_their_runs(call, trained, measured, tmp_path):
    tables = {name: call(name) for name in paper_tables()["mico"]}
    # Both graphs: k = 1 to 4 with the hard positive, k = 2 with the random one.
    assert len({run.output for run in trained}) == len(trained) == 10
    assert {run.recipe for run in trained} == {"paper-bert-base"}
    for name, table in tables.items():
        assert all(len(row) == len(table.header) for row in table.rows), name
        assert table.rows[-1][0] == "untrained encoder (encoder)"
        assert str(tmp_path) not in table.path.read_text() + table.path.with_suffix(".json").read_text()
        own = {row.label for row in get_table("mico", name).rows if row.slug}
        failed = {label for label, row in rows_of(table).items() if row[-1].startswith("failed")}
        # The tiny encoder has no head, and the encoders of the paper are not here.
        assert failed == {
            row.label
            for row in get_table("mico", name).rows
            if row.encoder or row.baseline in LANGUAGE_MODELS
        }
        for label in own - failed:
            assert any(score != "–" for score in rows_of(table)[label][:-1:2]), (name, label)
    assert rows_of(tables["table4"])["MICO, this encoder, ATOMIC"][-1] == "cached"
    assert rows_of(tables["table6"])["k = 1, ATOMIC (paper: BERT-base)"][-1] == "cached, scored again"
    trained.clear()
    measured.clear()
    again = {name: call(name) for name in paper_tables()["mico"]}
    assert trained == []
    assert {name for name, _ in measured} == {"masked_lm"}
    for name, table in again.items():
        assert [row[:-1] for row in table.rows] == [row[:-1] for row in tables[name].rows]


def test_questions_are_told_by_split(call, trained):
    table = call("table2")
    rows = rows_of(table)
    assert table.header[1:-1:2] == ["COPA dev", "COPA test", "SIQA dev", "SIQA test", "CSQA dev"]
    assert rows["choice at random"][:-1:2] == ["50.0", "50.0", "33.3", "–", "20.0"]
    # On six of 1,954 questions no published score stands beside ours; without test questions, ours is absent.
    assert rows["choice at random"][1::2] == ["–", "–", "–", "33.3", "–"]
    assert rows["KRL (Banerjee and Baral, 2020)"][1:-1:2] == ["–", "–", "–", "46.4", "–"]
    text = "Without published scores, since ours are measured on other rows than the paper's: {}."
    assert text.format("COPA dev, COPA test, SIQA dev, CSQA dev") in table.path.read_text()
    assert "no trained masked-language-model head" in rows[OWN_LANGUAGE_MODEL][-1]
    assert "| COPA | validation | 4 | 500 |" in table.path.read_text()
    assert "| COPA | test | 2 | 500 (validation) |" in table.path.read_text()


def test_published_scores_stand_beside_ours_on_the_samerows_of(call, trained, monkeypatch):
    for name, published_rows in (("copa", 4), ("siqa", 6), ("csqa", 6)):
        monkeypatch.setitem(TASKS, name, replace(TASKS[name], published_rows=published_rows))
    for column in get_table("mico", "table2").columns[:2]:
        for split, published_rows in (("validation", 4), ("test", 2)):
            monkeypatch.setitem(column.rows, split, published_rows)
    rows = rows_of(call("table2"))
    assert rows["choice at random"][1::2] == ["50.0", "50.0", "33.3", "33.3", "25.0"]
    assert rows["KRL (Banerjee and Baral, 2020)"][1:-1:2] == ["–", "–", "46.6", "46.4", "36.8"]


def test_an_encoder_with_its_head_is_scored_as_a_language_model(call, trained, tiny_encoder, tmp_path):
    folder = tmp_path / "with-head"
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(folder)
    BertForMaskedLM(BertConfig.from_pretrained(tiny_encoder)).save_pretrained(folder)
    row = rows_of(call("table2", encoder=str(folder)))[OWN_LANGUAGE_MODEL]
    assert row[-1].startswith("measured")
    assert "–" not in (row[0], row[2], row[4], row[8])


def test_a_row_can_have_an_encoder_of_its_own(call, trained, tiny_encoder, tmp_path, monkeypatch):
    tables = paper_tables()["mico"]
    own = tmp_path / "own"
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(own)
    BertForMaskedLM(BertConfig.from_pretrained(tiny_encoder)).save_pretrained(own)
    rows = [replace(row, encoder=str(own)) if row.encoder else row for row in tables["table4"].rows]
    monkeypatch.setitem(tables, "table4", replace(tables["table4"], rows=tuple(rows)))
    monkeypatch.setattr("eventformers.reproduction.planner.get_table", lambda paper, table: tables[table])
    table = call("table4")
    assert {run.encoder for run in trained} == {str(own), str(tiny_encoder)}
    found = rows_of(table)
    assert found["BERT-base, masked language model"][-1].startswith("measured")
    assert "no trained masked" in found["this encoder, masked language model"][-1]
    settings = {"training.learning_rate=5.0e-6", "model.feature_dropout=0.05"}
    assert sum(settings <= {*run.settings} for run in trained) == 2
    content = content_of(table)
    assert {row["encoder"] for row in content["rows"]} == {str(own), None}


def test_the_rows_of_an_encoder_have_the_settings_of_its_recipe():
    for row in get_table("mico", "table4").rows:
        if not row.encoder or row.baseline:
            continue
        recipe = resolve_recipe(MICO, MICO.paper_recipe, row.overrides, 42)
        name = "paper-" + row.slug.removeprefix("mico-").removesuffix("-conceptnet")
        own = load_recipe("mico", name)
        assert (recipe.model, recipe.data, recipe.views) == (own.model, own.data, own.views)
        assert recipe.training == own.training
        assert row.encoder == own.encoder


def test_copa_is_the_mean_over_the_rows_of_both_of_its_sets(call, trained, tmp_path):
    call("table2")
    (folder,) = (tmp_path / "out" / "mico").glob("mico-atomic-*")
    for path in folder.rglob("copa.json"):
        result = json.loads(path.read_text())
        result["scores"]["accuracy"] = {"validation": 40.0, "test": 100.0}[result["dataset"]["split"]]
        path.write_text(json.dumps(result))
    table = call("table4")
    assert rows_of(table)["MICO, this encoder, ATOMIC"][0] == "60.0"
    content = content_of(table)
    assert content["rows"][-1]["scores"]["copa validation+test"] == pytest.approx((4 * 40 + 2 * 100) / 6)


def test_a_row_is_scored_on_its_own_graph_alone(call, trained, measured):
    table = call("table3")
    rows = rows_of(table)
    conceptnet = rows["MICO, this encoder, ConceptNet"]
    atomic = rows["MICO, this encoder, ATOMIC"]
    assert (conceptnet[4], conceptnet[6], atomic[0], atomic[2]) == ("–",) * 4
    assert conceptnet[1:4:2] == ["–", "–"]
    content = content_of(table)
    published = {row["label"]: row["paper"] for row in content["rows"]}["MICO, BERT-base, ConceptNet"]
    assert list(published.values())[:2] == [9.0, 19.06]
    assert [[task.name for task in run.tasks] for run in trained] == [
        ["conceptnet_completion"],
        ["atomic_completion"],
    ]
    content = content_of(table)
    scores = {row["label"]: row["scores"] for row in content["rows"]}
    found = scores["MICO, this encoder, ConceptNet"]
    assert 0 < found["conceptnet_completion"] < 100
    assert found["conceptnet_completion hits_at_10"] % 1 != found["conceptnet_completion"] % 1
    # Both graphs for what is untrained or no model of ours.
    assert set(content["untrained"]) == set(scores["ConvE"]) == {column.key for column in _columns("table3")}
    assert rows["RotatE"][-1].startswith("measured")


def test_the_reranked_row_shares_its_run_and_has_its_own_scores(call, trained, measured):
    content = content_of(call("table3"))
    of = {
        (row["folder"], row["rerank"]): row["scores"]
        for row in content["rows"]
        if row["overrides"] and not row["encoder"]
    }
    assert len(of) == 4
    assert len({folder for folder, _ in of}) == 2
    for (folder, rerank), scores in of.items():
        assert not rerank or scores != of[folder, False]
    (plain,) = (scores for (_, rerank), scores in of.items() if not rerank and "atomic_completion" in scores)
    assert content["untrained"]["atomic_completion"] == plain["atomic_completion"]


def test_a_baseline_that_cannot_run_costs_no_other_row(call, trained, monkeypatch):
    def get_baseline(name: str):
        def measure(*arguments: object, **settings: object) -> None:
            raise EventformersError("PyKEEN is not installed; run `pip install eventformers[baselines]`")

        return measure

    monkeypatch.setattr(reproduced_rows, "get_baseline", get_baseline)
    rows = rows_of(call("table3"))
    for label in ("ConvE", "RotatE", "ComplEx (not in the paper)"):
        assert "pip install eventformers[baselines]" in rows[label][-1]
    assert rows["MICO, this encoder, ATOMIC"][4] != "–"


def test_training_data_of_one_graph_cost_the_rows_of_the_other(call, trained, data, tmp_path):
    folder = tmp_path / "conceptnet"
    folder.mkdir()
    for name in ("CN-82K", "CN-82K-Ind"):
        (folder / name).symlink_to(data / name)
    table = call("table7", data=folder)
    rows = rows_of(table)
    assert rows["hard positive, ATOMIC (paper: BERT-base)"][-1].startswith("failed: no raw file")
    assert rows["hard positive, ConceptNet (paper: BERT-base)"][-1].startswith("trained")
    assert str(tmp_path) not in table.path.read_text()
    assert len(trained) == 2
    with pytest.raises(EventformersError, match="no raw file"):
        call("table7", data=data / "COPA")
    with pytest.raises(EventformersError, match="no raw file"):
        call("table7", data=folder, rows=["hard positive, ATOMIC (paper: BERT-base)"])


def test_columns_that_the_evaluation_data_lack_stay_empty(call, trained, data, caplog):
    table = call("table4", evaluation_data=os.pathsep.join([str(data / "SIQA"), str(data / "CSQA")]))
    row = rows_of(table)["MICO, this encoder, ATOMIC"]
    assert row[0] == "–"
    assert "–" not in (row[2], row[4])
    assert trained[0].tasks == [TASKS["siqa"], TASKS["csqa"]]
    assert "the columns of copa stay empty" in caplog.text
    assert content_of(table)["evaluation_data"] == "SIQA CSQA"
    assert "| Social IQA | validation | 6 | 1,954 | local |" in table.path.read_text()
    with pytest.raises(EventformersError, match="no raw file"):
        call("table4", evaluation_data=data / "CN-82K")


def _columns(name: str):
    return get_table("mico", name).columns


def test_a_mean_over_splits_is_the_papers_only_over_all_of_them():
    column = next(one for one in get_table("mico", "table4").columns if one.task == "copa")
    halves = [
        SimpleNamespace(dataset=SimpleNamespace(split=split, rows=500, origin="local"))
        for split in ("validation", "test")
    ]
    assert _is_published_data(column, halves)
    assert not _is_published_data(column, halves[:1])
    halves[1].dataset.rows = 499
    assert not _is_published_data(column, halves)
