"""Coreference by rules: names, descriptions, and pronouns, and what is left without an answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmark_scripts import load_benchmark

from eventformers.extraction.coreference import resolve
from eventformers.extraction.extractor import EventExtractor, ExtractionSettings


@pytest.fixture(scope="module")
def clusters(english_pipeline: str) -> Callable[[str], list[list[str]]]:
    parser = EventExtractor(ExtractionSettings(english_pipeline)).parser

    def of_text(text: str) -> list[list[str]]:
        ((doc, _),) = parser.parse([(None, parser.normalised(text))])
        return [[span.text for span in cluster] for cluster in resolve(doc)]

    return of_text


def of_word(clusters: list[list[str]], word: str) -> list[str]:
    """The cluster of a mention; empty without one."""
    return next((cluster for cluster in clusters if word in cluster), [])


@pytest.mark.parametrize(
    ("text", "together"),
    [
        ("Barack Obama met Angela Merkel. Obama left early.", ["Barack Obama", "Obama"]),
        ("Mark Felt died. Felt was a spy. Joan Felt wept.", ["Mark Felt", "Felt"]),
        ("The European Union met. The EU agreed on a plan.", ["The European Union", "EU"]),
        ("Microsoft Corp. sued its rival. Microsoft won the case.", ["Microsoft Corp.", "its", "Microsoft"]),
        ("Prime Minister Tony Blair spoke. The prime minister left.", ["Tony Blair", "The prime minister"]),
        ("Tony Blair, the prime minister, spoke.", ["Tony Blair", "the prime minister"]),
        ("Mary Smith sued John Brown. She won.", ["Mary Smith", "She"]),
        ("Angela Merkel said that she would resign.", ["Angela Merkel", "she"]),
        ('"I will fight," said Michael Howard.', ["I", "Michael Howard"]),
        ("Protesters threw stones because they were angry.", ["Protesters", "they"]),
        ("A man robbed a bank. The man fled.", ["A man", "The man"]),
    ],
)
def test_together(clusters: Callable[[str], list[list[str]]], text: str, together: list[str]) -> None:
    found = of_word(clusters(text), together[0])
    assert set(together) <= set(found)


@pytest.mark.parametrize(
    ("text", "word", "other"),
    [
        ("Bill Clinton met Tony Blair. The prime minister smiled.", "Tony Blair", "The prime minister"),
        ("John saw him at the station.", "John", "him"),
        ("Mary Smith sued John Brown. She won.", "John Brown", "She"),
        ("It is clear that Microsoft won.", "Microsoft", "It"),
        ('Anna Smith said: "I saw the man." He fled.', "Anna Smith", "He"),
        ("John met Paul. He smiled at the king of his country.", "the king", "his"),
    ],
)
def test_apart(clusters: Callable[[str], list[list[str]]], text: str, word: str, other: str) -> None:
    assert other not in of_word(clusters(text), word)


def test_no_answer_where_it_is_unsure(clusters: Callable[[str], list[list[str]]]) -> None:
    found = clusters("John Brown and Paul Smith met Peter Green and Mark Jones. The crowd cheered for him.")
    assert of_word(found, "him") == []


def test_accuracy_of_judged_pronouns(english_pipeline: str) -> None:
    counts = load_benchmark("event_data").judged_pronouns(english_pipeline, held_out=True)
    assert counts["right"] / (counts["right"] + counts["wrong"]) >= 0.76
    assert counts["right"] >= 33
    assert counts["empty"] >= 14
