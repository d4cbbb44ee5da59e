"""Builder of commonsense graphs, with the readers of their raw files: triples of ConceptNet and ATOMIC, and
their premises and alternatives."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

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
from eventformers.datasets_scripts.licenses import UNSPECIFIED
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.fields import Record, check_keys
from eventformers.datasets_scripts.reading.lines import format_suffix, parse_json, read_lines, unpacked_name
from eventformers.datasets_scripts.reading.tables import (
    columns_of,
    csv_file_rows,
    first_record,
    may_hold,
    read_records,
)
from eventformers.datasets_scripts.relation_templates import (
    DIRECTIONS,
    OTHER_RELATIONS,
    RelationTemplates,
    relation_templates,
)
from eventformers.errors import DataFormatError, EventformersError, counted, shown
from eventformers.files import cached_by_file, packaged_yaml

Triple = tuple[str, str, str]
"""Head, relation and tail."""

ATOMIC_2020_RELATIONS = frozenset(packaged_yaml(__file__, "words.yaml")["atomic_2020"].split())
"""The relations of ATOMIC-2020 that ATOMIC does not have."""

_FAMILIES: tuple[dict[str, tuple[str, ...]], ...] = (
    {"train": ("train.txt",), "validation": ("valid.txt",), "test": ("test.txt",)},
    {"train": ("train.tsv",), "validation": ("dev.tsv", "valid.tsv"), "test": ("test.tsv",)},
    {"train": ("train100k.txt",), "validation": ("dev1.txt", "dev2.txt"), "test": ("test.txt",)},
)
"""File names by split, as in InductivE, ATOMIC-2020 and the first release of CN-100K."""
_TABLE_FAMILIES: tuple[dict[str, tuple[str, ...]], ...] = tuple(
    {
        "train": (f"train{suffix}",),
        "validation": (f"valid{suffix}", f"dev{suffix}"),
        "test": (f"test{suffix}",),
    }
    for suffix in (".csv", ".parquet")
)
_TABLE_NAMES = {name for family in _TABLE_FAMILIES for names in family.values() for name in names}
TRIPLE_COLUMNS = columns_of("triples")
"""Columns of a table of triples."""
_TRIPLE_NAMES = tuple(column.name for column in TRIPLE_COLUMNS)
_CSV_OF_ALL_SPLITS = "v4_atomic_all.csv"
_CSV_SPLITS = {"train": "trn", "validation": "dev", "test": "tst"}
_CSV_FRAME = ("event", "prefix", "split")
_ACCEPTED_CSV = "event first, one column for each relation with JSON lists, split last"
_COLUMNS = {
    "conceptnet": ("relation", "head", "tail"),
    "atomic": ("head", "relation", "tail"),
}


def graph_files(folder: Path) -> list[Path]:
    """Return the files of a folder without tables that hold other data, such as questions."""

    def is_other(path: Path) -> bool:
        is_csv = format_suffix(path) == ".csv"
        columns = _TRIPLE_NAMES if _is_triple_table(path) else _CSV_FRAME if is_csv else ()
        return bool(columns) and not may_hold(path, columns)

    return [path for path in folder.iterdir() if path.is_file() and not is_other(path)]


def split_files(graph: str, files: Iterable[Path]) -> dict[str, list[Path]]:
    """Assign the files of a graph to splits by their names; the most complete naming scheme wins, and others
    give the splits that it lacks.

    Args:
        graph: "conceptnet" or "atomic".
        files: the files of one folder, or those given directly.

    Returns:
        The files of each split; empty if the columns are those of the other graph.

    Raises:
        EventformersError: two files have one name, such as a plain and a compressed one.
    """
    by_name: dict[str, Path] = {}
    for path in sorted(files):
        if (other := by_name.setdefault(unpacked_name(path), path)) != path:
            raise EventformersError(
                f"found {other} and {path}, which are one file by name; accepted: one of them"
            )
    families = [
        {split: [by_name[name] for name in names if name in by_name] for split, names in family.items()}
        for family in (*_FAMILIES, *_TABLE_FAMILIES)
    ]
    if graph == "atomic":
        of_csv = {
            split: [by_name[name]]
            for split, short in _CSV_SPLITS.items()
            if (name := f"v4_atomic_{short}.csv") in by_name
        }
        own = [path for name, path in by_name.items() if name.endswith(".csv") and name not in _TABLE_NAMES]
        whole = by_name.get(_CSV_OF_ALL_SPLITS) or (own[0] if len(by_name) == len(own) == 1 else None)
        if whole is not None and not of_csv:
            of_csv = {split: [whole] for split in _splits_of_csv(whole)}
        families.append(of_csv)
    families.sort(key=lambda family: -sum(map(bool, family.values())))
    of_split = {split: next((one[split] for one in families if one.get(split)), []) for split in SPLITS}
    found = {split: paths for split, paths in of_split.items() if paths}
    if any(_is_of_other_graph(paths[0], graph) for paths in found.values()):
        return {}
    return found


def read_triples(
    files: Iterable[Path],
    graph: str,
    split: str,
    templates: RelationTemplates,
    read: Counter[str],
    skipped: SkippedRows,
    read_before: Collection[Path] = (),
) -> Iterator[Triple]:
    """Read the triples of a split in the order of its files.

    Repeated triples of the split are counted and kept, as in the published counts. Skipped and counted are
    rows with an empty head or tail; triples whose fourth column is 0 (false ones of CN-100K); the tail `none`
    of ATOMIC's csv and of ATOMIC-2020; and the relations that only ATOMIC-2020 has, unless they have a
    template.

    Args:
        graph: "conceptnet" or "atomic".
        split: the rows to read from a csv that contains all splits.
        read: counts of what is read; added to.
        skipped: counts of skipped rows, added to, and policy for malformed rows.
        read_before: files of which an earlier split reads rows, too. Lines of no split, such as blank lines,
            are counted with the earlier split.

    Raises:
        DataFormatError: a wrong number of columns, an unknown relation, a confidence that is not a number of
            at least 0, or a cell of a csv that is not a JSON list of texts; names file and line.
    """
    # 64-bit hashes save memory; among a million triples a collision is very unlikely.
    seen: set[int] = set()
    for path in files:
        is_table = _is_triple_table(path)
        is_csv = format_suffix(path) == ".csv" and not is_table
        is_2020 = format_suffix(path) == ".tsv" and graph == "atomic"
        known = {*templates.relations, *(ATOMIC_2020_RELATIONS if is_2020 else ())}
        if is_table:

            def of_record(row: Record, known: Collection[str] = known) -> Triple:
                head, relation, tail = map(row.text, _TRIPLE_NAMES)
                _check_relation(relation, known, row.path, row.line)
                return head, relation, tail

            triples = read_records(path, skipped, TRIPLE_COLUMNS, "", of_record, row_is_line=True)
        elif is_csv:
            shared = skipped.uncounted() if path in read_before else skipped
            triples = _csv_triples(path, split, known, skipped, shared)
        else:
            triples = _tab_triples(path, graph, known, skipped)
        for head, relation, tail in triples:
            read["triples"] += 1
            if relation not in templates:
                skipped[f"relation_without_template_{relation}"] += 1
                continue
            if not head.strip():
                skipped["empty_head"] += 1
                continue
            if not tail.strip():
                skipped["empty_tail"] += 1
                continue
            if tail == "none" and (is_csv or is_2020):
                skipped["tail_none"] += 1
                continue
            triple = (templates.text(head), relation, templates.text(tail))
            if (digest := hash(triple)) in seen:
                read["duplicate_triples"] += 1
            seen.add(digest)
            yield triple


@cached_by_file
def _splits_of_csv(path: Path) -> tuple[str, ...]:
    """The splits named in the rows of a csv; all if unreadable, so that the reader reports the fault."""
    try:
        # Malformed rows name no split; the reader of the file reports them.
        names = {cells[_CSV_FRAME[-1]] for _, cells in _csv_rows(path, SkippedRows("skip"))}
    except EventformersError:
        return SPLITS
    return tuple(split for split, short in _CSV_SPLITS.items() if short in names) or SPLITS


def _is_of_other_graph(path: Path, graph: str) -> bool:
    """True if the first row fits the columns of the other graph and has one of its relations."""
    other = "atomic" if graph == "conceptnet" else "conceptnet"
    if _is_triple_table(path):
        rows = read_records(path, SkippedRows("skip"), TRIPLE_COLUMNS, "", lambda row: row.get("relation"))
        with suppress(EventformersError):
            relation = str(next(rows, ""))
            return relation in relation_templates(other) and relation not in relation_templates(graph)
        return False
    if format_suffix(path) == ".csv":
        return False
    try:
        fields = next((text.split("\t") for _, text in read_lines(path) if text.strip()), [])
    except EventformersError:
        return False
    column = _COLUMNS[other].index("relation")
    return len(fields) > column and fields[column] in relation_templates(other)


def _is_triple_table(path: Path) -> bool:
    """True for a table with a header; a `.tsv` without one is in the format of ATOMIC-2020."""
    if unpacked_name(path) in _TABLE_NAMES:
        return True
    return format_suffix(path) == ".tsv" and not {*_TRIPLE_NAMES}.isdisjoint(first_record(path) or ())


def _tab_triples(path: Path, graph: str, known: Collection[str], skipped: SkippedRows) -> Iterator[Triple]:
    columns = _COLUMNS[graph]
    is_conceptnet = graph == "conceptnet"
    accepted = f"{', '.join(columns)}, separated by tabs"
    if is_conceptnet:
        accepted += ", and optionally a confidence"

    def triple(line: int, text: str) -> Triple | None:
        if not text.strip() and "\t" not in text:
            skipped["blank_line"] += 1
            return None
        fields = text.split("\t")
        if len(fields) != 3 and not (is_conceptnet and len(fields) == 4):
            raise DataFormatError(path, line, counted(len(fields), "column"), accepted)
        head, relation, tail = (fields[columns.index(name)] for name in _COLUMNS["atomic"])
        if len(fields) == 4:
            try:
                confidence = float(fields[3])
            except ValueError:
                confidence = math.nan
            if not 0 <= confidence < math.inf:
                found = f"the confidence {shown(fields[3])}"
                raise DataFormatError(
                    path, line, found, "a number of at least 0, where 0 marks a false triple"
                )
            if confidence == 0:
                skipped["triple_labelled_false"] += 1
                return None
        _check_relation(relation, known, path, line)
        return head, relation, tail

    found = skipped.parsed_rows(read_lines(path, skipped), triple)
    return (one for one in found if one is not None)


def _check_relation(relation: str, known: Collection[str], path: Path, line: int) -> None:
    if relation not in known:
        raise DataFormatError(
            path, line, f"the relation {shown(relation)}", f"{', '.join(sorted(known))}{OTHER_RELATIONS}"
        )


def _csv_triples(
    path: Path, split: str, known: Collection[str], skipped: SkippedRows, shared: SkippedRows
) -> Iterator[Triple]:
    """Yield a triple for each item of each list in the rows of a split; `shared` counts rows of no split."""

    def triples(line: int, cells: Mapping[str, str]) -> list[Triple]:
        found = []
        for relation, cell in cells.items():
            if relation not in known:
                continue
            accepted, tails = "a JSON list of texts", None
            with suppress(DataFormatError):
                tails = parse_json(cell, path, line, accepted)
            if not isinstance(tails, list) or not all(isinstance(tail, str) for tail in tails):
                raise DataFormatError(path, line, f"{shown(cell)} in the column {relation}", accepted)
            found += [(cells[_CSV_FRAME[0]], relation, tail.strip()) for tail in tails]
        return found

    rows = _csv_rows(path, shared, known)
    of_split = (row for row in rows if row[1][_CSV_FRAME[-1]] == _CSV_SPLITS[split])
    for found in skipped.parsed_rows(of_split, triples):
        yield from found


def _csv_rows(
    path: Path, skipped: SkippedRows, known: Collection[str] | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Read the rows of an ATOMIC csv, one per line; with known relations, misspelt ones are refused."""

    def header(names: Sequence[str], path: Path) -> Collection[str]:
        if not names:
            raise DataFormatError(path, None, "only blank lines", _ACCEPTED_CSV)
        if len(names) < 3 or names[0] != _CSV_FRAME[0] or names[-1] != _CSV_FRAME[-1]:
            raise DataFormatError(path, 1, f"the columns {shown(', '.join(names))}", _ACCEPTED_CSV)
        if len(set(names)) < len(names):
            found = f"a column twice in {shown(', '.join(names))}"
            raise DataFormatError(path, 1, found, "each column once")
        if known is not None:
            check_keys(dict.fromkeys(names), {*_CSV_FRAME, *known}, path, 1, what="column")
        return names

    def row(line: int, cells: dict[str, str]) -> tuple[int, dict[str, str]]:
        if (stated := cells[_CSV_FRAME[-1]]) not in _CSV_SPLITS.values():
            raise DataFormatError(path, line, f"the split {shown(stated)}", ", ".join(_CSV_SPLITS.values()))
        return line, cells

    rows = csv_file_rows(path, skipped, header, row="row", row_is_line=True)
    return skipped.parsed_rows(rows, row)


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
