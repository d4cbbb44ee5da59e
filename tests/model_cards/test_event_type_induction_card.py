from __future__ import annotations

from eventformers.model_cards import load_method_card
from eventformers.models.configuration_event_type_induction import EventTypeInductionConfig
from eventformers.models.mention_tokens import Mention, mark_trigger

CARD = load_method_card("event_type_induction")


def told(**fields) -> tuple[str, str]:
    config = EventTypeInductionConfig(**fields).to_dict()
    beyond = {reading.place: reading.here for reading in CARD.parts(config, {}).readings}
    return CARD.parts(config).objective, beyond.get("Beyond the paper", "")


def test_the_contrast_of_frames_is_told_where_it_is_in_use():
    objective, beyond = told()
    assert "**Contrast of frames**" not in objective
    assert "examples of frames" not in beyond
    objective, beyond = told(frame_example_weight=0.5)
    assert "**Contrast of frames**" in objective
    assert "Weight `0.5`" in objective
    assert "examples of frames are contrasted" in beyond


def test_the_marked_sentences_are_marked_as_the_model_reads_them():
    triggers = ("sentenced", "gave", "opened")
    marked = [
        mark_trigger(Mention(text, text.index(trigger), text.index(trigger) + len(trigger))).text
        for text, trigger in zip(CARD.constants["sentences"], triggers, strict=True)
    ]
    assert CARD.constants["marked_sentences"] == marked
