"""Headlines in capitals or Title Case: the case of running text for the parser, and the verb it misses."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from eventformers.extraction.grammar import DIRECT_OBJECTS, SUBJECTS, child_of, is_clause_head

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Span, Token

    from eventformers.extraction.normalising import Vocabulary

_SENTENCE_END = re.compile(r"[.!?][\"')\]]*\s+")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
# A sentence that has such a word is running text: Title Case leaves only short words in lower case.
_LOWER_CASE = re.compile(r"\b(?:[a-z]{6,}|[^\W\d_A-Z][a-z]{4,})\b")
_FEWEST_WORDS = 3
_ABBREVIATIONS = frozenset({"us", "uk", "un", "eu", "usa", "uae"})
_LONGEST_ABBREVIATION = 4


def restored_case(
    text: str, breaks: Sequence[int], vocabulary: Vocabulary
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Give sentences in capitals or Title Case the case of running text; each character keeps its place.

    A word gets the case that it has most often within the other sentences of the text. A word that they do
    not have is a name unless the vocabulary has it in lower case. Only for English, whose headlines are so
    written.

    Args:
        text: a text in one line.
        breaks: places where paragraphs begin.

    Returns:
        The text, and the start and end of each such sentence.
    """
    if vocabulary.language != "en" or not vocabulary.has_words:
        return text, ()
    sentences: list[tuple[int, int]] = []
    for start, end in pairwise((0, *breaks, len(text))):
        for match in _SENTENCE_END.finditer(text, start, end):
            sentences.append((start, match.end()))
            start = match.end()
        if start < end:
            sentences.append((start, end))
    headlines = tuple(place for place in sentences if _is_headline(text[slice(*place)], vocabulary))
    if not headlines:
        return text, ()
    # The most frequent form of each word within the other sentences, without their first words.
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for start, end in sorted(set(sentences).difference(headlines)):
        for word in _WORD.findall(text, start, end)[1:]:
            counts[word.lower()][word] += 1
    usual = {word: forms.most_common(1)[0][0] for word, forms in counts.items()}
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
    return "".join(characters), headlines


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


_STOPS = ".!?…:"
_MOST_WORDS, _MOST_TRIED = 20, 3
# Annotations that a headline takes from its second parse.
_PARSED = ("HEAD", "DEP", "TAG", "POS", "LEMMA", "MORPH")


def with_verbs(
    doc: Doc, headlines: Iterable[tuple[int, int]], vocabulary: Vocabulary, pipeline: Language
) -> None:
    """Parse headlines again whose verb the parser takes as a noun: "Dog bites man".

    Each word that can be the verb is replaced by its infinitive after "will". If the parse then has it as
    the verb, with a subject, and with an object unless it is no noun, the headline gets that parse.

    Args:
        doc: a parsed text; changed.
        headlines: start and end of the sentences in capitals or Title Case.
    """
    for start, end in headlines:
        span = doc.char_span(start, end, alignment_mode="contract")
        if span is None or not _lacks_verb(span, vocabulary):
            continue
        tried = [token for token in span[1:] if _may_be_verb(token, vocabulary)][:_MOST_TRIED]
        texts = (_in_future(span, token, vocabulary) for token in tried)
        for token, parsed in zip(tried, pipeline.pipe(texts), strict=True):
            verb = parsed[token.i - span.start + 1]
            if (
                verb.tag_ == "VB"
                and verb.dep_ == "ROOT"
                and child_of(verb, SUBJECTS) is not None
                and (
                    child_of(verb, DIRECT_OBJECTS) is not None
                    or child_of(token, SUBJECTS) is not None
                    or vocabulary.is_only_verb(verb.lower_)
                )
            ):
                _take_parse(doc, span, token, parsed)
                break


def _lacks_verb(span: Span, vocabulary: Vocabulary) -> bool:
    """True for a short sentence without a full stop in which only unknown words, infinitives and verbs
    without a subject are verbs."""
    doc = span.doc
    is_whole = span[0].is_sent_start and (span.end == len(doc) or doc[span.end].is_sent_start)
    if not is_whole or len(span) > _MOST_WORDS or span[-1].text[-1] in _STOPS:
        return False
    for token in span:
        if is_clause_head(token) and vocabulary.has_verb(token.lower_):
            if token.tag_ in ("VBP", "VBZ"):
                # "engineer" in "Google fires engineer", where the parser takes "fires" as its subject
                subject = child_of(token, SUBJECTS)
                if subject is not None and not (
                    token.tag_ == "VBP"
                    and token.i == subject.i + 1 > 1
                    and child_of(token, DIRECT_OBJECTS | {"prt"}) is None
                    and _may_be_verb(subject, vocabulary)
                ):
                    return False
            elif token.tag_ != "VB" or child_of(token, {"aux"}) is None:
                return False
    return True


def _may_be_verb(token: Token, vocabulary: Vocabulary) -> bool:
    """True for "bites" after a noun, and for "bite" after a plural."""
    infinitive = vocabulary.infinitive(token.lower_)
    if not infinitive or not token.tag_.startswith(("JJ", "NN", "VB")):
        return False
    before = token.nbor(-1)
    is_plural = before.tag_ in ("NNS", "NNPS", "VBZ") or before.lower_ in ("people", "police")
    is_noun = is_plural or before.tag_ in ("NN", "NNP") or vocabulary.is_only_noun(before.lower_)
    return is_noun and (is_plural == (infinitive == token.lower_) or vocabulary.is_only_verb(infinitive))


def _in_future(span: Span, verb: Token, vocabulary: Vocabulary) -> Doc:
    from spacy.tokens import Doc

    words = [token.text for token in span]
    spaces = [bool(token.whitespace_) for token in span]
    place = verb.i - span.start
    words[place : place + 1] = ["will", vocabulary.infinitive(verb.lower_)]
    spaces.insert(place, True)
    return Doc(span.doc.vocab, words=words, spaces=spaces)


def _take_parse(doc: Doc, span: Span, verb: Token, parsed: Doc) -> None:
    """Give a span the parse of the same words with an auxiliary before the verb."""
    place = verb.i - span.start
    kept = [token for token in parsed if token.i != place]
    values = doc.to_array(_PARSED)
    values[span.start : span.end] = np.delete(parsed.to_array(_PARSED), place, axis=0)
    # The first column has the distance to the head, which the auxiliary lengthens.
    heads = np.array([token.head.i - (token.head.i > place) for token in kept])
    values[span.start : span.end, 0] = (heads - np.arange(len(span))).astype(values.dtype)
    doc.from_array(_PARSED, values)
    verb.tag_ = "VBP" if verb.lower_ == parsed[place + 1].lower_ else "VBZ"
    verb.set_morph("Tense=Pres|VerbForm=Fin")
