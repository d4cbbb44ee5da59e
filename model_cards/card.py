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

from huggingface_hub import ModelCardData
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from transformers import PreTrainedConfig

from eventformers import markdown
from eventformers.datasets_scripts.licenses import hub_licenses, is_open
from eventformers.datasets_scripts.reading.lines import parse_json, read_regular_text
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation.results import TaskResult, eval_results
from eventformers.evaluation.tasks import TASKS
from eventformers.files import write_text
from eventformers.methods import load_method
from eventformers.model_cards import scores
from eventformers.model_cards.method import MethodCard, Snippet, load_method_card, run_snippet, snippet_code
from eventformers.provenance import git_commit, library_versions
from eventformers.strict import check_types

logger = logging.getLogger(__name__)

CARD_FILE = "README.md"
STAGES_SECTION = "Stages of training"
"""Title of the section on the stages of a run with several."""

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
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
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
        adapters: kind of the adapters that were trained and merged, as PEFT writes it, instead of the whole
            encoder; "" without any.
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
    adapters: str = ""
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
        text = _ENVIRONMENT.get_template("template.md.jinja").render(_template_values(self))
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
    run_usage: bool = True,
    earlier: str | Path | None = None,
) -> bool:
    """Write a card as `README.md` of a saved model; a fault is logged and never breaks a save.

    A `README.md` that people wrote or edited is kept. An unchanged generated one is replaced.

    Args:
        folder: the saved model, complete, since the usage examples load it.
        run_usage: run the usage examples, in fresh processes and on the CPU, and show their output.
        earlier: the folder that this one will replace, whose `README.md` decides; None for `folder` itself.

    Returns:
        True if the card was written.
    """
    path = Path(folder) / CARD_FILE
    try:
        standing = path if earlier is None else Path(earlier) / CARD_FILE
        if card_state(standing) == "foreign":
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

LONGEST_LOG = 30
"""Maximum number of lines of the training log in a card; longer logs are thinned evenly."""

_METRICS = {"spearman": "spearmanr", "pearson": "pearsonr"}
_TOLD_ARGUMENTS = (
    *("per_device_train_batch_size", "gradient_accumulation_steps", "gradient_cache_chunk_size"),
    *("learning_rate", "module_learning_rates", "frozen_modules", "encoder_dropout", "lr_scheduler_type"),
    *("lr_scheduler_kwargs", "warmup_steps", "warmup_ratio", "max_steps", "num_train_epochs"),
    *("weight_decay", "max_grad_norm", "optim", "optim_args"),
    *("adam_beta1", "adam_beta2", "adam_epsilon", "bf16", "fp16", "activation_checkpointing"),
    *("gradient_checkpointing", "dataloader_drop_last", "load_best_model_at_end", "metric_for_best_model"),
    *("learning_rate_decay", "early_stopping_patience", "stop_at_relative_change"),
    "silhouette_window",
)
"""The training arguments that can affect what is learned; disabled ones are not shown."""


def usage_snippets(card: ModelCard) -> Sequence[Snippet]:
    """The card's usage examples, else the method's."""
    if card.usage is not None:
        return card.usage
    return load_method_card(card.method).parts(card.config).usage


def _hub_id(name: str | None) -> str | None:
    """Return a name that can be a Hub id and is not a local folder; else None."""
    if not name or Path(name).exists():
        return None
    try:
        validate_repo_id(name)
    except HFValidationError:
        return None
    return name


def _front_matter(card: ModelCard, method: MethodCard) -> str:
    data, base = card.trained_on, _hub_id(card.base_model)
    metadata = ModelCardData(
        model_name=card.name,
        language=card.language if isinstance(card.language, str) else list(card.language),
        license=card.license or "other",
        license_name=None if card.license else "terms-of-encoder-and-training-data",
        library_name="transformers",
        pipeline_tag="feature-extraction",
        tags=["eventformers", card.method, *method.tags],
        base_model=base,
        datasets=[data.hub_id] if data and data.hub_id else None,
        metrics=sorted({_METRICS.get(result.main_score, result.main_score) for result in card.results})
        or None,
        eval_results=eval_results(card.results) or None,
    )
    if base:
        metadata["base_model_relation"] = "finetune"
    return metadata.to_yaml(line_break="\n")


def _template_values(card: ModelCard) -> dict[str, object]:
    """Return the values of the template."""
    method = load_method_card(card.method)
    data, commit = card.trained_on, git_commit()
    versions = [f"{name} {version}" for name, version in library_versions().items() if version]
    if commit:
        versions.append(f"code at commit {commit[:12]}{'-dirty' if commit.endswith('-dirty') else ''}")
    return {
        "card": card,
        "method": method,
        "parts": method.parts(
            card.config,
            {**card.training_arguments, **card.views, "is_staged": STAGES_SECTION in card.sections},
        ),
        "data": data,
        "front_matter": _front_matter(card, method),
        "base": _hub_id(card.base_model),
        "snippets": [
            {
                "title": snippet.title,
                "code": markdown.code_block(snippet_code(snippet, card.name), "python"),
                "output": "" if snippet.output is None else markdown.code_block(snippet.output),
            }
            for snippet in usage_snippets(card)
        ],
        "score_table": scores.score_table(card.results, card.name),
        "tasks": TASKS,
        "origins": {result.dataset.origin for result in card.results},
        "sources": _sources(data) if data else "",
        "data_settings": _settings_table(dict(sorted(data.settings.items()))) if data else "",
        "paper_settings": _paper_settings(card, method),
        "other_settings": _other_settings(card, method),
        "chosen_step": next((line["chosen_step"] for line in card.history if "chosen_step" in line), None),
        "log": _log(card.history),
        "versions": markdown.cell(", ".join(versions)),
        **{
            one.__name__: one
            for one in (
                *(markdown.cell, markdown.code, markdown.code_block, markdown.duration, markdown.number),
                *(markdown.setting, markdown.table, markdown.without_folders, markdown.words),
                *(scores.interval, scores.score_text),
            )
        },
    }


