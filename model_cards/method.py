"""The contribution of a method to a model card: readings, and usage examples, run for their output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from eventformers.datasets_scripts.events import Event, EventOrder, event_text
from eventformers.markdown import code
from eventformers.methods import load_method, load_object

Settings = Mapping[str, object]


@dataclass(frozen=True)
class Reading:
    """A choice made where the paper is silent, misprinted or at odds with its code.

    Args:
        place: the place in the paper.
        paper: what the paper, or the released code, says.
        here: what this model does.
    """

    place: str
    paper: str
    here: str


@dataclass(frozen=True)
class Snippet:
    """A runnable usage example.

    Args:
        title: what it shows.
        code: Python; `MODEL_ID`, without quotes, is replaced by the name of the model.
        output: the printed output; None if it did not run to its end.
        failure: reason for missing output; None if it has output, or was never run.
        is_run: False for an example that needs another library and prints nothing; it is not run.
    """

    title: str
    code: str
    output: str | None = None
    failure: str | None = None
    is_run: bool = True


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


EXAMPLES: tuple[Event, ...] = (
    {"subject": "company", "predicate": "fired", "object": "worker"},
    {"subject": "firm", "predicate": "dismissed", "object": "employee"},
    {"subject": "soldier", "predicate": "fired", "object": "gun"},
)
"""The first two have a similar meaning in different words; the third shares only the verb of the first."""


def event_summary(config: Settings) -> str:
    """Describe a model of events."""
    return (
        f"This model turns an event into a vector of {config.get('projection_dim')} numbers. Compare vectors "
        "by their cosine."
    )


def event_read(config: Settings) -> str:
    """Describe the form of the text of an event."""
    return f"an event as {code(text_of_event(config))}, absent roles skipped"


def event_usage(config: Settings) -> list[Snippet]:
    """Examples of events with transformers alone, with this package and with sentence-transformers."""
    texts = [f'"{text_of_event(config, event)}"' for event in EXAMPLES]
    return [
        transformers_snippet(texts, note=f"the text of an event is `{text_of_event(config)}`"),
        encode_snippet("events", [event_literal(event) for event in EXAMPLES]),
        sentence_transformers_snippet(texts),
    ]


@dataclass(frozen=True)
class MethodCard:
    """The parts of a card that a method provides.

    Args:
        method: the `model_type`.
        title: its usual name.
        paper: title of the paper, with authors' names and year.
        url: address of the paper.
        tags: tags on the Hub, besides those of every model.
        objective: Markdown: the training objective, from its configuration.
        readings: the readings, from the configuration and the training arguments.
        paper_settings: the values stated in the paper, by the name of a configuration field, a setting of the
            collator or a training argument.
        citation: BibTeX.
        limits: what the model cannot do, one or two sentences each, from the configuration.
        summary: Markdown: description of the model, from its configuration. This and the next two are those
            of a model of events by default.
        text_read: Markdown: the form of its input texts, from its configuration.
        usage: the usage examples, from the configuration.
        training_rows: number of rows of the published training sets by the dataset's config, so that the card
            can say if a model was trained on fewer.
        published_note: the conditions of the published scores.
        normalises: True if the vectors have length 1.
        compared_by: how to compare vectors; empty if they are not compared.
    """

    method: str
    title: str
    paper: str
    url: str
    tags: Sequence[str]
    objective: Callable[[Settings], str]
    readings: Callable[[Settings, Settings], list[Reading]]
    paper_settings: Settings
    citation: str
    limits: Callable[[Settings], list[str]] = lambda config: []
    summary: Callable[[Settings], str] = event_summary
    text_read: Callable[[Settings], str] = event_read
    usage: Callable[[Settings], list[Snippet]] = event_usage
    training_rows: Mapping[str, int] = field(default_factory=dict)
    published_note: str = ""
    normalises: bool = False
    compared_by: str = "cosine"


def load_method_card(method: str) -> MethodCard:
    """Load the card of a method by its `model_type`.

    Raises:
        UnknownNameError: the method is unknown.
    """
    card: MethodCard = load_object(load_method(method).card)
    return card


MODEL_PLACEHOLDER = "MODEL_ID"
TIMEOUT_SECONDS = 900.0
LONGEST_OUTPUT = 4_000

_OF_THE_TRAINING_PROCESS = (
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    *("MASTER_ADDR", "MASTER_PORT", "ACCELERATE_USE_CPU"),
)


def snippet_code(snippet: Snippet, model: str) -> str:
    """Insert a model's name into a snippet as a Python string literal, so that any character is safe."""
    return snippet.code.replace(MODEL_PLACEHOLDER, json.dumps(model, ensure_ascii=False))


def run_snippet(snippet: Snippet, folder: Path, name: str, timeout: float = TIMEOUT_SECONDS) -> Snippet:
    """Run a snippet on a saved model, in a fresh process, offline and on the CPU.

    A fresh process has no state of the training run, so what works there works for a user.

    Args:
        snippet: the snippet.
        folder: the saved model.
        name: replaces the folder of the model in the printed output.
        timeout: seconds after which the snippet counts as failed.

    Returns:
        The snippet with its output, or with the reason for missing output; unchanged if `is_run` is False. A
        failing snippet raises no error.
    """
    if not snippet.is_run:
        return snippet
    folder = folder.absolute()
    with tempfile.TemporaryDirectory(prefix="eventformers-card-") as scratch:
        environment = {
            key: value
            for key, value in os.environ.items()
            if key not in _OF_THE_TRAINING_PROCESS and not key.startswith("TORCHELASTIC_")
        }
        # Separate caches: otherwise the code of an earlier model in the same folder would be reused. The
        # caches are not needed later.
        environment |= {
            "HF_MODULES_CACHE": scratch,
            "HF_DATASETS_CACHE": scratch,
            "HF_HUB_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "PYTHONIOENCODING": "utf-8",
        }
        try:
            done = subprocess.run(  # noqa: S603 - the code is the card's own, and names go in as literals
                [sys.executable, "-c", snippet_code(snippet, str(folder))],
                cwd=scratch,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return replace(snippet, output=None, failure=f"it did not end within {timeout:g} seconds")
        except OSError as error:
            failure = f"no process could be started: {error.strerror or error}"
            return replace(snippet, output=None, failure=failure)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else f"exit code {done.returncode}"
        return replace(snippet, output=None, failure=_without_folder(reason, folder, name)[:500])
    printed = _without_folder(done.stdout, folder, name).rstrip()
    if len(printed) > LONGEST_OUTPUT:
        printed = f"{printed[:LONGEST_OUTPUT]}\n… ({len(printed) - LONGEST_OUTPUT:,} more characters)"
    return replace(snippet, output=printed, failure=None)


def _without_folder(text: str, folder: Path, name: str) -> str:
    for spelled in {str(folder), str(folder.resolve())}:
        text = text.replace(spelled, name)
    return text
