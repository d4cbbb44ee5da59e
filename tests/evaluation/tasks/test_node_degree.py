"""The average node degree of a question's graph, and accuracy by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError
from eventformers.evaluation import evaluate
from eventformers.evaluation.node_degree import (
    BIN_EDGES,
    accuracy_by_degree,
    average_degrees,
    question_chains,
)
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.tasks import TASKS


def _event(text: str) -> Event:
    subject, predicate, object_ = text.split(" ")
    return Event(subject=subject, predicate=predicate, object=object_)


@pytest.fixture(scope="module")
def result(tiny_encoder: Path) -> TaskResult:
    return evaluate(str(tiny_encoder), "mcnc")


def test_degrees_by_hand() -> None:
    one = [_event("police arrested thief")]
    # A new event: one edge between the events, and as many within it as the first has.
    two = [*one, _event("judge freed suspect")]
    # Of the second event's words two are the first's: no edge between words is new but those of one word.
    shared = [*one, _event("police saw Thief")]
    # Each edge ends at two nodes.
    expected = [2 * 6 / 4, 2 * (6 + 6 + 1) / 8, 2 * (6 + 3 + 2 + 1) / 6]
    assert average_degrees([one, two, shared]).tolist() == pytest.approx(expected)
    assert average_degrees([]).size == 0


def test_an_event_of_one_word() -> None:
    assert average_degrees([[Event(subject="", predicate="rained", object="")]]).tolist() == [1.0]


def test_chains_of_questions() -> None:
    first, second, wrong = map(_event, ("a b c", "d e f", "g h i"))
    steps = {"start": first, "steps": [[wrong, second], [first, wrong]], "labels": [1, 0]}
    assert question_chains(TASKS["mcns_v"], [steps]) == [[first, second, first]]
    cloze = {"context": [first, second], "choices": [wrong, first], "label": 1}
    assert question_chains(TASKS["mcnc"], [cloze]) == [[first, second]]
    with pytest.raises(EventformersError, match="reads no chains"):
        question_chains(TASKS["hard_similarity"], [])


def test_bins_hold_every_question_once(result: TaskResult) -> None:
    questions = len(result.predictions)
    degrees = np.linspace(3.9, 6.1, questions)
    # On a bound the upper interval counts.
    degrees[0], degrees[1] = BIN_EDGES[0], BIN_EDGES[0] - 1e-9
    bins = accuracy_by_degree(result, degrees)
    assert sum(one.questions for one in bins) == questions
    assert (bins[0].low, bins[0].high, bins[0].questions) == (0, 4, 1)
    assert bins[0].name == "below 4"
    assert bins[-1].name == "6 and more"
    assert bins[0].accuracy == 100 * result.predictions[1]["correct"]
    mean = sum(one.accuracy * one.questions for one in bins) / questions
    assert mean == pytest.approx(result.scores["accuracy"])


def test_steps_count_by_themselves(result: TaskResult) -> None:
    steps = replace(
        result, predictions=[{"correct": [True, True, False]}, {"correct": [False, False, False]}]
    )
    (bin_,) = accuracy_by_degree(steps, np.array([5.0, 5.1]))
    assert (bin_.questions, bin_.accuracy) == (2, pytest.approx(100 / 3))
    with pytest.raises(EventformersError, match="found 3 graphs for 2 questions"):
        accuracy_by_degree(steps, np.ones(3))
