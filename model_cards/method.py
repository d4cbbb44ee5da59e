"""The contribution of a method to a model card: a YAML file of texts, and usage examples, run for their
output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from jinja2 import Environment, StrictUndefined

from eventformers.datasets_scripts.events import Event, EventOrder, event_text
from eventformers.datasets_scripts.reading.lines import parse_yaml, read_regular_text
from eventformers.errors import DataFormatError
from eventformers.markdown import code, setting
from eventformers.methods import load_method

Settings = Mapping[str, object]


class Reading(NamedTuple):
    """A choice made where the paper is silent, misprinted or at odds with its code.

    Attributes:
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


class CardParts(NamedTuple):
    """What a method says of one model.

    Attributes:
        summary: Markdown: description of the model.
        text_read: Markdown: the form of its input texts.
        objective: Markdown: the training objective.
        readings: the readings of the paper.
        limits: what the model cannot do.
        usage: the usage examples.
    """

    summary: str
    text_read: str
    objective: str
    readings: list[Reading]
    limits: list[str]
    usage: list[Snippet]


@dataclass(frozen=True, kw_only=True)
class MethodCard:
    """The parts of a card that a method provides, as its YAML file has them.

    Texts are Jinja templates, and conditions and calls are Jinja expressions, of the variables `config`, the
    model's configuration, and `training`, its training arguments and settings of the collator, whose absent
    fields are None; of the `constants`; and of the functions in `_ENVIRONMENT`. A text is one paragraph; one
    that is empty is left out.

    Args:
        title: the usual name of the method.
        paper: title of the paper, with authors' names and year.
        url: address of the paper.
        tags: tags on the Hub, besides those of every model.
        citation: BibTeX.
        paper_settings: the values stated in the paper, by the name of a configuration field, a setting of the
            collator or a training argument.
        objective: the training objective: paragraphs, and items of lists, which start with "- ".
        readings: each with `place`, `paper`, `here`, of which several texts are joined, and optionally a
            condition `if`.
        summary: description of the model. This and the next two are those of a model of events by default.
        text_read: the form of its input texts.
        usage: the usage examples: calls such as `encode_snippet("texts", texts)`, or `title`, `code` and
            `is_run`.
        limits: what the model cannot do, one or two sentences each.
        constants: values for the templates.
        training_rows: number of rows of the published training sets by the dataset's config, so that the card
            can say if a model was trained on fewer.
        published_note: the conditions of the published scores.
        normalises: True if the vectors have length 1.
        compared_by: how to compare vectors; empty if they are not compared.
    """

    title: str
    paper: str
    url: str
    tags: Sequence[str]
    citation: str
    paper_settings: Settings
    objective: Sequence[str]
    readings: Sequence[Mapping[str, Any]]
    summary: str
    text_read: str
    usage: Sequence[Any]
    limits: Sequence[str] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    training_rows: Mapping[str, int] = field(default_factory=dict)
    published_note: str = ""
    normalises: bool = False
    compared_by: str = "cosine"

    def parts(self, config: Settings, training: Settings | None = None) -> CardParts:
        """Render the texts for a model.

        Args:
            config: the model's configuration, from `model.config.to_dict()`.
            training: its training arguments and the settings of the collator.
        """
        values = {
            **self.constants,
            "config": defaultdict(lambda: None, config),
            "training": defaultdict(lambda: None, training or {}),
        }

        def text(template: str) -> str:
            return " ".join(_ENVIRONMENT.from_string(template).render(values).split())

        def texts(templates: Sequence[str]) -> list[str]:
            return [one for one in map(text, templates) if one]

        def evaluated(expression: str) -> Any:
            return _ENVIRONMENT.compile_expression(expression, undefined_to_none=False)(values)

        objective = ""
        for one in texts(self.objective):
            is_next_item = one.startswith("- ") and objective.rpartition("\n")[2].startswith("- ")
            objective += ("\n" if is_next_item else "\n\n") + one
        readings = []
        for entry in self.readings:
            here = [entry["here"]] if isinstance(entry["here"], str) else entry["here"]
            if evaluated(entry.get("if", "true")) and (told := "; ".join(texts(here))):
                readings.append(Reading(text(entry["place"]), text(entry["paper"]), told))
        usage = [
            evaluated(one)
            if isinstance(one, str)
            else Snippet(
                text(one["title"]),
                _ENVIRONMENT.from_string(one["code"]).render(values).rstrip(),
                is_run=one.get("is_run", True),
            )
            for one in self.usage
        ]
        return CardParts(
            text(self.summary),
            text(self.text_read),
            objective.strip(),
            readings,
            texts(self.limits),
            [snippet for snippet in usage if snippet is not None],
        )


