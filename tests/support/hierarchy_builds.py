"""Raw files of event hierarchies as they are published, and what is built of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from datasets import DatasetDict

from eventformers.datasets_scripts import built_report, load_built
from eventformers.datasets_scripts.event_hierarchies import EventHierarchies

TITLES = {
    "1": {"en": "War", "ar": "حرب"},
    "2": {"en": "Campaign", "ar": "حملة"},
    "3": {"en": "Battle", "ar": "معركة"},
    "4": {"en": "Later war"},
    "5": {"en": "Peace"},
    "6": {"ar": "مهرجان"},
}
"""Events by language. Battle is part of campaign, which is part of war, which the later war follows."""


def mention(event: str, language: str = "en", **more: object) -> dict[str, object]:
    texts = {"context_left": "In the ", "mention": "event", "context_right": " of it."}
    return {**texts, "context_lang": language, "label_id": event, **more}


def write(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def write_numbered(folder: Path, numbers: Iterable[int]) -> None:
    """Write a dictionary of events with these numbers."""
    rows = ({"label_id": str(one), "label_title": f"E{one}", "label_lang": "en"} for one in numbers)
    write(folder / "label_dict.jsonl", *rows)


def dictionary(field: str = "label_desc") -> list[dict[str, str]]:
    return [
        {"label_id": event, "label_title": title, field: f"About {event}.", "label_lang": language}
        for event, titles in TITLES.items()
        for language, title in titles.items()
    ]


def properties() -> list[dict[str, object]]:
    edges = [("Q3", "P361", "Q2"), ("Q1", "P527", "Q2"), ("Q4", "P155", "Q1"), ("Q5", "P361", "Q99")]
    return [
        {"qid": item, "pid": name, "datavalue": [{"value": {"id": {"value": other}}}]}
        for item, name, other in edges
    ]


def write_published(folder: Path) -> Path:
    """XLEL-WD's files as they lie on the Hub, with the file of Wikidata's properties beside them."""
    news = {"context_title": "News", "context_date": "2012-08-12"}
    write(folder / "wikipedia.train.jsonl", mention("3"), mention("3", "ar"), mention("4"))
    write(folder / "wikipedia-zero-shot.dev.jsonl", mention("5"))
    write(folder / "wikipedia-zero-shot.test.jsonl", mention("6", "ar"))
    write(folder / "wikinews-zero-shot.test.jsonl", mention("6", "ar", **news))
    write(folder / "wikinews-cross-domain.test.jsonl", mention("2", **news), mention("3", **news))
    write(folder / "label_dict.jsonl", *dictionary())
    write(folder / "wd_item_props.jsonl", *properties())
    return folder


def load(data: Path | None, config: str = "mentions", **settings: object) -> DatasetDict:
    return load_built(data, config, builder="event_hierarchies", **settings)


def report_of(data: Path | None, config: str = "mentions", **settings: object) -> dict[str, Any]:
    return built_report(data, config, builder="event_hierarchies", **settings)


def gold_of(data: Path | None, **settings: object) -> dict[str, list[list[str]]]:
    return {split: rows["event_ids"][:] for split, rows in load(data, **settings).items()}


def edges_of(data: Path | None, config: str, **settings: object) -> dict[str, list[tuple[str, ...]]]:
    names = list(EventHierarchies.features(config))[:2]
    return {
        split: list(zip(*(rows[name] for name in names), strict=True))
        for split, rows in load(data, config, **settings).items()
    }
