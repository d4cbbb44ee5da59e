"""Columns of the tables of event hierarchies, and keys of their JSON lines."""

from __future__ import annotations

from eventformers.datasets_scripts.record_files import Column

MENTION_COLUMNS = (
    Column("context_left", "text", "text before the mention, with the blank at its end"),
    Column("mention", "text", "words of the mention", required=True),
    Column("context_right", "text", "text after the mention, with the blank at its start"),
    Column("context_lang", "text", "code of the language", required=True, other_names=("language",)),
    Column("label_id", "text", "event that it refers to; without it, the first of `gold_label_ids`"),
    Column("gold_label_ids", "list of texts", "the event, then its ancestors", other_names=("event_ids",)),
    Column("context_title", "text", "title of the document", other_names=("title",)),
    Column("context_date", "text", "date of the document", other_names=("date",)),
    Column("mention_id", "text", "id of the mention; without it, the file and the line", other_names=("id",)),
    Column("source", "text", "corpus; without it, the name of the folder"),
    Column("license", "text", "terms of use, as an identifier of SPDX"),
)

EVENT_COLUMNS = (
    Column("label_id", "text", "id of the event", required=True, other_names=("event_id",)),
    Column("label_title", "text", "its title", required=True, other_names=("title",)),
    Column("label_desc", "text", "its description", other_names=("label_description", "description")),
    Column("label_lang", "text", "code of the language", required=True, other_names=("language",)),
)

HIERARCHY_FIELDS = ("part_of", "has_part", "follows", "followed_by", "P361", "P527", "P155", "P156")

HIERARCHY_COLUMNS = (
    Column("label_id", "text", "id of the event", required=True, other_names=("event_id",)),
    *(
        Column(name, "list of texts", meaning, other_names=(property_id,))
        for name, property_id, meaning in (
            ("part_of", "P361", "events that it is part of"),
            ("has_part", "P527", "its parts"),
            ("follows", "P155", "events before it"),
            ("followed_by", "P156", "events after it"),
        )
    ),
    Column("split", "text", "split of the event: train, validation or test"),
)

EDGE_HEADERS = (
    ("child_id", "relation", "parent_id"),
    ("child_id", "parent_id"),
    ("event_id", "next_event_id"),
    ("head_qid", "property", "tail_qid"),
)
"""Required columns of a file of edges; the first set that fits is read."""

EDGE_COLUMNS = (
    Column("child_id", "text", "event that is part of `parent_id`", other_names=("head_qid",)),
    Column("relation", "text", "a field of hierarchies; without it, `part_of`", other_names=("property",)),
    Column("parent_id", "text", "the whole", other_names=("tail_qid",)),
    Column("event_id", "text", "event before `next_event_id`, in a table of sequences"),
    Column("next_event_id", "text", "the later event"),
)
