"""Normal form of a text for a parser, with the place of each character in the text as given.

A parser knows one kind of apostrophe, no markup and no line breaks, and a text from the web has all of them.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from eventformers.extraction.headlines import restored_case
from eventformers.extraction.lexicon import patterns

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Span, Token

NORMALISED = "eventformers_normalised"
"""Key of the `NormalisedText` in the `user_data` of a parsed text."""

_PARAGRAPH, _LINE = "\u2029", "\u2028"
_RULES = patterns("normalising")
_MOJIBAKE_OF = {
    **dict.fromkeys("™˜\x98\x99", "'"),
    **dict.fromkeys("œ\x9c\x9d", '"'),
    **{"\u201c": "–", "\x93": "–", "\u201d": "—", "\x94": "—", "¦": "…", "Â": ""},
}
_HIDDEN_END = {
    "<!--": re.compile("-->"),
    "<script": re.compile(r"</script[^<>]*>", re.IGNORECASE),
    "<style": re.compile(r"</style[^<>]*>", re.IGNORECASE),
}
_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u02bb\u02bc\u02bd\u02b9\u02c8\u2032\uff07\x91\x92", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u301d\u301e\uff02\x93\x94", '"'),
        **dict.fromkeys("\u2010\u2011\u2212\ufe63\uff0d", "-"),
        **dict.fromkeys("\u2012\x96", "–"),
        **dict.fromkeys("\u2015\u2e3a\ufe58\x97", "—"),
        **{"\x85": "…", "\r": "\n", "\v": _LINE, "\f": _PARAGRAPH},
    }
)
_LONGEST_WORD = 40
_NARROWEST_LINE, _WIDEST_LINE = 40, 130
_FEWEST_LINES = 3
_SHARE_OF_FULL_LINES, _SHARE_OF_WIDE_LINES = 0.5, 0.1


Edit = tuple[int, int, str]
"""Start, end and replacement of a part of a text."""


@dataclass(frozen=True, slots=True)
class NormalisedText:
    """A text in normal form, with its places in the text as given.

    Args:
        text: the normal form: one line, words separated by one blank.
        starts: for each character, the start in the text as given of what it stands for.
        ends: the ends, exclusive.
        breaks: places where a heading, a list item or a paragraph begins, so that a sentence does.
        headlines: start and end of the sentences that are given in capitals or Title Case.
    """

    given: str
    text: str
    starts: np.ndarray
    ends: np.ndarray
    breaks: tuple[int, ...]
    headlines: tuple[tuple[int, int], ...] = ()

    def __len__(self) -> int:
        return len(self.text)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Start and end in the text as given of a part that is not empty."""
        return int(self.starts[start]), int(self.ends[end - 1])

    def is_handle(self, place: int) -> bool:
        """True if the text as given has an `@` before the name that begins at this place."""
        return self.given[self.starts[place]] == "@" != self.text[place]


