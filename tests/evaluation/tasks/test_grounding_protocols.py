"""Mentions, events and edges become the inputs of metrics."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from eventformers.errors import EventformersError
from eventformers.evaluation.tasks.base import TaskRows
from eventformers.evaluation.tasks.grounding import (
    GroundingSettings,
    discover_parents,
    link_events,
    retrieve_events,
)
from eventformers.inference.encoding.vectors import unit_vectors
from eventformers.inference.grounding.encoding import event_text, mention_text
from eventformers.inference.grounding.retrieve_rerank import GroundingModel
from eventformers.inference.search.candidate_index import CandidateIndex

AXES = ("siege", "war", "landing", "campaign", "fair", "olympics", "vote", "flood")
PARENTS = {"siege": "war", "landing": "campaign"}


def _embed(texts) -> np.ndarray:
    """Each word has an axis, and counts twice where it is spelled in capitals."""
    vectors = np.full((len(texts), len(AXES)), 0.01)
    for row, text in enumerate(texts):
        for word in text.replace(".", " ").split():
            if word.lower() in AXES:
                vectors[row, AXES.index(word.lower())] += 1 + word.isupper()
    return vectors


def _events(languages=("en",)) -> list[dict[str, object]]:
    return [
        {"event_id": f"Q-{axis}", "language": language, "title": axis, "description": ""}
        for axis in AXES
        for language in languages
    ]


def _mention(text: str, *gold: str, language: str = "en", number: int = 0) -> dict[str, object]:
    return {
        "mention_id": f"{text}/{number}",
        "language": language,
        "context_left": "",
        "mention": text,
        "context_right": "",
        "event_ids": [f"Q-{event}" for event in gold],
    }


MENTIONS = [
    _mention("the SIEGE in the war", "siege", "war"),
    _mention("a LANDING and a vote", "landing", "campaign"),
    _mention("one fair", "fair"),
    _mention("one flood", "vote"),
]
EDGES = [{"child_id": f"Q-{child}", "parent_id": f"Q-{parent}"} for child, parent in PARENTS.items()]


def _unit_vectors(texts):
    return unit_vectors(_embed(texts), texts).astype(np.float32)


MODEL = GroundingModel(
    lambda mentions: _unit_vectors([mention_text(mention) for mention in mentions]),
    lambda events: _unit_vectors([event_text(event) for event in events]),
)


def _run(protocol, mentions=MENTIONS, events=None, model=MODEL, hierarchy=EDGES, **settings):
    development, split = settings.pop("development", None), settings.pop("split", "")
    data = TaskRows(
        mentions,
        {} if development is None else {"validation": development},
        {"events": _events() if events is None else events, "hierarchy": hierarchy},
        split,
    )
    return protocol(model, data, settings=GroundingSettings(**settings))


def _scoring(logits: dict[tuple[str, str], float]) -> GroundingModel:
    """The model, with a scorer of pairs of a mention's text and an event's title; that of others is 0."""

    def score_pairs(mentions, events):
        def score(rows, places):
            pairs = zip(rows.tolist(), places.tolist(), strict=True)
            return np.array(
                [logits.get((mentions[row].mention, events[place].title), 0.0) for row, place in pairs]
            )

        return score

    return dataclasses.replace(MODEL, score_pairs=score_pairs)


def test_candidates_stand_beside_the_gold_events():
    output = _run(retrieve_events)
    assert [found[:2] for found in output.inputs["predictions"][:2]] == [
        ["Q-siege", "Q-war"],
        ["Q-landing", "Q-vote"],
    ]
    assert output.inputs["references"] == [row["event_ids"] for row in MENTIONS]
    first = output.predictions[0]
    assert first["mention_id"] == MENTIONS[0]["mention_id"]
    assert first["candidates"] == output.inputs["predictions"][0]
    assert len(first["candidates"]) == len(AXES)
    assert [row["correct"] for row in output.predictions] == [True, False, True, False]
    assert [row["with_parents_correct"] for row in output.predictions] == [
        [row["correct"]] if len(mention["event_ids"]) > 1 else []
        for row, mention in zip(output.predictions, MENTIONS, strict=True)
    ]
    assert output.details == {"mentions": 4, "events": 8, "pools": {"en": 8}}
    several = [row["event_ids"] for row in MENTIONS if len(row["event_ids"]) > 1]
    assert 0 < len(several) < len(MENTIONS)
    assert output.parts["en"] == output.inputs
    assert output.parts["with_parents"]["references"] == several
    assert set(output.parts) == {"en", "with_parents"}
    assert (output.texts, output.distinct_texts) == (12, 12)


def test_as_many_candidates_are_found_as_a_mention_has_gold_events():
    events = [{**_events()[0], "event_id": f"Q-{number}", "title": "fair"} for number in range(30)]
    mention = {**MENTIONS[2], "event_ids": [f"Q-{number}" for number in range(20)]}
    output = _run(retrieve_events, [mention], events)
    assert len(output.inputs["predictions"][0]) == 20
    assert len(output.predictions[0]["candidates"]) == 16


def test_candidates_are_the_events_of_the_language():
    events = [row for row in _events(("en", "de")) if (row["event_id"], row["language"]) != ("Q-fair", "de")]
    mentions = [
        *MENTIONS,
        _mention("ein SIEGE im war", "siege", "war", language="de"),
        _mention("une fair", "fair", language="fr"),
        _mention("eine fair", "fair", language="de"),
    ]
    output = _run(retrieve_events, mentions, events)
    assert output.inputs["predictions"][4][:2] == ["Q-siege", "Q-war"]
    assert "Q-fair" not in output.inputs["predictions"][4]
    assert output.inputs["predictions"][5] == []
    assert output.details["pools"] == {"en": 8, "de": 7}
    assert output.details["mentions_without_pool"] == {"fr": 1}
    assert output.details["gold_events_outside_pool"] == 2
    assert output.details["mentions_without_gold_event_in_pool"] == 2
    assert {name: len(part["references"]) for name, part in output.parts.items()} == {
        "de": 2,
        "en": 4,
        "fr": 1,
        "with_parents": 3,
    }


def test_a_knowledge_base_of_one_language_serves_all_mentions():
    mentions = [*MENTIONS, _mention("ein SIEGE im war", "siege", "war", language="de")]
    output = _run(retrieve_events, mentions)
    assert output.inputs["predictions"][4][:2] == ["Q-siege", "Q-war"]
    assert "mentions_without_pool" not in output.details


def test_events_are_linked_from_a_threshold_on():
    found = {(MENTIONS[0]["mention"], title): 3.0 for title in ("war", "siege")}
    found[MENTIONS[1]["mention"], "landing"] = 5.0
    output = _run(link_events, model=_scoring(found), threshold=0.9)
    assert output.inputs["predictions"] == [["Q-siege", "Q-war"], ["Q-landing"], [], []]
    assert output.inputs["references"] == [row["event_ids"] for row in MENTIONS]
    assert output.details["threshold"] == 0.9
    assert output.details["threshold_chosen_on"] == "given"
    assert "products" not in output.details
    assert output.predictions[1]["linked"] == ["Q-landing"]
    assert [row["correct"] for row in output.predictions] == [True, False, False, False]
    assert output.predictions[1]["candidates"][:2] == ["Q-landing", "Q-vote"]
    assert output.predictions[1]["probabilities"][:2] == [pytest.approx(0.993307), 0.5]
    assert output.parts["en"] == output.inputs
    # As many as there are gold events, whatever their probability.
    best = [["Q-siege", "Q-war"], ["Q-landing", "Q-vote"], ["Q-fair"], ["Q-flood"]]
    assert output.parts["top_min"]["predictions"] == output.parts["top_min, en"]["predictions"] == best
    gold = [set(row["event_ids"]) for row in MENTIONS]
    assert [row["top_min_correct"] for row in output.predictions] == [
        set(first) == own for first, own in zip(best, gold, strict=True)
    ]
    assert len({row["top_min_correct"] for row in output.predictions}) == 2


def test_candidates_alone_are_scored_anew():
    found = {(MENTIONS[0]["mention"], "flood"): 9.0, (MENTIONS[0]["mention"], "war"): 3.0}
    mentions = MENTIONS[:1]
    some = _run(link_events, mentions, model=_scoring(found), threshold=0.9, candidates=2)
    assert some.inputs["predictions"] == [["Q-war"]]
    assert some.predictions[0]["candidates"] == ["Q-war", "Q-siege"]
    assert some.details["mentions_with_all_gold_events_among_candidates"] == 100
    every = _run(link_events, mentions, model=_scoring(found), threshold=0.9)
    assert every.inputs["predictions"] == [["Q-flood", "Q-war"]]
    one = _run(link_events, mentions, model=_scoring(found), threshold=0.9, candidates=1)
    assert one.details["mentions_with_all_gold_events_among_candidates"] == 0


@pytest.mark.parametrize(("protocol", "setting"), [(link_events, "candidates"), (discover_parents, "depth")])
def test_more_candidates_than_events_are_all(protocol, setting: str) -> None:
    # Room for as many as are asked for would be more than any machine has.
    asked, every = (_run(protocol, threshold=0.5, **{setting: number}) for number in (10**20, len(_events())))
    assert asked.inputs == every.inputs


def test_texts_of_the_language_are_scored():
    events = [{**row, "title": f"{row['title']} {row['language']}"} for row in _events(("de", "en"))]
    german = _mention("ein SIEGE", "siege", language="de")
    model = _scoring({("ein SIEGE", "siege de"): 5.0, ("ein SIEGE", "war en"): 5.0})
    output = _run(link_events, [german, MENTIONS[0]], events, model, threshold=0.9)
    assert output.inputs["predictions"] == [["Q-siege"], []]


def test_a_softmax_links_one_of_two_that_a_sigmoid_would_both_link():
    found = {(MENTIONS[0]["mention"], title): score for title, score in (("war", 5.0), ("siege", 7.0))}
    pairs = _scoring(found)
    shared = dataclasses.replace(pairs, pairs_by_softmax=True)
    for model, linked in ((pairs, ["Q-siege", "Q-war"]), (shared, ["Q-siege"])):
        assert _run(link_events, model=model, threshold=0.6).inputs["predictions"][0] == linked


def test_the_threshold_is_chosen_on_the_development_split():
    # On the development mention 0.7 to 0.9 link the siege alone, on the scored one everything else.
    held = [_mention("held SIEGE", "siege")]
    found = {("held SIEGE", title): -2.0 for title in AXES} | {("held SIEGE", "siege"): 0.0}
    found |= {(MENTIONS[0]["mention"], title): -3.0 for title in AXES}
    found[MENTIONS[0]["mention"], "siege"] = found[MENTIONS[0]["mention"], "war"] = -0.5
    arguments = {"mentions": MENTIONS[:1], "model": _scoring(found)}
    output = _run(link_events, **arguments, development=held, split="test")
    # Of 0.3 and 0.5, which are as good there, the higher.
    assert output.details["threshold"] == 0.5
    assert output.details["threshold_chosen_on"] == "validation"
    assert output.details["products"]["0.3"] == output.details["products"]["0.5"] == 1
    assert output.inputs["predictions"] == [[]]
    alone = _run(link_events, **arguments, development=None, split="validation")
    assert alone.details["threshold"] == 0.3
    assert alone.details["threshold_chosen_on"] == "validation, the scored split itself"
    assert alone.inputs["predictions"] == [["Q-siege", "Q-war"]]
    with pytest.raises(EventformersError, match="found no split 'validation' to choose a threshold on; acc"):
        _run(link_events, **arguments, split="test")


def test_scores_that_are_no_logits_are_brought_to_one_scale():
    scaled = dataclasses.replace(
        MODEL,
        make_index=lambda ids, vectors, languages: CandidateIndex(ids, 100 * vectors),
    )
    first, second = (_run(link_events, model=model, split="validation") for model in (MODEL, scaled))
    assert first.inputs == second.inputs
    assert first.details["threshold"] == second.details["threshold"] == 0.7
    assert first.inputs["predictions"][2] == ["Q-fair"]
    mean = np.mean(
        [np.log(chance / (1 - chance)) for row in first.predictions for chance in row["probabilities"]]
    )
    assert mean == pytest.approx(0, abs=1e-3)
    own = dataclasses.replace(MODEL, logits=lambda scores: scores * 0 - 5)
    assert _run(link_events, model=own, threshold=0.1).inputs["predictions"] == [[]] * 4


def test_parents_are_ranked_by_shared_mentions():
    mentions = [
        *(_mention(f"a SIEGE in the war {number}", "siege", "war", number=number) for number in range(3)),
        _mention("SIEGE at the fair", "siege"),
        _mention("LANDING at the flood", "landing", "campaign"),
    ]
    output = _run(discover_parents, mentions, depth=2)
    # Of the landing's mention the campaign is no candidate: it ties with all others at 0.
    assert output.inputs["predictions"] == [1, 2]
    assert output.parts["pessimistic"] == {"predictions": [1, 7]}
    assert output.predictions == [
        {"event_id": "Q-siege", "parents": ["Q-war"], "rank": 1, "correct": True, "first": "Q-war"},
        {
            "event_id": "Q-landing",
            "parents": ["Q-campaign"],
            "rank": 2,
            "correct": False,
            "first": "Q-flood",
            "pessimistic_rank": 7,
        },
    ]
    told = {name: count for name, count in output.details.items() if name.startswith("children")}
    assert told == {
        "children": 2,
        "children_unlinked": 0,
        "children_without_known_parent": 0,
        "children_tied": 1,
        "children_mentioned": 2,
    }


def test_children_that_no_mention_is_linked_to_are_missed():
    mentions = [_mention("SIEGE in a war", "siege"), _mention("war and SIEGE", "siege")]
    mentions.append(_mention("SIEGE und flood", "siege", language="de"))
    hierarchy = [*EDGES, {"child_id": "Q-siege", "parent_id": "Q-nowhere"}]
    hierarchy.append({"child_id": "Q-war", "parent_id": "Q-nowhere"})
    output = _run(discover_parents, mentions, hierarchy=hierarchy, depth=2)
    # Of several parents the best counts, and one outside the knowledge base is never found.
    assert output.inputs["predictions"] == [1, math.inf, math.inf]
    assert [row["rank"] for row in output.predictions] == [1, None, None]
    assert output.predictions[0]["parents"] == ["Q-war", "Q-nowhere"]
    assert (output.details["children_unlinked"], output.details["children_without_known_parent"]) == (1, 1)
    assert output.parts["mentioned"] == output.parts["en"] == {"predictions": [1]}
    # The one German mention has the flood among its first candidates, and not the war.
    [rank] = output.parts["de"]["predictions"]
    assert rank > 1


def test_the_first_candidates_alone_count_as_linked():
    mentions = [_mention("SIEGE in a war", "siege")]
    assert _run(discover_parents, mentions, hierarchy=EDGES[:1], depth=2).inputs["predictions"] == [1]
    assert _run(discover_parents, mentions, hierarchy=EDGES[:1], depth=1).inputs["predictions"] != [1]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mentions": []}, "none of the 0 mentions has a gold event"),
        ({"events": []}, "none of the 4 mentions has a gold event"),
        ({"hierarchy": []}, "found no edge from a child to its parent"),
        (
            {"mentions": [_mention("a fair")]},
            "mention a fair/0 has the gold events \\[\\]; accepted: at least",
        ),
        ({"mentions": [{**MENTIONS[0], "event_ids": "Q-war"}]}, "has the gold events 'Q-war'"),
        ({"mentions": [_mention("a fair", "ball")]}, "none of the 1 mentions has a gold event among the ev"),
        (
            {"mentions": [{"mention": "fair", "event_ids": ["a"]}]},
            "found columns mention, event_ids; accepted",
        ),
        ({"events": [*_events(), *_events()]}, "8 events given several times among the candidates"),
    ],
)
def test_bad_input_is_told(changed, message):
    # Before anything is encoded, but for what the index itself refuses.
    model = (
        MODEL
        if "given several times" in message
        else dataclasses.replace(MODEL, read_events=None, read_mentions=None)
    )
    with pytest.raises(EventformersError, match=message):
        _run(discover_parents, model=model, **changed)
