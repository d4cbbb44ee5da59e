from __future__ import annotations

import functools
import json
import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from planted_chains import planted_chains
from reproduced import content_of, rows_of

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation import evaluate
from eventformers.evaluation.results import TaskResult, write_result
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import TASKS, Task
from eventformers.inference.encode import load_encoder
from eventformers.methods import load_method
from eventformers.reproduction import rows as reproduced_rows
from eventformers.reproduction import runs as reproduced_runs
from eventformers.reproduction.planner import reproduce_table
from eventformers.reproduction.runs import RUN_RECORD
from eventformers.reproduction.tables import get_table, paper_tables
from eventformers.trainers.recipes import load_recipe
from eventformers.trainers.run import resolve_recipe

SIMILARITY_TASKS = ("hard_similarity", "hard_similarity_extended", "transitive_similarity")

HARD = [
    "court | hear | case | judge | consider | suit | court | hear | noise | judge | eat | case",
    "army | attack | city | troops | storm | town | army | attack | problem | troops | storm | off",
    "firm | buy | rival | company | acquire | competitor | firm | buy | lunch | company | acquire | taste",
]
GRADED = [
    "police | arrest | thief | officer | catch | robber | 6.5",
    "storm | hit | city | man | buy | car | 1.2",
]
GRADED += ["team | win | game | club | lose | match | 4.1"]


@pytest.fixture
def evaluation_data(tmp_path):
    folder = tmp_path / "similarity"
    folder.mkdir()
    (folder / "hard.txt").write_text("\n".join(HARD) + "\n")
    (folder / "hard_extend.txt").write_text("\n".join(HARD[:2]) + "\n")
    (folder / "transitive.txt").write_text("\n".join(GRADED) + "\n")
    return folder


@pytest.fixture
def call(tmp_path, tiny_encoder, evaluation_data):
    """A table of tiny runs; keyword arguments override."""

    def run(table: str = "table2", **changes: object):
        settings = {"recipe": "demo", "encoder": str(tiny_encoder), "evaluation_data": evaluation_data}
        return reproduce_table("swcc", table, tmp_path / "out", **{**settings, **changes})

    return run


@pytest.fixture(scope="module")
def scored() -> dict[tuple[str, ...], list[TaskResult]]:
    """Scores of the untrained encoder by the texts that it is scored on, for all tests."""
    return {}


@pytest.fixture
def trained(monkeypatch, encoder, scored):
    """Replaces training by the scores of the untrained encoder; collects the calls."""
    calls: list[SimpleNamespace] = []

    def train(method: str, output: Path, **arguments: object) -> SimpleNamespace:
        checkpoints = sorted(path.name for path in output.glob("checkpoint-*"))
        calls.append(SimpleNamespace(method=method, output=output, checkpoints=checkpoints, **arguments))
        data = arguments["evaluation_data"]
        rows = (method, *(path.read_text() for path in sorted(Path(data).iterdir())))
        if rows not in scored:
            scored[rows] = [
                evaluate(encoder, task, data=data, baseline=encoder) for task in load_method(method).tasks
            ]
        results = [replace(result, model=output.name) for result in scored[rows]]
        for result in results:
            write_result(result, output)
        return SimpleNamespace(folder=output, results=results, run=SimpleNamespace(steps=3, seconds=1.5))

    monkeypatch.setattr(reproduced_runs, "train", train)
    return calls


def _states(table):
    return {label: cells[-1] for label, cells in rows_of(table).items()}


@pytest.mark.parametrize("table", paper_tables()["swcc"])
def test_every_row_has_three_published_scores(table):
    for row in get_table("swcc", table).rows:
        scores = [score for score in get_table("swcc", table).published(row).values() if score is not None]
        # Figure 3 prints no numbers, and no paper has the untrained encoder.
        expected = (
            1 if table == "table3" else 3 if table != "figure3" or row.label == "SWCC, 10 prototypes" else 0
        )
        assert len(scores) == (0 if row.baseline == "untrained" else expected)
        assert all(0 < score < (1 if place == 2 else 100) for place, score in enumerate(scores))


