from __future__ import annotations

import math

import numpy as np
import pytest

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.tasks.base import TaskRows
from eventformers.evaluation.tasks.induction import (
    InductionSettings,
    MentionModel,
    induce_types,
    link_types,
    name_types,
)
from eventformers.inference.induction.mention_distances import MentionVectors

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
