"""The draw of the mentions that the encoders of event grounding train on."""

from collections import Counter

import pytest
from datasets import Dataset

from eventformers.trainers.grounding_data import draw_mentions

EVENTS = [["war"]] * 6 + [["storm", "season"]] * 3 + [["flood", "season"]] * 2 + [["vote"]] + [[]] * 2


@pytest.fixture
def mentions() -> Dataset:
    """Mentions that are not in the order of their events, and a part of a larger table."""
    rows = [{"mention_id": str(place), "event_ids": events} for place, events in enumerate(EVENTS)]
    others = [{"mention_id": "other", "event_ids": ["war", "season"]}] * 3
    return Dataset.from_list([*others, *rows[::2], *rows[1::2]]).select(range(3, 3 + len(rows)))


def _drawn(mentions: Dataset, seed: int = 1, **views: int | None) -> list[str]:
    rows, told = draw_mentions(mentions, views, seed)
    assert told == {"mentions_drawn": len(rows) if len(rows) < len(mentions) else 0}
    order = mentions["mention_id"]
    assert list(rows["mention_id"]) == sorted(rows["mention_id"], key=order.index)
    assert len(set(rows["mention_id"])) == len(rows)
    return list(rows["mention_id"])


def _atomic(drawn: list[str]) -> Counter[str]:
    return Counter(EVENTS[int(name)][0] for name in drawn if EVENTS[int(name)])


class TestDrawMentions:
    @pytest.mark.parametrize("views", [{}, {"mentions_per_event": None, "max_mentions": None}])
    def test_all_of_them(self, mentions: Dataset, views: dict[str, None]) -> None:
        assert _drawn(mentions, **views) == mentions["mention_id"]

    @pytest.mark.parametrize(
        ("most", "expected"),
        [
            (1, {"war": 1, "storm": 1, "flood": 1, "vote": 1}),
            (2, {"war": 2, "storm": 2, "flood": 2, "vote": 1}),
            (9, {"war": 6, "storm": 3, "flood": 2, "vote": 1}),
        ],
    )
    def test_so_many_of_each_atomic_event(
        self, mentions: Dataset, most: int, expected: dict[str, int]
    ) -> None:
        """An ancestor may have more; mentions without event stay, to be counted as such."""
        drawn = _drawn(mentions, mentions_per_event=most)
        assert _atomic(drawn) == expected
        assert len(drawn) == sum(expected.values()) + 2

    def test_every_mention_of_an_event_can_be_drawn(self, mentions: Dataset) -> None:
        drawn = [set(_drawn(mentions, seed, mentions_per_event=1)) for seed in range(40)]
        assert set.union(*drawn) == set(mentions["mention_id"])
        assert drawn[3] == set(_drawn(mentions, 3, mentions_per_event=1))

    def test_so_many_in_all_of_what_that_leaves(self, mentions: Dataset) -> None:
        assert len(_drawn(mentions, max_mentions=5)) == 5
        for seed in range(9):
            both = _drawn(mentions, seed, mentions_per_event=1, max_mentions=3)
            assert len(both) == 3
            assert max(_atomic(both).values(), default=0) <= 1
        assert len(_drawn(mentions, mentions_per_event=1, max_mentions=99)) == 6
