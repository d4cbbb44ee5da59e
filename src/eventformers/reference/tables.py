"""The tables and examples of docs, generated from the registries and from committed records."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from eventformers.datasets_scripts import BUILDERS, list_datasets
from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.errors import UnknownNameError
from eventformers.evaluate_metrics import METRICS, load_metric
from eventformers.evaluation.results import TaskResult, load_results
from eventformers.evaluation.tasks import TASKS, Task
from eventformers.loading.pretrained import list_pretrained
from eventformers.markdown import cell
from eventformers.markdown import table as markdown_table
from eventformers.methods import all_methods, load_method
from eventformers.model_cards import load_method_card
from eventformers.model_cards.scores import score_text
from eventformers.reference.docstrings import docstring_entries, python_page, settings_page
from eventformers.reproduction.comparisons import claims_sections
from eventformers.reproduction.tables import paper_tables
from eventformers.trainers.adapters import modules_beside_encoders
from eventformers.trainers.recipes import list_recipes, load_recipe
from eventformers.trainers.stages import stage_recipes

DATASET, METRIC = "event_similarity", "mcnc"
"""The dataset and the metric that represent all others."""


@dataclass(frozen=True)
class Published:
    """A kind of published repository.

    Attributes:
        kind: `model`, `dataset` or `metric`.
        name: the `model_type`, or the name of the dataset or metric.
        ways: the ways to load it: an Auto class, `PeftModel` for adapters, `pipeline` for the model's own
            pipeline, the task of a pipeline, `SentenceTransformer`, or the function for a dataset or metric.
    """

    kind: str
    name: str
    ways: tuple[str, ...]


def published() -> list[Published]:
    """List everything that is published, with every way to load it."""
    models = [
        Published(
            "model",
            name,
            (
                "AutoTokenizer",
                "AutoProcessor",
                *method.classes,
                "PeftModel",
                "pipeline",
                *method.config_class.pipelines,
                *(["SentenceTransformer"] if method.config_class().reads_text_alone else []),
            ),
        )
        for name, method in all_methods().items()
    ]
    return [
        *models,
        Published("dataset", DATASET, ("load_dataset", "load_dataset(streaming=True)")),
        Published("metric", METRIC, ("evaluate.load",)),
    ]


def lora_snippet(method: str) -> str:
    """Write the lines that add low-rank adapters to a model of a method's default recipe, with PEFT alone.

    Raises:
        UnknownNameError: the method is unknown.
    """
    chosen = load_method(method)
    recipe = load_recipe(chosen.recipe_folder, chosen.default_recipe)
    config = chosen.config_class(**stage_recipes(recipe)[-1].model)
    with torch.device("meta"):
        modules = modules_beside_encoders(chosen.head_class(config))
    auto_class = next(
        name for name, place in config.full_auto_map.items() if place.endswith(chosen.head_class.__name__)
    )
    unfreezing = ", freeze_encoder=False" if getattr(config, "freeze_encoder", False) else ""
    names = "".join(f'        "{name}",\n' for name in modules)
    saved = f"    modules_to_save=[\n{names}    ],\n" if modules else ""
    return rf"""```python
import eventformers
from peft import LoraConfig, get_peft_model
from transformers import {auto_class}

model = {auto_class}.from_pretrained("my-org/my-model"{unfreezing})
adapters = LoraConfig(
    r=8,
    lora_alpha=16,
    target_modules=r".*\bencoder\..*\.(query|value)",
{saved})
model = get_peft_model(model, adapters)
```"""


def benchmark_tables(record: Mapping[str, Any]) -> str:
    """Format the tables of a record in Markdown, with the machine, failures and skipped parts.

    Args:
        record: the record of `benchmarks/gpu.py`: the machine, and `parts` with `title`, `note`, `rows`,
            `failures` and `left_out`.
    """
    rate = record["peak_bf16_flops"] / 1e12
    lines = [
        f"{cell(record['device'])}, {record['cores']} processor cores, Python {record['python']}, torch "
        f"{record['torch']}. A product of two large bfloat16 matrices reaches {rate:,.1f} TFLOP/s. The "
        f"weights of the encoder are {cell(record['weights'])}."
    ]
    for part in record["parts"]:
        lines += ["", f"**{part['title']}**", ""]
        if part["rows"]:
            header = list(part["rows"][0])
            lines += [
                markdown_table(header, [[str(row.get(name, "")) for name in header] for row in part["rows"]]),
                "",
            ]
        if part["note"]:
            lines += [part["note"], ""]
        lines += [f"- Failed: {cell(failure)}" for failure in part["failures"]]
        lines += [f"- Left out when the time was over: {cell(name)}" for name in part["left_out"]]
    return "\n".join(lines).rstrip()


def table(name: str, results_folder: Path) -> str:
    """Make a generated table in Markdown.

    Args:
        name: a key of `TABLES` or `TABLES_OF_FOLDER`; or a key of `TABLES_OF`, a blank and the name of a
            method or dataset.

    Raises:
        UnknownNameError: the table, the method or the dataset is unknown.
    """
    kind, _, of = name.partition(" ")
    if name in TABLES:
        return TABLES[name]()
    if name in TABLES_OF_FOLDER:
        return TABLES_OF_FOLDER[name](results_folder)
    if kind in TABLES_OF and of:
        return TABLES_OF[kind](of)
    known = [*TABLES, *TABLES_OF_FOLDER, *(f"{one} NAME" for one in TABLES_OF)]
    raise UnknownNameError("generated table", name, known)


@cache
def _results(folder: Path) -> list[TaskResult]:
    """Read the committed results once for all tables."""
    return load_results(folder)


def methods_table() -> str:
    """Make the table of methods and their further models: classes, recipes, data and papers."""
    rows = []
    for name, method in all_methods().items():
        card = load_method_card(name)
        auto = [f"`{auto}` → `{path.rpartition('.')[2]}`" for auto, path in method.classes.items()]
        recipes = [
            f"`{recipe}`" + (" (default)" if recipe == method.default_recipe else "")
            for recipe in list_recipes(method.recipe_folder)
            if load_recipe(method.recipe_folder, recipe).method == name
        ]
        rows.append(
            (
                f"[{method.title}]({card.url})",
                f"`{name}`",
                "<br>".join(auto),
                f"`{method.dataset[0]}` (`{method.dataset[1]}`)",
                _codes(method.tasks),
                "<br>".join(recipes),
            )
        )
    return _table(("method", "`model_type`", "Auto class → class", "trains on", "tasks", "recipes"), rows)


def loads_table() -> str:
    """Make the table of published repositories and every way to load them."""
    repositories = published()
    ways = dict.fromkeys(way for one in repositories for way in one.ways)
    tasks = {way: f'pipeline("{way}")' for way in ways if "-" in way}
    rows = [
        (f"`{tasks.get(way, way)}`", *("✓" if way in one.ways else "" for one in repositories))
        for way in ways
    ]
    return _table(("way to load", *(f"{one.kind} `{one.name}`" for one in repositories)), rows)


def pretrained_table() -> str:
    """Make the table of the trained models that come with the package."""
    rows = [
        (
            f"`{one.name}`",
            one.title,
            "<br>".join(
                f"{score.task}, {score.rows}: **{score_text(score.value, score.metric)}** {score.metric} ("
                + ", ".join(
                    f"{kind} {score_text(value, score.metric)}"
                    for kind, value in (("all weights", score.trained), ("untrained", score.untrained))
                    if value is not None
                )
                + ")"
                for score in one.scores
            ),
            ", ".join(one.licenses),
            f"{one.num_bytes / 1e6:.1f} MB",
        )
        for one in list_pretrained()
    ]
    return _table(("name", "model", "scores", "licences of its training data", "size"), rows)


def datasets_table() -> str:
    """Make the table of the configs of all dataset builders."""
    rows = [
        (
            f"`{entry['name']}`",
            f"`{entry['config']}`",
            _codes(entry["columns"]),
            _codes(entry["splits"]),
            # Markdown reads the asterisks of file patterns as emphasis, and <TUP> as HTML.
            re.sub(r"[^\s,;]*\*[^\s,;]*|<\w+>", r"`\g<0>`", entry["raw_files"]),
        )
        for entry in list_datasets()
    ]
    return _table(("dataset", "config", "columns", "splits", "raw files"), rows)


def metrics_table() -> str:
    """Make the table of the inputs and scores of all metrics."""
    rows = []
    for name in METRICS:
        text = inspect.cleandoc(load_metric(name).inputs_description)
        columns = (
            "<br>".join(
                f"`{entry}`: {meaning}" for entry, meaning in docstring_entries(text, section).items()
            )
            for section in ("Args", "Returns")
        )
        rows.append((f"`{name}`", *columns))
    return _table(("metric", "inputs", "scores"), rows)


def tasks_table() -> str:
    """Make the table of all evaluation tasks."""
    rows = [
        (
            f"`{task.name}`",
            f"`{task.dataset}` (`{task.config}`)",
            f"`{task.metric}`: `{task.main_score}`",
            task.description,
            task.paper_reference,
            "<br>".join(f"{model}: {_stated(score, task)}" for model, score in task.published_scores.items()),
        )
        for task in TASKS.values()
    ]
    return _table(
        ("task", "data", "metric: score", "what it says", "published in", "scores from papers"), rows
    )


def task_sections(results: Sequence[TaskResult]) -> str:
    """Make a section for every evaluation task: description, command, and published and own scores."""
    parts = []
    for task in TASKS.values():
        configs = ", or ".join(f"`{config}`" for config in (task.config, *task.other_configs))
        facts = [
            ("data", f"`{task.dataset}`: {configs}"),
            ("splits", f"{_codes(task.splits)}; the first one that the data has"),
            ("metric", f"`{task.metric}`: `{task.main_score}`"),
            ("published in", task.paper_reference),
        ]
        command = f"eventformers evaluate my-model --task {task.name} --data RAW -o scores"
        parts += [f"## `{task.name}`", task.description, f"```bash\n{command}\n```", _table(("", ""), facts)]
        if task.published_scores:
            rows = [(model, _stated(score, task)) for model, score in task.published_scores.items()]
            parts.append(_table((f"published, on {task.published_split}", task.main_score), rows))
        if own := [one for one in results if one.task == task.name]:
            parts.append(results_table(own))
    return "\n\n".join(parts)


def papers_table() -> str:
    """Make the table of the papers' tables that `reproduce` fills."""
    rows = [
        (
            f"`eventformers reproduce {paper} {name}`",
            one.title.rpartition("), ")[2],
            str(sum(bool(row.slug) for row in one.rows)),
            str(sum(not row.slug for row in one.rows)),
            _codes(dict.fromkeys(column.task for column in one.columns)),
        )
        for paper, tables in paper_tables().items()
        for name, one in tables.items()
    ]
    return _table(("command", "what it is", "rows that are run", "published alone", "tasks"), rows)


