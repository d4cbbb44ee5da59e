"""Parsed texts that are written by hand, so that what is read from a parse is tested without a parser.

A sentence is one text: its tokens separated by blanks, each `word/TAG/head/dependency`, where `head` counts
the tokens of the sentence from 1 and the root has its own number. The word `\\n` is an end of a line.
"""

from __future__ import annotations

import spacy
from spacy.tokens import Doc

_PARTS_OF_SPEECH = {
    **{"DT": "DET", "IN": "ADP", "MD": "AUX", "PRP": "PRON", "PRP$": "PRON", "WP": "PRON", "WDT": "PRON"},
    **{"RB": "ADV", "RBR": "ADV", "RP": "ADP", "TO": "PART", "CC": "CCONJ", ".": "PUNCT", ",": "PUNCT"},
    **{"JJ": "ADJ", "NN": "NOUN", "NNS": "NOUN", "NNP": "PROPN", "CD": "NUM", "_SP": "SPACE", "EX": "PRON"},
}
_VOCABULARY = spacy.blank("en").vocab
_BE = {"was", "is", "were", "been", "are", "be"}


def parsed_text(*sentences: str, lemmas: dict[str, str] | None = None) -> Doc:
    """The text of the sentences, with tags, parts of speech, heads and dependencies."""
    words, tags, heads, dependencies, parts = [], [], [], [], []
    for sentence in sentences:
        start = len(words)
        for token in sentence.split():
            word, tag, head, dependency = token.rsplit("/", 3)
            words.append(word.replace("\\n", "\n"))
            tags.append(tag)
            heads.append(start + int(head) - 1)
            dependencies.append(dependency)
            helper = dependency.startswith("aux") or dependency == "cop" or word.lower() in _BE
            parts.append(_PARTS_OF_SPEECH[tag] if not tag.startswith("VB") else "AUX" if helper else "VERB")
    found = [(lemmas or {}).get(word.lower(), word.lower()) for word in words]
    return Doc(_VOCABULARY, words=words, tags=tags, heads=heads, deps=dependencies, pos=parts, lemmas=found)
