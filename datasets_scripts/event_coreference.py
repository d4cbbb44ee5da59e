"""Builder of event mentions, each labelled with its event, within and across documents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from eventformers.datasets_scripts.base import SAMPLE_ORIGIN, EventDatasetBuilder
from eventformers.datasets_scripts.document_splits import SPLIT_WORDS, SPLITS, DistinctIds
from eventformers.datasets_scripts.mention_reader import UNUSED_KEYS, mention_of, named
from eventformers.datasets_scripts.reading.ecbplus import (
    ARCHIVE,
    DEVELOPMENT_TOPICS,
    SENTENCE_LIST,
    TEST_TOPICS,
    EcbDocument,
    EcbMention,
    ecbplus_topics,
    read_ecbplus,
)
from eventformers.datasets_scripts.reading.fields import Record
from eventformers.datasets_scripts.reading.lines import files_inside, unpacked_name
from eventformers.datasets_scripts.reading.tables import (
    Column,
    columns_of,
    first_record,
    has_records,
    read_records,
)
from eventformers.datasets_scripts.reading.wec import WEC_FILE, read_wec
from eventformers.errors import shown

_ORIGIN = ("ecbplus", "CC-BY-3.0")
_WEC_ORIGIN = ("wec_eng", "CC-BY-SA-3.0")
_OF_TYPES = ("event_type", "parent_type", "frames")
OWN_COLUMNS = columns_of("coreference")
"""Columns of a table of one's own mentions, and keys of JSON lines."""
_ACCEPTED = 'one JSON object a line with "text", "trigger", "document_id" and "cluster_id"'