def load_method_card(method: str) -> MethodCard:
    """Load the card of a method by its `model_type`.

    Raises:
        UnknownNameError: the method is unknown.
        DataFormatError: its file lacks an entry, has an unknown one or cannot be read.
    """
    found = load_method(method)
    accepted = "the entries of `eventformers.model_cards.MethodCard`"
    usual, own = (
        parse_yaml(read_regular_text(path, accepted), path, accepted)
        for path in (Path(__file__).with_name("events.yaml"), found.card_path)
    )
    try:
        constants = {**usual["constants"], **own.get("constants", {})}
        return MethodCard(**{"title": found.title, **usual, **own, "constants": constants})
    except (AttributeError, TypeError) as error:
        raise DataFormatError(found.card_path, None, str(error), accepted) from error


def text_of_event(config: Settings, event: Event) -> str:
    """Return the text of an event in the order of a model."""
    return event_text(event, cast(EventOrder, config["event_order"] or "subject_predicate_object"))


def texts_of_events(config: Settings, events: Sequence[Event]) -> list[str]:
    """Return the texts of events in the order of a model."""
    return [text_of_event(config, event) for event in events]


def assignment(name: str, items: Sequence[object]) -> str:
    """Write the assignment of a list of texts or events."""
    return "\n".join([f"{name} = [", *(f"    {json.dumps(item)}," for item in items), "]"])


def loading(auto_class: str, reader: str = "tokenizer") -> str:
    """Write the code that loads a model, and its `tokenizer` or `processor`, without this package."""
    return f"""\
import torch
from transformers import {auto_class}, Auto{reader.capitalize()}

{reader} = Auto{reader.capitalize()}.from_pretrained(MODEL_ID, trust_remote_code=True)
model = {auto_class}.from_pretrained(MODEL_ID, trust_remote_code=True)
"""


ALL_PAIRS = "embeddings @ embeddings.T"
"""The cosines of all pairs of vectors of length 1."""


def encode_snippet(name: str, items: Sequence[object], compared: str = ALL_PAIRS) -> Snippet:
    """Usage example for this package.

    Args:
        name: the variable of the items.
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
    """Usage example for sentence-transformers, whose vectors equal those of the other examples."""
    return Snippet(
        "The same vectors with sentence-transformers (`pip install sentence-transformers`)",
        f"""\
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(MODEL_ID, trust_remote_code=True)

{assignment("texts", texts)}
embeddings = model.encode(texts, normalize_embeddings=True)""",
        is_run=False,
    )


# Texts from data pass through the functions, which escape them.
_ENVIRONMENT = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701
_ENVIRONMENT.globals |= {
    one.__name__: one
    for one in (
        *(setting, code, text_of_event, texts_of_events, assignment, loading),
        *(encode_snippet, transformers_snippet, sentence_transformers_snippet),
    )
}
_ENVIRONMENT.globals["literal"] = json.dumps

MODEL_PLACEHOLDER = "MODEL_ID"
TIMEOUT_SECONDS = 900.0
LONGEST_OUTPUT = 4_000
_LONGEST_LAST_WORDS = 300

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
        except subprocess.TimeoutExpired as error:
            # On POSIX, the output of a process that is stopped is not decoded.
            printed_before = (error.stdout or b"").decode("utf-8", "replace")
            reason = f"it did not end within {timeout:g} seconds"
            return _failed(snippet, reason, printed_before, folder, name)
        except OSError as error:
            failure = f"no process could be started: {error.strerror or error}"
            return replace(snippet, output=None, failure=failure)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else f"exit code {done.returncode}"
        return _failed(snippet, reason, done.stdout, folder, name)
    printed = _without_folder(done.stdout, folder, name).rstrip()
    if len(printed) > LONGEST_OUTPUT:
        printed = f"{printed[:LONGEST_OUTPUT]}\n… ({len(printed) - LONGEST_OUTPUT:,} more characters)"
    return replace(snippet, output=printed, failure=None)


def _failed(snippet: Snippet, reason: str, printed: str, folder: Path, name: str) -> Snippet:
    """Return a snippet with the reason why it failed, and the end of what it printed before."""
    reason = _without_folder(reason, folder, name)[:500]
    if last := _without_folder(printed, folder, name).strip()[-_LONGEST_LAST_WORDS:]:
        reason = f"{reason}; printed before: {last}"
    return replace(snippet, output=None, failure=reason)


def _without_folder(text: str, folder: Path, name: str) -> str:
    for spelled in {str(folder), str(folder.resolve())}:
        text = text.replace(spelled, name)
    return text