def recipes_table(method: str) -> str:
    """Make the table of a method's recipes, with their expected scores."""
    tasks = load_method(method).tasks
    rows = []
    for name in list_recipes(method):
        recipe = load_recipe(method, name)
        expected = [_stated(recipe.expected.get(task), TASKS[task]) for task in tasks]
        rows.append(
            (f"`{name}`", recipe.description, *expected, recipe.expected_source if recipe.expected else "-")
        )
    return _table(("recipe", "what it is", *(f"`{task}`" for task in tasks), "expected by"), rows)


def columns_table(dataset: str) -> str:
    """Make the tables of the columns of CSV and Parquet files that a dataset builder reads."""
    if dataset not in BUILDERS:
        raise UnknownNameError("dataset", dataset, BUILDERS)
    parts = []
    for content, columns in BUILDERS[dataset].TABLES.items():
        rows = [
            (
                " or ".join(f"`{name}`" for name in (column.name, *column.other_names)),
                column.kind,
                "yes" if column.required else "no",
                column.meaning,
            )
            for column in columns
        ]
        parts += [f"**{content}**", _table(("column", "type", "required", "meaning"), rows)]
    return "\n\n".join(parts)


def results_table(results: Sequence[TaskResult]) -> str:
    """Make the table of results beside their untrained encoders; a sentence if there are none."""
    if not results:
        return "No results are committed yet."
    rows = [
        (
            f"`{result.task}`",
            f"`{result.model}`" + (f" ({result.variant})" if result.variant else ""),
            _score(result.main_value, result.main_score),
            _score(result.baseline.main_value, result.main_score) if result.baseline else "-",
            f"{result.main_score}",
            f"{result.dataset.rows} {result.dataset.split} ({result.dataset.origin})",
            "-" if result.seed is None else str(result.seed),
            f"`{result.model_revision[:12]}`",
        )
        for result in sorted(results, key=lambda result: (list(TASKS).index(result.task), result.model))
    ]
    header = ("task", "model", "score", "untrained", "of", "rows", "seed", "revision")
    return _table(header, rows)


TABLES: dict[str, Callable[[], str]] = {
    "methods": methods_table,
    "api": python_page,
    "datasets": datasets_table,
    "loads": loads_table,
    "metrics": metrics_table,
    "pretrained": pretrained_table,
    "tasks": tasks_table,
    "papers": papers_table,
    "all settings": settings_page,
}
"""The tables without arguments, by name."""

TABLES_OF_FOLDER: dict[str, Callable[[Path], str]] = {
    "results": lambda folder: results_table(_results(folder)),
    "task sections": lambda folder: task_sections(_results(folder)),
    "gpu": lambda folder: benchmark_tables(read_json_object(folder / "benchmarks" / "gpu.json")),
    "claims": lambda folder: claims_sections(folder / "results" / "reproductions"),
}
"""The tables of the folder that holds `results/`, by name."""

TABLES_OF: dict[str, Callable[[str], str]] = {
    "recipes": recipes_table,
    "columns": columns_table,
    "lora": lora_snippet,
}
"""The tables and examples of one method or dataset, by name."""


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _stated(value: float | None, task: Task) -> str:
    return "-" if value is None else score_text(value, task.main_score, published=True)


def _score(value: float | None, main_score: str) -> str:
    return "-" if value is None else score_text(value, main_score)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
