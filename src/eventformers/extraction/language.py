"""Detection of texts in another language than the pipeline's, by stop words."""

from __future__ import annotations

import importlib
from functools import lru_cache

# Without French, whose import takes seconds; Spanish, Italian and Portuguese distinguish it from English.
_LANGUAGES = ("da", "de", "en", "es", "fi", "it", "nl", "pl", "pt", "sv")
_FEWEST_WORDS = 50
_MOST_WORDS = 1000
_SMALLEST_SHARE = 0.03
"""In an English text, two of five words are stop words; in a list of names or another script, none."""


def is_in_another_language(text: str, language: str) -> bool:
    """Return True if another language's stop words are more frequent in a text, or its own hardly occur.

    The result is False for a text of fewer than 50 words, and if spaCy has no stop words for `language`.
    Similar languages are distinguished only if both are among the ten languages whose lists are used.

    Args:
        text: the text; the first 1,000 words are used.
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