@pytest.mark.parametrize("row", get_table("swcc", "table2").rows, ids=lambda row: row.slug)
def test_the_rows_of_table_2_are_the_recipes_of_these_names(row):
    recipe = load_recipe("swcc", "paper" if row.slug == "swcc" else row.slug)
    assert (
        resolve_recipe(load_method("swcc"), "paper", row.overrides, 1).model.items()
        <= {
            "margin": 0.5,
            **recipe.model,
        }.items()
    )
    assert recipe.expected == row.published
    assert set(row.published) == set(SIMILARITY_TASKS)


def test_the_full_model_has_the_best_scores_that_tasks_publish():
    (row,) = (row for row in get_table("swcc", "table1").rows if row.slug == "swcc")
    assert row.published == {task: max(TASKS[task].published_scores.values()) for task in SIMILARITY_TASKS}


def test_a_table_stands_beside_the_paper_and_the_untrained_encoder(call, trained, tmp_path):
    table = call()
    assert table.path == tmp_path / "out" / "swcc" / "table2.md"
    assert table.header[0] == "model"
    assert table.header[2::2] == ["published"] * 3
    assert [row[0] for row in table.rows][:2] == ["SWCC", "without prototype-based clustering"]
    assert table.rows[-1][0] == "untrained encoder (encoder)"
    assert table.rows[0][2:7:2] == ["–"] * 3
    assert all(len(row) == len(table.header) for row in table.rows)
    written = table.path.read_text(encoding="utf-8")
    assert "SWCC (Gao et al., 2022), Table 2" in written
    assert "seed 7" in written
    assert "| 3 | 115 |" in written
    assert str(tmp_path) not in written
    content = content_of(table)
    assert content["seed"] == 7
    first = content["rows"][0]
    result = json.loads(
        next((tmp_path / "out/swcc" / first["folder"]).rglob("hard_similarity.json")).read_text()
    )
    assert first["scores"]["hard_similarity"] == result["main_value"]
    assert content["untrained"]["hard_similarity"] == result["baseline"]["main_value"]
    assert str(tmp_path) not in table.path.with_suffix(".json").read_text()


def test_published_scores_stand_beside_ours_on_the_same_rows(call, trained, monkeypatch):
    monkeypatch.setitem(TASKS, "hard_similarity", replace(TASKS["hard_similarity"], published_rows=3))
    table = call()
    assert table.rows[0][2:7:2] == ["80.9", "–", "–"]
    assert "other rows than the paper's" in table.path.read_text(encoding="utf-8")


def test_each_row_trains_with_its_own_settings_over_the_users(call, trained):
    call(settings=["model.mlm_weight=0.5", "max_steps=2"])
    assert len(trained) == 6
    by_label = {call_.output.name.rpartition("-")[0]: call_ for call_ in trained}
    assert list(by_label["swcc"].settings) == ["model.mlm_weight=0.5", "max_steps=2"]
    assert by_label["no-mlm"].settings[-1] == "model.mlm_weight=0.0"
    recipe = resolve_recipe(load_method("swcc"), "demo", by_label["no-mlm"].settings, 1)
    assert recipe.model["mlm_weight"] == 0
    assert {call_.seed for call_ in trained} == {7}


def test_a_second_call_fills_only_what_is_missing(call, trained, tmp_path):
    first = call()
    trained.clear()
    second = call()
    assert trained == []
    assert set(list(_states(second).values())[:-1]) == {"cached"}
    assert [row[:-1] for row in second.rows] == [row[:-1] for row in first.rows]
    (folder,) = (tmp_path / "out" / "swcc").glob("no-mlm-*")
    (folder / RUN_RECORD).unlink()
    third = call()
    assert [call_.output for call_ in trained] == [folder]
    assert trained[0].overwrite
    assert not trained[0].resume
    assert _states(third)["without MLM"].startswith("trained")


def test_a_row_of_several_runs_shows_their_mean(call, trained, tmp_path):
    single = call()
    trained.clear()
    table = call(runs=3)
    assert [run.seed for run in trained] == [8, 9] * 6
    assert table.rows[0][-1].startswith("2 trained")
    assert [row[:-1] for row in table.rows] == [row[:-1] for row in single.rows]
    content = content_of(table)
    assert (content["runs"], content["rows"][0]["seeds"]) == (3, [7, 8, 9])
    assert set(content["spread"]["SWCC"]) == set(SIMILARITY_TASKS)
    assert "## Spread over 3 runs" in table.path.read_text(encoding="utf-8")
    assert {one["other"] for one in content["comparisons"]["pairs"]} == {row[0] for row in table.rows[1:-1]}


