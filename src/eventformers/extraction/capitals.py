"""The case of running text for sentences in capitals or in Title Case, such as headlines."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from eventformers.extraction.vocabulary import Vocabulary

_SENTENCE_END = re.compile(r"[.!?][\"')\]]*\s+")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
# A sentence that has such a word is running text: Title Case leaves only short words in lower case.
_LOWER_CASE = re.compile(r"\b(?:[a-z]{6,}|[^\W\d_A-Z][a-z]{4,})\b")
_FEWEST_WORDS = 3
_MINOR_WORDS = 5
"""Letters of the longest words that Title Case leaves in lower case: "with", "after"."""
_ABBREVIATIONS = frozenset({"us", "uk", "un", "eu", "usa", "uae"})
_LONGEST_ABBREVIATION = 4


def restored_case(text: str, breaks: Sequence[int], vocabulary: Vocabulary) -> str:
    """Give sentences in capitals or Title Case the case of running text; each character keeps its place.

    A word gets the case that it has most often within the other sentences of the text. A word that they do
    not have is a name unless the vocabulary has it in lower case. Only for English, whose headlines are so
    written.

    Args:
        text: a text in one line.
        breaks: places where paragraphs begin.
        vocabulary: the words of the pipeline.
    """
    if vocabulary.language != "en" or not vocabulary.has_words:
        return text
    sentences = list(_sentences(text, breaks))
    headlines = [place for place in sentences if _is_headline(text[slice(*place)], vocabulary)]
    if not headlines:
        return text
    usual = _usual_forms(text, set(sentences).difference(headlines))
    characters = list(text)
    for start, end in headlines:
        words = list(_WORD.finditer(text, start, end))
        in_capitals = text[start:end].isupper()
        for number, match in enumerate(words):
            word = match[0]
            form = _form(word, usual, in_capitals, vocabulary)
            if number == 0:
                form = form[0].upper() + form[1:]
            # "İ" has two characters in lower case.
            if len(form) == len(word):
                characters[match.start() : match.end()] = form
    return "".join(characters)


def _sentences(text: str, breaks: Sequence[int]) -> Iterator[tuple[int, int]]:
    for start, end in zip((0, *breaks), (*breaks, len(text)), strict=True):
        for match in _SENTENCE_END.finditer(text, start, end):
            yield start, match.end()
            start = match.end()
        if start < end:
            yield start, end


def _is_headline(sentence: str, vocabulary: Vocabulary) -> bool:
    if _LOWER_CASE.search(sentence):
        return False
    words = _WORD.findall(sentence)
    if len(words) < _FEWEST_WORDS:
        return False
    if sentence.isupper():
        return True
    major = [
        word
        for word in words[1:]
        if word[0].isupper() or (word not in vocabulary.function_words and len(word) > 2)
    ]
    # Names in running text have their capitals too: a common word shows that all words have them.
    return (
        len(major) >= _FEWEST_WORDS - 1
        and all(word[0].isupper() for word in major)
        and any(vocabulary.knows(word.lower()) for word in major)
    )


def _usual_forms(text: str, sentences: Iterable[tuple[int, int]]) -> dict[str, str]:
    """The most frequent form of each word within sentences, without their first words."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for start, end in sorted(sentences):
        for word in _WORD.findall(text, start, end)[1:]:
            counts[word.lower()][word] += 1
    return {word: forms.most_common(1)[0][0] for word, forms in counts.items()}


def _form(word: str, usual: dict[str, str], in_capitals: bool, vocabulary: Vocabulary) -> str:
    lower = word.lower()
    if lower in usual:
        return usual[lower]
    if word.isupper() and (not in_capitals or lower in _ABBREVIATIONS):
        return word
    if lower == "i" or lower.startswith("i'"):
        return word[0] + lower[1:]
    if lower in vocabulary.function_words or vocabulary.knows(lower):
        return lower
    if in_capitals and len(word) <= _LONGEST_ABBREVIATION:
        return word
    return word[0] + lower[1:]
