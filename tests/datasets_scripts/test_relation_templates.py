"""Relations in words: the paper's templates, names for placeholders, and templates of one's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eventformers.datasets_scripts.relation_templates import (
    Direction,
    relation_templates,
)
from eventformers.errors import EventformersError, UnknownNameError

PAIRS = """\
atomic
John leaves John's book | xWant | to read
John leaves John's book. as a result, John wants | to read
John wants to read. because John | leaves John's book

atomic
PersonX thanks PersonY's mother | oReact | happy for PersonX
John thanks Tom's mother. as a result, Tom or others feel | happy for John
Tom or others feel happy for John. because John | thanks Tom's mother

atomic
PersonX wears ___ to school | xNeed | to buy clothes
John wears  to school. but before, John needed | to buy clothes
John needs to buy clothes. as a result John | wears  to school

conceptnet
small mammal | HasProperty | underground
small mammal can be characterized by being or having | underground
underground is the property of | small mammal

conceptnet
run | MotivatedByGoal | keep fit
run is a step towards accomplishing the goal | keep fit
keep fit motivate | run

conceptnet
personx | NotMadeOf | ___
personx is not made of | ___
___ is not used to make | personx
"""
"""A graph, a triple, and its forward and reverse pair."""


@pytest.mark.parametrize("lines", PAIRS.split("\n\n"))
def test_premises_and_alternatives(lines: str) -> None:
    graph, *rows = lines.splitlines()
    triple, forward, reverse = (tuple(row.split(" | ")) for row in rows)
    templates = relation_templates(graph)
    assert templates.pair(*triple, "forward") == forward
    assert templates.pair(*triple, "reverse") == reverse
    head, relation, tail = triple
    assert templates.premise(relation, head, "forward") == forward[0]
    assert templates.premise(relation, tail, "reverse") == reverse[0]
    assert templates.alternative(tail, "forward") == forward[1]
    assert templates.alternative(head, "reverse") == reverse[1]


def test_a_head_of_one_word_stays_whole() -> None:
    assert relation_templates("atomic").alternative("accidents", "reverse") == "accidents"


def test_every_relation_of_the_graphs_has_both_templates() -> None:
    directions: tuple[Direction, ...] = ("forward", "reverse")
    for graph, count in (("conceptnet", 34), ("atomic", 9)):
        templates = relation_templates(graph)
        assert len(templates.relations) == count
        for relation in templates.relations:
            for direction in directions:
                premise = templates.premise(relation, "TEXT", direction)
                assert premise.count("TEXT") == 1
                assert not re.search(r"[{}]|Person|  |^ | $", premise)


def test_an_unknown_relation_lists_the_known_ones_and_the_way_out() -> None:
    told = r"Did you mean 'xWant'\? Accepted: oEffect, .*xWant; or one of .*templates=FILE\.yaml"
    with pytest.raises(UnknownNameError, match=told):
        relation_templates("atomic").premise("xWnt", "John sings", "forward")
    with pytest.raises(UnknownNameError, match="commonsense graph 'wordnet'"):
        relation_templates("wordnet")


def test_a_file_adds_relations_and_replaces_templates(tmp_path: Path) -> None:
    file = tmp_path / "templates.yaml"
    file.write_text(
        'xReason: {forward: "{head}. PersonX did so for", reverse: "For {tail} PersonX"}\n'
        'xWant:\n  forward: "{head}, so PersonY wants"\n  reverse: "{tail}, because"\n',
        encoding="utf-8",
    )
    templates = relation_templates("atomic", file)
    assert len(templates.relations) == 10
    assert templates.pair("John sings", "xReason", "joy", "forward") == ("John sings. John did so for", "joy")
    assert templates.pair("John sings", "xReason", "joy", "reverse") == ("For joy John", "sings")
    assert templates.premise("xWant", "John sings", "forward") == "John sings, so Tom wants"
    assert templates.premise("xNeed", "John sings", "forward") == "John sings. but before, John needed"


TEMPLATE = '{}: {{forward: "{{head}} a", reverse: "b {{tail}}"}}'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "found no relations; accepted: lines like MyRelation:"),
        ("xReason", "found no relations"),
        ("xReason: [", "invalid YAML"),
        ("[" * 1_000, "YAML that is nested too deeply"),
        ("2001-99-99: a", "invalid YAML (month must be in 1..12)"),
        ("xReason: because", "'xReason': found str; accepted: lines like"),
        ('xReason: {forward: "{head} a"}', "'xReason': found the keys ['forward']"),
        (
            'xReason: {forward: "a", reverse: "{tail}"}',
            "'xReason', forward: found 'a'; accepted: a text with",
        ),
        ('xReason: {forward: "{head}", reverse: "{head}"}', "'xReason', reverse: found '{head}'"),
        ("xReason: {forward: 1, reverse: 2}", "'xReason', forward: found int"),
        (f"{TEMPLATE.format('No')}", "found the relation False; accepted: a text, in quotes"),
        (f"{TEMPLATE.format('xReason')}\n{TEMPLATE.format('xReason')}", "a key twice in one mapping"),
    ],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, text: str, found: str) -> None:
    file = tmp_path / "templates.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(EventformersError, match=re.escape(found)):
        relation_templates("atomic", file)
    with pytest.raises(EventformersError, match=r"cannot read the templates .*No such file"):
        relation_templates("atomic", tmp_path / "absent.yaml")
