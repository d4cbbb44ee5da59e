"""Named entities of English texts, by the pipeline's recogniser where names can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.pipeline import EntityRecognizer
    from spacy.tokens import Doc

_NEIGHBOURS = 4
"""Words before and after a name that the recogniser sees: the width of its convolutions."""


def separate_recogniser(pipeline: Language) -> EntityRecognizer | None:
    """The entity recogniser of a pipeline, also a disabled one, if it has only one and that computes its own
    vectors."""
    names = [name for name in pipeline.component_names if pipeline.get_pipe_meta(name).factory == "ner"]
    if len(names) != 1:
        return None
    recogniser = pipeline.get_pipe(names[0])
    listens = any(part.name.endswith("listener") for part in recogniser.model.walk())
    return None if listens else recogniser


def find_entities(docs: Sequence[Doc], recogniser: EntityRecognizer) -> None:
    """Write the entities of tagged texts to `Doc.ents`, beside those that are there.

    The recogniser reads the names and `_NEIGHBOURS` words around them, a quarter to a half of a text, and
    finds what it finds in the whole. Dates and numbers that have no name near them are not read.
    """
    from spacy.tokens import Doc, Span
    from spacy.util import filter_spans

    read: list[tuple[Doc, list[int]]] = []
    for doc in docs:
        near = np.zeros(len(doc), dtype=bool)
        for token in doc:
            is_capitalised = token.tag_ in ("JJ", "NN", "NNS") and token.shape_.startswith("X")
            if is_capitalised or token.tag_ in ("NNP", "NNPS"):
                near[max(0, token.i - _NEIGHBOURS) : token.i + _NEIGHBOURS + 1] = True
        if near.any():
            read.append((doc, np.flatnonzero(near).tolist()))
    parts = []
    for doc, places in read:
        tokens = [doc[place] for place in places]
        words, spaces = [token.text for token in tokens], [bool(token.whitespace_) for token in tokens]
        parts.append(Doc(doc.vocab, words=words, spaces=spaces))
    for (doc, places), part in zip(read, recogniser.pipe(parts, batch_size=max(len(parts), 1)), strict=True):
        bounds = ((places[one.start], places[one.end - 1] + 1, one) for one in part.ents)
        found = [Span(doc, start, end, one.label) for start, end, one in bounds if end - start == len(one)]
        doc.ents = filter_spans([*doc.ents, *found])
