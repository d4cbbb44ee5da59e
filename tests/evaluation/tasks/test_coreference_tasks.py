"""Coreference of events as a task: groups, thresholds and topics, and its baselines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eventformers.baselines import get_baseline
from eventformers.errors import EventformersError
from eventformers.evaluation import Session, evaluate
from eventformers.evaluation.results import load_results
from eventformers.evaluation.significance import compare_results
from eventformers.evaluation.tasks import get_task, with_settings
from eventformers.evaluation.tasks.base import ProtocolOutput, Row, TaskRows
from eventformers.evaluation.tasks.coreference import (
    THRESHOLDS,
    CoreferenceSettings,
    Grouper,
    Grouping,
    resolve_coreference,
    topics_of,
    within_topics,
)
from eventformers.inference.induction.mention_distances import Labels

NAMES = ["storm", "storm", "vote", "vote", "vote"]


def mentions(clusters: Sequence[str], *, subtopics: Sequence[str] = ()) -> list[dict[str, Any]]:
    return [
        {
            **{"mention_id": f"m{number}", "document_id": f"d{number}", "text": f"They {cluster}."},
            **{"trigger_start": 5, "trigger_end": 5 + len(cluster), "cluster_id": cluster},
            **{"topic": "t", "subtopic": subtopics[number] if subtopics else "s"},
        }
        for number, cluster in enumerate(clusters)
    ]


class Shares:
    """Groups by similarities of words: 1 for equal, and as given for two that differ."""

    def __init__(self, others: float) -> None:
        self.others = others
        self.asked: list[Labels] = []

    def __call__(self, rows: Sequence[Row], topics: Labels) -> Grouping:
        self.asked.append(topics)
        words = np.array([str(row["text"]) for row in rows])
        every = np.where(words[:, None] == words, 1.0, self.others)
        return within_topics(lambda places: every[np.ix_(places, places)], topics, "average")


def scored(
    rows: Sequence[Row], others: float = 0.5, *, split: str = "test", **settings: Any
) -> ProtocolOutput:
    data = TaskRows(rows, {"train": mentions(["fire", "fire", "flood"])}, split=split)
    grouper = Grouper(Shares(others), settings.pop("own", None))
    return resolve_coreference(grouper, data, CoreferenceSettings(**settings))


def test_a_mention_is_as_right_as_its_group_and_its_event_share() -> None:
    output = scored(mentions(NAMES), threshold=0.4)
    assert output.inputs == {"predictions": [0] * 5, "references": NAMES}
    assert [row["correct"] for row in output.predictions] == pytest.approx([4 / 7] * 2 + [6 / 8] * 3)
    assert output.predictions[2] == {
        **{"mention_id": "m2", "document_id": "d2", "subtopic": "s"},
        **{"group": 0, "cluster_id": "vote", "correct": 0.75},
    }
    assert (output.details["threshold"], output.details["threshold_chosen_on"]) == (0.4, "given")
    assert (output.details["documents"], output.details["topics"]) == (5, 1)
    output = scored(mentions(["a", "b", "b"]), threshold=0.6)
    assert output.inputs["predictions"] == [0, 1, 1]
    assert [row["correct"] for row in output.predictions] == [1, 1, 1]
    assert output.details["events_of_one_mention"] == output.details["groups_of_one_mention"] == 1


def test_the_threshold_is_chosen_on_the_training_split() -> None:
    output = scored(mentions(NAMES))
    # The first that divides two words whose similarity is a half.
    assert output.details["threshold"] == min(one for one in THRESHOLDS if one > 0.5)
    assert output.details["threshold_chosen_on"] == "train"
    assert output.inputs["predictions"] == [0, 0, 1, 1, 1]
    assert scored(mentions(NAMES), own=0.2).details["threshold"] == 0.2
    assert scored(mentions(NAMES), split="train").details["threshold_chosen_on"].endswith("itself")
    alone = TaskRows(mentions(NAMES), split="test")
    with pytest.raises(EventformersError, match=r"no split .* to choose a threshold on; .* threshold=NUM"):
        resolve_coreference(Grouper(Shares(0)), alone, CoreferenceSettings())


def test_no_group_leaves_its_topic() -> None:
    rows = mentions(["a", "a", "a", "b"], subtopics="xxyy")
    assert scored(rows, threshold=0.4).inputs["predictions"] == [0, 0, 1, 1]
    assert scored(rows, threshold=0.4, topics="topic").inputs["predictions"] == [0, 0, 0, 0]
    assert topics_of(rows, "none").tolist() == [0, 0, 0, 0]


def test_topics_of_mentions_without_any_are_an_error() -> None:
    rows = mentions(["a", "a", "b"], subtopics=("x", "", " "))
    with pytest.raises(EventformersError, match=r"^2 of 3 mentions have no subtopic; .*topics=predicted"):
        topics_of(rows, "subtopic")
    assert topics_of(rows, "topic").tolist() == [0, 0, 0]


def test_topics_are_predicted_by_the_words_of_documents() -> None:
    rows = mentions(["storm", "vote", "storm"])
    rows.append({**rows[1], "text": "They storm."})
    rows[3]["document_id"] = "d3"
    found = topics_of(rows, "predicted")
    assert found[0] == found[2] == found[3] != found[1]
    # A document is one topic, whatever its sentences.
    rows[3]["document_id"] = "d1"
    assert len({*topics_of(rows, "predicted")[[1, 3]].tolist()}) == 1


def test_too_many_mentions_of_a_topic_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventformers.evaluation.tasks.coreference.LARGEST_TOPIC", 4)
    with pytest.raises(EventformersError, match="topic of 5 mentions; accepted: at most 4"):
        scored(mentions(NAMES), threshold=0.5)


@pytest.mark.parametrize("column", ["text", "document_id", "cluster_id"])
def test_rows_need_their_columns(column: str) -> None:
    rows = mentions(NAMES)
    del rows[0][column]
    with pytest.raises(EventformersError, match=f"accepted: a text in the column .{column}"):
        scored(rows)


def test_an_encoder_the_pair_scorer_and_lemmas_are_compared(tmp_path: Path, tiny_encoder: Path) -> None:
    with Session() as session:
        plain = evaluate(tiny_encoder, "event_coreference", output=tmp_path, session=session)
        pairs = evaluate(
            None, "event_coreference", output=tmp_path, session=session, settings={"pair_scorer": True}
        )
        with pytest.raises(EventformersError, match=r"pair_scorer with the model .*; accepted: the packaged"):
            evaluate(tiny_encoder, "event_coreference", session=session, settings={"pair_scorer": True})
    lemma = get_baseline("same_lemma")("event_coreference", output=tmp_path)
    similar = get_baseline("lemma_similarity")("event_coreference", output=tmp_path)
    assert (plain.dataset.rows, plain.dataset.split, plain.main_score) == (19, "test", "conll_f1")
    assert plain.settings["trigger_input"] is None
    assert pairs.variant == "pair_scorer-true"
    assert pairs.main_value > lemma.main_value == pytest.approx(similar.main_value)
    assert len(load_results(tmp_path)) == 4
    for other in (plain, lemma, similar):
        compared = compare_results(pairs, other)
        assert (compared.questions, compared.clusters) == (19, 2)
        mean = np.mean([row["correct"] for row in pairs.predictions])
        difference = mean - np.mean([row["correct"] for row in other.predictions])
        assert compared.difference == pytest.approx(100 * difference)
    assert json.dumps(pairs.predictions)


def test_lemmas_are_those_of_the_heads_of_triggers() -> None:
    rows = mentions(["ran away", "runs", "walks"])
    group = get_baseline("same_lemma")._group(rows, np.zeros(3, dtype=np.int64))
    assert group(0.5).tolist() == [0, 0, 1]
    rows[1]["text"] = "He runs a shop at the harbour."
    rows[1] |= {"trigger_start": 3, "trigger_end": 7}
    similar = get_baseline("lemma_similarity")._group(rows, np.zeros(3, dtype=np.int64))
    assert similar(0.5).tolist() == [0, 1, 2]


def test_settings_are_those_of_this_kind() -> None:
    task = get_task("event_coreference")
    for wrong in ({"topics": "gold"}, {"threshold": 1.0}):
        with pytest.raises(EventformersError, match=next(iter(wrong))):
            with_settings(task, wrong)
    with pytest.raises(
        EventformersError, match="copa does not group mentions by event; tasks that do: event"
    ):
        with_settings(get_task("copa"), CoreferenceSettings())
