"""What a method adds to a model card."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from eventformers.methods import load_method, load_object

Settings = Mapping[str, object]


@dataclass(frozen=True)
class Reading:
    """A place where the paper is silent, misprinted or at odds with its code, and what this model does.

    Args:
        place: where in the paper.
        paper: what stands there, or in the released code.
        here: what was taken.
    """

    place: str
    paper: str
    here: str


@dataclass(frozen=True)
class Snippet:
    """A usage example that can be run as it stands.

    Args:
        title: what it shows.
        code: Python; `MODEL_ID` stands, without quotes, where the model is named.
        output: what it printed; None where it did not run to its end.
        failure: why it has no output; None where it has, or where it was never run.
        is_run: False for one that needs another library and prints nothing: it stands as it is.
    """

    title: str
    code: str
    output: str | None = None
    failure: str | None = None
    is_run: bool = True


@dataclass(frozen=True)
class MethodCard:
    """A method, as a card tells it.

    Args:
        method: the `model_type`.
        title: how people call it.
        paper: title of the paper, with authors' names and year.
        url: where the paper stands.
        tags: tags on the Hub beside those of every model.
        summary: Markdown: what a model of this method is, from its configuration.
        text_read: Markdown: the form of the texts that it reads, from its configuration.
        objective: Markdown: what was minimised, from its configuration.
        readings: the readings, from the configuration and the training arguments.
        usage: the usage examples, from the configuration.
        limits: what the model cannot do, one sentence or two each, from the configuration.
        paper_settings: the values that the paper states, by the name of a configuration field, a setting of
            the collator or a training argument.
        citation: BibTeX.
        training_rows: rows of the published training sets by the dataset's config, so that a model trained on
            fewer is never taken for one trained on all.
        published_note: what the published scores were reached with.
        normalises: whether the vectors have length 1.
        compared_by: what vectors are compared by; empty where they are not.
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
    """What a method adds to a card, by its `model_type`.

    Raises:
        UnknownNameError: there is no such method.
    """
    card: MethodCard = load_object(load_method(method).card)
    return card
