"""The average node degree of a question's graph, and accuracy by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import EventformersError
from eventformers.evaluation import evaluate
from eventformers.evaluation.node_degree import (
    BIN_EDGES,
    average_degrees,
    degrees_of_questions,
    scores_by_degree,
)
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.tasks import TASKS, with_settings
from eventformers.evaluation.tasks.base import read_event
from eventformers.inference.chains.scorers import ChainIndex


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
    read = degrees_of_questions(TASKS["mcns_v"], [steps])
    assert read.tolist() == average_degrees([[first, second, first]]).tolist()
    cloze = {"context": [first, second], "choices": [wrong, first], "label": 1}
    read = degrees_of_questions(TASKS["mcnc"], [cloze])
    assert read.tolist() == average_degrees([[first, second]]).tolist()
    with pytest.raises(EventformersError, match="reads no chains"):
        degrees_of_questions(TASKS["hard_similarity"], [])


def test_a_pair_has_the_degree_of_the_contexts_of_its_events() -> None:
    chains = load_built(None, "chains", builder="event_chains")["train"]["events"]
    known, unknown = read_event(chains[0][0], {}, "event_a"), _event("zq xq yq")
    row = {"event_a": known, "event_b": unknown, "score": 1.0}
    task = with_settings(TASKS["transitive_similarity"], {"virtual_context": "samples"})
    index = ChainIndex(chains)
    ((positions, matches),) = index.nearest([known], 10)
    assert len(positions) > 1
    degrees = average_degrees([[*index.contexts[position], known] for position in positions])
    expected = (np.average(degrees, weights=np.exp(matches)) + average_degrees([[unknown]])[0]) / 2
    assert degrees_of_questions(task, [row]).tolist() == pytest.approx([expected])


def test_graded_pairs_are_correlated_within_an_interval(result: TaskResult) -> None:
    ratings = [(0.1, 1.0), (0.2, 3.0), (0.3, 2.0), (0.5, 1.0), (0.4, 1.0)]
    graded = replace(result, predictions=[{"prediction": one, "reference": other} for one, other in ratings])
    # Two pairs have no correlation that says something.
    (bin_,) = scores_by_degree(graded, np.array([4.2, 4.2, 4.2, 5.0, 5.0]))
    assert (bin_.name, bin_.questions, bin_.score) == ("4 to 4.5", 3, pytest.approx(0.5))


def test_bins_hold_every_question_once(result: TaskResult) -> None:
    questions = len(result.predictions)
    degrees = np.linspace(3.9, 6.1, questions)
    # On a bound the upper interval counts.
    degrees[0], degrees[1] = BIN_EDGES[0], BIN_EDGES[0] - 1e-9
    bins = scores_by_degree(result, degrees)
    assert sum(one.questions for one in bins) == questions
    assert (bins[0].low, bins[0].high, bins[0].questions) == (0, 4, 1)
    assert bins[0].name == "below 4"
    assert bins[-1].name == "6 and more"
    assert bins[0].score == 100 * result.predictions[1]["correct"]
    mean = sum(one.score * one.questions for one in bins) / questions
    assert mean == pytest.approx(result.scores["accuracy"])


def test_steps_count_by_themselves(result: TaskResult) -> None:
    steps = replace(
        result, predictions=[{"correct": [True, True, False]}, {"correct": [False, False, False]}]
    )
    (bin_,) = scores_by_degree(steps, np.array([5.0, 5.1]))
    assert (bin_.questions, bin_.score) == (2, pytest.approx(100 / 3))
