"""The contribution of a method to a model card."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class MethodCard:
    """The parts of a card that a method provides.

    Args:
        method: the `model_type`.
        title: its usual name.
        paper: title of the paper, with authors' names and year.
        url: address of the paper.
        tags: tags on the Hub, besides those of every model.
        summary: Markdown: description of the model, from its configuration.
        text_read: Markdown: the form of its input texts, from its configuration.
        objective: Markdown: the training objective, from its configuration.
        readings: the readings, from the configuration and the training arguments.
        usage: the usage examples, from the configuration.
        limits: what the model cannot do, one or two sentences each, from the configuration.
        paper_settings: the values stated in the paper, by the name of a configuration field, a setting of the
            collator or a training argument.
        citation: BibTeX.
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
    summary: Callable[[Settings], str]
    text_read: Callable[[Settings], str]
    objective: Callable[[Settings], str]
    readings: Callable[[Settings, Settings], list[Reading]]
    usage: Callable[[Settings], list[Snippet]]
    limits: Callable[[Settings], list[str]]
    paper_settings: Settings
    citation: str
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
