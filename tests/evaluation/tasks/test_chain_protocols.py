from __future__ import annotations

import pytest
from chain_rows import TableScorer, event, events

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.tasks import chains
from eventformers.evaluation.tasks.base import TaskRows
from eventformers.evaluation.tasks.chains import ChainSettings


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
