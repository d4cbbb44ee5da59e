"""Measure types given as a list, by name, definition and examples, on the mentions of GENEVA and FewEvent:

    python benchmarks/type_list.py ../shared/data/event_types

Accuracy: every mention gets the nearest of all types. F1: a fifth of the types are listed, and mentions of
the others should get none. Examples are drawn with three seeds, at most half of the mentions of a type, and
are not scored.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from eventformers.exploration.types import UNTYPED, Types, listed_types
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding.vectors import Vectors, unit_vectors
from eventformers.inference.induction.mention_encoding import encode_mentions
from eventformers.inference.induction.type_list import ListedType

SEEDS = range(3)
SHOTS = (0, 3, 10)


@cache
def encoder() -> EventEncoder:
    """The default encoder of `explore`."""
    return load_encoder(None)


def example(row: Mapping[str, Any]) -> str:
    """The sentence with its trigger in brackets."""
    text, trigger = row["sentence"].replace("[", "(").replace("]", ")"), row["trigger"]
    start, end = trigger["start_char"], trigger["end_char"]
    return f"{text[:start]}[{text[start:end]}]{text[end:]}"


def scores(
    rows: Sequence[Mapping[str, Any]], vectors: Vectors, definitions: Mapping[str, str], shots: int, seed: int
) -> tuple[float, float, float]:
    """Accuracy, its mean over types, and F1 of types among others."""
    random = np.random.default_rng(seed)
    gold = np.array([row["event_type"] for row in rows])
    names = np.unique(gold)
    drawn = {
        name: random.permutation(found)[: min(shots, len(found) // 2)]
        for name in names.tolist()
        for found in [np.flatnonzero(gold == name)]
    }
    kept = np.setdiff1d(np.arange(len(rows)), np.concatenate(list(drawn.values())))

    def listed(chosen: Sequence[str]) -> Types:
        types = [
            ListedType(
                name.replace("_", " ").replace("-", " ").lower(),
                definitions.get(name, ""),
                tuple(example(rows[place]) for place in drawn[name]),
                "",
            )
            for name in chosen
        ]
        return listed_types(types, vectors[kept], encoder())

    nearest = names[(vectors[kept] @ listed(names.tolist()).centroids.T).argmax(axis=1)]
    right = nearest == gold[kept]
    of_types = [right[gold[kept] == name].mean() for name in np.unique(gold[kept])]
    few = np.sort(random.permutation(names)[: max(3, len(names) // 5)])
    assigned = listed(few.tolist()).assign(vectors[kept])
    found = np.where(assigned == UNTYPED, "", few[assigned])
    f1 = 2 * np.sum(found == gold[kept]) / (np.sum(found != "") + np.sum(np.isin(gold[kept], few)))
    return right.mean(), float(np.mean(of_types)), f1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "folder", type=Path, help="folder with geneva.jsonl.gz, its ontology and fewevent.jsonl"
    )
    folder = parser.parse_args().folder
    ontology = json.loads((folder / "geneva_ontology.json").read_text(encoding="utf-8"))
    definitions = {name: entry["description"] for name, entry in ontology.items()}
    print("| data | types | examples | accuracy | mean over types | F1, a fifth listed |")
    print("|---|---|---|---|---|---|")
    for name, file, told in (("GENEVA", "geneva.jsonl.gz", definitions), ("FewEvent", "fewevent.jsonl", {})):
        opened = gzip.open if file.endswith(".gz") else open
        with opened(folder / file, "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        mentions = [
            {
                "text": row["sentence"],
                "trigger_start": row["trigger"]["start_char"],
                "trigger_end": row["trigger"]["end_char"],
            }
            for row in rows
        ]
        read = encode_mentions(encoder(), mentions, trigger_input="span")
        vectors = unit_vectors(read.embeddings, [row["id"] for row in rows]).astype(np.float32)
        types = len({row["event_type"] for row in rows})
        for shots in SHOTS:
            means = 100 * np.mean([scores(rows, vectors, told, shots, seed) for seed in SEEDS], axis=0)
            print(f"| {name} | {types} | {shots} | " + " | ".join(f"{mean:.1f}" for mean in means) + " |")


if __name__ == "__main__":
    main()
