"""The words that a pipeline knows, and the lemmas of its verbs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Token

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
        for _, component in pipeline.pipeline:
            tables = getattr(component, "lookups", None)
            if tables is not None and tables.has_table("lemma_index"):
                table = tables.get_table("lemma_index")
                index = {kind: set(table.get(kind, ())) for kind in ("noun", "verb", "adj", "adv")}
                if tables.has_table("lemma_exc"):
                    exceptions = tables.get_table("lemma_exc")
                    irregular = {form for kind in index for form in exceptions.get(kind, ())}
        self._verbs = frozenset(index.get("verb", ()))
        self._only_verbs = self._verbs.difference(index.get("noun", ()), index.get("adj", ()))
        words = irregular.union(*index.values())
        self.has_words = bool(words)
        self._words = frozenset(words or (word for word in pipeline.vocab.strings if word.islower()))

    def knows(self, word: str) -> bool:
        """True for a word in lower case, or an inflected form of one, that the pipeline knows."""
        return word in self._words or any(
            word.endswith(ending) and word[: -len(ending)] + base in self._words
            for ending, base in _INFLECTIONS
            if len(word) > len(ending) + 2
        )

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
