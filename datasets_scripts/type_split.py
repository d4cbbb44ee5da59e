"""Which event types are seen, so that their labels may train, and which are unseen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from eventformers.errors import EventformersError, UnknownNameError


class TypeSplit(NamedTuple):
    """Event types by what they serve for; each list in the order of frequency, the most frequent first.

    Args:
        seen: their labels may train.
        unseen: their mentions are clustered, and their labels serve for scoring alone.
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
    """Split event types by name or by frequency; types of equal frequency are taken in alphabetical order.

    Args:
        counts: the mentions of each type.
        seen_types: the seen types; None takes the `num_seen` most frequent of those that are not unseen.
        unseen_types: the unseen types; None takes the `num_unseen` next in frequency.
        num_seen: how many types are seen where they are not named.
        num_unseen: how many types are unseen where they are not named; 0 for all the others.
        known: further names that may be asked for although they have no mention.

    Raises:
        EventformersError: a type is named as seen and as unseen.
        UnknownNameError: a type is named that has no mention.
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
    """Raise `EventformersError` for a type that is named as seen and as unseen."""
    both = sorted(set(seen_types or ()) & set(unseen_types or ()))
    if both:
        raise EventformersError(
            f"settings seen_types and unseen_types: found {', '.join(both)} in both;"
            " accepted: each type in one of them"
        )
