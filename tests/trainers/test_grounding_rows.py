"""The rows that event grounding trains on: gold events, languages, what makes no row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from datasets import Dataset

from eventformers.errors import EventformersError
from eventformers.inference.grounding.knowledge_base import EventTexts
from eventformers.models.processing_event_grounding import EventText, MentionText
from eventformers.trainers.grounding_data import (
    CandidateRows,
    HierarchyPairs,
    LinkingPairs,
    WrongCandidates,
    draw_mentions,
    make_linking_pairs,
)

EVENTS = (
    ("war", "en", "War", "A war."),
    ("war", "de", "Krieg", ""),
    ("battle", "en", "Battle", "A battle."),
    ("battle", "de", "Schlacht", "Eine Schlacht."),
    ("siege", "en", "Siege", ""),
    ("fest", "de", "Fest", ""),
    ("war", "en", "War again", "The first text of a language counts."),
)
WAR, WAR_DE, BATTLE, BATTLE_DE, SIEGE, FEST = range(6)
"""The row of each text; the numbers of the events are 0 to 3."""


def events() -> EventTexts:
    names = ("event_id", "language", "title", "description")
    return EventTexts(Dataset.from_dict(dict(zip(names, map(list, zip(*EVENTS, strict=True)), strict=True))))


def mentions(*rows: tuple[str, Sequence[str]]) -> Dataset:
    """Mentions of a language with their gold events."""
    return Dataset.from_list(
        [
            {
                "context_left": f"left {number} ",
                "mention": "it",
                "context_right": "",
                "title": "News",
                "date": "",
                "language": language,
                "event_ids": list(gold),
            }
            for number, (language, gold) in enumerate(rows)
        ]
    )


def edges(*pairs: tuple[str, str]) -> Dataset:
    return Dataset.from_list([{"child_id": child, "parent_id": parent} for child, parent in pairs])


class TestEventTexts:
    def test_numbers_and_rows(self) -> None:
        texts = events()
        assert texts.num_events == 4
        assert texts.number_of.tolist() == [0, 0, 1, 1, 2, 3, 0]
        assert texts.languages.to_pylist() == ["en", "de"]
        assert texts.language_of.tolist() == [0, 1, 0, 1, 0, 1, 0]
        assert texts.distinct.tolist() == [WAR, WAR_DE, BATTLE, BATTLE_DE, SIEGE, FEST]
        assert texts[BATTLE_DE] == EventText("Schlacht", "Eine Schlacht.")

    def test_rows_of_events_in_languages(self) -> None:
        """Of two texts in one language the first; none for another language, event or an unknown one."""
        found = events().rows(np.array([0, 0, 2, 3, -1, 1]), np.array([0, 1, 1, 1, 0, -1]))
        assert found.tolist() == [WAR, WAR_DE, -1, FEST, -1, -1]


class TestLinkingPairs:
    def test_each_gold_event_makes_a_pair_in_the_language_of_the_mention(self) -> None:
        pairs = LinkingPairs(mentions(("de", ["battle", "war"]), ("en", ["siege"])), events())
        assert len(pairs) == 3
        assert [pairs[place]["event"].title for place in range(3)] == ["Schlacht", "Krieg", "Siege"]
        assert [pairs[place]["event_id"] for place in range(3)] == [1, 0, 2]
        assert [sorted(pairs[place]["gold_event_ids"].tolist()) for place in range(3)] == [[0, 1]] * 2 + [[2]]
        assert pairs[2]["mention"] == MentionText("left 1 ", "it", "", "News", "")
        assert [pairs[place]["row"] for place in range(3)] == [0, 1, 2]
        assert pairs.num_gold == 2
        assert pairs.gold_numbers().tolist() == [[0, 1], [2, -1]]
        assert not any(pairs.skipped.values())

    def test_candidates_in_one_language(self) -> None:
        pairs = LinkingPairs(mentions(("de", ["battle"]), ("fr", ["war"])), events(), "en")
        assert [pairs[place]["event"].title for place in range(2)] == ["Battle", "War"]
        assert pairs.spoken.tolist() == [0, 0]

    def test_what_makes_no_pair_is_counted(self) -> None:
        """No text in the language, an unknown event, a language that no event is described in."""
        rows = mentions(("de", ["siege", "war"]), ("en", ["fest"]), ("fr", ["war"]), ("en", ["other", "war"]))
        pairs = LinkingPairs(rows, events())
        assert [pairs[place]["event"].title for place in range(len(pairs))] == ["Krieg", "War"]
        assert pairs.mention_of.tolist() == [0, 3]
        assert pairs.skipped == {
            "gold_event_without_text_in_the_language": 4,
            "mention_without_gold_event_in_the_language": 2,
        }
        # The siege has no German text, and is gold all the same where another mention brings it.
        assert sorted(pairs[0]["gold_event_ids"].tolist()) == [0, 2]

    def test_no_pair_at_all(self) -> None:
        rows = mentions(("de", ["siege"]), ("en", ["fest"]))
        message = r"found no training rows \(2 gold_event_without_text_in_the_language, 2 mention_without"
        with pytest.raises(EventformersError, match=message):
            make_linking_pairs(rows, events(), {"task": "multilingual"})
        assert len(make_linking_pairs(rows, events(), {"task": "crosslingual"})) == 1


class TestHierarchyPairs:
    def test_an_edge_for_each_language_of_both(self) -> None:
        pairs = HierarchyPairs(edges(("battle", "war"), ("siege", "war")), events())
        found = [(pairs[place]["child"].title, pairs[place]["parent"].title) for place in range(len(pairs))]
        assert found == [("Battle", "War"), ("Schlacht", "Krieg"), ("Siege", "War")]
        assert [pairs[place]["parent_id"] for place in range(3)] == [0, 0, 0]
        assert not any(pairs.skipped.values())

    def test_several_parents_are_all_known(self) -> None:
        """A child that a German text mentions has its parent too, though no text mentions the parent."""
        pairs = HierarchyPairs(edges(("battle", "war"), ("battle", "siege")), events())
        assert len(pairs) == 3
        assert pairs.num_parents == 2
        assert all(sorted(pairs[place]["known_parent_ids"].tolist()) == [0, 2] for place in range(3))

    def test_what_makes_no_pair_is_counted(self) -> None:
        """No common language, and events that nothing describes."""
        pairs = HierarchyPairs(edges(("siege", "fest"), ("other", "war"), ("battle", "war")), events())
        assert len(pairs) == 2
        assert pairs.skipped == {"edge_without_text_in_a_common_language": 2}


class TestCandidates:
    RETRIEVED = np.array([[SIEGE, WAR, BATTLE], [SIEGE, BATTLE, WAR], [-1, -1, -1], [FEST, WAR_DE, -1]])

    @pytest.fixture
    def pairs(self) -> LinkingPairs:
        gold: Mapping[str, Sequence[str]] = {"both": ["battle", "war"], "one": ["siege"]}
        rows = (("en", gold["one"]), ("en", gold["both"]), ("fr", gold["one"]), ("de", gold["both"]))
        return LinkingPairs(mentions(*rows), events())

    def test_missing_gold_events_replace_the_lowest_scored_others(self, pairs: LinkingPairs) -> None:
        """The last German mention has one that was found, one that was not, and one place for another."""
        rows = CandidateRows(pairs, events(), self.RETRIEVED)
        assert len(rows) == 3
        told = [
            ([event.title for event in row["candidates"]], row["is_gold"])
            for row in (rows[0], rows[1], rows[2])
        ]
        assert told == [
            (["Siege", "War", "Battle"], [True, False, False]),
            (["Battle", "War", "Siege"], [True, True, False]),
            (["Schlacht", "Krieg", "Fest"], [True, True, False]),
        ]
        assert [rows[place]["mention"].context_left for place in range(3)] == [
            "left 0 ",
            "left 1 ",
            "left 3 ",
        ]
        assert rows.gold == {"gold_events": 5, "gold_events_retrieved": 4}
        assert rows.skipped["gold_event_beyond_the_candidates"] == 0
        assert rows.skipped["mention_without_gold_event_in_the_language"] == 1

    def test_mentions_of_missed_gold_events_can_be_left_out(self, pairs: LinkingPairs) -> None:
        """The German mention has two gold events, of which one was found."""
        added, rows = (CandidateRows(pairs, events(), self.RETRIEVED, kept) for kept in ("add", "skip"))
        assert [rows[place] for place in range(len(rows))] == [
            {**added[place], "row": place} for place in range(2)
        ]
        assert rows.gold == added.gold
        assert rows.skipped == {**added.skipped, "mention_with_missed_gold_event": 1}
        nothing = CandidateRows(pairs, events(), np.full_like(self.RETRIEVED, FEST), "skip")
        assert (len(nothing), nothing.skipped["mention_with_missed_gold_event"]) == (0, 3)
        # A mention that is left out cannot lack a missing place.
        few = CandidateRows(pairs, events(), self.RETRIEVED[:, :1], "skip")
        assert [row["candidates"][0].title for row in (few[place] for place in range(len(few)))] == ["Siege"]
        assert few.skipped["gold_event_beyond_the_candidates"] == 0

    def test_the_lowest_scored_others_go(self, pairs: LinkingPairs) -> None:
        """Two places, of which a missing gold event takes the second."""
        retrieved = np.array([[WAR, BATTLE], [SIEGE, WAR], [-1, -1], [FEST, -1]])
        rows = CandidateRows(pairs, events(), retrieved)
        assert [event.title for event in rows[0]["candidates"]] == ["Siege", "War"]
        assert rows.gold["gold_events_retrieved"] == 1

    def test_more_gold_events_than_places(self, pairs: LinkingPairs) -> None:
        """The atomic one stays."""
        rows = CandidateRows(pairs, events(), self.RETRIEVED[:, :1])
        assert [event.title for event in rows[1]["candidates"]] == ["Battle"]
        assert rows.skipped["gold_event_beyond_the_candidates"] == 2

    def test_fewer_candidates_than_places(self, pairs: LinkingPairs) -> None:
        retrieved = np.array([[SIEGE, -1, -1], [WAR, BATTLE, -1], [-1, -1, -1], [-1, -1, -1]])
        rows = CandidateRows(pairs, events(), retrieved)
        assert [len(rows[place]["candidates"]) for place in range(3)] == [1, 2, 2]

    def test_wrong_candidates_are_never_gold(self, pairs: LinkingPairs) -> None:
        """An event that is gold without a text in the language is no wrong one in another."""
        wrong = WrongCandidates(pairs, events(), self.RETRIEVED)
        generator = np.random.default_rng(0)
        drawn = [
            {text.title for _ in range(20) for text, _ in wrong.draw(pair, 1, generator)}
            for pair in range(len(pairs))
        ]
        assert drawn == [{"War", "Battle"}, {"Siege"}, {"Siege"}, {"Fest"}, {"Fest"}]
        assert sorted(number for _, number in wrong.draw(0, 2, generator)) == [0, 1]
        assert [number for _, number in wrong.draw(1, 3, generator)] == [2, 2, 2]
        assert wrong.without == 0

    def test_mentions_without_a_wrong_candidate(self, pairs: LinkingPairs) -> None:
        retrieved = self.RETRIEVED.copy()
        retrieved[1] = [BATTLE, WAR, -1]
        wrong = WrongCandidates(pairs, events(), retrieved)
        assert wrong.without == 2
        assert wrong.draw(1, 2, np.random.default_rng(0)) == []


ATOMIC_EVENTS = [["war"]] * 6 + [["storm", "season"]] * 3 + [["flood", "season"]] * 2 + [["vote"]] + [[]] * 2


@pytest.fixture
def mentions_of_split() -> Dataset:
    """Mentions that are not in the order of their events, and a part of a larger table."""
    rows = [{"mention_id": str(place), "event_ids": events} for place, events in enumerate(ATOMIC_EVENTS)]
    others = [{"mention_id": "other", "event_ids": ["war", "season"]}] * 3
    return Dataset.from_list([*others, *rows[::2], *rows[1::2]]).select(range(3, 3 + len(rows)))


def _drawn(mentions_of_split: Dataset, seed: int = 1, **views: int | None) -> list[str]:
    rows, told = draw_mentions(mentions_of_split, views, seed)
    assert told == {"mentions_drawn": len(rows) if len(rows) < len(mentions_of_split) else 0}
    order = mentions_of_split["mention_id"]
    assert list(rows["mention_id"]) == sorted(rows["mention_id"], key=order.index)
    assert len(set(rows["mention_id"])) == len(rows)
    return list(rows["mention_id"])


def _atomic(drawn: list[str]) -> Counter[str]:
    return Counter(ATOMIC_EVENTS[int(name)][0] for name in drawn if ATOMIC_EVENTS[int(name)])


class TestDrawMentions:
    @pytest.mark.parametrize("views", [{}, {"mentions_per_event": None, "max_mentions": None}])
    def test_all_of_them(self, mentions_of_split: Dataset, views: dict[str, None]) -> None:
        assert _drawn(mentions_of_split, **views) == mentions_of_split["mention_id"]

    @pytest.mark.parametrize(
        ("most", "expected"),
        [
            (1, {"war": 1, "storm": 1, "flood": 1, "vote": 1}),
            (2, {"war": 2, "storm": 2, "flood": 2, "vote": 1}),
            (9, {"war": 6, "storm": 3, "flood": 2, "vote": 1}),
        ],
    )
    def test_so_many_of_each_atomic_event(
        self, mentions_of_split: Dataset, most: int, expected: dict[str, int]
    ) -> None:
        """An ancestor may have more; mentions without event stay, to be counted as such."""
        drawn = _drawn(mentions_of_split, mentions_per_event=most)
        assert _atomic(drawn) == expected
        assert len(drawn) == sum(expected.values()) + 2

    def test_every_mention_of_an_event_can_be_drawn(self, mentions_of_split: Dataset) -> None:
        drawn = [set(_drawn(mentions_of_split, seed, mentions_per_event=1)) for seed in range(40)]
        assert set.union(*drawn) == set(mentions_of_split["mention_id"])
        assert drawn[3] == set(_drawn(mentions_of_split, 3, mentions_per_event=1))

    def test_so_many_in_all_of_what_that_leaves(self, mentions_of_split: Dataset) -> None:
        assert len(_drawn(mentions_of_split, max_mentions=5)) == 5
        for seed in range(9):
            both = _drawn(mentions_of_split, seed, mentions_per_event=1, max_mentions=3)
            assert len(both) == 3
            assert max(_atomic(both).values(), default=0) <= 1
        assert len(_drawn(mentions_of_split, mentions_per_event=1, max_mentions=99)) == 6
