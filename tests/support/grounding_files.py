"""Raw files of event grounding: wars with their battles, and mentions of them, in two languages."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

WARS, BATTLES = 4, 3
WORDS = ("police", "storm", "bank", "court")
PLACES = ("city", "bridge", "river")
CONTEXTS = ("the {} said it", "they saved the {}")


def war(number: int) -> str:
    """The id of a war."""
    return str(10 * (number + 1))


def battle(number: int, place: int) -> str:
    """The id of one of its battles."""
    return str(10 * (number + 1) + place + 1)


def _title(number: int, place: int | None, language: str) -> str:
    name = WORDS[number] if place is None else f"{WORDS[number]} {PLACES[place]}"
    return name if language == "en" else f"der {name}"


def grounding_events() -> list[dict[str, str]]:
    """A dictionary in the form of XLEL-WD: four wars with three battles each, in English and German.

    Of the last war there are no German texts.
    """
    return [
        {
            "label_id": war(number) if place is None else battle(number, place),
            "label_title": _title(number, place, language),
            "label_desc": "the team won" if place is None else "",
            "label_lang": language,
        }
        for number in range(WARS)
        for place in (None, *range(BATTLES))
        for language in (("en", "de") if number < WARS - 1 else ("en",))
    ]


def grounding_mentions() -> list[dict[str, object]]:
    """Mentions of every battle and war, two of each in English and one in German, with the gold path."""
    rows: list[dict[str, object]] = []
    for number in range(WARS):
        for place in (None, *range(BATTLES)):
            gold = [war(number)] if place is None else [battle(number, place), war(number)]
            for language, contexts in (("en", CONTEXTS), ("de", CONTEXTS[:1])):
                for context in contexts:
                    left, right = context.split("{}")
                    rows.append(
                        {
                            "context_left": left,
                            "mention": _title(number, place, language),
                            "context_right": right,
                            "context_lang": language,
                            "label_id": gold[0],
                            "gold_label_ids": gold,
                        }
                    )
    return rows


def write_grounding(
    folder: Path,
    mentions: Sequence[dict[str, object]] | None = None,
    events: Collection[str] | None = None,
) -> Path:
    """Write mentions, by default those of `grounding_mentions`, with the dictionary and the hierarchy.

    Args:
        folder: where the files go.
        mentions: the mentions.
        events: the ids of the events in the dictionary; None takes all of `grounding_events`.
    """
    edges = [
        {
            "qid": f"Q{battle(number, place)}",
            "pid": "P361",
            "datavalue": [{"value": {"id": {"value": f"Q{war(number)}"}}}],
        }
        for number in range(WARS)
        for place in range(BATTLES)
    ]
    described = [event for event in grounding_events() if events is None or event["label_id"] in events]
    for name, rows in (
        ("wikipedia.train.jsonl", grounding_mentions() if mentions is None else mentions),
        ("label_dict.jsonl", described),
        ("wd_item_props.jsonl", edges),
    ):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / name).write_text(text, encoding="utf-8")
    return folder
