"""Builder of commonsense graphs: triples of ConceptNet and ATOMIC, and their premises and alternatives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import ClassVar

import datasets
import pyarrow as pa

from eventformers.datasets_scripts.base import (
    SAMPLE_ORIGIN,
    SAMPLES,
    EventDatasetBuilder,
    EventDatasetConfig,
    JsonValue,
)
from eventformers.datasets_scripts.document_splits import SPLITS
from eventformers.datasets_scripts.graph_readers import TRIPLE_COLUMNS, graph_files, read_triples, split_files
from eventformers.datasets_scripts.licenses import UNSPECIFIED
from eventformers.datasets_scripts.reading.tables import Column
from eventformers.datasets_scripts.relation_templates import DIRECTIONS, relation_templates
from eventformers.errors import EventformersError

_PAIRS = "_pairs"
_INDUCTIVE = "_inductive"
_INDUCTIVE_FOLDER = "-Ind"
GRAPHS: dict[str, tuple[str, ...]] = {
    "conceptnet": ("CN-82K", "CN-100K"),
    "conceptnet_inductive": ("CN-82K-Ind",),
    "atomic": ("ATOMIC", "atomic2020_data-feb2021"),
    "atomic_inductive": ("ATOMIC-Ind",),
}
"""The published folder names of each graph, in order of preference."""
_SOURCES = {"conceptnet": ("ConceptNet", "CC-BY-SA-4.0"), "atomic": ("ATOMIC", "CC-BY-4.0")}
_PUBLISHED_FILES = ("v4_atomic_", "train100k.")
"""Prefixes of file names that identify a published graph in any folder."""
_TRIPLES_PER_TABLE = 20_000


@dataclass
class CommonsenseGraphsConfig(EventDatasetConfig):
    """Settings of the wording of relations.

    Args:
        templates: YAML file with templates for more relations, or other templates for known relations
            (`eventformers.datasets_scripts.relation_templates.relation_templates` describes the format).
    """

    templates: str | None = None


@dataclass
class GraphCounts:
    """The counts of pairs of premise and alternative in Table 1 of MICO; sets hold hashes.

    Args:
        entities: the heads and tails.
        texts: number of premises and alternatives, each as often as it occurs.
        words: number of their words.
    """

    entities: set[int] = field(default_factory=set)
    relations: set[str] = field(default_factory=set)
    premises: set[int] = field(default_factory=set)
    texts: int = 0
    words: int = 0

    def add(self, triples: Iterable[Sequence[str]], pairs: Iterable[Sequence[str]]) -> None:
        """Add triples, and the pairs that they become."""
        for head, relation, tail in triples:
            self.entities.update((hash(head), hash(tail)))
            self.relations.add(relation)
        for pair in pairs:
            self.premises.add(hash(pair[0]))
            self.texts += len(pair)
            self.words += sum(len(text.split()) for text in pair)

    def statistics(self) -> dict[str, JsonValue]:
        """The columns of the table: the degree is the number of alternatives of a premise."""
        return {
            "entities": len(self.entities),
            "relations": len(self.relations),
            "average_degree": round(self.texts / 2 / len(self.premises), 2),
            "average_words": round(self.words / self.texts, 2),
        }


class CommonsenseGraphs(EventDatasetBuilder):
    """Triples of ConceptNet and ATOMIC (`head`, `relation`, `tail`), and in `_pairs` two rows for each.

    The rows of `_pairs` have `premise`, `alternative` and `direction`: first forward, which asks for the
    tail, then reverse, which asks for the head. Row i of the triples becomes rows 2 i and 2 i + 1.

    Raw files, by split, also with `.gz`:

    - ConceptNet: `train.txt`, `valid.txt`, `test.txt` with tab-separated relation, head and tail, optionally
      with a confidence (CN-82K, CN-100K of Malaviya et al.); `train100k.txt`, `dev1.txt` with `dev2.txt`,
      `test.txt` with relation, head, tail, and a confidence or a label (CN-100K of Li et al.). A triple with
      the label 0 is false; such triples are skipped and counted.
    - ATOMIC: the same names with head, relation and tail (InductivE); `v4_atomic_all.csv`, or
      `v4_atomic_trn.csv`, `v4_atomic_dev.csv` and `v4_atomic_tst.csv` (ATOMIC); `train.tsv`, `dev.tsv`,
      `test.tsv` (ATOMIC-2020, whose additional relations are skipped and counted unless `templates` has
      them). The csv files and ATOMIC-2020 mark an absent tail with `none`; such rows are skipped and counted.
    - Either: tables `train`, `valid` (or `dev`) and `test` with the columns head, relation and tail, `.csv`
      or `.parquet`.

    The files are in the given folder, in a subfolder with a published name (`CN-82K`, else `CN-100K`;
    `ATOMIC`), or given directly. Inductive configs read a folder whose name ends with `-Ind`, the others a
    folder whose name does not. If an inductive folder has no training file, the sibling folder without `-Ind`
    provides it, as in InductivE's CN-82K-Ind. The samples have only ATOMIC-Ind, which is also used for
    `atomic`.

    PersonX becomes John, PersonY becomes Tom, and the mark of a blank is removed. Rows with an empty head or
    tail are skipped and counted; duplicate triples are counted and kept, as in the published counts.
    """

    NAME = "commonsense_graphs"
    SPLITS = SPLITS
    SAMPLES_FOLDER = "commonsense"
    TABLES: ClassVar[Mapping[str, tuple[Column, ...]]] = {"triples": TRIPLE_COLUMNS}
    BUILDER_CONFIG_CLASS = CommonsenseGraphsConfig

    @classmethod
    def find_raw_files(cls, config_name: str, paths: list[Path]) -> dict[str, list[Path]]:
        """Find the files in the folders, else those given directly.

        Raises:
            EventformersError: two folders have files of one split.
        """
        name = config_name.removesuffix(_PAIRS)
        graph = name.removesuffix(_INDUCTIVE)
        is_inductive = name.endswith(_INDUCTIVE)
        found: dict[str, list[Path]] = {}
        for path in paths:
            if not path.is_dir():
                continue
            folders = [path / folder for folder in GRAPHS[name]]
            if path.name.endswith(_INDUCTIVE_FOLDER) == is_inductive:
                folders.append(path)
            files = next(filter(None, (_files_of_folder(graph, folder) for folder in folders)), {})
            for split in found.keys() & files:
                raise EventformersError(
                    f"found {found[split][0]} and {files[split][0]}, both the split {split} of {name}; "
                    "accepted: one of them"
                )
            found |= files
        if found:
            return found
        given = [path for path in paths if path.is_file()]
        if any(path.parent.name.endswith(_INDUCTIVE_FOLDER) for path in given) == is_inductive and (
            files := split_files(graph, given)
        ):
            return files
        if graph == "atomic" and not is_inductive and paths == [SAMPLES / cls.SAMPLES_FOLDER]:
            return cls.find_raw_files("atomic_inductive", paths)
        return {}

    @classmethod
    def setting_files(cls, config: datasets.BuilderConfig) -> list[Path]:
        """Return the file of templates and read it, so that its faults are reported before the build."""
        if config.templates is None:
            return []
        relation_templates(graph_of(config.name), config.templates)
        return [Path(config.templates).expanduser()]

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of `self.split` as tables and fill `self.report`.

        Raises:
            DataFormatError: a row of a raw file cannot be read; names file and line.
        """
        config, report = self.config, self.report
        graph = graph_of(config.name)
        templates = relation_templates(graph, config.templates)
        schema = self.features(config.name).arrow_schema
        source, license_name = self._source(graph, self.split)
        files = self.split_files[self.split]
        before = {path for split in self.reports if split != self.split for path in self.split_files[split]}
        counts = (report.read, report.skipped)
        triples = read_triples(files, graph, self.split, templates, *counts, before)
        # Of the split, and of all so far.
        of_split, of_all = GraphCounts(), self._of_all_splits
        while batch := list(islice(triples, _TRIPLES_PER_TABLE)):
            report.add_source(source, license_name, triples=len(batch))
            columns = [list(column) for column in zip(*batch, strict=True)]
            if config.name.endswith(_PAIRS):
                pairs = [templates.pair(*triple, direction) for triple in batch for direction in DIRECTIONS]
                of_split.add(batch, pairs)
                of_all.add(batch, pairs)
                columns = [list(column) for column in zip(*pairs, strict=True)]
                columns.append([*DIRECTIONS] * len(batch))
            yield pa.table(columns, schema=schema)
        if of_split.texts:
            report.statistics.update(of_split.statistics())
            if len(self.split_files) > 1 and self.split == [*self.split_files][-1]:
                joint = {f"{name}_in_all_splits": value for name, value in of_all.statistics().items()}
                report.statistics |= joint

    @cached_property
    def _of_all_splits(self) -> GraphCounts:
        return GraphCounts()

    def facts_from_paths(self, config_name: str) -> dict[str, object]:
        """The source and the licence of each split."""
        graph = graph_of(config_name)
        return {"sources": {split: list(self._source(graph, split)) for split in self.split_files}}

    def _source(self, graph: str, split: str) -> tuple[str, str]:
        """Source and licence of the triples of a split.

        A published graph is identified by the name of its folder or its files. Any other file is the user's
        own, with an unknown licence.
        """
        if self.is_sample:
            return SAMPLE_ORIGIN
        paths = self.split_files[split]
        folders = {folder for name, found in GRAPHS.items() if graph_of(name) == graph for folder in found}
        if all(path.parent.name in folders or path.name.startswith(_PUBLISHED_FILES) for path in paths):
            return _SOURCES[graph]
        return paths[0].parent.name, UNSPECIFIED


def graph_of(config_name: str) -> str:
    """Return the graph of a config, such as conceptnet for conceptnet_inductive_pairs."""
    return config_name.removesuffix(_PAIRS).removesuffix(_INDUCTIVE)


def _files_of_folder(graph: str, folder: Path) -> dict[str, list[Path]]:
    """Files of a graph in a folder by split; an inductive graph may use the training file of its sibling."""
    if not folder.is_dir():
        return {}
    files = split_files(graph, graph_files(folder))
    beside = folder.with_name(folder.name.removesuffix(_INDUCTIVE_FOLDER))
    if files and "train" not in files and beside != folder and beside.is_dir():
        trained = split_files(graph, graph_files(beside))
        if "train" in trained:
            files = {"train": trained["train"], **files}
    return files
