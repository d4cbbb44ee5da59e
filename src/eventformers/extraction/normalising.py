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

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Span, Token

NORMALISED = "eventformers_normalised"
"""Key of the `NormalisedText` in the `user_data` of a parsed text."""

_PARAGRAPH, _LINE = "\u2029", "\u2028"
_BLOCK_TAGS = (
    "address|article|aside|blockquote|body|caption|center|dd|div|dl|dt|fieldset|figcaption|figure|footer|form"
    "|h[1-6]|head|header|hr|html|iframe|li|main|nav|ol|option|p|pre|section|select|table|tbody|td|tfoot|th"
    "|thead|title|tr|ul"
)
_INLINE_TAGS = (
    "a|abbr|acronym|audio|b|bdi|bdo|big|button|canvas|cite|code|data|del|dfn|em|embed|font|i|img|input|ins"
    "|kbd|label|link|map|mark|meta|noscript|object|picture|q|s|samp|small|source|span|strike|strong|sub|sup"
    "|svg|template|time|tt|u|var|video|wbr"
)
# A line that ends with one of these goes on in the next.
_WITHIN_SENTENCES = re.compile(
    "a|an|and|as|at|but|by|for|from|her|his|in|into|its|my|of|on|or|our|than|that|the|their|to|with|your"
)
# UTF-8 that was read as Windows-1252 or Latin-1.
_MOJIBAKE = re.compile("â[€\x80][™˜œ\x98\x99\x9c\x9d\u201c\u201d\x93\x94¦]|Â(?=\xa0)")
_MOJIBAKE_OF = {
    **dict.fromkeys("™˜\x98\x99", "'"),
    **dict.fromkeys("œ\x9c\x9d", '"'),
    **{"\u201c": "–", "\x93": "–", "\u201d": "—", "\x94": "—", "¦": "…", "Â": ""},
}
_ENTITY = re.compile(
    r"&(?:amp;)*(#\d{1,7};|#[xX][0-9a-fA-F]{1,6};|[A-Za-z][A-Za-z0-9]{1,31};|(?:nbsp|amp|quot|lt|gt)\b)"
)
_HIDDEN_START = re.compile(r"<!--|<script\b|<style\b", re.IGNORECASE)
_HIDDEN_END = {
    "<!--": re.compile("-->"),
    "<script": re.compile(r"</script[^<>]*>", re.IGNORECASE),
    "<style": re.compile(r"</style[^<>]*>", re.IGNORECASE),
}
_TAG = re.compile(
    rf"<(?:!doctype\b|/?(?:(?P<block>{_BLOCK_TAGS})|(?P<line>br)|{_INLINE_TAGS})(?=[\s/>]))[^<>]*>"
    # A tag whose end is lost.
    r"|</?(?:(?P<cut>div|li|p|td|tr)|(?P<cut_line>br)|span)(?=[\s/<]|$)[ \t]*/?(?=\s|$|<)",
    re.IGNORECASE,
)
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
_ACCENT_AS_APOSTROPHE = re.compile(r"(?<=[^\W\d_])[`´](?=[^\W\d_])")
_SPACED_HYPHEN = re.compile(r"(?<= )[-–](?= )")
_OUTSIDE_ASCII = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")
_LIGATURES = re.compile("[\ufb00-\ufb06]")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x90\x98-\x9f\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb]"
    # In Arabic and Indic scripts, joiners distinguish words.
    "|(?<![\u0590-\u109f])[\u200c\u200d]"
)
_PICTURES = re.compile(
    "[\u00a9\u00ae\u20e3\u2122\u2190-\u21ff\u2300-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff"
    "\U000e0020-\U000e007f]+"
    r"|(?<!\S)(?:[:;=8xX][-o'^]?[()\[\]DPpOo/\\|*]+|<[3/]+)(?!\S)"
)
_ADDRESS = re.compile(
    r"(?:\b(?:https?|ftp)://|\bwww\.|\b(?:[a-z0-9-]{1,63}+\.){1,8}+[a-z]{2,24}/)"
    r"[^\s<>\"]*[^\s<>\".,;:!?()\[\]{}']",
    re.IGNORECASE,
)
# spaCy's tokenizer takes time that is quadratic in their number.
_MANY_MARKS = re.compile(r"[^\w\s]{101,}")
_HANDLE = re.compile(r"(?<![\w@./])@(?=\w*[^\W\d_])(\w{1,50})")
_RETWEET = re.compile(r"(?<!\S)RT\s+@\w{1,50}:?")
_TAGS_OF_TOPICS = re.compile(r"(?:\s+#\w+)+(?:[ \t]*(?P<last>\n|\Z))?")
_TAG_OF_TOPIC = re.compile(r"(?<![\w#&/])#(?=\w*[^\W\d_])")
_LINE_END_HYPHEN = re.compile(r"(?<=[^\W\d_])-[ \t]*\n[ \t]*(?=[^\W\d_])")
_LONGEST_WORD = 40
_WORD_BEFORE = re.compile(r"[^\W\d_]+\Z")
_WORD_AFTER = re.compile(r"[^\W\d_]{1,40}")
_HYPHENATED = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_SPACE = re.compile(r"\s{2,}|[^\S ]")
_LINE_END = re.compile(f"[\n{_LINE}{_PARAGRAPH}]")
_LINE_OF_TEXT = re.compile(r"\S(?:[^\n]*\S)?")
_MARKER = re.compile(r"(?:[-*•‣▪◦●·–—>|]|#{1,6}|={1,6})[ \t]+(?=\S)|\(?\d{1,2}[.)][ \t]+(?=\S)")
_NARROWEST_LINE, _WIDEST_LINE = 40, 130
_FEWEST_LINES = 3
_SHARE_OF_FULL_LINES, _SHARE_OF_WIDE_LINES = 0.5, 0.1


