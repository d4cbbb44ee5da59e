"""Shared parts of all dataset builders: raw files, settings, fingerprints and the build report."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, get_type_hints

import datasets
import pyarrow as pa
from datasets import List, Value
from datasets.builder import Key

from eventformers.datasets_scripts.events import EVENT_FEATURE
from eventformers.datasets_scripts.fingerprints import input_fingerprint
from eventformers.datasets_scripts.malformed import (
    MALFORMED_POLICIES,
    SkippedRows,
    check_malformed,
    malformed_parts,
    malformed_policy,
    malformed_text,
)
from eventformers.datasets_scripts.reading.lines import DataDir, raw_paths
from eventformers.datasets_scripts.reading.tables import (
    check_one_format,
    columns_of,
    first_record,
    is_table,
    table_fault,
)
from eventformers.errors import EventformersError, UnknownNameError, causes
from eventformers.files import packaged_yaml
from eventformers.strict import check_types

SAMPLES = Path(__file__).parent / "samples"
"""The bundled sample corpora, in the raw formats, one folder for each builder."""

_ROWS_PER_TABLE = 2_000
_IMPORT = re.compile(r"^\s*from (eventformers\.(?:datasets_scripts|models)\.[\w.]+) import ", re.MULTILINE)

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]

SAMPLE_ORIGIN = ("eventformers-samples", "Apache-2.0")
"""Source and licence of the rows of the samples."""

SourceCount = dict[str, str | int]
"""Report of one source: its `license`, and counts such as `documents` and `events`."""


class NoRowsError(EventformersError):
    """A split of a dataset has no rows."""


@dataclass
class BuildReport:
    """Report of what the build of a split read, skipped and kept.

    Args:
        read: counts of items in the raw files.
        skipped: counts of skipped items, by reason.
        sources: licence and counts of kept items, by source.
        statistics: further numbers of the builder.
    """

    read: Counter[str] = field(default_factory=Counter)
    skipped: SkippedRows = field(default_factory=SkippedRows)
    sources: dict[str, SourceCount] = field(default_factory=dict)
    statistics: dict[str, JsonValue] = field(default_factory=dict)

    def add_source(self, source: str, license_name: str, **counts: int) -> None:
        """Add counts of a source, such as its `documents`; a source with two licences has two entries."""
        name = source
        known = self.sources.get(name)
        if known is not None and known["license"] != license_name:
            name = f"{source} ({license_name})"
        kept = self.sources.setdefault(name, {"license": license_name})
        for kind, count in counts.items():
            kept[kind] = int(kept.get(kind, 0)) + count

    def add_sources(self, sources: Mapping[str, SourceCount]) -> None:
        """Add the sources of another report."""
        for name, kept in sources.items():
            counts = {kind: int(count) for kind, count in kept.items() if kind != "license"}
            self.add_source(name, str(kept["license"]), **counts)

    @property
    def licenses(self) -> list[str]:
        """The licences of the kept items, sorted."""
        return sorted({str(count["license"]) for count in self.sources.values()})

    @classmethod
    def total(cls, reports: Mapping[str, BuildReport]) -> BuildReport:
        """Add up the reports of several splits.

        Counts and sources are summed. Statistics are not counts: those of one split are kept as they are,
        those of several splits are nested under the split names.
        """
        total = cls()
        for split, report in reports.items():
            total.read.update(report.read)
            total.skipped.update(report.skipped)
            total.add_sources(report.sources)
            if len(reports) == 1:
                total.statistics.update(report.statistics)
            elif report.statistics:
                total.statistics[split] = report.statistics
        return total


@dataclass
class EventDatasetConfig(datasets.BuilderConfig):
    """The settings of every builder.

    Args:
        malformed: handling of malformed parts of the raw files: `error` raises an error for the first one;
            `skip` skips the smallest unit that contains it, and counts and lists it. A file that cannot be
            unpacked, is empty or has an unknown format is always an error.
    """

    malformed: str = MALFORMED_POLICIES[0]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_malformed(self.malformed)
        check_types(settings_of(self), get_type_hints(type(self), include_extras=True))


_BUILDERS: dict[str, dict[str, Any]] = packaged_yaml(__file__, "builders.yaml")
_FACTS = sorted(Path(__file__).parent.glob("*.yaml"))
"""What builders know beside their code, such as licences and templates: a change may change rows."""


class EventDatasetBuilder(datasets.ArrowBasedBuilder):
    """A dataset, built from raw files in their published formats.

    A subclass defines its configs, its raw files by split and the features, and yields the examples or tables
    of one split at a time. A config has only the splits that have raw files. The cache key covers the bytes
    of the raw files, the source code of the builder and the settings, so a changed file never returns cached
    rows.

    Args:
        config_name: one of the configs; None uses the default.
        data_dir: folder or file with the raw data, or several; None uses the bundled samples.
        cache_dir: folder for built rows; None uses the cache of `datasets`.
        **settings: fields of the config class; without `malformed`, the active policy applies.

    Raises:
        UnknownNameError: an unknown config or setting.
        EventformersError: there is no raw file for the config.
    """

    BUILDER_CONFIG_CLASS: ClassVar[type[EventDatasetConfig]] = EventDatasetConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]]
    config: EventDatasetConfig
    NAME: ClassVar[str]
    """Name of the builder in snake_case."""
    TITLE: ClassVar[str]
    """This and all below are in `builders.yaml`, where a table is a key of `columns.yaml`."""
    SUMMARY: ClassVar[str]
    """Description of the dataset in one or two sentences, for its card."""
    CITATION: ClassVar[str] = ""
    TASK_CATEGORIES: ClassVar[Sequence[str]]
    """The Hub's categories of tasks that the dataset serves."""
    SPLITS: ClassVar[Sequence[str]]
    """The possible splits of a config, in order."""
    SAMPLES_FOLDER: ClassVar[str]
    RAW_FILES: ClassVar[dict[str, str]]
    """The raw files of each config, described for messages and the card; the first config is the default."""
    FEATURES: ClassVar[dict[str, dict[str, Any]]]
    """The type of each column of each config."""
    TABLES: ClassVar[Mapping[str, Any]] = {}
    """The columns of CSV and Parquet files that are raw files, by their content."""
    UNDECIDING_SETTINGS: ClassVar[Mapping[str, Collection[str]]] = {}
    """By config, the settings that affect how rows are computed, but never which rows result; or their
    groups."""
    SETTING_GROUPS: ClassVar[Mapping[str, Sequence[str]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, value in _BUILDERS.get(cls.NAME, {}).items():
            setattr(cls, name.upper(), value)
        cls.TABLES = {content: columns_of(table) for content, table in cls.TABLES.items()}
        cls.BUILDER_CONFIGS = [cls.BUILDER_CONFIG_CLASS(name=name) for name in cls.RAW_FILES]
        cls.DEFAULT_CONFIG_NAME = cls.BUILDER_CONFIGS[0].name

    def __init__(
        self,
        config_name: str | None = None,
        data_dir: DataDir | None = None,
        cache_dir: str | Path | None = None,
        **settings: Any,
    ) -> None:
        config_name = config_name or str(self.DEFAULT_CONFIG_NAME)
        check_config(type(self), config_name)
        check_settings(type(self), settings)
        settings.setdefault("malformed", malformed_policy())
        paths = [SAMPLES / self.SAMPLES_FOLDER] if data_dir is None else raw_paths(data_dir)
        self.is_sample = all(path.is_relative_to(SAMPLES) for path in paths)
        self.split_files = self.find_raw_files(config_name, paths)
        unread = self.unread_text(self.find_unread_tables(paths))
        if not self.split_files:
            raise EventformersError(
                f"no raw file for {self.NAME}, config {config_name}, in {', '.join(map(str, paths))}"
                f"{unread}; accepted: {self.RAW_FILES[config_name]}"
            )
        if unread:
            warnings.warn(f"{self.NAME}, {', '.join(map(str, paths))}{unread}", stacklevel=2)
        config = self.BUILDER_CONFIG_CLASS(name=config_name, **settings)
        self.settings = settings_of(config)
        self.split_files = self.wanted_files(config, self.split_files)
        read = [path for files in self.split_files.values() for path in files]
        check_one_format(read)
        self.raw_files = list(dict.fromkeys([*read, *self.setting_files(config)]))
        deciding = {
            **self.deciding_settings(config_name),
            **self.facts_from_paths(config_name),
            "config": config_name,
            "sample": self.is_sample,
            "splits": {split: [path.name for path in files] for split, files in self.split_files.items()},
        }
        self.fingerprint = input_fingerprint([*self.raw_files, *_FACTS], self._modules(), deciding)
        self.split = next(iter(self.split_files))
        self.report = BuildReport(skipped=SkippedRows(config.malformed))
        self.reports: dict[str, BuildReport] = {}
        super().__init__(
            cache_dir=str(cache_dir) if cache_dir is not None else None,
            config_name=config_name,
            data_dir=os.pathsep.join(map(str, paths)),
            hash=self.fingerprint,
            **{name: value for name, value in self.settings.items() if name in settings},
        )
        # `datasets` takes None for a setting that is not given.
        for name in settings:
            setattr(self.config, name, self.settings[name])

    @classmethod
    def find_raw_files(cls, config_name: str, paths: list[Path]) -> dict[str, list[Path]]:
        """Find the raw files of a config among folders and files, by split in the order of `SPLITS`; empty if
        there are none."""
        raise NotImplementedError

    @classmethod
    def find_unread_tables(cls, paths: Iterable[Path]) -> list[Path]:
        """Find tables in folders that no config reads although most of their columns are known, such as one
        with a misspelt column; and tables whose columns cannot be read.

        Args:
            paths: folders and files.
        """
        tables = [
            item
            for path in paths
            if path.is_dir()
            for item in sorted(path.iterdir())
            if is_table(item) and item.is_file() and cls._may_be_meant(item)
        ]
        if not tables:
            return []
        read = {
            item
            for config in config_names(cls)
            for items in cls.find_raw_files(config, [*paths]).values()
            for item in items
        }
        return [item for item in tables if item not in read]

    @classmethod
    def _may_be_meant(cls, table: Path) -> bool:
        columns = first_record(table)
        return columns is None or 2 * len(cls._columns() & columns.keys()) >= len(columns)

    @classmethod
    def _columns(cls) -> set[str]:
        return {name for columns in cls.TABLES.values() for column in columns for name in column.names}

    @classmethod
    def unread_text(cls, tables: Sequence[Path]) -> str:
        """Describe unread tables, to follow other text; empty for none."""
        known = cls._columns()
        found = "; ".join(table_fault(table, known) for table in tables)
        return f" (not read: {found})" if tables else ""

    @classmethod
    def wanted_splits(cls, config: datasets.BuilderConfig) -> tuple[str, ...]:
        """The splits that the settings select, of those with raw files."""
        return tuple(cls.SPLITS)

    @classmethod
    def wanted_files(
        cls, config: datasets.BuilderConfig, split_files: dict[str, list[Path]]
    ) -> dict[str, list[Path]]:
        """The raw files that the settings select, by split."""
        wanted = cls.wanted_splits(config)
        return {split: files for split, files in split_files.items() if split in wanted}

    @classmethod
    def setting_files(cls, config: datasets.BuilderConfig) -> list[Path]:
        """Files that are named in a setting and affect the rows."""
        return []

    @classmethod
    def features(cls, config_name: str) -> datasets.Features:
        """The columns of a config."""

        def feature(kind: Any) -> Any:
            if isinstance(kind, dict):
                return {name: feature(part) for name, part in kind.items()}
            if isinstance(kind, list):
                return List(feature(kind[0]))
            return EVENT_FEATURE if kind == "event" else Value(kind)

        return datasets.Features(feature(cls.FEATURES[config_name]))

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of `self.split` as tables and fill `self.report`. A builder implements either this
        or `examples`."""
        schema = self.features(self.config.name).arrow_schema
        examples = self.examples()
        while rows := list(islice(examples, _ROWS_PER_TABLE)):
            yield pa.Table.from_pylist(rows, schema=schema)

    def examples(self) -> Iterator[Mapping[str, object]]:
        """Yield the rows of `self.split` one by one and fill `self.report`."""
        raise NotImplementedError

    def accepted_when_empty(self) -> str:
        """What a split without rows needs, for the error message."""
        return "at least one"

    def facts_from_paths(self, config_name: str) -> dict[str, object]:
        """Facts that a build derives from the paths of its raw files, besides their names and bytes."""
        return {}

    def deciding_settings(self, config_name: str | None = None) -> dict[str, object]:
        """The settings that affect the rows of the config, as JSON values."""
        names = self.UNDECIDING_SETTINGS.get(config_name or self.config.name, ())
        undeciding = {one for name in names for one in self.SETTING_GROUPS.get(name, (name,))}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self.settings.items()
            if name not in undeciding
        }

    def download_and_prepare(self, *arguments: object, **options: object) -> None:
        """Build as `datasets` does, but raise faults of raw files or disk directly.

        Raises:
            EventformersError: a raw file cannot be read, or the rows cannot be written.
        """
        try:
            with malformed_parts(self.config.malformed):
                super().download_and_prepare(*arguments, **options)
            return
        except (datasets.exceptions.DatasetGenerationError, OSError) as error:
            faults = [cause for cause in causes(error) if isinstance(cause, (EventformersError, OSError))]
            fault = faults[0] if faults else error
        # Raised outside the handler, where the error of `datasets` would become the context of its own cause.
        raise write_error(self.NAME, fault) if isinstance(fault, OSError) else fault

    @classmethod
    @cache
    def _modules(cls) -> frozenset[ModuleType]:
        """The modules of the builder and those of this folder and of `models` that they import, whose code
        affects rows."""
        pending = [kind.__module__ for kind in cls.__mro__ if issubclass(kind, EventDatasetBuilder)]
        found: set[ModuleType] = set()
        while pending:
            module = import_module(pending.pop())
            if module not in found:
                found.add(module)
                pending += _IMPORT.findall(inspect.getsource(module))
        return frozenset(found)

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(
            description=self.SUMMARY,
            citation=self.CITATION,
            features=self.features(self.config.name),
        )

    def _split_generators(self, dl_manager: object) -> list[datasets.SplitGenerator]:
        return [
            datasets.SplitGenerator(name=split, gen_kwargs={"split": split}) for split in self.split_files
        ]

    def _generate_tables(self, split: str) -> Iterator[tuple[Key, pa.Table]]:
        self.split = split
        self.report = self.reports[split] = BuildReport(skipped=SkippedRows(self.config.malformed))
        schema = self.features(self.config.name).arrow_schema
        empty = True
        for number, table in enumerate(self.tables()):
            empty = empty and not table.num_rows
            yield Key(0, number), table.cast(schema)
        if empty:
            skipped = self.report.skipped
            reasons = [f"{count} {reason}" for reason, count in sorted(skipped.items())]
            if skipped.num_malformed:
                reasons.append(malformed_text(skipped.to_dict()))
            names = ", ".join(path.name for path in self.split_files[split])
            raise NoRowsError(
                f"{self.NAME}, config {self.config.name}, split {split}: no rows left from"
                f" {names} (skipped: {', '.join(reasons) or 'nothing'});"
                f" accepted: {self.accepted_when_empty()}"
            )


def write_error(what: str, error: OSError) -> EventformersError:
    """Describe in one line a write that the system refused, for example on a full disk."""
    where = f" {error.filename}" if error.filename and error.filename != what else ""
    return EventformersError(f"cannot write {what}{where}: {error.strerror or error}")


def settings_of(config: datasets.BuilderConfig) -> dict[str, object]:
    """The fields that a config class adds to those of all builders, with their values."""
    return {name: getattr(config, name) for name in setting_names(type(config))}


def setting_names(config_class: type[datasets.BuilderConfig]) -> list[str]:
    """The names of the settings that a config class adds to those of all builders."""
    common = {item.name for item in dataclasses.fields(datasets.BuilderConfig)}
    return [item.name for item in dataclasses.fields(config_class) if item.name not in common]


def config_names(builder: type[EventDatasetBuilder]) -> list[str]:
    """The configs of a builder, the default one first."""
    return [config.name for config in builder.BUILDER_CONFIGS]


def check_config(builder: type[EventDatasetBuilder], name: str) -> None:
    """Raise `UnknownNameError` for a config that the builder does not have."""
    if name not in config_names(builder):
        raise UnknownNameError(f"config of {builder.NAME}", name, config_names(builder))


def check_settings(builder: type[EventDatasetBuilder], names: Iterable[str]) -> None:
    """Raise `UnknownNameError` for a setting that the builder does not have."""
    known = setting_names(builder.BUILDER_CONFIG_CLASS)
    for name in names:
        if name not in known:
            raise UnknownNameError(f"setting of {builder.NAME}", name, known or ["(none)"])


def name_list(setting: str, value: str | Iterable[str]) -> tuple[str, ...]:
    """Parse a setting that lists names, as a list or as one text with commas, into sorted distinct names.

    Raises:
        EventformersError: it is neither.
    """
    parts = value.split(",") if isinstance(value, str) else value
    names = list(parts) if isinstance(parts, Iterable) else [parts]
    for name in names:
        if not isinstance(name, str):
            # YAML reads `no`, the code of Norwegian, as false.
            raise EventformersError(
                f"setting {setting}: found {name!r}; accepted: names, in quotes if YAML would read them as "
                "something else"
            )
    return tuple(sorted({name.strip() for name in names if name.strip()}))


def check_shares(validation_share: float, test_share: float) -> None:
    """Raise `EventformersError` for split shares that exceed 1 in sum."""
    if validation_share + test_share > 1:
        raise EventformersError(
            f"settings validation_share and test_share: found {validation_share} and {test_share};"
            " accepted: a sum of at most 1"
        )
