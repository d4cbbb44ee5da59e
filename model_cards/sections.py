"""The values of a card's template, and its larger tables as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub import ModelCardData
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id
from transformers import PreTrainedConfig

from eventformers import markdown
from eventformers.datasets_scripts.licenses import hub_licenses
from eventformers.evaluation.results import eval_results
from eventformers.methods import load_method
from eventformers.model_cards import scores
from eventformers.model_cards.method import MethodCard, Snippet, load_method_card, snippet_code
from eventformers.provenance import git_commit, library_versions

if TYPE_CHECKING:
    from eventformers.model_cards.card import ModelCard, TrainedOn

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
    *("silhouette_window", "silhouette_clusters"),
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


def template_values(card: ModelCard) -> dict[str, object]:
    """Return the values of the template."""
    method = load_method_card(card.method)
    data = card.trained_on
    return {
        "card": card,
        "method": method,
        "parts": method.parts(card.config, {**card.training_arguments, **card.views}),
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
        "task_table": scores.task_table(card.results),
        "score_notes": scores.notes(card.results),
        "origins": {result.dataset.origin for result in card.results},
        "sources": _sources(data) if data else "",
        "data_settings": _settings_table(dict(sorted(data.settings.items()))) if data else "",
        "paper_settings": _paper_settings(card, method),
        "other_settings": _other_settings(card, method),
        "chosen_step": next((line["chosen_step"] for line in card.history if "chosen_step" in line), None),
        "log": _log(card.history),
        "versions": _versions(),
        **{
            one.__name__: one
            for one in (
                *(markdown.cell, markdown.code, markdown.code_block, markdown.duration, markdown.number),
                *(markdown.setting, markdown.table, markdown.without_folders, markdown.words),
            )
        },
    }


def _sources(data: TrainedOn) -> str:
    entries = dict.fromkeys(entry for source in data.sources.values() for entry in source)
    kinds = [entry for entry in entries if entry != "license"]
    rows = []
    # The last count is that of the smallest parts, such as the events of documents.
    for name, source in sorted(
        data.sources.items(), key=lambda item: (-_count(item[1], kinds[-1]) if kinds else 0, item[0])
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
                *(markdown.number(_count(source, kind)) for kind in kinds),
            ]
        )
    if len(rows) > 1 and kinds:
        sums = (sum(_count(source, kind) for source in data.sources.values()) for kind in kinds)
        rows.append(["**all**", "", *(f"**{markdown.number(total)}**" for total in sums)])
    return markdown.table(["source", "licence", *kinds], rows)


def _count(source: Mapping[str, object], kind: str) -> int:
    value = source.get(kind)
    return value if isinstance(value, int) else 0


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


def _versions() -> str:
    commit = git_commit()
    named = [f"{name} {version}" for name, version in library_versions().items() if version]
    if commit:
        named.append(f"code at commit {commit[:12]}{'-dirty' if commit.endswith('-dirty') else ''}")
    return markdown.cell(", ".join(named))
