"""What the parse of a sentence says of the mentions in it: lemma and kind of a trigger, and participants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from eventformers.extraction.extractor import installed_pipeline, load_pipeline

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Token

_KINDS = {"NOUN": "noun", "PROPN": "noun", "ADJ": "adjective"}
_NAMED = ("nsubj", "nsubjpass", "dobj")


@cache
def _pipeline() -> Language:
    return load_pipeline(installed_pipeline())


def parsed_mentions(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add what the pair scorer reads of mentions beside their text, by the installed spaCy pipeline.

    Args:
        rows: rows of `EventCoreference`: `text`, `trigger_start` and `trigger_end`.

    Returns:
        The rows with the `lemma` of the head of the trigger, in lower case; its `trigger_kind`: `verb`,
        `noun` or `adjective`; the nouns and names that are subject and object of the head, in lower case, as
        `participants`; and as `arguments` all words of its subject, its object, and its other participants.

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
        head = span.root
        arguments: dict[str, list[str]] = {"subject": [], "object": [], "other": []}
        for child in head.children:
            role = _role(child)
            if role:
                arguments[role] += [token.lower_ for token in child.subtree if token not in span]
        found.append(
            {
                **row,
                "lemma": head.lemma_.lower(),
                "trigger_kind": _KINDS.get(head.pos_, "verb"),
                "participants": {
                    child.lower_
                    for child in head.children
                    if child.dep_ in _NAMED and child.pos_ in ("NOUN", "PROPN")
                },
                "arguments": tuple(" ".join(words) for words in arguments.values()),
            }
        )
    return found


def _role(child: Token) -> str:
    """The role of a child of a trigger; "" for none."""
    if child.dep_ in ("nsubj", "poss", "agent"):
        return "subject"
    if child.dep_ in ("dobj", "nsubjpass", "dative") or (child.dep_ == "prep" and child.lower_ == "of"):
        return "object"
    return "other" if child.dep_ == "prep" else ""