Edit = tuple[int, int, str]
"""Start, end and replacement of a part of a text."""


@dataclass(frozen=True, slots=True)
class NormalisedText:
    """A text in normal form, with its places in the text as given.

    Args:
        given: the text as given.
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

    Args:
        text: the text as given.
        vocabulary: the words of the pipeline.
    """
    edited = _Edited(text)
    edited.replace(_MOJIBAKE, lambda match: _MOJIBAKE_OF[match[0][-1]])
    edited.replace(_ENTITY, lambda match: html.unescape(f"&{match[1]}"))
    edited.apply(_hidden_markup(edited.text))
    edited.replace(_TAG, _of_tag)
    edited.text = edited.text.replace("\r\n", " \n").translate(_CHARACTERS)
    edited.replace(_ACCENT_AS_APOSTROPHE, lambda match: "'")
    if not unicodedata.is_normalized("NFC", edited.text):
        edited.apply(_composed(edited.text))
    edited.replace(_LIGATURES, lambda match: unicodedata.normalize("NFKC", match[0]))
    edited.replace(_INVISIBLE, lambda match: "")
    for pattern in (_PICTURES, _ADDRESS, _RETWEET, _MANY_MARKS):
        edited.replace(pattern, lambda match: " ")
    edited.replace(_HANDLE, lambda match: match[1][0].upper() + match[1][1:])
    # Hashtags at the end of a line are no part of its sentence.
    edited.replace(
        _TAGS_OF_TOPICS, lambda match: match[0] if match["last"] is None else _PARAGRAPH + match[0][1:]
    )
    edited.replace(_TAG_OF_TOPIC, lambda match: "")
    edited.apply(_joined_words(edited.text, vocabulary))
    lines = list(_lines(edited.text))
    places = edited.apply(edit for edit, _ in lines)
    edited.replace(_SPACED_HYPHEN, lambda match: "—")
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
    for match in _HIDDEN_START.finditer(text):
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
    for run in _OUTSIDE_ASCII.finditer(text):
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
    for match in _LINE_END_HYPHEN.finditer(text):
        start, end = match.span()
        before = _WORD_BEFORE.search(text, max(0, start - _LONGEST_WORD), start)
        after = _WORD_AFTER.match(text, end)
        if before is None or after is None or after[0] in ("and", "or", "to"):
            continue
        if counts is None:
            counts = Counter(word.lower() for word in _HYPHENATED.findall(text))
        joined = f"{before[0]}{after[0]}".lower()
        more = counts[joined] - counts[f"{before[0]}-{after[0]}".lower()]
        yield start, end, "" if more > 0 or (not more and vocabulary.knows(joined)) else "-"


def _lines(text: str) -> Iterator[tuple[Edit, bool]]:
    """Each run of white space as one blank, without the mark of a list item after it; True if it ends a
    sentence."""
    is_full = _full_lines(text)
    marker = _MARKER.match(text)
    last = 0
    if marker is not None and marker.end() < len(text):
        last = marker.end()
        yield (0, last, ""), False
    for match in _SPACE.finditer(text):
        start, end = match.span()
        if start < last:
            continue
        run, last = match[0], end
        if start == 0 or end == len(text):
            yield (start, end, ""), False
            continue
        is_break = False
        if _LINE_END.search(run):
            marker = _MARKER.match(text, end)
            blank = len(_LINE_END.findall(run)) > 1 or _PARAGRAPH in run
            is_break = blank or marker is not None or _ends_sentence(text, start, end, _LINE in run, is_full)
            if marker is not None:
                last = marker.end()
        yield (start, last, " "), is_break


def _ends_sentence(
    text: str, start: int, end: int, is_hard: bool, is_full: Callable[[int, int], bool]
) -> bool:
    """True if the line that ends here is no running text."""
    if text[end].islower() or text[start - 1] == ",":
        return False
    word = _WORD_BEFORE.search(text, max(0, start - _LONGEST_WORD), start)
    if word is not None and _WITHIN_SENTENCES.fullmatch(word[0]):
        return False
    return is_hard or not is_full(start, end)


def _full_lines(text: str) -> Callable[[int, int], bool]:
    """Return a function that says of a line end whether the line is as long as its width permits, because a
    program broke running text there; False everywhere if the text has no such lines."""
    lines = [(match.start(), match.end()) for match in _LINE_OF_TEXT.finditer(text)]
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


# "hop" doubles its consonant before an ending ("hopped"), so that "hoped" is a form of "hope".
_DOUBLES_CONSONANT = re.compile(r"(?:qu|[^aeiou])*[aeiouy][^aeiouwxy]")
_TAKES_ES = ("s", "x", "z", "ch", "sh", "o")
# Endings of English inflected forms, and what they replace.
_INFLECTIONS = (
    *(("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("d", ""), ("ied", "y"), ("ing", ""), ("ing", "e")),
    *(("er", ""), ("er", "e"), ("est", ""), ("est", "e"), ("ly", "")),
)


class Vocabulary:
    """The words that a pipeline knows before it reads a text: those of its lemmatizer, or all its strings.

    Args:
        pipeline: the pipeline.
    """

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
            has_e = form in (f"{lemma}ed", f"{lemma}ing") and bool(_DOUBLES_CONSONANT.fullmatch(lemma))
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
