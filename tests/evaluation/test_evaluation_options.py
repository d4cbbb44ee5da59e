"""Values of `eventformers evaluate --set KEY=VALUE`."""

from __future__ import annotations

import pytest

from eventformers.errors import EventformersError
from eventformers.evaluation.tasks import TASKS, check_settings, settings_used


def test_settings_of_several_kinds_are_known():
    check_settings({})
    check_settings({"aggregation": "last", "retrieved": 3, "virtual_context": "chains", "depth": 2})


@pytest.mark.parametrize(
    ("settings", "context", "message"),
    [
        ({"retrieved": 3}, None, "retrieved: settings of contexts without their data"),
        ({"retrieved": "many"}, "chains", "retrieved: found 'many'; accepted: 1 or more"),
        ({"num_layers": 0}, "chains", "num_layers: found 0"),
        ({"compat": 1}, None, "compat: found 1; accepted: true or false"),
        ({"sky": "blue"}, None, "unknown sky 'blue'"),
        ({"task": "bilingual"}, None, "unknown task 'bilingual'"),
        ({"domain": "wikipaedia"}, None, "unknown domain 'wikipaedia'.*Did you mean 'wikipedia'"),
        ({"reranker": 3}, None, "reranker: found 3; accepted: a folder or a Hub id"),
        ({"candidates": 0}, None, "candidates: found 0; accepted: 1 or more"),
        ({"depth": True}, None, "depth: found True; accepted: 1 or more"),
        ({"threshold": 1}, None, "threshold: found 1; accepted: a number between 0 and 1"),
        ({"agregation": "last"}, None, "unknown setting 'agregation'.*Did you mean 'aggregation'"),
    ],
)
def test_values_are_checked(settings, context, message):
    with pytest.raises(EventformersError, match=message):
        check_settings(settings | ({"virtual_context": context} if context else {}))


def test_each_of_all_tasks_takes_the_settings_that_it_uses():
    settings = {"aggregation": "last", "pooling": "mean"}
    assert settings_used(TASKS["mcnc"], settings) == settings
    assert settings_used(TASKS["hard_similarity"], settings) == {"pooling": "mean"}
    assert settings_used(TASKS["event_linking"], {"candidates": 4, "depth": 2}) == {"candidates": 4}
