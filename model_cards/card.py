"""The model card: its content, its rendering as Markdown, and its file beside a model."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from eventformers.datasets_scripts.licenses import is_open
from eventformers.datasets_scripts.reading.lines import parse_json, read_regular_text
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation.results import TaskResult
from eventformers.files import write_text
from eventformers.model_cards.method import Snippet, run_snippet
from eventformers.model_cards.sections import template_values, usage_snippets
from eventformers.strict import check_types

logger = logging.getLogger(__name__)

CARD_FILE = "README.md"

_MARKER = re.compile(r"\n<!-- eventformers card, SHA-256 of the text above: ([0-9a-f]{64})\.[^\n]*-->\s*\Z")


_OF_THE_REPORT = (
    *("hub_id", "revision", "fingerprint", "settings", "raw_files"),
    *("read", "skipped", "sources", "statistics"),
)
"""The entries of a `build_report.json` that are fields of `TrainedOn`."""


@dataclass(frozen=True, kw_only=True)
class TrainedOn:
    """The data that a model was trained on. Only the first three fields are required.

    Args:
        name: the dataset builder, in snake_case.
        config: its config.
        rows: number of training rows.
        fingerprint: fingerprint of the raw files, the builder and its settings.
        origin: `samples` (bundled), `local` or `hub`.
        hub_id: the Hub repository, if the data comes from one.
        revision: its commit.
        settings: the builder's settings.
        raw_files: `name`, `bytes` and `sha256` of each raw file.
        read: counts of items in the raw files, by kind.
        skipped: counts of skipped items, by reason.
        sources: for each source its `license` and, if known, the counts `documents` and `events`.
        statistics: further numbers of the builder.
        split_rows: number of rows of every split, by name.
        validation_rows: number of rows for the validation loss.
    """

    name: str
    config: str
    rows: int | None = None
    fingerprint: str | None = None
    origin: Literal["samples", "local", "hub"] = "local"
    hub_id: str | None = None
    revision: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    raw_files: Sequence[Mapping[str, object]] = ()
    read: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    statistics: Mapping[str, object] = field(default_factory=dict)
    split_rows: Mapping[str, int] = field(default_factory=dict)
    validation_rows: int | None = None

    @classmethod
    def from_report(
        cls,
        report: Mapping[str, Any],
        *,
        validation_rows: int = 0,
    ) -> TrainedOn:
        """Convert a `build_report.json`.

        Args:
            report: the report, from `eventformers.datasets_scripts.built_report`.
            validation_rows: number of rows for the validation loss; if the data has one split, they are held
                out from its rows.

        Raises:
            KeyError: the report does not name its builder and config.
        """
        split_rows = {split: counts["rows"] for split, counts in report.get("splits", {}).items()}
        if len(split_rows) > 1:
            rows = split_rows.get("train")
        else:
            rows = report["rows"] - validation_rows if "rows" in report else None
        return cls(
            name=report["builder"],
            config=report["config"],
            rows=rows,
            origin="hub" if "hub_id" in report else "samples" if report.get("sample") else "local",
            split_rows=split_rows,
            validation_rows=validation_rows or None,
            **{name: report[name] for name in _OF_THE_REPORT if name in report},
        )

    @property
    def licenses(self) -> list[str]:
        """The licences of the sources, sorted."""
        return sorted({str(source["license"]) for source in self.sources.values() if source.get("license")})

    @property
    def closed_licenses(self) -> list[str]:
        """Those of the licences that do not allow everyone to publish."""
        return [name for name in self.licenses if not is_open(name)]


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """The content of the card of a trained model. Empty fields get no section.

    Args:
        name: name of the model: its Hub id, or the name of its folder.
        method: the `model_type`.
        config: the model's configuration, from `model.config.to_dict()`.
        base_model: Hub id of the start encoder; of a folder, the card shows only the last part.
        trained_on: the training data.
        language: language code or codes.
        license: licence of the weights, as an identifier of the Hub. With None the card says `other`, and
            that the terms of the start encoder and of the training data apply.
        recipe: name of the recipe.
        recipe_description: description of the recipe, in one line.
        changed_settings: settings that differ from the recipe.
        views: settings of the collator.
        training_arguments: the training arguments, from `to_dict()`.
        seed: the seed.
        lora: True if low-rank adapters were trained and merged, instead of the whole encoder.
        steps: number of optimizer steps.
        seconds: training time.
        truncated: number of texts truncated in training.
        history: the trainer's log, one mapping per line.
        results: evaluation results, one per task.
        results_note: how to interpret the scores, for example that the recipe was chosen by them.
        parameters: number of weights of the encoder with its pooling.
        sections: further sections: titles and Markdown.
        usage: usage examples; None uses the method's.
    """

    name: str
    method: str
    config: Mapping[str, object]
    base_model: str | None = None
    trained_on: TrainedOn | None = None
    language: str | Sequence[str] = "en"
    license: str | None = None
    recipe: str | None = None
    recipe_description: str = ""
    changed_settings: Mapping[str, object] = field(default_factory=dict)
    views: Mapping[str, object] = field(default_factory=dict)
    training_arguments: Mapping[str, object] = field(default_factory=dict)
    seed: int | None = None
    lora: bool = False
    steps: int | None = None
    seconds: float | None = None
    truncated: int | None = None
    history: Sequence[Mapping[str, object]] = ()
    results: Sequence[TaskResult] = ()
    results_note: str = ""
    parameters: int | None = None
    sections: Mapping[str, str] = field(default_factory=dict)
    usage: Sequence[Snippet] | None = None

    def to_markdown(self) -> str:
        """Render the card, with a marker that reveals later edits.

        Raises:
            UnknownNameError: the method has no card.
            EventformersError: two results are of the same task.
        """
        text = _ENVIRONMENT.get_template("template.md.jinja").render(template_values(self))
        text = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
        return (
            f"{text}\n<!-- eventformers card, SHA-256 of the text above: {_digest(text)}. "
            "An edited card is kept as it is. -->\n"
        )

    def with_usage_run(self, folder: Path) -> ModelCard:
        """Return this card with its usage examples run on the model in a folder."""
        with ThreadPoolExecutor() as pool:
            run = pool.map(lambda snippet: run_snippet(snippet, folder, self.name), usage_snippets(self))
            return replace(self, usage=list(run))


def write_card(
    folder: str | Path,
    card: ModelCard,
    *,
    overwrite: bool = False,
    run_usage: bool = True,
    earlier: str | Path | None = None,
) -> bool:
    """Write a card as `README.md` of a saved model; a fault is logged and never breaks a save.

    A `README.md` that people wrote or edited is kept. An unchanged generated one is replaced.

    Args:
        folder: the saved model, complete, since the usage examples load it.
        card: the card.
        overwrite: also replace a card that somebody else wrote.
        run_usage: run the usage examples, in fresh processes and on the CPU, and show their output.
        earlier: the folder that this one will replace, whose `README.md` decides; None for `folder` itself.

    Returns:
        True if the card was written.
    """
    path = Path(folder) / CARD_FILE
    try:
        standing = path if earlier is None else Path(earlier) / CARD_FILE
        if not overwrite and card_state(standing) == "foreign":
            logger.warning("%s was written or edited by hand and is kept", standing)
            return False
        if run_usage:
            card = card.with_usage_run(path.parent)
            for snippet in card.usage or ():
                if snippet.failure is not None:
                    # A slow or full machine is no property of the model, so the card does not mention it.
                    logger.warning("no output of the card's example %r: %s", snippet.title, snippet.failure)
        write_text(path, card.to_markdown())
    except Exception as error:
        # The weights are more important than their card.
        logger.warning("no model card was written to %s: %s: %s", path, type(error).__name__, error)
        return False
    return True


def card_state(path: Path) -> Literal["absent", "ours", "foreign"]:
    """Determine whether a card is absent, unchanged since it was generated, or written or edited by people.

    Line ends are ignored, since version control may change them.

    Args:
        path: the card's file.

    Raises:
        OSError: the file cannot be read.
    """
    if not path.exists():
        return "absent"
    text = path.read_bytes().decode("utf-8", errors="replace").replace("\r\n", "\n")
    found = _MARKER.search(text)
    return "ours" if found and _digest(text[: found.start()]) == found[1] else "foreign"


def _digest(text: str) -> str:
    return hashlib.sha256(text.rstrip("\n").encode("utf-8")).hexdigest()


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    autoescape=select_autoescape(default=False, default_for_string=False),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)

TRAINING_DATA_FILE = "training_data.json"
"""File with the facts of the card's training data, for programs; it has no rows."""


def write_training_record(trained_on: TrainedOn | None, folder: Path) -> None:
    """Write the facts about the training rows.

    Args:
        trained_on: the data; None if it is unknown, which is recorded, too.
        folder: the folder of the run.
    """
    known = None if trained_on is None else asdict(trained_on)
    write_text(folder / TRAINING_DATA_FILE, json.dumps(known, indent=2, ensure_ascii=False) + "\n")


def read_training_record(folder: Path) -> TrainedOn | None:
    """Read the facts about the training rows; None if they are unknown.

    Args:
        folder: the folder of the run.

    Raises:
        DataFormatError: the file is not such a record.
    """
    path = folder / TRAINING_DATA_FILE
    if not path.is_file():
        return None
    accepted = f"JSON with the fields {', '.join(entry.name for entry in fields(TrainedOn))}"
    known = parse_json(read_regular_text(path, accepted), path, None, accepted)
    try:
        if known is None:
            return None
        check_types({"record": known}, {"record": dict[str, object]})
        check_types(known, {"sources": dict[str, dict[str, object]]})
        return TrainedOn(**known)
    except (TypeError, EventformersError) as error:
        raise DataFormatError(path, None, str(error), accepted) from error
