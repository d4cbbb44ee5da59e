"""A small commonsense graph in memory, as the `_pairs` configs of `CommonsenseGraphs` hold it."""

from __future__ import annotations

from datasets import Dataset, DatasetDict

from eventformers.datasets_scripts.relation_templates import DIRECTIONS, relation_templates

TRIPLES = {
    "train": (
        ("storm", "Causes", "flood"),
        ("storm", "Causes", "fire"),
        ("doctor", "CapableOf", "treated patient"),
        ("judge", "AtLocation", "court"),
        ("car", "UsedFor", "crossed bridge"),
        ("fire", "Causes", "lost house"),
    ),
    "validation": (("flood", "Causes", "lost house"), ("doctor", "CapableOf", "hit player")),
}


def pairs_of(triples: dict[str, tuple[tuple[str, str, str], ...]] = TRIPLES) -> DatasetDict:
    """Both directions of each triple, one after the other, by split."""
    templates = relation_templates("conceptnet")
    splits = {}
    for split, rows in triples.items():
        columns: dict[str, list[str]] = {"premise": [], "alternative": [], "direction": []}
        for head, relation, tail in rows:
            for direction in DIRECTIONS:
                premise, alternative = templates.pair(head, relation, tail, direction)
                columns["premise"].append(premise)
                columns["alternative"].append(alternative)
                columns["direction"].append(direction)
        splits[split] = Dataset.from_dict(columns)
    return DatasetDict(splits)
