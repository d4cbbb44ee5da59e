"""Division of event types into seen ones, whose labels training may use, and unseen ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from eventformers.errors import EventformersError, UnknownNameError


class TypeSplit(NamedTuple):
    """Event types by role; each list in descending order of frequency.

    Args:
        seen: training may use their labels.
        unseen: their mentions are clustered, and their labels serve only for scoring.
        left_out: the rest.
    """

    seen: list[str]
    unseen: list[str]
    left_out: list[str]


def split_types(
    counts: Counter[str],
    seen_types: Collection[str] | None = None,
    unseen_types: Collection[str] | None = None,
    num_seen: int = 10,
    num_unseen: int = 23,
    known: Iterable[str] = (),
) -> TypeSplit:
    """Split event types by name or by frequency; ties are broken alphabetically.

    Args:
        counts: number of mentions of each type.
        seen_types: the seen types; None takes the `num_seen` most frequent of those that are not unseen.
        unseen_types: the unseen types; None takes the `num_unseen` next in frequency.
        num_seen: number of seen types if they are not named.
        num_unseen: number of unseen types if they are not named; 0 takes all others.
        known: further accepted names, of types without mentions.

    Raises:
        EventformersError: a type is named as seen and as unseen.
        UnknownNameError: a named type has no mentions.
    """
    check_disjoint(seen_types, unseen_types)
    accepted = {*counts, *known}
    for setting, names in (("seen_types", seen_types), ("unseen_types", unseen_types)):
        for name in names or ():
            if name not in accepted:
                raise UnknownNameError(f"event type in {setting}", name, accepted)
    order = sorted(counts, key=lambda name: (-counts[name], name))
    if seen_types is not None:
        seen = [name for name in order if name in seen_types]
    else:
        seen = [name for name in order if name not in (unseen_types or ())][:num_seen]
    others = [name for name in order if name not in seen]
    if unseen_types is not None:
        unseen = [name for name in others if name in unseen_types]
    else:
        unseen = others[:num_unseen] if num_unseen else others
    return TypeSplit(seen, unseen, [name for name in others if name not in unseen])


def check_disjoint(seen_types: Collection[str] | None, unseen_types: Collection[str] | None) -> None:
    """Raise `EventformersError` for a type that is named as both seen and unseen."""
    both = sorted(set(seen_types or ()) & set(unseen_types or ()))
    if both:
        raise EventformersError(
            f"settings seen_types and unseen_types: found {', '.join(both)} in both;"
            " accepted: each type in one of them"
        )
