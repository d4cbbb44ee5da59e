"""Rules on the words of a mention."""

from __future__ import annotations

import pytest

from eventformers.exploration.stories import is_plural, is_single, numbers_of


@pytest.mark.parametrize(
    ("sentence", "lemma", "single"),
    [
        ("The House [passed] two articles.", "pass", True),
        ("He was [airlifted] to Berlin.", "airlift", True),
        ("He has been [airlifted].", "airlift", True),
        ("They are now [used] as evidence.", "use", False),
        ("Winners are [chosen] by lot.", "choose", False),
        ("Votes are now widely [counted].", "count", False),
        ("What is new has [begun].", "begin", True),
        ("The party [hosts] a debate.", "host", False),
        ("The army [carries] guns.", "carry", False),
        ("She [teaches] physics.", "teach", False),
        ("Users [download] videos.", "download", False),
        ("They wanted to [hit] it.", "hit", False),
        ("The car [hit] her.", "hit", True),
        ("After being ill, he was [resting].", "rest", True),
        ("The event is for [promoting] equality.", "promote", False),
        ("The bank owned shares, [gaining] rights.", "gain", True),
        ("He [suffered] from a cold.", "suffer", False),
    ],
)
def test_verbs(sentence: str, lemma: str, single: bool) -> None:
    before, _, rest = sentence.partition("[")
    assert is_single(rest.partition("]")[0], lemma, "verb", before) == single


@pytest.mark.parametrize(
    ("sentence", "lemma", "single"),
    [
        ("They saw the [attack].", "attack", True),
        ("It is known for [elections].", "election", False),
        ("Before the [elections], he left.", "election", True),
        ("In these [elections], he won.", "election", True),
        ("In those [elections], he won.", "election", True),
        ("For a candidate to win the party's [nomination], votes count.", "nomination", False),
        ("To win, he had to survive his own party's first [vote].", "vote", False),
        ("He returned to the [trial].", "trial", True),
    ],
)
def test_nouns(sentence: str, lemma: str, single: bool) -> None:
    before, _, rest = sentence.partition("[")
    assert is_single(rest.partition("]")[0], lemma, "noun", before) == single


def test_plurals_and_adjectives() -> None:
    assert [is_plural(*one) for one in (("RIOTS", "riot", "noun"), ("crisis", "crisis", "noun"))] == [
        True,
        False,
    ]
    assert not is_plural("wins", "win", "verb")
    assert not is_single("ill", "ill", "adjective", "He is ")


def test_numbers() -> None:
    text = "In second with 24.4% of 1,991 votes, one of two."
    assert numbers_of(text) == {"second", "24.4", "1,991", "two"}
