"""The README of a built dataset, for the Hub, `load_dataset` and people."""

from __future__ import annotations

import json
from bisect import bisect
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from datasets import DatasetInfo, SplitDict, SplitInfo
from datasets.info import DatasetInfosDict
from huggingface_hub import DatasetCardData

from eventformers.datasets_scripts.base import EventDatasetBuilder, config_names
from eventformers.datasets_scripts.licenses import hub_licenses, is_open
from eventformers.datasets_scripts.reading.lines import parse_yaml
from eventformers.errors import DataFormatError
from eventformers.markdown import cell, code, code_block, table

Report = Mapping[str, Any]

REPORT_NAME = "build_report.json"
_SHOWN_FILES = 20
_EXAMPLE_CHARACTERS = 200
_EXAMPLE_ITEMS = 3


def dataset_card(
    builder: type[EventDatasetBuilder],
    reports: Mapping[str, Report],
    first_rows: Mapping[str, Mapping[str, Any]],
) -> str:
    """Write the README for the configs of a folder.

    Args:
        reports: the build report by config.
        first_rows: the first row of each config, shown only if every source is openly licensed.
    """
    configs = sorted(reports, key=config_names(builder).index)
    licenses = sorted({name for config in configs for name in reports[config]["licenses"]})
    samples = any(reports[config]["sample"] for config in configs)
    # Only some builders record the languages of their rows.
    stated = [
        counts["statistics"].get("languages") or []
        for report in reports.values()
        for counts in report["splits"].values()
    ]
    languages = sorted({str(name) for names in stated for name in names})
    front = {
        **_dataset_info(builder, [reports[config] for config in configs]),
        "configs": [
            {
                "config_name": config,
                **({"default": True} if position == 0 else {}),
                "data_files": [
                    {"split": split, "path": f"{config}/{split}-*.parquet"}
                    for split in reports[config]["splits"]
                ],
            }
            for position, config in enumerate(configs)
        ],
        "license": hub_licenses(licenses),
        "task_categories": list(builder.TASK_CATEGORIES),
        "size_categories": [_SIZE_CATEGORIES[bisect(_SIZES, sum(reports[one]["rows"] for one in configs))]],
        "tags": ["eventformers", "events", *(["sample"] if samples else [])],
        "language": languages or ["en"],
        "pretty_name": builder.TITLE + (" (samples)" if samples else ""),
    }
    first, *others = configs
    split = next(iter(reports[first]["splits"]))
    examples = {name: _example_lines(first_rows.get(name, {}), reports[name]["licenses"]) for name in configs}
    parts = [
        f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n",
        f"# {front['pretty_name']}\n",
        f"{builder.SUMMARY}\n",
    ]
    if samples:
        parts.append(
            "These rows are built from small samples for trials. They are not a benchmark: scores on them do"
            " not measure a model.\n"
        )
    parts += [
        "\n".join(examples[first]),
        code_block(
            "from datasets import load_dataset\n\n"
            f'rows = load_dataset("path/or/repository", "{first}", split="{split}")',
            "python",
        )
        + "\n",
        _config_section(builder, first, reports[first], []),
        *(_config_section(builder, config, reports[config], examples[config]) for config in others),
    ]
    parts.append(f"## Citation\n\n{builder.CITATION}\n")
    return "\n".join(parts)


def _dataset_info(builder: type[EventDatasetBuilder], reports: Iterable[Report]) -> dict[str, Any]:
    """Describe the columns and sizes of configs as `push_to_hub` does."""
    infos = DatasetInfosDict()
    for report in reports:
        config, splits = report["config"], report["splits"]
        # Reports of earlier versions lack the sizes.
        if all("num_bytes" in counts for counts in splits.values()):
            infos[config] = DatasetInfo(
                config_name=config,
                features=builder.features(config),
                splits=SplitDict(
                    {
                        split: SplitInfo(split, num_bytes=counts["num_bytes"], num_examples=counts["rows"])
                        for split, counts in splits.items()
                    }
                ),
                download_size=sum(counts["file_bytes"] for counts in splits.values()),
                dataset_size=sum(counts["num_bytes"] for counts in splits.values()),
            )
    card = DatasetCardData()
    infos.to_dataset_card_data(card)
    described: dict[str, Any] = card.to_dict()
    return described