def test_tables_share_the_rows_that_are_equal(call, trained):
    call("table1", recipe="paper", settings=["min_event_frequency=1", "min_pair_frequency=1"])
    trained.clear()
    states = _states(
        call("table6", recipe="paper", settings=["min_event_frequency=1", "min_pair_frequency=1"])
    )
    assert states["γ = 1.0"] == "cached"
    assert len(trained) == 4


def test_rows_that_a_recipe_makes_equal_are_run_once(call, trained):
    states = _states(call(settings=["model.cluster_weight=0.0"]))
    assert states["without prototype-based clustering"] == "the run of SWCC"
    assert len(trained) == 5


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 8},
        {"settings": ["learning_rate=3e-4"]},
        {"dtype": "bfloat16"},
        {"settings": ["window=3"]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_decides_the_outcome_makes_another_run(call, trained, change):
    call("table1", rows=["SWCC"])
    call("table1", rows=["SWCC"], **change)
    assert len({call_.output for call_ in trained}) == 2


def test_another_encoder_makes_another_run(call, trained, tiny_encoder_without_dropout):
    call("table1", rows=["SWCC"])
    call("table1", rows=["SWCC"], encoder=str(tiny_encoder_without_dropout))
    assert len({call_.output for call_ in trained}) == 2


def test_other_training_rows_make_another_run(call, trained, tmp_path):
    folders = []
    for number in range(2):
        folder = tmp_path / f"chains-{number}"
        folder.mkdir()
        events = [[f"man {letter}", "sold", f"car {number}"] for letter in "abc"]
        document = {"document_id": "d", "source": "test", "license": "Apache-2.0", "events": events}
        (folder / "events.jsonl").write_text(json.dumps(document) + "\n")
        folders.append(folder)
        call("table1", data=folder)
    call("table1", data=folders[0])
    assert len({call_.output for call_ in trained}) == len(trained) == 2


def test_a_default_that_is_spelled_out_changes_nothing(call, trained):
    call("table1", rows=["SWCC"])
    stated = ["num_prototypes=10", "model.contrastive_objective=weakly_supervised"]
    call("table1", rows=["SWCC"], settings=stated)
    assert len(trained) == 1


def test_a_failed_row_costs_no_other(call, trained, monkeypatch, caplog):
    works = reproduced_runs.train

    def fails_once(method: str, output: Path, **arguments: object) -> object:
        if output.name.startswith("no-mlm"):
            raise RuntimeError("the disk\nis full")
        return works(method, output, **arguments)

    monkeypatch.setattr(reproduced_runs, "train", fails_once)
    with caplog.at_level(logging.ERROR):
        table = call()
    assert _states(table)["without MLM"] == "failed: the disk is full"
    assert "the disk is full" in table.path.read_text()
    assert "RuntimeError" in caplog.text
    assert len(trained) == 5
    monkeypatch.setattr(reproduced_runs, "train", works)
    assert _states(call())["without MLM"].startswith("trained")
    assert len(trained) == 6


def test_a_table_of_failures_is_an_error(call, monkeypatch):
    def fails(*arguments: object, **settings: object) -> None:
        raise EventformersError("out of memory")

    monkeypatch.setattr(reproduced_runs, "train", fails)
    with pytest.raises(EventformersError, match=r"every row of swcc table1 failed.*out of memory"):
        call("table1", rows=["SWCC"])


def test_a_drawn_seed_outlives_a_kill(call, monkeypatch, tmp_path, trained):
    recipe = tmp_path / "seedless.yaml"
    recipe.write_text("training: {max_steps: 2}\n")
    works = reproduced_runs.train

    def killed(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduced_runs, "train", killed)
    with pytest.raises(KeyboardInterrupt):
        call("table5", recipe=str(recipe))
    recorded = json.loads((tmp_path / "out/swcc/table5.json").read_text())["seed"]
    monkeypatch.setattr(reproduced_runs, "train", works)
    call("table5", recipe=str(recipe))
    assert {call_.seed for call_ in trained} == {recorded}
    # A seed that is given wins, and is then the table's.
    call("table5", recipe=str(recipe), seed=5)
    trained.clear()
    call("table5", recipe=str(recipe))
    assert trained == []


def test_an_interrupted_table_compares_what_it_has(call, trained, monkeypatch, tmp_path):
    works = reproduced_runs.train

    def interrupted(method: str, output: Path, **arguments: object) -> object:
        if output.name.startswith("no-mlm"):
            raise KeyboardInterrupt
        return works(method, output, **arguments)

    monkeypatch.setattr(reproduced_runs, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call("table2")
    pairs = json.loads((tmp_path / "out/swcc/table2.json").read_text())["comparisons"]["pairs"]
    compared = {one["other"] for one in pairs}
    assert compared
    assert "without MLM" not in compared


def test_other_evaluation_data_score_again_without_training(
    call, trained, evaluation_data, tiny_encoder, monkeypatch
):
    scored = []

    def again(model: str, task: Task, **arguments: object):
        scored.append(task.name)
        encoder = load_encoder(tiny_encoder, pooling="mean")
        encoder.name = Path(model).name
        return evaluate(encoder, task, data=arguments["data"], output=arguments["output"])

    monkeypatch.setattr(reproduced_rows, "evaluate", again)
    before = call("table1", rows=["SWCC"])
    (evaluation_data / "hard.txt").write_text("\n".join(HARD[1:]) + "\n")
    table = call("table1", rows=["SWCC"])
    assert len(trained) == 1
    assert scored == ["hard_similarity"]
    assert _states(table)["SWCC"] == "cached, scored again"
    # Both are kept.
    assert _states(call("table1", rows=["SWCC"]))["SWCC"] == "cached"
    (evaluation_data / "hard.txt").write_text("\n".join(HARD) + "\n")
    again_in_order = call("table1", rows=["SWCC"])
    assert again_in_order.rows[:-1] == [
        [*row[:-1], _states(again_in_order)[row[0]]] for row in before.rows[:-1]
    ]
    assert scored == ["hard_similarity"]


def test_a_row_that_was_killed_goes_on_from_its_last_whole_checkpoint(call, trained, tmp_path):
    call("table1", rows=["SWCC"])
    (folder,) = (tmp_path / "out" / "swcc").glob("swcc-*")
    (folder / RUN_RECORD).unlink()
    (folder / "run.json").write_text("{}")
    for step, state in ((10, '{"global_step": 10}'), (20, '{"global_st'), (30, None)):
        checkpoint = folder / f"checkpoint-{step}"
        checkpoint.mkdir()
        if state is not None:
            (checkpoint / "trainer_state.json").write_text(state)
    trained.clear()
    table = call("table1", rows=["SWCC"])
    assert trained[0].resume
    assert trained[0].checkpoints == ["checkpoint-10"]
    assert _states(table)["SWCC"].startswith("resumed")
    assert not list(folder.glob("checkpoint-*"))


def test_unknown_names_suggest_the_nearest(call, tmp_path):
    with pytest.raises(UnknownNameError, match="Did you mean 'table2'"):
        call("tabel2")
    with pytest.raises(UnknownNameError, match=r"unknown paper 'swc'\. Did you mean 'swcc'"):
        reproduce_table("swc", "table2", tmp_path / "out")
    with pytest.raises(UnknownNameError, match="recipe"):
        call(recipe="pape")
    with pytest.raises(UnknownNameError, match="mlm_weight"):
        call(settings=["mlm_wieght=1"])
    assert not (tmp_path / "out").exists()


def test_a_row_is_trained_scored_and_read_back(call, tmp_path, monkeypatch):
    # Cards run their usage examples in fresh processes, which takes longer than all of this.
    monkeypatch.setattr(
        reproduced_runs, "train", functools.partial(reproduced_runs.train, create_model_card=False)
    )
    settings = ["max_steps=2", "per_device_train_batch_size=8", "save_steps=2"]
    first = call("table1", settings=settings, rows=["SWCC"])
    assert _states(first)["SWCC"].startswith("trained")
    (folder,) = (tmp_path / "out" / "swcc").glob("swcc-*")
    assert (folder / "model.safetensors").is_file()
    assert not list(folder.glob("checkpoint-*"))
    assert first.rows[-1][0] == "untrained encoder (encoder)"
    modified = (folder / "model.safetensors").stat().st_mtime_ns
    second = call("table1", settings=settings, rows=["SWCC"])
    assert _states(second)["SWCC"] == "cached"
    assert (folder / "model.safetensors").stat().st_mtime_ns == modified
    assert [row[:-1] for row in second.rows] == [row[:-1] for row in first.rows]


def test_the_measurements_of_a_row_share_their_encoders(
    call, trained, evaluation_data, tiny_encoder, monkeypatch
):
    shared: dict[str, list[object]] = {}

    def recorded(model: object, task: str, **arguments: object):
        encoder = load_encoder(tiny_encoder)
        encoder.name = Path(str(model)).name
        shared.setdefault(encoder.name, []).append(arguments["session"])
        return evaluate(encoder, task, data=arguments["data"], output=arguments["output"])

    monkeypatch.setattr(reproduced_rows, "evaluate", recorded)
    call("table1", rows=["SWCC"])
    for name in ("hard.txt", "hard_extend.txt"):
        (evaluation_data / name).write_text("\n".join(HARD[1:]) + "\n")
    call("table1", rows=["SWCC"])
    (of_row,) = shared.values()
    assert len(of_row) == 2
    assert isinstance(of_row[0], Session)
    assert of_row[0] is of_row[1]


def test_single_rows_are_run_by_name(call, trained):
    label = get_table("swcc", "table2").rows[-1].label
    found = call(rows=[label.upper()])
    assert len(trained) == 1
    states = {row[0]: row[-1] for row in found.rows}
    # The untrained encoder has a row without training.
    assert list(states.values()).count("not asked for") == len(states) - 2
    with pytest.raises(UnknownNameError, match="row of swcc table2 to run: 'nothing'"):
        call(rows=["nothing"], data="nowhere")


def test_baselines_on_raw_chains_learn_from_the_documents_that_the_settings_leave(call, tmp_path):
    """A baseline that learned from the documents of its questions would fail."""
    raw = tmp_path / "raw" / "events.jsonl"
    raw.parent.mkdir()
    documents = [
        {
            "id": f"d{number}",
            "source": "own",
            "events": [
                [event["subject"], f"{event['predicate']} {step}", event["object"]]
                for step in range(number, number + 3)
                for event in chain
            ],
        }
        for number, chain in enumerate(planted_chains()[0])
    ]
    raw.write_text("".join(json.dumps(document) + "\n" for document in documents))
    share = {"test_share": 0.6, "validation_share": 0.1, "split_seed": 5}
    table = call(
        "table3",
        data=raw.parent,
        evaluation_data=raw.parent,
        settings=[f"data.{name}={value}" for name, value in share.items()],
        rows=["PPMI (Lee and Goldwasser, 2019)"],
    )
    assert _states(table)["PPMI (Lee and Goldwasser, 2019)"].startswith("measured")


def test_figure3_draws_scores_by_the_number_of_prototypes(call, trained):
    table = call("figure3")
    drawn = content_of(table)["prototypes"]
    assert len(drawn) == 3
    for by_model in drawn.values():
        assert list(by_model) == ["SWCC"]
        assert set(by_model["SWCC"]) == {"2", "5", "10", "20", "50"}
    assert table.path.with_suffix(".png").is_file()
    settings = {run.settings[-1] for run in trained}
    assert settings == {f"model.num_prototypes={number}" for number in (2, 5, 10, 20, 50)}


def test_the_released_code_has_its_own_scale_of_the_cluster_loss():
    """Its 0.3 weights a mean over prototypes, halved, where Eq. 7 has a sum."""
    released = load_recipe("swcc", "released-code")
    paper = load_recipe("swcc", "paper")
    changed = {key: value for key, value in released.model.items() if value != paper.model.get(key)}
    assert changed == {
        "cluster_weight": pytest.approx(0.3 / (2 * paper.model["num_prototypes"])),
        "prototype_entropy_weight": 0.05,
    }
    assert (paper.data["window"], paper.data["max_co_events"]) == (None, None)
