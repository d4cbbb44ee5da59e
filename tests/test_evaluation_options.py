from __future__ import annotations

import pytest

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.options import Ways, ways_of_reading
from eventformers.evaluation.tasks.chain_protocols import ChainSettings
from eventformers.evaluation.tasks.grounding_protocols import GroundingSettings
from eventformers.evaluation.tasks.induction_protocols import InductionSettings
from eventformers.inference.chains.virtual_context import VirtualContext


def test_settings_go_to_chains_contexts_and_mentions():
    assert ways_of_reading({}, None) == Ways()
    assert ways_of_reading({"sky": "graph"}, None) == Ways(chains=ChainSettings(sky="graph"))
    assert ways_of_reading({"aggregation": "last", "retrieved": 3}, "chains") == Ways(
        ChainSettings(aggregation="last"), VirtualContext("chains", retrieved=3)
    )
    assert ways_of_reading({"distance": "dot", "manifold": False}, None) == Ways(
        induction=InductionSettings(distance="dot", manifold=False)
    )
    assert ways_of_reading({"depth": 2, "task": "crosslingual"}, None) == Ways(
        grounding=GroundingSettings(depth=2, task="crosslingual")
    )


@pytest.mark.parametrize(
    ("settings", "context", "message"),
    [
        ({"retrieved": 3}, None, "retrieved: a setting of contexts, of which there are none"),
        ({"retrieved": "many"}, "chains", "retrieved is 'many'; accepted: 1 or more"),
        ({"num_layers": 0}, "chains", "num_layers is 0"),
        ({"compat": 1}, None, "compat: found 1; accepted: true or false"),
        ({"sky": "blue"}, None, "unknown sky 'blue'"),
        ({"task": "bilingual"}, None, "unknown task 'bilingual'"),
        ({"domain": "wikipaedia"}, None, "unknown domain 'wikipaedia'.*Did you mean 'wikipedia'"),
        ({"reranker": 3}, None, "reranker: found 3; accepted: a folder or a Hub id"),
        ({"candidates": 0}, None, "candidates: found 0; accepted: 1 or more"),
        ({"depth": True}, None, "depth: found True; accepted: 1 or more"),
        ({"threshold": 1}, None, "threshold: found 1; accepted: a probability between 0 and 1"),
    ],
)
def test_values_are_checked(settings, context, message):
    with pytest.raises(EventformersError, match=message):
        ways_of_reading(settings, context)


def test_an_unknown_setting_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'aggregation'"):
        ways_of_reading({"agregation": "last"}, None)
