from __future__ import annotations

import pytest

from eventformers.chain_protocols import ChainSettings
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation_options import ways_of_reading
from eventformers.induction_protocols import InductionSettings
from eventformers.inference.virtual_context import VirtualContext


def test_settings_go_to_chains_contexts_and_mentions():
    assert ways_of_reading({}, None) == (None, None, None)
    assert ways_of_reading({"sky": "graph"}, None) == (ChainSettings(sky="graph"), None, None)
    assert ways_of_reading({"aggregation": "last", "retrieved": 3}, "chains") == (
        ChainSettings(aggregation="last"),
        VirtualContext("chains", retrieved=3),
        None,
    )
    assert ways_of_reading({"distance": "dot", "manifold": False}, None) == (
        None,
        None,
        InductionSettings(distance="dot", manifold=False),
    )


@pytest.mark.parametrize(
    ("settings", "context", "message"),
    [
        ({"retrieved": 3}, None, "retrieved: a setting of contexts, of which there are none"),
        ({"retrieved": "many"}, "chains", "retrieved is 'many'; accepted: 1 or more"),
        ({"num_layers": 0}, "chains", "num_layers is 0"),
        ({"compat": 1}, None, "compat: found 1; accepted: true or false"),
        ({"sky": "blue"}, None, "unknown sky 'blue'"),
    ],
)
def test_values_are_checked(settings, context, message):
    with pytest.raises(EventformersError, match=message):
        ways_of_reading(settings, context)


def test_an_unknown_setting_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'aggregation'"):
        ways_of_reading({"agregation": "last"}, None)
