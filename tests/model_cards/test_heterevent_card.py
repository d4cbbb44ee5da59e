from __future__ import annotations

import re

import pytest
from card_examples import examples_run
from tiny import save_tiny_heterevent

from eventformers.datasets_scripts.events import event_text
from eventformers.model_cards.card import ModelCard, usage_snippets
from eventformers.model_cards.method import load_method_card, run_snippet
from eventformers.models.configuration_heterevent import HeterEventConfig

CARD = load_method_card("heterevent")
STAGES = {"sequence": "SeqCL", "graph": "GraCL", "supervised": "Eq. 15 and 16"}
TRAINING = {"learning_rate": 1e-3, "learning_rate_decay": 0.95}


def places(**fields) -> dict[str, str]:
    readings = CARD.parts(HeterEventConfig(**fields).to_dict(), TRAINING).readings
    return {reading.place: reading.here for reading in readings}


def test_the_defaults_are_the_papers():
    config = HeterEventConfig().to_dict()
    assert all(config.get(name, value) == value for name, value in CARD.paper_settings.items())


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("masked_words", "masked tokens"),
        ("sequence", "SeqCL"),
        ("graph", "GraCL"),
        ("supervised", "[W+E]"),
    ],
)
def test_the_last_stage_is_told(stage, words):
    assert words in CARD.parts(HeterEventConfig(stage=stage).to_dict()).objective


def test_a_term_that_is_off_is_not_told():
    config = HeterEventConfig(stage="sequence", order_weight=0.0).to_dict()
    assert "order_weight" not in CARD.parts(config).objective
    assert "replacement_weight" in CARD.parts(config).objective


def test_readings_follow_the_configuration():
    assert "as printed" in places(literal_ratio=True)["Eq. 3 to 5, 12 and 13"]
    assert "logarithm" in places()["Eq. 3 to 5, 12 and 13"]
    assert "low rank" in places(composition="low_rank")["Eq. 1, sizes"]
    assert "`0.95`" in places()["Section V, optimizer"]
    assert (
        "previous and the next"
        in places(stage="supervised", predict_from="neighbours")["Eq. 16, prediction of an event"]
    )
    assert "Eq. 16, prediction of an event" not in places(stage="graph")


def test_texts_follow_the_order_of_the_model():
    config = HeterEventConfig(event_order="predicate_first").to_dict()
    assert "`predicate subject object`" in CARD.parts(config).text_read
    assert "`searched police house`" in CARD.parts(config).summary
    assert "model(**processor(question))" in CARD.parts(config).usage[0].code


def test_stages_before_the_last_are_told():
    told = {stage: CARD.parts(HeterEventConfig(stage=stage).to_dict()).objective for stage in STAGES}
    for stage, text in told.items():
        assert [name in text for name in STAGES.values()] == [
            place <= list(STAGES).index(stage) for place in range(len(STAGES))
        ]


def test_the_weight_of_a_level_that_is_not_learned_is_not_told():
    config = HeterEventConfig(stage="supervised", training_level="words").to_dict()
    assert "word_weight" in CARD.parts(config).objective
    assert "event_weight" not in CARD.parts(config).objective


def test_what_is_beyond_the_paper_is_told():
    assert "Beyond the paper" not in places()
    told = places(event_skip=True, gate_bias=-2.0, word_weight=0.5)["Beyond the paper"]
    assert "added to its state" in told
    assert "`-2`" in told
    assert "words have weight `0.5`" in told
    assert places(composition_anchor="rest")["Eq. 5, anchor"].startswith("the rest of the chain")


def test_the_example_without_this_package_chooses_as_the_one_with_it(tmp_path, tiny_encoder):
    folder = save_tiny_heterevent(tiny_encoder, tmp_path / "model")
    card = ModelCard(name="m", method="heterevent", config=HeterEventConfig.from_pretrained(folder).to_dict())
    with examples_run():
        ran = [run_snippet(snippet, folder, "m") for snippet in usage_snippets(card)[:2]]
    plain, ours = (str(snippet.output) for snippet in ran)
    scores = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in ours.splitlines()}
    logits = [float(value) for value in re.findall(r"-?\d+\.\d+", plain)]
    expected = [scores[event_text(event)] for event in CARD.constants["candidates"]]
    assert [logit / 10 for logit in logits] == pytest.approx(expected, abs=0.0061)