class EventCoreference(EventDatasetBuilder):
    """Mentions of events with the event of each, from ECB+ (`reading.ecbplus`) or WEC-Eng (`reading.wec`) as
    their owners publish them.

    Of ECB+, only the sentences whose annotation is complete have rows. The splits are the usual ones: topics
    36 to 45 test, 2, 5, 12, 18, 21, 23, 34 and 35 validate, and the others train. `cluster_id` is the event;
    a mention that shares it with no other has one of its own. A topic has two `subtopic`s: two similar events
    with reports of their own. `participants` are the annotated people, things, times and places of
    the sentence. `trigger_start` and `trigger_end` are characters of `text`, the sentence; a trigger of
    several words reaches from its first to its last.

    WEC-Eng has no topics; its `text` is a paragraph of Wikipedia.

    One's own mentions are JSON lines or tables with the same columns, of which `text`, `trigger` or its
    offsets, and `cluster_id` are needed. A file with `dev`, `validation` or `test` in its name is that split.
    """

    NAME = "event_coreference"
    SPLITS = SPLITS
    SAMPLES_FOLDER = "coreference"
    TABLES: ClassVar[Mapping[str, tuple[Column, ...]]] = {"mentions": OWN_COLUMNS}

    @classmethod
    def find_raw_files(cls, config_name: str, paths: list[Path]) -> dict[str, list[Path]]:
        """Find the archive or its folder, in a folder or given directly, and the list of sentences; else the
        files of one's own mentions."""
        for path in paths:
            for place in (path, path / ARCHIVE, path / f"{ARCHIVE}.zip"):
                topics = ecbplus_topics(place)
                sentences = place.parent / SENTENCE_LIST
                if topics and sentences.is_file():
                    files = sorted(place.glob("*/*.xml")) if place.is_dir() else [place]
                    files.append(sentences)
                    return {split: files for split in cls.SPLITS if topics & _topics(split, topics)}
        found: dict[str, list[Path]] = {split: [] for split in cls.SPLITS}
        for path in paths:
            for file in files_inside(path, lambda name: False):
                if WEC_FILE.fullmatch(file.name) or (
                    has_records(file) and "cluster_id" in (first_record(file) or ())
                ):
                    words = re.split(r"[._\-]+", unpacked_name(file).lower())
                    splits = {SPLIT_WORDS[word] for word in words if word in SPLIT_WORDS}
                    found[splits.pop() if len(splits) == 1 else "train"].append(file)
        return {split: files for split, files in found.items() if files}

    def examples(self) -> Iterator[Mapping[str, object]]:
        """Yield the mentions and fill `self.report`.

        Raises:
            DataFormatError: a file is malformed; names it and the line.
        """
        chains: Counter[object] = Counter()
        is_published = self.split_files[self.split][-1].name == SENTENCE_LIST
        for row in self._published() if is_published else self._own():
            chains[row["cluster_id"]] += 1
            yield row
        self.report.statistics["chains"] = len(chains)
        self.report.statistics["chains_of_one_mention"] = sum(count == 1 for count in chains.values())

    def _own(self) -> Iterator[dict[str, object]]:
        notes: Counter[str] = Counter()
        ids = DistinctIds()
        sentences: dict[str, dict[str, int]] = {}
        ignored = (*UNUSED_KEYS, *_OF_TYPES)
        source, license_name = SAMPLE_ORIGIN if self.is_sample else _WEC_ORIGIN
        of_wec: dict[str, Any] = dict.fromkeys(("topic", "subtopic", "kind"), "")
        of_wec |= {"sentence": None, "participants": [], "source": source, "license": license_name}

        def own_row(record: Record) -> dict[str, Any]:
            # Mentions of types call their text a sentence.
            sentence, participants = record.pop("sentence", None), record.get("participants") or []
            if sentence is not None and not (isinstance(sentence, int) and sentence >= 0):
                raise record.fault(f"the sentence {shown(sentence)}", "a whole number from 0")
            if not isinstance(participants, list) or not all(
                isinstance(one, dict) and all(isinstance(one.get(name), str) for name in ("text", "kind"))
                for one in participants
            ):
                found = f"participants={shown(participants)}"
                raise record.fault(found, 'a list of objects with "text" and "kind"')
            mention = mention_of(record, notes)
            if mention.trigger_start < 0:
                raise record.fault(f"no trigger in the mention {named(mention.mention_id)}", _ACCEPTED)
            return {
                **{name: value for name, value in mention._asdict().items() if name not in _OF_TYPES},
                **{name: record.text(name) for name in ("topic", "subtopic", "cluster_id", "kind")},
                "sentence": sentence,
                "participants": [{name: one[name] for name in ("text", "kind")} for one in participants],
            }

        for path in self.split_files[self.split]:
            skipped = self.report.skipped
            if WEC_FILE.fullmatch(path.name):
                rows: Iterable[dict[str, Any]] = ({**of_wec, **row} for row in read_wec(path, skipped))
            else:
                rows = read_records(path, skipped, OWN_COLUMNS, _ACCEPTED, own_row, ignored=ignored)
            for row in rows:
                self.report.read["mentions"] += 1
                numbers = sentences.setdefault(row["document_id"], {})
                number = numbers.setdefault(row["text"], len(numbers))
                mention_id = ids.of(row["mention_id"])
                self.report.add_source(row["source"], row["license"], mentions=1)
                yield {
                    **row,
                    "mention_id": mention_id,
                    "cluster_id": row["cluster_id"] or mention_id,
                    "sentence": number if row["sentence"] is None else row["sentence"],
                }
        notes["mentions_with_repeated_id"] = ids.repeats
        self.report.statistics.update({name: count for name, count in sorted(notes.items()) if count})

    def _published(self) -> Iterator[dict[str, object]]:
        *files, _ = self.split_files[self.split]
        place = files[0] if files[0].suffix == ".zip" else files[0].parent.parent
        topics = _topics(self.split, ecbplus_topics(place))
        source, license_name = SAMPLE_ORIGIN if self.is_sample else _ORIGIN
        for document in read_ecbplus(place, topics):
            self.report.read["documents"] += 1
            mentions = [mention for mention in document.mentions if mention.is_event]
            self.report.read["mentions"] += len(mentions)
            rows = [_row(document, mention) for mention in document.listed_mentions() if mention.is_event]
            self.report.skipped["mention_in_a_sentence_not_listed"] += len(mentions) - len(rows)
            if rows:
                self.report.add_source(source, license_name, documents=1, mentions=len(rows))
            for row in rows:
                yield {**row, "source": source, "license": license_name}


def _topics(split: str, found: frozenset[str]) -> frozenset[str]:
    """The topics of a split, of those that the data has."""
    held_out = {"validation": DEVELOPMENT_TOPICS, "test": TEST_TOPICS}
    if split in held_out:
        return found.intersection(held_out[split])
    return found.difference(*held_out.values())


def _row(document: EcbDocument, mention: EcbMention) -> dict[str, object]:
    sentence = document.sentences[mention.tokens[0]]
    inside = [place for place, number in enumerate(document.sentences) if number == sentence]
    start = document.places[inside[0]][0]
    first, last = document.places[min(mention.tokens)][0], document.places[max(mention.tokens)][1]
    mention_id = f"{document.name}#{mention.id}"
    return {
        "mention_id": mention_id,
        "document_id": document.name,
        "topic": document.topic,
        "subtopic": document.topic + document.name.rpartition("_")[2].lstrip("0123456789"),
        "cluster_id": mention.chain or mention_id,
        "sentence": sentence,
        "text": document.text[start : document.places[inside[-1]][1]],
        "trigger": " ".join(document.tokens[place] for place in mention.tokens),
        "trigger_start": first - start,
        "trigger_end": last - start,
        "kind": mention.kind,
        "participants": [
            {"text": " ".join(document.tokens[place] for place in other.tokens), "kind": other.kind}
            for other in document.mentions
            if not other.is_event and document.sentences[other.tokens[0]] == sentence
        ],
    }
