"""Whether a text is in the language of a pipeline, told by the words that every text of a language has."""

from __future__ import annotations

import importlib
from functools import lru_cache

# Without French, whose import takes seconds; Spanish, Italian and Portuguese tell it from English.
_LANGUAGES = ("da", "de", "en", "es", "fi", "it", "nl", "pl", "pt", "sv")
_FEWEST_WORDS = 50
_MOST_WORDS = 1000
_SMALLEST_SHARE = 0.03
"""Of an English text, two words in five are stop words; of a list of names or of another script, none."""


def is_in_another_language(text: str, language: str) -> bool:
    """Whether another language's stop words are more frequent in a text, or its own hardly occur.

    A text of fewer than 50 words is never told to be in another language, and neither is one where spaCy has
    no stop words for `language`. Nearby languages are told apart only where both have a list among the ten
    that are looked at.

    Args:
        text: the text; its first 1,000 words are looked at.
        language: the pipeline's language, as spaCy names it.
    """
    words = text.lower().split(maxsplit=_MOST_WORDS)[:_MOST_WORDS]
    own_words = _stop_words(language)
    if len(words) < _FEWEST_WORDS or not own_words:
        return False
    share = sum(word in own_words for word in words) / len(words)
    if share < _SMALLEST_SHARE:
        return True
    others = (_stop_words(name) for name in _LANGUAGES if name != language)
    return any(sum(word in other for word in words) / len(words) > share for other in others)


@lru_cache(maxsize=len(_LANGUAGES) + 1)
def _stop_words(language: str) -> frozenset[str]:
    try:
        module = importlib.import_module(f"spacy.lang.{language}.stop_words")
    except ModuleNotFoundError:
        return frozenset()
    return frozenset(module.STOP_WORDS)
