"""The raw files of commonsense graphs: which they are, and the triples in them."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.raw_files import read_lines
from eventformers.datasets_scripts.relation_templates import (
    RelationTemplates,
    accepted_relations,
    relation_templates,
)
from eventformers.errors import DataFormatError, EventformersError

Triple = tuple[str, str, str]
"""Head, relation and tail."""

SPLITS = ("train", "validation", "test")

ATOMIC_2020_RELATIONS = frozenset(
    {
        "AtLocation",
        "CapableOf",
        "Causes",
        "Desires",
        "HasProperty",
        "HasSubEvent",
        "HinderedBy",
        "MadeUpOf",
        "NotDesires",
        "ObjectUse",
        "isAfter",
        "isBefore",
        "isFilledBy",
        "xReason",
    }
)
"""The relations of ATOMIC-2020 that ATOMIC has not."""

_FAMILIES: tuple[dict[str, tuple[str, ...]], ...] = (
    {"train": ("train.txt",), "validation": ("valid.txt",), "test": ("test.txt",)},
    {"train": ("train.tsv",), "validation": ("dev.tsv",), "test": ("test.tsv",)},
    {"train": ("train100k.txt",), "validation": ("dev1.txt", "dev2.txt"), "test": ("test.txt",)},
)
"""File names by split, as InductivE, ATOMIC-2020 and the first release of CN-100K have them."""
_CSV_OF_ALL_SPLITS = "v4_atomic_all.csv"
_CSV_SPLITS = {"train": "trn", "validation": "dev", "test": "tst"}
_CSV_FRAME = ("event", "prefix", "split")
_COLUMNS = {
    "conceptnet": ("relation", "head", "tail"),
    "atomic": ("head", "relation", "tail"),
}


def split_files(graph: str, files: Iterable[Path]) -> dict[str, list[Path]]:
    """The files of a graph by split, known by their names; of several families of names the fullest one.

    Args:
        graph: "conceptnet" or "atomic".
        files: the files of one folder, or those that were given by themselves.

    Returns:
        The files of each split that has any; none where the columns are those of the other graph.
    """
    by_name = {path.name.removesuffix(".gz"): path for path in sorted(files)}
    families = [
        {split: [by_name[name] for name in names if name in by_name] for split, names in family.items()}
        for family in _FAMILIES
    ]
    if graph == "atomic":
        families.append(_csv_files(by_name))
    found = max(families, key=lambda family: sum(map(bool, family.values())))
    found = {split: paths for split, paths in found.items() if paths}
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
) -> Iterator[Triple]:
    """The triples of a split in the order of its files.

    A triple that occurs before in the split is counted and kept, as in the published counts. Left out and
    counted are rows with an empty head or tail; triples whose fourth column is 0 (false ones of CN-100K);
    from the csv of ATOMIC and from ATOMIC-2020 the tail `none` and, from the latter, the relations that
    ATOMIC has not, unless they have a template.

    Args:
        files: the files of the split.
        graph: "conceptnet" or "atomic".
        split: which rows to take of a csv that holds all splits.
        templates: the relations that are known.
        read: counts of what was read, to be filled.
        skipped: counts of what was left out, to be filled.

    Raises:
        DataFormatError: too few or too many columns, an unknown relation, a confidence that is no number, or
            a cell of a csv that is no JSON list of texts; with file and line.
    """
    # Hashes of 64 bits instead of texts: of a million triples, two differ in theirs all but surely.
    seen: set[int] = set()
    for path in files:
        is_csv, is_2020 = _suffix(path) == ".csv", _suffix(path) == ".tsv" and graph == "atomic"
        rows = _csv_rows(path, split) if is_csv else _tab_rows(path, graph, skipped)
        for line, head, relation, tail in rows:
            read["triples"] += 1
            if relation not in templates:
                if not is_2020 or relation not in ATOMIC_2020_RELATIONS:
                    raise DataFormatError(
                        path, line, f"the relation {relation!r}", accepted_relations(templates.relations)
                    )
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


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix


def _csv_files(by_name: Mapping[str, Path]) -> dict[str, list[Path]]:
    names = {split: f"v4_atomic_{short}.csv" for split, short in _CSV_SPLITS.items()}
    found = {split: [by_name[name]] for split, name in names.items() if name in by_name}
    single = [path for name, path in by_name.items() if name.endswith(".csv")]
    whole = by_name.get(_CSV_OF_ALL_SPLITS) or (single[0] if len(by_name) == len(single) == 1 else None)
    if whole is None or found:
        return found
    status = whole.stat()
    return {split: [whole] for split in _splits_of_csv(whole, status.st_size, status.st_mtime_ns)}


@lru_cache(maxsize=16)
def _splits_of_csv(path: Path, size: int, changed: int) -> tuple[str, ...]:
    """The splits that the rows of a csv name; all where it cannot be read, which reading tells."""
    try:
        names = {cells[-1] for _, cells in _csv_cells(path)}
    except EventformersError:
        return SPLITS
    return tuple(split for split, short in _CSV_SPLITS.items() if short in names) or SPLITS


def _is_of_other_graph(path: Path, graph: str) -> bool:
    """Whether the first row has a relation of the other graph where that graph has it."""
    if _suffix(path) == ".csv":
        return False
    other = "atomic" if graph == "conceptnet" else "conceptnet"
    try:
        fields = next((text.split("\t") for _, text in read_lines(path) if text.strip()), [])
    except EventformersError:
        return False
    column = _COLUMNS[other].index("relation")
    return len(fields) > column and fields[column] in relation_templates(other)


def _tab_rows(path: Path, graph: str, skipped: SkippedRows) -> Iterator[tuple[int, str, str, str]]:
    """Line, head, relation and tail of the rows of a tab-separated file."""
    is_conceptnet = graph == "conceptnet"
    accepted = f"{', '.join(_COLUMNS[graph])}, separated by tabs"
    if is_conceptnet:
        accepted += ", and a confidence or nothing"
    for line, text in read_lines(path):
        fields = text.split("\t")
        if len(fields) == 1 and not text.strip():
            skipped["blank_line"] += 1
            continue
        if len(fields) != 3 and not (is_conceptnet and len(fields) == 4):
            columns = "column" if len(fields) == 1 else "columns"
            raise DataFormatError(path, line, f"{len(fields)} {columns}", accepted)
        if len(fields) == 4 and _confidence(fields[3], path, line) == 0:
            skipped["triple_labelled_false"] += 1
            continue
        if is_conceptnet:
            yield line, fields[1], fields[0], fields[2]
        else:
            yield line, fields[0], fields[1], fields[2]


def _confidence(text: str, path: Path, line: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataFormatError(
            path, line, f"the confidence {text!r}", "a number, 0 for a false triple"
        ) from None


def _csv_rows(path: Path, split: str) -> Iterator[tuple[int, str, str, str]]:
    """Line, head, relation and tail for every member of every list of a split's rows."""
    rows = _csv_cells(path)
    _, header = next(rows)
    relations = [(column, name) for column, name in enumerate(header) if name not in _CSV_FRAME]
    for line, cells in rows:
        if cells[-1] not in _CSV_SPLITS.values():
            raise DataFormatError(path, line, f"the split {cells[-1]!r}", ", ".join(_CSV_SPLITS.values()))
        if cells[-1] != _CSV_SPLITS[split]:
            continue
        for column, relation in relations:
            for tail in _tails(cells[column], path, line, relation):
                yield line, cells[0], relation, tail.strip()


def _csv_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a csv of ATOMIC, its header first, each with the line that it ends on."""
    reader = csv.reader(text + "\n" for _, text in read_lines(path))
    width = 0
    try:
        for cells in reader:
            if not cells:
                continue
            if not width:
                width = len(cells)
                if width < 3 or cells[0] != _CSV_FRAME[0] or cells[-1] != _CSV_FRAME[-1]:
                    raise DataFormatError(
                        path,
                        reader.line_num,
                        f"the columns {', '.join(cells)}",
                        "event first, one column a relation with JSON lists, split last",
                    )
            if len(cells) != width:
                raise DataFormatError(
                    path, reader.line_num, f"{len(cells)} columns", f"{width} columns, as in the first line"
                )
            yield reader.line_num, cells
    except csv.Error as error:
        raise DataFormatError(path, reader.line_num, str(error), "comma-separated values") from error


def _tails(cell: str, path: Path, line: int, relation: str) -> list[str]:
    try:
        tails = json.loads(cell)
    except ValueError:
        tails = None
    if not isinstance(tails, list) or not all(isinstance(tail, str) for tail in tails):
        raise DataFormatError(path, line, f"{cell!r} in the column {relation}", "a JSON list of texts")
    return tails
