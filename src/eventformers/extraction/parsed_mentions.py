"""What the parse of a sentence says of the mentions in it: lemma and kind of a trigger, and participants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from eventformers.extraction.extractor import installed_pipeline, load_pipeline

if TYPE_CHECKING:
    from spacy.language import Language

_KINDS = {"NOUN": "noun", "PROPN": "noun", "ADJ": "adjective"}
_ROLES = ("nsubj", "nsubjpass", "dobj")


@cache
def _pipeline() -> Language:
    return load_pipeline(installed_pipeline())


def parsed_mentions(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add what the pair scorer reads of mentions beside their text, by the installed spaCy pipeline.

    Args:
        rows: rows of `EventCoreference`: `text`, `trigger_start` and `trigger_end`.

    Returns:
        The rows with the `lemma` of the head of the trigger, in lower case; its `trigger_kind`: `verb`,
        `noun` or `adjective`; and the nouns and names that are subject and object of the head, in lower case,
        as `participants`.

    Raises:
        EventformersError: spaCy or a pipeline is not installed.
    """
    texts = list(dict.fromkeys(row["text"] for row in rows))
    parsed = dict(zip(texts, _pipeline().pipe(texts, disable=["ner"]), strict=True))
    found = []
    for row in rows:
        span = parsed[row["text"]].char_span(
            row["trigger_start"], row["trigger_end"], alignment_mode="expand"
        )
        participants = {
            child.lower_
            for child in span.root.children
            if child.dep_ in _ROLES and child.pos_ in ("NOUN", "PROPN")
        }
        found.append(
            {
                **row,
                "lemma": span.root.lemma_.lower(),
                "trigger_kind": _KINDS.get(span.root.pos_, "verb"),
                "participants": participants,
            }
        )
    return found
