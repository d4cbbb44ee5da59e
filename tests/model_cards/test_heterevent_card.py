from __future__ import annotations

import pytest

from eventformers.model_cards.heterevent import METHOD_CARD
from eventformers.models.configuration_heterevent import HeterEventConfig

TRAINING = {"learning_rate": 1e-3, "learning_rate_decay": 0.95}


def places(**fields) -> dict[str, str]:
    readings = METHOD_CARD.readings(HeterEventConfig(**fields).to_dict(), TRAINING)
    return {reading.place: reading.here for reading in readings}


def test_the_defaults_are_the_papers():
    config = HeterEventConfig().to_dict()
    assert all(config.get(name, value) == value for name, value in METHOD_CARD.paper_settings.items())


@pytest.mark.parametrize(
    ("stage", "words"), [("sequence", "SeqCL"), ("graph", "GraCL"), ("supervised", "[W+E]")]
)
def test_the_last_stage_is_told(stage, words):
    assert words in METHOD_CARD.objective(HeterEventConfig(stage=stage).to_dict())


def test_a_term_that_is_off_is_not_told():
    config = HeterEventConfig(stage="sequence", order_weight=0.0).to_dict()
    assert "order_weight" not in METHOD_CARD.objective(config)
    assert "replacement_weight" in METHOD_CARD.objective(config)


def test_readings_follow_the_configuration():
    assert "as printed" in places(literal_ratio=True)["Eq. 3 to 5, 12 and 13"]
    assert "logarithm" in places()["Eq. 3 to 5, 12 and 13"]
    assert "low rank" in places(composition="low_rank")["Eq. 1, sizes"]
    assert "`0.95`" in places()["Section V, optimizer"]
    assert (
        "its neighbours"
        in places(stage="supervised", predict_from="neighbours")["Eq. 16, prediction of an event"]
    )
    assert "Eq. 16, prediction of an event" not in places(stage="graph")


def test_texts_follow_the_order_of_the_model():
    config = HeterEventConfig(event_order="predicate_first").to_dict()
    assert "`predicate subject object`" in METHOD_CARD.text_read(config)
    assert "`searched police house`" in METHOD_CARD.summary(config)
    assert '"searched police house"' in METHOD_CARD.usage(config)[2].code
