"""Grounding of extracted events by head words and by whole mentions, with an untrained encoder.

    python benchmarks/grounded_mentions.py ../shared/data/hierarchy/current_events

The texts are those of development mentions within a sentence; the event is the first one whose
trigger is in the mention. It is compared with title and description of all labels by the cosine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eventformers import encode
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.lines import read_json_values
from eventformers.extraction.extractor import (
    EventExtractor,
    ExtractionCounts,
    ExtractionSettings,
    installed_pipeline,
)
from eventformers.extraction.texts import TextDocument

LONGEST_DESCRIPTION = 200


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file of lines."""
    return [row for _, row in read_json_values(path, SkippedRows(), "a JSON object a line")]


def forms(mentions: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """Yield each mention that has an event with the texts of the event by their forms."""
    texts = (row["context_left"] + row["mention"] + row["context_right"] for row in mentions)
    documents = [TextDocument(str(number), text, "", "") for number, text in enumerate(texts)]
    extractor = EventExtractor(ExtractionSettings(installed_pipeline()))
    for extracted in extractor.extract(documents, ExtractionCounts()):
        row = mentions[int(extracted.document.document_id)]
        start = len(row["context_left"])
        places = range(start, start + len(row["mention"]))
        event = next((one for one in extracted.events if one["trigger_start"] in places), None)
        if event is not None:
            parts = (event["subject_span"], event["predicate"], event["object_span"])
            yield (
                row,
                {
                    "trigger": event["trigger"],
                    "head words": event["text"],
                    "whole mentions": " ".join(filter(None, parts)),
                    "sentence": extracted.document.text[event["sentence_start"] : event["sentence_end"]],
                },
            )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print hits and mean reciprocal rank by form."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="Folder with dev.jsonl.gz and label_dict.jsonl.gz.")
    path = parser.parse_args(arguments).path
    labels = read_rows(path / "label_dict.jsonl.gz")
    number_of = {label["label_id"]: number for number, label in enumerate(labels)}
    mentions = [row for row in read_rows(path / "dev.jsonl.gz") if row["mention_type"] != "sentence"]
    found = list(forms(mentions))
    texts = [f"{label['label_title']}. {label['label_desc']}"[:LONGEST_DESCRIPTION] for label in labels]
    known = encode(None, texts, prompt_name=None, normalize=True)
    print(f"{len(found)} of {len(mentions)} mentions have an event\n")
    print("| form | hit@1 | hit@10 | MRR |\n|---|--:|--:|--:|")
    for form in found[0][1]:
        scores = encode(None, [one[form] for _, one in found], prompt_name=None, normalize=True) @ known.T
        gold = [[number_of[one] for one in row["gold_label_ids"] if one in number_of] for row, _ in found]
        best = np.array([row[numbers].max() for row, numbers in zip(scores, gold, strict=True)])
        ranks = 1 + (scores > best[:, None]).sum(axis=1)
        shares = (100 * value for value in ((ranks <= 1).mean(), (ranks <= 10).mean(), (1 / ranks).mean()))
        print(f"| {form} | " + " | ".join(f"{share:.1f}" for share in shares) + " |")


if __name__ == "__main__":
    main()