def normalise(text: str, vocabulary: Vocabulary) -> NormalisedText:
    """Bring a text to normal form.

    - Apostrophes, quotation marks, dashes and spaces become the usual ones; letters are composed (NFC).
    - Entities of HTML are resolved; tags, soft hyphens, invisible characters, pictures, web addresses and
      runs of more than 100 punctuation marks are left out, as is the `@` before a name.
    - A word that a hyphen divides at the end of a line is joined if the joined word is more frequent in the
      text than the hyphenated one, or as frequent and in the vocabulary.
    - Blank lines, items of lists, and lines that are no running text end a sentence.
    - A sentence in capitals or in Title Case gets the case of running text (`restored_case`).
    """
    edited = _Edited(text)
    edited.replace(_RULES.mojibake, lambda match: _MOJIBAKE_OF[match[0][-1]])
    edited.replace(_RULES.entity, lambda match: html.unescape(f"&{match[1]}"))
    edited.apply(_hidden_markup(edited.text))
    edited.replace(_RULES.tag, _of_tag)
    edited.text = edited.text.replace("\r\n", " \n").translate(_CHARACTERS)
    edited.replace(_RULES.accent_as_apostrophe, lambda match: "'")
    if not unicodedata.is_normalized("NFC", edited.text):
        edited.apply(_composed(edited.text))
    edited.replace(_RULES.ligatures, lambda match: unicodedata.normalize("NFKC", match[0]))
    edited.replace(_RULES.invisible, lambda match: "")
    for pattern in (_RULES.pictures, _RULES.address, _RULES.retweet, _RULES.many_marks):
        edited.replace(pattern, lambda match: " ")
    edited.replace(_RULES.handle, lambda match: match[1][0].upper() + match[1][1:])
    # Hashtags at the end of a line are no part of its sentence.
    edited.replace(
        _RULES.tags_of_topics,
        lambda match: match[0] if match["last"] is None else _PARAGRAPH + match[0][1:],
    )
    edited.replace(_RULES.tag_of_topic, lambda match: "")
    edited.apply(_joined_words(edited.text, vocabulary))
    lines = list(_lines(edited.text))
    places = edited.apply(edit for edit, _ in lines)
    edited.replace(_RULES.spaced_hyphen, lambda match: "—")
    breaks = tuple(place for place, (_, is_break) in zip(places, lines, strict=True) if is_break)
    restored, headlines = restored_case(edited.text, breaks, vocabulary)
    return NormalisedText(text, restored, edited.starts, edited.ends, breaks, headlines)