def _sources(data: TrainedOn) -> str:
    entries = dict.fromkeys(entry for source in data.sources.values() for entry in source)
    kinds = [entry for entry in entries if entry != "license"]
    rows = []
    # The last count is that of the smallest parts, such as the events of documents.
    for name, source in sorted(
        data.sources.items(), key=lambda item: (-item[1].get(kinds[-1], 0) if kinds else 0, item[0])
    ):
        license_name = str(source.get("license") or "not stated")
        hub = hub_licenses([license_name])[0]
        shown = (
            license_name if hub in ("other", "unknown", license_name.lower()) else f"{license_name} ({hub})"
        )
        rows.append(
            [
                markdown.cell(name),
                markdown.cell(shown),
                *(markdown.number(source.get(kind, 0)) for kind in kinds),
            ]
        )
    if len(rows) > 1 and kinds:
        sums = (sum(source.get(kind, 0) for source in data.sources.values()) for kind in kinds)
        rows.append(["**all**", "", *(f"**{markdown.number(total)}**" for total in sums)])
    return markdown.table(["source", "licence", *kinds], rows)


def _settings_table(settings: Mapping[str, object]) -> str:
    rows = [[markdown.code(name), markdown.setting(value)] for name, value in settings.items()]
    return markdown.table(["setting", "value"], rows)


def _paper_settings(card: ModelCard, method: MethodCard) -> str:
    """The values stated in the paper beside those of this model; bold where they differ."""
    here = {**_arguments_in_force(card), **card.views, **card.config}
    rows = []
    for name, stated in method.paper_settings.items():
        if name in here:
            ours, theirs = markdown.setting(here[name]), markdown.setting(stated)
            rows.append([markdown.code(name), ours if ours == theirs else f"**{ours}**", theirs])
    return markdown.table(["setting", "this model", "paper"], rows)


def _other_settings(card: ModelCard, method: MethodCard) -> str:
    """The method's own configuration, the collator's settings and the relevant training arguments."""
    config_class = load_method(card.method).config_class
    own = sorted(set(config_class.__dataclass_fields__) - set(PreTrainedConfig.__dataclass_fields__))
    in_force = _arguments_in_force(card)
    arguments = {name: in_force.get(name) for name in _TOLD_ARGUMENTS}
    shown = {
        **{name: card.config.get(name) for name in own if name != "text_config"},
        **card.views,
        **{name: value for name, value in arguments.items() if value is not False},
    }
    return _settings_table(
        {
            name: value
            for name, value in shown.items()
            if name not in method.paper_settings and value is not None
        }
    )


def _arguments_in_force(card: ModelCard) -> dict[str, object]:
    """The training arguments, without the one of steps and epochs that the other overrides."""
    steps = card.training_arguments.get("max_steps")
    overruled = "num_train_epochs" if isinstance(steps, int) and steps > 0 else "max_steps"
    return {name: value for name, value in card.training_arguments.items() if name != overruled}


def _log(history: Sequence[Mapping[str, object]]) -> str:
    """The training log, thinned evenly if it is long; the last line is always kept."""
    lines = [line for line in history if {"loss", "eval_loss", "silhouette"} & line.keys()]
    merged: dict[object, dict[str, object]] = {}
    for line in lines:
        merged.setdefault(line.get("step"), {}).update(line)
    steps = list(merged.values())
    if len(steps) > LONGEST_LOG:
        stride = (len(steps) - 1) / (LONGEST_LOG - 1)
        steps = [steps[round(index * stride)] for index in range(LONGEST_LOG)]
    logged = dict.fromkeys(name for line in steps for name in line)
    names = [name for name in logged if name in ("loss", "silhouette") or name.endswith("_loss")]
    columns = ["step", *(["epoch"] if any("epoch" in line for line in steps) else []), *names]
    rows = [
        [
            markdown.number(value) if isinstance(value := line.get(column), (int, float)) else "–"
            for column in columns
        ]
        for line in steps
    ]
    return markdown.table([markdown.words(column) for column in columns], rows)


TRAINING_DATA_FILE = "training_data.json"
"""File with the facts of the card's training data, for programs; it has no rows."""


def write_training_record(trained_on: TrainedOn | None, folder: Path) -> None:
    """Write the facts about the training rows.

    Args:
        trained_on: the data; None if it is unknown, which is recorded, too.
    """
    known = None if trained_on is None else asdict(trained_on)
    write_text(folder / TRAINING_DATA_FILE, json.dumps(known, indent=2, ensure_ascii=False) + "\n")


def read_training_record(folder: Path) -> TrainedOn | None:
    """Read the facts about the training rows; None if they are unknown.

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
