from __future__ import annotations

import pytest

from eventformers.model_cards import load_method_card
from eventformers.models.configuration_swcc import SwccConfig

CARD = load_method_card("swcc")

RATES = {"learning_rate": 1e-5, "module_learning_rates": {"prototypes": 5e-4}}


def places(**fields) -> dict[str, str]:
    readings = CARD.parts(SwccConfig(**fields).to_dict(), RATES).readings
    return {reading.place: reading.here for reading in readings}


def test_only_the_order_of_an_event_differs_from_the_paper():
    config = SwccConfig().to_dict()
    differing = {name for name, value in CARD.paper_settings.items() if config.get(name, value) != value}
    assert differing == {"event_order"}
    assert config["event_order"] == "subject_predicate_object"


def test_only_readings_of_terms_in_use_are_told():
    whole = places(cluster_weight=0.1, mlm_weight=1.0)
    assert "0.0005" in whole["Section 4.1, learning rate of the prototypes"]
    assert whole["Released code, entropy term"] == "left out"
    assert not any("Eq. 7" in place or "4.1" in place or "3.2" in place for place in places(cluster_weight=0))
    assert not any("masked" in place for place in places(mlm_weight=0))
    assert not any("Eq. 6" in place for place in places(contrastive_objective="info_nce"))
    assert "`0.25`" in places(contrastive_objective="margin", margin=0.25)["Table 2, margin loss"]
    assert "`0.05`" in places(prototype_entropy_weight=0.05)["Released code, entropy term"]
    assert "Beyond the paper" not in whole
    assert "one-word changes" in places(shared_word_weight=0.5)["Beyond the paper"]


def test_a_second_positive_is_told_where_it_is_in_use():
    config = {**SwccConfig(shared_word_weight=2.0).to_dict(), "shared_word_co_event_weight": 0.0}
    assert "second positive" not in CARD.parts(config).objective
    assert (
        "second positive, with weight `0.5`"
        in CARD.parts({**config, "shared_word_co_event_weight": 0.5}).objective
    )


@pytest.mark.parametrize("normalization", ["min_max", "log_min_max", "constant"])
@pytest.mark.parametrize("objective", ["weakly_supervised", "dropout_views", "info_nce", "margin"])
def test_every_objective_has_words(objective, normalization):
    config = SwccConfig(
        contrastive_objective=objective,
        frequency_normalization=normalization,
        prototype_entropy_weight=0.05,
        shared_word_weight=0.5,
        predicate_weight=0.5,
    ).to_dict()
    text = CARD.parts(config).objective
    assert text.count("\n- ") == 6
    assert ("margin `0.5`" in text) == (objective == "margin")
    assert CARD.parts(config).limits


def test_the_examples_follow_the_order_of_the_model():
    for order, text, roles in (
        ("subject_predicate_object", "company fired worker", "subject predicate object"),
        ("predicate_first", "fired company worker", "predicate subject object"),
    ):
        config = SwccConfig(event_order=order).to_dict()
        assert f"`{text}`" in CARD.parts(config).summary
        assert f"`{roles}`" in CARD.parts(config).text_read
        assert f'"{text}"' in CARD.parts(config).usage[0].code
