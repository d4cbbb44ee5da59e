"""The sections of a card as Markdown, which the template only places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

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
    """Return the values of the template as Markdown; empty text hides a section."""
    method = load_method_card(card.method)
    data = card.trained_on
    parts = method.parts(card.config, {**card.training_arguments, **card.views})
    return {
        "front_matter": _front_matter(card, method),
        "name": markdown.cell(card.name),
        "method": method,
        "summary": parts.summary,
        "warnings": _warnings(card),
        "facts": _facts(card, method, parts.text_read),
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
        "score_notes": _score_notes(card, method),
        "data_facts": _data_facts(data, method) if data else [],
        "raw_files": _raw_files(data) if data else "",
        "sources": _sources(data) if data else "",
        "skipped": _skipped(data) if data else "",
        "data_settings": _settings_table(dict(sorted(data.settings.items()))) if data else "",
        "objective": parts.objective,
        "run_facts": _run_facts(card),
        "paper_settings": _paper_settings(card, method),
        "other_settings": _other_settings(card, method),
        "log": _log(card.history),
        "readings": markdown.table(["where", "paper and released code", "this model"], parts.readings),
        "sections": card.sections,
        "limits": parts.limits,
        "versions": _versions(),
        "citation": markdown.code_block(method.citation, "bibtex"),
    }


def _score_notes(card: ModelCard, method: MethodCard) -> list[str]:
    facts = [card.results_note] if card.results_note else []
    origins = {result.dataset.origin for result in card.results}
    if "samples" in origins:
        facts.append(
            "Scores on the bundled samples are not benchmark scores, and not comparable with published "
            "scores."
        )
    if origins - {"samples"} and method.published_note:
        facts.append(method.published_note)
    return facts + scores.notes(card.results)


def _warnings(card: ModelCard) -> list[str]:
    data = card.trained_on
    facts: list[str] = []
    if data is None:
        return facts
    if data.origin == "samples":
        facts.append(
            "This model was trained on the small sample corpus that comes with eventformers. It shows that "
            "the pipeline works; for real use, train on real text."
        )
    if data.closed_licenses:
        facts.append(
            "Part of the training rows is not openly licensed "
            f"({', '.join(map(markdown.cell, data.closed_licenses))}). "
            "Find out whether you may publish or sell these weights."
        )
    return facts


def _facts(card: ModelCard, method: MethodCard, text_read: str) -> str:
    config, data = card.config, card.trained_on
    text_config = config.get("text_config")
    encoder = text_config if isinstance(text_config, Mapping) else {}
    base = _hub_id(card.base_model)
    facts = {"method": f"[{method.title}]({method.url})"}
    if base:
        facts["start encoder"] = f"[{base}](https://huggingface.co/{base})"
    elif card.base_model:
        local = markdown.code(markdown.without_folders(card.base_model.rstrip("/\\")))
        facts["start encoder"] = f"{local}, a local folder"
    if encoder.get("model_type"):
        labels = {"num_hidden_layers": "layers", "hidden_size": "hidden units"}
        size = [f"{encoder[key]} {label}" for key, label in labels.items() if encoder.get(key)]
        facts["encoder"] = markdown.cell(", ".join([str(encoder["model_type"]), *size]))
    if card.parameters:
        facts["parameters"] = markdown.number(card.parameters)
    if config.get("projection_dim"):
        pooling = {
            "mean": "mean of the token vectors",
            "cls": "vector of the first token",
            "lasttoken": "vector of the last token",
        }
        taken = markdown.cell(pooling.get(str(config.get("pooling")), config.get("pooling")))
        length = "of length 1" if method.normalises else "not normalised"
        compared = f"; compare by {method.compared_by}" if method.compared_by else ""
        facts["vector"] = f"{config['projection_dim']} numbers, {taken}, {length}{compared}"
    facts["text read"] = text_read
    languages = [card.language] if isinstance(card.language, str) else card.language
    facts["language"] = markdown.cell(", ".join(languages))
    if data:
        kind = {"samples": "bundled samples", "local": "local data", "hub": data.hub_id or "Hub"}[data.origin]
        size_text = f", {markdown.number(data.rows)} rows" if data.rows is not None else ""
        source = f"{markdown.code(data.name)}, config {markdown.code(data.config)}"
        facts["trained on"] = f"{source} ({markdown.cell(kind)}){size_text}"
    terms = "the terms of the start encoder and of the training data apply"
    facts["licence"] = markdown.cell(card.license or terms)
    return markdown.table(["", ""], [[f"**{name}**", value] for name, value in facts.items()])


def _data_facts(data: TrainedOn, method: MethodCard) -> list[str]:
    facts = []
    if data.rows is not None:
        whole = method.training_rows.get(data.config, data.rows)
        of = ""
        if data.origin != "samples" and data.rows < whole:
            of = f", {data.rows / whole:.0%} as many as the {markdown.number(whole)} of the paper"
        aside = (
            f"; {markdown.number(data.validation_rows)} more held out for the validation loss"
            if data.validation_rows
            else ""
        )
        facts.append(f"{markdown.number(data.rows)} training rows{of}{aside}")
    if len(data.split_rows) > 1:
        counts = ", ".join(
            f"{markdown.cell(split)} {markdown.number(count)}" for split, count in data.split_rows.items()
        )
        facts.append(f"rows by split: {counts}")
    if data.hub_id:
        at = f" at {markdown.code(data.revision[:12])}" if data.revision else ""
        facts.append(f"[{data.hub_id}](https://huggingface.co/datasets/{data.hub_id}){at}")
    if data.fingerprint:
        facts.append(f"fingerprint {markdown.code(data.fingerprint)}")
    if data.read:
        counts = ", ".join(
            f"{markdown.number(count)} {markdown.words(kind)}" for kind, count in data.read.items()
        )
        facts.append(f"read from the raw files: {markdown.cell(counts)}")
    built = [
        f"{markdown.cell(markdown.words(name))} {_plain(value)}"
        for name, value in data.statistics.items()
        if value is not None and name not in (*data.read, "rows")
    ]
    if built:
        facts.append(f"after building: {'; '.join(built)}")
    if data.read and not data.skipped:
        facts.append("no part of the raw files was skipped")
    return facts


def _plain(value: object) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return markdown.number(value) if number else markdown.setting(value)  # type: ignore[arg-type]


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


def _raw_files(data: TrainedOn) -> str:
    rows = [
        [
            markdown.code(markdown.without_folders(str(file.get("name")))),
            markdown.number(_count(file, "bytes")),
            markdown.code(file.get("sha256")),
        ]
        for file in data.raw_files
    ]
    return markdown.table(["raw file", "bytes", "SHA-256"], rows)


def _count(source: Mapping[str, object], kind: str) -> int:
    value = source.get(kind)
    return value if isinstance(value, int) else 0


def _skipped(data: TrainedOn) -> str:
    ordered = sorted(data.skipped.items(), key=lambda item: (-item[1], item[0]))
    rows = [[markdown.cell(markdown.words(reason)), markdown.number(count)] for reason, count in ordered]
    return markdown.table(["left out because", "count"], rows)


def _settings_table(settings: Mapping[str, object]) -> str:
    rows = [[markdown.code(name), markdown.setting(value)] for name, value in settings.items()]
    return markdown.table(["setting", "value"], rows)


def _run_facts(card: ModelCard) -> list[str]:
    facts = []
    if card.recipe:
        about = f": {markdown.cell(card.recipe_description.rstrip('.'))}" if card.recipe_description else ""
        facts.append(f"recipe {markdown.code(card.recipe)}{about}")
    if card.changed_settings:
        changed = ", ".join(
            markdown.code(f"{key}={markdown.without_folders(str(value))}")
            for key, value in card.changed_settings.items()
        )
        facts.append(f"changed from the recipe: {changed}")
    if card.seed is not None:
        facts.append(f"seed {markdown.code(card.seed)}")
    if card.lora:
        facts.append("low-rank adapters were trained instead of the whole encoder, and merged into it")
    if share := cast(float, card.training_arguments.get("start_weight_share", 0.0)):
        averaged = (
            f"the encoder's weights are a weighted average of those before training, with the share "
            f"{markdown.setting(share)}, and those after it"
        )
        scaled = f"training's change of the encoder's weights is scaled by {markdown.setting(1 - share)}"
        facts.append(averaged if share > 0 else scaled)
    if card.steps is not None:
        facts.append(f"{markdown.number(card.steps)} optimizer steps")
    if chosen := next((line["chosen_step"] for line in card.history if "chosen_step" in line), None):
        facts.append(
            f"the weights are those after step {markdown.number(cast(int, chosen))}, chosen by the "
            "silhouette of the unseen mentions"
        )
    if card.seconds is not None:
        facts.append(f"training time {markdown.duration(card.seconds)}")
    if card.truncated is not None:
        at = card.views.get("max_seq_length")
        tokens = f" at {at} tokens" if at else ""
        facts.append(f"texts truncated{tokens}: {markdown.number(card.truncated)}")
    return facts


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
