from __future__ import annotations

import numpy as np
import pytest

from eventformers.errors import EventformersError
from eventformers.protocols import compare_pairs, grade_pairs


def event(words: str) -> dict[str, str]:
    subject, predicate, object_ = [*words.split(), "", ""][:3]
    return {"subject": subject, "predicate": predicate, "object": object_}


class Embedding:
    """Events to the vectors of a table, and how many events were asked for."""

    def __init__(self, **vectors):
        self.vectors = vectors
        self.asked = []

    def __call__(self, events):
        self.asked.extend(events)
        return np.asarray([self.vectors[event["predicate"]] for event in events], dtype=np.float32)


def row(*words: str) -> dict[str, dict[str, str]]:
    columns = ("similar_a", "similar_b", "dissimilar_a", "dissimilar_b")
    return {column: event(f"someone {word} it") for column, word in zip(columns, words, strict=True)}


def test_the_closer_pair_wins_and_a_tie_loses():
    embed = Embedding(buy=[1, 0], purchase=[2, 0.2], sell=[0, 3])
    output = compare_pairs(
        embed,
        [row("buy", "purchase", "buy", "sell"), row("buy", "sell", "purchase", "buy"), row(*["buy"] * 4)],
    )
    assert [record["correct"] for record in output.predictions] == [True, False, False]
    assert output.inputs["similar"] == pytest.approx([1 / np.sqrt(1.01), 0, 1])
    assert output.inputs["dissimilar"] == pytest.approx([0, 1 / np.sqrt(1.01), 1])


def test_pairs_of_one_event_with_itself_tie_whatever_their_vectors():
    generator = np.random.default_rng(0)
    vectors = {
        f"v{index}": generator.normal(size=384) * 10.0 ** generator.integers(-3, 4) for index in range(40)
    }
    rows = [row(f"v{i}", f"v{i}", f"v{i + 1}", f"v{i + 1}") for i in range(0, 40, 2)]
    inputs = compare_pairs(Embedding(**vectors), rows).inputs
    assert inputs["similar"] == inputs["dissimilar"] == [1.0] * 20


def test_a_repeated_event_is_embedded_once():
    embed = Embedding(buy=[1, 0], purchase=[1, 1], sell=[0, 1])
    output = compare_pairs(embed, [row("buy", "purchase", "buy", "sell")] * 5)
    assert len(embed.asked) == output.distinct_texts == 3
    assert output.texts == 20


def test_the_roles_of_an_event_keep_it_apart():
    seen = []

    def embed(events):
        seen.extend(events)
        return np.eye(len(events))

    rows = [
        {"event_a": event("a b"), "event_b": {"subject": "", "predicate": "a", "object": "b"}, "score": 3}
    ]
    assert grade_pairs(embed, rows).inputs == {"predictions": [0.0], "references": [3.0]}
    assert len(seen) == 2


def test_graded_pairs_keep_the_order_of_the_rows():
    embed = Embedding(buy=[1, 0], purchase=[1, 1], sell=[0, 1])
    rows = [
        {"event_a": event("x buy"), "event_b": event("x sell"), "score": 1.5},
        {"event_a": event("x buy"), "event_b": event("x purchase"), "score": 6},
    ]
    output = grade_pairs(embed, iter(rows))
    assert output.inputs["predictions"] == pytest.approx([0, np.sqrt(0.5)])
    assert output.predictions[1] == {"prediction": pytest.approx(np.sqrt(0.5)), "reference": 6.0}


@pytest.mark.parametrize("wrong", [[np.nan, 0], [np.inf, 1], [0, 0]])
def test_a_vector_without_a_cosine_is_refused_by_its_event(wrong):
    embed = Embedding(buy=[1, 0], purchase=[1, 1], sell=wrong)
    with pytest.raises(EventformersError, match=r"1 of 3 texts, the first 'someone sell it'"):
        compare_pairs(embed, [row("buy", "purchase", "buy", "sell")])


def test_no_rows_and_missing_columns_are_refused():
    embed = Embedding(buy=[1, 0])
    with pytest.raises(EventformersError, match="no rows"):
        compare_pairs(embed, [])
    with pytest.raises(EventformersError, match=r"found columns event_a; accepted: .* 'event_b'"):
        grade_pairs(embed, [{"event_a": event("x buy")}])


def test_a_wrong_number_of_vectors_is_refused():
    with pytest.raises(EventformersError, match=r"shape \(1, 2\) for 3 texts"):
        compare_pairs(lambda events: np.ones((1, 2)), [row("buy", "purchase", "buy", "sell")])
