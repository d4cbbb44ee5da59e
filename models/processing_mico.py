"""The processor of MICO: premises with alternatives."""

from collections.abc import Mapping
from typing import Any

import torch
from transformers import BatchEncoding

from .event_items import checked_list, checked_text, items_of, shown
from .processing_events import EventProcessor, returns_tensors
from .relation_words import ATOMIC, atomic_text, premise

ACCEPTED_QUESTION = (
    'an object such as {"head": "rain", "relation": "Causes", "candidates": ["a flood", "a good mood"]}, or '
    'with "premise" instead of head and relation, and "alternatives" for candidates'
)
_QUESTION_NAMES = {"premise", "head", "relation"}


class MicoProcessor(EventProcessor):
    """Converts premises and alternatives to the inputs of MICO.

    Example:
        processor = AutoProcessor.from_pretrained(name)
        question = {"premise": "It rained.", "alternatives": ["The road is wet.", "It is hot."]}
        AutoModelForMultipleChoice.from_pretrained(name)(**processor(question)).logits

    Args:
        relation_templates: the model's own relations; see `MicoConfig`.
    """

    def __init__(
        self,
        tokenizer,
        event_order="subject_predicate_object",
        max_length=None,
        prompts=None,
        relation_templates=None,
    ):
        super().__init__(tokenizer, event_order, max_length, prompts)
        self.relation_templates = relation_templates

    @returns_tensors
    def __call__(self, inputs=None, *, text=None, **settings) -> BatchEncoding:
        """Convert texts and events, or questions, to tensors.

        Args:
            inputs: a text, an event, or a list of both; or a question with `premise` and `alternatives` and,
                if known, `label`, like a row of `CommonsenseQA`, or a list of questions. `head` and
                `relation` may replace the premise, and `candidates` the alternatives.
            text: see `EventProcessor`.
            **settings: arguments of the tokenizer, such as `max_length`.

        Returns:
            `input_ids` and `attention_mask`, `(items, length)`. Of questions these are the premises, followed
            by `alternative_input_ids` and `alternative_attention_mask`, `(questions, alternatives, length)`,
            with zeros for a missing alternative, and, if every question has one, `labels`, `(questions,)`.

        Raises:
            ValueError: an item is none of these, or a text has no word.
        """
        if text is not None:
            return super().__call__(text=text, **settings)
        items = items_of(inputs)
        if not all(isinstance(item, Mapping) and _QUESTION_NAMES & item.keys() for item in items):
            return self.encode(items, **settings)
        texts = [question_texts(question, own=self.relation_templates) for question in items]
        premises, choices = zip(*texts, strict=True)
        encoded = self.tokenise(premises, "query", **settings)
        alternatives = self.tokenise([text for choice in choices for text in choice], "document", **settings)
        counts = torch.tensor([len(choice) for choice in choices])
        is_present = torch.arange(int(counts.max())) < counts.unsqueeze(1)
        padding = {"input_ids": self.tokenizer.pad_token_id or 0, "attention_mask": 0}
        for name, value in padding.items():
            rows = alternatives[name]
            padded = rows.new_full((*is_present.shape, rows.shape[1]), value)
            padded[is_present] = rows
            encoded[f"alternative_{name}"] = padded
        if all(question.get("label") is not None for question in items):
            encoded["labels"] = torch.tensor([question["label"] for question in items])
        return encoded


def question_texts(
    question: Mapping[str, Any],
    candidates: object = None,
    own: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[str, list[str]]:
    """Read a question: the premise, and the alternatives in the words of the premise's graph.

    Args:
        question: it has `premise`, or `head` and `relation`, and `alternatives` or `candidates`.
        candidates: alternatives of a question without its own.
        own: `relation_templates` of the model.

    Raises:
        ValueError: the question lacks one of these, the relation is unknown, or a text has no word.
    """
    if "premise" not in question and not {"head", "relation"} <= question.keys():
        raise ValueError(f"found the keys {shown(list(question))}; accepted: {ACCEPTED_QUESTION}")
    given = question.get("alternatives", question.get("candidates", candidates))
    texts = [checked_text(text, "a candidate") for text in checked_list(given, "candidates", "text")]
    if "premise" in question:
        return checked_text(question["premise"], "premise"), texts
    head, relation = (checked_text(question[name], name) for name in ("head", "relation"))
    is_atomic = relation.strip("~ ").lower() in map(str.lower, ATOMIC)
    return premise(head, relation, own), [atomic_text(text) for text in texts] if is_atomic else texts
