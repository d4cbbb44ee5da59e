"""Rules on the words of a mention: whether it refers to a single event, and its numbers."""

from __future__ import annotations

import re

from eventformers.files import packaged_yaml

_WORDS = {name: frozenset(words.split()) for name, words in packaged_yaml(__file__, "words.yaml").items()}
_BEFORE = 3
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d[\d.,]*\d|\d|[^\W\d_]+")
_PRESENT = frozenset({"am", "are", "is"})
_PERFECT = frozenset({"been", "had", "has", "have", "was", "were"})
_GERUND = frozenset({"about", "at", "by", "for", "from", "in", "of", "on", "to", "without"})
_AIM = re.compile(r"\bto (?!the\b|an?\b)[a-z]+ ([\w'’-]+ ){0,4}$")
_DEFINITE = frozenset({"the", "these", "those"})


def is_single(trigger: str, lemma: str, kind: str, before: str) -> bool:
    """Return True if a mention refers to a single event, by the form of its trigger.

    Triggers in the present tense or without a tense are mostly habits, states or aims.

    Args:
        trigger: the trigger.
        lemma: its lemma.
        kind: its `trigger_kind`.
        before: the text of the sentence before it.
    """
    word, last = trigger.lower(), _WORD.findall(before.lower())[-_BEFORE:]
    if kind == "noun":
        is_definite = not is_plural(trigger, lemma, kind) or _DEFINITE.intersection(last)
        return bool(is_definite) and not _AIM.search(before)
    if kind == "adjective" or lemma in _WORDS["states"]:
        return False
    if word == lemma:
        return lemma in _WORDS["same_past"] and last[-1:] != ["to"]
    if word in (f"{lemma}s", f"{lemma}es", f"{lemma[:-1]}ies"):
        return False
    if word.endswith("ing"):
        return not _GERUND.intersection(last[-1:])
    return not _PRESENT.intersection(last) or bool(_PERFECT.intersection(last))


def is_plural(trigger: str, lemma: str, kind: str) -> bool:
    """True if a trigger is a noun in the plural."""
    return kind == "noun" and trigger.lower() != lemma and trigger.lower().endswith("s")


def numbers_of(text: str) -> set[str]:
    """The numbers in a text, in figures or words from two to twelve and from first to tenth."""
    found = _NUMBER.findall(text.lower())
    return {one for one in found if one[0].isdigit() or one in _WORDS["numbers"]}
