"""Protocols of pairs, alternatives, ranks and chains on rows written by hand."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from chain_rows import TableScorer, event, events

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.tasks import chains, graph, pairs
from eventformers.evaluation.tasks.base import TaskRows, TaskSettings
from eventformers.evaluation.tasks.chains import ChainSettings
from eventformers.evaluation.tasks.graph import GraphSettings, PremiseModel
from eventformers.evaluation.tasks.pairs import PairSettings
from eventformers.inference.commonsense.alternative_index import Votes


def compare_pairs(embed, rows):
    return pairs.compare_pairs(embed, TaskRows(rows), PairSettings())


def grade_pairs(embed, rows):
    return pairs.grade_pairs(embed, TaskRows(rows), PairSettings())


def choose_alternatives(embed, rows):
    return graph.choose_alternatives(PremiseModel(embed), TaskRows(rows), TaskSettings())


def rank_alternatives(embed, rows, others, rerank=None):
    with mock.patch.object(graph, "VOTES", rerank):
        settings = GraphSettings(rerank=rerank is not None)
        return graph.rank_alternatives(PremiseModel(embed), TaskRows(rows, others), settings)


def event_of(words: str) -> dict[str, str]:
    subject, predicate, object_ = [*words.split(), "", ""][:3]
    return {"subject": subject, "predicate": predicate, "object": object_}


class Embedding:
    """Events to the vectors of a table, and how many events were asked for."""

    def __init__(self, **vectors):
        self.vectors = vectors
        self.asked = []

    def __call__(self, events):
        self.asked.extend(events)
        return np.asarray([self.vectors[event_of["predicate"]] for event_of in events], dtype=np.float32)


def row(*words: str) -> dict[str, dict[str, str]]:
    columns = ("similar_a", "similar_b", "dissimilar_a", "dissimilar_b")
    return {column: event_of(f"someone {word} it") for column, word in zip(columns, words, strict=True)}


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
        {"event_a": event_of("a b"), "event_b": {"subject": "", "predicate": "a", "object": "b"}, "score": 3}
    ]
    assert grade_pairs(embed, rows).inputs == {"predictions": [0.0], "references": [3.0]}
    assert len(seen) == 2


def test_graded_pairs_keep_the_order_of_the_rows():
    embed = Embedding(buy=[1, 0], purchase=[1, 1], sell=[0, 1])
    rows = [
        {"event_a": event_of("x buy"), "event_b": event_of("x sell"), "score": 1.5},
        {"event_a": event_of("x buy"), "event_b": event_of("x purchase"), "score": 6},
    ]
    output = grade_pairs(embed, iter(rows))
    assert output.inputs["predictions"] == pytest.approx([0, np.sqrt(0.5)])
    assert output.predictions[1] == {"prediction": pytest.approx(np.sqrt(0.5)), "reference": 6.0}


@pytest.mark.parametrize("wrong", [[np.nan, 0], [np.inf, 1], [0, 0]])
def test_a_vector_without_a_cosine_is_refused_by_its_event(wrong):
    embed = Embedding(buy=[1, 0], purchase=[1, 1], sell=wrong)
    with pytest.raises(EventformersError, match=r"1 of 3 texts, the first 'someone sell it'"):
        compare_pairs(embed, [row("buy", "purchase", "buy", "sell")])


def test_missing_columns_are_refused():
    embed = Embedding(buy=[1, 0])
    with pytest.raises(EventformersError, match=r"found columns event_a; accepted: .* 'event_b'"):
        grade_pairs(embed, [{"event_a": event_of("x buy")}])


class TextEmbedding:
    """Texts to the vectors of a table, and the calls."""

    def __init__(self, **vectors):
        self.vectors = vectors
        self.calls = []

    def __call__(self, texts):
        self.calls.append(list(texts))
        return np.asarray([self.vectors[text] for text in texts], dtype=np.float32)


def question(premise: str, *alternatives: str, label: int = 0) -> dict[str, object]:
    return {"premise": premise, "alternatives": list(alternatives), "label": label}


def test_the_nearest_alternative_is_chosen_and_the_first_of_a_tie():
    embed = TextEmbedding(rain=[1, 0], wet=[2, 0.2], dry=[0, 3], damp=[4, 0.4])
    rows = [
        question("rain", "dry", "wet", label=1),
        question("rain", "damp", "wet", "dry", label=1),
        question("rain", "wet", "wet", label=0),
    ]
    output = choose_alternatives(embed, iter(rows))
    assert [record["correct"] for record in output.predictions] == [True, False, True]
    assert output.inputs["references"] == [1, 1, 0]
    assert output.inputs["predictions"][0] == pytest.approx([0, 1 / np.sqrt(1.01)])
    assert output.inputs["predictions"][1][0] == output.inputs["predictions"][1][1]
    assert len(embed.calls) == 1
    assert output.distinct_texts == len(embed.calls[0]) == 4
    assert output.texts == 10


def test_equal_alternatives_tie_whatever_their_vectors():
    generator = np.random.default_rng(0)
    vectors = {f"v{index}": generator.normal(size=384) for index in range(40)}
    vectors |= {f"copy of v{index}": vectors[f"v{index}"] * 4 for index in range(40)}
    rows = [question("v0", *(f"v{i}" for i in range(1, n)), f"copy of v{n - 1}") for n in range(3, 40)]
    output = choose_alternatives(TextEmbedding(**vectors), rows)
    assert all(scores[-1] == scores[-2] for scores in output.inputs["predictions"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (question("rain", "wet"), r"row 1 \('rain'\) has the alternatives \['wet'\]; accepted: at least two"),
        (question("rain", "wet", "dry", label=2), "has the label 2; accepted: the index .* 0 to 1"),
        (question("rain", "wet", "dry", label=-1), "has the label -1"),
        ({"question": "rain"}, "found columns question; accepted: a text in the column 'premise'"),
    ],
)
def test_a_question_that_is_not_whole_is_refused(row, message):
    embed = TextEmbedding(rain=[1, 0], wet=[1, 1], dry=[0, 1])
    with pytest.raises(EventformersError, match=message):
        choose_alternatives(embed, [question("rain", "wet", "dry"), row])


def pair(premise: str, alternative: str, direction: str = "forward") -> dict[str, str]:
    return {"premise": premise, "alternative": alternative, "direction": direction}


def test_alternatives_are_ranked_among_those_of_all_splits():
    embed = TextEmbedding(p=[1, 0], q=[0, 1], a=[1, 0.1], b=[1, 0.2], c=[1, 0.3], d=[1, 0.3], e=[-1, 0])
    rows = [pair("p", "a"), pair("p", "c"), pair("q", "b", "reverse")]
    others = {"train": [pair("p", "b"), pair("r", "d"), pair("r", "e")], "test": [pair("q", "c")]}
    output = rank_alternatives(embed, iter(rows), others)
    # Of the five, a and b are known for p, and c is known for q; c and d are alike.
    assert output.inputs == {"predictions": [1, 1.5, 2]}
    assert output.predictions == [{"rank": 1}, {"rank": 1.5, "from": 1, "to": 2}, {"rank": 2}]
    assert output.parts == {
        "forward": {"predictions": [1, 1.5]},
        "reverse": {"predictions": [2]},
        "optimistic": {"predictions": [1, 1, 2]},
        "pessimistic": {"predictions": [1, 2, 2]},
    }
    assert output.details == {
        "candidates": 5,
        "candidates_from": "the scored split, train, test",
        "premises": 2,
        "known_alternatives_left_out": 5,
        "tied_rows": 1,
    }
    assert len(embed.calls) == 1
    assert sorted(embed.calls[0]) == ["a", "b", "c", "d", "e", "p", "q"]


def test_a_text_on_both_sides_is_embedded_once_and_is_its_own_candidate():
    embed = TextEmbedding(x=[1, 0], y=[1, 1])
    output = rank_alternatives(embed, [pair("x", "y"), pair("y", "x", "reverse")], {})
    assert [sorted(call) for call in embed.calls] == [["x", "y"]]
    assert output.inputs["predictions"] == [2, 2]


def test_training_premises_vote_on_the_ranks():
    """By cosine `d` is first; the nearest training premise knows `b`; those of validation have no vote."""
    embed = TextEmbedding(p=[1, 0], n=[1, 0.1], f=[0, 1], b=[-1, 0.1], c=[0.5, 1], d=[1, 0.2])
    others = {
        "validation": [pair("p", "c"), pair("n", "d")],
        "train": [pair("n", "b"), pair("f", "c"), pair("n", "b")],
    }
    votes = Votes(neighbours=1, temperature=0.1, expansion=0.0, weight=3.0)
    plain = rank_alternatives(embed, [pair("p", "b")], others)
    output = rank_alternatives(embed, [pair("p", "b")], others, rerank=votes)
    assert plain.inputs["predictions"] == [2]
    assert output.inputs["predictions"] == [1]
    assert output.details["rerank"] == {"votes_of": "train", **votes._asdict()}
    silent = votes._replace(weight=0.0)
    assert rank_alternatives(embed, [pair("p", "b")], others, rerank=silent).inputs == plain.inputs
    moved = silent._replace(expansion=9.0)
    assert rank_alternatives(embed, [pair("p", "b")], others, rerank=moved).inputs["predictions"] == [1]


def test_votes_never_come_from_the_scored_split():
    """The rows that are ranked know their answers; a training split of others says nothing of them."""
    embed = TextEmbedding(p=[1, 0], f=[0, 1], a=[1, 0], b=[-1, 0.1], c=[0.5, 1])
    votes = Votes(neighbours=5, weight=9.0)
    others = {"train": [pair("f", "c")], "test": [pair("p", "a")]}
    assert rank_alternatives(embed, [pair("p", "b")], others, rerank=votes).inputs["predictions"] == [2]
    with pytest.raises(EventformersError, match=r"votes of the split 'train'; found beside .*: test"):
        rank_alternatives(embed, [pair("p", "b")], {"test": [pair("p", "a")]}, rerank=votes)


def test_ranking_refuses_missing_columns():
    embed = TextEmbedding(p=[1, 0], a=[1, 0])
    with pytest.raises(EventformersError, match=r"found columns premise; .* 'direction'"):
        rank_alternatives(embed, [{"premise": "p"}], {})
    with pytest.raises(EventformersError, match="1 of 1 texts, the first 'a'"):
        rank_alternatives(TextEmbedding(p=[1, 0], a=[0, 0]), [pair("p", "a")], {})


def choose_next_event(scorer, rows):
    return chains.choose_next_event(scorer, TaskRows(rows), ChainSettings())


def follow_steps(scorer, rows, decoder, **settings):
    return chains.follow_steps(scorer, TaskRows(rows), ChainSettings(**settings), decoder=decoder)


def cloze_row(context: str, choices: str, label: int) -> dict[str, object]:
    return {"context": named(context), "choices": named(choices), "label": label}


def steps_row(start: str, steps: list[str], labels: list[int]) -> dict[str, object]:
    return {"start": named(start)[0], "steps": [named(step) for step in steps], "labels": labels}


def named(names: str) -> list[dict[str, str]]:
    return events(*(f"someone {name} it" for name in names.split()))


# From the start s over a0 or a1 and b0 or b1 to c0 or c1.
TABLE = {
    **{"s a0": 0.6, "s a1": 0.4},
    **{"a0 b0": 0.45, "a0 b1": 0.55, "a1 b0": 0.05, "a1 b1": 0.95},
    **{"b0 c0": 0.3, "b0 c1": 0.7, "b1 c0": 0.6, "b1 c1": 0.4},
    **{"a0 c0": 0.9, "a0 c1": 0.1, "a1 c0": 0.1, "a1 c1": 0.9},
}
ROWS = [steps_row("s", ["a0 a1", "b0 b1", "c0 c1"], [0, 0, 1])]


def test_the_best_choice_is_the_answer():
    scorer = TableScorer({"x right": 0.9, "x left": 0.8, "y left": 0.7})
    output = choose_next_event(
        scorer, [cloze_row("x", "left right", 1), cloze_row("x y", "right left up up", 2)]
    )
    assert output.inputs["references"] == [1, 2]
    assert output.inputs["predictions"] == [[0.8, 0.9], pytest.approx([0.7, 0.75, 0.5, 0.5])]
    assert [record["correct"] for record in output.predictions] == [True, False]
    assert output.texts == 9
    assert output.distinct_texts == 5
    assert scorer.calls == ["score_choices"]


def test_blocks_of_questions_give_the_same_scores(monkeypatch):
    scorer = TableScorer({"x right": 0.9, "x left": 0.8, "y left": 0.7})
    rows = [
        cloze_row("x", "left right", 1),
        cloze_row("x y", "right left up up", 2),
        cloze_row("y", "a b", 0),
    ]
    whole = choose_next_event(scorer, rows), follow_steps(TableScorer(TABLE), ROWS * 3, decoder="mcns_v")
    monkeypatch.setattr(chains, "BLOCK_QUESTIONS", 2)
    scorers = TableScorer(scorer.table), TableScorer(TABLE)
    parts = choose_next_event(scorers[0], rows), follow_steps(scorers[1], ROWS * 3, decoder="mcns_v")
    for one, other in zip(whole, parts, strict=True):
        assert (one.inputs, one.predictions, one.texts) == (other.inputs, other.predictions, other.texts)
    assert [of_one.calls for of_one in scorers] == [["score_choices"] * 2, ["similarities"] * 2]
    # An event of two blocks is encoded twice.
    assert [part.distinct_texts for part in parts] == [8, 14]


@pytest.mark.parametrize(
    ("decoder", "path"),
    [
        # s a1 b1 c0: 0.4 x 0.95 x 0.6.
        ("mcns_v", [1, 1]),
        # Held to c1, s a0 b0 c1 goes before: 0.6 x 0.45 x 0.7.
        ("mcne_v", [0, 0]),
        ("base", [0, 1]),
        # Step 1: 0.6 + 0.45 + 0.1 against 0.4 + 0.05 + 0.9; step 2: 1.65 against 1.45.
        ("sky", [1, 0]),
    ],
)
def test_each_decoder_takes_its_path_and_the_last_step_is_not_scored(decoder, path):
    scorer = TableScorer(TABLE)
    output = follow_steps(scorer, ROWS * 2, decoder=decoder)
    record = {"chosen": path, "labels": [0, 0], "correct": [index == 0 for index in path]}
    assert output.predictions == [record] * 2
    assert output.inputs == {"predictions": [path] * 2, "references": [[0, 0]] * 2}
    assert (output.texts, output.distinct_texts) == (14, 7)
    # All at once, so that every distinct event is encoded once.
    assert scorer.calls == ["similarities"]


def test_sky_can_read_the_right_events_as_one_chain():
    scorer = TableScorer(TABLE)
    output = follow_steps(scorer, ROWS, decoder="sky", sky="graph")
    assert scorer.calls == ["score_choices"]
    assert scorer.contexts == ["s b0 c1", "s a0 c1", "s a0 b0"]
    # Step 1 by what follows s, step 2 by what follows a0: a chain is read forwards alone.
    assert output.predictions[0]["chosen"] == [0, 1]


def test_the_reference_codes_normalisation_can_change_the_path():
    scorer = TableScorer({"a0 b0": 6, "a0 b1": 3, "a1 b0": 1, "a1 b1": 3})
    rows = [steps_row("s", ["a0 a1", "b0 b1"], [0, 0])]
    # 3 / 4 is the best of the rows; divided by the other row's sum, 3 / 4 of the first row is as good.
    assert follow_steps(scorer, rows, decoder="mcns_v").predictions[0]["chosen"] == [1]
    assert follow_steps(scorer, rows, decoder="mcns_v", compat=True).predictions[0]["chosen"] == [0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"choices": [], "label": 0}, "a list of events in the column 'context'"),
        (cloze_row("a", "b c", 2), "row 0 has the label 2; accepted: .* 0 to 1"),
        (cloze_row("a", "b", 0), "row 0 has 1 context events and 1 choices"),
        (cloze_row("", "b c", 0), "row 0 has 0 context events"),
        ({**cloze_row("a", "b c", 0), "context": ["a"]}, "an event with .* in the column 'context'"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(row, message):
    with pytest.raises(EventformersError, match=message):
        choose_next_event(TableScorer({}), [row])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"start": event("a 1 b")}, "lists in the columns 'steps' and 'labels'"),
        (steps_row("s", ["a b"], [0]), "row 0 has 1 steps and 1 labels"),
        (steps_row("s", ["a b", "c d"], [0]), "2 steps and 1 labels"),
        (steps_row("s", ["a b", "c d"], [0, 5]), "row 0 has the label 5"),
        ({**steps_row("s", ["a b", "c d"], [0, 1]), "start": None}, "in the column 'start'"),
    ],
)
def test_steps_that_cannot_be_followed_are_refused(row, message):
    with pytest.raises(EventformersError, match=message):
        follow_steps(TableScorer({}), [row], decoder="base")


def test_settings_are_checked_and_name_what_is_chosen():
    assert ChainSettings().name == ""
    settings = ChainSettings(aggregation="last", sky="graph", compat=True)
    assert settings.chosen == {"aggregation": "last", "sky": "graph", "compat": True}
    assert settings.name == "aggregation-last-sky-graph-compat-true"
    with pytest.raises(UnknownNameError, match="sky"):
        ChainSettings(sky="blue")
    with pytest.raises(UnknownNameError, match="aggregation"):
        ChainSettings(aggregation="first")
    with pytest.raises(EventformersError, match="compat: found 'yes'"):
        ChainSettings(compat="yes")
