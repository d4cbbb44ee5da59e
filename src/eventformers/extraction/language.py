"""Detection of texts in another language than the pipeline's, by their script and by stop words."""

from __future__ import annotations

import importlib.util
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import islice
from pathlib import Path

from eventformers.errors import EventformersError, counted
from eventformers.extraction.lexicon import lexicon

_LANGUAGES = lexicon("languages")
_NAMES = _LANGUAGES.names
_FEWEST_WORDS = 8
_FEW_WORDS = 50
_CLEAR_SHARE, _CLEAR_DIFFERENCE, _CLEAR_WORDS = 0.2, 0.25, 3
"""Smallest share of another language's stop words in a text of few words, its lead over the own share, and
the number of them that are no words of the own language: "man" and "for" of a headline are Danish, too."""
_FEWEST_LETTERS = 100
_MOST_WORDS = 1000
_JUDGED_FIRST = 200
_SMALLEST_SHARE = 0.03
"""In an English text, two of five words are stop words; in a list of names or another script, none."""

UNKNOWN = "another language"


def other_language(text: str, language: str) -> str | None:
    """Return the name of the language of a text, such as `German`, if it is another one.

    Another script than that of the language decides; otherwise another language's stop words that are more
    frequent; in a text of fewer than 50 words, they must be much more frequent. If hardly any occur in a
    longer text, the name is `UNKNOWN`. A text of fewer than 8 words, or of 100 letters in another script, has
    no other language, nor has any if spaCy has no stop words for `language`. Similar
    languages are distinguished only if both are among the eleven whose lists are used.

    Args:
        text: the text; the first 1,000 words are used.
        language: the pipeline's language, as spaCy names it.
    """
    own_words = _stop_words(language)
    if not own_words:
        return None
    words = text.lower().split(maxsplit=_MOST_WORDS)[:_MOST_WORDS]
    letters = [one for one in "".join(words)[: 10 * _FEWEST_LETTERS] if one.isalpha()]
    scripts = Counter(unicodedata.name(one, "").partition(" ")[0].partition("-")[0] for one in letters)
    if len(letters) >= _FEWEST_LETTERS:
        # Japanese mixes scripts, and its own ones decide.
        script = (
            "HIRAGANA" if scripts["HIRAGANA"] > len(letters) / 10 else max(scripts, key=scripts.__getitem__)
        )
        written = _LANGUAGES.scripts.get(script, ())
        if written and language not in written and scripts[script] > len(letters) / 10:
            return _NAMES[written[0]]
    if len(words) < _FEWEST_WORDS:
        return None
    shares = {
        name: sum(word in _stop_words(name) for word in words) / len(words)
        for name in dict.fromkeys((language, *_LANGUAGES.with_stop_words))
    }
    best = max(shares, key=shares.__getitem__)
    if len(words) < _FEW_WORDS:
        known = own_words | (_LANGUAGES.also_english if language == "en" else frozenset())
        foreign = (_stop_words(best) - known).intersection(words)
        is_clear = len(foreign) >= _CLEAR_WORDS and shares[best] >= max(
            _CLEAR_SHARE, shares[language] + _CLEAR_DIFFERENCE
        )
        return _NAMES[best] if is_clear else None
    if shares[best] < _SMALLEST_SHARE:
        return UNKNOWN
    return None if shares[best] == shares[language] else _NAMES[best]


def check_languages(read: Callable[[], Iterable[str]], number: int, language: str, hint: str = "") -> None:
    """Raise an error if most texts are in another language than the pipeline's, before they are parsed.

    All texts are judged only if most of a sample are in another language.

    Args:
        language: the pipeline's language, as spaCy names it.
        hint: further advice for the error.
    """
    for step in {max(1, number // _JUDGED_FIRST): None, 1: None}:
        found = Counter(other_language(text, language) for text in islice(read(), 0, None, step))
        if 2 * found[None] >= found.total():
            return
    foreign = found.total() - found[None]
    named = ", ".join(f"{name}: {count:,}" for name, count in found.most_common() if name)
    codes = [code for name, _ in found.most_common() for code in _NAMES if _NAMES[code] == name]
    advice = f"the folder of one as --pipeline{hint}"
    if codes and codes[0] not in _LANGUAGES.without_pipeline:
        pipeline = f"{codes[0]}_core_{'web' if codes[0] in ('en', 'zh') else 'news'}_sm"
        advice = f"`python -m spacy download {pipeline}` and --pipeline {pipeline}{hint}"
    raise EventformersError(
        f"not in {_NAMES.get(language, language)}, which the pipeline reads: {foreign:,} of "
        f"{counted(found.total(), 'document')} ({named}); accepted: a pipeline of their language, {advice}"
    )


def english_only(language: str) -> str:
    """Say what is found in English texts alone, for a pipeline of another language; "" for English."""
    if language == "en":
        return ""
    return (
        f"The pipeline reads {_NAMES.get(language, language)}: events of nouns, actors, times, places and "
        "factuality are found in English texts only, and their columns stay empty."
    )


@lru_cache(maxsize=len(_LANGUAGES.with_stop_words) + 1)
def _stop_words(language: str) -> frozenset[str]:
    """Read the stop words of a language without its other modules, which take seconds to import."""
    package = importlib.util.find_spec("spacy.lang")
    for place in (package and package.submodule_search_locations) or ():
        path = Path(place) / language / "stop_words.py"
        specification = importlib.util.spec_from_file_location(f"stop_words_{language}", path)
        if path.is_file() and specification is not None and specification.loader is not None:
            module = importlib.util.module_from_spec(specification)
            specification.loader.exec_module(module)
            return frozenset(module.STOP_WORDS)
    return frozenset()
