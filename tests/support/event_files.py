"""Raw files of a knowledge base."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

STORIES = (
    "Anna called Police. Anna watched the thief. Anna opened the door.",
    "Peter called Maria. Peter watched the house. Peter opened the letter.",
    "Maria sold the car. Maria painted the house. Maria went to the shop.",
    "Anna called Police. Peter opened the door.",
)
"""Texts with events."""

EVENTS = [("Q1", "en", "call of the police", "Anna called"), ("Q2", "en", "opened door", "a door is opened")]
"""Events of a knowledge base for them."""


def write_events(folder: Path, events: Sequence[tuple[str, str, str, str]]) -> Path:
    """Write a dictionary of events: id, language, title and description of each."""
    names = ("label_id", "label_lang", "label_title", "label_desc")
    lines = [json.dumps(dict(zip(names, event, strict=True))) + "\n" for event in events]
    folder.mkdir(exist_ok=True)
    (folder / "label_dict.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode()))
    return folder


def write_edges(folder: Path, edges: Sequence[tuple[str, str]]) -> Path:
    """Write a file of edges from child to parent."""
    lines = ["child_id,parent_id", *(",".join(edge) for edge in edges)]
    (folder / "edges.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