_SIZES = [10**power for power in range(3, 13)]
_SIZE_NAMES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
_SIZE_CATEGORIES = ("n<1K", *(f"{low}<n<{high}" for low, high in pairwise(_SIZE_NAMES)), "n>1T")
"""The Hub's categories of numbers of rows."""


def read_front_matter(readme: Path) -> dict[str, Any]:
    """Read the YAML between the two `---` of a README; empty if there is none."""
    try:
        start, *_ = readme.read_text(encoding="utf-8").split("\n---", 1)
        if not start.startswith("---"):
            return {}
        front = parse_yaml(start.removeprefix("---"), readme, "the front matter of a dataset's card")
    except (OSError, UnicodeDecodeError, DataFormatError):
        return {}
    return front if isinstance(front, dict) else {}


def built_configs(folder: Path) -> dict[str, dict[str, Any]]:
    """Read the configs of a built dataset from its README, by name; empty if the README is something else."""
    entries = read_front_matter(folder / "README.md").get("configs")
    return {
        str(entry["config_name"]): entry
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and "config_name" in entry
    }


def _config_section(
    builder: type[EventDatasetBuilder], config: str, report: Report, example: list[str]
) -> str:
    splits = report["splits"]
    lines = [
        f"## {config}",
        "",
        *example,
        f"- columns: {', '.join(map(code, builder.features(config)))}",
        f"- settings: {_listed(report['settings']) or 'none'}",
    ]
    for split, counts in splits.items():
        label = f"- {cell(split)}: " if len(splits) > 1 else "- "
        lines.append(f"{label}rows: {counts['rows']:,}")
        lines.append(f"{label}fingerprint of the rows: `{counts['rows_fingerprint']}`")
        lines += [f"{label}{name}: {_listed(counts[name]) or 'none'}" for name in ("read", "skipped")]
        if counts["statistics"]:
            lines.append(f"{label}statistics: {_listed(counts['statistics'])}")
    files = report["raw_files"]
    lines += [
        f"- raw file: {code(item['name'])}, {item['bytes']:,} bytes, SHA-256 {code(item['sha256'])}"
        for item in files[:_SHOWN_FILES]
    ]
    if len(files) > _SHOWN_FILES:
        lines.append(f"- {len(files) - _SHOWN_FILES:,} more raw files, in `{config}/{REPORT_NAME}`")
    if (listed := report.get("malformed")) and listed["count"]:
        lines.append(f"- malformed parts left out: {listed['count']:,}, listed in `{config}/{REPORT_NAME}`")
        for part in listed["parts"][:_SHOWN_FILES]:
            line = f", line {part['line']:,}" if part["line"] is not None else ""
            lines.append(f"  - a {cell(part['whole'])} of {code(part['file'])}{line}")
    sources = report["sources"]
    kinds = list(dict.fromkeys(kind for kept in sources.values() for kind in kept if kind != "license"))
    rows = [
        [cell(name), cell(kept["license"]), *(f"{kept.get(kind, 0):,}" for kind in kinds)]
        for name, kept in sorted(sources.items())
    ]
    lines += ["", table(["source", "license", *map(cell, kinds)], rows)]
    return "\n".join(lines) + "\n"


def _example_lines(row: Mapping[str, Any], licenses: list[str]) -> list[str]:
    if not row or not licenses or not all(map(is_open, licenses)):
        return []
    example = json.dumps(_shortened(dict(row)), indent=2, ensure_ascii=False)
    return ["The first row, shortened:", "", code_block(example, "json"), ""]


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _EXAMPLE_CHARACTERS:
        return f"{value[:_EXAMPLE_CHARACTERS]}…"
    if isinstance(value, dict):
        return {name: _shortened(part) for name, part in value.items()}
    if isinstance(value, list):
        more = [f"… {len(value) - _EXAMPLE_ITEMS:,} more"] if len(value) > _EXAMPLE_ITEMS else []
        return [*map(_shortened, value[:_EXAMPLE_ITEMS]), *more]
    return value


def _listed(values: Mapping[str, object]) -> str:
    def text(value: object) -> str:
        if isinstance(value, list):
            return "[" + ", ".join(map(str, value)) + "]"
        if isinstance(value, int) and not isinstance(value, bool):
            return f"{value:,}"
        return "none" if value is None else str(value)

    return ", ".join(f"{cell(name)} {cell(text(value))}" for name, value in sorted(values.items()))
