from __future__ import annotations

import pytest

from eventformers.datasets_scripts.relation_templates import relation_templates
from eventformers.model_cards import load_method_card
from eventformers.models.configuration_mico import MicoConfig

CARD = load_method_card("mico")

OPTIONS = {
    "frequency_correction": (True, "corrected for the frequency", "logarithm of an alternative"),
    "distillation_weight": (2, "held near their initial vectors", "**Distillation**, weight `2`"),
}


def test_the_graphs_with_corrected_frequencies_are_named():
    config = MicoConfig(frequency_correction=["conceptnet"])
    assert "**Frequency correction** of conceptnet, beyond" in CARD.parts(config.to_dict()).objective


def places(training=None, **fields) -> dict[str, str]:
    readings = CARD.parts(MicoConfig(**fields).to_dict(), training or {}).readings
    return {reading.place: reading.here for reading in readings}


def test_the_papers_settings_are_the_defaults_of_the_configuration():
    config = MicoConfig().to_dict()
    assert all(config.get(name, value) == value for name, value in CARD.paper_settings.items())


def test_the_premises_of_the_examples_are_as_in_training():
    atomic = relation_templates("atomic").premise("xWant", "PersonX misses the bus", "forward")
    assert (relation_templates("conceptnet").premise("UsedFor", "umbrella", "forward"), atomic) == tuple(
        CARD.constants["premises"]
    )


def test_every_reading_follows_the_configuration():
    paper = places()
    assert paper["Eq. 6, own other alternatives"].startswith("excluded")
    assert paper["Eq. 6, alternatives of other rows"] == "as in the paper"
    assert paper["Eq. 5, positive"].startswith("the alternative with the lowest similarity")
    assert paper["Section 4.4, early stopping"] == "no early stopping"
    assert not {"Released code, dropout of the vectors", "Beyond the paper"} & set(paper)
    ours = places(
        {"stop_at_relative_change": 0.01},
        own_alternatives="zero_logit",
        mask_known_positives=True,
        positive="random",
        feature_dropout=0.05,
        pooling="mean",
    )
    assert "a logit of 0 each" in ours["Eq. 6, own other alternatives"]
    assert "left out" in ours["Eq. 6, alternatives of other rows"]
    assert ours["Eq. 5, positive"] == "a random one"
    assert "less than `0.01`" in ours["Section 4.4, early stopping"]
    assert ours["Released code, dropout of the vectors"] == "`0.05`"
    assert "mean over the tokens of the text" in ours["Eq. 2, pooling"]


@pytest.mark.parametrize("option", OPTIONS)
def test_what_goes_beyond_the_paper_is_told_where_it_is_in_use(option):
    value, reading, term = OPTIONS[option]
    assert term not in CARD.parts(MicoConfig().to_dict()).objective
    assert term in CARD.parts(MicoConfig(**{option: value}).to_dict()).objective
    assert reading in places(**{option: value})["Beyond the paper"]


def test_the_objective_names_the_positive():
    assert "its least similar alternative of k" in CARD.parts(MicoConfig().to_dict()).objective
    assert "a random one of its k" in CARD.parts(MicoConfig(positive="random").to_dict()).objective
