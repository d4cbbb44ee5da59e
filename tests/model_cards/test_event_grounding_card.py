"""What the cards of both encoders of event grounding say of the loss that was in use."""

from __future__ import annotations

import pytest

from eventformers.model_cards import load_method_card
from eventformers.models.configuration_event_grounding import EventGroundingConfig, EventGroundingCrossConfig

CARDS = pytest.mark.parametrize(
    ("card", "config_class"),
    [
        (load_method_card("event_grounding"), EventGroundingConfig),
        (load_method_card("event_grounding_cross"), EventGroundingCrossConfig),
    ],
    ids=["bi-encoder", "cross-encoder"],
)


@CARDS
def test_the_loss_is_the_one_of_the_configuration(card, config_class):
    paper, ours = (config_class(linking_objective=one).to_dict() for one in ("binary", "softmax"))
    assert "binary cross-entropy of the" in card.parts(paper).objective
    assert "binary" not in card.parts(ours).objective
    assert "not gold" in card.parts(ours).objective
    of_paper, of_ours = (
        {reading.place: reading.here for reading in card.parts(config).readings} for config in (paper, ours)
    )
    assert of_paper["Section 5.1, reduction of the loss"] == "the mean over all pairs"
    assert of_ours["Section 5.1, reduction of the loss"].startswith("the mean over the gold events")
    assert "against all other" in of_ours["Beyond the paper"]
    assert "against all other" not in of_paper.get("Beyond the paper", "")


@pytest.mark.parametrize(
    ("objective", "said", "code"),
    [
        ("binary", "The sigmoid of the score is", "logits.sigmoid()"),
        ("softmax", "The softmax of the scores", "logits.softmax(dim=0)"),
    ],
)
def test_what_a_probability_is(objective, said, code):
    card = load_method_card("event_grounding_cross")
    config = EventGroundingCrossConfig(linking_objective=objective).to_dict()
    assert said in card.parts(config).summary
    assert code in card.parts(config).usage[0].code


def test_the_weights_of_the_joint_stage():
    config = EventGroundingConfig(stage="joint", hierarchy_weight=0.25).to_dict()
    linking, hierarchy = load_method_card("event_grounding").parts(config).objective.split("\n")[2:]
    assert "Weight `1`" in linking
    assert "Weight `0.25`" in hierarchy
