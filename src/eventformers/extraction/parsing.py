"""From the text as given to a parsed text of spaCy, which every rule of the extraction reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from eventformers.extraction.events import NORMALISED
from eventformers.extraction.normalising import NormalisedText, normalise
from eventformers.extraction.vocabulary import Vocabulary

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Span, Token

Context = TypeVar("Context")

_HYPHENATED = re.compile(r"(?<!-)[^\W_]+(?:-[^\W_]+)+(?!-)")


class TextParser:
    """A pipeline that parses texts in normal form.

    Args:
        pipeline: a spaCy pipeline with a tagger and a parser.
    """

    def __init__(self, pipeline: Language) -> None:
        self.pipeline = pipeline
        self._vocabulary = Vocabulary(pipeline)

    def normalised(self, text: str) -> NormalisedText:
        """Bring a text to normal form."""
        return normalise(text, self._vocabulary)

    def parse(self, texts: Iterable[tuple[Context, NormalisedText]]) -> Iterator[tuple[Doc, Context]]:
        """Parse texts at once, each with something that belongs to it.

        A hyphenated word is one word, and a sentence begins wherever a paragraph does. The lemmas of verbs
        are those of `Vocabulary.lemma`.
        """
        pairs = [(self._words(text), context) for context, text in texts]
        for doc, context in self.pipeline.pipe(pairs, as_tuples=True, batch_size=max(len(pairs), 1)):
            for token in doc:
                if self._vocabulary.is_mistaken_for_noun(token):
                    token.tag_, token.pos_, token.lemma_ = "VB", "VERB", token.lower_
                if (lemma := self._vocabulary.lemma(token)) != token.lemma_:
                    token.lemma_ = lemma
            yield doc, context

    def _words(self, text: NormalisedText) -> Doc:
        doc = self.pipeline.make_doc(text.text)
        doc.user_data[NORMALISED] = text
        # Some tokenizers parse.
        if not doc.has_annotation("DEP"):
            spans = (doc.char_span(*match.span()) for match in _HYPHENATED.finditer(text.text))
            with doc.retokenize() as retokenizer:
                for span in spans:
                    if span is not None and len(span) > 1:
                        retokenizer.merge(span)
            breaks = set(text.breaks)
            for token in doc:
                if token.idx in breaks:
                    token.is_sent_start = True
        return doc


def place_given(part: Span | Token) -> tuple[int, int]:
    """Start and end of a word or a sentence in the text as given."""
    start = part.idx if hasattr(part, "idx") else part.start_char
    text = part.text
    # Without white space around it, which may be a word of its own.
    start += len(text) - len(text.lstrip())
    end = start + max(len(text.strip()), 1)
    normalised = part.doc.user_data.get(NORMALISED)
    return (start, end) if normalised is None else normalised.span(start, end)
