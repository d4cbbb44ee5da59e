"""The choice with the commonest argument of the context, by its role."""

from __future__ import annotations

from eventformers.baselines import get_baseline
from eventformers.baselines.chain_counts import ProtagonistScorer
from eventformers.datasets_scripts.events import Event


def _event(subject: str, predicate: str, object_: str = "") -> Event:
    return {"subject": subject, "predicate": predicate, "object": object_}


CONTEXT = [
    _event("Tom", "saw", "Ann"),
    _event("tom", "ran"),
    _event("", "rained"),
    _event("Bob", "hit", "tom"),
]


def test_the_argument_counts_in_its_role_and_in_any_case() -> None:
    choices = [
        _event("TOM", "slept"),
        _event("dog", "bit", "Tom"),
        _event("Ann", "left"),
        _event("", "thundered"),
        _event("Bob", "met", "Ann"),
    ]
    (scores,) = ProtagonistScorer().score_choices([CONTEXT], [choices])
    assert scores.tolist() == [2, 1, 0, 0, 1]


def test_transitions_count_the_roles_with_the_same_argument() -> None:
    targets = [_event("Tom", "met", "Ann"), _event("Ann", "met", "Tom"), _event("tom", "rose")]
    (matrix,) = ProtagonistScorer().similarities([CONTEXT[:3]], [targets])
    assert matrix.tolist() == [[3, 1, 2], [2, 1, 2], [1, 1, 1]]


def test_it_is_scored_on_chain_tasks_without_training() -> None:
    for task in ("mcnc", "mcns_v"):
        result = get_baseline("protagonist")(task)
        assert 0 <= result.main_value <= 100
        assert result.model == "protagonist"
        assert result.seed is None
