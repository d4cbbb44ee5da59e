"""Reader of WEC-Eng (Eirew, Cattan and Dagan, NAACL 2021), as its owners publish it: for each split a JSON
list of mentions, each with the tokens of its paragraph in Wikipedia."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.fields import Record, checked_record
from eventformers.datasets_scripts.reading.lines import parse_json, read_regular_text
from eventformers.errors import DataFormatError, shown

WEC_FILE = re.compile(r"(Train|Dev|Test)_Event_gold_mentions(?:_validated)?\.json")
"""The file of a split; `All_Event_gold_mentions_unfiltered.json` repeats the mentions of the others."""

_KEYS = (
    *("coref_chain", "coref_link", "doc_id", "mention_context", "mention_head", "mention_head_lemma"),
    *("mention_head_pos", "mention_id", "mention_index", "mention_ner", "mention_type"),
    *("predicted_coref_chain", "sent_id", "tokens_number", "tokens_str", "topic_id"),
)
_ACCEPTED = 'a list of mentions with "coref_chain", "doc_id", "mention_context" and "tokens_number"'


def read_wec(path: Path, skipped: SkippedRows) -> Iterator[dict[str, Any]]:
    """Read the mentions of a split, with offsets in the paragraph.

    Raises:
        DataFormatError: the file is no JSON list, or a mention is malformed; its number stands for the line.
    """
    # A file is one value of up to 90 MB.
    mentions = parse_json(read_regular_text(path, _ACCEPTED, is_limited=False), path, None, _ACCEPTED)
    if not isinstance(mentions, list):
        raise DataFormatError(path, None, shown(mentions), _ACCEPTED)
    yield from skipped.parsed_rows(
        enumerate(mentions, 1),
        lambda number, value: _mention(checked_record(value, _KEYS, path, number, _ACCEPTED)),
    )


def _mention(record: Record) -> dict[str, Any]:
    words, places, chain = (record.get(name) for name in ("mention_context", "tokens_number", "coref_chain"))
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise record.fault(f"mention_context={shown(words)}", "a list of tokens")
    known = range(len(words))
    # 1.0 and true are in a range, too.
    if (
        not isinstance(places, list)
        or not places
        or not all(type(one) is int and one in known for one in places)
    ):
        accepted = f"one or more places in mention_context, 0 to {len(words) - 1}"
        raise record.fault(f"tokens_number={shown(places)}", accepted)
    if type(chain) is not int:
        raise record.fault(f"coref_chain={shown(chain)}", "a whole number")
    first, last = min(places), max(places)
    start = sum(len(word) + 1 for word in words[:first])
    trigger = " ".join(words[first : last + 1])
    return {
        "mention_id": record.text("mention_id"),
        "document_id": record.text("doc_id"),
        "cluster_id": str(chain),
        "text": " ".join(words),
        "trigger": trigger,
        "trigger_start": start,
        "trigger_end": start + len(trigger),
    }
