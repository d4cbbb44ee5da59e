from __future__ import annotations

from eventformers.model_cards.event_type_induction import METHOD_CARD
from eventformers.models.configuration_event_type_induction import EventTypeInductionConfig


def told(**fields) -> tuple[str, str]:
    config = EventTypeInductionConfig(**fields).to_dict()
    beyond = {reading.place: reading.here for reading in METHOD_CARD.readings(config, {})}
    return METHOD_CARD.objective(config), beyond.get("Beyond the paper", "")


def test_the_contrast_of_frames_is_told_where_it_is_in_use():
    objective, beyond = told()
    assert "**Contrast of frames**" not in objective
    assert "examples of frames" not in beyond
    objective, beyond = told(frame_example_weight=0.5)
    assert "**Contrast of frames**" in objective
    assert "Weight `0.5`" in objective
    assert "examples of frames are contrasted" in beyond