class _Edited:
    """A text while it is edited, with the place of each character in the text as given."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = np.arange(len(text))
        self.ends = self.starts + 1

    def replace(self, pattern: re.Pattern[str], new: Callable[[re.Match[str]], str]) -> None:
        """Replace all matches of a pattern."""
        self.apply((*match.span(), new(match)) for match in pattern.finditer(self.text))

    def apply(self, edits: Iterable[Edit]) -> list[int]:
        """Replace parts, in order, and return where each replacement ends."""
        parts: list[str] = []
        starts: list[np.ndarray] = []
        ends: list[np.ndarray] = []
        places: list[int] = []
        last = length = 0
        for start, end, new in edits:
            parts += [self.text[last:start], new]
            kept = slice(last, end if len(new) == end - start else start)
            starts.append(self.starts[kept])
            ends.append(self.ends[kept])
            if new and kept.stop == start:
                starts.append(np.full(len(new), self.starts[start]))
                ends.append(np.full(len(new), self.ends[end - 1]))
            length += start - last + len(new)
            places.append(length)
            last = end
        if places:
            self.text = "".join((*parts, self.text[last:]))
            self.starts = np.concatenate((*starts, self.starts[last:]))
            self.ends = np.concatenate((*ends, self.ends[last:]))
        return places


def _hidden_markup(text: str) -> Iterator[Edit]:
    """Comments, scripts and styles, with their content."""
    last = 0
    for match in _RULES.hidden_start.finditer(text):
        if match.start() >= last:
            end = _HIDDEN_END[match[0].lower()].search(text, match.end())
            if end is None:
                return
            last = end.end()
            yield match.start(), last, " "


def _of_tag(match: re.Match[str]) -> str:
    if match["block"] or match["cut"]:
        return _PARAGRAPH
    return _LINE if match["line"] or match["cut_line"] else ""


def _composed(text: str) -> Iterator[Edit]:
    """Compose each letter and its marks (NFC), one edit for each letter."""
    for run in _RULES.outside_ascii.finditer(text):
        start = run.start()
        for place in range(start + 1, run.end() + 1):
            if place < run.end():
                following = text[place]
                # Of the characters that are no marks, some still compose, such as those of Hangul.
                if unicodedata.combining(following):
                    continue
                alone = (
                    unicodedata.normalize("NFC", text[start:place]),
                    unicodedata.normalize("NFC", following),
                )
                if unicodedata.normalize("NFC", text[start : place + 1]) != "".join(alone):
                    continue
            composed = unicodedata.normalize("NFC", text[start:place])
            if composed != text[start:place]:
                yield start, place, composed
            start = place


def _joined_words(text: str, vocabulary: Vocabulary) -> Iterator[Edit]:
    """Words that are divided at the end of a line, with their hyphen or without."""
    counts: Counter[str] | None = None
    for match in _RULES.line_end_hyphen.finditer(text):
        start, end = match.span()
        before = _RULES.word_before.search(text, max(0, start - _LONGEST_WORD), start)
        after = _RULES.word_after.match(text, end)
        if before is None or after is None or after[0] in ("and", "or", "to"):
            continue
        if counts is None:
            counts = Counter(word.lower() for word in _RULES.hyphenated.findall(text))
        joined = f"{before[0]}{after[0]}".lower()
        more = counts[joined] - counts[f"{before[0]}-{after[0]}".lower()]
        yield start, end, "" if more > 0 or (not more and vocabulary.knows(joined)) else "-"


def _lines(text: str) -> Iterator[tuple[Edit, bool]]:
    """Each run of white space as one blank, without the mark of a list item after it; True if it ends a
    sentence."""
    is_full = _full_lines(text)
    marker = _RULES.marker.match(text)
    last = 0
    if marker is not None and marker.end() < len(text):
        last = marker.end()
        yield (0, last, ""), False
    for match in _RULES.space.finditer(text):
        start, end = match.span()
        if start < last:
            continue
        run, last = match[0], end
        if start == 0 or end == len(text):
            yield (start, end, ""), False
            continue
        is_break = False
        if _RULES.line_end.search(run):
            marker = _RULES.marker.match(text, end)
            blank = len(_RULES.line_end.findall(run)) > 1 or _PARAGRAPH in run
            is_break = blank or marker is not None
            if not (is_break or text[end].islower() or text[start - 1] == ","):
                # A line that is no running text.
                word = _RULES.word_before.search(text, max(0, start - _LONGEST_WORD), start)
                is_within = word is not None and _RULES.within_sentences.fullmatch(word[0])
                is_break = not is_within and (_LINE in run or not is_full(start, end))
            if marker is not None:
                last = marker.end()
        yield (start, last, " "), is_break


def _full_lines(text: str) -> Callable[[int, int], bool]:
    """Return a function that says of a line end whether the line is as long as its width permits, because a
    program broke running text there; False everywhere if the text has no such lines."""
    lines = [(match.start(), match.end()) for match in _RULES.line_of_text.finditer(text)]
    width = max((end - start for start, end in lines if end - start <= _WIDEST_LINE), default=0)
    wide = sum(end - start > _WIDEST_LINE for start, end in lines)
    line_start = {end: start for start, end in lines}

    def is_full(start: int, end: int) -> bool:
        word = text[end : end + _WIDEST_LINE].split(maxsplit=1)[0]
        return start - line_start.get(start, start) + 1 + len(word) > width

    pairs = [(first[1], second[0]) for first, second in pairwise(lines)]
    ends = [place for place in pairs if text.count("\n", *place) == 1]
    is_wrapped = (
        width >= _NARROWEST_LINE
        and wide <= _SHARE_OF_WIDE_LINES * len(lines)
        and len(ends) >= _FEWEST_LINES
        and sum(is_full(*place) for place in ends) >= _SHARE_OF_FULL_LINES * len(ends)
    )
    return is_full if is_wrapped else lambda start, end: False


_TAKES_ES = ("s", "x", "z", "ch", "sh", "o")
# Endings of English inflected forms, and what they replace.
_INFLECTIONS = (
    *(("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("d", ""), ("ied", "y"), ("ing", ""), ("ing", "e")),
    *(("er", ""), ("er", "e"), ("est", ""), ("est", "e"), ("ly", "")),
)


class Vocabulary:
    """The words that a pipeline knows before it reads a text: those of its lemmatizer, or all its strings."""

    def __init__(self, pipeline: Language) -> None:
        self.language = pipeline.lang
        self.function_words = frozenset(pipeline.Defaults.stop_words)
        index: dict[str, set[str]] = {}
        irregular: set[str] = set()
        irregular_verbs: Iterable[str] = ()
        for _, component in pipeline.pipeline:
            tables = getattr(component, "lookups", None)
            if tables is not None and tables.has_table("lemma_index"):
                table = tables.get_table("lemma_index")
                index = {kind: set(table.get(kind, ())) for kind in ("noun", "verb", "adj", "adv")}
                if tables.has_table("lemma_exc"):
                    exceptions = tables.get_table("lemma_exc")
                    irregular = {form for kind in index for form in exceptions.get(kind, ())}
                    irregular_verbs = exceptions.get("verb", {})
        self._verbs = frozenset(index.get("verb", ()))
        self._irregular_verbs = frozenset(irregular_verbs)
        self._only_verbs = self._verbs.difference(index.get("noun", ()), index.get("adj", ()))
        self._only_nouns = frozenset(index.get("noun", ())).difference(self._verbs, index.get("adj", ()))
        words = irregular.union(*index.values())
        self.has_words = bool(words)
        self._words = frozenset(words or (word for word in pipeline.vocab.strings if word.islower()))

    def knows(self, word: str) -> bool:
        """True for a word in lower case, or an inflected form of one, that the pipeline knows."""
        return _is_form(word, self._words, _INFLECTIONS)

    def has_verb(self, word: str) -> bool:
        """True for a verb in lower case, or an inflected form of one, that the pipeline knows."""
        return word in self._irregular_verbs or _is_form(word, self._verbs, _INFLECTIONS[:8])

    def infinitive(self, word: str) -> str:
        """The infinitive of a verb in the present tense; "" for other words."""
        bases = (word, *(word[: -len(end)] + base for end, base in _INFLECTIONS[:3] if word.endswith(end)))
        return next((base for base in bases if base in self._verbs), "")

    def is_only_verb(self, infinitive: str) -> bool:
        """True for a verb that is neither a noun nor an adjective: "apologise"."""
        return infinitive in self._only_verbs

    def is_only_noun(self, word: str) -> bool:
        """True for a word in lower case that is neither a verb nor an adjective: "actress"."""
        return word in self._only_nouns

    def is_mistaken_for_noun(self, token: Token) -> bool:
        """True for a verb that the tagger takes as a noun: "apologise" in "resign or apologise"."""
        return (
            token.tag_ == "NN"
            and token.dep_ == "conj"
            and token.head.tag_ == "VB"
            and token.lower_ in self._only_verbs
        )

    def lemma(self, verb: Token) -> str:
        """The lemma of a verb: of two verbs that differ by a last "e", the one that has this form.

        Lemmatizers that remove endings give "hop" for "hoped", as both "hop" and "hope" are verbs.
        """
        lemma, form = verb.lemma_, verb.lower_
        if self.language != "en" or lemma == form or f"{lemma}e" not in self._verbs:
            return lemma
        if form == f"{lemma}es":
            has_e = not lemma.endswith(_TAKES_ES)
        else:
            has_e = form in (f"{lemma}ed", f"{lemma}ing") and bool(_RULES.doubles_consonant.fullmatch(lemma))
        return f"{lemma}e" if has_e else lemma


def place_given(part: Span | Token) -> tuple[int, int]:
    """Start and end of a word or a sentence in the text as given."""
    start = part.idx if hasattr(part, "idx") else part.start_char
    text = part.text
    # Without white space around it, which may be a word of its own.
    start += len(text) - len(text.lstrip())
    end = start + max(len(text.strip()), 1)
    normalised = part.doc.user_data.get(NORMALISED)
    return (start, end) if normalised is None else normalised.span(start, end)


def _is_form(word: str, words: frozenset[str], endings: Iterable[tuple[str, str]]) -> bool:
    return word in words or any(
        word.endswith(ending) and word[: -len(ending)] + base in words
        for ending, base in endings
        if len(word) > len(ending) + 2
    )
