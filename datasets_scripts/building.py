"""Building of datasets into folders for `load_dataset`."""

from __future__ import annotations

import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TypedDict

import datasets
import pyarrow.parquet as pq

from eventformers.datasets_scripts.base import (
    SAMPLES,
    BuildReport,
    EventDatasetBuilder,
    NoRowsError,
    check_config,
    check_settings,
    config_names,
    setting_names,
    write_error,
)
from eventformers.datasets_scripts.commonsense_graphs import CommonsenseGraphs
from eventformers.datasets_scripts.commonsense_qa import CommonsenseQA
from eventformers.datasets_scripts.dataset_card import REPORT_NAME, dataset_card
from eventformers.datasets_scripts.event_chains import EventChains
from eventformers.datasets_scripts.event_coreference import EventCoreference
from eventformers.datasets_scripts.event_hierarchies import EventHierarchies
from eventformers.datasets_scripts.event_similarity import EventSimilarity
from eventformers.datasets_scripts.event_types import EventTypes
from eventformers.datasets_scripts.fingerprints import joint_fingerprint, parquet_fingerprint
from eventformers.datasets_scripts.malformed import warn_of_malformed
from eventformers.datasets_scripts.reading.lines import DataDir, raw_paths, read_json_object
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.files import file_digest, output_folder, staged_folder

BUILDERS: dict[str, type[EventDatasetBuilder]] = {
    builder.NAME: builder
    for builder in (
        EventSimilarity,
        EventChains,
        EventTypes,
        EventHierarchies,
        CommonsenseGraphs,
        CommonsenseQA,
        EventCoreference,
    )
}
"""The dataset builders by their snake_case names."""

Reports = Mapping[str, Mapping[str, Any]]
"""The build reports of a folder by config."""

_README = "README.md"


class DatasetEntry(TypedDict):
    """A config of a builder, as an entry of `list_datasets`."""

    name: str
    config: str
    columns: list[str]
    splits: list[str]
    raw_files: str
    settings: list[str]


def list_datasets() -> list[DatasetEntry]:
    """List every config of every builder with its columns, its possible splits, its raw files and the
    settings of its builder."""
    return [
        {
            "name": name,
            "config": config.name,
            "columns": list(builder.features(config.name)),
            "splits": list(builder.wanted_splits(config)),
            "raw_files": builder.RAW_FILES[config.name],
            "settings": setting_names(builder.BUILDER_CONFIG_CLASS),
        }
        for name, builder in sorted(BUILDERS.items())
        for config in builder.BUILDER_CONFIGS
    ]


def build_dataset(
    name: str,
    config: str | Sequence[str] | None = None,
    data_dir: DataDir | None = None,
    output: str | Path | None = None,
    *,
    more_files: Callable[[Reports], Mapping[str, str]] | None = None,
    **settings: object,
) -> Path:
    """Build a dataset into a folder: `<config>/<split>-00000-of-00001.parquet`, a report per config, a
    README.

    A config gets the splits that have raw files. All configs are moved into place together when the last one
    is complete; existing files stay until then. A folder can collect several configs of one builder. For
    arguments that are not listed and for errors see `eventformers.build_dataset`.

    Args:
        name: a key of `BUILDERS`.
        output: folder to write; None uses a folder in the cache of `datasets` that is named by the
            fingerprint, and builds only what is missing.
        more_files: function from the reports of all configs in the folder to further text files besides the
            README, by name.

    Returns:
        The folder.
    """
    if name not in BUILDERS:
        raise UnknownNameError("dataset", name, BUILDERS)
    builder_class = BUILDERS[name]
    check_settings(builder_class, settings)
    named = list(dict.fromkeys([config] if isinstance(config, str) else config or ()))
    for one in named:
        check_config(builder_class, one)
    wanted = named or _feedable(builder_class, data_dir)
    with tempfile.TemporaryDirectory(prefix="eventformers-") as scratch:
        builders = [builder_class(one, data_dir=data_dir, cache_dir=scratch, **settings) for one in wanted]
        if output is not None:
            folder = Path(output)
        else:
            joined = sha256(" ".join(builder.fingerprint for builder in builders).encode()).hexdigest()
            root = Path(datasets.config.HF_DATASETS_CACHE).expanduser()
            folder = root / "eventformers" / name / joined[:16]
        try:
            with output_folder(folder, wait=output is None):
                missing = builders
                if output is not None:
                    _check_target(builder_class, folder)
                else:
                    built = build_reports(folder)
                    missing = [one for one in builders if one.config.name not in built]
                try:
                    if missing:
                        _build(missing, folder, more_files, skips_empty=not named)
                except NoRowsError as error:
                    if named or len(missing) == len(builders):
                        raise
                    warnings.warn(f"left out: {error}", stacklevel=2)
        except OSError as error:
            raise write_error(str(folder), error) from error
    # Also of builds read from the cache.
    for one, report in build_reports(folder).items():
        if one in wanted and isinstance(listed := report.get("malformed"), dict):
            warn_of_malformed(listed, one)
    return folder


