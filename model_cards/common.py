"""Parts that the cards of several methods share: readings and usage examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from eventformers.datasets_scripts.events import Event, EventOrder, event_text
from eventformers.model_cards.method import Reading, Settings, Snippet

ALL_PAIRS = "embeddings @ embeddings.T"
"""The cosines of all pairs of vectors of length 1."""

ROLE_NAMES: Event = {"subject": "subject", "predicate": "predicate", "object": "object"}


def number(config: Settings, name: str) -> float:
    """Read a numeric field; 0 if it is absent or None."""
    value = config.get(name, 0)
    return float(value) if isinstance(value, (int, float)) else 0.0


def text_of_event(config: Settings, event: Event = ROLE_NAMES) -> str:
    """The text of an event in the order of a model; that of `ROLE_NAMES` shows the order."""
    return event_text(event, cast(EventOrder, config.get("event_order", "subject_predicate_object")))


def event_literal(event: Event) -> str:
    """Write an event as a Python literal."""
    return "{" + ", ".join(f'"{role}": "{text}"' for role, text in event.items()) + "}"


def assignment(name: str, items: Sequence[str]) -> str:
    """Write the assignment of a list.

    Args:
        name: the variable.
        items: the items, as Python literals.
    """
    return "\n".join([f"{name} = [", *(f"    {item}," for item in items), "]"])


def loading(auto_class: str, reader: str = "tokenizer") -> str:
    """Write the code that loads a model, and its `tokenizer` or `processor`, without this package."""
    return f"""\
import torch
from transformers import {auto_class}, Auto{reader.capitalize()}

{reader} = Auto{reader.capitalize()}.from_pretrained(MODEL_ID, trust_remote_code=True)
model = {auto_class}.from_pretrained(MODEL_ID, trust_remote_code=True)
"""


def pooling_reading(config: Settings, text: str) -> Reading:
    """Describe the pooling of the tokens of a text.

    Args:
        config: the model's configuration.
        text: the method's name for its texts, such as "event".
    """
    taken = {
        "mean": f"the mean over the tokens of the {text}",
        "lasttoken": "the vector of the last token",
    }.get(str(config.get("pooling")), "as in the paper")
    return Reading("Eq. 2, pooling", "the vector of [CLS]", taken)


def encode_snippet(name: str, items: Sequence[str], compared: str = ALL_PAIRS) -> Snippet:
    """Usage example for this package.

    Args:
        name: the variable of the items.
        items: the items, as Python literals.
        compared: the product of `embeddings` to print.
    """
    return Snippet(
        "With eventformers, installed from its source",
        f"""\
import eventformers

{assignment(name, items)}
embeddings = eventformers.encode(MODEL_ID, {name}, normalize=True)
print(embeddings.shape)
print(({compared}).round(2))""",
    )


def transformers_snippet(texts: Sequence[str], compared: str = ALL_PAIRS, note: str = "") -> Snippet:
    """Usage example for transformers alone.

    Args:
        texts: the texts, as Python literals.
        compared: the product of `embeddings` to print.
        note: a note on the texts for the title, in brackets.
    """
    return Snippet(
        f"With transformers alone{f' ({note})' if note else ''}",
        f"""\
{loading("AutoModel")}
{assignment("texts", texts)}
inputs = tokenizer(texts, padding=True, return_tensors="pt")
with torch.inference_mode():
    embeddings = torch.nn.functional.normalize(model(**inputs).embeddings)
print(embeddings.shape)
print(({compared}).round(decimals=2))""",
    )


def sentence_transformers_snippet(texts: Sequence[str]) -> Snippet:
    """Usage example for sentence-transformers, whose vectors equal those of the other examples.

    Args:
        texts: the texts, as Python literals.
    """
    return Snippet(
        "The same vectors with sentence-transformers (`pip install sentence-transformers`)",
        f"""\
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(MODEL_ID, trust_remote_code=True)

{assignment("texts", texts)}
embeddings = model.encode(texts, normalize_embeddings=True)""",
        is_run=False,
    )