def build_reports(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Read the build reports of a built folder, by config; empty if there are none."""
    return {
        path.parent.name: read_json_object(path, "a build report")
        for path in sorted(Path(folder).glob(f"*/{REPORT_NAME}"))
        if not path.parent.name.startswith(".")
    }


def builder_of_config(config: str) -> str:
    """Find the key of the only builder with a config of this name."""
    names = [name for name, builder in BUILDERS.items() if config in config_names(builder)]
    if not names:
        known = [one for builder in BUILDERS.values() for one in config_names(builder)]
        raise UnknownNameError("config", config, known)
    if len(names) > 1:
        raise EventformersError(f"config {config} is in several builders; name one of {', '.join(names)}")
    return names[0]


def _feedable(builder: type[EventDatasetBuilder], data_dir: DataDir | None) -> list[str]:
    paths = [SAMPLES / builder.SAMPLES_FOLDER] if data_dir is None else raw_paths(data_dir)
    found = [config for config in config_names(builder) if builder.find_raw_files(config, paths)]
    if not found:
        accepted = "; ".join(dict.fromkeys(builder.RAW_FILES.values()))
        raise EventformersError(
            f"no raw file for {builder.NAME} in {', '.join(map(str, paths))}"
            f"{builder.unread_text(builder.find_unread_tables(paths))}; accepted: {accepted}"
        )
    return found


def _check_target(builder: type[EventDatasetBuilder], folder: Path) -> None:
    """Raise an error if the folder has data of another builder, or a README that we did not write."""
    reports = build_reports(folder)
    others = {report["builder"] for report in reports.values()} - {builder.NAME}
    if others:
        raise EventformersError(
            f"{folder} has {', '.join(sorted(others))}; accepted for {builder.NAME}: a separate folder"
        )
    readme = folder / _README
    if readme.exists() and not reports:
        raise EventformersError(
            f"{readme} was not written by eventformers; accepted: a folder without a README"
        )


def _build(
    builders: list[EventDatasetBuilder],
    folder: Path,
    more_files: Callable[[Reports], Mapping[str, str]] | None,
    *,
    skips_empty: bool,
) -> None:
    """Write the configs and move them into place together.

    Args:
        more_files: see `build_dataset`.
        skips_empty: skip a config without rows if there are several.
    """
    empty: list[NoRowsError] = []
    built: list[str] = []
    with staged_folder(folder, replaced=built, last=(_README,)) as staging:
        for builder in builders:
            try:
                _build_config(builder, staging)
            except NoRowsError as error:
                empty.append(error)
                if not skips_empty or len(empty) == len(builders):
                    raise
                warnings.warn(f"left out: {error}", stacklevel=3)
            else:
                built.append(builder.config.name)
        reports = {**build_reports(folder), **build_reports(staging)}
        first_rows: dict[str, dict[str, Any]] = {}
        for config, report in reports.items():
            place = (staging if config in built else folder) / config
            first = next(place.glob(f"{next(iter(report['splits']))}-*.parquet"), None)
            if first is not None:
                with pq.ParquetFile(first) as file:
                    first_rows[config] = next(file.iter_batches(batch_size=1)).to_pylist()[0]
        texts = {_README: dataset_card(type(builders[0]), reports, first_rows)}
        texts |= more_files(reports) if more_files is not None else {}
        for name, text in texts.items():
            (staging / name).write_text(text, encoding="utf-8")


def _build_config(builder: EventDatasetBuilder, staging: Path) -> None:
    """Write one config, or nothing if it has no rows."""
    written = staging.with_name(f"{builder.config.name}-written")
    started = time.perf_counter()
    builder.download_and_prepare(str(written), file_format="parquet", max_shard_size="100TB")
    ready = staging / builder.config.name
    ready.mkdir()
    splits: dict[str, dict[str, Any]] = {}
    for split, split_report in builder.reports.items():
        path = ready / f"{split}-00000-of-00001.parquet"
        os.replace(next(written.glob(f"*-{split}.parquet")), path)
        splits[split] = {
            "rows": pq.read_metadata(path).num_rows,
            "rows_fingerprint": parquet_fingerprint(path),
            "num_bytes": builder.info.splits[split].num_bytes,
            "file_bytes": path.stat().st_size,
            "read": dict(sorted(split_report.read.items())),
            "skipped": dict(sorted(split_report.skipped.items())),
            "statistics": split_report.statistics,
        }
    total = BuildReport.total(builder.reports)
    digests = {split: counts["rows_fingerprint"] for split, counts in splits.items()}
    report = {
        "builder": builder.NAME,
        "config": builder.config.name,
        "sample": builder.is_sample,
        "fingerprint": builder.fingerprint,
        "rows_fingerprint": next(iter(digests.values())) if len(digests) == 1 else joint_fingerprint(digests),
        "rows": sum(counts["rows"] for counts in splits.values()),
        "splits": splits,
        "settings": builder.deciding_settings(),
        "raw_files": [
            {"name": path.name, "bytes": path.stat().st_size, "sha256": file_digest(path)}
            for path in builder.raw_files
        ],
        "read": dict(sorted(total.read.items())),
        "skipped": dict(sorted(total.skipped.items())),
        "malformed": total.skipped.to_dict(),
        "sources": dict(sorted(total.sources.items())),
        "licenses": total.licenses,
        "statistics": total.statistics,
        "seconds": round(time.perf_counter() - started, 2),
    }
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    (ready / REPORT_NAME).write_text(text, encoding="utf-8")
